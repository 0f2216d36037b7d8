//! Counting again what only the first teller of an event counts: events by person, and values of properties. Such a count
//! may lack an event whose teller was interrupted; it never has one too many, and this must not change it.
//!
//! What the lists of events say is therefore only taken over when nobody is about to count the same events: the counts are
//! read first, the lists after them; then all operations that were begun until then must have ended; and a count is only
//! replaced if it still is what it was in the beginning. Whoever lists an event later finds a count without it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::apply::VALUES_MAX;
use crate::error::ScannerError;
use crate::event::{Event, OTHER, dimensions_of};
use crate::read::page::{Order, Position, Range};
use crate::scanner::Scanner;
use crate::store::Batch;
use crate::store::scripts::Step;

/// Accounts looked at in one round.
const ACCOUNTS_AT_ONCE: usize = 200;
/// Events looked at in one round.
const EVENTS_AT_ONCE: usize = 500;
/// How long operations under way may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they are looked at.
const POLL: Duration = Duration::from_millis(50);

/// A count that lacks something.
struct Short {
    key: String,
    field: String,
    before: Option<String>,
    after: u64,
}

/// The counts of a hash.
type Counts = HashMap<String, String>;

impl Scanner {
    /// Brings the counts by person and by property up to the lists of events.
    pub(crate) async fn recount_events(&self, names: &[String]) -> Result<(), ScannerError> {
        for name in names {
            for short in self.short_values(name).await? {
                if !self.complete(short).await? {
                    return Ok(());
                }
            }
        }
        let mut from = "-".to_owned();
        loop {
            let mut accounts: Vec<String> = self
                .store()
                .one("ZRANGEBYLEX", self.keys().nodes(), |command| {
                    command.arg(&from).arg("+").arg("LIMIT").arg(0);
                    command.arg(ACCOUNTS_AT_ONCE);
                })
                .await?;
            if from == "-" {
                // Whose revisions are.
                accounts.push("system".to_owned());
            }
            let is_last = accounts.len() < ACCOUNTS_AT_ONCE;
            let short = self.short_accounts(&accounts, names).await?;
            if !self.complete(short).await? {
                return Ok(());
            }
            match accounts.iter().rfind(|account| *account != "system") {
                Some(last) if !is_last => from = format!("({last}"),
                _ => return Ok(()),
            }
        }
    }

    /// Counts of accounts that are below what the accounts' lists hold.
    async fn short_accounts(
        &self,
        accounts: &[String],
        names: &[String],
    ) -> Result<Vec<Short>, ScannerError> {
        let keys = self.keys();
        let mut batch = Batch::new();
        let slots: Vec<_> = accounts
            .iter()
            .map(|account| batch.add("HGETALL", keys.agg_user(account), |_| {}))
            .collect();
        batch.barrier();
        let sizes: Vec<_> = accounts
            .iter()
            .map(|account| batch.add("ZCARD", keys.by_user(account), |_| {}))
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut short = Vec::new();
        for (account, (counts, size)) in accounts.iter().zip(slots.into_iter().zip(sizes)) {
            let counts: Counts = answers.take(counts)?;
            let size: u64 = answers.take(size)?;
            let sum = counts.values().fold(0u64, |sum, count| {
                sum.saturating_add(count.parse().unwrap_or(0))
            });
            // The usual case: nothing is missing.
            if sum >= size {
                continue;
            }
            for (name, count) in self.listed_by_name(account, names).await? {
                let before = counts.get(&name).cloned();
                if is_less(before.as_deref(), count) {
                    short.push(Short {
                        key: keys.agg_user(account),
                        field: name,
                        before,
                        after: count,
                    });
                }
            }
        }
        Ok(short)
    }

