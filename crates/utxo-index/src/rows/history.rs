//! Rows of `history` that both families have: `H…F`, `H…S`, `S`, `a`.

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};

use super::error::{RowError, check};
use super::key::{RowKey, RowValue};
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at};
use crate::types::ScriptHash;

/// Length of an `S` key.
pub const EDGE_KEY_LEN: usize = 73;

/// Where the letter that tells funding from spending stands in an `H` key: after tag, scripthash and height.
const SIDE_AT: usize = 37;
/// The letter of a funding row. Sorts before `S`, so that at one height funding comes first.
const FUNDING: u8 = b'F';
/// The letter of a spending row.
const SPENDING: u8 = b'S';

/// Where the value stands in a funding and in a spending key.
const FUNDING_VALUE_AT: usize = 74;
const SPENDING_VALUE_AT: usize = 110;

/// The key of a funding row: the output `txid:vout`, mined at `height`, is worth `value` to the script.
#[inline]
pub fn hist_funding_key(
    script: &ScriptHash,
    height: u32,
    txid: &Txid,
    vout: u32,
    value: impl Into<RowValue>,
) -> RowKey {
    let key = RowKey::new(RowKind::History.tag())
        .with(&script.0)
        .with(&height.to_be_bytes())
        .with(&[FUNDING])
        .with(txid.as_byte_array())
        .with(&vout.to_be_bytes());
    value.into().append(key)
}

/// The key of a spending row: input `vin` of `txid`, mined at `height`, spends `funding`, which was worth `value` to the
/// script.
#[inline]
pub fn hist_spending_key(
    script: &ScriptHash,
    height: u32,
    txid: &Txid,
    vin: u32,
    funding: &OutPoint,
    value: impl Into<RowValue>,
) -> RowKey {
    let key = RowKey::new(RowKind::History.tag())
        .with(&script.0)
        .with(&height.to_be_bytes())
        .with(&[SPENDING])
        .with(txid.as_byte_array())
        .with(&vin.to_be_bytes())
        .with(funding.txid.as_byte_array())
        .with(&funding.vout.to_be_bytes());
    value.into().append(key)
}

/// Bytes of the `H` key, without its first letter, that `bytes` begin with: how records of a first load, which lie one
/// after the other, are told apart. `None` if they do not begin with one.
#[inline]
pub fn history_record_len(family: cairn_utxo_chain::Family, bytes: &[u8]) -> Option<usize> {
    let value_at = match *bytes.get(SIDE_AT - 1)? {
        FUNDING => FUNDING_VALUE_AT - 1,
        SPENDING => SPENDING_VALUE_AT - 1,
        _ => return None,
    };
    super::value_len(family, bytes, value_at).map(|length| value_at + length)
}

/// The script of an `H` key, without a look at the rest of it; `None` if the key is too short to have one.
#[inline]
pub fn hist_script(key: &[u8]) -> Option<ScriptHash> {
    key.get(1..HASH_KEY_LEN)?.try_into().ok().map(ScriptHash)
}

/// Which way the coin went in an `H` row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistSide {
    /// The script got the output `vout` of the row's transaction.
    Funding {
        /// Output index.
        vout: u32,
    },
    /// Input `vin` of the row's transaction spends `funding`.
    Spending {
        /// Input index.
        vin: u32,
        /// The output spent.
        funding: OutPoint,
    },
}

/// A decoded `H` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistKey {
    /// The funded script, on both sides.
    pub script: ScriptHash,
    /// Height of the block that holds `txid`.
    pub height: u32,
    /// The transaction that funds or spends.
    pub txid: Txid,
    /// Which of the two.
    pub side: HistSide,
    /// What the output is worth.
    pub value: RowValue,
}

impl HistKey {
    /// Takes a key apart.
    pub fn decode(key: &[u8]) -> Result<Self, RowError> {
        const PLACE: &str = "history H key";
        let value_at = match key.get(SIDE_AT) {
            Some(&FUNDING) => FUNDING_VALUE_AT,
            Some(&SPENDING) => SPENDING_VALUE_AT,
            Some(other) => {
                return Err(RowError::new(
                    PLACE,
                    format!("letter {other:#04x} is neither F nor S"),
                    key,
                ));
            }
            None => {
                return Err(RowError::new(
                    PLACE,
                    format!("{} bytes are too few", key.len()),
                    key,
                ));
            }
        };
        let value = key.get(value_at..).and_then(RowValue::parse);
        let Some(value) = value.filter(|_| key[0] == RowKind::History.tag()) else {
            return Err(RowError::new(
                PLACE,
                format!("{} bytes do not end in a value, or another tag", key.len()),
                key,
            ));
        };
        let index = u32_at(key, 70);
        let side = if value_at == FUNDING_VALUE_AT {
            HistSide::Funding { vout: index }
        } else {
            let funding = OutPoint::new(Txid::from_byte_array(hash32(key, 74)), u32_at(key, 106));
            HistSide::Spending {
                vin: index,
                funding,
            }
        };
        Ok(Self {
            script: ScriptHash(hash32(key, 1)),
            height: u32_at(key, 33),
            txid: Txid::from_byte_array(hash32(key, 38)),
            side,
            value,
        })
    }

    /// Whether this is a spending row.
    pub fn is_spending(&self) -> bool {
        matches!(self.side, HistSide::Spending { .. })
    }

    /// The key.
    pub fn encode(&self) -> RowKey {
        match &self.side {
            HistSide::Funding { vout } => {
                hist_funding_key(&self.script, self.height, &self.txid, *vout, self.value)
            }
            HistSide::Spending { vin, funding } => hist_spending_key(
                &self.script,
                self.height,
                &self.txid,
                *vin,
                funding,
                self.value,
            ),
        }
    }
}

/// The key of a spend edge: input `vin` of `txid` spends `funding`.
#[inline]
pub fn edge_key(funding: &OutPoint, txid: &Txid, vin: u32) -> [u8; EDGE_KEY_LEN] {
    concat(
        RowKind::Edge.tag(),
        &[
            funding.txid.as_byte_array(),
            &funding.vout.to_be_bytes(),
            txid.as_byte_array(),
            &vin.to_be_bytes(),
        ],
    )
}

/// What all edges of one output begin with.
#[inline]
pub fn edge_prefix(funding: &OutPoint) -> [u8; 37] {
    concat(
        RowKind::Edge.tag(),
        &[funding.txid.as_byte_array(), &funding.vout.to_be_bytes()],
    )
}

/// A decoded `S` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeKey {
    /// The output spent.
    pub funding: OutPoint,
    /// The spending transaction.
    pub txid: Txid,
    /// Which of its inputs.
    pub vin: u32,
}

impl EdgeKey {
    /// Takes a key apart.
    pub fn decode(key: &[u8]) -> Result<Self, RowError> {
        check("history S key", key, RowKind::Edge.tag(), EDGE_KEY_LEN)?;
        Ok(Self {
            funding: OutPoint::new(Txid::from_byte_array(hash32(key, 1)), u32_at(key, 33)),
            txid: Txid::from_byte_array(hash32(key, 37)),
            vin: u32_at(key, 69),
        })
    }
}

/// Appends the key of an `a` row: the tag and the address as printed. With a part of an address it is the prefix to
/// search by.
#[inline]
pub fn addr_key(address: &str, key: &mut Vec<u8>) {
    key.push(RowKind::Address.tag());
    key.extend_from_slice(address.as_bytes());
}
