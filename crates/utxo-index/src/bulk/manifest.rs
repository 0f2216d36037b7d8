//! The resume point of a first load: a small JSON file beside the spills, replaced atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bitcoin::BlockHash;
use serde::{Deserialize, Serialize};

/// Grows when the meaning of a field or of the spills changes; a manifest of another version starts the load again.
const VERSION: u32 = 2;

/// Which stage a load is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// Blocks are read and spilled.
    Add,
    /// Partitions by transaction are sorted, written and joined with the inputs that spend them.
    Join,
    /// Partitions by script are sorted and written.
    History,
    /// Only the rows that declare the load complete are missing.
    Finish,
}

/// Bytes of each spill that belong to the resume point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpillLengths {
    pub(super) blocks: u64,
    pub(super) txs: u64,
    pub(super) edges: u64,
    pub(super) history: u64,
}

/// Everything a later process needs to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: u32,
    /// The tip this load ends at.
    pub(super) target: BlockHash,
    pub(super) target_height: u32,
    /// Partitions of the spills by transaction, as bits.
    pub(super) tx_bits: u32,
    /// Partitions of the spills by script and by block, as bits.
    pub(super) script_bits: u32,
    pub(super) block_bits: u32,
    pub(super) stage: Stage,
    pub(super) lengths: SpillLengths,
    /// Heights already spilled, as inclusive ranges, ascending.
    pub(super) added: Vec<(u32, u32)>,
    /// Partitions of the current stage already written, from the first.
    pub(super) partitions_done: usize,
    /// Sorted runs of addresses written so far, by file name.
    pub(super) address_runs: Vec<String>,
    /// The same of rows of assets.
    pub(super) asset_runs: Vec<String>,
    /// Blocks, transactions and bytes read so far, for progress and the closing line.
    pub(super) blocks: u64,
    pub(super) txs: u64,
    pub(super) bytes: u64,
}

impl Manifest {
    pub(super) fn new(target: BlockHash, target_height: u32) -> Self {
        Self {
            version: VERSION,
            target,
            target_height,
            tx_bits: 0,
            script_bits: 0,
            block_bits: 0,
            stage: Stage::Add,
            lengths: SpillLengths::default(),
            added: Vec::new(),
            partitions_done: 0,
            address_runs: Vec::new(),
            asset_runs: Vec::new(),
            blocks: 0,
            txs: 0,
            bytes: 0,
        }
    }

    fn path(dir: &Path) -> PathBuf {
        dir.join("manifest.json")
    }

    /// The manifest of an interrupted load, or `None` when there is none that this version can continue.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        let text = fs::read(Self::path(dir)).ok()?;
        match serde_json::from_slice::<Self>(&text) {
            Ok(manifest) if manifest.version == VERSION => Some(manifest),
            Ok(other) => {
                tracing::warn!(
                    version = other.version,
                    "the interrupted load is of another version: starting again"
                );
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the interrupted load's manifest is damaged: starting again");
                None
            }
        }
    }

    /// Makes this the resume point. What it refers to must be durable already.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let fresh = dir.join("manifest.json.new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&fresh, Self::path(dir))?;
        File::open(dir)?.sync_all()
    }
}

/// A set of heights as a bitmap.
#[derive(Debug, Clone)]
pub(super) struct Heights {
    words: Vec<u64>,
}

impl Heights {
    pub(super) fn new(count: u32) -> Self {
        Self {
            words: vec![0; count.div_ceil(64) as usize],
        }
    }

    pub(super) fn from_ranges(count: u32, ranges: &[(u32, u32)]) -> Self {
        let mut heights = Self::new(count);
        for &(from, to) in ranges {
            for height in from..=to.min(count.saturating_sub(1)) {
                heights.insert(height);
            }
        }
        heights
    }

    /// False when the height was there already.
    pub(super) fn insert(&mut self, height: u32) -> bool {
        let word = &mut self.words[height as usize / 64];
        let bit = 1 << (height % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    pub(super) fn contains(&self, height: u32) -> bool {
        self.words
            .get(height as usize / 64)
            .is_some_and(|word| word & (1 << (height % 64)) != 0)
    }

    pub(super) fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for height in 0..self.words.len() as u32 * 64 {
            if !self.contains(height) {
                continue;
            }
            match ranges.last_mut() {
                Some((_, to)) if *to + 1 == height => *to = height,
                _ => ranges.push((height, height)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_manifest_survives_its_file_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(Manifest::read(dir.path()), None);
        let mut manifest = Manifest::new(BlockHash::from_byte_array([7; 32]), 99);
        manifest.added = vec![(0, 3), (9, 9)];
        manifest.write(dir.path()).expect("writes");
        assert_eq!(Manifest::read(dir.path()), Some(manifest.clone()));
        manifest.version += 1;
        manifest.write(dir.path()).expect("writes");
        assert_eq!(Manifest::read(dir.path()), None);
        fs::write(Manifest::path(dir.path()), b"{").expect("writes");
        assert_eq!(Manifest::read(dir.path()), None);
    }

    #[test]
    fn heights_and_ranges_are_the_same_thing() {
        let ranges = [(0, 0), (2, 70), (128, 129)];
        let heights = Heights::from_ranges(130, &ranges);
        assert_eq!(heights.ranges(), ranges);
        assert!(heights.contains(70) && !heights.contains(71) && !heights.contains(500));
    }
}
