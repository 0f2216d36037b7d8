// @ts-check
// Suggestions below the search field while the reader types (the ARIA pattern of a combobox with a list). Enter without a choice
// sends the form, as it does without scripts.

/** Pause after a key before asking, milliseconds. */
const PAUSE = 120;

/**
 * @typedef {{ href: string, label: string, what: string, exact: boolean, ledger: string }} Suggestion
 */

export function startSearch() {
  for (const input of document.querySelectorAll("form[role=search] input[name=q]")) {
    if (input instanceof HTMLInputElement) new Search(input);
  }
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const isTyping = target instanceof HTMLElement && target.matches("input, textarea, select");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const input = document.querySelector("form[role=search] input[name=q]");
    if (input instanceof HTMLInputElement) {
      event.preventDefault();
      input.focus();
    }
  });
}

class Search {
  /** @param {HTMLInputElement} input */
  constructor(input) {
    this.input = input;
    /** @type {Suggestion[]} */
    this.found = [];
    this.chosen = -1;
    this.asked = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.list = document.createElement("ul");
    this.list.id = `${input.id}-suggestions`;
    this.list.className = "suggestions";
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Suggestions");
    this.list.hidden = true;
    input.form?.append(this.list);
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", this.list.id);
    input.addEventListener("input", () => this.later());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("focus", () => {
      if (this.found.length > 0) this.show();
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), PAUSE);
  }

  async ask() {
    const text = this.input.value.trim();
    const mine = ++this.asked;
    if (text.length < 2) {
      this.found = [];
      this.close();
      return;
    }
    try {
      const answer = await fetch(`/search/suggest?q=${encodeURIComponent(text)}`);
      /** @type {Suggestion[]} */
      const found = answer.ok ? await answer.json() : [];
      // An older question may be answered later.
      if (mine !== this.asked) return;
      this.found = found;
    } catch {
      this.found = [];
    }
    this.show();
  }

  show() {
    this.chosen = -1;
    this.list.replaceChildren(...this.found.map((hit, index) => this.option(hit, index)));
    const isOpen = this.found.length > 0 && document.activeElement === this.input;
    this.list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", String(isOpen));
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {Suggestion} hit @param {number} index @returns {HTMLLIElement} */
  option(hit, index) {
    const item = document.createElement("li");
    item.id = `${this.list.id}-${index}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const label = document.createElement("bdi");
    label.textContent = hit.label;
    const what = document.createElement("span");
    what.className = "sub";
    what.textContent = `${hit.what}, ${hit.ledger}`;
    item.append(label, " ", what);
    item.addEventListener("mousedown", (event) => {
      event.preventDefault();
      location.assign(hit.href);
    });
    return item;
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Escape" && !this.list.hidden) {
      event.preventDefault();
      this.close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (this.found.length === 0) return;
      event.preventDefault();
      if (this.list.hidden) this.show();
      const step = event.key === "ArrowDown" ? 1 : -1;
      const n = this.found.length;
      this.choose(this.chosen === -1 && step === -1 ? n - 1 : (this.chosen + step + n) % n);
    } else if (event.key === "Enter" && this.chosen >= 0 && !this.list.hidden) {
      event.preventDefault();
      const hit = this.found[this.chosen];
      if (hit) location.assign(hit.href);
    }
  }

  /** @param {number} index */
  choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    const item = this.list.children[index];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  }
}
