//! Where each block lies: a compact table from block hash to file, offset and size.
//!
//! A record costs 48 bytes plus about 10 of the hash table: 52 MB for 900,000 blocks.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use hashbrown::HashTable;

/// Number of a record in the order of finding.
pub(crate) type RecordId = u32;

/// The place of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) hash: BlockHash,
    /// File offset of the block's first byte.
    pub(crate) offset: u64,
    /// Index of the file in the list of files.
    pub(crate) file: u32,
    /// Bytes of the block.
    pub(crate) size: u32,
}

/// All records found so far.
#[derive(Debug, Default)]
pub(crate) struct Records {
    list: Vec<Record>,
    table: HashTable<RecordId>,
}

impl Records {
    /// Adds a record; `None` if the hash is known already (the first place is kept).
    pub(crate) fn insert(&mut self, record: Record) -> Option<RecordId> {
        if self.find(&record.hash).is_some() {
            return None;
        }
        // 2^32 records of 89 bytes each would be 380 GB of headers: no chain comes near, and none is lost silently.
        let id = RecordId::try_from(self.list.len()).ok()?;
        self.list.push(record);
        let list = &self.list;
        self.table.insert_unique(bucket(&record.hash), id, |id| {
            bucket(&list[*id as usize].hash)
        });
        Some(id)
    }

    /// The number of a block's record.
    pub(crate) fn find(&self, hash: &BlockHash) -> Option<RecordId> {
        self.table
            .find(bucket(hash), |id| self.list[*id as usize].hash == *hash)
            .copied()
    }

    /// The record of a number that [`Self::insert`] or [`Self::find`] gave.
    pub(crate) fn get(&self, id: RecordId) -> &Record {
        &self.list[id as usize]
    }

    /// The place of a block.
    pub(crate) fn place(&self, hash: &BlockHash) -> Option<&Record> {
        self.find(hash).map(|id| self.get(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

/// A block hash is a hash already; its first bytes (in memory order) are the ones that are not zeros.
fn bucket(hash: &BlockHash) -> u64 {
    let bytes = hash.as_byte_array();
    u64::from_le_bytes([
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
    ])
}
