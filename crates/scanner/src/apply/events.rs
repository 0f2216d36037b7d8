//! Events: bodies, lists, counts. What is counted in lists and hours is exact after a crash; what only the first writer
//! adds (the stream, counts by person and property) may miss an event that was being written at that instant, and never
//! counts one twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crate::error::ScannerError;
use crate::event::{Event, OTHER};
use crate::request::Command;
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::time::Hour;

use super::rolls::{Change, Counted, HOUR_TTL_MS, Rolled, Rolls};
use super::{Group, Groups, Layer, Run, Status};

/// How long the body of an event is kept, seconds.
const BODY_TTL_SECONDS: i64 = 90 * 86_400;
/// Entries of the stream, about.
const STREAM_MAX: usize = 100_000;
/// Values of a property that are counted each; the rest is counted together.
pub(crate) const VALUES_MAX: usize = 1000;

/// The events of a run.
pub(super) struct EventWork<'a> {
    bodies: Vec<(usize, Cow<'a, Event>, Slot)>,
    listed: Vec<Listed<'a>>,
    names: Vec<Named>,
    trimmed: Option<Slot>,
    hours: Rolls<Hour>,
    rolled: Vec<Rolled<Hour>>,
    streamed: Option<Slot>,
    /// The newest entry of the stream that this run made.
    newest: Option<String>,
}

struct Listed<'a> {
    op: usize,
    event: Cow<'a, Event>,
    /// Its body is not written yet.
    derived: bool,
    /// Nobody told it before, as far as bodies and rows say.
    is_new: bool,
    /// This run put it into its list.
    added: bool,
}

/// The list of one name.
struct Named {
    name: String,
    slot: Slot,
    /// Entries of `listed`, in the order of the command.
    members: Vec<usize>,
    size: u64,
    ops: Vec<usize>,
}

impl<'a> EventWork<'a> {
    pub(super) fn new() -> Self {
        Self {
            bodies: Vec::new(),
            listed: Vec::new(),
            names: Vec::new(),
            trimmed: None,
            hours: Rolls::new(Layer::Analytics),
            rolled: Vec::new(),
            streamed: None,
            newest: None,
        }
    }

    /// The body decides whether a message id is known: the first telling counts. Too old events are left out: whether they
    /// were counted may be forgotten.
    pub(super) fn write_body(
        &mut self,
        run: &Run<'_>,
        op: usize,
        event: Cow<'a, Event>,
        batch: &mut Batch,
    ) {
        if event.at() < run.scanner.earliest_event() {
            return;
        }
        let keys = run.scanner.keys();
        let slot = batch.add("SET", keys.event_body(&event.message_id), |set| {
            set.arg(event.to_json(keys.host()))
                .arg("NX")
                .arg("GET")
                .arg("EX")
                .arg(BODY_TTL_SECONDS);
        });
        self.bodies.push((op, event, slot));
    }

    pub(super) fn decide(&mut self, run: &mut Run<'_>, answers: &mut Answers) {
        for (op, event, slot) in std::mem::take(&mut self.bodies) {
            let mut is_new = false;
            let event = match answers.take::<Option<String>>(slot) {
                Err(error) => {
                    run.fail(op, Layer::Analytics, &error);
                    continue;
                }
                Ok(None) => {
                    is_new = true;
                    event
                }
                Ok(Some(stored)) => match Event::from_json(&stored) {
                    // The first telling counts, also in the lists it may not have reached.
                    Ok(first) if first.event == event.event => Cow::Owned(first),
                    Ok(first) => {
                        let existing = first.to_public_json(run.scanner.keys().host(), true);
                        run.status[op] = Some(Status::Conflict { existing });
                        continue;
                    }
                    Err(faults) => {
                        let error = ScannerError::Corrupt {
                            key: run.scanner.keys().event_body(&event.message_id),
                            why: faults.first().map_or_else(String::new, ToString::to_string),
                        };
                        run.fail(op, Layer::Analytics, &error);
                        continue;
                    }
                },
            };
            self.listed.push(Listed {
                op,
                event,
                derived: false,
                is_new,
                added: false,
            });
        }
    }

    /// Adds an event of our own. Too old ones are left out: whether they were counted may be forgotten.
    pub(super) fn derived(&mut self, run: &Run<'_>, op: usize, event: Event) {
        if event.at() >= run.scanner.earliest_event() {
            self.listed.push(Listed {
                op,
                event: Cow::Owned(event),
                derived: true,
                is_new: matches!(run.status[op], Some(Status::Created)),
                added: false,
            });
        }
    }

