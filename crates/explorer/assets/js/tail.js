// @ts-check
// Lists that grow at their top. New rows come as markup of the same template that made the page. A table that is being read does
// not move: unless the reader is at the top, new rows wait behind a button. Rows are written into the places of the old ones, so
// nothing on the page moves, and many at once are drawn at once.

import { setState } from "./live.js";
import { showTimes } from "./times.js";

/** Rows that wait at most; the oldest are left out beyond. */
const WAITING_MAX = 200;

/** Every list of the page that has a tail. */
export function startTails() {
  for (const body of document.querySelectorAll("tbody[data-tail]")) {
    if (body instanceof HTMLTableSectionElement) new Tail(body);
  }
}

class Tail {
  /** @param {HTMLTableSectionElement} body */
  constructor(body) {
    this.body = body;
    this.rows = Math.max(Number(body.dataset.rows ?? "50"), body.rows.length);
    /** @type {string[]} Markup of the cells of rows that wait, newest first. */
    this.waiting = [];
    this.isPaused = false;
    this.isDrawing = false;
    this.hasGap = false;
    const panel = body.closest("section") ?? document.body;
    this.panel = panel;
    this.bar = panel.querySelector("[data-tail-bar]");
    this.more = panel.querySelector("[data-tail-show]");
    this.pause = panel.querySelector("[data-tail-pause]");
    if (this.bar instanceof HTMLElement) this.bar.hidden = false;
    this.more?.addEventListener("click", () => {
      if (this.hasGap) location.reload();
      else this.draw(true);
    });
    this.pause?.addEventListener("click", () => {
      this.isPaused = !this.isPaused;
      if (this.pause) this.pause.textContent = this.isPaused ? "Resume" : "Pause";
      setState("tail", this.isPaused ? "paused" : "live");
      if (!this.isPaused) this.draw(true);
    });
    addEventListener("scroll", () => this.schedule(), { passive: true });
    this.label();
    const source = new EventSource(body.dataset.tail ?? "");
    source.addEventListener("open", () => setState("tail", this.isPaused ? "paused" : "live"));
    source.addEventListener("error", () => setState("tail", "waiting"));
    source.addEventListener("rows", (event) => this.take(event.data));
    source.addEventListener("skipped", () => this.label());
    source.addEventListener("gap", () => {
      this.hasGap = true;
      this.label();
    });
    addEventListener("pagehide", () => source.close());
  }

  /** Whether the reader looks at the newest rows and at nothing in particular. */
  isAtTop() {
    if (this.isPaused || this.hasGap) return false;
    const top = this.body.getBoundingClientRect().top;
    return top > -40 && !this.body.contains(document.activeElement) && !this.body.matches(":hover");
  }

  /** @param {string} markup */
  take(markup) {
    const fresh = new DOMParser().parseFromString(`<table><tbody>${markup}</tbody></table>`, "text/html");
    const cells = [...fresh.querySelectorAll("tr")].map((row) => row.innerHTML);
    this.waiting = [...cells, ...this.waiting].slice(0, WAITING_MAX);
    this.schedule();
  }

  schedule() {
    this.label();
    if (this.isDrawing || this.waiting.length === 0 || document.hidden) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (this.isAtTop()) this.draw(false);
    });
  }

  /** Writes the waiting rows into the table. @param {boolean} isAsked */
  draw(isAsked) {
    if (this.waiting.length === 0) return;
    const old = [...this.body.rows].map((row) => row.innerHTML);
    const cells = [...this.waiting, ...old].slice(0, this.rows);
    this.waiting = [];
    cells.forEach((markup, index) => {
      let row = this.body.rows[index];
      if (!row) {
        row = document.createElement("tr");
        this.body.append(row);
      }
      if (row.innerHTML !== markup) row.innerHTML = markup;
    });
    const empty = this.panel.querySelector("[data-empty]");
    if (empty instanceof HTMLElement) empty.hidden = true;
    showTimes(this.body);
    this.label();
    if (isAsked) this.body.closest("section")?.scrollIntoView({ block: "start" });
  }

  label() {
    const button = this.more;
    if (!(button instanceof HTMLElement)) return;
    const n = this.waiting.length;
    const many = n === WAITING_MAX ? `${n} or more` : String(n);
    const text = this.hasGap ? "Some were missed: load again" : n > 0 ? `${many} new` : "Up to date";
    if (button.textContent !== text) button.textContent = text;
    if (button instanceof HTMLButtonElement) button.disabled = n === 0 && !this.hasGap;
  }
}
