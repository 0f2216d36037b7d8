//! Questions about blocks.

use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, Txid, VarInt};
use cairn_utxo_chain::Header;

use super::{Result, View};
use crate::engine::Family;
use crate::headers::NodeId;
use crate::rows::{self, BlockMeta, RowKind};
use crate::types::{BlockSummary, QueryError, TxRecord};

/// Transactions read at once while a whole block is put together.
const RAW_BLOCK_CHUNK: usize = 512;

impl View {
    /// A stored block, stale ones included.
    pub fn block(&self, hash: &BlockHash) -> Result<Option<BlockSummary>> {
        let Some(id) = self.stored(hash)? else {
            return Ok(None);
        };
        let meta = self.block_meta(hash, id)?;
        let tree = self.tree();
        Ok(Some(BlockSummary {
            hash: *hash,
            height: tree.height(id),
            header: tree.header(id),
            weight: meta.weight,
            size: meta.size,
            tx_count: meta.tx_count,
            median_time: tree.median_time(id),
            in_best_chain: self.on_chain(&tree, hash).is_some(),
        }))
    }

    /// The header of a stored block.
    pub fn header(&self, hash: &BlockHash) -> Result<Option<Header>> {
        Ok(self.stored(hash)?.map(|id| self.tree().header(id)))
    }

    /// The header of a stored block, serialized.
    pub fn header_bytes(&self, hash: &BlockHash) -> Result<Option<Vec<u8>>> {
        match self.header(hash)? {
            Some(header) => self.header_bytes_of(&header).map(Some),
            None => Ok(None),
        }
    }

    /// Ids of the block's transactions, block order.
    pub fn block_txids(&self, hash: &BlockHash) -> Result<Option<Arc<Vec<Txid>>>> {
        if let Some(txids) = self.shared.block_txids.get(hash) {
            return Ok(Some(txids));
        }
        let Some(id) = self.stored(hash)? else {
            return Ok(None);
        };
        let txids = if self.shared.features.light_mode {
            let height = self.tree().height(id);
            self.fetched_block(hash, height)?.txids
        } else {
            let value = self
                .txstore
                .get(Family::Blocks, &rows::block_key(RowKind::Txids, hash))?
                .ok_or_else(|| missing_row("X", hash))?;
            rows::decode_txids(&value)?
        };
        let txids = Arc::new(txids);
        self.shared.block_txids.insert(*hash, Arc::clone(&txids));
        Ok(Some(txids))
    }

    /// The whole serialized block: header, count, transactions.
    pub fn block_raw(&self, hash: &BlockHash) -> Result<Option<Vec<u8>>> {
        let Some(id) = self.stored(hash)? else {
            return Ok(None);
        };
        if self.shared.features.light_mode {
            return self.fetched_block_raw(hash).map(Some);
        }
        let header = self.tree().header(id);
        let meta = self.block_meta(hash, id)?;
        let Some(txids) = self.block_txids(hash)? else {
            return Ok(None);
        };
        let mut raw = Vec::with_capacity(meta.size as usize);
        raw.extend_from_slice(&self.header_bytes_of(&header)?);
        raw.extend_from_slice(&serialize(&VarInt::from(txids.len())));
        for chunk in txids.chunks(RAW_BLOCK_CHUNK) {
            for (txid, tx) in chunk.iter().zip(self.stored_txs(chunk)?) {
                let tx = tx.ok_or_else(|| {
                    QueryError::Store(format!(
                        "block {hash}: the row T of transaction {txid} is missing"
                    ))
                })?;
                raw.extend_from_slice(&tx);
            }
        }
        Ok(Some(raw))
    }

    /// Up to `limit` transactions of a block from index `start`, in block order, each with the status *of that block*
    /// (`block` is `None` when the block is stale). [`QueryError::OutOfRange`] when `start` is beyond the block.
    pub fn block_txs(
        &self,
        hash: &BlockHash,
        start: usize,
        limit: usize,
    ) -> Result<Option<Vec<TxRecord>>> {
        let Some(txids) = self.block_txids(hash)? else {
            return Ok(None);
        };
        let from = txids
            .get(start..)
            .filter(|rest| !rest.is_empty())
            .ok_or(QueryError::OutOfRange)?;
        let page = &from[..limit.min(from.len())];
        let block = self.best_chain_block(hash);
        let wanted: Vec<_> = page.iter().map(|txid| (*txid, block)).collect();
        if self.shared.features.light_mode && block.is_none() {
            // The node finds a transaction of a stale block only by that block.
            return self.records_from(&wanted, Some(hash)).map(Some);
        }
        self.txs(&wanted).map(Some)
    }

    /// The node of a block whose transactions are stored in this view. The header list is shared with newer views, so
    /// a block beside the chain is looked up in the snapshot.
    fn stored(&self, hash: &BlockHash) -> Result<Option<NodeId>> {
        let (id, on_chain) = {
            let tree = self.tree();
            let Some(id) = tree.find(hash) else {
                return Ok(None);
            };
            (id, self.on_chain(&tree, hash).is_some())
        };
        let stored = on_chain
            || self
                .txstore
                .get(Family::Blocks, &rows::block_key(RowKind::Added, hash))?
                .is_some();
        Ok(stored.then_some(id))
    }

    fn block_meta(&self, hash: &BlockHash, id: NodeId) -> Result<BlockMeta> {
        if self.shared.features.light_mode {
            let height = self.tree().height(id);
            return Ok(self.fetched_block(hash, height)?.meta());
        }
        let value = self
            .txstore
            .get(Family::Blocks, &rows::block_key(RowKind::Meta, hash))?
            .ok_or_else(|| missing_row("M", hash))?;
        Ok(BlockMeta::decode(&value)?)
    }
}

fn missing_row(row: &str, hash: &BlockHash) -> QueryError {
    QueryError::Store(format!("block {hash} has no row {row}; run `cairn verify`"))
}
