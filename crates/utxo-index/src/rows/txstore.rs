//! Rows of `txstore`: `B X M D T C O t`.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::elements::Confidential;
use cairn_utxo_chain::walk::{Coin, OutputRef};
use cairn_utxo_chain::{Family, Header};

use super::error::{RowError, check};
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at, u64_at};

/// Length of a `C` key.
pub const CONF_KEY_LEN: usize = 65;
/// Length of an `O` key.
pub const OUT_KEY_LEN: usize = 37;
/// The key of the row that holds the tip's hash.
pub const TIP_KEY: [u8; 1] = *b"t";

/// Length of an `M` value.
const META_LEN: usize = 12;
/// `OP_RETURN`.
const OP_RETURN: u8 = 0x6a;
/// The longest script the node evaluates, bytes; an output with a longer one can never be spent.
const SCRIPT_LEN_MAX: usize = 10_000;

/// Whether nobody can ever spend an output with this script, by the node's own rule for its UTXO set: the script
/// starts with `OP_RETURN`, is longer than 10,000 bytes, or, on Elements, is empty.
#[inline]
pub fn is_unspendable(family: Family, script: &[u8]) -> bool {
    match script.first() {
        None => family == Family::Elements,
        Some(&first) => first == OP_RETURN || script.len() > SCRIPT_LEN_MAX,
    }
}

/// The key of a row that is about one block: kinds `Header`, `Txids`, `Meta`, `Added`, `Indexed`.
#[inline]
pub fn block_key(kind: RowKind, hash: &BlockHash) -> [u8; HASH_KEY_LEN] {
    debug_assert!(matches!(
        kind,
        RowKind::Header | RowKind::Txids | RowKind::Meta | RowKind::Added | RowKind::Indexed
    ));
    concat(kind.tag(), &[hash.as_byte_array()])
}

/// The block hash of a key made by [`block_key`].
pub fn decode_block_hash_key(kind: RowKind, key: &[u8]) -> Result<BlockHash, RowError> {
    check("block row key", key, kind.tag(), HASH_KEY_LEN)?;
    Ok(BlockHash::from_byte_array(hash32(key, 1)))
}

/// The value of a `B` row: the header as on the network.
pub fn decode_header(family: Family, value: &[u8]) -> Result<Header, RowError> {
    Header::decode_all(family, value)
        .map_err(|error| RowError::new("txstore B value", error.to_string(), value))
}

/// Appends the value of an `X` row: the ids one after the other, without a count.
#[inline]
pub fn write_txids(txids: &[Txid], value: &mut Vec<u8>) {
    value.reserve(txids.len() * 32);
    for txid in txids {
        value.extend_from_slice(txid.as_byte_array());
    }
}

/// The value of an `X` row.
pub fn decode_txids(value: &[u8]) -> Result<Vec<Txid>, RowError> {
    if !value.len().is_multiple_of(32) || value.is_empty() {
        return Err(RowError::new(
            "txstore X value",
            format!("{} bytes are not one or more ids of 32 bytes", value.len()),
            value,
        ));
    }
    Ok((0..value.len() / 32)
        .map(|i| Txid::from_byte_array(hash32(value, i * 32)))
        .collect())
}

/// The value of an `M` row: of the whole serialized block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockMeta {
    /// Weight units.
    pub weight: u32,
    /// Bytes.
    pub size: u32,
    /// Number of transactions.
    pub tx_count: u32,
}

impl BlockMeta {
    /// The value: weight u32, size u32, count u32.
    #[inline]
    pub fn encode(&self) -> [u8; META_LEN] {
        let mut value = [0u8; META_LEN];
        value[..4].copy_from_slice(&self.weight.to_be_bytes());
        value[4..8].copy_from_slice(&self.size.to_be_bytes());
        value[8..].copy_from_slice(&self.tx_count.to_be_bytes());
        value
    }

    /// The inverse of [`BlockMeta::encode`].
    pub fn decode(value: &[u8]) -> Result<Self, RowError> {
        if value.len() != META_LEN {
            return Err(RowError::length("txstore M value", META_LEN, value));
        }
        Ok(Self {
            weight: u32_at(value, 0),
            size: u32_at(value, 4),
            tx_count: u32_at(value, 8),
        })
    }
}

