//! All headers the index knows, stale ones included, and which of them are the best chain.
//!
//! [`HeaderTree`] holds every header once, packed (the parent hash is a reference), in one growing list that indexer and
//! readers share. [`Chain`] is the best chain of one view: for each height the number of a header in that list, in
//! chunks that successive views share, so that a new block copies some kilobytes and not the whole chain.

mod chain;
mod open;
mod tree;

pub(crate) use chain::Chain;
pub(crate) use open::{Opened, load};
pub(crate) use tree::{HeaderTree, NodeId, NodeMarks};
