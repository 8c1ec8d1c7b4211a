// The schemes' errors over their rates, with the bound that no code beats.
import { colour, draw, symbol } from "./plots.js";

const place = document.getElementById("curve");
const kind = document.getElementById("kind");
const rows = await (await fetch(place.dataset.rows)).json();

function family(row) {
  const options = row.spec.split(":")[1] ?? "";
  return [row.scheme, ...options.split(",").filter((option) => /^(quantizer|coding)=/.test(option)).map((option) => option.split("=")[1])].join(" ");
}

function paint() {
  const kept = rows.filter((row) => row.bits !== null && row.vnmse > 0 && (kind.value === "all" || row.unbiased === (kind.value === "unbiased")));
  const families = Map.groupBy ? Map.groupBy(kept, family) : kept.reduce((all, row) => all.set(family(row), [...(all.get(family(row)) ?? []), row]), new Map());
  const rates = Array.from({ length: 120 }, (_, index) => 0.1 * (170 ** (index / 119)));
  const bound = (unbiased) => rates.map((rate) => { const d = 4 ** -rate; return unbiased ? d / (1 - d) : d; });
  const traces = [];
  if (kind.value !== "biased") traces.push({ type: "scatter", mode: "lines", name: "Shannon bound, unbiased", x: rates, y: bound(true), line: { color: colour(8), width: 2, dash: "dot" }, hoverinfo: "skip" });
  if (kind.value !== "unbiased") traces.push({ type: "scatter", mode: "lines", name: "Shannon bound, any code", x: rates, y: bound(false), line: { color: colour(8), width: 1, dash: "dash" }, hoverinfo: "skip" });
  [...families].forEach(([name, group], index) => {
    group.sort((a, b) => a.bits - b.bits);
    traces.push({
      type: "scatter", mode: "lines+markers", name, x: group.map((row) => row.bits), y: group.map((row) => row.vnmse), text: group.map((row) => row.spec),
      line: { color: colour(index), width: 1.5 }, marker: { size: 8, symbol: symbol(index), color: colour(index) },
      hovertemplate: "%{text}<br>%{x:.4g} bits, vNMSE %{y:.3g}<extra></extra>",
    });
  });
  draw("curve", traces, { x: "bits per coordinate", y: "vNMSE", logx: true, logy: true, ranges: { x: [-1, 0.95], y: [-5, 1.6] } });
  for (const row of document.querySelectorAll("#schemes tbody tr")) {
    row.hidden = kind.value !== "all" && row.dataset.unbiased !== String(kind.value === "unbiased");
  }
}

kind.addEventListener("change", paint);
document.addEventListener("theme", paint);
paint();