/// The key of a `T` row; its value is the consensus-serialized transaction with witness.
#[inline]
pub fn tx_key(txid: &Txid) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Tx.tag(), &[txid.as_byte_array()])
}

/// The key of a `C` row; its value is empty.
#[inline]
pub fn conf_key(txid: &Txid, block: &BlockHash) -> [u8; CONF_KEY_LEN] {
    concat(
        RowKind::Confirmed.tag(),
        &[txid.as_byte_array(), block.as_byte_array()],
    )
}

/// What all `C` keys of one transaction begin with.
#[inline]
pub fn conf_prefix(txid: &Txid) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Confirmed.tag(), &[txid.as_byte_array()])
}

/// Transaction and block of a `C` key.
pub fn decode_conf_key(key: &[u8]) -> Result<(Txid, BlockHash), RowError> {
    check("txstore C key", key, RowKind::Confirmed.tag(), CONF_KEY_LEN)?;
    Ok((
        Txid::from_byte_array(hash32(key, 1)),
        BlockHash::from_byte_array(hash32(key, 33)),
    ))
}

/// The key of an `O` row.
#[inline]
pub fn out_key(txid: &Txid, vout: u32) -> [u8; OUT_KEY_LEN] {
    concat(
        RowKind::Output.tag(),
        &[txid.as_byte_array(), &vout.to_be_bytes()],
    )
}

/// The output an `O` key names.
pub fn decode_out_key(key: &[u8]) -> Result<OutPoint, RowError> {
    check("txstore O key", key, RowKind::Output.tag(), OUT_KEY_LEN)?;
    Ok(OutPoint::new(
        Txid::from_byte_array(hash32(key, 1)),
        u32_at(key, 33),
    ))
}

/// Appends the value of an `O` row. Bitcoin: the script, then the satoshi as the last 8 bytes. Elements: the script with its
/// length before it, value, asset, nonce.
#[inline]
pub fn write_out_value<'a>(script: &[u8], coin: impl Into<Coin<'a>>, value: &mut Vec<u8>) {
    match coin.into() {
        Coin::Sat(satoshi) => {
            value.reserve(script.len() + 8);
            value.extend_from_slice(script);
            value.extend_from_slice(&satoshi.to_be_bytes());
        }
        Coin::Confidential(coin) => {
            let length = u32::try_from(script.len()).unwrap_or(u32::MAX);
            value
                .reserve(4 + script.len() + coin.value.len() + coin.asset.len() + coin.nonce.len());
            value.extend_from_slice(&length.to_be_bytes());
            value.extend_from_slice(script);
            value.extend_from_slice(coin.value);
            value.extend_from_slice(coin.asset);
            value.extend_from_slice(coin.nonce);
        }
    }
}

/// The value of an `O` row, borrowed.
#[inline]
pub fn decode_out_value(family: Family, value: &[u8]) -> Result<OutputRef<'_>, RowError> {
    const PLACE: &str = "txstore O value";
    match family {
        Family::Bitcoin => {
            let Some(script_len) = value.len().checked_sub(8) else {
                let what = format!("{} bytes are less than the 8 of the amount", value.len());
                return Err(RowError::new(PLACE, what, value));
            };
            Ok(OutputRef {
                script: &value[..script_len],
                coin: Coin::Sat(u64_at(value, script_len)),
            })
        }
        Family::Elements => {
            let parts = value.split_first_chunk::<4>().and_then(|(length, rest)| {
                rest.split_at_checked(u32::from_be_bytes(*length) as usize)
            });
            let Some((script, coin)) = parts else {
                return Err(RowError::new(
                    PLACE,
                    "the script is not there in whole",
                    value,
                ));
            };
            let coin = Confidential::parse_row(coin)
                .map_err(|error| RowError::new(PLACE, error.to_string(), value))?;
            Ok(OutputRef {
                script,
                coin: Coin::Confidential(coin),
            })
        }
    }
}

/// The value of the `t` row.
pub fn decode_tip_value(value: &[u8]) -> Result<BlockHash, RowError> {
    if value.len() != 32 {
        return Err(RowError::length("txstore t value", 32, value));
    }
    Ok(BlockHash::from_byte_array(hash32(value, 0)))
}
