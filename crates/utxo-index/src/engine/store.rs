//! The three databases: opening, writing, ingesting.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rust_rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, IngestExternalFileOptions, ReadOptions, WriteBatch,
    WriteOptions,
};

use super::options::{db_options, family_options};
use super::snapshot::{Pinned, Snapshot};
use super::{Family, StoreError, Tuning};
use crate::rows::{Db, VERSION_KEY};

/// The family that RocksDB demands.
const DEFAULT_FAMILY: &str = "default";
/// All keys begin with an ASCII letter, so they lie between these.
const FIRST_KEY: &[u8] = &[0x00];
const AFTER_KEYS: &[u8] = &[0x80];

/// The handle of a family of an open database.
pub(super) fn handle(db: &DB, family: Family) -> &ColumnFamily {
    db.cf_handle(family.name())
        .expect("every family of a database is opened with it")
}

/// Many values at once; `keys` ascend.
pub(super) fn multi_get<'a, K: AsRef<[u8]>>(
    db: &'a DB,
    family: Family,
    keys: &[K],
    options: &ReadOptions,
) -> Result<Vec<Option<Pinned<'a>>>, StoreError> {
    debug_assert!(
        keys.is_sorted_by(|a, b| a.as_ref() <= b.as_ref()),
        "keys of a multi-get ascend"
    );
    db.batched_multi_get_pinned_cf_opt(
        handle(db, family),
        keys.iter().map(AsRef::as_ref),
        true,
        options,
    )
    .into_iter()
    .map(|value| value.map_err(|error| StoreError::new("read rows", db.path(), &error)))
    .collect()
}

/// Whether a write is on the disk when the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Survives a power loss.
    Synced,
    /// Survives the end of the process.
    Logged,
}

/// One open database.
pub(crate) struct Store {
    db: Arc<DB>,
    kind: Db,
    path: PathBuf,
}

impl Store {
    fn open(kind: Db, dir: &Path, tuning: &Tuning) -> Result<Self, StoreError> {
        let path = dir.join(kind.name());
        fs::create_dir_all(&path)
            .map_err(|error| StoreError::io("create the folder", &path, &error))?;
        let families = Family::of_db(kind).map(|family| {
            ColumnFamilyDescriptor::new(family.name(), family_options(family, tuning))
        });
        let db = DB::open_cf_descriptors(&db_options(kind, tuning), &path, families)
            .map_err(|error| StoreError::new("open the database", &path, &error))?;
        Ok(Self {
            db: Arc::new(db),
            kind,
            path,
        })
    }

    /// Which database this is.
    pub(crate) fn kind(&self) -> Db {
        self.kind
    }

