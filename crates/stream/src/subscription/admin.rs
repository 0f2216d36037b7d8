//! Subscriptions from outside: what the commands list, move, and give out again.

use cairn_redis::Redis;
use redis::Script;
use serde_json::Value;
use std::sync::LazyLock;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::filter::EventView;
use crate::keys;
use crate::label::ChainLabel;
use crate::scan::{GroupState, Reader};
use crate::subscription::error::SubscriptionError;
use crate::subscription::names::{EventSource, SubId};
use crate::subscription::replay::{Entry, Replays};
use crate::subscription::{lock, registry, start};

/// Dead letters read, or pending entries acknowledged, in one round trip.
const PAGE: usize = 500;

/// A registered subscription.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionInfo {
    /// Its id.
    pub sub_id: String,
    /// What it wants, as registered.
    pub filters: Value,
    /// Where it began, as registered: a text or a block's number.
    pub start_from: Value,
    /// When it was registered first (ISO 8601).
    pub registered_at: Option<String>,
    /// The chain it is registered for; `None` when whoever registered it did not say.
    pub chain: Option<String>,
    /// The active instance.
    pub holder: Option<String>,
    /// Its group on the stream; `None` when it was never started.
    pub group: Option<GroupState>,
    /// Events in its dead letters.
    pub dead_letters: u64,
    /// The oldest entry that was left when it lost some, and was not told yet.
    pub trimmed_past: Option<String>,
}

impl SubscriptionInfo {
    /// As commands and the API write it: `subId`, `filters`, `startFrom`, `registeredAt`, `pending`, `lag`,
    /// `lastDeliveredId`, and what Cairn adds.
    pub fn to_json(&self) -> Value {
        let group = self.group.as_ref();
        serde_json::json!({
            "subId": self.sub_id, "filters": self.filters, "startFrom": self.start_from,
            "registeredAt": self.registered_at,
            "pending": group.map(|group| group.pending), "lag": group.and_then(|group| group.lag),
            "lastDeliveredId": group.map(|group| group.last_delivered.to_string()),
            "holder": self.holder, "deadLetters": self.dead_letters, "trimmedPast": self.trimmed_past,
        })
    }
}

/// The subscriptions of a chain: those registered for it, and those that do not say for which and have a group on its stream.
pub async fn list(redis: &Redis, chain: &ChainLabel) -> Result<Vec<SubscriptionInfo>, StreamError> {
    let live = EventSource::live(chain).key();
    let mut groups = std::collections::HashMap::new();
    groups.insert(
        live.clone(),
        Reader::of(redis, live.clone()).groups().await?,
    );
    let mut list = Vec::new();
    for (sub_id, registration) in registry::read_all(redis).await? {
        let text = |name: &str| {
            registration
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let registered_for = text("chainId");
        if registered_for
            .as_deref()
            .is_some_and(|other| other != chain.as_str())
        {
            continue;
        }
        // A stream of another chain would be a defect of whoever registered it; only a job's of this chain is looked at.
        let jobs = keys::reparse_events(chain, "");
        let key = text("stream")
            .filter(|key| key.starts_with(&jobs))
            .unwrap_or_else(|| live.clone());
        if !groups.contains_key(&key) {
            groups.insert(key.clone(), Reader::of(redis, key.clone()).groups().await?);
        }
        let group = groups
            .get(&key)
            .and_then(|groups| groups.iter().find(|group| group.name == sub_id))
            .cloned();
        if registered_for.is_none() && group.is_none() {
            continue;
        }
        let holder = match SubId::new(&sub_id) {
            Ok(sub_id) => lock::holder(redis, &sub_id).await?,
            Err(_) => None,
        };
        let letters = keys::dead_letters(chain, &sub_id);
        let mut command = redis::cmd("XLEN");
        command.arg(&letters);
        list.push(SubscriptionInfo {
            filters: registration.get("filters").cloned().unwrap_or(Value::Null),
            start_from: registration
                .get("startFrom")
                .cloned()
                .unwrap_or(Value::Null),
            registered_at: text("registeredAt"),
            chain: registered_for,
            holder,
            group,
            dead_letters: redis.query(&letters, &command).await?,
            trimmed_past: text("trimmed_past"),
            sub_id,
        });
    }
    Ok(list)
}

/// Where a subscription is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    /// The first event of this block, or of the first one after it that has events.
    Block(u32),
    /// The oldest event that the stream holds.
    Earliest,
    /// What is published from now on.
    Latest,
}

