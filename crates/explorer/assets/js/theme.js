// @ts-check
// The colours that the reader chose, before anything is drawn. Without a choice the system's are used.
(() => {
  try {
    const chosen = localStorage.getItem("cairn-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // No storage: the system's colours.
  }
})();
