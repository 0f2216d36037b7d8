//! Walking over all rows of a script or an asset in order, with a budget, height by height.
//!
//! Statistics and UTXO sets are folds: their state after all rows up to some height depends on nothing but the rows, so
//! it can be kept for a block and continued later. A fold therefore stops between heights only.

use std::ops::ControlFlow;
use std::time::Instant;

use bitcoin::Txid;

use super::{FOLD_TIME_MAX, Result, View};
use crate::engine::{Cursor, Family};
use crate::rows::{self, HeightRow};
use crate::types::QueryError;

/// State below the tip by this many blocks is what the cache keeps: rarely does a reorganisation reach it.
const SETTLED_DEPTH: u32 = 6;
/// Only a fold over more rows than this leaves an entry in the cache: small ones are cheap to do again.
pub(super) const CACHE_ROWS_MIN: usize = 100;
/// Rows between two looks at the clock.
const CLOCK_ROWS: usize = 4096;

/// How much work a fold may do.
pub(super) struct Budget {
    rows_left: usize,
    started: Instant,
    until_clock: usize,
}

impl Budget {
    pub(super) fn new(rows: usize) -> Self {
        Self {
            rows_left: rows,
            started: Instant::now(),
            until_clock: CLOCK_ROWS,
        }
    }

    /// Takes rows from the budget; being over it is noticed at the next height.
    pub(super) fn spend(&mut self, rows: usize) {
        self.rows_left = self.rows_left.saturating_sub(rows);
        self.until_clock = self.until_clock.saturating_sub(rows);
    }

    /// Whether the fold must stop here.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.rows_left == 0 {
            return Err(QueryError::TooManyRows);
        }
        if self.until_clock == 0 {
            self.until_clock = CLOCK_ROWS;
            if self.started.elapsed() > FOLD_TIME_MAX {
                return Err(QueryError::Deadline);
            }
        }
        Ok(())
    }
}

/// What is folded.
pub(super) trait Fold<R> {
    /// One row that counts. Rows come in key order: ascending height, within it funding before spending.
    fn row(&mut self, row: &R) -> Result<ControlFlow<()>>;
    /// All rows of a height were given.
    fn height_done(&mut self);
}

/// Where a fold ended.
pub(super) enum Outcome {
    /// All rows up to the wanted height were folded.
    Complete,
    /// The fold itself had enough.
    Enough,
    /// The budget is used up; everything below this height was folded.
    Stopped {
        /// The next height to fold.
        next: u32,
        /// Why.
        error: QueryError,
    },
}

impl View {
    /// The height whose state the cache keeps; `None` on a chain that is too short.
    pub(super) fn settled_height(&self) -> Option<u32> {
        self.tip.height.checked_sub(SETTLED_DEPTH)
    }

    /// Folds the rows of a script or an asset at heights `from..=to` into `fold`. Returns how many rows were visited.
    pub(super) fn fold<R: HeightRow>(
        &self,
        id: &[u8; 32],
        from: u32,
        to: u32,
        budget: &mut Budget,
        fold: &mut dyn Fold<R>,
    ) -> Result<(Outcome, usize)> {
        let mut cursor: Cursor<'_> = self
            .history
            .prefix_cursor(Family::of(R::KIND), &rows::id_prefix(R::KIND, id));
        cursor.seek(&rows::height_key(R::KIND, id, from));
        let mut visited = 0;
        let mut current: Option<u32> = None;
        let mut contested = false;
        let mut checked: Option<(Txid, bool)> = None;
        while let Some(key) = cursor.key()? {
            let row = R::decode(key)?;
            let (height, txid) = (row.height(), row.txid());
            if height > to {
                break;
            }
            if current != Some(height) {
                if current.is_some() {
                    fold.height_done();
                    if let Err(error) = budget.check() {
                        return Ok((
                            Outcome::Stopped {
                                next: height,
                                error,
                            },
                            visited,
                        ));
                    }
                }
                current = Some(height);
                contested = self.contested.contains(&height);
                checked = None;
            }
            visited += 1;
            budget.spend(1);
            let counts = match (contested, checked) {
                (false, _) => true,
                (true, Some((checked, counts))) if checked == txid => counts,
                (true, _) => {
                    let counts = self.row_counts(&txid, height)?;
                    checked = Some((txid, counts));
                    counts
                }
            };
            if counts && fold.row(&row)?.is_break() {
                return Ok((Outcome::Enough, visited));
            }
            cursor.next();
        }
        if current.is_some() {
            fold.height_done();
        }
        Ok((Outcome::Complete, visited))
    }
}
