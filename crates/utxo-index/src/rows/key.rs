//! Keys whose length depends on what they say, on the stack.

use std::ops::Deref;

use bitcoin::hex::DisplayHex;
use cairn_utxo_chain::Field;
use cairn_utxo_chain::walk::Coin;

/// Longest key: a spending row of an asset or a script with a commitment as its value.
const KEY_LEN_MAX: usize = 143;

/// A key that was put together; reads as bytes.
#[derive(Clone, Copy)]
pub struct RowKey {
    bytes: [u8; KEY_LEN_MAX],
    length: u8,
}

impl RowKey {
    /// A key that begins with the tag of its kind.
    #[inline]
    pub(super) fn new(tag: u8) -> Self {
        let mut bytes = [0; KEY_LEN_MAX];
        bytes[0] = tag;
        Self { bytes, length: 1 }
    }

    /// Appends a part; all parts together fit by construction of the callers.
    #[inline]
    pub(super) fn with(mut self, part: &[u8]) -> Self {
        let at = usize::from(self.length);
        self.bytes[at..at + part.len()].copy_from_slice(part);
        self.length += part.len() as u8;
        self
    }
}

impl Deref for RowKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl AsRef<[u8]> for RowKey {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.as_hex())
    }
}

/// What an output is worth, as the last field of an `H` or `I` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowValue {
    /// Bitcoin: satoshi, as u64.
    Sat(u64),
    /// Elements: 1 (nothing), 9 (plain) or 33 bytes (a commitment).
    Field(Field),
}

impl RowValue {
    /// The plain amount, base units.
    #[inline]
    pub fn explicit(&self) -> Option<u64> {
        match self {
            Self::Sat(amount) => Some(*amount),
            Self::Field(field) => field.explicit_value(),
        }
    }

    #[inline]
    pub(super) fn append(&self, key: RowKey) -> RowKey {
        match self {
            Self::Sat(amount) => key.with(&amount.to_be_bytes()),
            Self::Field(field) => key.with(field.as_bytes()),
        }
    }

    /// The value at the end of a key. The two families' values never have the same length.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        match <[u8; 8]>::try_from(bytes) {
            Ok(amount) => Some(Self::Sat(u64::from_be_bytes(amount))),
            Err(_) => Field::parse_value(bytes).map(Self::Field),
        }
    }
}

impl From<u64> for RowValue {
    #[inline]
    fn from(amount: u64) -> Self {
        Self::Sat(amount)
    }
}

impl From<Coin<'_>> for RowValue {
    #[inline]
    fn from(coin: Coin<'_>) -> Self {
        match coin {
            Coin::Sat(amount) => Self::Sat(amount),
            Coin::Confidential(coin) => Self::Field(coin.value_field()),
        }
    }
}
