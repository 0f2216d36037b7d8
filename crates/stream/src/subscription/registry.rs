//! The registry of subscriptions: the hash `parser2:subs`, a JSON object for each.
//!
//! | field | content |
//! | --- | --- |
//! | `subId`, `filters`, `startFrom` | as it was started last |
//! | `registeredAt` | when it was registered first (ISO 8601); a restart does not move it |
//! | `chainId`, `lastActiveAt` | added: the chain, and when an instance last became active |
//! | `stream`, `forks` | added: the key of a stream that is not the live one; false when it wants no forks |
//! | `trimmed_past` | added: it lost events; the oldest entry that was left. Removed when it was told |

use std::sync::LazyLock;

use cairn_redis::Redis;
use redis::Script;
use serde_json::{Map, Value};

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::subscription::error::SubscriptionError;
use crate::subscription::names::EventSource;
use crate::subscription::options::SubscriptionOptions;

/// Attempts at changing a registration that others change at the same time.
const ATTEMPTS: usize = 20;

/// Sets a field if it still holds what was read (nothing: an empty text).
static REPLACE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('HGET', KEYS[1], ARGV[1]) or ''\n\
         if held ~= ARGV[2] then return 0 end\n\
         redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])\n\
         return 1",
    )
});

/// A registration as it stands.
pub(super) type Registration = Map<String, Value>;

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

/// Reads one registration, and its text.
async fn read(redis: &Redis, sub_id: &str) -> Result<(Registration, String), StreamError> {
    let mut command = redis::cmd("HGET");
    command.arg(keys::SUBSCRIPTIONS).arg(sub_id);
    let text: Option<String> = redis.query(keys::SUBSCRIPTIONS, &command).await?;
    let text = text.unwrap_or_default();
    // What another program wrote there and is no object is replaced.
    let found = match serde_json::from_str(&text) {
        Ok(Value::Object(found)) => found,
        _ => Map::new(),
    };
    Ok((found, text))
}

/// Changes one registration whatever others do meanwhile.
async fn change(
    redis: &Redis,
    sub_id: &str,
    mut how: impl FnMut(&mut Registration) -> Result<(), SubscriptionError>,
) -> Result<(), SubscriptionError> {
    for _ in 0..ATTEMPTS {
        let (mut found, text) = read(redis, sub_id).await?;
        how(&mut found)?;
        let done: bool = REPLACE
            .key(keys::SUBSCRIPTIONS)
            .arg(sub_id)
            .arg(text)
            .arg(Value::Object(found).to_string())
            .invoke_async(&mut redis.clone())
            .await
            .map_err(|error| redis.explain(keys::SUBSCRIPTIONS, &error))?;
        if done {
            return Ok(());
        }
    }
    Err(StreamError::Damaged {
        key: keys::SUBSCRIPTIONS.to_owned(),
        what: format!("the registration of {sub_id} changes all the time"),
    }
    .into())
}

/// Registers a subscription, or renews what its registration says. `is_active` when an instance has just become active.
/// Gives the entry up to which it lost events, if it was not told yet.
pub(super) async fn register(
    redis: &Redis,
    source: &EventSource,
    options: &SubscriptionOptions,
    is_active: bool,
) -> Result<Option<EntryId>, SubscriptionError> {
    let chain = source.chain().as_str();
    let mut trimmed_past = None;
    change(redis, options.sub_id.as_str(), |found| {
        if let Some(registered) = found.get("chainId").and_then(Value::as_str)
            && registered != chain
        {
            return Err(SubscriptionError::OtherChain {
                sub_id: options.sub_id.to_string(),
                registered: registered.to_owned(),
                wanted: chain.to_owned(),
            });
        }
        let registered_at = found
            .remove("registeredAt")
            .filter(Value::is_string)
            .unwrap_or_else(|| now().into());
        let start_from = match options.start_from {
            // As the peer writes it: a number is a number.
            crate::subscription::options::StartFrom::Block(num) => Value::from(num),
            other => other.to_string().into(),
        };
        let mut set = |name: &str, value: Value| found.insert(name.to_owned(), value);
        set("subId", options.sub_id.as_str().into());
        set("filters", options.filters.to_json());
        set("startFrom", start_from);
        set("registeredAt", registered_at);
        set("chainId", chain.into());
        if is_active {
            set("lastActiveAt", now().into());
        }
        found.remove("stream");
        if source.job().is_some() {
            found.insert("stream".to_owned(), source.key().into());
        }
        found.remove("forks");
        if !options.forks {
            found.insert("forks".to_owned(), false.into());
        }
        if is_active {
            trimmed_past = found
                .remove("trimmed_past")
                .and_then(|told| told.as_str()?.parse().ok());
        }
        Ok(())
    })
    .await?;
    Ok(trimmed_past)
}

/// All registrations, by subscription, in order.
pub(super) async fn read_all(redis: &Redis) -> Result<Vec<(String, Registration)>, StreamError> {
    let mut command = redis::cmd("HGETALL");
    command.arg(keys::SUBSCRIPTIONS);
    let found: std::collections::BTreeMap<String, String> =
        redis.query(keys::SUBSCRIPTIONS, &command).await?;
    Ok(found
        .into_iter()
        .map(|(sub_id, text)| {
            let registration = match serde_json::from_str(&text) {
                Ok(Value::Object(registration)) => registration,
                _ => Map::new(),
            };
            (sub_id, registration)
        })
        .collect())
}
