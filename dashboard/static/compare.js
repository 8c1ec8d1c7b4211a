// The first page: its form is the view, the view is the address, and the address is what is drawn.
import { colour, draw, faint, listen, numbers, refresh, smoothed, symbol } from "./plots.js";

const live = document.getElementById("live");
let form = document.getElementById("view");
let shown = null;

function view() {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "" || name === "task") given.append(name, value);
  return given;
}

function title(name) {
  return form.elements[name].selectedOptions[0].textContent;
}

function paint() {
  if (!shown || !document.getElementById("pareto")) return;
  const order = new Map([...shown.groups].map((group) => group.label).sort().map((label, index) => [label, index]));
  // Both legends name the groups in the order of the table.
  const rank = new Map(shown.groups.map((group, index) => [group.label, index]));
  const points = shown.pareto.map((point) => ({
    type: "scatter", mode: "markers", name: point.label, legendgroup: point.label, legendrank: rank.get(point.label),
    x: [point.cost], y: [point.value],
    // A spread that no screen resolves would, alone in the plot, be blown up to its whole width.
    error_x: { type: "data", array: [point.cost_std ?? 0], visible: point.cost_std !== null && point.cost_std > 0.005 * point.cost, thickness: 1.2 },
    error_y: { type: "data", array: [point.value_std ?? 0], visible: point.value_std !== null, thickness: 1.2 },
    marker: { size: point.on_frontier ? 12 : 9, symbol: symbol(order.get(point.label)), color: colour(order.get(point.label)), opacity: point.on_frontier ? 1 : 0.8 },
    hovertemplate: `%{x:.4g}, %{y:.4f}<br>${point.run_ids.length} run(s)<extra>%{fullData.name}</extra>`,
  }));
  const frontier = shown.pareto.filter((point) => point.on_frontier);
  points.unshift({
    type: "scatter", mode: "lines", name: "frontier", x: frontier.map((point) => point.cost), y: frontier.map((point) => point.value),
    line: { shape: "hv", dash: "dot", width: 1.5, color: faint(colour(8), 0.9) }, hoverinfo: "skip",
  });
  draw("pareto", points, { x: title("cost"), y: title("value"), logx: form.elements.costaxis.value === "log" });

  const share = Number(form.elements.smooth.value) / 100;
  const mean = form.elements.lines.value === "mean";
  const labels = new Map(shown.groups.flatMap((group) => group.run_ids.map((run) => [run, group.label])));
  const lines = mean
    ? shown.means.map((curve) => ({ name: curve.label, label: curve.label, xs: curve.xs, ys: numbers(curve.mean), std: curve.std }))
    : shown.curves.map((curve) => ({ name: curve.name || curve.run_id, label: labels.get(curve.run_id), xs: curve.xs, ys: numbers(curve.ys), std: null }));
  const traces = [];
  for (const line of lines) {
    const ink = colour(order.get(line.label) ?? 0);
    const xs = numbers(line.xs);
    const common = { type: "scatter", mode: line.ys.length === 1 ? "markers" : "lines", x: xs, name: line.name, legendgroup: line.name, legendrank: rank.get(line.label) ?? 1000 };
    if (line.std?.some((value) => value !== null)) {
      const edge = (sign) => line.ys.map((value, at) => (value === null ? null : value + sign * (line.std[at] ?? 0)));
      const band = { ...common, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      traces.push({ ...band, y: edge(-1) }, { ...band, y: edge(1), fill: "tonexty", fillcolor: faint(ink, 0.15) });
    }
    if (share > 0) {
      traces.push({ ...common, y: line.ys, line: { color: faint(ink, 0.3), width: 1 }, hoverinfo: "skip", showlegend: false });
    }
    traces.push({ ...common, y: share > 0 ? smoothed(line.ys, share) : line.ys, line: { color: ink, width: 2 }, marker: { color: ink, size: 8 } });
  }
  draw("curves", traces, { x: title("x"), y: title("y"), logx: form.elements.logx.checked, logy: form.elements.logy.checked });
  for (const swatch of document.querySelectorAll(".swatch")) {
    swatch.style.backgroundColor = colour(order.get(swatch.dataset.label) ?? 0);
  }
}

let asked = 0;
async function load() {
  const turn = ++asked;
  const query = view();
  for (const link of document.querySelectorAll("[data-export]")) link.search = query.toString();
  const response = await fetch(`${live.dataset.api}?${query}`);
  if (!response.ok || turn !== asked) return;
  shown = await response.json();
  paint();
}

async function apply() {
  const address = `${live.dataset.compare}?${view()}`;
  history.replaceState(null, "", address);
  await update(address);
}

async function update(address) {
  // What was picked since then would be lost with the list; that change asks again.
  const asked = String(view());
  const page = await refresh(address, undefined, () => String(view()) === asked);
  if (page && Boolean(page.getElementById("pareto")) !== Boolean(document.getElementById("pareto"))) {
    // The first run makes the page another one: with plots, and with filters that know of it.
    document.getElementById("main").replaceWith(document.importNode(page.getElementById("main"), true));
    form = document.getElementById("view");
  }
  await load();
}

let pending = null;
function applySoon() {
  clearTimeout(pending);
  pending = setTimeout(() => { pending = null; apply(); }, 120);
}

let coming = null;
function updateSoon() {
  clearTimeout(coming);
  coming = setTimeout(() => { if (pending === null) update(location.href); }, 800);
}

document.addEventListener("change", (event) => {
  if (event.target.form !== form) return;
  if (["logx", "logy", "costaxis", "smooth"].includes(event.target.name)) {
    history.replaceState(null, "", `${live.dataset.compare}?${view()}`);
    paint();
  } else applySoon();
});
document.addEventListener("input", (event) => { if (event.target.name === "smooth") paint(); });
document.addEventListener("submit", (event) => {
  if (event.target !== form) return;
  event.preventDefault();
  apply();
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-pick]")) return;
  for (const box of document.querySelectorAll('input[name="run"]:checked')) box.checked = false;
  apply();
});
document.addEventListener("theme", paint);
listen(live.dataset.events, { runs: updateSoon });
load();
