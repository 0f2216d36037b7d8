//! One parsed block and the rows it leaves. Used for applying, undoing and verifying.

use std::ops::Range;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, TxMerkleNode, Txid};
use cairn_utxo_chain::walk::{BlockVisitor, OutputRef, TxPlace, walk_block};
use cairn_utxo_chain::{DecodeError, Family as ChainFamily, Network, Tx, address};

use crate::asset_events;
use crate::engine::Family;
use crate::rows::{self, AssetKey, BlockMeta, Features, RowKind, SupplyKey};
use crate::types::ScriptHash;

/// Why bytes are not the block they should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    #[error("does not parse: {0}")]
    Parse(#[from] DecodeError),
    #[error("is block {0}")]
    Other(BlockHash),
    #[error("claims the height {0}")]
    Height(u32),
    #[error("has transactions that do not fit the merkle root of its header")]
    MerkleRoot,
    #[error("has a transaction {0} that spends nothing and is not the first")]
    Coinbase(Txid),
}

/// A block with the ids of its transactions.
pub(crate) struct BlockData {
    pub(crate) hash: BlockHash,
    pub(crate) height: u32,
    pub(crate) txids: Vec<Txid>,
    txs: Vec<Tx>,
    /// The bytes that header and transactions were decoded from.
    raw: Vec<u8>,
    header: Range<usize>,
    /// Where each transaction lies in them.
    places: Vec<Range<usize>>,
    weight: usize,
    size: usize,
}

