//! Reading blocks by hash: runs of neighbours, each by one read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bitcoin::BlockHash;
use cairn_utxo_chain::{Family, Header};

use super::files::{BlockFiles, cannot_read};
use super::records::Record;
use super::xor::XorKey;
use crate::source::{RawUnit, SourceError, Unit};

/// Unwanted bytes between two wanted blocks (a stale block, padding) that are rather read over than jumped.
const GAP_BYTES: u64 = 256 * 1024;
/// Bytes read and freed from obfuscation at a time, so that the second step finds them in the processor's cache.
const PIECE_BYTES: usize = 256 * 1024;

impl BlockFiles {
    /// Cuts the wanted blocks that lie in the files into units in disk order; the second list are those that do not.
    pub(crate) fn plan(
        &self,
        wanted: &[BlockHash],
        unit_bytes: u64,
    ) -> (Vec<Unit>, Vec<BlockHash>) {
        let (places, lacking) = self.state().places(wanted);
        let units = runs(&places, unit_bytes)
            .map(|run| Unit {
                blocks: run.iter().map(|record| record.hash).collect(),
                bytes: run.iter().map(|record| u64::from(record.size)).sum(),
                place: u64::from(run[0].file) + 1,
            })
            .collect();
        (units, lacking)
    }

    /// Reads blocks, each run of neighbours by one read. The second list are blocks that the files lack, or that are no
    /// longer where they were.
    ///
    /// # Errors
    /// [`SourceError::Refused`] if a file that is there cannot be read.
    pub fn read(&self, blocks: &[BlockHash]) -> Result<(RawUnit, Vec<BlockHash>), SourceError> {
        let state = self.state();
        let (places, mut lacking) = state.places(blocks);
        let runs: Vec<(&[Record], PathBuf)> = runs(&places, u64::MAX)
            .map(|run| (run, state.path(run[0].file)))
            .collect();
        drop(state);

        let family = self.network().family();
        let key = self.rules().key;
        let total: u64 = runs.iter().map(|(run, _)| span(run)).sum();
        let mut unit = RawUnit {
            bytes: vec![0; total as usize],
            blocks: Vec::with_capacity(places.len()),
        };
        let mut base = 0;
        let mut moved = false;
        for (run, path) in runs {
            let len = span(run) as usize;
            let read = match File::open(&path) {
                Ok(file) => read_piecewise(
                    &file,
                    &mut unit.bytes[base..base + len],
                    run[0].offset,
                    &key,
                )
                .map_err(|error| cannot_read(&path, &error))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(cannot_read(&path, &error)),
            };
            for record in run {
                let start = base + (record.offset - run[0].offset) as usize;
                let range = start..start + record.size as usize;
                if range.end <= base + read
                    && header_hash(family, &unit.bytes[range.clone()]) == Some(record.hash)
                {
                    unit.blocks.push((record.hash, range));
                } else {
                    tracing::warn!(
                        file = %path.display(), offset = record.offset, block = %record.hash,
                        "the block is no longer where the scan saw it"
                    );
                    lacking.push(record.hash);
                    moved = true;
                }
            }
            base += len;
        }
        if moved {
            self.write().distrust();
        }
        Ok((unit, lacking))
    }
}

/// Bytes from the first to the last byte of a run.
fn span(run: &[Record]) -> u64 {
    let last = &run[run.len() - 1];
    last.offset + u64::from(last.size) - run[0].offset
}

/// Cuts sorted records into runs that are read in one go.
fn runs(places: &[Record], unit_bytes: u64) -> impl Iterator<Item = &[Record]> {
    let mut rest = places;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut end = first.offset + u64::from(first.size);
        let mut count = 1;
        for record in &rest[1..] {
            let record_end = record.offset + u64::from(record.size);
            let near = record.file == first.file
                && record.offset >= end
                && record.offset - end <= GAP_BYTES;
            if !near || record_end - first.offset > unit_bytes {
                break;
            }
            end = record_end;
            count += 1;
        }
        let (run, after) = rest.split_at(count);
        rest = after;
        Some(run)
    })
}

/// Fills `buffer` from `offset`, freeing each piece of obfuscation while it is hot; returns the bytes read.
fn read_piecewise(file: &File, buffer: &mut [u8], offset: u64, key: &XorKey) -> io::Result<usize> {
    let piece_bytes = if key.is_zero() {
        buffer.len().max(1)
    } else {
        PIECE_BYTES
    };
    let mut done = 0;
    for piece in buffer.chunks_mut(piece_bytes) {
        let mut filled = 0;
        while filled < piece.len() {
            match file.read_at(&mut piece[filled..], offset + (done + filled) as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        key.apply(&mut piece[..filled], offset + done as u64);
        done += filled;
        if filled < piece.len() {
            break;
        }
    }
    Ok(done)
}

/// The block hash of serialized bytes that begin with a header.
pub(crate) fn header_hash(family: Family, block: &[u8]) -> Option<BlockHash> {
    let (header, _) = Header::decode(family, block).ok()?;
    Some(header.hash)
}
