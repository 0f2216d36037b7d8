//! Sorting more keys than fit into memory: sorted runs on disk and one merge over them.
//!
//! Used where records cannot be cut into even partitions: the rows of one very busy script, and addresses, whose
//! first letters are nearly all the same.
//!
//! ```text
//! run = (length u16 LE, length bytes)*        ascending
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const READ_BUFFER_BYTES: usize = 256 << 10;

/// Writes one run.
pub(super) struct RunWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

impl RunWriter {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        Ok(Self { path, out })
    }

    pub(super) fn push(&mut self, key: &[u8]) -> io::Result<()> {
        let length = u16::try_from(key.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "key over 64 KiB"))?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(key)
    }

    pub(super) fn finish(mut self) -> io::Result<PathBuf> {
        self.out.flush()?;
        Ok(self.path)
    }
}

struct RunReader {
    input: BufReader<File>,
}

impl RunReader {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            input: BufReader::with_capacity(READ_BUFFER_BYTES, File::open(path)?),
        })
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 2];
        match self.input.read_exact(&mut length) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(e),
        }
        let mut key = vec![0; usize::from(u16::from_le_bytes(length))];
        self.input.read_exact(&mut key)?;
        Ok(Some(key))
    }
}

/// Hands every distinct key of the runs to `sink`, ascending, and removes the runs.
pub(super) fn merge<E: From<io::Error>>(
    runs: Vec<PathBuf>,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut readers = Vec::with_capacity(runs.len());
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for path in &runs {
        let mut reader = RunReader::open(path)?;
        if let Some(key) = reader.next()? {
            heads.push(Reverse((key, readers.len())));
        }
        readers.push(reader);
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(Reverse((key, from))) = heads.pop() {
        if let Some(next) = readers[from].next()? {
            heads.push(Reverse((next, from)));
        }
        if last.as_ref() != Some(&key) {
            sink(&key)?;
            last = Some(key);
        }
    }
    drop(readers);
    for path in runs {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn merges_as_a_sorted_set_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut expected = BTreeSet::new();
        let mut runs = Vec::new();
        for run in 0..5u32 {
            let keys: BTreeSet<Vec<u8>> = (0..2_000u32)
                .map(|i| {
                    (i.wrapping_mul(run * 2 + 1) % 3_001)
                        .to_string()
                        .into_bytes()
                })
                .collect();
            let mut writer = RunWriter::create(dir.path().join(run.to_string())).expect("creates");
            for key in &keys {
                writer.push(key).expect("writes");
            }
            runs.push(writer.finish().expect("writes"));
            expected.extend(keys);
        }
        let mut got = Vec::new();
        merge::<io::Error>(runs, |key| {
            got.push(key.to_vec());
            Ok(())
        })
        .expect("merges");
        assert!(got.iter().eq(expected.iter()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
    }
}
