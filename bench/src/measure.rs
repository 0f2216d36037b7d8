//! What a process used: read by the process itself at its end and handed to the parent as one JSON line.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Use of the machine by one run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Wall time, seconds.
    pub(crate) wall: f64,
    /// Processor time of all threads, user and system, seconds.
    pub(crate) cpu: f64,
    /// Largest resident set, bytes.
    pub(crate) peak_bytes: u64,
    /// Bytes handed to the file system by write calls.
    pub(crate) written_bytes: u64,
    /// Bytes left on disk.
    pub(crate) size_bytes: u64,
    /// Blocks and transactions handled.
    pub(crate) blocks: u64,
    /// Transactions handled.
    pub(crate) txs: u64,
}

/// The current process's use so far; `size_of` is the folder whose size counts.
pub(crate) fn usage_of_self(
    wall: f64,
    size_of: Option<&Path>,
    blocks: u64,
    txs: u64,
) -> Result<Usage> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak_kib = field(&status, "VmHWM:").context("no VmHWM in /proc/self/status")?;
    let io = fs::read_to_string("/proc/self/io")?;
    let written_bytes = field(&io, "wchar:").context("no wchar in /proc/self/io")?;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Fields 14 and 15, counted after the command name, which may hold blanks.
    let after = stat
        .rsplit_once(')')
        .context("/proc/self/stat has no name")?
        .1;
    let ticks: Vec<u64> = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse().ok())
        .collect();
    ensure!(ticks.len() == 2, "/proc/self/stat is too short");
    const TICKS_PER_SECOND: f64 = 100.0;
    Ok(Usage {
        wall,
        cpu: ticks.iter().sum::<u64>() as f64 / TICKS_PER_SECOND,
        peak_bytes: peak_kib * 1024,
        written_bytes,
        size_bytes: size_of.map_or(Ok(0), folder_bytes)?,
        blocks,
        txs,
    })
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

/// Sum of the sizes of all files below a folder.
pub(crate) fn folder_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() {
            folder_bytes(&entry.path())?
        } else {
            meta.len()
        };
    }
    Ok(bytes)
}

/// Runs this program again with `args` in a process of its own and reads the [`Usage`] it prints.
pub(crate) fn run_self(args: &[&str]) -> Result<Usage> {
    let exe = std::env::current_exe()?;
    let output = Command::new(exe)
        .args(args)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "{args:?} failed: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("the run printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("the run printed {line:?}"))
}

/// The middle of an odd number of runs, by wall time.
pub(crate) fn median(mut runs: Vec<Usage>) -> Usage {
    runs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    runs[runs.len() / 2]
}
