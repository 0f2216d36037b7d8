//! The consumer group on the stream's key, and who may move it.
//!
//! **Fencing.** The lock is another key, on a Cluster in another slot, and it can expire while its holder sleeps. What a holder
//! may do to the group is therefore decided on the stream's key alone: whoever becomes active leaves its number in the group,
//! as a consumer `epoch:N` that never owns an entry, and removes lower ones. Every step that reads or acknowledges is one
//! script that looks for the own mark first; a holder that was replaced finds it gone and changes nothing. The entries
//! themselves belong to the consumer `primary`, so that clients that know nothing of marks can take over and be relieved.
//!
//! Such a client leaves no mark. Against it each step carries the time, by the clock of the server that executes it, at which
//! the holder's lock may have ended, and a step that comes later does nothing.

use std::sync::LazyLock;
use std::time::Instant;

use cairn_redis::{Redis, RedisError};
use redis::{Script, Value};

use crate::entry::EntryId;
use crate::error::StreamError;

/// The consumer that all active instances read as, one after the other.
pub const CONSUMER: &str = "primary";
/// Entries that other consumer names hold longer than this are taken over, milliseconds.
pub(super) const CLAIM_IDLE_MS: u64 = 10_000;

/// Becomes the newest holder: makes the group if there is none, removes older marks, leaves the own one.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local key, group, epoch = KEYS[1], ARGV[1], tonumber(ARGV[2])\n\
         local made = redis.pcall('XGROUP', 'CREATE', key, group, ARGV[3], 'MKSTREAM')\n\
         if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end\n\
         local old = {}\n\
         for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do\n\
           local held = string.match(consumer[2], '^epoch:(%d+)$')\n\
           if held and tonumber(held) > epoch then return {0, held} end\n\
           if held and tonumber(held) < epoch and consumer[4] == 0 then old[#old + 1] = consumer[2] end\n\
         end\n\
         for _, name in ipairs(old) do redis.call('XGROUP', 'DELCONSUMER', key, group, name) end\n\
         redis.call('XGROUP', 'CREATECONSUMER', key, group, 'epoch:' .. ARGV[2])\n\
         return {1, ARGV[2]}",
    )
});

/// What every step begins with: nothing is done by a holder that was replaced, or whose lock may have ended.
const GUARD: &str = "\
local key, group, call = KEYS[1], ARGV[1], redis.call\n\
local time = call('TIME')\n\
local now = time[1] * 1000 + math.floor(time[2] / 1000)\n\
local consumers = redis.pcall('XINFO', 'CONSUMERS', key, group)\n\
if consumers.err then\n\
  if string.find(consumers.err, 'NOGROUP', 1, true) or string.find(consumers.err, 'no such key', 1, true) then return {'gone', now} end\n\
  return consumers\n\
end\n\
local held = false\n\
for _, consumer in ipairs(consumers) do if consumer[2] == ARGV[2] then held = true break end end\n\
if not held then return {'fenced', now} end\n\
if now > tonumber(ARGV[3]) then return {'late', now} end\n";

/// Acknowledges entries (from the seventh argument on), then reads. Small portions, so that the bytes of one answer are bounded.
static STEP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "{GUARD}\
         for i = 7, #ARGV, 500 do call('XACK', key, group, unpack(ARGV, i, math.min(i + 499, #ARGV))) end\n\
         local out, at, bytes, read = {{'done', now}}, 2, 0, 0\n\
         local from, want, most = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])\n\
         while from ~= '' and read < want and bytes < most do\n\
           local portion = math.min(want - read, 100)\n\
           local got = call('XREADGROUP', 'GROUP', group, '{CONSUMER}', 'COUNT', portion, 'STREAMS', key, from)\n\
           local entries = got and got[1][2] or {{}}\n\
           for _, entry in ipairs(entries) do\n\
             local fields, data = entry[2], false\n\
             if fields then\n\
               data = ''\n\
               for i = 1, #fields, 2 do if fields[i] == 'data' then data = fields[i + 1] break end end\n\
               bytes = bytes + #data\n\
             end\n\
             out[at + 1] = entry[1]\n\
             out[at + 2] = data\n\
             at = at + 2\n\
           end\n\
           read = read + #entries\n\
           if #entries < portion then break end\n\
           if from ~= '>' then from = entries[#entries][1] end\n\
         end\n\
         return out"
    ))
});