    pub(super) fn list(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        if self.listed.is_empty() {
            return;
        }
        let keys = run.scanner.keys();
        let mut names: BTreeMap<&str, NamedGroup> = BTreeMap::new();
        let mut users = Groups::new();
        for (index, listed) in self.listed.iter().enumerate() {
            let event = &listed.event;
            if listed.derived {
                let slot = batch.add("SET", keys.event_body(&event.message_id), |set| {
                    set.arg(event.to_json(keys.host()))
                        .arg("NX")
                        .arg("EX")
                        .arg(BODY_TTL_SECONDS);
                });
                run.sent.push(super::Sent {
                    slot,
                    ops: vec![listed.op],
                    layer: Layer::Analytics,
                });
            }
            let score = event.at_ms.to_string();
            let named = names.entry(&event.event).or_default();
            named.ops.push(listed.op);
            // What is told twice in one run is new once.
            if named.known.insert(&event.message_id) {
                named.ids.push(event.message_id.clone());
                named
                    .scored
                    .extend([score.clone(), event.message_id.clone()]);
                named.members.push(index);
            }
            let user = users.entry(keys.by_user(&event.distinct_id)).or_default();
            user.args.extend([score, event.message_id.clone()]);
            user.note(listed.op);
        }
        for (name, named) in names {
            let mut args = vec![named.ids.len().to_string()];
            args.extend(named.ids);
            args.extend(named.scored);
            let group = Group {
                args,
                ops: named.ops.clone(),
            };
            let slot = run.send_step(
                batch,
                Layer::Analytics,
                Step::AddMembers,
                keys.event(name),
                group,
            );
            self.names.push(Named {
                name: name.to_owned(),
                slot,
                members: named.members,
                size: 0,
                ops: named.ops,
            });
        }
        for (key, group) in users {
            run.send_group(batch, Layer::Analytics, "ZADD", key, group, &["NX"]);
        }
        let names: Vec<&str> = self.names.iter().map(|named| named.name.as_str()).collect();
        self.trimmed = Some(batch.add("HMGET", keys.agg_trimmed(), |get| {
            get.arg(&names);
        }));
    }

    pub(super) fn roll_up(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let recent = run.now.ms().saturating_sub(HOUR_TTL_MS);
        for listed in &self.listed {
            // Of hours that are over for so long nobody asks.
            if listed.event.at_ms < recent {
                continue;
            }
            let hour = listed.event.at().hour();
            let counted = Counted {
                op: listed.op,
                marker: &format!("m:{}", listed.event.message_id),
                is_new: listed.is_new,
            };
            self.hours.count(
                run.scanner.keys().hour_of_events(hour),
                &counted,
                HOUR_TTL_MS,
                &["#n"],
                || hour,
                vec![("#n".into(), Change::Add(1))],
            );
        }
        self.hours.send(run, batch, |_| Vec::new());
    }

