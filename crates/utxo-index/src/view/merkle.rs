//! Merkle proofs, from the list of transaction ids alone.

use std::sync::Arc;

use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{BlockHash, TxMerkleNode, Txid};

use super::{Result, View};
use crate::types::{MerkleProof, QueryError};

/// All levels of a block's tree, leaves first, the root last.
pub(crate) struct MerkleTree {
    levels: Vec<Vec<TxMerkleNode>>,
}

impl MerkleTree {
    fn new(txids: &[Txid]) -> Self {
        let mut levels = vec![
            txids
                .iter()
                .map(|txid| TxMerkleNode::from_byte_array(txid.to_byte_array()))
                .collect(),
        ];
        while let Some(below) = levels
            .last()
            .filter(|level: &&Vec<TxMerkleNode>| level.len() > 1)
        {
            let above = below
                .chunks(2)
                .map(|pair| parent(pair[0], *pair.last().unwrap_or(&pair[0])))
                .collect();
            levels.push(above);
        }
        Self { levels }
    }

    /// Sibling hashes from the leaf up. A node without a sibling is its own.
    fn branch(&self, position: usize) -> Vec<TxMerkleNode> {
        let mut at = position;
        let mut branch = Vec::with_capacity(self.levels.len());
        for level in self.levels.iter().filter(|level| level.len() > 1) {
            branch.push(*level.get(at ^ 1).unwrap_or(&level[at]));
            at /= 2;
        }
        branch
    }

    /// Size in memory.
    pub(super) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.len() * 32).sum()
    }
}

fn parent(left: TxMerkleNode, right: TxMerkleNode) -> TxMerkleNode {
    let mut engine = TxMerkleNode::engine();
    engine.input(left.as_byte_array());
    engine.input(right.as_byte_array());
    TxMerkleNode::from_raw_hash(sha256d::Hash::from_engine(engine))
}

impl View {
    /// Merkle proof of a confirmed transaction; `None` for one that is not.
    pub fn merkle_proof(&self, txid: &Txid) -> Result<Option<MerkleProof>> {
        let Some(block) = self.confirming_block(txid)? else {
            return Ok(None);
        };
        let Some(txids) = self.block_txids(&block.hash)? else {
            return Ok(None);
        };
        let position = txids.iter().position(|other| other == txid).ok_or_else(|| {
            QueryError::Store(format!(
                "transaction {txid} is confirmed in block {}, whose list of transactions lacks it; run `cairn verify`",
                block.hash
            ))
        })?;
        let tree = self.merkle_tree(&block.hash, &txids);
        let pos = u32::try_from(position).expect("a block has fewer than 2^32 transactions");
        Ok(Some(MerkleProof {
            block,
            branch: tree.branch(position),
            pos,
        }))
    }

    fn merkle_tree(&self, hash: &BlockHash, txids: &[Txid]) -> Arc<MerkleTree> {
        if let Some(tree) = self.shared.merkle.get(hash) {
            return tree;
        }
        let tree = Arc::new(MerkleTree::new(txids));
        self.shared.merkle.insert(*hash, Arc::clone(&tree));
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_to_the_root_for_every_size() {
        for count in 1..=33usize {
            let txids: Vec<Txid> = (0..count)
                .map(|n| Txid::from_byte_array([n as u8; 32]))
                .collect();
            let root =
                bitcoin::merkle_tree::calculate_root(txids.iter().map(|txid| txid.to_raw_hash()));
            let tree = MerkleTree::new(&txids);
            for (position, txid) in txids.iter().enumerate() {
                let mut node = TxMerkleNode::from_byte_array(txid.to_byte_array());
                let mut at = position;
                for sibling in tree.branch(position) {
                    node = if at % 2 == 0 {
                        parent(node, sibling)
                    } else {
                        parent(sibling, node)
                    };
                    at /= 2;
                }
                assert_eq!(Some(node.to_raw_hash()), root, "{position} of {count}");
            }
        }
    }
}
