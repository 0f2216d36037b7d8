//! Block files `blk*.dat` of a node, read without the node.
//!
//! Layout of a file: records of magic (4 bytes), size (u32, little-endian) and block, in the order in which the node got
//! the blocks; zeros between or behind them where the node set space aside; all of it XORed with the folder's key.
//!
//! [`BlockFiles`] finds and reads blocks by hash. [`scan`] is the reader of one file, on its own so that it can be tested
//! and fuzzed without a file system.

mod diagnose;
mod files;
mod reading;
mod records;
mod scan;
mod tree;
mod xor;

pub(crate) use files::Event;
pub use files::{BlockFiles, ScanSummary};
pub(crate) use reading::header_hash;
pub use scan::{
    Found, HEADER_LEN, MAX_BLOCK, MAX_BLOCK_ELEMENTS, MIN_BLOCK, PREFIX_LEN, ReadAt, ScanEnd,
    ScanRules, scan,
};
pub(crate) use tree::HeaderTree;
pub use xor::{KEY_FILE, KEY_LEN, XorKey};
