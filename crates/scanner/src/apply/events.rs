//! Events: bodies, lists, counts. What is counted in lists and hours is exact after a crash; what only the first writer
//! adds (the stream, counts by person and property) may miss an event that was being written at that instant, and never
//! counts one twice.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::ScannerError;
use crate::event::{Event, OTHER};
use crate::request::Command;
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::time::Hour;

use super::ledger::HOUR_TTL_MS;
use super::{Group, Groups, Layer, Run, Status};

/// How long the body of an event is kept, seconds.
const BODY_TTL_SECONDS: i64 = 90 * 86_400;
/// Entries of the stream, about.
const STREAM_MAX: usize = 100_000;
/// Values of a property that are counted each; the rest is counted together.
const VALUES_MAX: usize = 1000;

/// The events of a run.
#[derive(Default)]
pub(super) struct EventWork<'a> {
    bodies: Vec<(usize, Cow<'a, Event>, Slot)>,
    listed: Vec<Listed<'a>>,
    names: Vec<Named>,
    trimmed: Option<Slot>,
    hours: Vec<(Hour, Slot, Vec<usize>)>,
    streamed: Vec<Slot>,
}

struct Listed<'a> {
    op: usize,
    event: Cow<'a, Event>,
    /// Its body is not written yet.
    derived: bool,
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
            let event = match answers.take::<Option<String>>(slot) {
                Err(error) => {
                    run.fail(op, Layer::Analytics, &error);
                    continue;
                }
                Ok(None) => event,
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
                added: false,
            });
        }
    }

    pub(super) fn list(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        if self.listed.is_empty() {
            return;
        }
        let keys = run.scanner.keys();
        let mut names: BTreeMap<&str, (Group, Vec<usize>)> = BTreeMap::new();
        let mut users = Groups::new();
        for (index, listed) in self.listed.iter().enumerate() {
            let event = &listed.event;
            if listed.derived {
                let group = Group {
                    args: vec![event.to_json(keys.host())],
                    ops: vec![listed.op],
                };
                let slot = batch.add("SET", keys.event_body(&event.message_id), |set| {
                    set.arg(&group.args)
                        .arg("NX")
                        .arg("EX")
                        .arg(BODY_TTL_SECONDS);
                });
                run.sent.push(super::Sent {
                    slot,
                    ops: group.ops,
                    layer: Layer::Analytics,
                });
            }
            let score = event.at_ms.to_string();
            let (group, members) = names.entry(&event.event).or_default();
            group.args.extend([score.clone(), event.message_id.clone()]);
            group.note(listed.op);
            members.push(index);
            let user = users.entry(keys.by_user(&event.distinct_id)).or_default();
            user.args.extend([score, event.message_id.clone()]);
            user.note(listed.op);
        }
        for (name, (group, members)) in names {
            let ops = group.ops.clone();
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
                members,
                size: 0,
                ops,
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
        let mut hours: BTreeMap<Hour, Group> = BTreeMap::new();
        for listed in &self.listed {
            let group = hours
                .entry(listed.event.at().hour())
                .or_insert_with(|| Group {
                    args: [HOUR_TTL_MS.to_string(), "1".to_owned(), "#n".to_owned()].to_vec(),
                    ops: Vec::new(),
                });
            let marker = format!("m:{}", listed.event.message_id);
            group
                .args
                .extend([marker, "1".to_owned(), "#n".to_owned(), "1".to_owned()]);
            group.note(listed.op);
        }
        for (hour, group) in hours {
            let ops = group.ops.clone();
            let key = run.scanner.keys().hour_of_events(hour);
            let slot = run.send_step(batch, Layer::Analytics, Step::RollUp, key, group);
            self.hours.push((hour, slot, ops));
        }
    }

    /// Which events were new: that decides what became of operations that are nothing but an event.
    pub(super) fn read(&mut self, run: &mut Run<'_>, answers: &mut Answers) {
        for named in &mut self.names {
            let Ok(flags) = answers.take::<Vec<u64>>(named.slot) else {
                continue;
            };
            let Some((size, flags)) = flags.split_first() else {
                continue;
            };
            named.size = *size;
            for (&index, &flag) in named.members.iter().zip(flags) {
                let listed = &mut self.listed[index];
                listed.added = flag == 1;
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
        }
    }

    pub(super) fn project(&mut self, run: &mut Run<'_>, answers: &mut Answers, batch: &mut Batch) {
        let keys = run.scanner.keys();
        for (hour, slot, ops) in std::mem::take(&mut self.hours) {
            if let Ok(totals) = answers.take::<Vec<String>>(slot)
                && let Some(total) = totals.get(1)
            {
                let group = Group {
                    args: vec![total.clone(), HOUR_TTL_MS.to_string()],
                    ops,
                };
                run.send_step(
                    batch,
                    Layer::Analytics,
                    Step::Raise,
                    keys.hour_events(hour),
                    group,
                );
            }
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
        let mut users: BTreeMap<(String, &str), (u64, Vec<usize>)> = BTreeMap::new();
        let mut values: BTreeMap<String, BTreeMap<String, (u64, usize)>> = BTreeMap::new();
        for listed in self.listed.iter().filter(|listed| listed.added) {
            let event = &listed.event;
            let slot = batch.add("XADD", keys.events(), |add| {
                add.arg("MAXLEN").arg("~").arg(STREAM_MAX).arg("*");
                add.arg("messageId").arg(&event.message_id);
                add.arg("event").arg(&event.event);
                add.arg("distinctId").arg(&event.distinct_id);
                add.arg("timestamp").arg(event.at().to_string());
            });
            self.streamed.push(slot);
            run.sent.push(super::Sent {
                slot,
                ops: vec![listed.op],
                layer: Layer::Analytics,
            });
            let user = users
                .entry((keys.agg_user(&event.distinct_id), &event.event))
                .or_default();
            user.0 += 1;
            user.1.push(listed.op);
            for (property, value) in event.dimensions() {
                let key = keys.agg_prop(&event.event, property);
                let count = values.entry(key).or_default();
                count.entry(value.into_owned()).or_insert((0, listed.op)).0 += 1;
            }
        }
        for ((key, event), (count, ops)) in users {
            let group = Group {
                args: vec![event.to_owned(), count.to_string()],
                ops,
            };
            run.send_group(batch, Layer::Analytics, "HINCRBY", key, group, &[]);
        }
        for (key, counts) in values {
            let mut group = Group {
                args: vec![VALUES_MAX.to_string(), OTHER.to_owned()],
                ops: Vec::new(),
            };
            for (value, (count, op)) in counts {
                group.args.extend([value, count.to_string()]);
                group.note(op);
            }
            run.send_step(batch, Layer::Analytics, Step::CountValues, key, group);
        }
    }

    /// The overview names the newest entry of the stream.
    pub(super) async fn settle(
        &mut self,
        run: &Run<'_>,
        answers: &mut Answers,
    ) -> Result<(), ScannerError> {
        let newest = std::mem::take(&mut self.streamed)
            .into_iter()
            .filter_map(|slot| answers.take::<String>(slot).ok())
            .next_back();
        let Some(newest) = newest else {
            return Ok(());
        };
        let mut batch = Batch::new();
        batch.add("HSET", run.scanner.keys().overview(), |set| {
            set.arg("lastStreamId").arg(&newest);
            set.arg("updatedAt").arg(run.now.to_string());
        });
        // A missing overview is made again by whoever reads it.
        if let Err(error) = run.scanner.store().send(batch).await {
            tracing::debug!(%error, "the overview is not updated");
        }
        Ok(())
    }
}
