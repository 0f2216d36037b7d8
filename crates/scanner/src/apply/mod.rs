//! Applying operations: the order of writes that makes the ledger exactly-once in effect.
//!
//! 1. The operations go to the hash of pending ones.
//! 2. Rows, event bodies and blocks are written with "only if absent": created, the same, or in conflict.
//! 3. Indexes; after them roll-ups, which count a row only if its marker is new; wallets; lists of events.
//! 4. What is projected from the roll-ups: written only if greater.
//! 5. The operations leave the hash of pending ones.
//!
//! Every step is idempotent, and what was created *and* what was there already runs through all of them, so that a retry
//! heals whatever an interrupted call left undone. Many operations share the commands of a step; an error of a command is
//! the error of those operations alone that took part in it.

mod events;
mod groups;
mod ledger;
mod pending;
mod rolls;
mod totals;
mod wallets;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub(crate) use events::VALUES_MAX;
pub(crate) use groups::Groups as CallerGroups;
pub use pending::HealReport;
pub(crate) use pending::dead_letter_json;
pub(crate) use totals::{NODE_TOTALS, node_cache};

use crate::block::{Block, Height, Leaf, Stamp};
use crate::error::ScannerError;
use crate::event::Event;
use crate::feed;
use crate::json::{JsonObject, array, quote};
use crate::request::Command;
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::time::AtMs;
use events::EventWork;
use ledger::LedgerWork;
use totals::TotalsWork;
use wallets::WalletWork;

/// Operations applied together at most.
pub(crate) const RUN_MAX: usize = 500;

/// What became of an operation.
#[derive(Debug, Clone)]
pub enum Status {
    /// Written.
    Created,
    /// Known, and the same.
    Duplicate,
    /// A wallet older than the stored one.
    Stale,
    /// Known with other content: nothing of the operation was applied.
    Conflict {
        /// The public JSON of what is known.
        existing: String,
    },
    /// Not known to be applied; it stays pending and is tried again.
    Failed(ScannerError),
}

impl Status {
    /// The word for answers and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Conflict { .. } => "conflict",
            Self::Failed(_) => "failed",
        }
    }
}

/// Which error of a command is whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Economic truth: the operation failed.
    Ledger,
    /// Behaviour: the operation succeeded, the event is tried again.
    Analytics,
}

/// Arguments of one command that many operations share.
#[derive(Default)]
pub(crate) struct Group {
    args: Vec<String>,
    ops: Vec<usize>,
}

impl Group {
    fn note(&mut self, op: usize) {
        if self.ops.last() != Some(&op) {
            self.ops.push(op);
        }
    }
}

/// Commands by key, in the order of keys.
pub(crate) type Groups = BTreeMap<String, Group>;

/// One command that was sent, and for whom.
struct Sent {
    slot: Slot,
    ops: Vec<usize>,
    layer: Layer,
}

/// Operations on their way.
pub(crate) struct Run<'a> {
    scanner: &'a Scanner,
    commands: &'a [Command],
    now: AtMs,
    /// The run repeats one that was interrupted: what is published may not have been.
    healing: bool,
    status: Vec<Option<Status>>,
    /// What must be tried again, whatever its status.
    unfinished: Vec<bool>,
    sent: Vec<Sent>,
}

/// The newest revision as the head has it.
#[derive(Debug, Clone, Default)]
struct HeadNow {
    epoch: i64,
    stamp: Option<Stamp>,
}

/// What a run has come to.
struct Done {
    statuses: Vec<Status>,
    /// What must be tried again, whatever its status.
    unfinished: Vec<bool>,
    /// What is still to be sent, and whose failure does not matter.
    last: Batch,
}

impl Scanner {
    /// Applies operations in their order, each its own unit. What several callers tell at the same time shares the commands of
    /// one run.
    pub async fn apply(&self, commands: &[Command]) -> Vec<Status> {
        self.apply_owned(commands.to_vec()).await
    }

