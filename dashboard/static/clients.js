// Who is slow and who sends how much, read from the table so that both say the same.
import { colour, draw } from "./plots.js";

function figure(text) {
  const found = text.replaceAll(",", "").replace("−", "-").match(/-?[\d.]+(e[+-]?\d+)?/i);
  return found ? Number(found[0]) : null;
}

function seconds(text) {
  const value = figure(text);
  if (value === null) return null;
  const hours = text.match(/(\d+) h (\d+) min/);
  if (hours) return Number(hours[1]) * 3600 + Number(hours[2]) * 60;
  return text.includes("min") ? value * 60 : value;
}

function paint() {
  const rows = [...document.querySelectorAll("#client-table tbody tr")].map((row) => ({
    name: row.cells[0].firstChild.textContent.trim(), rejected: figure(row.cells[4].textContent) ?? 0,
    standsOut: row.querySelector(".badge, .bad") !== null,
    bits: figure(row.cells[7].textContent), time: seconds(row.cells[9].textContent),
  }));
  const group = (name, kept, index) => {
    const mine = rows.filter((row) => kept(row) && row.bits !== null && row.time !== null);
    return {
      type: "scatter", mode: "markers+text", name, textposition: "top center", cliponaxis: false, textfont: { size: 10 },
      x: mine.map((row) => row.time), y: mine.map((row) => row.bits), text: mine.map((row) => (row.standsOut ? row.name : "")), customdata: mine.map((row) => row.name),
      marker: { size: 10, color: colour(index), symbol: index ? "x" : "circle" }, hovertemplate: "%{customdata}<br>%{x:.3g} s, %{y:.3g} bits<extra></extra>",
    };
  };
  draw("client-plot", [group("never rejected", (row) => !row.rejected, 0), group("rejected at least once", (row) => row.rejected > 0, 1)],
    { x: "mean training time, seconds", y: "bits per coordinate", ranges: { fromZero: "both" }, legend: true });
}

paint();
document.addEventListener("theme", paint);
