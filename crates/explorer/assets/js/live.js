// @ts-check
// Keeps the regions of a page up to date: on a signal the page is asked for again, and what differs in the parts marked with
// data-region is replaced. So the reader sees what the server would show, and there is one way to draw it.

import { showTimes } from "./times.js";

/** Between two times of asking, milliseconds. */
const ASK_INTERVAL = 1000;

/** @type {Map<string, string>} */
const states = new Map();

/**
 * What the connection of a part of the page is doing; the worst of all is shown.
 * @param {string} part @param {"live" | "waiting" | "paused"} state
 */
export function setState(part, state) {
  states.set(part, state);
  const shown = document.querySelector("[data-live-state]");
  if (!(shown instanceof HTMLElement)) return;
  const all = [...states.values()];
  const worst = all.includes("waiting") ? "waiting" : all.includes("paused") ? "paused" : "live";
  const words = { live: "Live", waiting: "Reconnecting", paused: "Paused" };
  if (shown.dataset.state === worst) return;
  shown.dataset.state = worst;
  shown.textContent = words[worst];
  shown.hidden = false;
}

/** @param {(part: ParentNode) => void} reveal */
export function startLive(reveal) {
  const { live, watches } = document.body.dataset;
  if (!live || !watches || !document.querySelector("[data-region]")) return;
  let run = "";
  let isWanted = false;
  let isAsking = false;
  let askedAt = 0;

  const ask = async () => {
    isWanted = true;
    if (isAsking || document.hidden) return;
    isAsking = true;
    while (isWanted && !document.hidden) {
      const wait = askedAt + ASK_INTERVAL - Date.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      isWanted = false;
      askedAt = Date.now();
      try {
        const answer = await fetch(location.href, { cache: "no-cache", headers: { accept: "text/html" } });
        if (answer.ok) update(await answer.text(), reveal);
      } catch {
        // The connection of the signals says that the server is away.
      }
    }
    isAsking = false;
  };

  const source = new EventSource(`${live}?on=${encodeURIComponent(watches)}`);
  source.addEventListener("hello", (event) => {
    setState("page", "live");
    // Whatever happened while there was no connection; and another run of the server may show other things.
    if (run !== "") void ask();
    run = event.data;
  });
  source.addEventListener("changed", () => void ask());
  source.addEventListener("error", () => setState("page", "waiting"));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isWanted) void ask();
  });
  addEventListener("pagehide", () => source.close());
}

/**
 * Replaces the regions that differ.
 * @param {string} html @param {(part: ParentNode) => void} reveal
 */
function update(html, reveal) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const old of document.querySelectorAll("[data-region]")) {
    if (!(old instanceof HTMLElement)) continue;
    const name = old.dataset.region ?? "";
    const region = fresh.querySelector(`[data-region="${CSS.escape(name)}"]`);
    if (!region || region.innerHTML === old.dataset.source) continue;
    // What the reader is typing into, or has selected, is left alone until the next time.
    const focus = document.activeElement;
    if (focus instanceof HTMLInputElement && old.contains(focus)) continue;
    const selection = getSelection();
    if (selection && !selection.isCollapsed && selection.anchorNode && old.contains(selection.anchorNode)) continue;
    const open = [...old.querySelectorAll("details")].map((details) => details.open);
    const place = focus instanceof HTMLElement && old.contains(focus) ? placeOf(focus) : null;
    const source = region.innerHTML;
    old.replaceChildren(...region.childNodes);
    old.dataset.source = source;
    [...old.querySelectorAll("details")].forEach((details, index) => {
      details.open = open[index] ?? false;
    });
    reveal(old);
    showTimes(old);
    if (place) find(old, place)?.focus({ preventScroll: true });
  }
}

/** @param {HTMLElement} element */
function placeOf(element) {
  return { id: element.id, href: element.getAttribute("href") };
}

/** @param {HTMLElement} region @param {{ id: string, href: string | null }} place @returns {HTMLElement | null} */
function find(region, place) {
  if (place.id) return region.querySelector(`#${CSS.escape(place.id)}`);
  if (place.href) return region.querySelector(`[href="${CSS.escape(place.href)}"]`);
  return null;
}
