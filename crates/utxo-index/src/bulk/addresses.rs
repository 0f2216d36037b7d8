//! Addresses of the first load (address search only): collected as sorted runs, merged into `a` rows at the end.

use std::io;
use std::path::{Path, PathBuf};

use bitcoin::{Address, Network, Script};

use super::files::SortedFiles;
use super::join::damaged_spill;
use super::runs::{self, RunWriter};
use crate::index::IndexError;
use crate::rows;

/// Addresses held in memory before they become a run.
const RUN_ADDRESSES: usize = 200_000;

/// Collects the addresses of one worker.
pub(super) struct AddressRuns<'a> {
    dir: &'a Path,
    label: String,
    network: Network,
    addresses: Vec<String>,
    runs: Vec<String>,
}

impl<'a> AddressRuns<'a> {
    pub(super) fn new(dir: &'a Path, label: String, network: Network) -> Self {
        Self {
            dir,
            label,
            network,
            addresses: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Notes the address of a script, if it has one.
    pub(super) fn push(&mut self, script: &[u8]) -> io::Result<()> {
        let Ok(address) = Address::from_script(Script::from_bytes(script), self.network) else {
            return Ok(());
        };
        self.addresses.push(address.to_string());
        if self.addresses.len() >= RUN_ADDRESSES {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.addresses.sort_unstable();
        self.addresses.dedup();
        // Only what is left after deduplication takes room; a few busy addresses never become a run.
        if self.addresses.len() < RUN_ADDRESSES / 2 {
            return Ok(());
        }
        self.write_run()
    }

    fn write_run(&mut self) -> io::Result<()> {
        let name = format!("addresses-{}-{}.run", self.label, self.runs.len());
        let mut run = RunWriter::create(self.dir.join(&name))?;
        for address in self.addresses.drain(..) {
            run.push(address.as_bytes())?;
        }
        run.finish()?;
        self.runs.push(name);
        Ok(())
    }

    /// Writes what is left and names the runs.
    pub(super) fn finish(mut self) -> io::Result<Vec<String>> {
        self.addresses.sort_unstable();
        self.addresses.dedup();
        if !self.addresses.is_empty() {
            self.write_run()?;
        }
        Ok(self.runs)
    }
}

/// Writes the `a` rows of all runs.
pub(super) fn write_rows(
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
