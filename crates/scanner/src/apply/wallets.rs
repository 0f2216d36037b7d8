//! Wallets: the latest snapshot of each, and the directories sorted by balance.

use std::collections::BTreeMap;

use crate::error::ScannerError;
use crate::request::Command;
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::time::AtMs;
use crate::wallet::Wallet;

use super::{Group, Layer, Run, Status};

/// How often a directory is brought up to a wallet that others keep changing.
const RANK_ATTEMPTS: usize = 10;

/// The wallets of a run.
#[derive(Default)]
pub(super) struct WalletWork<'a> {
    changes: Vec<(usize, &'a Wallet)>,
    replaced: Vec<(usize, Slot)>,
    /// What is stored now, by player, and who needs it ranked.
    stored: BTreeMap<String, (String, Vec<usize>)>,
    ranked: Vec<Ranked>,
}

/// A wallet that was ranked as it was stored.
struct Ranked {
    player: String,
    json: String,
    ops: Vec<usize>,
    read: Slot,
}

impl<'a> WalletWork<'a> {
    pub(super) fn add(&mut self, op: usize, wallet: &'a Wallet) {
        self.changes.push((op, wallet));
    }

    /// Replaces each unless the stored one is later.
    pub(super) fn replace(&mut self, run: &Run<'_>, batch: &mut Batch) {
        for (index, (_, wallet)) in self.changes.iter().enumerate() {
            let key = run.scanner.keys().wallet(&wallet.player_id);
            let slot = run
                .scanner
                .store()
                .step(batch, Step::ReplaceWallet, key, |command| {
                    command
                        .arg(AtMs::clamped(wallet.updated_ms).to_string())
                        .arg(wallet.to_json(true));
                });
            self.replaced.push((index, slot));
        }
    }

    /// What became of them.
    pub(super) fn read(&mut self, run: &mut Run<'_>, answers: &mut Answers) {
        for (index, slot) in std::mem::take(&mut self.replaced) {
            let (op, wallet) = self.changes[index];
            match answers.take::<(String, String)>(slot) {
                Err(error) => run.fail(op, Layer::Ledger, &error),
                Ok((what, json)) => {
                    let decides = match &run.commands[op] {
                        Command::Wallet { .. } => true,
                        // The event decides as well; it is read later and only ever says "created".
                        Command::Seed { .. } => true,
                        _ => false,
                    };
                    if decides && run.status[op].is_none() {
                        run.status[op] = Some(match what.as_str() {
                            "new" => Status::Created,
                            "same" => Status::Duplicate,
                            _ => Status::Stale,
                        });
                    }
                    let entry = self.stored.entry(wallet.player_id.clone()).or_default();
                    entry.0 = json;
                    entry.1.push(op);
                }
            }
        }
    }

    /// Brings the directories up to what is stored.
    pub(super) fn rank(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let changed = std::mem::take(&mut self.stored)
            .into_iter()
            .map(|(player, (json, ops))| (player, json, ops));
        self.ranked = rank_all(run, changed, batch);
    }

    /// Reads the wallets back: if another writer was faster, the directories are brought up to what it wrote.
    pub(super) async fn settle(
        &mut self,
        run: &mut Run<'_>,
        answers: &mut Answers,
    ) -> Result<(), ScannerError> {
        let mut ranked = std::mem::take(&mut self.ranked);
        let mut changed = settle_all(run, &mut ranked, answers);
        for _ in 0..RANK_ATTEMPTS {
            if changed.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            let mut again = rank_all(run, changed.into_iter(), &mut batch);
            let mut answers = run.scanner.store().send(batch).await?;
            run.collect_errors(&mut answers);
            changed = settle_all(run, &mut again, &mut answers);
        }
        Ok(())
    }
}

/// Ranks wallets as they are stored, then reads them back.
fn rank_all(
    run: &mut Run<'_>,
    changed: impl Iterator<Item = (String, String, Vec<usize>)>,
    batch: &mut Batch,
) -> Vec<Ranked> {
    let keys = run.scanner.keys();
    let mut added = Vec::new();
    let [mut by_apu, mut by_usd, mut nodes] = [const { Vec::new() }; 3];
    let mut all = Vec::new();
    for (player, json, ops) in changed {
        // What is stored may be another program's: a wallet that cannot be read has no rank.
        let Ok(wallet) = Wallet::from_json(&json) else {
            continue;
        };
        by_apu.extend([wallet.power_ups.to_string(), player.clone()]);
        by_usd.extend([wallet.balance_micros.to_string(), player.clone()]);
        nodes.extend(["0".to_owned(), player.clone()]);
        all.extend_from_slice(&ops);
        added.push((player, json, ops));
    }
    if added.is_empty() {
        return Vec::new();
    }
    for (key, args, before) in [
        (keys.wallets(), by_apu, &[][..]),
        (keys.wallets_by_usd(), by_usd, &[]),
        (keys.nodes(), nodes, &["NX"]),
    ] {
        let group = Group {
            args,
            ops: all.clone(),
        };
        run.send_group(batch, Layer::Ledger, "ZADD", key, group, before);
    }
    batch.barrier();
    added
        .into_iter()
        .map(|(player, json, ops)| Ranked {
            read: batch.add("GET", keys.wallet(&player), |_| {}),
            player,
            json,
            ops,
        })
        .collect()
}

/// Notes errors; gives the wallets that have changed meanwhile.
fn settle_all(
    run: &mut Run<'_>,
    ranked: &mut Vec<Ranked>,
    answers: &mut Answers,
) -> Vec<(String, String, Vec<usize>)> {
    let mut changed = Vec::new();
    for one in std::mem::take(ranked) {
        match answers.take::<Option<String>>(one.read) {
            Err(error) => {
                for op in one.ops {
                    run.fail(op, Layer::Ledger, &error);
                }
            }
            Ok(Some(json)) if json != one.json => changed.push((one.player, json, one.ops)),
            Ok(_) => {}
        }
    }
    changed
}