/// Takes over what other consumer names have held for long. Answers where to go on, and how many pending entries were found
/// trimmed.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "{GUARD}\
         local got = call('XAUTOCLAIM', key, group, '{CONSUMER}', ARGV[4], ARGV[5], 'COUNT', 1000, 'JUSTID')\n\
         return {{'done', now, got[1], #got[3]}}"
    ))
});

/// A holder's right to move the group.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    text: String,
}

impl Mark {
    pub(super) fn of(epoch: u64) -> Self {
        Self {
            epoch,
            text: format!("epoch:{epoch}"),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// What a step did.
#[derive(Debug)]
pub(super) enum Stepped<T> {
    Done(T),
    /// A newer holder is there.
    Fenced,
    /// Our lock may have ended.
    Late,
    /// There is no such group.
    Gone,
}

/// The time at a server, as told by a step: milliseconds, and when the answer came.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerTime {
    pub(super) ms: u64,
    pub(super) seen: Instant,
}

/// An entry as it was read. `None` for one that was trimmed while it was pending; an empty text for one without `data`.
pub(super) type Raw = (EntryId, Option<Vec<u8>>);

/// What a step is to do.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) mark: &'a Mark,
    /// The last moment at which it may be done, by the clock of the server; milliseconds.
    pub(super) deadline_ms: u64,
    pub(super) acks: &'a [EntryId],
    pub(super) read: Read,
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Nothing,
    /// What was never given out.
    New,
    /// What was given out and not acknowledged, after this entry.
    Pending(EntryId),
}

/// The group of one subscription.
#[derive(Debug, Clone)]
pub(super) struct Group {
    redis: Redis,
    key: String,
    name: String,
}

impl Group {
    pub(super) fn new(redis: Redis, key: String, name: String) -> Self {
        Self { redis, key, name }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    fn explain(&self, error: &redis::RedisError) -> RedisError {
        self.redis.explain(&self.key, error)
    }

    fn unexpected(&self, what: impl std::fmt::Display) -> StreamError {
        StreamError::Damaged {
            key: self.key.clone(),
            what: format!("Redis answers in an unknown form: {what}"),
        }
    }

    /// Becomes the holder. `start` is where the group begins if there is none. `Err(n)` inside: holder `n` is newer.
    pub(super) async fn take(
        &self,
        mark: &Mark,
        start: &str,
    ) -> Result<Result<(), u64>, StreamError> {
        let (taken, epoch): (bool, String) = TAKE
            .key(&self.key)
            .arg(&self.name)
            .arg(mark.epoch)
            .arg(start)
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.explain(&error))?;
        if taken {
            return Ok(Ok(()));
        }
        epoch
            .parse()
            .map(Err)
            .map_err(|_| self.unexpected("an epoch that is no number"))
    }

    /// Acknowledges and reads in one step.
    pub(super) async fn step(
        &self,
        step: &Step<'_>,
    ) -> Result<(Stepped<Vec<Raw>>, ServerTime), StreamError> {
        let from = match step.read {
            Read::Nothing => String::new(),
            Read::New => ">".to_owned(),
            Read::Pending(after) => after.to_string(),
        };
        let mut call = STEP.prepare_invoke();
        call.key(&self.key)
            .arg(&self.name)
            .arg(step.mark.text())
            .arg(step.deadline_ms)
            .arg(from)
            .arg(step.count)
            .arg(step.bytes);
        for id in step.acks {
            call.arg(id.to_string());
        }
        let answer = call
            .invoke_async::<Value>(&mut self.redis.clone())
            .await
            .map_err(|error| self.explain(&error))?;
        let (stepped, time) = self.guarded(answer)?;
        let stepped = match stepped {
            Stepped::Done(rest) => Stepped::Done(self.entries(rest)?),
            Stepped::Fenced => Stepped::Fenced,
            Stepped::Late => Stepped::Late,
            Stepped::Gone => Stepped::Gone,
        };
        Ok((stepped, time))
    }

