//! Questions about transactions and outputs.

use std::collections::HashMap;

use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::{Network, Output, Tx};

use super::{Result, View};
use crate::engine::{Family, Pinned};
use crate::rows::{self, OUT_KEY_LEN};
use crate::types::{BlockRef, QueryError, TxRecord};

impl View {
    /// A transaction with prevouts and fee, confirmed or not. One that is unconfirmed, or was only in stale blocks, has
    /// `block: None`.
    pub fn tx(&self, txid: &Txid) -> Result<Option<TxRecord>> {
        // A state never holds a transaction in both.
        if let Some(entry) = self.mempool().entry(txid) {
            return Ok(Some(entry.record()));
        }
        let block = self.confirming_block(txid)?;
        let Some(raw) = self.raw_tx(txid, block)? else {
            return Ok(None);
        };
        let mut records = self.build_records(vec![(*txid, block, raw)])?;
        Ok(records.pop())
    }

    /// Several transactions at once, in the order asked; every one must exist.
    pub fn txs(&self, txids: &[(Txid, Option<BlockRef>)]) -> Result<Vec<TxRecord>> {
        self.records_from(txids, None)
    }

    /// As [`View::txs`]; `held_by` names a block to ask the node by in light mode when there is no confirming one.
    pub(super) fn records_from(
        &self,
        txids: &[(Txid, Option<BlockRef>)],
        held_by: Option<&BlockHash>,
    ) -> Result<Vec<TxRecord>> {
        let absent = |txid: &Txid| {
            QueryError::Store(format!(
                "transaction {txid} is in the index, but its row T is missing; run `cairn verify`"
            ))
        };
        let mut bodies = Vec::with_capacity(txids.len());
        if self.shared.features.light_mode {
            for (txid, block) in txids {
                let raw = match held_by {
                    Some(hash) => Body::Fetched(self.fetched_tx(txid, hash)?),
                    None => self.raw_tx(txid, *block)?.ok_or_else(|| absent(txid))?,
                };
                bodies.push((*txid, *block, raw));
            }
        } else {
            let ids: Vec<Txid> = txids.iter().map(|(txid, _)| *txid).collect();
            for ((txid, block), raw) in txids.iter().zip(self.stored_txs(&ids)?) {
                bodies.push((*txid, *block, raw.ok_or_else(|| absent(txid))?));
            }
        }
        self.build_records(bodies)
    }

    /// The serialized transaction, confirmed or not.
    pub fn tx_raw(&self, txid: &Txid) -> Result<Option<Vec<u8>>> {
        if let Some(entry) = self.mempool().entry(txid) {
            return Ok(Some(entry.raw().to_vec()));
        }
        if self.shared.features.light_mode {
            let block = self.confirming_block(txid)?;
            return Ok(self.raw_tx(txid, block)?.map(|raw| raw.to_vec()));
        }
        Ok(self
            .txstore
            .get(Family::Txs, &rows::tx_key(txid))?
            .map(|raw| raw.to_vec()))
    }

    /// Previous outputs by one batched read, in the order asked; `None` where unknown.
    pub fn outputs(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Output>>> {
        let mut order: Vec<(usize, [u8; OUT_KEY_LEN])> = outpoints
            .iter()
            .map(|outpoint| rows::out_key(&outpoint.txid, outpoint.vout))
            .enumerate()
            .collect();
        order.sort_unstable_by_key(|(_, key)| *key);
        let keys: Vec<[u8; OUT_KEY_LEN]> = order.iter().map(|(_, key)| *key).collect();
        let mut outputs: Vec<Option<Output>> = vec![None; outpoints.len()];
        for ((at, _), value) in order
            .into_iter()
            .zip(self.txstore.multi_get(Family::Outs, &keys)?)
        {
            if let Some(value) = value {
                let output = rows::decode_out_value(self.shared.network.family(), &value)?;
                outputs[at] = Some(output.into());
            }
        }
        Ok(outputs)
    }

    /// As [`View::outputs`], but only outputs of transactions that are confirmed on this chain: rows of stale blocks stay.
    pub(crate) fn confirmed_outputs(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Output>>> {
        let mut outputs = self.outputs(outpoints)?;
        if self.has_stale {
            let found = outpoints
                .iter()
                .zip(&outputs)
                .filter(|(_, output)| output.is_some());
            let blocks = self.confirming_blocks(found.map(|(outpoint, _)| outpoint.txid))?;
            for (outpoint, output) in outpoints.iter().zip(&mut outputs) {
                if !matches!(blocks.get(&outpoint.txid), Some(Some(_))) {
                    *output = None;
                }
            }
        }
        Ok(outputs)
    }

    /// Stored transactions by one batched read, in the order asked.
    pub(super) fn stored_txs(&self, txids: &[Txid]) -> Result<Vec<Option<Body<'_>>>> {
        let mut order: Vec<(usize, [u8; rows::HASH_KEY_LEN])> =
            txids.iter().map(rows::tx_key).enumerate().collect();
        order.sort_unstable_by_key(|(_, key)| *key);
        let keys: Vec<[u8; rows::HASH_KEY_LEN]> = order.iter().map(|(_, key)| *key).collect();
        let mut bodies: Vec<Option<Body<'_>>> = Vec::new();
        bodies.resize_with(txids.len(), || None);
        for ((at, _), raw) in order
            .into_iter()
            .zip(self.txstore.multi_get(Family::Txs, &keys)?)
        {
            bodies[at] = raw.map(Body::Stored);
        }
        Ok(bodies)
    }

    /// One serialized transaction, from its row or in light mode from the node.
    fn raw_tx(&self, txid: &Txid, block: Option<BlockRef>) -> Result<Option<Body<'_>>> {
        if !self.shared.features.light_mode {
            return Ok(self
                .txstore
                .get(Family::Txs, &rows::tx_key(txid))?
                .map(Body::Stored));
        }
        let held_by = match block {
            Some(block) => Some(block.hash),
            None => self.any_holding_block(txid)?,
        };
        match held_by {
            Some(hash) => self
                .fetched_tx(txid, &hash)
                .map(|raw| Some(Body::Fetched(raw))),
            None => Ok(None),
        }
    }

