//! The last stage of the first load: the rows of blocks, and the rows that declare the load complete.

use std::path::PathBuf;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::add::{BLOCK_RECORD_BYTES, Partitioned};
use super::files::FileFactory;
use super::join::damaged_spill;
use crate::engine::{Durability, Family, Stores};
use crate::index::IndexError;
use crate::rows::{self, RowKind};

struct BlockRecord<'a> {
    hash: BlockHash,
    header: &'a [u8],
    meta: &'a [u8],
    txids: &'a [u8],
}

impl<'a> BlockRecord<'a> {
    /// The record at the start of `bytes` and its length.
    fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (hash, rest) = bytes.split_first_chunk::<32>()?;
        let (meta, rest) = rest.split_at_checked(12)?;
        let (header_length, rest) = rest.split_first_chunk::<4>()?;
        let header_length = u32::from_be_bytes(*header_length) as usize;
        let (header, rest) = rest.split_at_checked(header_length)?;
        let count = u32::from_be_bytes(meta[8..].try_into().expect("4 bytes"));
        let txids = rest.get(..count as usize * 32)?;
        let hash = BlockHash::from_byte_array(*hash);
        Some((
            Self {
                hash,
                header,
                meta,
                txids,
            },
            BLOCK_RECORD_BYTES + header_length + txids.len(),
        ))
    }
}

/// Writes the `B`, `M` and `X` rows.
pub(super) fn block_files(
    factory: &FileFactory,
    blocks: &Partitioned,
    light_mode: bool,
) -> Result<Vec<(Family, Vec<PathBuf>)>, IndexError> {
    let mut all = Vec::new();
    let kinds: &[RowKind] = match light_mode {
        true => &[RowKind::Header],
        false => &[RowKind::Header, RowKind::Meta, RowKind::Txids],
    };
    // One pass per kind: the kinds share a family, and files of one family must not overlap.
    for &kind in kinds {
        let label = format!("{kind:?}").to_lowercase();
        let mut files = factory.files(Family::Blocks, &label);
        let mut records = Vec::new();
        for partition in 0..blocks.partitions.count() {
            blocks.spill.read(partition, 0, u64::MAX, &mut records)?;
            let mut sorted = Vec::new();
            let mut at = 0;
            while at < records.len() {
                let (record, length) =
                    BlockRecord::parse(&records[at..]).ok_or_else(damaged_spill)?;
                sorted.push(record);
                at += length;
            }
            sorted.sort_unstable_by_key(|record| record.hash.to_byte_array());
            for record in &sorted {
                let value = match kind {
                    RowKind::Header => record.header,
                    RowKind::Meta => record.meta,
                    _ => record.txids,
                };
                files.push(&rows::block_key(kind, &record.hash), value)?;
            }
        }
        all.push(files.finish()?);
    }
    Ok(all)
}

/// Declares every block done in both databases, the load finished, and the tip, in this order.
pub(super) fn marks(
    stores: &Stores,
    chain: &[BlockHash],
    tip: BlockHash,
) -> Result<(), IndexError> {
    const BLOCKS_PER_BATCH: usize = 50_000;
    for kind in [RowKind::Added, RowKind::Indexed] {
        let store = stores.of(kind.db());
        for blocks in chain.chunks(BLOCKS_PER_BATCH) {
            let mut batch = store.batch();
            for hash in blocks {
                batch.put(Family::of(kind), &rows::block_key(kind, hash), &[]);
            }
            store.write(batch, Durability::Synced)?;
        }
    }
    put(stores, RowKind::TxstoreLoaded, &rows::MARK_KEY, &[])?;
    put(stores, RowKind::HistoryLoaded, &rows::MARK_KEY, &[])?;
    put(stores, RowKind::Tip, &rows::TIP_KEY, tip.as_byte_array())
}

fn put(stores: &Stores, kind: RowKind, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
    let store = stores.of(kind.db());
    let mut batch = store.batch();
    batch.put(Family::of(kind), key, value);
    Ok(store.write(batch, Durability::Synced)?)
}
