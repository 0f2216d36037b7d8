//! Rows of `cache` on Bitcoin: `A`, `U`. Every value ends with the hash of the last block folded into it.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::error::RowError;
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at, u64_at};
use crate::types::{ScriptHash, ScriptStats};

/// Length of an `A` value.
pub const SCRIPT_STATS_LEN: usize = 72;
/// Length of one output in a `U` value.
const OUTPOINT_LEN: usize = 36;

/// The key of an `A` row.
#[inline]
pub fn stats_key(script: &ScriptHash) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Stats.tag(), &[&script.0])
}

/// The value of an `A` row: tx count, funded count, funded sum, spent count, spent sum (u64 each), blockhash.
pub fn stats_value(stats: &ScriptStats, block: &BlockHash) -> [u8; SCRIPT_STATS_LEN] {
    let mut value = [0u8; SCRIPT_STATS_LEN];
    let numbers = [
        stats.tx_count,
        stats.funded_txo_count,
        stats.funded_txo_sum,
        stats.spent_txo_count,
        stats.spent_txo_sum,
    ];
    for (slot, number) in value.chunks_exact_mut(8).zip(numbers) {
        slot.copy_from_slice(&number.to_be_bytes());
    }
    value[40..].copy_from_slice(block.as_byte_array());
    value
}

/// The inverse of [`stats_value`].
pub fn decode_stats_value(value: &[u8]) -> Result<(ScriptStats, BlockHash), RowError> {
    if value.len() != SCRIPT_STATS_LEN {
        return Err(RowError::length("cache A value", SCRIPT_STATS_LEN, value));
    }
    let stats = ScriptStats {
        tx_count: u64_at(value, 0),
        funded_txo_count: u64_at(value, 8),
        funded_txo_sum: u64_at(value, 16),
        spent_txo_count: u64_at(value, 24),
        spent_txo_sum: u64_at(value, 32),
    };
    Ok((stats, BlockHash::from_byte_array(hash32(value, 40))))
}

/// The key of a `U` row.
#[inline]
pub fn utxo_key(script: &ScriptHash) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Utxos.tag(), &[&script.0])
}

/// Appends the value of a `U` row: count u32, then txid and vout u32 of each, ascending as the caller gives them, then
/// the blockhash. `outpoints` must be sorted by the bytes of (txid, vout).
pub fn write_utxo_value<'a>(
    outpoints: impl ExactSizeIterator<Item = &'a OutPoint>,
    block: &BlockHash,
    value: &mut Vec<u8>,
) {
    let count = u32::try_from(outpoints.len())
        .expect("a set bounded by the UTXO limit has fewer than 2^32 entries");
    value.reserve(4 + outpoints.len() * OUTPOINT_LEN + 32);
    value.extend_from_slice(&count.to_be_bytes());
    for outpoint in outpoints {
        value.extend_from_slice(outpoint.txid.as_byte_array());
        value.extend_from_slice(&outpoint.vout.to_be_bytes());
    }
    value.extend_from_slice(block.as_byte_array());
}

/// The inverse of [`write_utxo_value`]; entries that are not strictly ascending are damage.
pub fn decode_utxo_value(value: &[u8]) -> Result<(Vec<OutPoint>, BlockHash), RowError> {
    const PLACE: &str = "cache U value";
    if value.len() < 4 {
        return Err(RowError::new(
            PLACE,
            format!("{} bytes are too few", value.len()),
            value,
        ));
    }
    let count = u32_at(value, 0) as usize;
    let expected = count
        .checked_mul(OUTPOINT_LEN)
        .and_then(|bytes| bytes.checked_add(4 + 32));
    if expected != Some(value.len()) {
        return Err(RowError::new(
            PLACE,
            format!("{} bytes do not hold {count} outputs", value.len()),
            value,
        ));
    }
    let body = &value[4..value.len() - 32];
    let mut outpoints = Vec::with_capacity(count);
    let mut last: Option<&[u8]> = None;
    for entry in body.chunks_exact(OUTPOINT_LEN) {
        if last.is_some_and(|last| last >= entry) {
            return Err(RowError::new(PLACE, "outputs are not ascending", value));
        }
        last = Some(entry);
        outpoints.push(OutPoint::new(
            Txid::from_byte_array(hash32(entry, 0)),
            u32_at(entry, 32),
        ));
    }
    Ok((
        outpoints,
        BlockHash::from_byte_array(hash32(value, value.len() - 32)),
    ))
}
