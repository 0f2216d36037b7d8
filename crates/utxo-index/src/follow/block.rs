//! One parsed block and the rows it leaves. Used for applying, undoing and verifying.

use bitcoin::consensus::deserialize;
use bitcoin::{
    Address, Block, BlockHash, Network, OutPoint, Transaction, TxMerkleNode, TxOut, Txid,
};

use super::outputs::Prevout;
use crate::engine::Family;
use crate::rows::{self, BlockMeta, Features, RowKind};
use crate::types::ScriptHash;

/// Why bytes are not the block they should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    #[error("does not parse: {0}")]
    Parse(#[from] bitcoin::consensus::encode::Error),
    #[error("is block {0}")]
    Other(BlockHash),
    #[error("has transactions that do not fit the merkle root of its header")]
    MerkleRoot,
    #[error("has a transaction {0} that spends nothing and is not the first")]
    Coinbase(Txid),
}

/// A block with the ids of its transactions.
pub(crate) struct BlockData {
    pub(crate) hash: BlockHash,
    pub(crate) height: u32,
    pub(crate) block: Block,
    pub(crate) txids: Vec<Txid>,
}

impl BlockData {
    /// Parses a block and checks that it is the wanted one and complete.
    pub(crate) fn parse(bytes: &[u8], hash: BlockHash, height: u32) -> Result<Self, BlockError> {
        let block: Block = deserialize(bytes)?;
        let found = block.block_hash();
        if found != hash {
            return Err(BlockError::Other(found));
        }
        let data = Self::new(block, hash, height);
        let root =
            bitcoin::merkle_tree::calculate_root(data.txids.iter().map(|id| id.to_raw_hash()));
        if root.map(TxMerkleNode::from_raw_hash) != Some(data.block.header.merkle_root) {
            return Err(BlockError::MerkleRoot);
        }
        if let Some((_, txid)) = data.txs().skip(1).find(|(tx, _)| tx.is_coinbase()) {
            return Err(BlockError::Coinbase(*txid));
        }
        Ok(data)
    }

    /// A block whose transactions are known to belong to its header.
    pub(crate) fn new(block: Block, hash: BlockHash, height: u32) -> Self {
        let txids = block.txdata.iter().map(Transaction::compute_txid).collect();
        Self {
            hash,
            height,
            block,
            txids,
        }
    }

    /// Transactions with their ids, block order.
    pub(crate) fn txs(&self) -> impl Iterator<Item = (&Transaction, &Txid)> {
        self.block.txdata.iter().zip(&self.txids)
    }

    /// What its inputs spend, in block order; the coinbase spends nothing.
    pub(crate) fn spends(&self) -> impl Iterator<Item = (&Txid, u32, OutPoint)> {
        self.txs()
            .filter(|(tx, _)| !tx.is_coinbase())
            .flat_map(|(tx, txid)| {
                (0u32..)
                    .zip(&tx.input)
                    .map(move |(vin, input)| (txid, vin, input.previous_output))
            })
    }

    /// What it creates, in block order.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&Txid, u32, &TxOut)> {
        self.txs().flat_map(|(tx, txid)| {
            (0u32..)
                .zip(&tx.output)
                .map(move |(vout, output)| (txid, vout, output))
        })
    }

    /// Weight, size and count of the whole block.
    pub(crate) fn meta(&self) -> BlockMeta {
        let number = |n: u64| u32::try_from(n).expect("a block that parsed is smaller than 4 GiB");
        BlockMeta {
            weight: number(self.block.weight().to_wu()),
            size: number(self.block.total_size() as u64),
            tx_count: number(self.txids.len() as u64),
        }
    }
}

/// Takes a row: family, key, value.
type PutRow<'a> = dyn FnMut(Family, &[u8], &[u8]) + 'a;

/// Calls `put` with every row that phase 1 writes for a block, the `D` row last.
pub(crate) fn write_txstore_rows(data: &BlockData, features: Features, put: &mut PutRow<'_>) {
    let hash = &data.hash;
    let mut value = Vec::new();
    let mut block_row = |kind: RowKind, value: &[u8]| {
        put(Family::of(kind), &rows::block_key(kind, hash), value);
    };
    block_row(
        RowKind::Header,
        &bitcoin::consensus::serialize(&data.block.header),
    );
    if !features.light_mode {
        rows::write_txids(&data.txids, &mut value);
        block_row(RowKind::Txids, &value);
        block_row(RowKind::Meta, &data.meta().encode());
    }
    for (tx, txid) in data.txs() {
        if !features.light_mode {
            put(
                Family::Txs,
                &rows::tx_key(txid),
                &bitcoin::consensus::serialize(tx),
            );
        }
        put(Family::Confs, &rows::conf_key(txid, hash), &[]);
    }
    for (txid, vout, output) in data.outputs() {
        value.clear();
        rows::write_out_value(
            output.script_pubkey.as_bytes(),
            output.value.to_sat(),
            &mut value,
        );
        put(Family::Outs, &rows::out_key(txid, vout), &value);
    }
    put(Family::Blocks, &rows::block_key(RowKind::Added, hash), &[]);
}

/// Calls `put` with the key of every row that phase 2 writes for a block (their values are empty), the `D` row last.
/// `prevout` gives the output that an input spends.
pub(crate) fn write_history_rows<'a, E>(
    data: &BlockData,
    features: Features,
    network: Network,
    prevout: impl Fn(&Txid, u32, &OutPoint) -> Result<Prevout<'a>, E>,
    put: &mut dyn FnMut(Family, &[u8]),
) -> Result<(), E> {
    let mut address_key = Vec::new();
    for (txid, vout, output) in data.outputs() {
        let script = &output.script_pubkey;
        if rows::is_provably_unspendable(script.as_bytes()) && !features.index_unspendables {
            continue;
        }
        let scripthash = ScriptHash::of(script.as_bytes());
        put(
            Family::Hist,
            &rows::hist_funding_key(&scripthash, data.height, txid, vout, output.value.to_sat()),
        );
        if features.address_search
            && let Ok(address) = Address::from_script(script, network)
        {
            address_key.clear();
            rows::addr_key(&address.to_string(), &mut address_key);
            put(Family::Addrs, &address_key);
        }
    }
    for (txid, vin, outpoint) in data.spends() {
        let spent = prevout(txid, vin, &outpoint)?;
        let scripthash = ScriptHash::of(spent.script);
        put(
            Family::Hist,
            &rows::hist_spending_key(&scripthash, data.height, txid, vin, &outpoint, spent.value),
        );
        put(Family::Edges, &rows::edge_key(&outpoint, txid, vin));
    }
    put(
        Family::Marks,
        &rows::block_key(RowKind::Indexed, &data.hash),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::consensus::serialize;

    #[test]
    fn a_block_that_is_damaged_or_another_is_refused() {
        let genesis = bitcoin::constants::genesis_block(Network::Regtest);
        let (bytes, hash) = (serialize(&genesis), genesis.block_hash());
        BlockData::parse(&bytes, hash, 0).expect("genesis is whole");
        assert!(matches!(
            BlockData::parse(&bytes[..100], hash, 0),
            Err(BlockError::Parse(_))
        ));
        let other = bitcoin::constants::genesis_block(Network::Signet).block_hash();
        assert!(matches!(
            BlockData::parse(&bytes, other, 0),
            Err(BlockError::Other(_))
        ));
        let mut damaged = bytes;
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert!(matches!(
            BlockData::parse(&damaged, hash, 0),
            Err(BlockError::MerkleRoot)
        ));
    }
}
