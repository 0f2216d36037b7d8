//! Pages of the history of a script or an asset, newest first, at a cost that depends on the page and not on the history.
//!
//! The rows of a script lie in the order of heights, so a page is a reverse scan from a seek. Inside a height they lie
//! by txid, but the order that readers see is by position in the block; so the transactions of one height are collected
//! as a group and sorted by position. A group is as large as a block at most. Groups that took work are kept by (script,
//! block): the next page inside the same height does not collect it again.

use std::marker::PhantomData;
use std::sync::Arc;

use bitcoin::Txid;

use super::{Result, View};
use crate::engine::{Cursor, Family};
use crate::rows::{self, HeightRow, HistKey};
use crate::types::{BlockRef, QueryError, ScriptHash};

/// Rows of one transaction and side that are stepped over one by one before the rest is jumped over by a seek.
const STEPS_BEFORE_SEEK: usize = 8;
/// Groups of at least this many transactions are kept.
const GROUP_KEPT_MIN: usize = 32;

impl View {
    /// Newest first: up to `limit` transactions of the script after `after` (exclusive). A cursor that is not in the
    /// script's history gives an empty page. Costs O(limit), wherever the page is.
    pub fn history(
        &self,
        script: &ScriptHash,
        after: Option<&Txid>,
        limit: usize,
    ) -> Result<Vec<(Txid, BlockRef)>> {
        self.newest_first::<HistKey>(&script.0, after, limit)
    }

    /// The same for any kind of row that lies by height.
    pub(super) fn newest_first<R: HeightRow>(
        &self,
        id: &[u8; 32],
        after: Option<&Txid>,
        limit: usize,
    ) -> Result<Vec<(Txid, BlockRef)>> {
        let mut walk = HistoryWalk::<R>::new(self, id);
        let mut page = Vec::with_capacity(limit.min(64));
        if let Some(after) = after {
            let Some(block) = self.confirming_block(after)? else {
                return Ok(page);
            };
            let Some((block, group)) = walk.group_at(block.height)? else {
                return Ok(page);
            };
            let Some(at) = group.iter().position(|txid| txid == after) else {
                return Ok(page);
            };
            page.extend(
                group[at + 1..]
                    .iter()
                    .take(limit)
                    .map(|txid| (*txid, block)),
            );
        }
        while page.len() < limit
            && let Some((block, group)) = walk.next_group()?
        {
            page.extend(
                group
                    .iter()
                    .take(limit - page.len())
                    .map(|txid| (*txid, block)),
            );
        }
        Ok(page)
    }
}

/// Walks over the groups of a script or an asset from the newest to the oldest.
struct HistoryWalk<'a, R> {
    view: &'a View,
    id: [u8; 32],
    rows: PhantomData<R>,
    cursor: Cursor<'a>,
    /// Whether the cursor stands at the last row of the next group (or at the end).
    placed: bool,
    rows_visited: usize,
}

/// The transactions of a script in one block, last one first.
type Group = (BlockRef, Arc<Vec<Txid>>);

impl<'a, R: HeightRow> HistoryWalk<'a, R> {
    fn new(view: &'a View, id: &[u8; 32]) -> Self {
        let cursor = view
            .history
            .prefix_cursor(Family::of(R::KIND), &rows::id_prefix(R::KIND, id));
        Self {
            view,
            id: *id,
            rows: PhantomData,
            cursor,
            placed: false,
            rows_visited: 0,
        }
    }

    /// The group at a height; the walk goes on below it.
    fn group_at(&mut self, height: u32) -> Result<Option<Group>> {
        // Before all rows of the height above, so at the last row of this one.
        self.cursor
            .seek_for_prev(&height_end::<R>(&self.id, height));
        self.placed = true;
        match self.cursor.key()? {
            Some(key) if R::decode(key)?.height() == height => self.next_group(),
            _ => Ok(None),
        }
    }

    /// The next older group that has a transaction that counts.
    fn next_group(&mut self) -> Result<Option<Group>> {
        if !self.placed {
            self.cursor
                .seek_for_prev(&height_end::<R>(&self.id, u32::MAX));
            self.placed = true;
        }
        loop {
            let Some(key) = self.cursor.key()? else {
                return Ok(None);
            };
            let height = R::decode(key)?.height();
            let Some(block) = self.view.block_at(height) else {
                // Above the tip only leftovers of a longer branch are conceivable.
                if self.view.contested.contains(&height) {
                    self.cursor
                        .seek_for_prev(&rows::height_key(R::KIND, &self.id, height));
                    continue;
                }
                self.view.expect_block_at(height)?;
                return Ok(None);
            };
            let kept = (R::KIND, self.id, block.hash);
            if let Some(group) = self.view.shared.groups.get(&kept) {
                self.cursor
                    .seek_for_prev(&rows::height_key(R::KIND, &self.id, height));
                return Ok(Some((block, group)));
            }
            let mut txids = self.collect(height)?;
            if txids.is_empty() {
                continue;
            }
            self.view.order_newest_first(&block, &mut txids)?;
            let group = Arc::new(txids);
            if group.len() >= GROUP_KEPT_MIN {
                self.view.shared.groups.insert(kept, Arc::clone(&group));
            }
            return Ok(Some((block, group)));
        }
    }

    /// The distinct transactions at `height` that count, in no particular order. Leaves the cursor at the last row
    /// below that height. A transaction has all its rows of one script at one height, so no set of all transactions
    /// seen is needed.
    fn collect(&mut self, height: u32) -> Result<Vec<Txid>> {
        let mut txids: Vec<Txid> = Vec::new();
        let mut repeats = 0;
        while let Some(key) = self.cursor.key()? {
            let row = R::decode(key)?;
            if row.height() != height {
                break;
            }
            let txid = row.txid();
            self.rows_visited += 1;
            if self.rows_visited > self.view.shared.scan_rows_max {
                return Err(QueryError::TooManyRows);
            }
            if txids.last() == Some(&txid) {
                repeats += 1;
            } else {
                repeats = 0;
                txids.push(txid);
            }
            if repeats >= STEPS_BEFORE_SEEK {
                // A consolidation: thousands of rows of one transaction. Jump to before all of them.
                let before_all = R::group_key(key).to_vec();
                self.cursor.seek_for_prev(&before_all);
            } else {
                self.cursor.prev();
            }
        }
        txids.sort_unstable();
        txids.dedup();
        if self.view.contested.contains(&height) {
            let mut counting = Vec::with_capacity(txids.len());
            for txid in txids {
                if self.view.row_counts(&txid, height)? {
                    counting.push(txid);
                }
            }
            return Ok(counting);
        }
        Ok(txids)
    }
}

impl View {
    /// Sorts transactions of one block by falling position. One transaction needs no look at the block.
    pub(super) fn order_newest_first(&self, block: &BlockRef, txids: &mut [Txid]) -> Result<()> {
        if txids.len() > 1 {
            let positions = self.positions(block, txids)?;
            txids.sort_unstable_by_key(|txid| std::cmp::Reverse(positions.get(txid).copied()));
        }
        Ok(())
    }
}

/// A key after all rows of a script or an asset at a height.
fn height_end<R: HeightRow>(id: &[u8; 32], height: u32) -> [u8; 38] {
    let mut key = [u8::MAX; 38];
    key[..37].copy_from_slice(&rows::height_key(R::KIND, id, height));
    key
}
