//! Stage 1 of the first load: every block is read once, checked, and spilled.
//!
//! | spill | partitioned by | record |
//! | --- | --- | --- |
//! | blocks | block hash | hash 32, weight u32 BE, size u32 BE, count u32 BE, header length u32 BE, header, txids 32 × count |
//! | txs | txid | txid 32, height u32 LE, length u32 LE, serialized transaction |
//! | edges | spent txid | spent txid 32, spent index u32 LE, spending txid 32, input u32 LE, height u32 LE |

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use cairn_utxo_chain::Family;
use cairn_utxo_node::{ChainSource, Unit};
use hashbrown::HashMap;

use super::block::ParsedBlock;
use super::manifest::Heights;
use super::spill::{Partitioning, Spill, SpillWriter};
use super::workers::Workers;
use crate::index::IndexError;
use crate::progress::ProgressCell;

/// Fixed bytes before the header of a record of the blocks spill.
pub(super) const BLOCK_RECORD_BYTES: usize = 32 + 12 + 4;
/// Fixed bytes before the transaction of a record of the txs spill.
pub(super) const TX_RECORD_BYTES: usize = 32 + 4 + 4;
/// Bytes of a record of the edges spill.
pub(super) const EDGE_RECORD_BYTES: usize = 32 + 4 + 32 + 4 + 4;

/// One spill and how it is partitioned.
pub(super) struct Partitioned {
    pub(super) spill: Spill,
    pub(super) partitions: Partitioning,
}

impl Partitioned {
    fn writer(&self, memory_bytes: usize) -> SpillWriter<'_> {
        SpillWriter::new(&self.spill, self.partitions, memory_bytes)
    }
}

/// What the first stage writes to.
pub(super) struct AddStage<'a> {
    pub(super) family: Family,
    pub(super) source: &'a dyn ChainSource,
    /// Heights of the wanted blocks.
    pub(super) heights: &'a HashMap<BlockHash, u32>,
    pub(super) blocks: &'a Partitioned,
    pub(super) txs: &'a Partitioned,
    pub(super) edges: &'a Partitioned,
    /// Sum of all write buffers, bytes.
    pub(super) buffer_bytes: usize,
    pub(super) progress: &'a ProgressCell,
}

/// What was read so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Added {
    pub(super) blocks: u64,
    pub(super) txs: u64,
    pub(super) bytes: u64,
}

impl AddStage<'_> {
    /// Reads `units` with all workers and marks their blocks in `done`. Afterwards the spills hold every record of
    /// those blocks.
    pub(super) fn run(
        &self,
        workers: &Workers<'_>,
        units: &[Unit],
        done: &Mutex<Heights>,
    ) -> Result<Added, IndexError> {
        let next = AtomicUsize::new(0);
        let total = Mutex::new(Added::default());
        workers.run(|| {
            let share = self.buffer_bytes / workers.count() / 2;
            let mut adder = Adder {
                stage: self,
                parsed: ParsedBlock::default(),
                blocks: self.blocks.writer(share / 8),
                txs: self.txs.writer(share),
                edges: self.edges.writer(share / 2),
                added: Added::default(),
            };
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                workers.check()?;
                adder.unit(unit, done)?;
            }
            adder.finish(&total)
        })?;
        Ok(total
            .into_inner()
            .expect("workers have ended without a panic"))
    }
}

struct Adder<'a> {
    stage: &'a AddStage<'a>,
    parsed: ParsedBlock,
    blocks: SpillWriter<'a>,
    txs: SpillWriter<'a>,
    edges: SpillWriter<'a>,
    added: Added,
}

impl Adder<'_> {
    fn unit(&mut self, unit: &Unit, done: &Mutex<Heights>) -> Result<(), IndexError> {
        let raw = self.stage.source.read(unit)?;
        let (mut blocks, mut txs) = (0, 0);
        for (hash, range) in &raw.blocks {
            // A source may hand on neighbours that nobody asked for, or a block twice.
            let Some(&height) = self.stage.heights.get(hash) else {
                continue;
            };
            if !done
                .lock()
                .expect("no worker panics while it marks")
                .insert(height)
            {
                continue;
            }
            let bytes = &raw.bytes[range.clone()];
            match self.parsed.parse(self.stage.family, bytes) {
                Ok(()) => self.spill(hash, height, bytes)?,
                Err(error) => self.ask_again(hash, height, &error.to_string())?,
            }
            blocks += 1;
            txs += self.parsed.txs.len() as u64;
            self.added.bytes += self.parsed.size as u64;
            self.stage.progress.add_done(self.parsed.size as u64);
        }
        self.stage.progress.add_blocks(blocks);
        self.stage.progress.add_txs(txs);
        self.added.blocks += blocks;
        self.added.txs += txs;
        Ok(())
    }

    /// A block that is damaged in the files is fetched by the surest way there is.
    fn ask_again(&mut self, hash: &BlockHash, height: u32, why: &str) -> Result<(), IndexError> {
        let source = self.stage.source.describe();
        tracing::warn!(%hash, height, why, "block is damaged, asking for it again");
        let bytes = self.stage.source.block(hash)?;
        self.parsed
            .parse(self.stage.family, &bytes)
            .map_err(|error| {
                IndexError::Corrupt(format!(
                    "block {hash} at height {height} from {source} {error}"
                ))
            })?;
        self.spill(hash, height, &bytes)
    }

    fn spill(&mut self, hash: &BlockHash, height: u32, bytes: &[u8]) -> Result<(), IndexError> {
        let parsed = &self.parsed;
        let [weight, size, count] = [parsed.weight, parsed.size, parsed.txs.len()]
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes());
        let header = &bytes[..parsed.header_length];
        let header_length = u32::try_from(header.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let length = BLOCK_RECORD_BYTES + header.len() + 32 * parsed.txs.len();
        let mut record = Vec::with_capacity(length);
        record.extend_from_slice(hash.as_byte_array());
        record.extend_from_slice(&weight);
        record.extend_from_slice(&size);
        record.extend_from_slice(&count);
        record.extend_from_slice(&header_length);
        record.extend_from_slice(header);
        let height = height.to_le_bytes();
        let mut spends_start = 0;
        for tx in &parsed.txs {
            record.extend_from_slice(&tx.txid);
            let raw = &bytes[tx.start..tx.end];
            let length = u32::try_from(raw.len()).unwrap_or(u32::MAX).to_le_bytes();
            let mut head = [0; TX_RECORD_BYTES];
            head[..32].copy_from_slice(&tx.txid);
            head[32..36].copy_from_slice(&height);
            head[36..].copy_from_slice(&length);
            self.txs.push(&tx.txid, &[&head, raw])?;
            for spend in &parsed.spends[spends_start..tx.spends_end] {
                let mut edge = [0; EDGE_RECORD_BYTES];
                edge[..36].copy_from_slice(&spend.outpoint);
                edge[36..68].copy_from_slice(&tx.txid);
                edge[68..72].copy_from_slice(&spend.vin.to_le_bytes());
                edge[72..].copy_from_slice(&height);
                self.edges.push(&spend.outpoint, &[&edge])?;
            }
            spends_start = tx.spends_end;
        }
        self.blocks.push(hash.as_byte_array(), &[&record])?;
        Ok(())
    }

    fn finish(mut self, total: &Mutex<Added>) -> Result<(), IndexError> {
        self.blocks.flush()?;
        self.txs.flush()?;
        self.edges.flush()?;
        let mut total = total.lock().expect("no worker panics while it adds");
        total.blocks += self.added.blocks;
        total.txs += self.added.txs;
        total.bytes += self.added.bytes;
        Ok(())
    }
}
