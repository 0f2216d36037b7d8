//! Sorted files of one family, ready to be ingested.

use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use rust_rocksdb::{Options, SstFileWriter};

use crate::engine::{Family, Tuning, bulk_file_options};
use crate::index::IndexError;

/// Size at which a file is closed and the next begun, bytes of keys and values.
const FILE_BYTES: u64 = 128 << 20;

/// Makes the files of a load.
pub(super) struct FileFactory {
    dir: PathBuf,
    options: HashMap<Family, Options>,
}

impl FileFactory {
    pub(super) fn new(dir: &Path, tuning: &Tuning) -> Self {
        const FAMILIES: [Family; 7] = [
            Family::Blocks,
            Family::Txs,
            Family::Confs,
            Family::Outs,
            Family::Hist,
            Family::Edges,
            Family::Addrs,
        ];
        let options = FAMILIES.map(|family| (family, bulk_file_options(family, tuning)));
        Self {
            dir: dir.to_owned(),
            options: options.into_iter().collect(),
        }
    }

    /// A writer for ascending rows of one family. `label` tells the files of several writers of one family apart.
    pub(super) fn files(&self, family: Family, label: &str) -> SortedFiles<'_> {
        let name = format!("{family:?}-{label}").to_lowercase();
        let options = &self.options[&family];
        SortedFiles {
            dir: &self.dir,
            family,
            name,
            options,
            open: None,
            finished: Vec::new(),
        }
    }
}

struct OpenFile<'a> {
    path: PathBuf,
    writer: SstFileWriter<'a>,
    bytes: u64,
}

/// Writes ascending rows of one family to as many files as needed.
pub(super) struct SortedFiles<'a> {
    dir: &'a Path,
    family: Family,
    name: String,
    options: &'a Options,
    open: Option<OpenFile<'a>>,
    finished: Vec<PathBuf>,
}

impl SortedFiles<'_> {
    /// Appends a row; its key must be greater than the one before.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        if self.open.is_none() {
            self.open()?;
        }
        let Some(file) = &mut self.open else {
            return Ok(());
        };
        file.writer
            .put(key, value)
            .map_err(|error| failed(&file.path, &error))?;
        file.bytes += (key.len() + value.len()) as u64;
        if file.bytes >= FILE_BYTES {
            self.close()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn open(&mut self) -> Result<(), IndexError> {
        let path = self
            .dir
            .join(format!("{}-{}.sst", self.name, self.finished.len()));
        // A load that was killed between an ingest and the removal of the ingested file's old name left a second name
        // for a file of the database. Writing to it would write into the database: the name must go first.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut writer = SstFileWriter::create(self.options);
        writer.open(&path).map_err(|error| failed(&path, &error))?;
        self.open = Some(OpenFile {
            path,
            writer,
            bytes: 0,
        });
        Ok(())
    }

    #[cold]
    fn close(&mut self) -> Result<(), IndexError> {
        if let Some(mut file) = self.open.take() {
            file.writer
                .finish()
                .map_err(|error| failed(&file.path, &error))?;
            self.finished.push(file.path);
        }
        Ok(())
    }

    /// Closes the last file and names all.
    pub(super) fn finish(mut self) -> Result<(Family, Vec<PathBuf>), IndexError> {
        self.close()?;
        Ok((self.family, self.finished))
    }
}

fn failed(path: &Path, error: &rust_rocksdb::Error) -> IndexError {
    IndexError::Store(format!("writing {}: {error}", path.display()))
}
