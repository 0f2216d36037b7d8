//! How long lists of events are kept.

use crate::error::ScannerError;
use crate::scanner::Scanner;

/// How often the lists are trimmed, milliseconds.
const INTERVAL_MS: i64 = 86_400_000;
/// Names looked at.
const NAMES_MAX: usize = 1000;
/// Persons looked at in one step.
const SCAN_COUNT: usize = 500;

/// How many entries were trimmed from a list, by what is kept about it: `n`, or `n+m@cutoff` while m more are removed.
pub(crate) fn trimmed_count(text: Option<&str>) -> u64 {
    text.and_then(|text| text.split('+').next()?.parse().ok())
        .unwrap_or(0)
}

/// A removal that was begun: how many had gone before, how many go, and up to which score.
fn begun(text: &str) -> Option<(u64, u64, &str)> {
    let (before, rest) = text.split_once('+')?;
    let (more, cutoff) = rest.split_once('@')?;
    Some((before.parse().ok()?, more.parse().ok()?, cutoff))
}

impl Scanner {
    /// Removes entries that are too old from the lists of events, once a day by one instance. The number of removed
    /// entries is written down first, so that counts stay right whatever happens in between.
    pub async fn trim_events(&self) -> Result<(), ScannerError> {
        let taken: Option<String> = self
            .store()
            .one("SET", self.keys().trim_lock(), |command| {
                command.arg("1").arg("NX").arg("PX").arg(INTERVAL_MS);
            })
            .await?;
        if taken.is_none() {
            return Ok(());
        }
        // One day of grace: what is just being written must not be removed under its writer.
        let cutoff = format!(
            "({}",
            self.earliest_event().ms().saturating_sub(INTERVAL_MS)
        );
        let names: Vec<String> = self
            .store()
            .one("ZRANGE", self.keys().event_names(), |command| {
                command.arg(0).arg(NAMES_MAX - 1);
            })
            .await?;
        for name in names {
            self.trim_list(&name, &cutoff).await?;
        }
        self.trim_persons(&cutoff).await
    }

    async fn trim_list(&self, name: &str, cutoff: &str) -> Result<(), ScannerError> {
        let (store, keys) = (self.store(), self.keys());
        let known: Option<String> = store
            .one("HGET", keys.agg_trimmed(), |command| {
                command.arg(name);
            })
            .await?;
        let known = known.as_deref().unwrap_or("0");
        if let Some((before, more, cutoff)) = begun(known) {
            self.finish(name, before.saturating_add(more), cutoff)
                .await?;
            return Ok(());
        }
        let more: u64 = store
            .one("ZCOUNT", keys.event(name), |command| {
                command.arg("-inf").arg(cutoff);
            })
            .await?;
        if more == 0 {
            return Ok(());
        }
        let before = trimmed_count(Some(known));
        store
            .one::<redis::Value>("HSET", keys.agg_trimmed(), |command| {
                command.arg(name).arg(format!("{before}+{more}@{cutoff}"));
            })
            .await?;
        self.finish(name, before.saturating_add(more), cutoff).await
    }

    async fn finish(&self, name: &str, total: u64, cutoff: &str) -> Result<(), ScannerError> {
        let (store, keys) = (self.store(), self.keys());
        store
            .one::<redis::Value>("ZREMRANGEBYSCORE", keys.event(name), |command| {
                command.arg("-inf").arg(cutoff);
            })
            .await?;
        store
            .one::<redis::Value>("HSET", keys.agg_trimmed(), |command| {
                command.arg(name).arg(total);
            })
            .await
            .map(drop)
    }

    async fn trim_persons(&self, cutoff: &str) -> Result<(), ScannerError> {
        let (store, keys) = (self.store(), self.keys());
        let mut cursor = "0".to_owned();
        loop {
            let (next, pairs): (String, Vec<String>) = store
                .one("ZSCAN", keys.nodes(), |command| {
                    command.arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
                })
                .await?;
            let mut batch = crate::store::Batch::new();
            for pair in pairs.chunks(2) {
                batch.add("ZREMRANGEBYSCORE", keys.by_user(&pair[0]), |command| {
                    command.arg("-inf").arg(cutoff);
                });
            }
            store.send(batch).await?;
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_trimmed() {
        for (text, count) in [
            (None, 0),
            (Some("7"), 7),
            (Some("7+3@(100"), 7),
            (Some("x"), 0),
        ] {
            assert_eq!(trimmed_count(text), count);
        }
        assert_eq!(begun("7+3@(100"), Some((7, 3, "(100")));
        assert_eq!(begun("7"), None);
    }
}