    /// As [`Scanner::apply`], for operations that are needed no longer.
    pub async fn apply_owned(&self, commands: Vec<Command>) -> Vec<Status> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let lengths: Vec<usize> = runs(&commands).map(<[Command]>::len).collect();
        let mut commands = commands.into_iter();
        for length in lengths {
            let run: Vec<Command> = commands.by_ref().take(length).collect();
            outcomes.extend(self.apply_with_others(run).await);
        }
        outcomes
    }

    /// One run, from its entry among the pending operations to the removal of that. An error concerns all of what was not yet
    /// done.
    async fn apply_run(&self, commands: &[Command]) -> Vec<Status> {
        let statuses = match self.apply_through(commands).await {
            Ok(statuses) => statuses,
            Err(error) => vec![Status::Failed(error); commands.len()],
        };
        self.count(commands, &statuses);
        statuses
    }

    async fn apply_through(&self, commands: &[Command]) -> Result<Vec<Status>, ScannerError> {
        let id = pending::new_id();
        let entry = pending::EntryOf::new(commands, self.clock().now());
        let mut batch = Batch::new();
        let written = entry.write(self, &id, &mut batch);
        let (head, mut answers) = self.head_now(batch).await?;
        answers.take::<redis::Value>(written)?;
        let done = Run::new(self, commands, false).through(&head).await?;
        pending::settle(self, &id, entry, &done.unfinished, done.last).await?;
        Ok(done.statuses)
    }

    /// Sends a batch, and reads the newest revision with it.
    async fn head_now(&self, mut batch: Batch) -> Result<(HeadNow, Answers), ScannerError> {
        let slot = batch.add("HMGET", self.keys().head(), |command| {
            command.arg(&["epoch", "snapshotRev", "merkleRootHex"]);
        });
        let mut answers = self.store().send(batch).await?;
        let (epoch, rev, root): (Option<i64>, Option<i64>, Option<String>) = answers.take(slot)?;
        let head = HeadNow {
            epoch: epoch.unwrap_or(0),
            stamp: rev.zip(root).map(|(rev, root)| Stamp { rev, root }),
        };
        Ok((head, answers))
    }
}

/// Whether operations share their run with nobody: a block's, since what follows it carries its stamp.
fn is_alone(commands: &[Command]) -> bool {
    matches!(commands, [Command::Block { .. }])
}

/// Splits operations: a block alone, since what follows it carries its stamp, and no more than [`RUN_MAX`] otherwise.
fn runs(commands: &[Command]) -> impl Iterator<Item = &[Command]> {
    let mut rest = commands;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = rest
            .iter()
            .position(|command| matches!(command, Command::Block { .. }))
            .map_or(rest.len(), |at| at.max(1))
            .min(RUN_MAX);
        let (run, after) = rest.split_at(length);
        rest = after;
        Some(run)
    })
}

impl<'a> Run<'a> {
    fn new(scanner: &'a Scanner, commands: &'a [Command], healing: bool) -> Self {
        Self {
            scanner,
            commands,
            now: scanner.clock().now(),
            healing,
            status: vec![None; commands.len()],
            unfinished: vec![false; commands.len()],
            sent: Vec::new(),
        }
    }

    /// All steps between the two of the pending hash.
    async fn through(mut self, head: &HeadNow) -> Result<Done, ScannerError> {
        let commands = self.commands;
        let mut ledger = LedgerWork::default();
        let mut wallets = WalletWork::default();
        let mut events = EventWork::new();
        let mut totals = TotalsWork::new();

        // What decides.
        let mut batch = Batch::new();
        for (op, command) in commands.iter().enumerate() {
            match command {
                Command::Tx { .. } => ledger.write_row(&self, op, command, head, &mut batch),
                Command::Event { event } => {
                    events.write_body(&self, op, Cow::Borrowed(event), &mut batch);
                }
                Command::Block { block, .. } => {
                    let epoch = block.epoch.unwrap_or(head.epoch);
                    ledger.write_block(&self, op, block, epoch, &mut batch);
                }
                Command::Node { node } => ledger.read_node(&self, op, node, &mut batch),
                Command::EvenRound { event, .. } => {
                    events.write_body(&self, op, Cow::Borrowed(event), &mut batch);
                }
                Command::Seed { wallet } => {
                    events.write_body(&self, op, Cow::Owned(Event::of_seed(wallet)), &mut batch);
                }
                Command::Wallet { .. } => {}
            }
        }
        let mut answers = self.scanner.store().send(batch).await?;
        ledger.decide(&mut self, &mut answers);
        events.decide(&mut self, &mut answers);

        // Indexes, then roll-ups.
        for (op, command) in commands.iter().enumerate() {
            if self.is_over(op) {
                continue;
            }
            match command {
                Command::Tx {
                    wallets: changed, ..
                } => {
                    for wallet in changed {
                        wallets.add(op, wallet);
                    }
                    if let Some(event) = ledger.event_of(op, command) {
                        events.derived(&self, op, event);
                    }
                }
                Command::EvenRound { wallet, .. }
                | Command::Seed { wallet }
                | Command::Wallet { wallet } => wallets.add(op, wallet),
                Command::Block { .. } => {
                    if let Some(event) = ledger.event_of_block() {
                        events.derived(&self, op, event);
                    }
                }
                Command::Event { .. } | Command::Node { .. } => {}
            }
        }
        let mut batch = Batch::new();
        ledger.index(&mut self, &mut batch);
        events.list(&mut self, &mut batch);
        batch.barrier();
        let rows = ledger.rows(&self);
        totals.roll_up(&mut self, &rows, &mut batch);
        events.roll_up(&mut self, &mut batch);
        wallets.replace(&self, &mut batch);
        let mut answers = self.scanner.store().send(batch).await?;
        self.collect_errors(&mut answers);
        wallets.read(&mut self, &mut answers);
        totals.read(&mut self, &mut answers).await?;
        events.read(&mut self, &mut answers).await?;

        // Projections, and what is new goes to the shared stream.
        let mut batch = Batch::new();
        totals.project(&mut self, &mut batch);
        events.project(&mut self, &mut answers, &mut batch);
        wallets.rank(&mut self, &mut batch);
        let (published, ops) = ledger.published(&self);
        let (sent, told) = tokio::join!(
            self.scanner.store().send(batch),
            feed::publish(self.scanner.log(), &published)
        );
        let mut answers = sent?;
        self.collect_errors(&mut answers);
        wallets.settle(&mut self, &mut answers).await?;
        events.settle(&mut answers);
        if let Err(error) = told {
            // The rows are written: what is missing in the stream is brought there by a later attempt.
            for op in ops {
                self.fail(op, Layer::Analytics, &error);
            }
        }

        let mut last = Batch::new();
        events.overview(&self, &mut last);
        let statuses = self
            .status
            .into_iter()
            .map(|status| status.unwrap_or(Status::Duplicate))
            .collect();
        Ok(Done {
            statuses,
            unfinished: self.unfinished,
            last,
        })
    }

