//! Stage 3 of the first load: the rows of each script, sorted and written.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::add::Partitioned;
use super::files::{FileFactory, SortedFiles};
use super::join::damaged_spill;
use super::prefetch::prefetch;
use super::runs::{self, RunWriter};
use cairn_utxo_chain::Family as ChainFamily;

use crate::engine::Family;
use crate::index::IndexError;
use crate::rows::{self, RowKind};

/// Most of a partition that is sorted in memory at once. Only very busy scripts make a partition larger.
const PIECE_BYTES: u64 = 256 << 20;

/// How many rows ahead memory is asked for, and how much of each.
const AHEAD: usize = 12;
const AHEAD_BYTES: usize = 118;

/// One worker of the stage. Its buffers last as long as the stage does.
pub(super) struct HistorySorter<'a> {
    factory: &'a FileFactory,
    history: &'a Partitioned,
    chain: ChainFamily,
    dir: &'a Path,
    piece_bytes: u64,
    piece: Piece,
}

/// Rows in memory, and their order.
#[derive(Default)]
struct Piece {
    records: Vec<u8>,
    order: Vec<u128>,
}

impl<'a> HistorySorter<'a> {
    pub(super) fn new(
        chain: ChainFamily,
        factory: &'a FileFactory,
        history: &'a Partitioned,
        dir: &'a Path,
    ) -> Self {
        Self {
            factory,
            history,
            chain,
            dir,
            piece_bytes: PIECE_BYTES,
            piece: Piece::default(),
        }
    }

    /// Writes the rows of the partitions of a range and gives back its files. `label` tells them from those of other
    /// ranges; `before` is asked before each partition.
    pub(super) fn range(
        &mut self,
        partitions: Range<usize>,
        label: &str,
        before: impl Fn(usize) -> Result<(), IndexError>,
    ) -> Result<(Family, Vec<PathBuf>), IndexError> {
        let mut files = self.factory.files(Family::Hist, label);
        for partition in partitions {
            before(partition)?;
            self.partition(partition, &mut files)?;
        }
        files.finish()
    }

    fn partition(
        &mut self,
        partition: usize,
        files: &mut SortedFiles<'_>,
    ) -> Result<(), IndexError> {
        let (spill, piece) = (&self.history.spill, &mut self.piece);
        let mut next = spill.read(partition, 0, self.piece_bytes, &mut piece.records)?;
        piece.sort(self.chain)?;
        if next.is_none() {
            return piece.each(self.chain, |key| files.push(key, &[]));
        }
        let mut runs: Vec<PathBuf> = Vec::new();
        loop {
            let name = format!("history-{partition}-{}.run", runs.len());
            let mut run = RunWriter::create(self.dir.join(name))?;
            piece.each(self.chain, |key| Ok(run.push(key)?))?;
            runs.push(run.finish()?);
            let Some(from) = next else { break };
            next = spill.read(partition, from, self.piece_bytes, &mut piece.records)?;
            piece.sort(self.chain)?;
        }
        runs::merge(runs, |key| files.push(key, &[]))
    }
}

impl Piece {
    fn sort(&mut self, chain: ChainFamily) -> Result<(), IndexError> {
        order_rows(chain, &self.records, &mut self.order)
    }

    /// Calls `write` with every key, in order.
    fn each(
        &self,
        chain: ChainFamily,
        mut write: impl FnMut(&[u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut key = vec![RowKind::History.tag()];
        for (n, &order) in self.order.iter().enumerate() {
            if let Some(&ahead) = self.order.get(n + AHEAD) {
                prefetch(&self.records, place(ahead), AHEAD_BYTES);
            }
            let tail = record(chain, &self.records, order).ok_or_else(damaged_spill)?;
            key.truncate(1);
            key.extend_from_slice(tail);
            write(&key)?;
        }
        Ok(())
    }
}

fn place(order: u128) -> usize {
    (order & u128::from(u32::MAX)) as usize
}

fn record(chain: ChainFamily, records: &[u8], order: u128) -> Option<&[u8]> {
    let bytes = records.get(place(order)..)?;
    bytes.get(..rows::history_record_len(chain, bytes)?)
}

/// Fills `order` with (first half of the scripthash, height, place), ascending by the whole key.
fn order_rows(chain: ChainFamily, records: &[u8], order: &mut Vec<u128>) -> Result<(), IndexError> {
    order.clear();
    let mut at = 0;
    while at < records.len() {
        let bytes = &records[at..];
        let length = rows::history_record_len(chain, bytes)
            .filter(|&n| n <= bytes.len())
            .ok_or_else(damaged_spill)?;
        let place = u32::try_from(at).map_err(|_| damaged_spill())?;
        let script = u64::from_be_bytes(bytes[..8].try_into().expect("8 bytes"));
        let height = u32::from_be_bytes(bytes[32..36].try_into().expect("4 bytes"));
        order.push(u128::from(script) << 64 | u128::from(height) << 32 | u128::from(place));
        at += length;
    }
    order.sort_unstable();
    let full = |order: &u128| record(chain, records, *order);
    let script = |order: &u128| full(order).map(|key| &key[..32]);
    for run in order
        .chunk_by_mut(|a, b| a >> 64 == b >> 64)
        .filter(|run| run.len() > 1)
    {
        if run
            .windows(2)
            .any(|pair| script(&pair[0]) != script(&pair[1]))
        {
            // Scripthashes ground out to look alike.
            run.sort_unstable_by(|a, b| full(a).cmp(&full(b)));
            continue;
        }
        for block in run
            .chunk_by_mut(|a, b| a >> 32 == b >> 32)
            .filter(|block| block.len() > 1)
        {
            block.sort_unstable_by(|a, b| full(a).cmp(&full(b)));
        }
    }
    Ok(())
}
