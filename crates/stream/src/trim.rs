//! Removing old entries: a sliding window of time, with care for subscriptions that lag.
//!
//! What is removed in one pass is what is older than the window, but never one of the newest blocks, and with
//! [`TrimPolicy::Hold`] nothing that a subscription still needs, for a bounded time. A hard cap on the number of entries comes
//! last and always applies. When a subscription loses entries it is told: in the log, in the report, and as `trimmed_past` in
//! its registration.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use cairn_redis::Redis;
use redis::Script;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::checkpoint::Checkpoint;
use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::label::ChainLabel;
use crate::scan::{GroupState, Reader};

/// What happens to entries that a subscription still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimPolicy {
    /// They go when they are older than the window.
    Window,
    /// They stay, for at most this long after they were published.
    Hold {
        /// The longest that they stay.
        at_most: Duration,
    },
}

/// When entries are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimSettings {
    /// How long an entry stays after it was published.
    pub window: Duration,
    /// What happens to entries that a subscription still needs.
    pub policy: TrimPolicy,
    /// Most entries, whatever else is said; 0 for no limit.
    pub max_len: u64,
    /// The newest blocks whose entries stay whatever their age, so that a stalled indexer does not end with an empty stream.
    pub min_blocks: u32,
}

/// A subscription that lost entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLoss {
    /// The subscription.
    pub sub_id: String,
    /// The oldest entry that it still needed.
    pub needed: EntryId,
    /// The oldest entry that is left.
    pub left: EntryId,
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrimReport {
    /// Entries removed.
    pub removed: u64,
    /// Entries left.
    pub length: u64,
    /// Subscriptions that lost entries in this pass.
    pub losses: Vec<GroupLoss>,
    /// The subscription for which older entries than the window were kept.
    pub held_for: Option<String>,
}

/// Removes what is before an id, then what is beyond a number. Answers the entries removed and left.
static TRIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local removed = redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])\n\
         if ARGV[2] ~= '0' then removed = removed + redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[2]) end\n\
         return {removed, redis.call('XLEN', KEYS[1])}",
    )
});

/// The clock of the server that holds the key: it is the one that entry ids are made of.
static TIME: LazyLock<Script> = LazyLock::new(|| {
    Script::new("local t = redis.call('TIME') return {t[1], t[2], redis.call('EXISTS', KEYS[1])}")
});

/// Replaces a registration if it is still the one that was read.
static REPLACE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) return 1 end\n\
         return 0",
    )
});

/// Trims the stream of one chain.
#[derive(Debug)]
pub struct Trimmer {
    redis: Redis,
    chain: ChainLabel,
    reader: Reader,
    settings: TrimSettings,
    /// Subscriptions that were told of a loss, and what they needed then.
    told: Mutex<HashMap<String, EntryId>>,
}

impl Trimmer {
    /// A trimmer of this chain's stream.
    pub fn new(redis: Redis, chain: &ChainLabel, settings: TrimSettings) -> Self {
        Self {
            reader: Reader::new(&redis, chain),
            redis,
            chain: chain.clone(),
            settings,
            told: Mutex::default(),
        }
    }

    /// One pass by the server's clock.
    pub async fn run_once(&self) -> Result<TrimReport, StreamError> {
        let key = self.reader.key();
        let (seconds, micros, exists): (u64, u64, bool) = TIME
            .key(key)
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(key, &error))?;
        if !exists {
            return Ok(TrimReport::default());
        }
        self.run_at(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
            .await
    }

