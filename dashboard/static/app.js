// On every page: light and dark, the keyboard.

const root = document.documentElement;

function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  root.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("fedcomp-theme", root.dataset.theme); } catch { /* not kept */ }
  document.dispatchEvent(new Event("theme"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
document.getElementById("theme-button").addEventListener("click", switchTheme);

const help = document.getElementById("help");
document.getElementById("help-button").addEventListener("click", () => help.showModal());

let went = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "?") help.showModal();
  else if (event.key === "d") switchTheme();
  else if (event.key === "/") {
    const first = document.querySelector("#view select, #view input");
    if (first) { first.focus(); event.preventDefault(); }
  } else if (event.key === "g") went = Date.now();
  else if (Date.now() - went < 1500) document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
});

// Where a form has no button because scripts apply it at once.
const view = document.getElementById("view");
if (view && !document.getElementById("live")) view.addEventListener("change", () => view.requestSubmit());
