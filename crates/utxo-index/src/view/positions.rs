//! Where transactions are in their blocks: what orders a history inside a height.

use std::sync::Arc;

use bitcoin::Txid;
use bitcoin::hashes::Hash;
use hashbrown::HashMap;

use super::{Result, View};
use crate::types::{BlockRef, QueryError};

/// The positions of a block's transactions by the first eight bytes of their ids: twelve bytes for each instead of the 32
/// of an id, and found by a binary search instead of a look at all.
pub(super) struct BlockPositions {
    /// Ascending.
    prefixes: Box<[u64]>,
    /// Of the id at the same place of `prefixes`.
    positions: Box<[u32]>,
}

/// What a search by prefix says.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    At(u32),
    Nowhere,
    /// Several ids begin alike: only whole ids can tell.
    Ambiguous,
}

fn prefix(txid: &Txid) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = txid.to_byte_array();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl BlockPositions {
    fn new(txids: &[Txid]) -> Self {
        let mut sorted: Vec<(u64, u32)> = txids.iter().map(prefix).zip(0u32..).collect();
        sorted.sort_unstable();
        let (prefixes, positions): (Vec<u64>, Vec<u32>) = sorted.into_iter().unzip();
        Self {
            prefixes: prefixes.into(),
            positions: positions.into(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.prefixes.len() * (size_of::<u64>() + size_of::<u32>())
    }

    fn find(&self, txid: &Txid) -> Found {
        let wanted = prefix(txid);
        let at = self.prefixes.partition_point(|prefix| *prefix < wanted);
        let is_it = |at: usize| self.prefixes.get(at) == Some(&wanted);
        match (is_it(at), is_it(at + 1)) {
            (false, _) => Found::Nowhere,
            (true, false) => Found::At(self.positions[at]),
            (true, true) => Found::Ambiguous,
        }
    }
}

impl View {
    /// Positions of transactions in the block at a height.
    pub(super) fn positions(&self, block: &BlockRef, txids: &[Txid]) -> Result<HashMap<Txid, u32>> {
        let positions = self.block_positions(block)?;
        txids
            .iter()
            .map(|txid| {
                let position = match positions.find(txid) {
                    Found::At(position) => Some(position),
                    Found::Nowhere => None,
                    Found::Ambiguous => self.position_among_all(block, txid)?,
                };
                let position = position.ok_or_else(|| {
                    QueryError::Store(format!(
                        "history has a row of transaction {txid} at height {}, but block {} does not hold it; run `cairn \
                         verify`",
                        block.height, block.hash
                    ))
                })?;
                Ok((*txid, position))
            })
            .collect()
    }

    fn block_positions(&self, block: &BlockRef) -> Result<Arc<BlockPositions>> {
        if let Some(positions) = self.shared.positions.get(&block.hash) {
            return Ok(positions);
        }
        let positions = Arc::new(BlockPositions::new(&self.txids_of_best(block)?));
        self.shared
            .positions
            .insert(block.hash, Arc::clone(&positions));
        Ok(positions)
    }

    fn position_among_all(&self, block: &BlockRef, txid: &Txid) -> Result<Option<u32>> {
        let all = self.txids_of_best(block)?;
        let position = (0u32..).zip(all.iter()).find(|(_, held)| *held == txid);
        Ok(position.map(|(position, _)| position))
    }

    fn txids_of_best(&self, block: &BlockRef) -> Result<Arc<Vec<Txid>>> {
        self.block_txids(&block.hash)?.ok_or_else(|| {
            QueryError::Store(format!(
                "block {} is on the chain but has no list of transactions",
                block.hash
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txid(first: u64, rest: u8) -> Txid {
        let mut bytes = [rest; 32];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        Txid::from_byte_array(bytes)
    }

    #[test]
    fn positions_are_those_of_the_list() {
        let txids: Vec<Txid> = (0..1000u64)
            .map(|n| txid(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 7))
            .collect();
        let positions = BlockPositions::new(&txids);
        for (at, txid) in (0u32..).zip(&txids) {
            assert_eq!(positions.find(txid), Found::At(at));
        }
        assert_eq!(positions.find(&txid(1, 7)), Found::Nowhere);
        assert_eq!(positions.find(&txid(u64::MAX, 7)), Found::Nowhere);
        assert_eq!(BlockPositions::new(&[]).find(&txid(0, 7)), Found::Nowhere);
    }

    #[test]
    fn ids_that_begin_alike_are_not_guessed() {
        let txids = [txid(5, 1), txid(9, 1), txid(5, 2)];
        let positions = BlockPositions::new(&txids);
        assert_eq!(positions.find(&txids[0]), Found::Ambiguous);
        assert_eq!(positions.find(&txids[2]), Found::Ambiguous);
        assert_eq!(positions.find(&txids[1]), Found::At(1));
    }
}
