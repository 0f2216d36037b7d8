//! The data folder belongs to one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, bail};

/// The file whose lock is the right to the folder; it holds the owner's process id.
const LOCK_FILE: &str = "cairn.lock";
/// Longest process id that is read from the file, characters.
const PID_CHARS_MAX: u64 = 20;

/// The right to a data folder; given back when dropped, and by the system when the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct DataDirLock {
    _file: File,
}

impl DataDirLock {
    /// Takes the folder, making it if it is missing.
    pub(crate) fn take(dir: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the data folder {}", dir.display()))?;
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner = read_pid(&mut file)
                    .map_or("another process".to_owned(), |pid| format!("process {pid}"));
                bail!(
                    "the data folder {} is in use by {owner}; stop it first or name another folder",
                    dir.display()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { _file: file })
    }
}

/// The owner of a folder that is in use; `None` when nobody has it.
pub(crate) fn owner(dir: &Path) -> Option<String> {
    let mut file = File::open(dir.join(LOCK_FILE)).ok()?;
    match file.try_lock_shared() {
        Ok(()) => None,
        Err(_) => Some(read_pid(&mut file).unwrap_or_else(|| "unknown".to_owned())),
    }
}

fn read_pid(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(PID_CHARS_MAX).read_to_string(&mut text).ok()?;
    let pid = text.trim();
    (!pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())).then(|| pid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("data");
        assert_eq!(owner(&folder), None);
        let lock = DataDirLock::take(&folder).expect("free");
        let pid = std::process::id().to_string();
        assert_eq!(owner(&folder), Some(pid.clone()));
        let error = DataDirLock::take(&folder).expect_err("taken").to_string();
        assert!(
            error.contains(&format!("in use by process {pid}")),
            "{error}"
        );
        drop(lock);
        assert_eq!(owner(&folder), None);
        DataDirLock::take(&folder).expect("free again");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "x").expect("writable");
        let error = format!(
            "{:#}",
            DataDirLock::take(&file.join("data")).expect_err("below a file")
        );
        assert!(
            error.contains("cannot make the data folder") && error.contains("file/data"),
            "{error}"
        );
    }
}
