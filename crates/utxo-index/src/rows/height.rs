//! Rows that lie by a hash, then by height: what happened to a script or an asset, in order.

use bitcoin::Txid;

use super::asset::{AssetKey, SupplyKey};
use super::history::HistKey;
use super::{HASH_KEY_LEN, RowError, RowKind, concat};

/// Keys of the form: tag, 32 bytes, height u32, more. Their values are empty.
pub trait HeightRow: Sized {
    /// The kind of row.
    const KIND: RowKind;

    /// Takes a key apart.
    ///
    /// # Errors
    /// [`RowError`] for anything but a key of this kind.
    fn decode(key: &[u8]) -> Result<Self, RowError>;

    /// Height of the block that holds the transaction.
    fn height(&self) -> u32;

    /// The transaction.
    fn txid(&self) -> Txid;

    /// A key before all neighbours of this row that are of the same transaction and letter, and after those of smaller
    /// transactions: the place to jump to when a transaction's many rows are to be skipped.
    fn group_key(key: &[u8]) -> &[u8];
}

/// What all keys of a kind about one script or asset begin with.
#[inline]
pub fn id_prefix(kind: RowKind, id: &[u8; 32]) -> [u8; HASH_KEY_LEN] {
    concat(kind.tag(), &[id])
}

/// The same at one height; also the place where "from this height on" starts.
#[inline]
pub fn height_key(kind: RowKind, id: &[u8; 32], height: u32) -> [u8; 37] {
    concat(kind.tag(), &[id, &height.to_be_bytes()])
}

/// Bytes of tag, hash, height, letter and txid.
const LETTERED: usize = 70;

impl HeightRow for HistKey {
    const KIND: RowKind = RowKind::History;

    fn decode(key: &[u8]) -> Result<Self, RowError> {
        Self::decode(key)
    }

    fn height(&self) -> u32 {
        self.height
    }

    fn txid(&self) -> Txid {
        self.txid
    }

    fn group_key(key: &[u8]) -> &[u8] {
        key.get(..LETTERED).unwrap_or(key)
    }
}

impl HeightRow for AssetKey {
    const KIND: RowKind = RowKind::Asset;

    fn decode(key: &[u8]) -> Result<Self, RowError> {
        Self::decode(key)
    }

    fn height(&self) -> u32 {
        self.height
    }

    fn txid(&self) -> Txid {
        self.txid
    }

    fn group_key(key: &[u8]) -> &[u8] {
        key.get(..LETTERED).unwrap_or(key)
    }
}

impl HeightRow for SupplyKey {
    const KIND: RowKind = RowKind::Supply;

    fn decode(key: &[u8]) -> Result<Self, RowError> {
        Self::decode(key)
    }

    fn height(&self) -> u32 {
        self.height
    }

    fn txid(&self) -> Txid {
        self.txid
    }

    fn group_key(key: &[u8]) -> &[u8] {
        key
    }
}
