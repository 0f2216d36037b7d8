//! The write-ahead of operations: what was begun and not finished is found again after a crash.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::ScannerError;
use crate::feed;
use crate::json::{JsonObject, to_json};
use crate::request::Command;
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use crate::store::{Batch, Slot};
use crate::time::AtMs;

use super::Run;

/// After so many attempts an operation goes to the dead letters.
const ATTEMPTS_MAX: u32 = 5;
/// How long one instance may take to repeat what was left over, milliseconds.
const LEASE_MS: i64 = 60_000;
/// Entries looked at in one step of a scan.
const SCAN_COUNT: usize = 200;

/// An entry of the hash, as it is read back.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    /// When it was written, milliseconds since 1970.
    at_ms: i64,
    /// How often it was tried again.
    attempts: u32,
    commands: Vec<Command>,
}

/// An entry of the hash, as it is written.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EntryOf<'a> {
    at_ms: i64,
    attempts: u32,
    commands: Vec<&'a Command>,
}

/// A fresh id. They sort by time.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

impl<'a> EntryOf<'a> {
    pub(crate) fn new(commands: &'a [Command], now: AtMs) -> Self {
        Self {
            at_ms: now.ms(),
            attempts: 0,
            commands: commands.iter().collect(),
        }
    }

    pub(crate) fn write(&self, scanner: &Scanner, id: &str, batch: &mut Batch) -> Slot {
        batch.add("HSET", scanner.keys().pending(), |command| {
            command.arg(id).arg(to_json(self));
        })
    }
}

/// Removes the entry, or leaves in it what must be tried again. What is in the batch already goes along.
pub(super) async fn settle(
    scanner: &Scanner,
    id: &str,
    mut entry: EntryOf<'_>,
    unfinished: &[bool],
    mut batch: Batch,
) -> Result<(), ScannerError> {
    let mut again = unfinished.iter();
    entry
        .commands
        .retain(|_| again.next().copied().unwrap_or(false));
    if !entry.commands.is_empty() && entry.attempts < ATTEMPTS_MAX {
        let slot = entry.write(scanner, id, &mut batch);
        return scanner.store().send(batch).await?.take(slot);
    }
    let mut slots = Vec::new();
    for command in &entry.commands {
        tracing::error!(
            operation = %command.id(),
            attempts = entry.attempts,
            "an operation of the ledger cannot be applied; it is among the dead letters of the ledger's stream"
        );
        slots.push(feed::dead_letter(
            scanner,
            command,
            entry.attempts,
            &mut batch,
        ));
    }
    batch.barrier();
    slots.push(batch.add("HDEL", scanner.keys().pending(), |command| {
        command.arg(id);
    }));
    let mut answers = scanner.store().send(batch).await?;
    for slot in slots {
        answers.take::<redis::Value>(slot)?;
    }
    Ok(())
}

/// What a round of healing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealReport {
    /// Entries there were.
    pub pending: u64,
    /// Age of the oldest, milliseconds.
    pub oldest_ms: i64,
    /// Operations that were applied again.
    pub repeated: u64,
    /// Entries that could not be read; they stay where they are.
    pub unreadable: u64,
}

impl Scanner {
    /// Writes operations down to be applied later: what `ack=queued` asks for. Gives the id of the entry.
    pub async fn queue(&self, commands: &[Command]) -> Result<String, ScannerError> {
        let id = new_id();
        let entry = EntryOf::new(commands, self.clock().now());
        let mut batch = Batch::new();
        let slot = entry.write(self, &id, &mut batch);
        self.store().send(batch).await?.take::<redis::Value>(slot)?;
        Ok(id)
    }

    /// Applies what was queued under an id, unless somebody did already.
    pub async fn apply_queued(&self, id: &str) -> Result<(), ScannerError> {
        let json: Option<String> = self
            .store()
            .one("HGET", self.keys().pending(), |command| {
                command.arg(id);
            })
            .await?;
        if let Some(entry) = json.and_then(|json| serde_json::from_str::<Entry>(&json).ok()) {
            self.repeat(id, entry).await?;
        }
        Ok(())
    }

    /// Applies again what was begun more than `older_than_ms` ago and not finished. One instance at a time; another one
    /// finds nothing to do. Idempotent.
    pub async fn heal(&self, older_than_ms: i64) -> Result<HealReport, ScannerError> {
        let token = new_id();
        let key = self.keys().pending_lock();
        let taken: Option<String> = self
            .store()
            .one("SET", key.clone(), |command| {
                command.arg(&token).arg("NX").arg("PX").arg(LEASE_MS);
            })
            .await?;
        if taken.is_none() {
            return Ok(HealReport::default());
        }
        let report = self.heal_all(older_than_ms).await;
        if let Ok(report) = &report {
            let counts = self.counts();
            let oldest = u64::try_from(report.oldest_ms).unwrap_or(0);
            counts.pending.store(report.pending, Ordering::Relaxed);
            counts.pending_oldest_ms.store(oldest, Ordering::Relaxed);
        }
        let released = self
            .store()
            .one_step::<i64>(Step::Release, key, |command| {
                command.arg(&token);
            })
            .await;
        if let Err(error) = released {
            tracing::debug!(%error, "the lease of pending operations runs out by itself");
        }
        report
    }

    async fn heal_all(&self, older_than_ms: i64) -> Result<HealReport, ScannerError> {
        let mut report = HealReport::default();
        let now = self.clock().now().ms();
        let mut cursor = "0".to_owned();
        loop {
            let (next, pairs): (String, Vec<String>) = self
                .store()
                .one("HSCAN", self.keys().pending(), |command| {
                    command.arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
                })
                .await?;
            for pair in pairs.chunks_exact(2) {
                report.pending += 1;
                let entry: Entry = match serde_json::from_str(&pair[1]) {
                    Ok(entry) => entry,
                    Err(error) => {
                        report.unreadable += 1;
                        tracing::warn!(entry = %pair[0], %error, "a pending operation cannot be read");
                        continue;
                    }
                };
                let age = now.saturating_sub(entry.at_ms);
                report.oldest_ms = report.oldest_ms.max(age);
                if age < older_than_ms {
                    continue;
                }
                report.repeated += entry.commands.len() as u64;
                self.repeat(&pair[0], entry).await?;
            }
            if next == "0" {
                return Ok(report);
            }
            cursor = next;
        }
    }

    async fn repeat(&self, id: &str, entry: Entry) -> Result<(), ScannerError> {
        let mut unfinished = Vec::with_capacity(entry.commands.len());
        for commands in super::runs(&entry.commands) {
            let (head, _) = self.head_now(Batch::new()).await?;
            let done = Run::new(self, commands, true).through(&head).await?;
            self.count(commands, &done.statuses);
            unfinished.extend(done.unfinished);
            self.store().send(done.last).await?;
        }
        let entry = EntryOf {
            at_ms: entry.at_ms,
            attempts: entry.attempts + 1,
            commands: entry.commands.iter().collect(),
        };
        settle(self, id, entry, &unfinished, Batch::new()).await
    }
}

/// What a dead letter says beside the operation.
pub(crate) fn dead_letter_json(command: &Command) -> String {
    JsonObject::new()
        .text("kind", "ledger-operation")
        .text("id", &command.id())
        .raw("operation", &to_json(command))
        .end()
}
