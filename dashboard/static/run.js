// A run's page: draws what is known and takes in what is new.
import { colour, draw, listen, numbers, refresh } from "./plots.js";

const live = document.getElementById("live");
const series = { accuracy: new Map(), loss: new Map(), bits: new Map(), downlink_bits: new Map() };

function trace(name, key, index, more = {}) {
  const points = [...series[key]].sort(([a], [b]) => a - b);
  return {
    type: "scatter", mode: points.length < 2 ? "markers" : "lines", name, x: points.map(([x]) => x), y: points.map(([, y]) => y),
    line: { color: colour(index), width: 2 }, marker: { color: colour(index), size: 8 }, ...more,
  };
}

function paint() {
  draw("progress", [trace("accuracy", "accuracy", 0), trace("loss", "loss", 1, { yaxis: "y2" })], { x: "round", y: "accuracy", y2: "loss", legend: true });
  draw("bits", [trace("up", "bits", 0), trace("down", "downlink_bits", 3)], { x: "round", y: "bits per coordinate", ranges: { fromZero: true }, legend: true });
}

let late = null;
function later(wait = 3000) {
  // The table of clients sums over all rounds: asking for it at each would be too often.
  late ??= setTimeout(() => { late = null; renew(); }, wait);
}

function renew() {
  const forms = document.querySelector('[data-part="actions"]');
  const typed = forms && [...forms.querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue);
  const busy = typed || forms?.contains(document.activeElement);
  refresh(location.href, ["clients", "place", ...(busy ? [] : ["actions"])]);
}

function tell({ text }) {
  const place = document.getElementById("log");
  const followed = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
  place.firstElementChild.textContent = text;
  place.hidden = !text;
  document.getElementById("no-log").hidden = Boolean(text);
  if (followed) place.scrollTop = place.scrollHeight;
}

function take(news) {
  document.getElementById("run-head").innerHTML = news.head;
  const body = document.getElementById("rounds");
  const holder = document.createElement("tbody");
  holder.innerHTML = news.rows;
  for (const row of [...holder.rows].reverse()) {
    body.querySelector(`[data-round="${row.dataset.round}"]`)?.remove();
    row.classList.add("new");
    body.prepend(row);
  }
  if (body.rows.length) document.getElementById("no-rounds")?.remove();
  for (const point of news.points) {
    for (const key of Object.keys(series)) if (point[key] !== null) series[key].set(point.round, point[key]);
  }
  if (news.points.length) { paint(); later(); }
}

const response = await fetch(live.dataset.curves);
if (response.ok) {
  for (const [key, curve] of Object.entries(await response.json())) {
    numbers(curve.ys).forEach((value, at) => { if (value !== null) series[key].set(curve.round_indices[at], value); });
  }
}
paint();
document.getElementById("log").scrollTop = Number.MAX_SAFE_INTEGER;
document.addEventListener("theme", paint);
listen(`${live.dataset.events}?after=${live.dataset.after}`, {
  rounds: take,
  run: (news) => { take(news); later(); },
  log: tell,
  reset: () => location.reload(),
  gone: (_, source) => { source.close(); document.getElementById("connection").textContent = "This run was deleted."; },
});