/// What a reset did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// The entry that it had been given last.
    pub before: EntryId,
    /// The entry after which it goes on.
    pub after: EntryId,
    /// Entries given out and not acknowledged.
    pub pending: u64,
    /// Whether these were acknowledged, or would be.
    pub is_pending_cleared: bool,
}

/// How a reset is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResetOptions {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Acknowledge what is pending, so that it is not given out again.
    pub clear_pending: bool,
    /// Also when an instance is active.
    pub force: bool,
}

/// Moves a subscription to another place of the stream.
pub async fn reset(
    redis: &Redis,
    source: &EventSource,
    sub_id: &SubId,
    to: ResetTo,
    options: ResetOptions,
) -> Result<Reset, SubscriptionError> {
    let reader = Reader::of(redis, source.key());
    let no_group = || SubscriptionError::NoGroup {
        key: source.key(),
        sub_id: sub_id.to_string(),
    };
    let group = reader.group(sub_id.as_str()).await?.ok_or_else(no_group)?;
    if !options.force
        && let Some(holder) = lock::holder(redis, sub_id).await?
    {
        return Err(SubscriptionError::Active {
            sub_id: sub_id.to_string(),
            holder,
        });
    }
    let after = match to {
        ResetTo::Earliest => EntryId::ZERO,
        ResetTo::Latest => reader
            .state()
            .await?
            .map(|state| state.last)
            .unwrap_or_default(),
        ResetTo::Block(num) => start::before_block(redis, source, num, false).await?,
    };
    let reset = Reset {
        before: group.last_delivered,
        after,
        pending: group.pending,
        is_pending_cleared: options.clear_pending && group.pending > 0,
    };
    if options.dry_run {
        return Ok(reset);
    }
    if options.clear_pending {
        clear_pending(redis, &source.key(), sub_id).await?;
    }
    let mut command = redis::cmd("XGROUP");
    command
        .arg("SETID")
        .arg(source.key())
        .arg(sub_id.as_str())
        .arg(match to {
            ResetTo::Latest => "$".to_owned(),
            _ => after.to_string(),
        });
    redis.query::<String>(&source.key(), &command).await?;
    Ok(reset)
}

async fn clear_pending(redis: &Redis, key: &str, sub_id: &SubId) -> Result<(), StreamError> {
    loop {
        let mut command = redis::cmd("XPENDING");
        command
            .arg(key)
            .arg(sub_id.as_str())
            .arg("-")
            .arg("+")
            .arg(PAGE);
        let found: Vec<(String, String, u64, u64)> = redis.query(key, &command).await?;
        if found.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = found.into_iter().map(|(id, ..)| id).collect();
        let mut command = redis::cmd("XACK");
        command.arg(key).arg(sub_id.as_str()).arg(ids);
        redis.query::<u64>(key, &command).await?;
    }
}

/// An event in the dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id: when it was put there, milliseconds, and a count.
    pub id: EntryId,
    /// The event's id; empty when it is no event.
    pub event_id: String,
    /// The event's kind; empty when it is no event.
    pub kind: String,
    /// How often it failed.
    pub failures: u64,
    /// Why, the last time.
    pub last_error: String,
    /// The event as it was in the stream.
    pub data: String,
    /// The subscription.
    pub sub_id: String,
}

