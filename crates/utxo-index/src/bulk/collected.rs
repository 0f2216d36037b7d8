//! Rows of the first load that are few: addresses (address search only) and those of assets (Elements only). Collected as
//! sorted runs, merged into files at the end.

use std::io;
use std::path::{Path, PathBuf};

use bitcoin::Script;
use cairn_utxo_chain::{Network, address};

use super::files::SortedFiles;
use super::join::damaged_spill;
use super::runs::{self, RunWriter};
use crate::index::IndexError;
use crate::rows;

/// Entries held in memory before they become a run.
const RUN_ENTRIES: usize = 200_000;

/// Collects the entries of one worker.
pub(super) struct SortedRuns<'a> {
    dir: &'a Path,
    /// Begins the names of the run files.
    name: String,
    entries: Vec<Vec<u8>>,
    runs: Vec<String>,
}

impl<'a> SortedRuns<'a> {
    /// `what` and `label` together tell these runs from all others.
    pub(super) fn new(dir: &'a Path, what: &str, label: &str) -> Self {
        Self {
            dir,
            name: format!("{what}-{label}"),
            entries: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Notes an entry; the same one may come any number of times.
    pub(super) fn push(&mut self, entry: Vec<u8>) -> io::Result<()> {
        self.entries.push(entry);
        if self.entries.len() >= RUN_ENTRIES {
            self.spill()?;
        }
        Ok(())
    }

    /// Notes the address of a script, if it has one.
    pub(super) fn push_address(&mut self, script: &[u8], network: Network) -> io::Result<()> {
        match address::address_of(Script::from_bytes(script), network) {
            Some(address) => self.push(address.into_bytes()),
            None => Ok(()),
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.entries.sort_unstable();
        self.entries.dedup();
        // Only what is left after deduplication takes room; a few busy addresses never become a run.
        if self.entries.len() < RUN_ENTRIES / 2 {
            return Ok(());
        }
        self.write_run()
    }

    fn write_run(&mut self) -> io::Result<()> {
        let name = format!("{}-{}.run", self.name, self.runs.len());
        let mut run = RunWriter::create(self.dir.join(&name))?;
        for entry in self.entries.drain(..) {
            run.push(&entry)?;
        }
        run.finish()?;
        self.runs.push(name);
        Ok(())
    }

    /// Writes what is left and names the runs.
    pub(super) fn finish(mut self) -> io::Result<Vec<String>> {
        self.entries.sort_unstable();
        self.entries.dedup();
        if !self.entries.is_empty() {
            self.write_run()?;
        }
        Ok(self.runs)
    }
}

/// Writes the `a` rows of all runs.
pub(super) fn write_address_rows(
    runs: &[String],
    dir: &Path,
    files: &mut SortedFiles<'_>,
) -> Result<(), IndexError> {
    let paths: Vec<PathBuf> = runs.iter().map(|name| dir.join(name)).collect();
    let mut key = Vec::new();
    runs::merge(paths, |address| {
        let address = std::str::from_utf8(address).map_err(|_| damaged_spill())?;
        key.clear();
        rows::addr_key(address, &mut key);
        files.push(&key, &[])
    })
}

/// Writes the rows of assets of all runs. An entry is a key, and for `i` rows, whose keys all have one length, the value
/// behind it.
pub(super) fn write_asset_rows(
    runs: &[String],
    dir: &Path,
    files: &mut SortedFiles<'_>,
) -> Result<(), IndexError> {
    let paths: Vec<PathBuf> = runs.iter().map(|name| dir.join(name)).collect();
    runs::merge(paths, |entry| {
        let is_issued = entry.first() == Some(&rows::RowKind::Issued.tag());
        let key_length = match is_issued {
            true => rows::HASH_KEY_LEN,
            false => entry.len(),
        };
        let (key, value) = entry
            .split_at_checked(key_length)
            .ok_or_else(damaged_spill)?;
        files.push(key, value)
    })
}