    /// Any block that ever held the transaction.
    pub(super) fn any_holding_block(&self, txid: &Txid) -> Result<Option<BlockHash>> {
        let prefix = rows::conf_prefix(txid);
        let mut cursor = self.txstore.prefix_cursor(Family::Confs, &prefix);
        cursor.seek(&prefix);
        Ok(cursor
            .key()?
            .map(rows::decode_conf_key)
            .transpose()?
            .map(|(_, hash)| hash))
    }

    /// Decodes bodies and adds prevouts and fees, with one batched read for all prevouts.
    fn build_records(
        &self,
        bodies: Vec<(Txid, Option<BlockRef>, Body<'_>)>,
    ) -> Result<Vec<TxRecord>> {
        let mut records = Vec::with_capacity(bodies.len());
        let mut wanted = Vec::new();
        for (txid, block, raw) in bodies {
            let decoded = Tx::decode_all(self.shared.network.family(), &raw)
                .map_err(|error| damaged_tx(&txid, &error))?;
            let tx = decoded.tx;
            if !self.is_in_genesis(block) {
                wanted.extend(tx.spends().map(|(_, outpoint)| outpoint));
            }
            records.push(TxRecord {
                txid,
                size: u32::try_from(raw.len()).unwrap_or(u32::MAX),
                weight: u32::try_from(decoded.weight).unwrap_or(u32::MAX),
                block,
                prevouts: Vec::new(),
                fee: 0,
                tx,
            });
        }
        let mut outputs = self.outputs(&wanted)?.into_iter().zip(wanted);
        for record in &mut records {
            record.prevouts = vec![None; record.tx.input.len()];
            if self.is_in_genesis(record.block) {
                continue;
            }
            for (vin, _) in record.tx.spends() {
                let (output, outpoint) =
                    outputs.next().expect("one output was asked for per spend");
                let output = output.ok_or_else(|| {
                    QueryError::Store(format!(
                        "transaction {} spends {outpoint}, whose row O is missing; run `cairn verify`",
                        record.txid
                    ))
                })?;
                record.prevouts[vin as usize] = Some(output);
            }
            record.fee = fee(self.shared.network, record)?;
        }
        Ok(records)
    }

    /// How many outputs a transaction has; `None` for an unknown one.
    pub(super) fn output_count(&self, txid: &Txid) -> Result<Option<usize>> {
        if !self.shared.features.light_mode {
            let Some(raw) = self.txstore.get(Family::Txs, &rows::tx_key(txid))? else {
                return Ok(None);
            };
            let decoded = Tx::decode_all(self.shared.network.family(), &raw)
                .map_err(|error| damaged_tx(txid, &error))?;
            return Ok(Some(decoded.tx.output.len()));
        }
        // Every output has a row, and they follow each other.
        let (from, until) = (rows::out_key(txid, 0), rows::out_key(txid, u32::MAX));
        let mut cursor =
            self.txstore
                .range_cursor(Family::Outs, from.to_vec(), Some(until.to_vec()));
        cursor.seek_for_prev(&until);
        Ok(cursor
            .key()?
            .map(rows::decode_out_key)
            .transpose()?
            .map(|last| last.vout as usize + 1))
    }

    /// Whether a transaction is in the genesis block: what its inputs name exists nowhere. Transactions of stale blocks are
    /// not, since all branches share that block.
    fn is_in_genesis(&self, block: Option<BlockRef>) -> bool {
        block.is_some_and(|block| block.height == 0)
    }

    /// Blocks that confirm several transactions, each looked up once.
    pub(super) fn confirming_blocks(
        &self,
        txids: impl Iterator<Item = Txid>,
    ) -> Result<HashMap<Txid, Option<BlockRef>>> {
        let mut blocks = HashMap::new();
        for txid in txids {
            if let std::collections::hash_map::Entry::Vacant(slot) = blocks.entry(txid) {
                slot.insert(self.confirming_block(&txid)?);
            }
        }
        Ok(blocks)
    }
}

/// A serialized transaction, borrowed from the store or fetched.
pub(super) enum Body<'a> {
    Stored(Pinned<'a>),
    Fetched(Vec<u8>),
}

impl std::ops::Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Stored(pinned) => pinned,
            Body::Fetched(bytes) => bytes,
        }
    }
}

fn damaged_tx(txid: &Txid, error: &cairn_utxo_chain::DecodeError) -> QueryError {
    QueryError::Store(format!(
        "the row T of transaction {txid} is damaged: {error}; run `cairn verify`"
    ))
}

/// What a transaction pays: on Bitcoin what its inputs are worth more than its outputs, and less than nothing is damage and
/// never a huge number; on Elements the sum of its fee outputs.
fn fee(network: Network, record: &TxRecord) -> Result<u64> {
    let fee = match network {
        Network::Elements(chain) => record.tx.fee_outputs(chain.native_asset),
        Network::Bitcoin(_) if record.tx.is_coinbase() => Some(0),
        Network::Bitcoin(_) => {
            crate::mempool::fee_paid(&record.tx, record.prevouts.iter().flatten())
        }
    };
    fee.ok_or_else(|| {
        QueryError::Store(format!(
            "the outputs of transaction {} are worth more than what it spends; run `cairn verify`",
            record.txid
        ))
    })
}
