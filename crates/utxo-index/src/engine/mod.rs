//! The store: RocksDB opened the way this index needs it, and nothing about chains.
//!
//! Three databases ([`Stores`]), each split into column families routed by the first key byte ([`Family`]). The keys
//! keep that byte, so a dump shows the same rows whatever the physical split. No type of the RocksDB binding leaves
//! this crate.

mod error;
mod family;
mod options;
mod snapshot;
mod sorted;
mod store;

pub(crate) use error::StoreError;
pub(crate) use family::Family;
pub(crate) use options::{Tuning, bulk_file_options};
pub(crate) use snapshot::{Cursor, Pinned, Snapshot, after_prefix};
pub(crate) use sorted::SortedRows;
pub(crate) use store::{Durability, Store, Stores};
