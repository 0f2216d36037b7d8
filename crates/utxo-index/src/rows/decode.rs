//! Any row as one type: for `dump`, `verify`, tests and fuzzing. Readers of one kind use the decoders of that kind.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::{AssetId, Family, Output};

use super::asset::{AssetKey, IssuedAsset, SupplyKey, issued_key};
use super::cache::{
    asset_stats_key, asset_stats_value, decode_asset_stats_value, decode_stats_value,
    decode_utxo_value, stats_key, stats_value, utxo_key, write_utxo_value,
};
use super::error::{RowError, check, check_empty};
use super::history::{EdgeKey, HistKey, addr_key, edge_key};
use super::txstore::{
    BlockMeta, TIP_KEY, block_key, conf_key, decode_block_hash_key, decode_conf_key, decode_header,
    decode_out_key, decode_out_value, decode_tip_value, decode_txids, out_key, tx_key,
    write_out_value, write_txids,
};
use super::version::{MARK_KEY, VERSION_KEY, Version};
use super::{Db, HASH_KEY_LEN, RowKind, hash32};
use crate::types::{AssetStats, ScriptHash, ScriptStats};

/// A decoded row.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// `B`; the header stays serialized.
    Header(BlockHash, Vec<u8>),
    /// `X`
    Txids(BlockHash, Vec<Txid>),
    /// `M`
    Meta(BlockHash, BlockMeta),
    /// `D` of `txstore`
    Added(BlockHash),
    /// `T`; the transaction stays serialized.
    Tx(Txid, Vec<u8>),
    /// `C`
    Confirmed(Txid, BlockHash),
    /// `O`
    Output(OutPoint, Output),
    /// `t`
    Tip(BlockHash),
    /// `H`
    History(HistKey),
    /// `S`
    Edge(EdgeKey),
    /// `i`
    Issued(AssetId, IssuedAsset),
    /// `I`
    Asset(AssetKey),
    /// `J`
    Supply(SupplyKey),
    /// `a`
    Address(String),
    /// `D` of `history`
    Indexed(BlockHash),
    /// `A`: statistics and the block up to which they count.
    Stats(ScriptHash, ScriptStats, BlockHash),
    /// `U`: outputs and the block up to which they are unspent.
    Utxos(ScriptHash, Vec<OutPoint>, BlockHash),
    /// `z`: statistics and the block up to which they count.
    AssetStats(AssetId, AssetStats, BlockHash),
    /// `V`
    Version(Db, Version),
    /// `F`
    Loaded(Db),
}

impl Row {
    /// Decodes a row of a database of a chain of a family. Never panics, whatever the bytes.
    pub fn decode(family: Family, db: Db, key: &[u8], value: &[u8]) -> Result<Row, RowError> {
        let place = db.name();
        let Some(&tag) = key.first() else {
            return Err(RowError::new(place, "empty key", key));
        };
        let Some(kind) = RowKind::of(db, tag) else {
            return Err(RowError::new(place, format!("unknown tag {tag:#04x}"), key));
        };
        let block = || decode_block_hash_key(kind, key);
        Ok(match kind {
            RowKind::Header => {
                decode_header(family, value)?;
                Row::Header(block()?, value.to_vec())
            }
            RowKind::Txids => Row::Txids(block()?, decode_txids(value)?),
            RowKind::Meta => Row::Meta(block()?, BlockMeta::decode(value)?),
            RowKind::Added => {
                check_empty("txstore D value", value)?;
                Row::Added(block()?)
            }
            RowKind::Indexed => {
                check_empty("history D value", value)?;
                Row::Indexed(block()?)
            }
            RowKind::Tx => {
                check("txstore T key", key, tag, HASH_KEY_LEN)?;
                Row::Tx(Txid::from_byte_array(hash32(key, 1)), value.to_vec())
            }
            RowKind::Confirmed => {
                check_empty("txstore C value", value)?;
                let (txid, block) = decode_conf_key(key)?;
                Row::Confirmed(txid, block)
            }
            RowKind::Output => {
                let output = decode_out_value(family, value)?;
                Row::Output(decode_out_key(key)?, output.into())
            }
            RowKind::Tip => {
                check("txstore t key", key, tag, TIP_KEY.len())?;
                Row::Tip(decode_tip_value(value)?)
            }
            RowKind::History => {
                check_empty("history H value", value)?;
                Row::History(HistKey::decode(key)?)
            }
            RowKind::Edge => {
                check_empty("history S value", value)?;
                Row::Edge(EdgeKey::decode(key)?)
            }
            RowKind::Issued => {
                check("history i key", key, tag, HASH_KEY_LEN)?;
                let asset = AssetId::from_byte_array(hash32(key, 1));
                Row::Issued(asset, IssuedAsset::decode(value)?)
            }
            RowKind::Asset => {
                check_empty("history I value", value)?;
                Row::Asset(AssetKey::decode(key)?)
            }
            RowKind::Supply => {
                check_empty("history J value", value)?;
                Row::Supply(SupplyKey::decode(key)?)
            }
            RowKind::AssetStats => {
                check("cache z key", key, tag, HASH_KEY_LEN)?;
                let (stats, block) = decode_asset_stats_value(value)?;
                Row::AssetStats(AssetId::from_byte_array(hash32(key, 1)), stats, block)
            }
            RowKind::Address => {
                check_empty("history a value", value)?;
                Row::Address(decode_addr_key(key)?)
            }
            RowKind::Stats => {
                check("cache A key", key, tag, HASH_KEY_LEN)?;
                let (stats, block) = decode_stats_value(family, value)?;
                Row::Stats(ScriptHash(hash32(key, 1)), stats, block)
            }
            RowKind::Utxos => {
                check("cache U key", key, tag, HASH_KEY_LEN)?;
                let (outpoints, block) = decode_utxo_value(value)?;
                Row::Utxos(ScriptHash(hash32(key, 1)), outpoints, block)
            }
            RowKind::TxstoreVersion | RowKind::HistoryVersion | RowKind::CacheVersion => {
                check("V key", key, tag, VERSION_KEY.len())?;
                Row::Version(db, Version::decode(value)?)
            }
            RowKind::TxstoreLoaded | RowKind::HistoryLoaded => {
                check("F key", key, tag, MARK_KEY.len())?;
                check_empty("F value", value)?;
                Row::Loaded(db)
            }
        })
    }

