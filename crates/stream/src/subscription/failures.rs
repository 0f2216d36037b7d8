//! What could not be handled: the counter of each event's failures, and the dead letters.
//!
//! On one server a dead letter enters its stream, leaves the group and loses its counter in one step. On a Cluster the three
//! keys lie on different nodes, so the steps are ordered instead: first the dead letter, unless it is there already, then the
//! acknowledgement, then the counter. A crash between two of them repeats the first, which changes nothing.

use std::sync::LazyLock;
use std::time::Duration;

use cairn_redis::Redis;
use redis::Script;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::subscription::group::Mark;
use crate::subscription::names::{EventSource, SubId};

/// After this long without a failure an event's count is forgotten; of the whole hash, so it is renewed by each.
const MEMORY: Duration = Duration::from_secs(24 * 3600);
/// Longest `lastError` of a dead letter, characters.
pub(super) const ERROR_CHARS_MAX: usize = 4_096;
/// Dead letters that are looked at for one of the same entry.
const LOOK_BACK: usize = 100;

static COUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n\
         redis.call('EXPIRE', KEYS[1], ARGV[2])\n\
         return count",
    )
});

static UNCOUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')\n\
         if count > 1 then return redis.call('HINCRBY', KEYS[1], ARGV[1], -1) end\n\
         redis.call('HDEL', KEYS[1], ARGV[1])\n\
         return 0",
    )
});

/// Adds a dead letter unless one of the same entry is among the newest.
const ADD: &str = "\
local function bury(key, data, count, error, sub, entry, look)\n\
  for _, letter in ipairs(redis.call('XREVRANGE', key, '+', '-', 'COUNT', look)) do\n\
    local fields = letter[2]\n\
    for i = 1, #fields, 2 do if fields[i] == 'entryId' and fields[i + 1] == entry then return letter[1] end end\n\
  end\n\
  return redis.call('XADD', key, '*', 'data', data, 'failureCount', count, 'lastError', error, 'subId', sub, 'entryId', entry)\n\
end\n";

static BURY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "{ADD}return bury(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])"
    ))
});

/// The same with acknowledgement and counter, by the holder alone.
static BURY_AT_ONCE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "{ADD}\
         local held, consumers = false, redis.pcall('XINFO', 'CONSUMERS', KEYS[2], ARGV[4])\n\
         if consumers.err then return false end\n\
         for _, consumer in ipairs(consumers) do\n\
           if consumer[2] == ARGV[7] then held = true break end\n\
         end\n\
         if not held then return false end\n\
         local id = bury(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])\n\
         redis.call('XACK', KEYS[2], ARGV[4], ARGV[5])\n\
         if ARGV[8] ~= '' then redis.call('HDEL', KEYS[3], ARGV[8]) end\n\
         return id"
    ))
});

/// A dead letter that was replayed and failed again: the new one takes the place of the old, in one step.
static BURY_AGAIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])\n\
         if #found == 0 then return 0 end\n\
         local fields = found[1][2]\n\
         for i = 1, #fields, 2 do\n\
           if fields[i] == 'failureCount' then fields[i + 1] = ARGV[2] end\n\
           if fields[i] == 'lastError' then fields[i + 1] = ARGV[3] end\n\
         end\n\
         redis.call('XADD', KEYS[1], '*', unpack(fields))\n\
         return redis.call('XDEL', KEYS[1], ARGV[1])",
    )
});

/// An event that goes to the dead letters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dead<'a> {
    pub(super) entry: EntryId,
    /// Its id; empty for an entry that is no event.
    pub(super) event_id: &'a str,
    pub(super) data: &'a [u8],
    pub(super) failures: u32,
    pub(super) reason: &'a str,
}

/// The failures of one subscription.
#[derive(Debug, Clone)]
pub(super) struct Failures {
    redis: Redis,
    sub_id: SubId,
    counts: String,
    letters: String,
    stream: String,
}

impl Failures {
    pub(super) fn new(redis: Redis, source: &EventSource, sub_id: &SubId) -> Self {
        Self {
            redis,
            sub_id: sub_id.clone(),
            counts: keys::failures(sub_id.as_str()),
            letters: keys::dead_letters(source.chain(), sub_id.as_str()),
            stream: source.key(),
        }
    }

    fn explain(&self, key: &str, error: &redis::RedisError) -> StreamError {
        self.redis.explain(key, error).into()
    }

    /// Counts a failure; gives how many there were within a day.
    pub(super) async fn count(&self, event_id: &str) -> Result<u32, StreamError> {
        COUNT
            .key(&self.counts)
            .arg(event_id)
            .arg(MEMORY.as_secs())
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.explain(&self.counts, &error))
    }

    /// Takes back one that was counted in advance.
    pub(super) async fn uncount(&self, event_id: &str) -> Result<(), StreamError> {
        UNCOUNT
            .key(&self.counts)
            .arg(event_id)
            .invoke_async::<i64>(&mut self.redis.clone())
            .await
            .map(drop)
            .map_err(|error| self.explain(&self.counts, &error))
    }

    /// Forgets the counts of events that were handled.
    pub(super) async fn forget(&self, event_ids: &[String]) -> Result<(), StreamError> {
        if event_ids.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("HDEL");
        command.arg(&self.counts).arg(event_ids);
        Ok(self
            .redis
            .query::<u64>(&self.counts, &command)
            .await
            .map(drop)?)
    }

    /// Puts an event to the dead letters and acknowledges it where that is one step. False when the acknowledgement is left
    /// to the caller, who must do it next.
    pub(super) async fn bury(&self, mark: &Mark, dead: &Dead<'_>) -> Result<Buried, StreamError> {
        let reason: String = dead.reason.chars().take(ERROR_CHARS_MAX).collect();
        let entry = dead.entry.to_string();
        if self.redis.is_cluster() {
            BURY.key(&self.letters)
                .arg(dead.data)
                .arg(dead.failures)
                .arg(reason)
                .arg(self.sub_id.as_str())
                .arg(entry)
                .arg(LOOK_BACK)
                .invoke_async::<String>(&mut self.redis.clone())
                .await
                .map_err(|error| self.explain(&self.letters, &error))?;
            return Ok(Buried::ToAcknowledge);
        }
        let id: Option<String> = BURY_AT_ONCE
            .key(&self.letters)
            .key(&self.stream)
            .key(&self.counts)
            .arg(dead.data)
            .arg(dead.failures)
            .arg(reason)
            .arg(self.sub_id.as_str())
            .arg(entry)
            .arg(LOOK_BACK)
            .arg(mark.text())
            .arg(dead.event_id)
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.explain(&self.letters, &error))?;
        Ok(match id {
            Some(_) => Buried::Wholly,
            None => Buried::Fenced,
        })
    }

    /// Puts a dead letter that was replayed in vain at the end, with the new reason.
    pub(super) async fn bury_again(
        &self,
        letter: EntryId,
        failures: u32,
        reason: &str,
    ) -> Result<(), StreamError> {
        let reason: String = reason.chars().take(ERROR_CHARS_MAX).collect();
        BURY_AGAIN
            .key(&self.letters)
            .arg(letter.to_string())
            .arg(failures)
            .arg(reason)
            .invoke_async::<u64>(&mut self.redis.clone())
            .await
            .map(drop)
            .map_err(|error| self.explain(&self.letters, &error))
    }
}

/// How far it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buried {
    /// The dead letter is there, the entry acknowledged, the counter gone.
    Wholly,
    /// The dead letter is there; the rest is left.
    ToAcknowledge,
    /// A newer holder is there; nothing was done.
    Fenced,
}
