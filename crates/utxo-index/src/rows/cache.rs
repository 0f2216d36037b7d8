//! Rows of `cache`: `A`, `U`, and on Elements `z`. Every value ends with the hash of the last block folded into it.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::{AssetId, Family};

use super::error::RowError;
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at, u64_at};
use crate::types::{AssetStats, IssuedStats, NativeStats, ScriptHash, ScriptStats};

/// Length of a `z` value of an issued asset and of the native one, without the blockhash.
const ISSUED_STATS_LEN: usize = 50;
const NATIVE_STATS_LEN: usize = 56;
/// Length of one output in a `U` value.
const OUTPOINT_LEN: usize = 36;

/// The key of an `A` row.
#[inline]
pub fn stats_key(script: &ScriptHash) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Stats.tag(), &[&script.0])
}

/// The value of an `A` row: tx count, funded count, funded sum, spent count, spent sum (u64 each), blockhash; on Elements,
/// where amounts may be blinded, without the sums.
pub fn stats_value(family: Family, stats: &ScriptStats, block: &BlockHash) -> Vec<u8> {
    let sum = |sum: u64| (family == Family::Bitcoin).then_some(sum);
    let numbers = [
        Some(stats.tx_count),
        Some(stats.funded_txo_count),
        sum(stats.funded_txo_sum),
        Some(stats.spent_txo_count),
        sum(stats.spent_txo_sum),
    ];
    with_block(numbers.into_iter().flatten(), block)
}

/// Numbers, each as u64, then the block.
fn with_block(numbers: impl Iterator<Item = u64>, block: &BlockHash) -> Vec<u8> {
    let mut value = Vec::new();
    for number in numbers {
        value.extend_from_slice(&number.to_be_bytes());
    }
    value.extend_from_slice(block.as_byte_array());
    value
}

/// The inverse of [`stats_value`].
pub fn decode_stats_value(
    family: Family,
    value: &[u8],
) -> Result<(ScriptStats, BlockHash), RowError> {
    let expected = match family {
        Family::Bitcoin => 5 * 8 + 32,
        Family::Elements => 3 * 8 + 32,
    };
    if value.len() != expected {
        return Err(RowError::length("cache A value", expected, value));
    }
    let stats = match family {
        Family::Bitcoin => ScriptStats {
            tx_count: u64_at(value, 0),
            funded_txo_count: u64_at(value, 8),
            funded_txo_sum: u64_at(value, 16),
            spent_txo_count: u64_at(value, 24),
            spent_txo_sum: u64_at(value, 32),
        },
        Family::Elements => ScriptStats {
            tx_count: u64_at(value, 0),
            funded_txo_count: u64_at(value, 8),
            spent_txo_count: u64_at(value, 16),
            ..ScriptStats::default()
        },
    };
    let block = BlockHash::from_byte_array(hash32(value, expected - 32));
    Ok((stats, block))
}

/// The key of a `z` row.
pub fn asset_stats_key(asset: &AssetId) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::AssetStats.tag(), &[asset.as_byte_array()])
}

/// The value of a `z` row. An issued asset: tx count, issuance count, issued amount, burned amount (u64 each), has blinded
/// issuances u8, reissuance tokens (flag u8, u64), burned reissuance tokens u64, blockhash. The native one: tx count, peg-in
/// count and amount, peg-out count and amount, burn count, burned amount (u64 each), blockhash.
pub fn asset_stats_value(stats: &AssetStats, block: &BlockHash) -> Vec<u8> {
    match stats {
        AssetStats::Issued(stats) => {
            let mut value = Vec::with_capacity(ISSUED_STATS_LEN + 32);
            for number in [
                stats.tx_count,
                stats.issuance_count,
                stats.issued_amount,
                stats.burned_amount,
            ] {
                value.extend_from_slice(&number.to_be_bytes());
            }
            value.push(u8::from(stats.has_blinded_issuances));
            value.push(u8::from(stats.reissuance_tokens.is_some()));
            value.extend_from_slice(&stats.reissuance_tokens.unwrap_or(0).to_be_bytes());
            value.extend_from_slice(&stats.burned_reissuance_tokens.to_be_bytes());
            value.extend_from_slice(block.as_byte_array());
            value
        }
        AssetStats::Native(stats) => with_block(
            [
                stats.tx_count,
                stats.peg_in_count,
                stats.peg_in_amount,
                stats.peg_out_count,
                stats.peg_out_amount,
                stats.burn_count,
                stats.burned_amount,
            ]
            .into_iter(),
            block,
        ),
    }
}

/// The inverse of [`asset_stats_value`]; the length tells which of the two it is.
pub fn decode_asset_stats_value(value: &[u8]) -> Result<(AssetStats, BlockHash), RowError> {
    const PLACE: &str = "cache z value";
    let flag = |at: usize| match value[at] {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(RowError::new(PLACE, format!("flag {other}"), value)),
    };
    let stats = match value.len().checked_sub(32) {
        Some(ISSUED_STATS_LEN) => AssetStats::Issued(IssuedStats {
            tx_count: u64_at(value, 0),
            issuance_count: u64_at(value, 8),
            issued_amount: u64_at(value, 16),
            burned_amount: u64_at(value, 24),
            has_blinded_issuances: flag(32)?,
            reissuance_tokens: match (flag(33)?, u64_at(value, 34)) {
                (true, tokens) => Some(tokens),
                (false, 0) => None,
                (false, _) => return Err(RowError::new(PLACE, "tokens without a flag", value)),
            },
            burned_reissuance_tokens: u64_at(value, 42),
        }),
        Some(NATIVE_STATS_LEN) => AssetStats::Native(NativeStats {
            tx_count: u64_at(value, 0),
            peg_in_count: u64_at(value, 8),
            peg_in_amount: u64_at(value, 16),
            peg_out_count: u64_at(value, 24),
            peg_out_amount: u64_at(value, 32),
            burn_count: u64_at(value, 40),
            burned_amount: u64_at(value, 48),
        }),
        _ => {
            let what = format!("{} bytes are of neither form", value.len());
            return Err(RowError::new(PLACE, what, value));
        }
    };
    let block = BlockHash::from_byte_array(hash32(value, value.len() - 32));
    Ok((stats, block))
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
