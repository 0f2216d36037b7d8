//! A frozen state of one database that can be kept and shared.

use std::path::PathBuf;
use std::sync::Arc;

use rust_rocksdb::{
    DB, DBPinnableSlice, DBRawIteratorWithThreadMode, ReadOptions, SnapshotWithThreadMode,
};

use super::{Family, StoreError};

/// A value that lies in the block cache as long as this lives.
pub(crate) type Pinned<'a> = DBPinnableSlice<'a>;

/// One database as it was at one moment. Keeps the database open; holds back the removal of older row versions, so it
/// should not live much longer than a request or the current tip.
pub(crate) struct Snapshot {
    // Order matters: fields are dropped from the top, and both must go before the database.
    point: ReadOptions,
    inner: SnapshotWithThreadMode<'static, DB>,
    db: Arc<DB>,
    path: PathBuf,
}

/// How a cursor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// All keys between the bounds begin with one prefix of the family's extractor: filters help.
    Prefix,
    /// The bounds span several prefixes.
    Total,
}

impl Snapshot {
    pub(super) fn new(db: &Arc<DB>) -> Self {
        let db = Arc::clone(db);
        // SAFETY: the binding's snapshot borrows the database; the reference made here lives as long as `db`, the
        // `Arc` stored beside it, whose allocation never moves. The snapshot is dropped before the `Arc` (field
        // order), and neither it nor the lifetime leaves this type: every method ties its result to `&self`.
        #[allow(unsafe_code)]
        let forever: &'static DB = unsafe { &*Arc::as_ptr(&db) };
        let inner = forever.snapshot();
        let mut point = ReadOptions::default();
        point.set_snapshot(&inner);
        let path = db.path().to_path_buf();
        Self {
            point,
            inner,
            db,
            path,
        }
    }

    /// One value.
    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Result<Option<Pinned<'_>>, StoreError> {
        self.db
            .get_pinned_cf_opt(super::store::handle(&self.db, family), key, &self.point)
            .map_err(|error| StoreError::new("read a row", &self.path, &error))
    }

    /// Many values in one go, in the order of `keys`, which must ascend.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: Family,
        keys: &[K],
    ) -> Result<Vec<Option<Pinned<'_>>>, StoreError> {
        super::store::multi_get(&self.db, family, keys, &self.point)
    }

    /// A cursor over the keys that begin with `prefix`, which is at least as long as the family's extractor.
    pub(crate) fn prefix_cursor(&self, family: Family, prefix: &[u8]) -> Cursor<'_> {
        let upper = after_prefix(prefix);
        self.cursor(family, prefix.to_vec(), upper, Order::Prefix)
    }

    /// A cursor over the keys of `lower..upper`, whatever they begin with; no `upper` is the end of the family.
    pub(crate) fn range_cursor(
        &self,
        family: Family,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
    ) -> Cursor<'_> {
        self.cursor(family, lower, upper, Order::Total)
    }

    fn cursor(
        &self,
        family: Family,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
        order: Order,
    ) -> Cursor<'_> {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.inner);
        options.set_iterate_lower_bound(lower);
        if let Some(upper) = upper {
            options.set_iterate_upper_bound(upper);
        }
        match order {
            Order::Prefix => options.set_prefix_same_as_start(true),
            Order::Total => options.set_total_order_seek(true),
        }
        let inner = self
            .db
            .raw_iterator_cf_opt(super::store::handle(&self.db, family), options);
        Cursor {
            inner,
            path: &self.path,
        }
    }
}

/// The first key after all keys that begin with `prefix`; `None` when there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(end);
        }
        end.pop();
    }
    None
}

/// A key and its value.
pub(crate) type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// Walks over the keys between two bounds.
pub(crate) struct Cursor<'a> {
    inner: DBRawIteratorWithThreadMode<'a, DB>,
    path: &'a std::path::Path,
}

impl Cursor<'_> {
    /// Goes to the first key at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.inner.seek(key);
    }

    /// Goes to the last key at or before `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        self.inner.seek_for_prev(key);
    }

    /// One key on. Only after a key was there.
    pub(crate) fn next(&mut self) {
        self.inner.next();
    }

    /// One key back. Only after a key was there.
    pub(crate) fn prev(&mut self) {
        self.inner.prev();
    }

    /// The key here; `None` at the end of the range. An I/O failure also ends the range, so it is reported here.
    pub(crate) fn key(&self) -> Result<Option<&[u8]>, StoreError> {
        match self.inner.key() {
            Some(key) => Ok(Some(key)),
            None => self
                .inner
                .status()
                .map(|()| None)
                .map_err(|error| StoreError::new("scan rows", self.path, &error)),
        }
    }

    /// Key and value here, as [`Cursor::key`].
    pub(crate) fn item(&self) -> Result<Option<KeyValue<'_>>, StoreError> {
        match self.inner.item() {
            Some(item) => Ok(Some(item)),
            None => self.key().map(|_| None),
        }
    }
}
