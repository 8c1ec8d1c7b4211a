// What all plots share: colours, layout, PNG files.

const LIGHT = ["#0b6e99", "#d1495b", "#2e8b57", "#c27c0e", "#7b4fa3", "#3d6fd1", "#8a5a44", "#c2478f", "#5b6770", "#1c9e9e"];
const DARK = ["#62b8e0", "#ff8a98", "#6fd39a", "#f0b454", "#c09be8", "#8fb2ff", "#d3a187", "#f194c8", "#aab6c0", "#5fd6d6"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];

export function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function colour(index) {
  const palette = isDark() ? DARK : LIGHT;
  return palette[index % palette.length];
}

export function symbol(index) {
  return SYMBOLS[Math.floor(index / LIGHT.length) % SYMBOLS.length];
}

export function faint(hex, share) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${share})`;
}

// Numbers that are not finite come as strings, which a plot leaves out.
export function numbers(values) {
  return values.map((value) => (typeof value === "number" ? value : null));
}

export function smoothed(values, share) {
  let kept = null;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    kept = (kept ?? 0) * share + value * (1 - share);
    weight = weight * share + (1 - share);
    return kept / weight;
  });
}

export async function ready() {
  // Plotly is loaded by a deferred script, which runs before modules do.
  return window.Plotly;
}

// Plotly writes 0.5 as a small 5. Over a decade or two every number is written out; beyond that, decades alone.
function logTicks(values) {
  const found = values.filter((value) => value > 0);
  const [low, high] = [Math.floor(Math.log10(Math.min(...found))), Math.ceil(Math.log10(Math.max(...found)))];
  if (!found.length || high - low > 3) return { dtick: 1 };
  const steps = high - low > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  const tickvals = Array.from({ length: high - low + 1 }, (_, at) => steps.map((step) => Number((step * 10 ** (low + at)).toPrecision(2)))).flat();
  return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => value.toLocaleString("en", { maximumSignificantDigits: 2 })) };
}

// On a phone a legend would take the plot's place; tables name the colours too.
function isWide() {
  return innerWidth > 600;
}

export function draw(id, traces, { x, y, y2, logx = false, logy = false, ranges = {}, legend = isWide() } = {}) {
  const place = document.getElementById(id);
  if (!place || !window.Plotly) return;
  const styles = getComputedStyle(document.documentElement);
  const ink = styles.getPropertyValue("--pico-color").trim() || "#333";
  const grid = styles.getPropertyValue("--plot-grid").trim();
  const empty = !traces.some((trace) => trace.x?.length);
  const axis = (title, log, key) => ({
    visible: !empty, // else Plotly invents a range
    ...(log ? logTicks(traces.flatMap((trace) => trace[key])) : {}),
    title: { text: title, standoff: 8 }, type: log ? "log" : "linear", gridcolor: grid, zerolinecolor: grid, linecolor: grid,
    // Powers would be written with superscripts, whose inline style the page's policy refuses.
    automargin: true, exponentformat: "e", hoverformat: ".4~g",
  });
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 12, family: styles.getPropertyValue("--pico-font-family-sans-serif") || "sans-serif" },
    margin: { l: 56, r: y2 ? 56 : 16, t: 8, b: 44 }, hovermode: "closest", dragmode: "zoom",
    showlegend: legend, legend: { orientation: "h", y: -0.22, yanchor: "top", font: { size: 11 } },
    hoverlabel: { namelength: 60 },
    xaxis: { ...axis(x, logx, "x"), ...(ranges.x ? { range: ranges.x } : {}), ...(ranges.fromZero === "both" ? { rangemode: "tozero" } : {}) },
    yaxis: { ...axis(y, logy, "y"), ...(ranges.y ? { range: ranges.y } : {}), ...(ranges.fromZero ? { rangemode: "tozero" } : {}) },
  };
  if (y2) layout.yaxis2 = { ...axis(y2, false), overlaying: "y", side: "right", showgrid: false, tickmode: "auto" };
  place.querySelector(".message")?.remove();
  window.Plotly.react(place, traces, layout, { responsive: true, displayModeBar: false, displaylogo: false });
  if (empty) {
    const message = document.createElement("p");
    message.className = "message";
    message.textContent = "Nothing to draw yet";
    place.append(message);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-png]");
  if (!button || !window.Plotly) return;
  const place = document.getElementById(button.dataset.png);
  const background = getComputedStyle(document.documentElement).backgroundColor;
  window.Plotly.relayout(place, { paper_bgcolor: background })
    .then(() => window.Plotly.downloadImage(place, { format: "png", scale: 2, filename: `fedcomp-${button.dataset.png}` }))
    .then(() => window.Plotly.relayout(place, { paper_bgcolor: "rgba(0,0,0,0)" }));
});

// Server-sent events that say on the page when they are lost.
export function listen(address, handlers) {
  const source = new EventSource(address);
  const status = document.getElementById("connection");
  source.onopen = () => { if (status) status.textContent = ""; };
  source.onerror = () => { if (status) status.textContent = "The dashboard does not answer; trying again…"; };
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse(event.data), source));
  }
  addEventListener("pagehide", () => source.close());
  return source;
}

// Replace parts of this page by those of another one, unless it is no longer wanted when it comes.
export async function refresh(address, parts, wanted = () => true) {
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  if (response.redirected && new URL(response.url).pathname.endsWith("/login")) { location.assign(response.url); return null; }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!wanted()) return null;
  for (const name of parts ?? [...document.querySelectorAll("[data-part]")].map((part) => part.dataset.part)) {
    const [here, there] = [document, page].map((each) => each.querySelector(`[data-part="${name}"]`));
    if (here && there) here.replaceWith(document.importNode(there, true));
  }
  return page;
}
