// @ts-check
// What every page gets when scripts run: everything here only adds to pages that work without it.

import { startLive } from "./live.js";
import { startProofs } from "./proof.js";
import { startSearch } from "./search.js";
import { startTails } from "./tail.js";
import { startTimes } from "./times.js";

/** Buttons that copy a text. */
function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
    if (!(button instanceof HTMLButtonElement)) return;
    const said = button.querySelector("span");
    try {
      await navigator.clipboard.writeText(button.dataset.copy ?? "");
      button.classList.add("done");
      if (said) said.textContent = "Copied";
    } catch {
      // Pages over plain HTTP from another machine may not write to the clipboard.
      if (said) said.textContent = "Cannot copy here";
    }
    setTimeout(() => {
      button.classList.remove("done");
      if (said) said.textContent = "Copy";
    }, 2000);
  });
}

/** The button that changes the colours. */
function startTheme() {
  const button = document.querySelector("[data-theme-button]");
  if (!(button instanceof HTMLButtonElement)) return;
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.title = isDark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("cairn-theme", root.dataset.theme);
    } catch {
      // For this page alone, then.
    }
    show();
  });
  button.hidden = false;
  show();
}

/** Shows what only works with scripts. @param {ParentNode} part */
export function reveal(part) {
  for (const button of part.querySelectorAll("button[data-copy][hidden]")) {
    if (button instanceof HTMLElement) button.hidden = false;
  }
}

reveal(document);
startCopying();
startTheme();
startTimes();
startSearch();
startProofs();
startTails();
startLive(reveal);