    /// Key and value: the bytes it was decoded from.
    pub fn encode(&self, family: Family) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::new();
        let key = match self {
            Row::Header(hash, header) => {
                value = header.clone();
                block_key(RowKind::Header, hash).to_vec()
            }
            Row::Txids(hash, txids) => {
                write_txids(txids, &mut value);
                block_key(RowKind::Txids, hash).to_vec()
            }
            Row::Meta(hash, meta) => {
                value = meta.encode().to_vec();
                block_key(RowKind::Meta, hash).to_vec()
            }
            Row::Added(hash) => block_key(RowKind::Added, hash).to_vec(),
            Row::Indexed(hash) => block_key(RowKind::Indexed, hash).to_vec(),
            Row::Tx(txid, raw) => {
                value = raw.clone();
                tx_key(txid).to_vec()
            }
            Row::Confirmed(txid, block) => conf_key(txid, block).to_vec(),
            Row::Output(outpoint, output) => {
                let script = output.script_pubkey.as_bytes();
                write_out_value(script, output.coin(), &mut value);
                out_key(&outpoint.txid, outpoint.vout).to_vec()
            }
            Row::Tip(hash) => {
                value = hash.as_byte_array().to_vec();
                TIP_KEY.to_vec()
            }
            Row::History(hist) => hist.encode().to_vec(),
            Row::Issued(asset, issued) => {
                issued.write(&mut value);
                issued_key(asset).to_vec()
            }
            Row::Asset(row) => row.encode().to_vec(),
            Row::Supply(row) => row.encode().to_vec(),
            Row::AssetStats(asset, stats, block) => {
                value = asset_stats_value(stats, block);
                asset_stats_key(asset).to_vec()
            }
            Row::Edge(edge) => edge_key(&edge.funding, &edge.txid, edge.vin).to_vec(),
            Row::Address(address) => {
                let mut key = Vec::new();
                addr_key(address, &mut key);
                key
            }
            Row::Stats(script, stats, block) => {
                value = stats_value(family, stats, block);
                stats_key(script).to_vec()
            }
            Row::Utxos(script, outpoints, block) => {
                write_utxo_value(outpoints.iter(), block, &mut value);
                utxo_key(script).to_vec()
            }
            Row::Version(_, version) => {
                value = version.encode().to_vec();
                VERSION_KEY.to_vec()
            }
            Row::Loaded(_) => MARK_KEY.to_vec(),
        };
        (key, value)
    }
}

/// The address of an `a` key.
pub fn decode_addr_key(key: &[u8]) -> Result<String, RowError> {
    const PLACE: &str = "history a key";
    let Some(text) = key.strip_prefix(&[RowKind::Address.tag()]) else {
        return Err(RowError::new(PLACE, "not an address row", key));
    };
    if text.is_empty() || !text.iter().all(u8::is_ascii_graphic) {
        return Err(RowError::new(PLACE, "not a printable address", key));
    }
    String::from_utf8(text.to_vec())
        .map_err(|_| RowError::new(PLACE, "not a printable address", key))
}
