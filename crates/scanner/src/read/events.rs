//! Behaviour: overview, events, breakdowns, funnels. No figure about money comes from here.

use std::collections::HashMap;

use crate::backfill::MigrationStatus;
use crate::error::ScannerError;
use crate::event::{Event, is_dimension, is_planned};
use crate::scanner::Scanner;
use crate::store::{Batch, Slot};
use crate::time::{AtMs, Window};

use super::head::{add_buckets, sum_buckets};
use super::page::{ListId, Range};
use super::{QueryError, scored};

/// Names an overview looks at.
const NAMES_MAX: usize = 200;
/// Names an overview shows.
const TOP: usize = 10;
/// Steps of a funnel.
const STEPS_MAX: usize = 8;
/// Events one funnel may look at.
const FUNNEL_EVENTS_MAX: usize = 50_000;
/// Bodies read at once.
const BODIES_AT_ONCE: usize = 1_000;

/// An event in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its id.
    pub message_id: String,
    /// Its name, where the list tells it.
    pub event: Option<String>,
    /// Whose, where the list tells it.
    pub distinct_id: Option<String>,
    /// When.
    pub at: AtMs,
    /// The event; none when its body has expired.
    pub body: Option<Event>,
}

/// The overview.
#[derive(Debug, Clone)]
pub struct Overview {
    /// When it was made.
    pub now: AtMs,
    /// The hours it counts.
    pub window: Window,
    /// State of the backfill of events.
    pub migration: MigrationStatus,
    /// Events within the window.
    pub events: u64,
    /// All-time counts, most first.
    pub top: Vec<(String, u64)>,
    /// Counts within the window, most first.
    pub top_in_window: Vec<(String, u64)>,
    /// Newest entry of the stream.
    pub last_stream_id: Option<String>,
}

/// A page of the stream of events.
#[derive(Debug, Clone, Default)]
pub struct StreamPage {
    /// The events, newest first.
    pub events: Vec<EventRow>,
    /// Where the next, older page begins.
    pub next: Option<String>,
    /// Newest entry of the page.
    pub last_stream_id: Option<String>,
    /// Later entries exist (with `since`).
    pub has_more: bool,
    /// Entries between `since` and the page are no longer held.
    pub gap: bool,
}

/// A place in the stream of events: `milliseconds-number`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64, u64);

impl StreamId {
    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| -> Option<u64> {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            text.parse().ok()
        };
        match text.split_once('-') {
            Some((ms, number)) => Some(Self(digits(ms)?, digits(number)?)),
            None => Some(Self(digits(text)?, 0)),
        }
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// Stream entries as Redis answers them: id and flat fields.
type Entries = Vec<(String, Vec<String>)>;

impl Scanner {
    /// The overview. One round trip for the figures, one for the counts by name.
    pub async fn overview(&self, top: usize) -> Result<Overview, QueryError> {
        let keys = self.keys();
        let now = self.clock().now();
        let window = Window::at(now);
        let mut batch = Batch::new();
        let hours = add_buckets(self, &mut batch, window, |hour| keys.hour_events(hour));
        let overview = batch.add("HMGET", keys.overview(), |command| {
            command.arg(&["lastStreamId", "updatedAt"]);
        });
        let names = batch.add("ZRANGE", keys.event_names(), |command| {
            command.arg(0).arg(NAMES_MAX - 1);
        });
        let state = batch.add("HGET", keys.analytics_state(), |command| {
            command.arg("status");
        });
        let mut answers = self.store().send(batch).await?;
        let (last_stream_id, updated): (Option<String>, Option<String>) = answers.take(overview)?;
        let names: Vec<String> = answers.take(names)?;
        let migration = MigrationStatus::parse(answers.take::<Option<String>>(state)?.as_deref());
        let mut events = sum_buckets(&mut answers, hours)?;
        let (all, in_window) = self.counts_by_name(&names, window).await?;
        if updated.is_none() {
            // No cache: the lists give the same number, and the cache is made again.
            events = in_window.iter().map(|(_, count)| count).sum();
            if names.is_empty() {
                self.store()
                    .one::<redis::Value>("HSETNX", keys.overview(), |command| {
                        command.arg("updatedAt").arg(now.to_string());
                    })
                    .await?;
            } else {
                self.rebuild_in_background();
            }
        }
        Ok(Overview {
            now,
            window,
            migration,
            events,
            top: best(all, top.clamp(1, NAMES_MAX)),
            top_in_window: best(in_window, top.clamp(1, NAMES_MAX)),
            last_stream_id,
        })
    }

