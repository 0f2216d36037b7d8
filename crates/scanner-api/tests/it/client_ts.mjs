// Drives the TypeScript client, compiled beside this file's copy, as an application would; prints what became of it as JSON.
// SCANNER_URL, SCANNER_TOKEN, OPERATIONS, QUEUE_MAX and DRAIN_MS come from the environment.
import { ScannerClient } from "./scanner-client.js";

const number = (name) => Number(process.env[name]);
const problems = [];
const client = new ScannerClient({
  url: process.env.SCANNER_URL,
  token: process.env.SCANNER_TOKEN,
  queueMax: number("QUEUE_MAX"),
  timeoutMs: 20_000,
  onProblem: (message) => {
    problems.push(message);
    throw new Error("a listener that throws must not matter");
  },
});

const record = (id) => ({
  id,
  playerId: "nm-1",
  spaceId: "space-9",
  amenityKind: "shop",
  itemRef: { kind: "shop", id: "item-3" },
  priceUsd: 3.5,
  at: "2026-03-10T14:05:17.123Z",
});
const told = [];
for (let index = 0; index < number("OPERATIONS"); index += 1) {
  told.push(client.executePurchase({ record: record(`p${index}`) }));
}
client.executePurchase({ record: { ...record("bad"), priceUsd: -1 } });
const left = await client.drain(number("DRAIN_MS"));
const returned = told.filter((value) => value !== undefined).length;
console.log(JSON.stringify({ left, returned, dropped: client.dropped, refused: client.refused, problems }));
