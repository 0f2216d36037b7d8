"""A consumer of Cairn's event streams over plain Redis, by the published keys (docs/subscriptions.md).

    pip install -r requirements.txt && python3 subscriber.py redis://127.0.0.1:6379 eos-mainnet my-app

Prints a line for each event when it was handled: fencing value, entry, event id. Instances with the same id, in whatever
language, stand by for each other.
"""

import argparse
import json
import os
import signal
import socket
import threading
import time
import uuid
from datetime import datetime, timezone

import redis

FAILURES_MAX = 3
BATCH = 100

# Becomes the holder of the group: leaves the mark epoch:N in it and removes older ones. 0 when a newer holder is there.
TAKE = """
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local held = tonumber(string.match(consumer[2], '^epoch:(%d+)$') or '')
  if held and held > tonumber(ARGV[2]) then return 0 end
  if held and held < tonumber(ARGV[2]) then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2]) end
end
redis.call('XGROUP', 'CREATECONSUMER', KEYS[1], ARGV[1], 'epoch:' .. ARGV[2])
return 1
"""

# Acknowledges, then reads; only while our mark is there. Nothing a replaced holder does has an effect.
STEP = """
local held = false
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  if consumer[2] == 'epoch:' .. ARGV[2] then held = true end
end
if not held then return false end
for i = 5, #ARGV do redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) end
if ARGV[3] == '' then return {} end
local got = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'primary', 'COUNT', ARGV[4], 'STREAMS', KEYS[1], ARGV[3])
return got and got[1][2] or {}
"""

RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Subscriber:
    def __init__(self, args):
        self.args = args
        self.ttl = args.ttl_ms / 1000
        self.redis = redis.Redis.from_url(args.url, decode_responses=True)
        self.stream = f"ce:parser2:{args.chain}:events"
        self.dead = f"ce:parser2:{args.chain}:dead:{args.sub_id}"
        self.lock = f"parser2:sub:{args.sub_id}:lock"
        self.failures = f"parser2:sub:{args.sub_id}:failures"
        self.instance = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}"
        self.take, self.step = self.redis.register_script(TAKE), self.redis.register_script(STEP)
        self.renew, self.release = self.redis.register_script(RENEW), self.redis.register_script(RELEASE)
        self.epoch = 0
        self.until = 0.0  # by the monotonic clock
        self.stopping = threading.Event()

    def is_ours(self):
        return time.monotonic() < self.until - 0.3 * self.ttl

    def beat(self):
        """Keeps the lock. What is asked when no lock is held changes nothing."""
        while not self.stopping.wait(0.3 * self.ttl):
            asked = time.monotonic()
            if not self.is_ours():
                continue
            try:
                renewed = self.renew([self.lock], [self.instance, self.args.ttl_ms])
                self.until = asked + self.ttl if renewed == 1 else 0.0
            except redis.RedisError:
                pass  # until says how long this may go on

    def run(self):
        registration = {
            "subId": self.args.sub_id, "filters": [], "startFrom": "first", "chainId": self.args.chain,
            "registeredAt": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        }
        self.redis.hsetnx("parser2:subs", self.args.sub_id, json.dumps(registration))
        threading.Thread(target=self.beat, daemon=True).start()
        while not self.stopping.is_set():
            try:
                self.live_once()
            except redis.ConnectionError:
                self.until = 0.0
                time.sleep(0.2)
        self.release([self.lock], [self.instance])

    def live_once(self):
        asked = time.monotonic()
        got = self.redis.set(self.lock, self.instance, px=self.args.ttl_ms, nx=True)
        if not got and self.renew([self.lock], [self.instance, self.args.ttl_ms]) != 1:
            time.sleep(self.ttl / 20)
            return
        self.until = asked + self.ttl
        self.epoch = self.redis.incr(f"parser2:sub:{self.args.sub_id}:epoch")
        if self.take([self.stream], [self.args.sub_id, self.epoch]) == 1:
            self.work()
        self.until = 0.0

    def move(self, start, acks):
        """Acknowledges and reads; None when another instance is the holder."""
        return self.step([self.stream], [self.args.sub_id, self.epoch, start, BATCH, *acks])

    def work(self):
        """One time of being active: what is pending first, then what is new."""
        # The last entry is not known before the first one: then a wait may last half a second too long.
        start, last, acks = "0", "$", []
        while self.is_ours():
            entries = self.move("" if self.stopping.is_set() else start, acks)
            if entries is None or self.stopping.is_set():
                return
            acks = []
            if not entries:
                if start != ">":
                    start = ">"
                else:
                    self.redis.xread({self.stream: last}, count=1, block=500)
                continue
            for entry, fields in entries:
                last = entry
                start = start if start == ">" else entry
                # Fields of an entry that was trimmed are gone; it is acknowledged.
                data = dict(zip(fields[::2], fields[1::2])).get("data", "") if fields else None
                if data is not None and not self.settle(entry, data):
                    return
                acks.append(entry)
                if self.stopping.is_set():
                    break
                if len(acks) >= 10:  # often, so that little is repeated after a crash
                    if self.move("", acks) is None:
                        return
                    acks = []

    def bury(self, entry, data, count, reason):
        fields = {"data": data, "failureCount": count, "lastError": reason[:4096], "subId": self.args.sub_id, "entryId": entry}
        self.redis.xadd(self.dead, fields)

    def settle(self, entry, data):
        """Handles one entry to its end: handled, or in the dead letters. False when the lock may be lost meanwhile."""
        try:
            event = json.loads(data)
        except ValueError:
            self.bury(entry, data, 0, "malformed entry")
            return True
        pause = self.ttl / 100
        while self.is_ours():
            try:
                self.handle(event)
            except Exception as error:  # whatever a handler raises is a failure of the event
                with self.redis.pipeline() as pipe:
                    count = pipe.hincrby(self.failures, event["event_id"], 1).expire(self.failures, 86400).execute()[0]
                if count < FAILURES_MAX:
                    time.sleep(pause)
                    pause *= 5
                    continue
                if event["kind"] == "fork":
                    raise SystemExit(f"a fork cannot be left out: {error}") from error
                self.bury(entry, data, count, str(error))
            else:
                if not self.is_ours():
                    return False
                print(self.epoch, entry, event["event_id"], flush=True)
            self.redis.hdel(self.failures, event["event_id"])
            return True
        return False

    def handle(self, event):
        time.sleep(self.args.work_ms / 1000)
        if self.args.fail_ending and event["event_id"].endswith(self.args.fail_ending):
            raise RuntimeError("refused, as asked")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("chain")
    parser.add_argument("sub_id")
    parser.add_argument("--ttl-ms", type=int, default=10_000)
    parser.add_argument("--work-ms", type=int, default=0)
    parser.add_argument("--fail-ending", default="", help="refuse events whose id ends so, to see the dead letters")
    subscriber = Subscriber(parser.parse_args())
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: subscriber.stopping.set())
    subscriber.run()


if __name__ == "__main__":
    main()