    /// How many events of each name an account's list holds.
    async fn listed_by_name(
        &self,
        account: &str,
        names: &[String],
    ) -> Result<BTreeMap<String, u64>, ScannerError> {
        let mut counts = BTreeMap::new();
        let mut after = None;
        loop {
            let (ids, next) = self
                .events_after(self.keys().by_user(account), after)
                .await?;
            if !ids.is_empty() {
                let mut batch = Batch::new();
                let slots: Vec<_> = names
                    .iter()
                    .map(|name| {
                        batch.add("ZMSCORE", self.keys().event(name), |command| {
                            command.arg(&ids);
                        })
                    })
                    .collect();
                let mut answers = self.store().send(batch).await?;
                for (name, slot) in names.iter().zip(slots) {
                    let scores: Vec<Option<f64>> = answers.take(slot)?;
                    let found = scores.iter().flatten().count() as u64;
                    if found > 0 {
                        *counts.entry(name.clone()).or_default() += found;
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(counts),
            }
        }
    }

    /// Counts of the properties of an event that are below what the stored events say, for each property. What an event
    /// whose body has expired said is not known any more.
    async fn short_values(&self, name: &str) -> Result<Vec<Vec<Short>>, ScannerError> {
        let keys = self.keys();
        let properties = dimensions_of(name);
        if properties.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Batch::new();
        let slots: Vec<_> = properties
            .iter()
            .map(|property| batch.add("HGETALL", keys.agg_prop(name, property), |_| {}))
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut tallies = BTreeMap::new();
        for (property, slot) in properties.iter().zip(slots) {
            tallies.insert(*property, Tally::of(answers.take(slot)?));
        }
        let mut after = None;
        loop {
            let (ids, next) = self.events_after(keys.event(name), after).await?;
            let bodies = ids.iter().map(|id| keys.event_body(id)).collect();
            for body in self.store().values(bodies).await?.into_iter().flatten() {
                let Ok(event) = Event::from_json(&body) else {
                    continue;
                };
                for (property, value) in event.dimensions() {
                    if let Some(tally) = tallies.get_mut(property) {
                        tally.add(&value);
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        Ok(tallies
            .into_iter()
            .map(|(property, tally)| tally.short(&keys.agg_prop(name, property)))
            .collect())
    }

    /// Members of a list of events, oldest first, and where to go on.
    async fn events_after(
        &self,
        key: String,
        after: Option<Position>,
    ) -> Result<(Vec<String>, Option<Position>), ScannerError> {
        let range = Range {
            order: Order::Ascending,
            ..Range::newest(EVENTS_AT_ONCE, after)
        };
        let found = self.page(key, &range).await?;
        let next = found
            .last()
            .filter(|_| found.len() == EVENTS_AT_ONCE)
            .map(|(member, score)| Position {
                score: *score,
                member: Some(member.clone()),
            });
        Ok((found.into_iter().map(|(member, _)| member).collect(), next))
    }

    /// Replaces counts, once nobody is about to count what they lack. False if that did not come.
    async fn complete(&self, short: Vec<Short>) -> Result<bool, ScannerError> {
        if short.is_empty() {
            return Ok(true);
        }
        if !self.begun_operations_have_ended().await? {
            tracing::info!(
                counts = short.len(),
                "counts of events are completed by a later rebuild: an operation is under way"
            );
            return Ok(false);
        }
        let mut batch = Batch::new();
        let slots: Vec<_> = short
            .iter()
            .map(|one| {
                let key = one.key.clone();
                self.store()
                    .step(&mut batch, Step::ReplaceField, key, |command| {
                        command
                            .arg(&one.field)
                            .arg(one.before.as_deref().unwrap_or_default())
                            .arg(one.after);
                    })
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        for slot in slots {
            answers.take::<i64>(slot)?;
        }
        Ok(true)
    }

    /// Waits until all that is pending now is pending no longer. False if that takes too long.
    async fn begun_operations_have_ended(&self) -> Result<bool, ScannerError> {
        let key = self.keys().pending();
        let mut begun: BTreeSet<String> = self.store().one("HKEYS", key.clone(), |_| {}).await?;
        let deadline = Instant::now() + PATIENCE;
        while !begun.is_empty() {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
            let now: BTreeSet<String> = self.store().one("HKEYS", key.clone(), |_| {}).await?;
            begun.retain(|id| now.contains(id));
        }
        Ok(true)
    }
}

/// Whether a stored count is a number below another one.
fn is_less(stored: Option<&str>, than: u64) -> bool {
    stored.map_or(than > 0, |text| {
        text.parse::<u64>().is_ok_and(|stored| stored < than)
    })
}

/// The values of one property, counted by the rules of the writer.
struct Tally {
    stored: Counts,
    counts: HashMap<String, u64>,
    /// Values that may still get a count of their own.
    room: usize,
}

impl Tally {
    fn of(stored: Counts) -> Self {
        Self {
            room: (VALUES_MAX - 1).saturating_sub(stored.len()),
            counts: HashMap::with_capacity(stored.len()),
            stored,
        }
    }

    fn add(&mut self, value: &str) {
        let known = self.stored.contains_key(value) || self.counts.contains_key(value);
        let value = if known {
            value
        } else if self.room > 0 {
            self.room -= 1;
            value
        } else {
            OTHER
        };
        if let Some(count) = self.counts.get_mut(value) {
            *count += 1;
        } else {
            self.counts.insert(value.to_owned(), 1);
        }
    }

    fn short(self, key: &str) -> Vec<Short> {
        let mut stored = self.stored;
        self.counts
            .into_iter()
            .map(|(field, after)| Short {
                key: key.to_owned(),
                before: stored.remove(&field),
                field,
                after,
            })
            .filter(|short| is_less(short.before.as_deref(), short.after))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_as_the_writer_counts_them() {
        let stored: Counts = (0..VALUES_MAX - 2)
            .map(|index| (format!("v{index}"), "1".to_owned()))
            .collect();
        let mut tally = Tally::of(stored);
        for value in ["v0", "v1", "v1", "new", "late", "later", "new"] {
            tally.add(value);
        }
        let mut short: Vec<(String, Option<String>, u64)> = tally
            .short("k")
            .into_iter()
            .map(|short| (short.field, short.before, short.after))
            .collect();
        short.sort();
        let known = |field: &str, before: Option<&str>, after| {
            (field.to_owned(), before.map(str::to_owned), after)
        };
        assert_eq!(
            short,
            [
                known(OTHER, None, 2),
                known("new", None, 2),
                known("v1", Some("1"), 2)
            ]
        );
    }

    #[test]
    fn a_count_that_is_no_number_stays() {
        for (stored, expected) in [
            (None, true),
            (Some("1"), true),
            (Some("2"), false),
            (Some("3"), false),
            (Some("x"), false),
        ] {
            assert_eq!(is_less(stored, 2), expected, "{stored:?}");
        }
    }
}