impl DeadLetter {
    fn read(id: EntryId, fields: Vec<(String, Vec<u8>)>, sub_id: &SubId) -> Self {
        let mut letter = Self {
            id,
            event_id: String::new(),
            kind: String::new(),
            failures: 0,
            last_error: String::new(),
            data: String::new(),
            sub_id: sub_id.to_string(),
        };
        for (name, value) in fields {
            let text = String::from_utf8_lossy(&value).into_owned();
            match name.as_str() {
                keys::DATA_FIELD => letter.data = text,
                "failureCount" => letter.failures = text.parse().unwrap_or_default(),
                "lastError" => letter.last_error = text,
                _ => {}
            }
        }
        if let Ok(view) = EventView::parse_text(&letter.data) {
            letter.event_id = view.event_id.into_owned();
            letter.kind = view.kind.into_owned();
        }
        letter
    }

    /// As commands write it: `entryId`, `eventId`, `kind`, `failureCount`, `lastError`, `deadLetteredAt`,
    /// `originalPayload` (the event, or its text when it is no JSON), `subId`.
    pub fn to_json(&self) -> Value {
        let payload =
            serde_json::from_str(&self.data).unwrap_or_else(|_| Value::from(self.data.as_str()));
        serde_json::json!({
            "entryId": self.id.to_string(), "eventId": self.event_id, "kind": self.kind,
            "failureCount": self.failures, "lastError": self.last_error, "deadLetteredAt": self.at(),
            "originalPayload": payload, "subId": self.sub_id,
        })
    }

    /// When it was put there (ISO 8601, UTC).
    pub fn at(&self) -> String {
        i64::try_from(self.id.ms)
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .map(|at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
            .unwrap_or_default()
    }
}

/// The dead letters of a subscription after an id, oldest first, at most `count`.
pub async fn dead_letters(
    redis: &Redis,
    chain: &ChainLabel,
    sub_id: &SubId,
    after: EntryId,
    count: usize,
) -> Result<Vec<DeadLetter>, StreamError> {
    let key = keys::dead_letters(chain, sub_id.as_str());
    let mut command = redis::cmd("XRANGE");
    // The next id instead of an exclusive one, which older servers do not know.
    command
        .arg(&key)
        .arg(after.next().to_string())
        .arg("+")
        .arg("COUNT")
        .arg(count);
    let found: Vec<Entry> = redis.query(&key, &command).await?;
    found
        .into_iter()
        .map(|(id, fields)| {
            let id = id.parse().map_err(|error| StreamError::Damaged {
                key: key.clone(),
                what: format!("Redis answers an entry id in an unknown form: {error}"),
            })?;
            Ok(DeadLetter::read(id, fields, sub_id))
        })
        .collect()
}

/// The subscriptions of a chain that have dead letters, also those that are registered no more.
pub async fn with_dead_letters(
    redis: &Redis,
    chain: &ChainLabel,
) -> Result<Vec<SubId>, StreamError> {
    let prefix = keys::dead_letters(chain, "");
    let found = redis.scan_keys(&format!("{prefix}*")).await?;
    let mut subs: Vec<SubId> = found
        .iter()
        .filter_map(|key| SubId::new(key.strip_prefix(&prefix)?).ok())
        .collect();
    subs.sort();
    subs.dedup();
    Ok(subs)
}

/// Which dead letters are to be given out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// That of this event; when there are several, all.
    Event(String),
    /// That with this id.
    Letter(EntryId),
    /// All, in their order.
    All,
}

