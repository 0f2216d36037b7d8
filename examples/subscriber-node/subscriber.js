// A consumer of Cairn's event streams over plain Redis, by the published keys (docs/subscriptions.md).
//
//   npm ci && node subscriber.js redis://127.0.0.1:6379 eos-mainnet my-app
//
// Prints a line for each event when it was handled: fencing value, entry, event id. Instances with the same id, in whatever
// language, stand by for each other. Options: --ttl-ms 10000, --work-ms 0, --fail-ending TEXT (refuses events whose id ends
// so, to see the dead letters).
"use strict";

const os = require("node:os");
const { randomUUID } = require("node:crypto");
const { parseArgs } = require("node:util");
const Redis = require("ioredis");

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "ttl-ms": { type: "string", default: "10000" },
    "work-ms": { type: "string", default: "0" },
    "fail-ending": { type: "string", default: "" },
  },
});
const [url, chain, subId] = positionals;
if (!subId) {
  console.error("usage: node subscriber.js REDIS_URL CHAIN SUB_ID [--ttl-ms MS] [--work-ms MS] [--fail-ending TEXT]");
  process.exit(2);
}
const ttl = Number(values["ttl-ms"]);
const heartbeat = ttl * 0.3;
const FAILURES_MAX = 3;
const BATCH = 100;

const stream = `ce:parser2:${chain}:events`;
const dead = `ce:parser2:${chain}:dead:${subId}`;
const lock = `parser2:sub:${subId}:lock`;
const failures = `parser2:sub:${subId}:failures`;
const instance = `${os.hostname()}:${process.pid}:${randomUUID()}`;

const redis = new Redis(url);
const waiter = new Redis(url); // a connection of its own for waiting
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Becomes the holder of the group: leaves the mark epoch:N in it and removes older ones. 0 when a newer holder is there.
redis.defineCommand("take", {
  numberOfKeys: 1,
  lua: `
    local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
    if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
      local held = tonumber(string.match(consumer[2], '^epoch:(%d+)$') or '')
      if held and held > tonumber(ARGV[2]) then return 0 end
      if held and held < tonumber(ARGV[2]) then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2]) end
    end
    redis.call('XGROUP', 'CREATECONSUMER', KEYS[1], ARGV[1], 'epoch:' .. ARGV[2])
    return 1`,
});

// Acknowledges, then reads; only while our mark is there. Nothing a replaced holder does has an effect.
redis.defineCommand("step", {
  numberOfKeys: 1,
  lua: `
    local held = false
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
      if consumer[2] == 'epoch:' .. ARGV[2] then held = true end
    end
    if not held then return 'fenced' end
    for i = 5, #ARGV do redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) end
    if ARGV[3] == '' then return {} end
    local got = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'primary', 'COUNT', ARGV[4], 'STREAMS', KEYS[1], ARGV[3])
    return got and got[1][2] or {}`,
});

redis.defineCommand("renew", {
  numberOfKeys: 1,
  lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0",
});

redis.defineCommand("release", {
  numberOfKeys: 1,
  lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
});

let stopping = false;
process.on("SIGTERM", () => (stopping = true));
process.on("SIGINT", () => (stopping = true));

async function register() {
  const registration = { subId, filters: [], startFrom: "first", registeredAt: new Date().toISOString(), chainId: chain };
  await redis.hsetnx("parser2:subs", subId, JSON.stringify(registration));
}

async function handle(event) {
  await sleep(Number(values["work-ms"]));
  if (values["fail-ending"] && event.event_id.endsWith(values["fail-ending"])) throw new Error("refused, as asked");
}

// Handles one entry to its end: handled, or in the dead letters. False when the lock may be lost meanwhile.
async function settle(session, id, data) {
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    await redis.xadd(dead, "*", "data", data ?? "", "failureCount", 0, "lastError", "malformed entry", "subId", subId, "entryId", id);
    return true;
  }
  for (let pause = ttl / 100; session.isOurs(); pause *= 5) {
    try {
      await handle(event);
      if (!session.isOurs()) return false;
      console.log(`${session.epoch} ${id} ${event.event_id}`);
      await redis.hdel(failures, event.event_id);
      return true;
    } catch (error) {
      const [[, count]] = await redis.multi().hincrby(failures, event.event_id, 1).expire(failures, 86400).exec();
      if (count >= FAILURES_MAX) {
        if (event.kind === "fork") throw new Error(`a fork cannot be left out: ${error.message}`);
        const reason = error.message.slice(0, 4096);
        await redis.xadd(dead, "*", "data", data, "failureCount", count, "lastError", reason, "subId", subId, "entryId", id);
        await redis.hdel(failures, event.event_id);
        return true;
      }
      await sleep(pause);
    }
  }
  return false;
}

// One time of being active: what is pending first, then what is new.
async function work(session) {
  let from = "0";
  let last = "$"; // not known before the first entry: then a wait may last half a second too long
  let acks = [];
  while (session.isOurs()) {
    const entries = await redis.step(stream, subId, session.epoch, stopping ? "" : from, BATCH, ...acks);
    if (entries === "fenced") return;
    acks = [];
    if (stopping) return;
    if (entries.length === 0) {
      if (from !== ">") from = ">";
      else await waiter.xread("COUNT", 1, "BLOCK", 500, "STREAMS", stream, last);
      continue;
    }
    for (const [id, fields] of entries) {
      last = id;
      if (from !== ">") from = id;
      // Fields of an entry that was trimmed are gone; it is acknowledged.
      const at = fields ? fields.indexOf("data") : -1;
      if (fields && !(await settle(session, id, at < 0 ? "" : fields[at + 1]))) return;
      acks.push(id);
      if (stopping) break;
      // Often, so that little is repeated after a crash.
      if (acks.length >= 10) {
        if ((await redis.step(stream, subId, session.epoch, "", 1, ...acks)) === "fenced") return;
        acks = [];
      }
    }
  }
}

async function main() {
  await register();
  while (!stopping) {
    let until = performance.now() + ttl;
    const got = (await redis.set(lock, instance, "PX", ttl, "NX")) === "OK" || (await redis.renew(lock, instance, ttl)) === 1;
    if (!got) {
      await sleep(ttl / 20);
      continue;
    }
    const session = {
      epoch: await redis.incr(`parser2:sub:${subId}:epoch`),
      isOurs: () => performance.now() < until - heartbeat,
    };
    const timer = setInterval(async () => {
      const asked = performance.now();
      const renewed = await redis.renew(lock, instance, ttl).catch(() => -1);
      if (renewed === 1) until = asked + ttl;
      else if (renewed === 0) until = 0;
    }, heartbeat);
    try {
      if ((await redis.take(stream, subId, session.epoch)) === 1) await work(session);
    } finally {
      clearInterval(timer);
    }
  }
  await redis.release(lock, instance);
  redis.disconnect();
  waiter.disconnect();
}

main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
