//! Rows of assets, on Elements: `i`, `I…B`, `I…F`, `I…I`, `I…N`, `I…O`, `I…S`, `J`.
//!
//! An asset's `I` keys are laid out like a script's `H` keys: tag, 32 bytes, height, a letter, the transaction. `J` rows
//! name the transactions that change an asset's supply, once each: among a million transfers a reissuance would otherwise
//! be found only by reading them.

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};
use cairn_utxo_chain::elements::Issuance;
use cairn_utxo_chain::{AssetId, Field};

use super::error::{RowError, check};
use super::key::RowKey;
use super::{HASH_KEY_LEN, RowKind, concat, hash32, u32_at, u64_at};

/// Length of a `J` key.
const SUPPLY_KEY_LEN: usize = 69;
/// Where the letter stands in an `I` key, and where what follows the transaction begins.
const LETTER_AT: usize = 37;
const TXID_AT: usize = 38;
const INDEX_AT: usize = 70;
const REST_AT: usize = 74;

/// What a transaction did with an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssetEvent {
    /// `B`: output `vout` put `amount` where nobody can spend it.
    Burn {
        /// Output index.
        vout: u32,
        /// Base units.
        amount: u64,
    },
    /// `F`: output `vout` holds `value` of it.
    Funding {
        /// Output index.
        vout: u32,
        /// How much.
        value: Field,
    },
    /// `I`: input `vin` issued it, or more of it.
    Issuance {
        /// Input index.
        vin: u32,
        /// More of a known asset.
        is_reissuance: bool,
        /// Base units; `None`: blinded.
        amount: Option<u64>,
        /// Reissuance tokens; `None`: blinded.
        tokens: Option<u64>,
    },
    /// `N`: input `vin` brought `amount` over from the parent chain.
    Pegin {
        /// Input index.
        vin: u32,
        /// Base units.
        amount: u64,
    },
    /// `O`: output `vout` sent `amount` to the parent chain.
    Pegout {
        /// Output index.
        vout: u32,
        /// Base units.
        amount: u64,
    },
    /// `S`: input `vin` spends `funding`, which held `value` of it.
    Spending {
        /// Input index.
        vin: u32,
        /// The output spent.
        funding: OutPoint,
        /// How much.
        value: Field,
    },
}

impl AssetEvent {
    /// Whether it changes how much there is, and is not a mere transfer.
    pub fn is_supply(&self) -> bool {
        !matches!(self, Self::Funding { .. } | Self::Spending { .. })
    }

    fn letter(&self) -> u8 {
        match self {
            Self::Burn { .. } => b'B',
            Self::Funding { .. } => b'F',
            Self::Issuance { .. } => b'I',
            Self::Pegin { .. } => b'N',
            Self::Pegout { .. } => b'O',
            Self::Spending { .. } => b'S',
        }
    }
}

/// A decoded `I` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssetKey {
    /// The asset.
    pub asset: AssetId,
    /// Height of the block that holds `txid`.
    pub height: u32,
    /// The transaction.
    pub txid: Txid,
    /// What it did.
    pub event: AssetEvent,
}

impl AssetKey {
    /// The key; its value is empty.
    pub fn encode(&self) -> RowKey {
        let start = |index: u32| {
            RowKey::new(RowKind::Asset.tag())
                .with(self.asset.as_byte_array())
                .with(&self.height.to_be_bytes())
                .with(&[self.event.letter()])
                .with(self.txid.as_byte_array())
                .with(&index.to_be_bytes())
        };
        match self.event {
            AssetEvent::Burn { vout, amount } | AssetEvent::Pegout { vout, amount } => {
                start(vout).with(&amount.to_be_bytes())
            }
            AssetEvent::Pegin { vin, amount } => start(vin).with(&amount.to_be_bytes()),
            AssetEvent::Funding { vout, value } => start(vout).with(value.as_bytes()),
            AssetEvent::Spending {
                vin,
                funding,
                value,
            } => start(vin)
                .with(funding.txid.as_byte_array())
                .with(&funding.vout.to_be_bytes())
                .with(value.as_bytes()),
            AssetEvent::Issuance {
                vin,
                is_reissuance,
                amount,
                tokens,
            } => {
                let key = start(vin).with(&[u8::from(is_reissuance)]);
                [amount, tokens]
                    .into_iter()
                    .fold(key, |key, amount| match amount {
                        None => key.with(&[0]),
                        Some(amount) => key.with(&[1]).with(&amount.to_be_bytes()),
                    })
            }
        }
    }

