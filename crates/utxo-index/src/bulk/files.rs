//! Sorted files of one family, ready to be ingested.
//!
//! A file that is closed goes to the disk at once, on a thread of its own, while the workers write the next ones. Ingestion, which
//! makes sure of every file once more, then has little left to wait for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

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
    closed: mpsc::Sender<PathBuf>,
}

impl FileFactory {
    pub(super) fn new(dir: &Path, tuning: &Tuning) -> Result<Self, IndexError> {
        const FAMILIES: [Family; 8] = [
            Family::Blocks,
            Family::Txs,
            Family::Confs,
            Family::Outs,
            Family::Hist,
            Family::Edges,
            Family::Addrs,
            Family::Assets,
        ];
        let options = FAMILIES.map(|family| (family, bulk_file_options(family, tuning)));
        Ok(Self {
            dir: dir.to_owned(),
            options: options.into_iter().collect(),
            closed: start_syncer()?,
        })
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
            closed: self.closed.clone(),
            open: None,
            finished: Vec::new(),
        }
    }
}

/// Starts the thread that brings closed files to the disk. It ends when nobody can name it a file any more.
fn start_syncer() -> Result<mpsc::Sender<PathBuf>, IndexError> {
    let (closed, paths) = mpsc::channel::<PathBuf>();
    std::thread::Builder::new()
        .name("bulk-sync".into())
        .spawn(move || {
            for path in paths {
                // A file that was ingested meanwhile has another name, and is on the disk. A disk that fails tells the
                // ingestion, which syncs every file again.
                if let Err(error) = File::open(&path).and_then(|file| file.sync_data()) {
                    tracing::debug!(path = %path.display(), %error, "not synced ahead");
                }
            }
        })?;
    Ok(closed)
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
    closed: mpsc::Sender<PathBuf>,
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
            // Without the thread the file is synced when it is ingested.
            let _ = self.closed.send(file.path.clone());
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