    /// Which events were new: that decides what became of operations that are nothing but an event.
    pub(super) async fn read(
        &mut self,
        run: &mut Run<'_>,
        answers: &mut Answers,
    ) -> Result<(), ScannerError> {
        self.rolled = self.hours.read(run, answers).await?;
        for named in &mut self.names {
            let Ok(flags) = answers.take::<Vec<u64>>(named.slot) else {
                continue;
            };
            let Some((size, flags)) = flags.split_first() else {
                continue;
            };
            named.size = *size;
            for (&index, &flag) in named.members.iter().zip(flags) {
                self.listed[index].added = flag == 1;
            }
        }
        for listed in &self.listed {
            let op = listed.op;
            if run.is_over(op) {
                continue;
            }
            match &run.commands[op] {
                Command::Event { .. } | Command::EvenRound { .. } => {
                    run.status[op] = Some(if listed.added {
                        Status::Created
                    } else {
                        Status::Duplicate
                    });
                }
                Command::Seed { .. } if listed.added => run.status[op] = Some(Status::Created),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn project(&mut self, run: &mut Run<'_>, answers: &mut Answers, batch: &mut Batch) {
        let keys = run.scanner.keys();
        for rolled in std::mem::take(&mut self.rolled) {
            let mut args = rolled.totals;
            args.push(HOUR_TTL_MS.to_string());
            let group = Group {
                args,
                ops: rolled.ops,
            };
            let key = keys.hour_events(rolled.purpose);
            run.send_step(batch, Layer::Analytics, Step::Raise, key, group);
        }
        let trimmed: Vec<Option<String>> = self
            .trimmed
            .take()
            .and_then(|slot| answers.take(slot).ok())
            .unwrap_or_default();
        for (index, named) in self.names.iter().enumerate() {
            if named.size == 0 {
                continue;
            }
            let trimmed = trimmed.get(index).and_then(Option::as_deref);
            let before = crate::retention::trimmed_count(trimmed);
            let group = Group {
                args: vec![
                    named.size.saturating_add(before).to_string(),
                    "0".to_owned(),
                ],
                ops: named.ops.clone(),
            };
            run.send_step(
                batch,
                Layer::Analytics,
                Step::Raise,
                keys.agg_count(&named.name),
                group,
            );
            let group = Group {
                args: vec!["0".to_owned(), named.name.clone()],
                ops: named.ops.clone(),
            };
            run.send_group(
                batch,
                Layer::Analytics,
                "ZADD",
                keys.event_names(),
                group,
                &["NX"],
            );
        }
        self.count_new(run, batch);
    }

    /// What only whoever added an event does.
    fn count_new(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let keys = run.scanner.keys();
        let mut stream = Group::default();
        let mut users: BTreeMap<(String, &str), (u64, Vec<usize>)> = BTreeMap::new();
        let mut values: BTreeMap<(&str, &str), Values<'_>> = BTreeMap::new();
        for listed in self.listed.iter().filter(|listed| listed.added) {
            let event = &listed.event;
            stream.args.extend([
                event.message_id.clone(),
                event.event.clone(),
                event.distinct_id.clone(),
                event.at().to_string(),
            ]);
            stream.note(listed.op);
            let user = users
                .entry((keys.agg_user(&event.distinct_id), &event.event))
                .or_default();
            user.0 += 1;
            user.1.push(listed.op);
            for (property, value) in event.dimensions() {
                let count = values.entry((&event.event, property)).or_default();
                count.entry(value).or_insert((0, listed.op)).0 += 1;
            }
        }
        if !stream.args.is_empty() {
            stream.args.insert(0, STREAM_MAX.to_string());
            let key = keys.events();
            let slot = run.send_step(batch, Layer::Analytics, Step::AppendEvents, key, stream);
            self.streamed = Some(slot);
        }
        for ((key, event), (count, ops)) in users {
            let group = Group {
                args: vec![event.to_owned(), count.to_string()],
                ops,
            };
            run.send_group(batch, Layer::Analytics, "HINCRBY", key, group, &[]);
        }
        for ((event, property), counts) in values {
            let mut group = Group {
                args: vec![
                    VALUES_MAX.to_string(),
                    OTHER.to_owned(),
                    counts.len().to_string(),
                ],
                ops: Vec::new(),
            };
            group.args.extend(counts.keys().map(ToString::to_string));
            for (count, op) in counts.into_values() {
                group.args.push(count.to_string());
                group.note(op);
            }
            let key = keys.agg_prop(event, property);
            run.send_step(batch, Layer::Analytics, Step::CountValues, key, group);
        }
    }

    /// What the stream answered.
    pub(super) fn settle(&mut self, answers: &mut Answers) {
        let slot = self.streamed.take();
        self.newest = slot
            .and_then(|slot| answers.take::<String>(slot).ok())
            .filter(|id| !id.is_empty());
    }

    /// The overview names the newest entry of the stream. A missing one is made again by whoever reads it, so nobody looks at the
    /// answer.
    pub(super) fn overview(&self, run: &Run<'_>, batch: &mut Batch) {
        if let Some(newest) = &self.newest {
            batch.add("HSET", run.scanner.keys().overview(), |set| {
                set.arg("lastStreamId").arg(newest);
                set.arg("updatedAt").arg(run.now.to_string());
            });
        }
    }
}

/// How often each value of a property was told, and by whom first.
type Values<'e> = BTreeMap<Cow<'e, str>, (u64, usize)>;

/// Arguments of the command for one name.
#[derive(Default)]
struct NamedGroup<'e> {
    known: HashSet<&'e str>,
    ids: Vec<String>,
    scored: Vec<String>,
    members: Vec<usize>,
    ops: Vec<usize>,
}