/// Gives dead letters out again: to their subscription alone, or, with `broadcast`, by the shared stream to all. Gives the
/// dead letters that were meant; with `dry_run` nothing else is done.
///
/// To the subscription alone a letter stays until it was handled. On one server a broadcast moves it in one step; on a Cluster
/// it is added to the stream first and then removed.
pub async fn replay(
    redis: &Redis,
    chain: &ChainLabel,
    sub_id: &SubId,
    which: &Which,
    broadcast: bool,
    dry_run: bool,
    mut each: impl FnMut(&DeadLetter),
) -> Result<u64, StreamError> {
    let mut count = 0;
    // What fails again meanwhile comes after this and is not given out twice.
    let Some(last) = newest(redis, chain, sub_id).await? else {
        return Ok(0);
    };
    let mut after = match which {
        Which::Letter(id) => id.previous(),
        _ => EntryId::ZERO,
    };
    loop {
        let page = dead_letters(redis, chain, sub_id, after, PAGE).await?;
        let Some(end) = page.last().map(|letter| letter.id) else {
            return Ok(count);
        };
        after = end;
        let chosen: Vec<DeadLetter> = page
            .into_iter()
            .filter(|letter| {
                letter.id <= last
                    && match which {
                        Which::Event(id) => letter.event_id == *id,
                        Which::Letter(id) => letter.id == *id,
                        Which::All => true,
                    }
            })
            .collect();
        for letter in &chosen {
            each(letter);
            count += 1;
        }
        if !dry_run {
            send(redis, chain, sub_id, &chosen, broadcast).await?;
        }
        if end >= last || matches!(which, Which::Letter(_)) {
            return Ok(count);
        }
    }
}

async fn newest(
    redis: &Redis,
    chain: &ChainLabel,
    sub_id: &SubId,
) -> Result<Option<EntryId>, StreamError> {
    let reader = Reader::of(redis, keys::dead_letters(chain, sub_id.as_str()));
    let page = reader.range_back(EntryId::MAX, 1).await?;
    Ok(page.first().map(|(id, _)| *id))
}

async fn send(
    redis: &Redis,
    chain: &ChainLabel,
    sub_id: &SubId,
    letters: &[DeadLetter],
    broadcast: bool,
) -> Result<(), StreamError> {
    let counts = keys::failures(sub_id.as_str());
    let event_ids: Vec<&str> = letters
        .iter()
        .map(|letter| letter.event_id.as_str())
        .filter(|id| !id.is_empty())
        .collect();
    if !event_ids.is_empty() {
        let mut command = redis::cmd("HDEL");
        command.arg(&counts).arg(event_ids);
        redis.query::<u64>(&counts, &command).await?;
    }
    if !broadcast {
        let ids: Vec<EntryId> = letters.iter().map(|letter| letter.id).collect();
        let replays = Replays::new(redis.clone(), &EventSource::live(chain), sub_id);
        return replays.request(&ids).await;
    }
    for letter in letters {
        broadcast_one(redis, chain, sub_id, letter).await?;
    }
    Ok(())
}

static MOVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        // The addition first: it is what a full Redis refuses.
        "if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end\n\
         redis.call('XADD', KEYS[2], '*', 'data', ARGV[2])\n\
         return redis.call('XDEL', KEYS[1], ARGV[1])",
    )
});

async fn broadcast_one(
    redis: &Redis,
    chain: &ChainLabel,
    sub_id: &SubId,
    letter: &DeadLetter,
) -> Result<(), StreamError> {
    let letters = keys::dead_letters(chain, sub_id.as_str());
    let events = keys::events(chain);
    if !redis.is_cluster() {
        return MOVE
            .key(&letters)
            .key(&events)
            .arg(letter.id.to_string())
            .arg(&letter.data)
            .invoke_async::<u64>(&mut redis.clone())
            .await
            .map(drop)
            .map_err(|error| redis.explain(&letters, &error).into());
    }
    let mut command = redis::cmd("XADD");
    command
        .arg(&events)
        .arg("*")
        .arg(keys::DATA_FIELD)
        .arg(&letter.data);
    redis.query::<String>(&events, &command).await?;
    let mut command = redis::cmd("XDEL");
    command.arg(&letters).arg(letter.id.to_string());
    Ok(redis.query::<u64>(&letters, &command).await.map(drop)?)
}
