//! One pass over a serialized block: ids, sizes, places of its transactions and the outpoints they spend.

use std::ops::ControlFlow;

use bitcoin::TxMerkleNode;
use bitcoin::hashes::Hash;
use bitcoin_slices::{Visit, Visitor, bsl};

pub(super) const HEADER_BYTES: usize = 80;

/// A transaction of a [`ParsedBlock`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ParsedTx {
    /// Internal byte order.
    pub(super) txid: [u8; 32],
    /// Where the serialized transaction begins and ends in the block.
    pub(super) start: usize,
    pub(super) end: usize,
    /// End of its inputs in [`ParsedBlock::inputs`]; they begin where those of the transaction before end.
    pub(super) inputs_end: usize,
}

/// What the first load needs of a block. Reused from block to block.
#[derive(Debug, Default)]
pub(super) struct ParsedBlock {
    pub(super) txs: Vec<ParsedTx>,
    /// Spent outpoints as serialized: txid, then the index in little-endian order.
    pub(super) inputs: Vec<[u8; 36]>,
    /// Serialized size in bytes; the bytes given may be longer.
    pub(super) size: usize,
    pub(super) weight: usize,
}

/// Why bytes are not the block they should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error("does not parse: {0:?}")]
    Parse(bitcoin_slices::Error),
    #[error("its transactions do not fit the merkle root of its header")]
    MerkleRoot,
}

impl ParsedBlock {
    /// Parses a block and checks its transactions against its header.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        self.txs.clear();
        self.inputs.clear();
        self.weight = 0;
        let parsed = bsl::Block::visit(bytes, self).map_err(BlockError::Parse)?;
        self.size = parsed.consumed();
        // `visit_transaction` saw the lengths only; the first transaction begins after the header and the count.
        let tx_bytes = self.txs.last().map_or(0, |tx| tx.end);
        let first = self.size - tx_bytes;
        for tx in &mut self.txs {
            tx.start += first;
            tx.end += first;
        }
        self.weight += 4 * first;
        let ids = self
            .txs
            .iter()
            .map(|tx| TxMerkleNode::from_byte_array(tx.txid));
        let root = bitcoin::merkle_tree::calculate_root(ids).ok_or(BlockError::MerkleRoot)?;
        if root.as_byte_array()[..] != parsed.parsed().header().merkle_root()[..] {
            return Err(BlockError::MerkleRoot);
        }
        Ok(())
    }
}

impl Visitor for ParsedBlock {
    fn visit_tx_in(&mut self, _vin: usize, tx_in: &bsl::TxIn) -> ControlFlow<()> {
        let mut outpoint = [0; 36];
        outpoint.copy_from_slice(tx_in.prevout().as_ref());
        self.inputs.push(outpoint);
        ControlFlow::Continue(())
    }

    fn visit_transaction(&mut self, tx: &bsl::Transaction) -> ControlFlow<()> {
        let start = self.txs.last().map_or(0, |tx| tx.end);
        self.txs.push(ParsedTx {
            txid: tx.txid().to_byte_array(),
            start,
            end: start + tx.as_ref().len(),
            inputs_end: self.inputs.len(),
        });
        self.weight += tx.weight() as usize;
        ControlFlow::Continue(())
    }
}
