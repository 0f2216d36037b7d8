//! The balance of a script over time, at so many heights that a chart can be drawn of it.
//!
//! A fold over all rows of the script, as its statistics are, and kept in the same way: what it yields up to a settled block
//! stays in memory and is continued from there. It holds a bounded number of points: when there are more, neighbours become
//! one, so a script with millions of rows costs as much to show as one with hundreds.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::BlockHash;

use super::fold::{Budget, Fold, Outcome};
use super::{Result, View};
use crate::rows::{HistKey, HistSide, RowValue};
use crate::types::{BalancePoint, QueryError, ScriptHash};

/// Points of a series at most.
const POINTS_MAX: usize = 256;

/// A series up to a settled block.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    /// The block up to which all rows are in it.
    block: BlockHash,
    series: Series,
}

/// Points so far. A bucket is `2^coarseness` changes of the balance; the point that is kept is its last.
#[derive(Debug, Clone, Default)]
struct Series {
    points: Vec<BalancePoint>,
    balance: i128,
    coarseness: u32,
    in_bucket: u64,
}

impl Series {
    /// The balance after all rows of a height.
    fn push(&mut self, point: BalancePoint) {
        let starts_bucket = self.in_bucket == 0;
        self.in_bucket = (self.in_bucket + 1) % (1_u64 << self.coarseness.min(63));
        match self.points.last_mut() {
            Some(last) if !starts_bucket => *last = point,
            _ => self.points.push(point),
        }
        if self.points.len() > POINTS_MAX && self.in_bucket == 0 {
            // The last of two is what held when both were over; the very first stays.
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.coarseness += 1;
            // With an odd number of points the last one was dropped: it is an unfinished bucket now.
            if self.points.last() != Some(&point) {
                self.points.push(point);
                self.in_bucket = 1_u64 << (self.coarseness - 1).min(62);
            }
        }
    }
}

impl View {
    /// The balance of a script after blocks that changed it, ascending by height: all of them, or evenly chosen ones, always
    /// with the last. Chain only.
    ///
    /// # Errors
    /// As [`View::stats`]: a script with more rows than one request may visit ends with [`QueryError::TooManyRows`], and
    /// asking again continues.
    pub fn balance_points(&self, script: &ScriptHash) -> Result<Vec<BalancePoint>> {
        let kept = self
            .shared
            .balances
            .get(script)
            .and_then(|kept| Some((self.best_chain_block(&kept.block)?.height, kept)));
        let (mut from, series) = match kept {
            Some((height, kept)) => (height + 1, kept.series.clone()),
            None => (0, Series::default()),
        };
        let mut fold = BalanceFold {
            script: *script,
            series,
            height: from,
        };
        let mut budget = Budget::new(self.shared.fold_rows_max());
        if let Some(settled) = self.settled_height().filter(|settled| *settled >= from) {
            let (outcome, _) = self.fold(&script.0, from, settled, &mut budget, &mut fold)?;
            match outcome {
                Outcome::Stopped { next, error } => {
                    self.keep_balance(script, &fold.series, next - 1)?;
                    return Err(error);
                }
                Outcome::Complete | Outcome::Enough => {
                    self.keep_balance(script, &fold.series, settled)?;
                }
            }
            from = settled + 1;
        }
        // The rows of the last few blocks: bounded by the size of blocks, so no budget.
        let mut budget = Budget::new(usize::MAX);
        match self.fold(&script.0, from, self.tip.height, &mut budget, &mut fold)? {
            (Outcome::Stopped { error, .. }, _) => Err(error),
            (Outcome::Complete | Outcome::Enough, _) => Ok(fold.series.points),
        }
    }

    fn keep_balance(&self, script: &ScriptHash, series: &Series, height: u32) -> Result<()> {
        let block = self.expect_block_at(height)?.hash;
        let settled = Settled {
            block,
            series: series.clone(),
        };
        self.shared.balances.insert(*script, Arc::new(settled));
        Ok(())
    }
}

struct BalanceFold {
    script: ScriptHash,
    series: Series,
    height: u32,
}

impl Fold<HistKey> for BalanceFold {
    fn row(&mut self, row: &HistKey) -> Result<ControlFlow<()>> {
        self.height = row.height;
        // On Elements amounts may be of any asset, and blinded: there are no sums.
        let value = match row.value {
            RowValue::Sat(amount) => i128::from(amount),
            RowValue::Field(_) => 0,
        };
        let change = match row.side {
            HistSide::Funding { .. } => value,
            HistSide::Spending { .. } => -value,
        };
        self.series.balance = self.series.balance.checked_add(change).ok_or_else(|| {
            QueryError::Store(format!(
                "the values of the rows of script {} add up to more than there can be; run `cairn verify`",
                self.script
            ))
        })?;
        Ok(ControlFlow::Continue(()))
    }

    fn height_done(&mut self) {
        let point = BalancePoint {
            height: self.height,
            // Rows of one height come funding first, so between heights nothing is spent that is not there.
            balance: u64::try_from(self.series.balance).unwrap_or(0),
        };
        self.series.push(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(height: u32) -> BalancePoint {
        BalancePoint {
            height,
            balance: u64::from(height) * 10,
        }
    }

    #[test]
    fn any_number_of_changes_gives_a_bounded_series_that_ends_with_the_last() {
        let mut series = Series::default();
        for height in 0..20_000 {
            series.push(point(height));
            assert!(series.points.len() <= POINTS_MAX + 1, "at {height}");
            assert_eq!(series.points.last(), Some(&point(height)));
            assert!(series.points.is_sorted_by_key(|point| point.height));
        }
        assert!(series.points.len() > POINTS_MAX / 4);
    }

    #[test]
    fn few_changes_are_all_there() {
        let mut series = Series::default();
        (0..100).for_each(|height| series.push(point(height)));
        assert_eq!(series.points, (0..100).map(point).collect::<Vec<_>>());
    }
}
