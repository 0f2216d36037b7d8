//! Rows of `history` on Bitcoin: `H…F`, `H…S`, `S`, `a`.

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};

use super::error::{RowError, check};
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at, u64_at};
use crate::types::ScriptHash;

/// Length of an `H…F` key.
pub const FUNDING_KEY_LEN: usize = 82;
/// Length of an `H…S` key.
pub const SPENDING_KEY_LEN: usize = 118;
/// Length of an `S` key.
pub const EDGE_KEY_LEN: usize = 73;

/// Where the letter that tells funding from spending stands in an `H` key: after tag, scripthash and height.
const SIDE_AT: usize = 37;
/// The letter of a funding row. Sorts before `S`, so that at one height funding comes first.
const FUNDING: u8 = b'F';
/// The letter of a spending row.
const SPENDING: u8 = b'S';

/// The key of a funding row: the output `txid:vout`, mined at `height`, pays `value` satoshi to the script.
#[inline]
pub fn hist_funding_key(
    script: &ScriptHash,
    height: u32,
    txid: &Txid,
    vout: u32,
    value: u64,
) -> [u8; FUNDING_KEY_LEN] {
    concat(
        RowKind::History.tag(),
        &[
            &script.0,
            &height.to_be_bytes(),
            &[FUNDING],
            txid.as_byte_array(),
            &vout.to_be_bytes(),
            &value.to_be_bytes(),
        ],
    )
}

/// The key of a spending row: input `vin` of `txid`, mined at `height`, spends `funding`, which was worth `value`
/// satoshi to the script.
#[inline]
pub fn hist_spending_key(
    script: &ScriptHash,
    height: u32,
    txid: &Txid,
    vin: u32,
    funding: &OutPoint,
    value: u64,
) -> [u8; SPENDING_KEY_LEN] {
    concat(
        RowKind::History.tag(),
        &[
            &script.0,
            &height.to_be_bytes(),
            &[SPENDING],
            txid.as_byte_array(),
            &vin.to_be_bytes(),
            funding.txid.as_byte_array(),
            &funding.vout.to_be_bytes(),
            &value.to_be_bytes(),
        ],
    )
}

/// What all `H` keys of a script begin with.
#[inline]
pub fn hist_prefix(script: &ScriptHash) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::History.tag(), &[&script.0])
}

/// The script of an `H` key, without a look at the rest of it; `None` if the key is too short to have one.
#[inline]
pub fn hist_script(key: &[u8]) -> Option<ScriptHash> {
    key.get(1..HASH_KEY_LEN)?.try_into().ok().map(ScriptHash)
}

/// What all `H` keys of a script at one height begin with; also the place where "from this height on" starts.
#[inline]
pub fn hist_height_key(script: &ScriptHash, height: u32) -> [u8; SIDE_AT] {
    concat(RowKind::History.tag(), &[&script.0, &height.to_be_bytes()])
}

/// What all rows of one side of one transaction at one height begin with. Sorts before each of them and after all
/// rows of smaller txids: the place to jump to when a transaction's many rows are to be skipped.
#[inline]
pub fn hist_group_key(script: &ScriptHash, height: u32, spending: bool, txid: &Txid) -> [u8; 70] {
    let side = if spending { SPENDING } else { FUNDING };
    concat(
        RowKind::History.tag(),
        &[
            &script.0,
            &height.to_be_bytes(),
            &[side],
            txid.as_byte_array(),
        ],
    )
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
    /// Satoshi of the output.
    pub value: u64,
}

impl HistKey {
    /// Takes a key apart.
    pub fn decode(key: &[u8]) -> Result<Self, RowError> {
        const PLACE: &str = "history H key";
        let expected = match key.get(SIDE_AT) {
            Some(&FUNDING) => FUNDING_KEY_LEN,
            Some(&SPENDING) => SPENDING_KEY_LEN,
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
        check(PLACE, key, RowKind::History.tag(), expected)?;
        let index = u32_at(key, 70);
        let side = if expected == FUNDING_KEY_LEN {
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
            value: u64_at(key, expected - 8),
        })
    }

    /// Whether this is a spending row.
    pub fn is_spending(&self) -> bool {
        matches!(self.side, HistSide::Spending { .. })
    }

    /// Appends the key.
    pub fn write(&self, key: &mut Vec<u8>) {
        match &self.side {
            HistSide::Funding { vout } => key.extend_from_slice(&hist_funding_key(
                &self.script,
                self.height,
                &self.txid,
                *vout,
                self.value,
            )),
            HistSide::Spending { vin, funding } => key.extend_from_slice(&hist_spending_key(
                &self.script,
                self.height,
                &self.txid,
                *vin,
                funding,
                self.value,
            )),
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
