//! Stage 3 of the first load: the rows of each script, sorted and written.

use std::path::{Path, PathBuf};

use super::add::Partitioned;
use super::files::{FileFactory, SortedFiles};
use super::join::damaged_spill;
use super::runs::{self, RunWriter};
use crate::engine::Family;
use crate::index::IndexError;
use crate::rows::{self, RowKind};

/// Most of a partition that is sorted in memory at once. Only very busy scripts make a partition larger.
const PIECE_BYTES: u64 = 256 << 20;

/// Sorts one contiguous range of partitions.
pub(super) struct HistorySorter<'a> {
    history: &'a Partitioned,
    dir: &'a Path,
    label: String,
    piece_bytes: u64,
    files: SortedFiles<'a>,
    records: Vec<u8>,
    order: Vec<u128>,
    key: Vec<u8>,
}

impl<'a> HistorySorter<'a> {
    pub(super) fn new(
        factory: &'a FileFactory,
        history: &'a Partitioned,
        dir: &'a Path,
        label: String,
    ) -> Self {
        Self {
            history,
            dir,
            files: factory.files(Family::Hist, &label),
            label,
            piece_bytes: PIECE_BYTES,
            records: Vec::new(),
            order: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Writes the rows of the next partition; partitions must come in ascending order.
    pub(super) fn partition(&mut self, partition: usize) -> Result<(), IndexError> {
        let spill = &self.history.spill;
        let mut next = spill.read(partition, 0, self.piece_bytes, &mut self.records)?;
        order_rows(&self.records, &mut self.order)?;
        if next.is_none() {
            return self.each(|key, files| files.push(key, &[]));
        }
        let mut runs: Vec<PathBuf> = Vec::new();
        loop {
            let name = format!("history-{}-{partition}-{}.run", self.label, runs.len());
            let mut run = RunWriter::create(self.dir.join(name))?;
            self.each(|key, _| Ok(run.push(key)?))?;
            runs.push(run.finish()?);
            let Some(from) = next else { break };
            next = spill.read(partition, from, self.piece_bytes, &mut self.records)?;
            order_rows(&self.records, &mut self.order)?;
        }
        runs::merge(runs, |key| self.files.push(key, &[]))
    }

    /// Calls `write` with every key of the piece in memory, in order.
    fn each(
        &mut self,
        mut write: impl FnMut(&[u8], &mut SortedFiles<'a>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for &order in &self.order {
            let tail = record(&self.records, order).ok_or_else(damaged_spill)?;
            self.key.clear();
            self.key.push(RowKind::History.tag());
            self.key.extend_from_slice(tail);
            write(&self.key, &mut self.files)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(Family, Vec<PathBuf>), IndexError> {
        self.files.finish()
    }
}

/// Bytes of the record at the start of `bytes`: a key without its first letter.
fn record_len(bytes: &[u8]) -> Option<usize> {
    const KIND_AT: usize = 32 + 4;
    match *bytes.get(KIND_AT)? {
        b'F' => Some(rows::FUNDING_KEY_LEN - 1),
        b'S' => Some(rows::SPENDING_KEY_LEN - 1),
        _ => None,
    }
}

fn record(records: &[u8], order: u128) -> Option<&[u8]> {
    let bytes = records.get((order & u128::from(u32::MAX)) as usize..)?;
    bytes.get(..record_len(bytes)?)
}

/// Fills `order` with (first half of the scripthash, height, place), ascending by the whole key.
fn order_rows(records: &[u8], order: &mut Vec<u128>) -> Result<(), IndexError> {
    order.clear();
    let mut at = 0;
    while at < records.len() {
        let bytes = &records[at..];
        let length = record_len(bytes)
            .filter(|&n| n <= bytes.len())
            .ok_or_else(damaged_spill)?;
        let place = u32::try_from(at).map_err(|_| damaged_spill())?;
        let script = u64::from_be_bytes(bytes[..8].try_into().expect("8 bytes"));
        let height = u32::from_be_bytes(bytes[32..36].try_into().expect("4 bytes"));
        order.push(u128::from(script) << 64 | u128::from(height) << 32 | u128::from(place));
        at += length;
    }
    order.sort_unstable();
    let full = |order: &u128| record(records, *order);
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
