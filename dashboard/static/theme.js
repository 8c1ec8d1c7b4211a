// Before anything is drawn: the theme that was chosen here before; without one the system's decides.
(() => {
  try {
    const chosen = localStorage.getItem("fedcomp-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* a browser that keeps nothing */ }
})();