    /// One pass as if it were this time, in milliseconds since 1970 by the server's clock.
    pub async fn run_at(&self, now_ms: u64) -> Result<TrimReport, StreamError> {
        let back = |by: Duration| {
            let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            EntryId::at(now_ms.saturating_sub(by))
        };
        let groups = self.reader.groups().await?;
        let mut report = TrimReport::default();
        let mut bound = back(self.settings.window);
        if let TrimPolicy::Hold { at_most } = self.settings.policy
            && let Some(slowest) = groups.iter().min_by_key(|group| group.needs())
            && slowest.needs() < bound
        {
            report.held_for = Some(slowest.name.clone());
            bound = slowest.needs().max(back(at_most)).min(bound);
        }
        bound = self.keep_newest_blocks(bound).await?;
        let mut wanted = Vec::with_capacity(groups.len());
        for group in groups {
            let next = self.reader.range(group.needs(), 1).await?;
            wanted.push((group, next.first().map(|(id, _)| *id)));
        }
        let key = self.reader.key();
        let (removed, length): (u64, u64) = TRIM
            .key(key)
            .arg(bound.to_string())
            .arg(self.settings.max_len)
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(key, &error))?;
        report.removed = removed;
        report.length = length;
        report.losses = self.losses(wanted).await?;
        Ok(report)
    }

    /// Moves a bound back until the newest blocks are behind it.
    async fn keep_newest_blocks(&self, bound: EntryId) -> Result<EntryId, StreamError> {
        if self.settings.min_blocks == 0 {
            return Ok(bound);
        }
        let newest = match Checkpoint::read(&self.redis, &self.chain).await?.position {
            Some(position) => position.num,
            // No chain of blocks, or no writer yet.
            None => return Ok(bound),
        };
        let Some(oldest_kept) = newest.checked_sub(self.settings.min_blocks - 1) else {
            return Ok(EntryId::ZERO);
        };
        // The usual case costs one look: what the window keeps begins below that block.
        if let Some((_, num)) = self.reader.block_at(bound).await?
            && num <= oldest_kept
        {
            return Ok(bound);
        }
        Ok(match self.reader.first_of_block(oldest_kept).await? {
            Some(first) => first.min(bound),
            None => EntryId::ZERO,
        })
    }

    /// Which subscriptions needed what is gone, and were not told yet. Each comes with the next entry that it would have got
    /// before this pass.
    async fn losses(
        &self,
        wanted: Vec<(GroupState, Option<EntryId>)>,
    ) -> Result<Vec<GroupLoss>, StreamError> {
        let Some(state) = self.reader.state().await? else {
            return Ok(Vec::new());
        };
        let left = state.first.unwrap_or(state.last.next());
        let gone = state.added.saturating_sub(state.length);
        let mut losses = Vec::new();
        for (group, next) in wanted {
            let is_now = next.is_some_and(|next| next < left);
            // What went while blocks were published. One that begins at the beginning never needed what had gone before.
            let has_begun = group.last_delivered != EntryId::ZERO;
            let was_before = group.oldest_pending.is_some_and(|oldest| oldest < left)
                || (has_begun && group.read.is_some_and(|read| read < gone));
            let loss = GroupLoss {
                needed: group.needs(),
                sub_id: group.name,
                left,
            };
            if (is_now || was_before) && self.tell(&loss, is_now).await? {
                tracing::warn!(
                    chain = %self.chain, subscription = loss.sub_id, needed = %loss.needed, left = %left,
                    "a subscription lags so far that entries it still needed were removed (stream.window_hours, stream.policy)"
                );
                losses.push(loss);
            }
        }
        Ok(losses)
    }

    /// Writes the loss into the subscription's registration. False when it was told before and has not lost more.
    async fn tell(&self, loss: &GroupLoss, is_new: bool) -> Result<bool, StreamError> {
        let mut told = self.told.lock().await;
        let known = told.insert(loss.sub_id.clone(), loss.needed);
        if known.is_some_and(|known| known >= loss.needed) && !is_new {
            return Ok(false);
        }
        let mut command = redis::cmd("HGET");
        command.arg(keys::SUBSCRIPTIONS).arg(&loss.sub_id);
        let text: Option<String> = self.redis.query(keys::SUBSCRIPTIONS, &command).await?;
        let Some(text) = text else {
            // A group that somebody made without registering: the log is all there is.
            return Ok(true);
        };
        let Ok(Value::Object(mut registration)) = serde_json::from_str(&text) else {
            return Ok(true);
        };
        let before = registration.insert("trimmed_past".to_owned(), loss.left.to_string().into());
        let before = before.and_then(|before| before.as_str()?.parse::<EntryId>().ok());
        if before.is_some_and(|before| before > loss.needed) && !is_new {
            return Ok(false);
        }
        let _: bool = REPLACE
            .key(keys::SUBSCRIPTIONS)
            .arg(&loss.sub_id)
            .arg(&text)
            .arg(Value::Object(registration).to_string())
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(keys::SUBSCRIPTIONS, &error))?;
        Ok(true)
    }
}
