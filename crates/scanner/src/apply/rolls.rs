//! Totals that count each row once, and how they are sent: one step for all rows of a run that change the same totals.
//!
//! A row is counted where its marker is new. Rows that this run created and rows that were there already are told apart
//! beforehand, so that in nearly all cases either every marker of a step is new or none is; where it is neither (another writer
//! counted some of the rows in between), the step says so and the rows are counted one by one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::ScannerError;
use crate::store::Answers;
use crate::store::scripts::Step;
use crate::store::{Batch, Slot};
use crate::time::HOUR_MS;

use super::{Group, Layer, Run};

/// How long roll-ups of an hour stay after the last write, milliseconds: twice the window.
pub(super) const HOUR_TTL_MS: i64 = 48 * HOUR_MS;

/// A change of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Adds to a total.
    Add(i64),
    /// Raises a number that is not negative.
    Raise(i64),
    /// Sets the field, and counts it in this total if it is new.
    First(&'static str),
}

/// The changes that a row makes in one key.
pub(super) type Changes = Vec<(Cow<'static, str>, Change)>;

/// A key, and whether the rows are known: those are counted in a step of their own, after the new ones.
type RollKey = (String, bool);

/// Steps being gathered, each for a purpose `P`.
pub(super) struct Rolls<P> {
    layer: Layer,
    gathered: BTreeMap<RollKey, Roll<P>>,
    sent: Vec<(Roll<P>, String, Slot)>,
}

/// What is done to one key.
struct Roll<P> {
    purpose: P,
    ttl_ms: i64,
    /// Totals wanted afterwards.
    wanted: Vec<Cow<'static, str>>,
    /// By marker.
    items: BTreeMap<String, Changes>,
    ops: Vec<usize>,
}

/// What a key holds afterwards.
pub(super) struct Rolled<P> {
    /// What it is for.
    pub(super) purpose: P,
    /// The totals that were wanted, in their order.
    pub(super) totals: Vec<String>,
    /// The operations that took part.
    pub(super) ops: Vec<usize>,
}

/// What is counted, by whom, in which key.
pub(super) struct Counted<'m> {
    pub(super) op: usize,
    /// What marks the row as counted.
    pub(super) marker: &'m str,
    /// This run created the row.
    pub(super) is_new: bool,
}