    /// How many names an overview shows unless asked otherwise.
    pub const OVERVIEW_TOP: usize = TOP;

    async fn counts_by_name(
        &self,
        names: &[String],
        window: Window,
    ) -> Result<(NameCounts, NameCounts), ScannerError> {
        let keys = self.keys();
        let mut batch = Batch::new();
        let slots: Vec<(Slot, Slot)> = names
            .iter()
            .map(|name| {
                let all = batch.add("GET", keys.agg_count(name), |_| {});
                let inside = batch.add("ZCOUNT", keys.event(name), |command| {
                    command
                        .arg(window.from().ms())
                        .arg(format!("({}", window.to().ms()));
                });
                (all, inside)
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut all = Vec::with_capacity(names.len());
        let mut inside = Vec::with_capacity(names.len());
        for (name, (count, count_inside)) in names.iter().zip(slots) {
            all.push((
                name.clone(),
                answers.take::<Option<u64>>(count)?.unwrap_or(0),
            ));
            inside.push((name.clone(), answers.take(count_inside)?));
        }
        Ok((all, inside))
    }

    /// A page of the stream, older than a cursor.
    pub async fn event_stream(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<StreamPage, QueryError> {
        let to = match cursor {
            None => "+".to_owned(),
            Some(cursor) => format!("({}", stream_id("invalid_cursor", cursor)?),
        };
        let mut entries: Entries = self
            .store()
            .one("XREVRANGE", self.keys().events(), |command| {
                command.arg(to).arg("-").arg("COUNT").arg(limit + 1);
            })
            .await?;
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries
            .last()
            .filter(|_| has_more)
            .map(|(id, _)| id.clone());
        let last_stream_id = entries.first().map(|(id, _)| id.clone());
        Ok(StreamPage {
            events: self.with_bodies(event_rows(entries)).await?,
            next,
            last_stream_id,
            has_more: false,
            gap: false,
        })
    }

    /// The oldest entries of the stream after one, shown newest first.
    pub async fn event_tail(&self, since: &str, limit: usize) -> Result<StreamPage, QueryError> {
        let since = stream_id("invalid_since", since)?;
        let keys = self.keys();
        let mut batch = Batch::new();
        let after = batch.add("XRANGE", keys.events(), |command| {
            command
                .arg(format!("({since}"))
                .arg("+")
                .arg("COUNT")
                .arg(limit + 1);
        });
        let first = batch.add("XRANGE", keys.events(), |command| {
            command.arg("-").arg("+").arg("COUNT").arg(1);
        });
        let info = batch.stream_info(keys.events());
        let mut answers = self.store().send(batch).await?;
        let mut entries: Entries = answers.take(after)?;
        let first: Entries = answers.take(first)?;
        let first = first.first().and_then(|(id, _)| StreamId::parse(id));
        // A missing stream has no facts, and nothing was trimmed from it.
        let trimmed = answers
            .take::<HashMap<String, redis::Value>>(info)
            .ok()
            .is_some_and(|facts| was_trimmed(&facts));
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        entries.reverse();
        let last_stream_id = entries.first().map(|(id, _)| id.clone());
        Ok(StreamPage {
            events: self.with_bodies(event_rows(entries)).await?,
            next: None,
            last_stream_id,
            has_more,
            gap: trimmed && first.is_some_and(|first| since < first),
        })
    }

    /// A page of the events of one name, by time.
    pub async fn events_named(
        &self,
        name: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<StreamPage, QueryError> {
        let list = ListId::new(&["events", name]);
        let after = cursor.map(|cursor| list.read(cursor)).transpose()?;
        let Ok(name) = crate::ids::check_id(name) else {
            return Ok(StreamPage::default());
        };
        let range = Range::newest(limit + 1, after);
        let mut found = self.page(self.keys().event(name), &range).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| has_more)
            .map(|(id, score)| list.cursor(*score, id));
        let rows = found
            .into_iter()
            .map(|(message_id, at_ms)| EventRow {
                message_id,
                event: Some(name.to_owned()),
                distinct_id: None,
                at: AtMs::clamped(at_ms),
                body: None,
            })
            .collect();
        Ok(StreamPage {
            events: self.with_bodies(rows).await?,
            next,
            ..StreamPage::default()
        })
    }

    /// Counts by value of a property, most first; empty for a property that no breakdown counts.
    pub async fn breakdown(
        &self,
        event: &str,
        property: &str,
    ) -> Result<Vec<(String, u64)>, QueryError> {
        if !is_dimension(event, property) {
            return Ok(Vec::new());
        }
        let counts: HashMap<String, u64> = self
            .store()
            .one("HGETALL", self.keys().agg_prop(event, property), |_| {})
            .await?;
        Ok(best(counts.into_iter().collect(), usize::MAX))
    }

    /// How often each step was told, all-time or between two instants.
    pub async fn funnel_totals(
        &self,
        steps: &[String],
        from: Option<AtMs>,
        to: Option<AtMs>,
    ) -> Result<Vec<(String, u64)>, QueryError> {
        check_steps(steps)?;
        let mut batch = Batch::new();
        let keys = self.keys();
        let is_all = from.is_none() && to.is_none();
        let slots: Vec<Slot> = steps
            .iter()
            .map(|step| {
                if is_all {
                    return batch.add("GET", keys.agg_count(step), |_| {});
                }
                batch.add("ZCOUNT", keys.event(step), |command| {
                    command
                        .arg(from.map_or("-inf".to_owned(), |from| from.ms().to_string()))
                        .arg(to.map_or("+inf".to_owned(), |to| format!("({}", to.ms())));
                })
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut counts = Vec::with_capacity(steps.len());
        for (step, slot) in steps.iter().zip(slots) {
            let count = answers.take::<Option<u64>>(slot)?.unwrap_or(0);
            counts.push((step.clone(), count));
        }
        Ok(counts)
    }

    /// How many persons did the first step, and after it the second, and so on. Between two instants, by default those
    /// of the window.
    pub async fn funnel_ordered(
        &self,
        steps: &[String],
        from: Option<AtMs>,
        to: Option<AtMs>,
    ) -> Result<Vec<(String, u64)>, QueryError> {
        check_steps(steps)?;
        let window = Window::at(self.clock().now());
        let from = from.unwrap_or(window.from());
        let to = to.unwrap_or(window.to());
        // Where each person is in the order of time after the last step it did.
        let mut reached: Option<HashMap<String, (i64, String)>> = None;
        let mut counts = Vec::with_capacity(steps.len());
        let mut read = 0;
        for step in steps {
            let found = self.step_events(step, from, to, &mut read).await?;
            let mut next: HashMap<String, (i64, String)> = HashMap::new();
            for (person, place) in found {
                let is_later = match &reached {
                    None => true,
                    Some(before) => before.get(&person).is_some_and(|last| *last < place),
                };
                if !is_later {
                    continue;
                }
                match next.get_mut(&person) {
                    Some(earliest) if *earliest <= place => {}
                    Some(earliest) => *earliest = place,
                    None => {
                        next.insert(person, place);
                    }
                }
            }
            counts.push((step.clone(), next.len() as u64));
            reached = Some(next);
        }
        Ok(counts)
    }

    /// Persons and places in time of the events of a step.
    async fn step_events(
        &self,
        step: &str,
        from: AtMs,
        to: AtMs,
        read: &mut usize,
    ) -> Result<Vec<(String, (i64, String))>, QueryError> {
        let flat: Vec<String> = self
            .store()
            .one("ZRANGEBYSCORE", self.keys().event(step), |command| {
                command
                    .arg(from.ms())
                    .arg(format!("({}", to.ms()))
                    .arg("WITHSCORES")
                    .arg("LIMIT")
                    .arg(0)
                    .arg(FUNNEL_EVENTS_MAX + 1);
            })
            .await?;
        let found = scored(flat);
        *read += found.len();
        if *read > FUNNEL_EVENTS_MAX {
            return Err(QueryError::invalid(
                "too_many_events",
                "the funnel has more than 50000 events; narrow it with from and to",
            ));
        }
        let mut events = Vec::with_capacity(found.len());
        for part in found.chunks(BODIES_AT_ONCE) {
            let keys = part
                .iter()
                .map(|(id, _)| self.keys().event_body(id))
                .collect();
            let bodies = self.store().values(keys).await?;
            for ((id, at), body) in part.iter().zip(bodies) {
                // Whose an event was is forgotten with its body.
                if let Some(event) = body.and_then(|json| Event::from_json(&json).ok()) {
                    events.push((event.distinct_id, (*at, id.clone())));
                }
            }
        }
        Ok(events)
    }
}

/// Names and counts.
type NameCounts = Vec<(String, u64)>;

fn check_steps(steps: &[String]) -> Result<(), QueryError> {
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return Err(QueryError::invalid(
            "invalid_steps",
            "steps has none or more than 8 names",
        ));
    }
    match steps.iter().find(|step| !is_planned(step)) {
        Some(step) => Err(QueryError::invalid(
            "invalid_steps",
            format!("{step:?} is not in the catalogue of events"),
        )),
        None => Ok(()),
    }
}

/// The greatest counts, then names; nothing that never happened.
fn best(mut counts: NameCounts, most: usize) -> NameCounts {
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(most);
    counts
}

fn stream_id(code: &'static str, text: &str) -> Result<StreamId, QueryError> {
    StreamId::parse(text).ok_or_else(|| {
        QueryError::invalid(code, "is not an id of the stream, such as 1773151517123-0")
    })
}

fn was_trimmed(facts: &HashMap<String, redis::Value>) -> bool {
    let number = |name: &str| match facts.get(name) {
        Some(redis::Value::Int(number)) => Some(*number),
        _ => None,
    };
    match (number("entries-added"), number("length")) {
        (Some(added), Some(length)) => added > length,
        _ => false,
    }
}

fn event_rows(entries: Entries) -> Vec<EventRow> {
    entries
        .into_iter()
        .filter_map(|(id, fields)| {
            let get = |name: &str| {
                let pair = fields.chunks_exact(2).find(|pair| pair[0] == name);
                pair.map(|pair| pair[1].clone())
            };
            let at = get("timestamp").and_then(|text| AtMs::parse(&text));
            Some(EventRow {
                message_id: get("messageId")?,
                event: get("event"),
                distinct_id: get("distinctId"),
                at: at.unwrap_or_else(|| {
                    AtMs::clamped(
                        StreamId::parse(&id)
                            .map_or(0, |id| i64::try_from(id.0).unwrap_or(i64::MAX)),
                    )
                }),
                body: None,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_stream() {
        for (text, shown) in [
            ("1773151517123-0", Some("1773151517123-0")),
            ("5", Some("5-0")),
            ("0-1", Some("0-1")),
            ("", None),
            ("-", None),
            ("1-", None),
            ("a-1", None),
            ("1-2-3", None),
            ("99999999999999999999-0", None),
        ] {
            let read = StreamId::parse(text).map(|id| id.to_string());
            assert_eq!(read.as_deref(), shown, "{text:?}");
        }
    }
}
