//! The bytes of every row: the only place that spells a key or a value.
//!
//! All rows live in three databases ([`Db`]). The first byte of a key is the ASCII letter of its kind ([`RowKind`]);
//! integers in keys and values are big-endian and of fixed width; hashes are in internal order (as in a serialized
//! transaction), a scripthash is in the order SHA-256 outputs it. `docs/utxo-index.md` has the table of all rows.
//!
//! Encoders return fixed arrays or append to a buffer of the caller and never allocate: the bulk load writes tens of
//! millions of rows with them. Decoders accept exactly the widths of the layout; anything else is a [`RowError`]
//! that names the kind of row, the defect and the bytes. This module does no I/O.

mod asset;
mod cache;
mod decode;
mod error;
mod height;
mod history;
mod key;
mod kind;
mod txstore;
mod version;

pub use asset::{AssetEvent, AssetKey, IssuedAsset, SupplyKey, asset_record_len, issued_key};
pub use cache::{
    asset_stats_key, asset_stats_value, decode_asset_stats_value, decode_stats_value,
    decode_utxo_value, stats_key, stats_value, utxo_key, write_utxo_value,
};
pub use decode::{Row, decode_addr_key};
pub use error::RowError;
pub use height::{HeightRow, height_key, id_prefix};
pub use history::{
    EDGE_KEY_LEN, EdgeKey, HistKey, HistSide, addr_key, edge_key, edge_prefix, hist_funding_key,
    hist_script, hist_spending_key, history_record_len,
};
pub use key::{RowKey, RowValue};
pub use kind::{Db, RowKind};
pub use txstore::{
    BlockMeta, CONF_KEY_LEN, OUT_KEY_LEN, TIP_KEY, block_key, conf_key, conf_prefix,
    decode_block_hash_key, decode_conf_key, decode_header, decode_out_key, decode_out_value,
    decode_tip_value, decode_txids, is_unspendable, out_key, tx_key, write_out_value, write_txids,
};
pub use version::{CACHE_VERSION, Features, LAYOUT_VERSION, MARK_KEY, VERSION_KEY, Version};

/// Length of a key that is a tag and one 32-byte hash: `B X M D T A U`.
pub const HASH_KEY_LEN: usize = 33;

/// Copies a key together from its parts; the lengths of the parts add up to `N` by construction of the callers.
fn concat<const N: usize>(tag: u8, parts: &[&[u8]]) -> [u8; N] {
    let mut key = [0u8; N];
    key[0] = tag;
    let mut at = 1;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, N, "the parts fill the key");
    key
}

/// Bytes of the value field at `at`: 8 on Bitcoin; on Elements its first byte says how many.
#[inline]
fn value_len(family: cairn_utxo_chain::Family, bytes: &[u8], at: usize) -> Option<usize> {
    match family {
        cairn_utxo_chain::Family::Bitcoin => Some(8),
        cairn_utxo_chain::Family::Elements => match *bytes.get(at)? {
            0 => Some(1),
            1 => Some(9),
            _ => Some(33),
        },
    }
}

/// The 32 bytes at `at`, which the caller has checked to exist.
fn hash32(bytes: &[u8], at: usize) -> [u8; 32] {
    let mut hash = [0u8; 32];
    hash.copy_from_slice(&bytes[at..at + 32]);
    hash
}

/// The big-endian u32 at `at`, which the caller has checked to exist.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0u8; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(raw)
}

/// The big-endian u64 at `at`, which the caller has checked to exist.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0u8; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(raw)
}

#[cfg(test)]
mod tests;
