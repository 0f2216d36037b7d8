// @ts-check
// Times in UTC or in the reader's zone; the other one is in the tooltip. Both have the same width, so nothing moves.

const KEY = "cairn-times";
let isLocal = false;

/** @param {number} n @param {number} digits */
const padded = (n, digits) => String(n).padStart(digits, "0");

/** @param {Date} at @returns {string} */
function offset(at) {
  const minutes = -at.getTimezoneOffset();
  const sign = minutes < 0 ? "-" : "+";
  return `${sign}${padded(Math.floor(Math.abs(minutes) / 60), 2)}${padded(Math.abs(minutes) % 60, 2)}`;
}

/** @param {Date} at @returns {[string, string, string]} Year, date and clock as the page writes them. */
function local(at) {
  return [
    `${at.getFullYear()}-`,
    `${padded(at.getMonth() + 1, 2)}-${padded(at.getDate(), 2)}`,
    `${padded(at.getHours(), 2)}:${padded(at.getMinutes(), 2)}:${padded(at.getSeconds(), 2)}`,
  ];
}

/** Shows every time of a part of the page as the reader wants it. @param {ParentNode} part */
export function showTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    if (!(time instanceof HTMLTimeElement)) continue;
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = time.dateTime;
    /** @type {[string, string, string]} */
    const utc = [text.slice(0, 5), text.slice(5, 10), text.slice(11, 19)];
    const here = local(at);
    const [year, date, clock] = isLocal ? here : utc;
    time.title = isLocal ? `${utc[0]}${utc[1]} ${utc[2]} UTC` : `${here[0]}${here[1]} ${here[2]} ${offset(at)}`;
    set(time, ".year", year);
    set(time, ".date", date);
    set(time, ".clock", clock);
    set(time, ".zone", isLocal ? offset(at) : "UTC");
  }
}

/** @param {Element} time @param {string} part @param {string} text */
function set(time, part, text) {
  const element = time.querySelector(part);
  if (element && element.textContent !== text) element.textContent = text;
}

/** The button that chooses, and all times of the page. */
export function startTimes() {
  try {
    isLocal = localStorage.getItem(KEY) === "local";
  } catch {
    // UTC, then.
  }
  const button = document.querySelector("[data-times]");
  showTimes(document);
  if (!(button instanceof HTMLButtonElement)) return;
  const show = () => {
    button.textContent = isLocal ? "Local" : "UTC";
    button.title = isLocal ? "Times are in your zone; show UTC" : "Times are in UTC; show your zone";
  };
  button.addEventListener("click", () => {
    isLocal = !isLocal;
    try {
      localStorage.setItem(KEY, isLocal ? "local" : "utc");
    } catch {
      // For this page alone, then.
    }
    show();
    showTimes(document);
  });
  button.hidden = false;
  show();
}