impl BlockData {
    /// Parses a block and checks that it is the wanted one and complete.
    pub(crate) fn parse(
        family: ChainFamily,
        bytes: &[u8],
        hash: BlockHash,
        height: u32,
    ) -> Result<Self, BlockError> {
        #[derive(Default)]
        struct Lengths(Vec<usize>);
        impl BlockVisitor for Lengths {
            fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}
            fn tx(&mut self, tx: TxPlace) {
                self.0.push(tx.length);
            }
        }
        let (header, _) = cairn_utxo_chain::Header::decode(family, bytes)?;
        if header.hash != hash {
            return Err(BlockError::Other(header.hash));
        }
        if let Some(claimed) = header.claimed_height().filter(|claimed| *claimed != height) {
            return Err(BlockError::Height(claimed));
        }
        let mut lengths = Lengths::default();
        let place = walk_block(family, bytes, &mut lengths)?;
        let mut data = Self {
            hash,
            height,
            txids: Vec::new(),
            txs: Vec::new(),
            raw: bytes[..place.size].to_vec(),
            header: 0..place.header_length,
            places: Vec::new(),
            weight: place.weight,
            size: place.size,
        };
        let mut at = place.first_tx;
        for length in lengths.0 {
            data.decode_tx(family, at..at + length)?;
            at += length;
        }
        let ids = data
            .txids
            .iter()
            .map(|id| TxMerkleNode::from_byte_array(id.to_byte_array()));
        if bitcoin::merkle_tree::calculate_root(ids) != Some(header.merkle_root) {
            return Err(BlockError::MerkleRoot);
        }
        if let Some((_, txid)) = data.txs().skip(1).find(|(tx, _)| tx.is_coinbase()) {
            return Err(BlockError::Coinbase(*txid));
        }
        Ok(data)
    }

    /// A block from its stored transactions, for undoing it: it has no header and no size.
    pub(crate) fn from_stored<'a>(
        family: ChainFamily,
        hash: BlockHash,
        height: u32,
        txs: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Self, BlockError> {
        let mut data = Self {
            hash,
            height,
            txids: Vec::new(),
            txs: Vec::new(),
            raw: Vec::new(),
            header: 0..0,
            places: Vec::new(),
            weight: 0,
            size: 0,
        };
        for tx in txs {
            let start = data.raw.len();
            data.raw.extend_from_slice(tx);
            data.decode_tx(family, start..start + tx.len())?;
        }
        Ok(data)
    }

    fn decode_tx(&mut self, family: ChainFamily, place: Range<usize>) -> Result<(), BlockError> {
        let raw = self.raw.get(place.clone()).unwrap_or_default();
        let decoded = Tx::decode_all(family, raw)?;
        self.txids.push(decoded.txid);
        self.txs.push(decoded.tx);
        self.places.push(place);
        Ok(())
    }

    /// Transactions with their ids, block order.
    pub(crate) fn txs(&self) -> impl Iterator<Item = (&Tx, &Txid)> {
        self.txs.iter().zip(&self.txids)
    }

    /// Serialized size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// What its inputs spend, in block order. A coinbase spends nothing, nor does a peg-in, nor anything in genesis.
    pub(crate) fn spends(&self) -> impl Iterator<Item = (&Txid, u32, OutPoint)> {
        self.txs().flat_map(|(tx, txid)| {
            self.spends_of(tx)
                .map(move |(vin, outpoint)| (txid, vin, outpoint))
        })
    }

    fn spends_of<'a>(&'a self, tx: &'a Tx) -> impl Iterator<Item = (u32, OutPoint)> + 'a {
        tx.spends().filter(|_| self.height > 0)
    }

    /// What it creates, in block order.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&Txid, u32, OutputRef<'_>)> {
        self.txs().flat_map(|(tx, txid)| {
            (0u32..)
                .zip(tx.outputs())
                .map(move |(vout, output)| (txid, vout, output))
        })
    }

    /// Weight, size and count of the whole block.
    pub(crate) fn meta(&self) -> BlockMeta {
        let number =
            |n: usize| u32::try_from(n).expect("a block that parsed is smaller than 4 GiB");
        BlockMeta {
            weight: number(self.weight),
            size: number(self.size),
            tx_count: number(self.txids.len()),
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
    block_row(RowKind::Header, &data.raw[data.header.clone()]);
    if !features.light_mode {
        rows::write_txids(&data.txids, &mut value);
        block_row(RowKind::Txids, &value);
        block_row(RowKind::Meta, &data.meta().encode());
    }
    for (txid, place) in data.txids.iter().zip(&data.places) {
        if !features.light_mode {
            put(Family::Txs, &rows::tx_key(txid), &data.raw[place.clone()]);
        }
        put(Family::Confs, &rows::conf_key(txid, hash), &[]);
    }
    for (txid, vout, output) in data.outputs() {
        value.clear();
        rows::write_out_value(output.script, output.coin, &mut value);
        put(Family::Outs, &rows::out_key(txid, vout), &value);
    }
    put(Family::Blocks, &rows::block_key(RowKind::Added, hash), &[]);
}

/// Calls `put` with every row that phase 2 writes for a block, the `D` row last. `prevout` gives the output that an input
/// spends.
pub(crate) fn write_history_rows<'a, E>(
    data: &BlockData,
    features: Features,
    network: Network,
    prevout: impl Fn(&Txid, u32, &OutPoint) -> Result<OutputRef<'a>, E>,
    put: &mut PutRow<'_>,
) -> Result<(), E> {
    let mut address_key = Vec::new();
    for (txid, vout, output) in data.outputs() {
        if output.coin.is_fee(output.script) {
            continue;
        }
        if rows::is_unspendable(network.family(), output.script) && !features.index_unspendables {
            continue;
        }
        let scripthash = ScriptHash::of(output.script);
        let key = rows::hist_funding_key(&scripthash, data.height, txid, vout, output.coin);
        put(Family::Hist, &key, &[]);
        if features.address_search
            && let Some(address) =
                address::address_of(bitcoin::Script::from_bytes(output.script), network)
        {
            address_key.clear();
            rows::addr_key(&address, &mut address_key);
            put(Family::Addrs, &address_key, &[]);
        }
    }
    for (txid, vin, outpoint) in data.spends() {
        let spent = prevout(txid, vin, &outpoint)?;
        let scripthash = ScriptHash::of(spent.script);
        let key =
            rows::hist_spending_key(&scripthash, data.height, txid, vin, &outpoint, spent.coin);
        put(Family::Hist, &key, &[]);
        put(Family::Edges, &rows::edge_key(&outpoint, txid, vin), &[]);
    }
    if let Network::Elements(chain) = network {
        for (tx, txid) in data.txs() {
            let spends = data.spends_of(tx);
            let spent = |vin, outpoint: &OutPoint| prevout(txid, vin, outpoint);
            let (events, issued) = asset_events::of_tx(chain, tx, *txid, spends, spent)?;
            let mut value = Vec::new();
            for (asset, first) in issued {
                value.clear();
                first.write(&mut value);
                put(Family::Assets, &rows::issued_key(&asset), &value);
            }
            for (asset, event) in events {
                let key = AssetKey {
                    asset,
                    height: data.height,
                    txid: *txid,
                    event,
                };
                put(Family::Assets, &key.encode(), &[]);
                if event.is_supply() {
                    let key = SupplyKey {
                        asset,
                        height: data.height,
                        txid: *txid,
                    };
                    put(Family::Assets, &key.encode(), &[]);
                }
            }
        }
    }
    let done = rows::block_key(RowKind::Indexed, &data.hash);
    put(Family::Marks, &done, &[]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::consensus::serialize;

    #[test]
    fn a_block_that_is_damaged_or_another_is_refused() {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let (bytes, hash) = (serialize(&genesis), genesis.block_hash());
        BlockData::parse(ChainFamily::Bitcoin, &bytes, hash, 0).expect("genesis is whole");
        assert!(matches!(
            BlockData::parse(ChainFamily::Bitcoin, &bytes[..100], hash, 0),
            Err(BlockError::Parse(_))
        ));
        let other = bitcoin::constants::genesis_block(bitcoin::Network::Signet).block_hash();
        assert!(matches!(
            BlockData::parse(ChainFamily::Bitcoin, &bytes, other, 0),
            Err(BlockError::Other(_))
        ));
        let mut damaged = bytes;
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert!(matches!(
            BlockData::parse(ChainFamily::Bitcoin, &damaged, hash, 0),
            Err(BlockError::MerkleRoot)
        ));
    }
}