    /// Its folder. Files to be ingested should be written on the same file system.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// One value as it is now.
    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.db
            .get_cf(handle(&self.db, family), key)
            .map_err(|error| StoreError::new("read a row", &self.path, &error))
    }

    /// Many values as they are now; `keys` ascend.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
    ) -> Result<Vec<Option<Pinned<'_>>>, StoreError> {
        multi_get(&self.db, family, keys, &ReadOptions::default())
    }

    /// An empty batch for this database.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch {
            db: &self.db,
            kind: self.kind,
            inner: WriteBatch::default(),
        }
    }

    /// Writes a batch: all of it or nothing, also across families, also if the process is killed.
    pub(crate) fn write(&self, batch: Batch<'_>, durability: Durability) -> Result<(), StoreError> {
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Synced);
        self.db
            .write_opt(&batch.inner, &options)
            .map_err(|error| StoreError::new("write rows", &self.path, &error))
    }

    /// Takes sorted files over into a family: all or none. The files disappear from where they were. Their keys must be
    /// disjoint among each other.
    pub(crate) fn ingest(&self, family: Family, files: Vec<PathBuf>) -> Result<(), StoreError> {
        if files.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        // The files were written by this process a moment ago; reading them again would double the work.
        options.set_verify_checksums_before_ingest(false);
        options.set_snapshot_consistency(false);
        self.db
            .ingest_external_file_cf_opts(handle(&self.db, family), &options, files)
            .map_err(|error| StoreError::new("take over sorted files", &self.path, &error))
    }

    /// Whether any family holds a row other than the version row.
    pub(crate) fn has_rows(&self) -> Result<bool, StoreError> {
        let snapshot = self.snapshot();
        for family in Family::of_db(self.kind) {
            let mut cursor = snapshot.range_cursor(family, Vec::new(), None);
            cursor.seek(&[]);
            while let Some(key) = cursor.key()? {
                if key != VERSION_KEY {
                    return Ok(true);
                }
                cursor.next();
            }
        }
        Ok(false)
    }

    /// Removes every row but one, which is written anew in the same step: a database is never without it. Nobody may be
    /// reading. Gives the disk space back.
    pub(crate) fn clear(&self, kept_key: &[u8], kept_value: &[u8]) -> Result<(), StoreError> {
        let failed =
            |error: rust_rocksdb::Error| StoreError::new("empty the database", &self.path, &error);
        let mut batch = WriteBatch::default();
        for family in Family::of_db(self.kind) {
            let handle = handle(&self.db, family);
            if family.name() != DEFAULT_FAMILY {
                // Whole files at once; what straddles the memtable goes with the range below.
                self.db
                    .delete_file_in_range_cf(handle, FIRST_KEY, AFTER_KEYS)
                    .map_err(failed)?;
            }
            batch.delete_range_cf(handle, FIRST_KEY, AFTER_KEYS);
        }
        batch.put_cf(handle(&self.db, self.bookkeeping()), kept_key, kept_value);
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db.write_opt(&batch, &options).map_err(failed)?;
        self.flush()?;
        for family in Family::of_db(self.kind) {
            self.db
                .compact_range_cf(handle(&self.db, family), None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }

    /// The family of the version row.
    fn bookkeeping(&self) -> Family {
        match self.kind {
            Db::Txstore => Family::Blocks,
            Db::History => Family::Marks,
            Db::Cache => Family::Cache,
        }
    }

    /// Writes all memtables to files.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        for family in Family::of_db(self.kind) {
            self.db
                .flush_cf(handle(&self.db, family))
                .map_err(|error| StoreError::new("flush", &self.path, &error))?;
        }
        Ok(())
    }

    /// The state at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.db)
    }

    /// A number that RocksDB knows about a family, such as `rocksdb.estimate-num-keys`.
    pub(crate) fn property(&self, family: Family, name: &str) -> Option<u64> {
        self.db
            .property_int_value_cf(handle(&self.db, family), name)
            .ok()
            .flatten()
    }
}

/// Rows to be written together.
pub(crate) struct Batch<'a> {
    db: &'a DB,
    kind: Db,
    inner: WriteBatch,
}

impl Batch<'_> {
    /// Adds or replaces a row.
    pub(crate) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        debug_assert_eq!(family.db(), self.kind);
        self.inner.put_cf(handle(self.db, family), key, value);
    }

    /// Removes a row; fine if there is none.
    pub(crate) fn delete(&mut self, family: Family, key: &[u8]) {
        debug_assert_eq!(family.db(), self.kind);
        self.inner.delete_cf(handle(self.db, family), key);
    }
}

/// The databases of one index, opened together.
pub(crate) struct Stores {
    /// Blocks, transactions, outputs.
    pub(crate) txstore: Store,
    /// Script history and spend edges.
    pub(crate) history: Store,
    /// Folded results.
    pub(crate) cache: Store,
    /// What they were opened with; the bulk load writes its files with it.
    pub(crate) tuning: Tuning,
}

impl Stores {
    /// Opens or creates the three databases in `dir`.
    pub(crate) fn open(dir: &Path, tuning: Tuning) -> Result<Self, StoreError> {
        Ok(Self {
            txstore: Store::open(Db::Txstore, dir, &tuning)?,
            history: Store::open(Db::History, dir, &tuning)?,
            cache: Store::open(Db::Cache, dir, &tuning)?,
            tuning,
        })
    }

    /// The store of a database.
    pub(crate) fn of(&self, db: Db) -> &Store {
        match db {
            Db::Txstore => &self.txstore,
            Db::History => &self.history,
            Db::Cache => &self.cache,
        }
    }

    /// Whether `txstore` or `history` hold any row of a block.
    pub(crate) fn has_rows(&self) -> Result<bool, StoreError> {
        Ok(self.txstore.has_rows()? || self.history.has_rows()?)
    }

    /// Takes files over into a family of whichever database it belongs to.
    pub(crate) fn ingest(&self, family: Family, files: Vec<PathBuf>) -> Result<(), StoreError> {
        self.of(family.db()).ingest(family, files)
    }
}