    /// Takes a key apart.
    ///
    /// # Errors
    /// [`RowError`] for anything but an `I` key.
    pub fn decode(key: &[u8]) -> Result<Self, RowError> {
        const PLACE: &str = "history I key";
        let damaged = |what: &str| RowError::new(PLACE, what, key);
        if key.len() < REST_AT || key[0] != RowKind::Asset.tag() {
            return Err(damaged("too short, or another tag"));
        }
        let (index, rest) = (u32_at(key, INDEX_AT), &key[REST_AT..]);
        let amount = || {
            <[u8; 8]>::try_from(rest)
                .map(u64::from_be_bytes)
                .map_err(|_| damaged("no amount of 8 bytes at the end"))
        };
        let value =
            |bytes: &[u8]| Field::parse_value(bytes).ok_or_else(|| damaged("no value at the end"));
        let event = match key[LETTER_AT] {
            b'B' => AssetEvent::Burn {
                vout: index,
                amount: amount()?,
            },
            b'N' => AssetEvent::Pegin {
                vin: index,
                amount: amount()?,
            },
            b'O' => AssetEvent::Pegout {
                vout: index,
                amount: amount()?,
            },
            b'F' => AssetEvent::Funding {
                vout: index,
                value: value(rest)?,
            },
            b'S' => {
                if rest.len() < 36 {
                    return Err(damaged("no outpoint"));
                }
                AssetEvent::Spending {
                    vin: index,
                    funding: OutPoint::new(
                        Txid::from_byte_array(hash32(rest, 0)),
                        u32_at(rest, 32),
                    ),
                    value: value(&rest[36..])?,
                }
            }
            b'I' => {
                let bad = || damaged("not an issuance");
                let (&flag, rest) = rest.split_first().ok_or_else(bad)?;
                let (amount, rest) = issued(rest).ok_or_else(bad)?;
                let (tokens, rest) = issued(rest).ok_or_else(bad)?;
                if flag > 1 || !rest.is_empty() {
                    return Err(bad());
                }
                AssetEvent::Issuance {
                    vin: index,
                    is_reissuance: flag == 1,
                    amount,
                    tokens,
                }
            }
            _ => return Err(damaged("the letter is none of B, F, I, N, O, S")),
        };
        Ok(Self {
            asset: AssetId::from_byte_array(hash32(key, 1)),
            height: u32_at(key, 33),
            txid: Txid::from_byte_array(hash32(key, TXID_AT)),
            event,
        })
    }
}

/// Bytes of the `I` key, without its first letter, that `bytes` begin with; `None` if they do not begin with one.
#[inline]
pub fn asset_record_len(bytes: &[u8]) -> Option<usize> {
    const FAMILY: cairn_utxo_chain::Family = cairn_utxo_chain::Family::Elements;
    let rest_at = REST_AT - 1;
    let length = match *bytes.get(LETTER_AT - 1)? {
        b'B' | b'N' | b'O' => 8,
        b'F' => super::value_len(FAMILY, bytes, rest_at)?,
        b'S' => 36 + super::value_len(FAMILY, bytes, rest_at + 36)?,
        b'I' => {
            let rest = bytes.get(rest_at + 1..)?;
            let after = issued(issued(rest)?.1)?.1;
            1 + rest.len() - after.len()
        }
        _ => return None,
    };
    Some(rest_at + length)
}

