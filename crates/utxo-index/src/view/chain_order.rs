//! The history of a script in the order of the chain, in pieces.
//!
//! Some protocols hash the whole history of a script, oldest transaction first. That is linear in the history, so it is
//! asked for in runs that each visit a bounded number of rows; a run ends between two heights, and the next one begins
//! at the height where it ended, in the same view or in a later one that has the same blocks below.

use std::ops::ControlFlow;

use bitcoin::Txid;

use super::fold::{Budget, Fold, Outcome};
use super::{Result, View};
use crate::engine::Family;
use crate::rows::{self, HistKey, RowKind};
use crate::types::ScriptHash;

/// A piece of a script's history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryRun {
    /// Transactions with the heights that confirm them: by height, then by position in the block. Each once.
    pub txs: Vec<(Txid, u32)>,
    /// Where to go on, when the run ended because it had visited enough; all that lies below is in `txs`.
    pub next: Option<u32>,
}

impl View {
    /// The transactions of a script at the heights `from..=to`, oldest first, until about `rows` rows were visited (the
    /// rows of a height are never divided).
    pub fn history_run(
        &self,
        script: &ScriptHash,
        from: u32,
        to: u32,
        rows: usize,
    ) -> Result<HistoryRun> {
        let mut collect = Collect {
            view: self,
            txs: Vec::new(),
            height: from,
            at_height: Vec::new(),
            failed: None,
        };
        let to = to.min(self.tip.height);
        let mut budget = Budget::new(rows);
        let (outcome, _) = self.fold(&script.0, from, to, &mut budget, &mut collect)?;
        if let Some(error) = collect.failed {
            return Err(error);
        }
        Ok(HistoryRun {
            txs: collect.txs,
            next: match outcome {
                Outcome::Stopped { next, .. } => Some(next),
                Outcome::Complete | Outcome::Enough => None,
            },
        })
    }

    /// Whether a script has more than so many rows: a cheap look ahead at what a question about it will cost.
    pub fn has_more_rows_than(&self, script: &ScriptHash, rows: usize) -> Result<bool> {
        let prefix = rows::id_prefix(RowKind::History, &script.0);
        let mut cursor = self.history.prefix_cursor(Family::Hist, &prefix);
        cursor.seek(&prefix);
        let mut seen = 0;
        while cursor.key()?.is_some() {
            if seen == rows {
                return Ok(true);
            }
            seen += 1;
            cursor.next();
        }
        Ok(false)
    }
}

struct Collect<'a> {
    view: &'a View,
    txs: Vec<(Txid, u32)>,
    height: u32,
    /// Transactions of the height at hand, each as often as its rows were not neighbours.
    at_height: Vec<Txid>,
    failed: Option<crate::types::QueryError>,
}

impl Collect<'_> {
    fn order(&mut self) -> Result<()> {
        self.at_height.sort_unstable();
        self.at_height.dedup();
        if self.at_height.len() > 1 {
            let block = self.view.expect_block_at(self.height)?;
            let positions = self.view.positions(&block, &self.at_height)?;
            self.at_height
                .sort_unstable_by_key(|txid| positions.get(txid).copied());
        }
        let height = self.height;
        self.txs
            .extend(self.at_height.drain(..).map(|txid| (txid, height)));
        Ok(())
    }
}

impl Fold<HistKey> for Collect<'_> {
    fn row(&mut self, row: &HistKey) -> Result<ControlFlow<()>> {
        self.height = row.height;
        if self.at_height.last() != Some(&row.txid) {
            self.at_height.push(row.txid);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn height_done(&mut self) {
        if let (Err(error), None) = (self.order(), &self.failed) {
            self.failed = Some(error);
        }
    }
}