impl<P> Rolls<P> {
    pub(super) fn new(layer: Layer) -> Self {
        Self {
            layer,
            gathered: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    /// Counts a row in a key. `wanted` are the totals asked for, the same at each call but for what `purpose` may add. A marker
    /// that the key has already been given is not counted again.
    pub(super) fn count(
        &mut self,
        key: String,
        counted: &Counted<'_>,
        ttl_ms: i64,
        wanted: &[&'static str],
        purpose: impl FnOnce() -> P,
        changes: Changes,
    ) -> &mut P {
        let roll = self
            .gathered
            .entry((key, !counted.is_new))
            .or_insert_with(|| Roll {
                purpose: purpose(),
                ttl_ms,
                wanted: wanted.iter().map(|&name| Cow::Borrowed(name)).collect(),
                items: BTreeMap::new(),
                ops: Vec::new(),
            });
        roll.items
            .entry(counted.marker.to_owned())
            .or_insert(changes);
        if roll.ops.last() != Some(&counted.op) {
            roll.ops.push(counted.op);
        }
        &mut roll.purpose
    }

    /// Adds the steps to a batch.
    pub(super) fn send(
        &mut self,
        run: &mut Run<'_>,
        batch: &mut Batch,
        also_wanted: impl Fn(&P) -> Vec<String>,
    ) {
        for ((key, _), mut roll) in std::mem::take(&mut self.gathered) {
            let also = also_wanted(&roll.purpose);
            roll.wanted.extend(also.into_iter().map(Cow::Owned));
            let group = Group {
                args: roll.at_once(),
                ops: roll.ops.clone(),
            };
            let slot = run.send_step(batch, self.layer, Step::CountOnce, key.clone(), group);
            self.sent.push((roll, key, slot));
        }
    }

    /// The totals, after those that have to be told apart were counted one by one. A key that failed is left out: its error
    /// has been noted.
    pub(super) async fn read(
        &mut self,
        run: &mut Run<'_>,
        answers: &mut Answers,
    ) -> Result<Vec<Rolled<P>>, ScannerError> {
        let mut rolled = Vec::with_capacity(self.sent.len());
        let mut apart = Vec::new();
        let mut batch = Batch::new();
        for (roll, key, slot) in std::mem::take(&mut self.sent) {
            let Ok(answer) = answers.take::<Vec<String>>(slot) else {
                continue;
            };
            match answer.split_first() {
                Some((word, totals)) if word == "all" => {
                    let totals = roll.find(totals);
                    rolled.push(roll.into_rolled(totals));
                }
                Some(_) => {
                    let group = Group {
                        args: roll.one_by_one(),
                        ops: roll.ops.clone(),
                    };
                    let slot = run.send_step(&mut batch, self.layer, Step::RollUp, key, group);
                    apart.push((roll, slot));
                }
                None => {}
            }
        }
        if apart.is_empty() {
            return Ok(rolled);
        }
        let mut answers = run.scanner.store().send(batch).await?;
        run.collect_errors(&mut answers);
        for (roll, slot) in apart {
            if let Ok(answer) = answers.take::<Vec<String>>(slot)
                && let Some((_, totals)) = answer.split_first()
            {
                let totals = totals.to_vec();
                rolled.push(roll.into_rolled(totals));
            }
        }
        Ok(rolled)
    }
}

/// The fields of a step, without their markers, in the order of [`Step::CountOnce`].
#[derive(Default)]
struct Fields<'r> {
    firsts: BTreeSet<&'r str>,
    /// The one that counts the firsts comes last.
    totals: Vec<(&'r str, Option<i64>)>,
    maxima: BTreeMap<&'r str, i64>,
    others: Vec<&'r str>,
}

impl<P> Roll<P> {
    fn fields(&self) -> Fields<'_> {
        let mut fields = Fields::default();
        let mut totals: BTreeMap<&str, Option<i64>> = BTreeMap::new();
        let mut counter = None;
        for (field, change) in self.items.values().flatten() {
            match *change {
                Change::Add(by) => {
                    let sum = totals.entry(field).or_insert(Some(0));
                    *sum = sum.and_then(|sum| sum.checked_add(by));
                }
                Change::Raise(to) => {
                    let most = fields.maxima.entry(field).or_insert(to);
                    *most = to.max(*most);
                }
                Change::First(total) => {
                    fields.firsts.insert(field);
                    counter = Some(total);
                }
            }
        }
        let last = counter.map(|total| (total, totals.remove(total).unwrap_or(Some(0))));
        fields.totals = totals.into_iter().chain(last).collect();
        for name in &self.wanted {
            let name = name.as_ref();
            let known = fields.maxima.contains_key(name)
                || fields.totals.iter().any(|(total, _)| *total == name);
            if !known {
                fields.others.push(name);
            }
        }
        fields
    }

    /// Arguments of the step that counts all or none.
    fn at_once(&self) -> Vec<String> {
        let fields = self.fields();
        let mut args = vec![
            self.ttl_ms.to_string(),
            self.items.len().to_string(),
            fields.firsts.len().to_string(),
            fields.totals.len().to_string(),
            fields.maxima.len().to_string(),
            fields.others.len().to_string(),
        ];
        let names = self
            .items
            .keys()
            .map(String::as_str)
            .chain(fields.firsts)
            .chain(fields.totals.iter().map(|(total, _)| *total))
            .chain(fields.maxima.keys().copied())
            .chain(fields.others);
        args.extend(names.map(str::to_owned));
        // A sum beyond 64 bits: a text that is too long to be added, so the rows are told apart and the one that is too
        // much is refused.
        let sum = |sum: Option<i64>| sum.map_or_else(|| "9".repeat(20), |sum| sum.to_string());
        args.extend(fields.totals.iter().map(|&(_, by)| sum(by)));
        args.extend(fields.maxima.values().map(i64::to_string));
        args
    }

    /// Arguments of the step that tells the rows apart.
    fn one_by_one(&self) -> Vec<String> {
        let mut args = vec![self.ttl_ms.to_string(), self.wanted.len().to_string()];
        args.extend(self.wanted.iter().map(|name| name.to_string()));
        for (marker, changes) in &self.items {
            args.push(marker.clone());
            args.push(changes.len().to_string());
            for (field, change) in changes {
                args.push(field.to_string());
                args.push(match change {
                    Change::Add(by) => by.to_string(),
                    Change::Raise(to) => format!(">{to}"),
                    Change::First(total) => format!("?{total}"),
                });
            }
        }
        args
    }

    /// The totals wanted, from the answer of [`Step::CountOnce`].
    fn find(&self, answered: &[String]) -> Vec<String> {
        let fields = self.fields();
        let names: Vec<&str> = fields
            .totals
            .iter()
            .map(|(total, _)| *total)
            .chain(fields.maxima.keys().copied())
            .chain(fields.others.iter().copied())
            .collect();
        self.wanted
            .iter()
            .map(|wanted| {
                let at = names.iter().position(|name| name == wanted);
                at.and_then(|at| answered.get(at))
                    .map_or_else(|| "0".to_owned(), String::clone)
            })
            .collect()
    }

    fn into_rolled(self, totals: Vec<String>) -> Rolled<P> {
        Rolled {
            purpose: self.purpose,
            totals,
            ops: self.ops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roll(items: Vec<(&str, Changes)>, wanted: &[&'static str]) -> Roll<()> {
        Roll {
            purpose: (),
            ttl_ms: 0,
            wanted: wanted.iter().map(|&name| name.into()).collect(),
            items: items
                .into_iter()
                .map(|(marker, changes)| (marker.to_owned(), changes))
                .collect(),
            ops: Vec::new(),
        }
    }

    #[test]
    fn rows_of_one_key_are_summed_up() {
        let row = |by, at, session: &'static str| {
            vec![
                ("#n".into(), Change::Add(1)),
                ("#usd".into(), Change::Add(by)),
                ("#last".into(), Change::Raise(at)),
                (session.into(), Change::First("#n")),
            ]
        };
        let roll = roll(
            vec![("t:b", row(5, 9, "r:x")), ("t:a", row(-7, 3, "r:x"))],
            &["#last", "#usd", "#mint"],
        );
        let expected = "0 2 1 2 1 1 t:a t:b r:x #usd #n #last #mint -2 2 9";
        assert_eq!(roll.at_once().join(" "), expected);
        let answered = ["-2", "3", "9", "4"].map(str::to_owned);
        assert_eq!(roll.find(&answered), ["9", "-2", "4"]);
        assert_eq!(
            roll.one_by_one().join(" "),
            "0 3 #last #usd #mint t:a 4 #n 1 #usd -7 #last >3 r:x ?#n t:b 4 #n 1 #usd 5 #last >9 r:x ?#n"
        );
    }

    #[test]
    fn a_sum_beyond_64_bits_is_left_to_the_step_that_refuses_it() {
        let most = || vec![("#usd".into(), Change::Add(i64::MAX))];
        let roll = roll(vec![("t:a", most()), ("t:b", most())], &[]);
        let args = roll.at_once();
        assert!(args.last().is_some_and(|sum| sum.len() > 15), "{args:?}");
    }
}
