// The browser, the server under test, and what is looked at on every page.
//
// Environment: CAIRN_URL (the server), CAIRN_REDIS_SOCKET (its Redis), CAIRN_BROWSER_MODULES (folder with node_modules),
// CHROMIUM_EXE (the browser), CAIRN_SCREENSHOTS (where pictures go).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

/** @param {string} name */
function need(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: these tests are run by the tests of the crate cairn`);
  return value;
}

export const URL_BASE = need("CAIRN_URL");
const MODULES = need("CAIRN_BROWSER_MODULES");
const SOCKET = need("CAIRN_REDIS_SOCKET");
const SCREENSHOTS = need("CAIRN_SCREENSHOTS");
const require = createRequire(path.join(MODULES, "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** How long anything may take on a slow machine, milliseconds. */
export const PATIENCE = 60_000;
export const SIZES = {
  desktop: { width: 1280, height: 900 },
  phone: { width: 390, height: 844 },
};

mkdirSync(SCREENSHOTS, { recursive: true });

/** Sends commands to the server's Redis. @param {string[]} words */
export function redis(...words) {
  return execFileSync("redis-cli", ["-s", SOCKET, ...words], { encoding: "utf8" }).trim();
}

/** Many commands in one go. @param {string} commands */
export function redisPipe(commands) {
  execFileSync("redis-cli", ["-s", SOCKET], { encoding: "utf8", input: commands });
}

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM_EXE ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"],
  });
}

/**
 * A reader: a page whose every error, foreign request and refused resource is remembered.
 * @param {any} browser @param {"desktop" | "phone"} size @param {object} [options]
 */
export async function reader(browser, size, options = {}) {
  const context = await browser.newContext({
    viewport: SIZES[size],
    deviceScaleFactor: 1,
    hasTouch: size === "phone",
    isMobile: size === "phone",
    locale: "en",
    timezoneId: "Asia/Tokyo",
    reducedMotion: "reduce",
    ...options,
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`console: ${message.text()}`);
  });
  page.on("dialog", async (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(URL_BASE)) faults.push(`a request to ${request.url()}`);
  });
  await page.addInitScript(() => {
    globalThis.cairnShift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        if (!entry.hadRecentInput) globalThis.cairnShift += entry.value;
      }
    }).observe({ type: "layout-shift", buffered: true });
  });
  return {
    page,
    size,
    faults,
    /** @param {string} where */
    async go(where) {
      const answer = await page.goto(URL_BASE + where, { waitUntil: "load" });
      assert.equal(answer?.status(), 200, where);
    },
    async close() {
      assert.deepEqual(faults, []);
      await context.close();
    },
  };
}

/**
 * What holds for every page: nothing that axe-core finds, nothing wider than the screen; and a picture of it.
 * @param {any} who @param {string} name
 */
export async function inspect(who, name) {
  const { page, size } = who;
  await page.screenshot({ path: path.join(SCREENSHOTS, `${name}-${size}.png`), fullPage: false });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${name}-${size} is ${wide} pixels wider than the screen`);
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const lines = found.violations.map(
    (violation) => `${violation.id}: ${violation.nodes.map((node) => `${node.html} ${node.failureSummary}`).slice(0, 3).join(" | ")}`,
  );
  assert.deepEqual(lines, [], `axe-core on ${name}-${size}`);
  assert.equal(await page.locator("h1").count(), 1, `${name}: one heading`);
}

/** How much the page has moved by itself since it was loaded. @param {any} page */
export async function shift(page) {
  return page.evaluate(() => globalThis.cairnShift);
}
