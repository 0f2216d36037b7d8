//! The `V` row, which says what kind of index this is, and the `F` mark.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::error::RowError;
use super::{hash32, u32_at};

/// Key of the version row in each database.
pub const VERSION_KEY: [u8; 1] = *b"V";
/// Key of the mark "bulk load finished" in `txstore` and `history`; its value is empty.
pub const MARK_KEY: [u8; 1] = *b"F";
/// The layout of `txstore` and `history` that this program reads and writes.
pub const LAYOUT_VERSION: u32 = 1;
/// The layout *and way of counting* of `cache`. Raise it whenever a fold is corrected: older entries are then dropped.
pub const CACHE_VERSION: u32 = 1;

/// Length of a `V` value.
const VERSION_LEN: usize = 40;

const LIGHT_MODE: u32 = 1 << 0;
const ADDRESS_SEARCH: u32 = 1 << 1;
const INDEX_UNSPENDABLES: u32 = 1 << 2;
const ELEMENTS: u32 = 1 << 3;

/// What is fixed when an index is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// No `T`, `X`, `M` rows.
    pub light_mode: bool,
    /// `a` rows.
    pub address_search: bool,
    /// `H…F` rows of provably unspendable outputs.
    pub index_unspendables: bool,
    /// A chain of Elements.
    pub elements: bool,
}

impl Features {
    fn bits(self) -> u32 {
        [
            (self.light_mode, LIGHT_MODE),
            (self.address_search, ADDRESS_SEARCH),
            (self.index_unspendables, INDEX_UNSPENDABLES),
            (self.elements, ELEMENTS),
        ]
        .into_iter()
        .filter_map(|(on, bit)| on.then_some(bit))
        .sum()
    }
}

/// The value of a `V` row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// [`LAYOUT_VERSION`], in `cache` [`CACHE_VERSION`].
    pub layout: u32,
    /// What the index was made with.
    pub features: Features,
    /// Which chain.
    pub genesis: BlockHash,
}

impl Version {
    /// The value: layout u32, flags u32, genesis hash.
    pub fn encode(&self) -> [u8; VERSION_LEN] {
        let mut value = [0u8; VERSION_LEN];
        value[..4].copy_from_slice(&self.layout.to_be_bytes());
        value[4..8].copy_from_slice(&self.features.bits().to_be_bytes());
        value[8..].copy_from_slice(self.genesis.as_byte_array());
        value
    }

    /// The inverse of [`Version::encode`]. A flag this program does not know is an error: it cannot tell what rows
    /// such an index has.
    pub fn decode(value: &[u8]) -> Result<Self, RowError> {
        const PLACE: &str = "V value";
        if value.len() != VERSION_LEN {
            return Err(RowError::length(PLACE, VERSION_LEN, value));
        }
        let flags = u32_at(value, 4);
        let unknown = flags & !(LIGHT_MODE | ADDRESS_SEARCH | INDEX_UNSPENDABLES | ELEMENTS);
        if unknown != 0 {
            return Err(RowError::new(
                PLACE,
                format!("flags {unknown:#x} are unknown to this program; a newer one wrote them"),
                value,
            ));
        }
        Ok(Self {
            layout: u32_at(value, 0),
            features: Features {
                light_mode: flags & LIGHT_MODE != 0,
                address_search: flags & ADDRESS_SEARCH != 0,
                index_unspendables: flags & INDEX_UNSPENDABLES != 0,
                elements: flags & ELEMENTS != 0,
            },
            genesis: BlockHash::from_byte_array(hash32(value, 8)),
        })
    }
}
