//! Following an application that writes its own keys in the same Redis: Redis tells of each write, if its
//! `notify-keyspace-events` is on for lists, strings and hashes. Notifications can be lost; the sweep finds what was.

use cairn_redis::RedisError;
use futures_util::StreamExt;
use redis::aio::PubSub;

use crate::error::ScannerError;
use crate::scanner::Scanner;

/// What must be told: writes by key (`K`) of lists, strings and hashes.
const NEEDED: [char; 4] = ['K', 'l', '$', 'h'];
/// Stands for all kinds of values.
const ALL_KINDS: char = 'A';

/// Notifications of an application's writes.
pub struct KeyFollower {
    notifications: PubSub,
    /// What channels begin with before the key.
    channel_prefix: String,
    scanner: Scanner,
}

impl std::fmt::Debug for KeyFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyFollower({}*)", self.channel_prefix)
    }
}

/// Whether the setting of a server tells what is needed.
fn is_enough(setting: &str) -> bool {
    NEEDED
        .iter()
        .all(|&flag| setting.contains(flag) || (flag != 'K' && setting.contains(ALL_KINDS)))
}

impl KeyFollower {
    /// Subscribes on a connection of its own to the single server that the client leads to. `None` when that server does
    /// not notify.
    pub async fn open(
        scanner: &Scanner,
        client: &redis::Client,
    ) -> Result<Option<Self>, ScannerError> {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg("notify-keyspace-events");
        let setting: Result<Vec<String>, RedisError> =
            scanner.redis().query("CONFIG GET", &get).await;
        match setting {
            Ok(pair) if pair.get(1).is_some_and(|setting| is_enough(setting)) => {}
            // A managed service may refuse the question and still notify; the sweep is there either way.
            Ok(_) => return Ok(None),
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(_) => return Ok(None),
        }
        let explain = |error: redis::RedisError| scanner.redis().explain("subscribing", &error);
        let mut notifications = client.get_async_pubsub().await.map_err(explain)?;
        let database = client.get_connection_info().redis_settings().db();
        let channel_prefix = format!("__keyspace@{database}__:");
        // Not the ledger's own keys, which are written far more often.
        let patterns: Vec<String> = ["player:*", "node:*", "session"]
            .iter()
            .map(|part| format!("{channel_prefix}{}", scanner.keys().app_pattern(part)))
            .collect();
        notifications.psubscribe(patterns).await.map_err(explain)?;
        Ok(Some(Self {
            notifications,
            channel_prefix,
            scanner: scanner.clone(),
        }))
    }

    /// Waits for the next write of the application and indexes what is new in its key. Gives the number of new rows; `None`
    /// when the connection has ended.
    pub async fn next(&mut self) -> Result<Option<u64>, ScannerError> {
        let message = self.notifications.on_message().next().await;
        let Some(message) = message else {
            return Ok(None);
        };
        let channel = message.get_channel_name();
        let Some(key) = channel.strip_prefix(self.channel_prefix.as_str()) else {
            return Ok(Some(0));
        };
        match self.scanner.index_app_key(key, true).await {
            Ok(new_rows) => Ok(Some(new_rows)),
            Err(error) if error.is_transient() => Err(error),
            // One key that cannot be indexed hides no other.
            Err(error) => {
                tracing::warn!(key, %error, "a key of the application is skipped");
                Ok(Some(0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_enough() {
        for (setting, enough) in [
            ("Kl$h", true),
            ("AK", true),
            ("KA", true),
            ("AKE", true),
            ("AE", false),
            ("Kl$", false),
            ("", false),
        ] {
            assert_eq!(is_enough(setting), enough, "{setting:?}");
        }
    }
}