    /// Whether nothing more is done for an operation.
    fn is_over(&self, op: usize) -> bool {
        matches!(
            self.status[op],
            Some(Status::Conflict { .. } | Status::Failed(_))
        )
    }

    /// Notes an error.
    fn fail(&mut self, op: usize, layer: Layer, error: &ScannerError) {
        self.unfinished[op] = true;
        // An operation that is nothing but an event fails with it.
        let layer = match self.commands[op] {
            Command::Event { .. } => Layer::Ledger,
            _ => layer,
        };
        if layer == Layer::Ledger && !self.is_over(op) {
            self.status[op] = Some(Status::Failed(error.clone()));
        }
        self.scanner
            .note_failure(&self.commands[op], layer == Layer::Analytics, error);
    }

    fn send_group(
        &mut self,
        batch: &mut Batch,
        layer: Layer,
        name: &str,
        key: String,
        group: Group,
        before: &[&str],
    ) -> Slot {
        let slot = batch.add(name, key, |command| {
            command.arg(before).arg(&group.args);
        });
        self.sent.push(Sent {
            slot,
            ops: group.ops,
            layer,
        });
        slot
    }

    fn send_step(
        &mut self,
        batch: &mut Batch,
        layer: Layer,
        step: Step,
        key: String,
        group: Group,
    ) -> Slot {
        let slot = self.scanner.store().step(batch, step, key, |command| {
            command.arg(&group.args);
        });
        self.sent.push(Sent {
            slot,
            ops: group.ops,
            layer,
        });
        slot
    }

    /// Gives each error of the commands sent to the operations that took part.
    fn collect_errors(&mut self, answers: &mut Answers) {
        for Sent { slot, ops, layer } in std::mem::take(&mut self.sent) {
            if let Some(error) = answers.error(slot) {
                for op in ops {
                    self.fail(op, layer, &error);
                }
            }
        }
    }
}

/// The JSON that keeps the leaves of a revision.
fn leaves_json(at: Height, leaves: &[Leaf]) -> String {
    let pairs = leaves
        .iter()
        .map(|(key, digest)| format!("[{},{}]", quote(key), quote(digest)));
    JsonObject::new()
        .number("epoch", at.epoch)
        .number("rev", at.rev)
        .raw("leaves", &array(pairs))
        .end()
}

/// A block and where it stands.
struct Placed<'a> {
    block: &'a Block,
    at: Height,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wallet::Wallet;

    #[test]
    fn a_block_is_a_run_of_its_own() {
        let wallet = Command::Wallet {
            wallet: Wallet {
                player_id: "p".to_owned(),
                balance_micros: 0,
                power_ups: 0,
                updated_ms: 0,
            },
        };
        let block = Command::Block {
            block: Block {
                rev: 1,
                epoch: None,
                root: "ab".to_owned(),
                leaf_count: 0,
                at_ms: 0,
                occupants: None,
                leaf_delta: None,
                label: None,
            },
            leaves: None,
        };
        let mut commands = vec![wallet.clone(); RUN_MAX + 3];
        commands.push(block.clone());
        commands.push(block);
        commands.push(wallet);
        let lengths: Vec<usize> = runs(&commands).map(<[Command]>::len).collect();
        assert_eq!(lengths, [RUN_MAX, 3, 1, 1, 1]);
    }
}
