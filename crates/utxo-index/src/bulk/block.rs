//! One pass over a serialized block: ids, sizes, places of its transactions and the outpoints they spend.

use bitcoin::TxMerkleNode;
use bitcoin::hashes::Hash;
use cairn_utxo_chain::walk::{BlockVisitor, TxPlace, walk_block};
use cairn_utxo_chain::{DecodeError, Family};

/// A transaction of a [`ParsedBlock`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ParsedTx {
    /// Internal byte order.
    pub(super) txid: [u8; 32],
    /// Where the serialized transaction begins and ends in the block.
    pub(super) start: usize,
    pub(super) end: usize,
    /// End of its spends in [`ParsedBlock::spends`]; they begin where those of the transaction before end.
    pub(super) spends_end: usize,
}

/// An input that spends an output.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParsedSpend {
    /// Which input of its transaction.
    pub(super) vin: u32,
    /// Txid, then the index in little-endian order.
    pub(super) outpoint: [u8; 36],
}

/// What the first load needs of a block. Reused from block to block.
#[derive(Debug, Default)]
pub(super) struct ParsedBlock {
    pub(super) txs: Vec<ParsedTx>,
    pub(super) spends: Vec<ParsedSpend>,
    /// Bytes of the header.
    pub(super) header_length: usize,
    /// Serialized size in bytes; the bytes given may be longer.
    pub(super) size: usize,
    pub(super) weight: usize,
}

/// Why bytes are not the block they should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error("does not parse: {0}")]
    Parse(#[from] DecodeError),
    #[error("its transactions do not fit the merkle root of its header")]
    MerkleRoot,
}

impl ParsedBlock {
    /// Parses a block and checks its transactions against its header.
    pub(super) fn parse(&mut self, family: Family, bytes: &[u8]) -> Result<(), BlockError> {
        self.txs.clear();
        self.spends.clear();
        let place = walk_block(family, bytes, self)?;
        self.header_length = place.header_length;
        self.size = place.size;
        self.weight = place.weight;
        // The walk told the lengths only.
        for tx in &mut self.txs {
            tx.start += place.first_tx;
            tx.end += place.first_tx;
        }
        let ids = self
            .txs
            .iter()
            .map(|tx| TxMerkleNode::from_byte_array(tx.txid));
        let root = bitcoin::merkle_tree::calculate_root(ids).ok_or(BlockError::MerkleRoot)?;
        if root.to_byte_array() != place.merkle_root {
            return Err(BlockError::MerkleRoot);
        }
        Ok(())
    }
}

impl BlockVisitor for ParsedBlock {
    fn spend(&mut self, vin: u32, outpoint: [u8; 36]) {
        self.spends.push(ParsedSpend { vin, outpoint });
    }

    fn tx(&mut self, tx: TxPlace) {
        let start = self.txs.last().map_or(0, |tx| tx.end);
        self.txs.push(ParsedTx {
            txid: tx.txid,
            start,
            end: start + tx.length,
            spends_end: self.spends.len(),
        });
    }
}