/// An issued amount at the start of some bytes, and the rest.
fn issued(bytes: &[u8]) -> Option<(Option<u64>, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((None, rest)),
        (1, rest) if rest.len() >= 8 => Some((Some(u64_at(rest, 0)), &rest[8..])),
        _ => None,
    }
}

/// A decoded `J` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupplyKey {
    /// The asset.
    pub asset: AssetId,
    /// Height of the block that holds `txid`.
    pub height: u32,
    /// A transaction that issues, burns, pegs in or pegs out the asset.
    pub txid: Txid,
}

impl SupplyKey {
    /// The key; its value is empty.
    pub fn encode(&self) -> RowKey {
        RowKey::new(RowKind::Supply.tag())
            .with(self.asset.as_byte_array())
            .with(&self.height.to_be_bytes())
            .with(self.txid.as_byte_array())
    }

    /// Takes a key apart.
    ///
    /// # Errors
    /// [`RowError`] for anything but a `J` key.
    pub fn decode(key: &[u8]) -> Result<Self, RowError> {
        check("history J key", key, RowKind::Supply.tag(), SUPPLY_KEY_LEN)?;
        Ok(Self {
            asset: AssetId::from_byte_array(hash32(key, 1)),
            height: u32_at(key, 33),
            txid: Txid::from_byte_array(hash32(key, 37)),
        })
    }
}

/// The key of an `i` row.
pub fn issued_key(asset: &AssetId) -> [u8; HASH_KEY_LEN] {
    concat(RowKind::Issued.tag(), &[asset.as_byte_array()])
}

/// The value of an `i` row: where an asset was issued first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuedAsset {
    /// The issuing transaction.
    pub txid: Txid,
    /// Which of its inputs.
    pub vin: u32,
    /// What that input spends; the asset's id follows from it.
    pub spent: OutPoint,
    /// The issuance.
    pub issuance: Issuance,
    /// The token that allows to issue more.
    pub token: AssetId,
}

impl IssuedAsset {
    /// Appends the value: txid, vin, spent txid, spent vout, length of the issuance, issuance, token.
    pub fn write(&self, value: &mut Vec<u8>) {
        value.extend_from_slice(self.txid.as_byte_array());
        value.extend_from_slice(&self.vin.to_be_bytes());
        value.extend_from_slice(self.spent.txid.as_byte_array());
        value.extend_from_slice(&self.spent.vout.to_be_bytes());
        let mut issuance = Vec::new();
        self.issuance.write(&mut issuance);
        // 130 bytes at most.
        value.extend_from_slice(&(issuance.len() as u32).to_be_bytes());
        value.extend_from_slice(&issuance);
        value.extend_from_slice(self.token.as_byte_array());
    }

    /// The inverse of [`IssuedAsset::write`].
    ///
    /// # Errors
    /// [`RowError`] for anything else.
    pub fn decode(value: &[u8]) -> Result<Self, RowError> {
        const PLACE: &str = "history i value";
        const ISSUANCE_AT: usize = 76;
        let damaged = |what: &str| RowError::new(PLACE, what, value);
        if value.len() < ISSUANCE_AT + 32 {
            return Err(damaged("too short"));
        }
        let token_at = value.len() - 32;
        let issuance = &value[ISSUANCE_AT..token_at];
        if u32_at(value, 72) as usize != issuance.len() {
            return Err(damaged("the length of the issuance is wrong"));
        }
        Ok(Self {
            txid: Txid::from_byte_array(hash32(value, 0)),
            vin: u32_at(value, 32),
            spent: OutPoint::new(Txid::from_byte_array(hash32(value, 36)), u32_at(value, 68)),
            issuance: Issuance::parse(issuance).map_err(|error| damaged(error.what))?,
            token: AssetId::from_byte_array(hash32(value, token_at)),
        })
    }
}
