//! Statistics of a script, with the `A` rows of the cache.

use std::ops::ControlFlow;

use bitcoin::Txid;

use super::fold::{Budget, CACHE_ROWS_MIN, Fold, Outcome};
use super::{Result, View};
use crate::engine::{Durability, Family};
use crate::rows::{self, HistKey, HistSide, RowValue};
use crate::types::{QueryError, ScriptHash, ScriptStats};

impl View {
    /// Totals of a script.
    ///
    /// The first question about a script visits all its rows; what that yields for a settled block is kept, and later
    /// questions continue from there. A script with more rows than one request may visit ends with
    /// [`QueryError::TooManyRows`]; asking again continues.
    pub fn stats(&self, script: &ScriptHash) -> Result<ScriptStats> {
        // The entry is for this tip, so it is never out of date; whoever asks while it is computed waits for it.
        self.shared
            .stats
            .get_or_insert_with(&(*script, self.tip.hash), || self.fold_stats(script))
    }

    fn fold_stats(&self, script: &ScriptHash) -> Result<ScriptStats> {
        let cached = self.cached_stats(script)?;
        let mut from = cached.map_or(0, |(_, height)| height + 1);
        let mut fold = StatsFold {
            script: *script,
            stats: cached.map(|(stats, _)| stats).unwrap_or_default(),
            txids: Vec::new(),
        };
        let mut budget = Budget::new(self.shared.fold_rows_max());
        if let Some(settled) = self.settled_height().filter(|settled| *settled >= from) {
            let (outcome, visited) = self.fold(&script.0, from, settled, &mut budget, &mut fold)?;
            let worth = visited > CACHE_ROWS_MIN || (cached.is_some() && visited > 0);
            match outcome {
                Outcome::Stopped { next, error } => {
                    self.store_stats(script, &fold.stats, next - 1)?;
                    return Err(error);
                }
                Outcome::Complete | Outcome::Enough if worth => {
                    self.store_stats(script, &fold.stats, settled)?
                }
                Outcome::Complete | Outcome::Enough => {}
            }
            from = settled + 1;
        }
        // The rows of the last few blocks: bounded by the size of blocks, so no budget.
        let mut budget = Budget::new(usize::MAX);
        match self.fold(&script.0, from, self.tip.height, &mut budget, &mut fold)? {
            (Outcome::Stopped { error, .. }, _) => Err(error),
            (Outcome::Complete | Outcome::Enough, _) => Ok(fold.stats),
        }
    }

    /// The stored statistics and their height, if their block is on the chain.
    fn cached_stats(&self, script: &ScriptHash) -> Result<Option<(ScriptStats, u32)>> {
        let Some(value) = self
            .shared
            .stores
            .cache
            .get(Family::Cache, &rows::stats_key(script))?
        else {
            return Ok(None);
        };
        let (stats, hash) = rows::decode_stats_value(self.shared.network.family(), &value)?;
        Ok(self
            .best_chain_block(&hash)
            .map(|block| (stats, block.height)))
    }

    fn store_stats(&self, script: &ScriptHash, stats: &ScriptStats, height: u32) -> Result<()> {
        let block = self.expect_block_at(height)?;
        let cache = &self.shared.stores.cache;
        let mut batch = cache.batch();
        batch.put(
            Family::Cache,
            &rows::stats_key(script),
            &rows::stats_value(self.shared.network.family(), stats, &block.hash),
        );
        Ok(cache.write(batch, Durability::Logged)?)
    }
}

struct StatsFold {
    script: ScriptHash,
    stats: ScriptStats,
    /// Transactions of the height at hand, each as often as its rows were not neighbours (twice at most).
    txids: Vec<Txid>,
}

impl Fold<HistKey> for StatsFold {
    fn row(&mut self, row: &HistKey) -> Result<ControlFlow<()>> {
        let (count, sum) = match row.side {
            HistSide::Funding { .. } => (
                &mut self.stats.funded_txo_count,
                &mut self.stats.funded_txo_sum,
            ),
            HistSide::Spending { .. } => (
                &mut self.stats.spent_txo_count,
                &mut self.stats.spent_txo_sum,
            ),
        };
        *count += 1;
        // On Elements amounts may be of any asset, and blinded: there are no sums.
        let amount = match row.value {
            RowValue::Sat(amount) => amount,
            RowValue::Field(_) => 0,
        };
        *sum = sum.checked_add(amount).ok_or_else(|| {
            QueryError::Store(format!(
                "the values of the rows of script {} add up to more than 2^64 satoshi; run `cairn verify`",
                self.script
            ))
        })?;
        if self.txids.last() != Some(&row.txid) {
            self.txids.push(row.txid);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn height_done(&mut self) {
        self.txids.sort_unstable();
        self.txids.dedup();
        self.stats.tx_count += self.txids.len() as u64;
        self.txids.clear();
    }
}
