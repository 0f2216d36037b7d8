// The journeys of a newcomer, an operator and a player through the demo's ledgers, on a desk and on a phone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { PATIENCE, SIZES, URL_BASE, inspect, launch, reader, redis, redisPipe, shift } from "./world.mjs";

// Less than a hundredth of a pixel on a screen: rounding.
const SHIFT_MAX = 0.0005;
const UTXO = "/bitcoin-regtest";
const ANTELOPE = "/antelope-sample";
const STREAM = "ce:parser2:antelope-sample:events";
const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>`;

let browser;

/** An event as a program with bad intentions writes it. @param {number} n */
function hostileEvent(n) {
  return JSON.stringify({
    kind: "action",
    event_id: `antelope-sample:a:4000000000:ee6b280000000000:${n}`,
    chain_id: "antelope-sample",
    block_num: 4_000_000_000,
    block_time: "2026-11-30T00:00:00.000",
    block_id: "ee6b280000000000".padEnd(64, "0"),
    account: HOSTILE,
    name: HOSTILE,
    receiver: "alice",
    authorization: [{ actor: HOSTILE, permission: "active" }],
    data: { memo: HOSTILE, n },
    global_sequence: String(n),
    transaction_id: "ab".repeat(32),
    transaction_status: "executed",
  });
}

before(async () => {
  browser = await launch();
  // A subscription that has not read everything and could not handle one event.
  redis("XGROUP", "CREATE", STREAM, "warehouse", "0");
  redis("HSET", "parser2:subs", "warehouse", JSON.stringify({ subId: "warehouse", filters: [{ kind: "action" }], startFrom: "first", registeredAt: "2026-11-30T00:00:00.000Z", chainId: "antelope-sample" }));
  redis("XADD", "ce:parser2:antelope-sample:dead:warehouse", "*", "data", hostileEvent(1), "failureCount", "3", "lastError", `cannot insert ${HOSTILE}`, "subId", "warehouse");
});

after(async () => {
  await browser?.close();
});

for (const size of Object.keys(SIZES)) {
  test(`a newcomer finds a payment (${size})`, async () => {
    const who = await reader(browser, size);
    const { page } = who;
    await who.go("/");
    for (const ledger of ["bitcoin-regtest", "antelope-sample", "scanner"]) {
      assert.ok(await page.getByRole("heading", { name: ledger, exact: true }).isVisible(), ledger);
    }
    await page.locator("[data-live-state]", { hasText: "Live" }).waitFor();
    await inspect(who, "home");

    // Suggestions come while typing, and the keyboard is enough.
    const field = page.getByRole("combobox");
    await field.fill("240");
    await page.getByRole("option").first().waitFor();
    await inspect(who, "suggestions");
    await field.press("ArrowDown");
    assert.equal(await page.getByRole("option", { selected: true }).count(), 1);
    await field.press("Enter");
    await page.waitForURL(/\/block\//);
    await inspect(who, "block");

    await page.goto(`${URL_BASE}${UTXO}/block/300`);
    await page.locator("tbody a[href*='/tx/']").nth(1).click();
    await page.getByRole("heading", { name: "Transaction", exact: true }).waitFor();
    await page.getByRole("heading", { name: "Merkle proof" }).waitFor();
    await inspect(who, "transaction");
    await page.locator("section[aria-labelledby=outputs] a[href*='/address/']").first().click();
    await page.getByRole("heading", { name: "Balance over time" }).waitFor();
    assert.ok(await page.getByRole("img", { name: /Balance over time/ }).isVisible());
    await inspect(who, "address");

    // Times in the reader's zone, and back.
    const time = page.locator("tbody time").first();
    if (size === "desktop") {
      const utc = await time.textContent();
      await page.getByRole("button", { name: "UTC" }).click();
      assert.match((await time.textContent()) ?? "", /\+0900$/);
      await page.getByRole("button", { name: "Local" }).click();
      assert.equal(await time.textContent(), utc);
    }
    await page.getByRole("button", { name: "Dark" }).click();
    await inspect(who, "address-dark");
    await page.reload();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");

    // What does not exist says what was tried.
    await page.goto(`${URL_BASE}/search?q=${encodeURIComponent(HOSTILE)}`);
    await page.getByRole("heading", { name: "Not found" }).waitFor();
    assert.ok((await page.locator("main").textContent())?.includes(HOSTILE));
    who.faults.splice(0, who.faults.length, ...who.faults.filter((fault) => !fault.includes("404")));
    await who.close();
  });

  test(`an operator sees how everything is (${size})`, async () => {
    const who = await reader(browser, size);
    const { page } = who;
    await who.go("/");
    await page.getByText("ready", { exact: true }).first().waitFor();
    for (const gauge of ["Height", "Mempool", "Lag", "Stream", "Subscriptions"]) {
      assert.ok(await page.locator("dt", { hasText: gauge }).first().isVisible(), gauge);
    }
    await who.go(`${UTXO}/mempool`);
    await inspect(who, "mempool");
    await who.go(`${UTXO}/broadcast`);
    await inspect(who, "broadcast");
    await who.go(`${UTXO}/blocks`);
    await inspect(who, "blocks");

    await who.go(`${ANTELOPE}/events`);
    await inspect(who, "events");
    await page.getByLabel("Kind").selectOption("delta");
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/kind=delta/);
    const first = page.locator("tbody tr td a[href*='/event/']").first();
    await first.click();
    await page.getByRole("heading", { name: "The event in the stream" }).waitFor();
    await inspect(who, "event-delta");
    await page.getByRole("link", { name: "All changes of this row" }).click();
    await page.locator("table.diff").first().waitFor();
    await inspect(who, "row");

    await who.go(`${ANTELOPE}/account/eosio.token`);
    await inspect(who, "account");
    await page.getByRole("link", { name: "ABI versions" }).click();
    await page.getByRole("heading", { name: "Versions" }).waitFor();
    await inspect(who, "abi");

    await who.go(`${ANTELOPE}/subscriptions`);
    await inspect(who, "subscriptions");
    await page.locator("a[href*='/dead-letters/warehouse']").click();
    await page.getByText(`cannot insert ${HOSTILE}`).waitFor();
    await inspect(who, "dead-letters");
    await who.close();
  });

  test(`a player looks at a ledger that lives (${size})`, async () => {
    const who = await reader(browser, size);
    const { page } = who;
    await who.go("/scanner");
    await inspect(who, "dashboard");
    // The town trades every few seconds: new rows come by themselves, and nothing moves.
    const rows = page.locator("tbody[data-tail] tr");
    const top = await rows.first().innerHTML();
    await page.mouse.move(0, 0);
    await page.waitForFunction(
      (before) => {
        const row = document.querySelector("tbody[data-tail] tr");
        return row !== null && row.innerHTML !== before;
      },
      top,
      { timeout: PATIENCE },
    );
    assert.ok((await shift(page)) < SHIFT_MAX, "the page moved by itself");

    for (const view of ["txs", "apu", "nodes", "blocks", "spaces", "talk", "analytics"]) {
      await who.go(`/scanner?view=${view}`);
      await inspect(who, `ledger-${view}`);
    }
    await who.go("/scanner?view=txs");
    await page.locator("tbody a[href^='/scanner/nodes/']").first().click();
    await page.getByRole("heading", { name: "Account" }).waitFor();
    await inspect(who, "ledger-account");
    await who.go("/search?q=sample-main-ada");
    assert.match(page.url(), /\/scanner\/nodes\/sample-main-ada$/);
    await who.go("/scanner?view=spaces");
    await page.locator("tbody a[href^='/scanner/spaces/']").first().click();
    await page.getByText("Sold").first().waitFor();
    await inspect(who, "ledger-space");
    await who.go("/scanner?view=blocks");
    await page.locator("tbody th a").first().click();
    await page.getByRole("heading", { name: /^Revision/ }).waitFor();
    await inspect(who, "ledger-block");
    const check = page.getByRole("button", { name: "Check" }).first();
    if ((await check.count()) > 0) {
      await check.click();
      await page.getByRole("button", { name: "Proven" }).waitFor();
    }
    await who.close();
  });
}

test("everything can be read without scripts", async () => {
  const who = await reader(browser, "desktop", { javaScriptEnabled: false });
  const { page } = who;
  for (const [where, what] of [
    ["/", "Newest"],
    [`${UTXO}/blocks`, "Blocks"],
    [`${ANTELOPE}/events`, "eosio"],
    ["/scanner", "Newest transactions"],
  ]) {
    await page.goto(URL_BASE + where);
    assert.ok((await page.locator("body").innerText()).includes(what) || what === "Newest", `${where}: ${what}`);
    assert.equal(await page.locator("button[data-copy]:visible").count(), 0, "a button that does nothing");
    assert.ok((await page.locator("main a").count()) > 3, where);
  }
  await page.locator("input[name=q]").first().fill("sample-main-ada");
  await page.locator("form[role=search] button").first().click();
  await page.waitForURL(/sample-main-ada$/);
  await who.close();
});

test("a tail of a hundred events a second: bounded, in its place, hostile data as text", async () => {
  const who = await reader(browser, "desktop");
  const { page } = who;
  await who.go(`${ANTELOPE}/events`);
  await page.locator("[data-live-state]", { hasText: "Live" }).waitFor();
  const before = await page.locator("tbody[data-tail] tr").count();
  for (let second = 0; second < 4; second += 1) {
    let commands = "";
    for (let n = 0; n < 100; n += 1) {
      commands += `XADD ${STREAM} * data ${JSON.stringify(hostileEvent(1000 + second * 100 + n))}\n`;
    }
    redisPipe(commands);
    await page.waitForFunction(
      (n) => document.querySelector("tbody[data-tail]")?.textContent?.includes(`"n":${n}`),
      1000 + second * 100 + 99,
      { timeout: PATIENCE },
    );
  }
  assert.ok((await page.locator("tbody[data-tail] tr").count()) <= Math.max(before, 50));
  assert.ok((await shift(page)) < SHIFT_MAX, "the page moved by itself");
  assert.equal(await page.locator("main img").count(), 0);
  assert.ok((await page.locator("tbody[data-tail]").textContent())?.includes(HOSTILE));
  await inspect(who, "tail");

  // A table that is being read does not move.
  await page.getByRole("button", { name: "Pause" }).click();
  const top = await page.locator("tbody[data-tail] tr").first().innerHTML();
  redisPipe(`XADD ${STREAM} * data ${JSON.stringify(hostileEvent(9999))}\n`);
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.locator("tbody[data-tail] tr").first().innerHTML(), top);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.locator("tbody[data-tail]", { hasText: `"n":9999` }).waitFor();

  // The hostile event on its own page.
  await page.locator("tbody[data-tail] tr a").first().click();
  await page.getByRole("heading", { name: "The event in the stream" }).waitFor();
  await inspect(who, "event-hostile");
  await who.close();
});

test("pages are light, and say what they may load", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const client = await context.newCDPSession(page);
  await client.send("Network.enable");
  let bytes = 0;
  client.on("Network.loadingFinished", (event) => {
    bytes += event.encodedDataLength;
  });
  for (const where of ["/", `${UTXO}/block/300`, "/scanner", `${ANTELOPE}/events`]) {
    bytes = 0;
    await client.send("Network.clearBrowserCache");
    const answer = await page.goto(URL_BASE + where, { waitUntil: "load" });
    assert.equal(answer?.headers()["content-encoding"], "gzip", where);
    const policy = answer?.headers()["content-security-policy"] ?? "";
    assert.ok(policy.includes("default-src 'none'") && !policy.includes("unsafe"), policy);
    assert.ok(bytes > 0 && bytes < 200_000, `${where}: ${bytes} bytes over the wire`);
  }
  await context.close();
});