    /// Takes over what other consumer names hold, and counts what of it was trimmed.
    pub(super) async fn claim(
        &self,
        mark: &Mark,
        deadline_ms: u64,
    ) -> Result<Stepped<u64>, StreamError> {
        let mut cursor = "0-0".to_owned();
        let mut trimmed = 0;
        loop {
            let answer = CLAIM
                .key(&self.key)
                .arg(&self.name)
                .arg(mark.text())
                .arg(deadline_ms)
                .arg(CLAIM_IDLE_MS)
                .arg(&cursor)
                .invoke_async::<Value>(&mut self.redis.clone())
                .await
                .map_err(|error| self.explain(&error))?;
            let rest = match self.guarded(answer)?.0 {
                Stepped::Done(rest) => rest,
                Stepped::Fenced => return Ok(Stepped::Fenced),
                Stepped::Late => return Ok(Stepped::Late),
                Stepped::Gone => return Ok(Stepped::Gone),
            };
            let (next, gone): (String, u64) = redis::from_redis_value(Value::Array(rest.collect()))
                .map_err(|error| self.unexpected(error))?;
            trimmed += gone;
            if next == "0-0" {
                return Ok(Stepped::Done(trimmed));
            }
            cursor = next;
        }
    }

    fn guarded(
        &self,
        answer: Value,
    ) -> Result<(Stepped<std::vec::IntoIter<Value>>, ServerTime), StreamError> {
        let Value::Array(items) = answer else {
            return Err(self.unexpected("no list"));
        };
        let mut items = items.into_iter();
        let (Some(word), Some(Value::Int(ms))) = (items.next(), items.next()) else {
            return Err(self.unexpected("no word and time"));
        };
        let time = ServerTime {
            ms: u64::try_from(ms).map_err(|error| self.unexpected(error))?,
            seen: Instant::now(),
        };
        let word: String = redis::from_redis_value(word).map_err(|error| self.unexpected(error))?;
        let stepped = match word.as_str() {
            "done" => Stepped::Done(items),
            "fenced" => Stepped::Fenced,
            "late" => Stepped::Late,
            "gone" => Stepped::Gone,
            other => return Err(self.unexpected(other)),
        };
        Ok((stepped, time))
    }

    fn entries(&self, mut items: std::vec::IntoIter<Value>) -> Result<Vec<Raw>, StreamError> {
        let mut entries = Vec::with_capacity(items.len() / 2);
        while let Some(id) = items.next() {
            let Value::BulkString(id) = id else {
                return Err(self.unexpected("an entry without an id"));
            };
            let id = std::str::from_utf8(&id)
                .ok()
                .and_then(|id| id.parse().ok())
                .ok_or_else(|| self.unexpected("an entry without an id"))?;
            let data = match items.next() {
                Some(Value::BulkString(data)) => Some(data),
                Some(Value::Nil) => None,
                _ => return Err(self.unexpected("an entry without data")),
            };
            entries.push((id, data));
        }
        Ok(entries)
    }

    /// How often each of our pending entries in a range was given out.
    pub(super) async fn deliveries(
        &self,
        first: EntryId,
        last: EntryId,
        count: usize,
    ) -> Result<Vec<(EntryId, u64)>, StreamError> {
        let mut command = redis::cmd("XPENDING");
        command
            .arg(&self.key)
            .arg(&self.name)
            .arg(first.to_string())
            .arg(last.to_string())
            .arg(count)
            .arg(CONSUMER);
        let found: Vec<(String, String, u64, u64)> = self.redis.query(&self.key, &command).await?;
        found
            .into_iter()
            .map(|(id, _, _, times)| Ok((id.parse().map_err(|e| self.unexpected(e))?, times)))
            .collect()
    }

    /// How many entries are pending: ours, and whether another consumer name has held one for long.
    pub(super) async fn pending(&self) -> Result<(u64, bool), StreamError> {
        type Summary = (u64, Value, Value, Option<Vec<(String, u64)>>);
        let mut command = redis::cmd("XPENDING");
        command.arg(&self.key).arg(&self.name);
        let (_, _, _, consumers): Summary = self.redis.query(&self.key, &command).await?;
        let mut own = 0;
        let mut has_old = false;
        for (name, count) in consumers.unwrap_or_default() {
            if name == CONSUMER {
                own = count;
            } else if !has_old {
                let mut command = redis::cmd("XPENDING");
                command
                    .arg(&self.key)
                    .arg(&self.name)
                    .arg("IDLE")
                    .arg(CLAIM_IDLE_MS)
                    .arg("-")
                    .arg("+")
                    .arg(1)
                    .arg(name);
                let old: Vec<Value> = self.redis.query(&self.key, &command).await?;
                has_old = !old.is_empty();
            }
        }
        Ok((own, has_old))
    }
}
