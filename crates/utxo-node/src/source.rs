//! The one interface through which the index sees a chain.

use std::ops::Range;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::Header;

/// The best block of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Hash of the best block.
    pub hash: BlockHash,
    /// Its height; genesis is 0.
    pub height: u32,
}

/// Headers that lead from a block the caller knows up to the source's tip.
#[derive(Debug, Clone, Default)]
pub struct HeaderRun {
    /// Height of the first header in `headers`.
    pub start_height: u32,
    /// Ascending, each the parent of the next; the first one's parent is known to the caller (or it is genesis).
    /// Empty when the source's tip itself is known to the caller.
    pub headers: Vec<Header>,
    /// The tip the run leads to.
    pub tip: Option<Tip>,
}

/// A run of blocks that is read in one go: neighbours in one block file, or a batch of requests to a node.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The wanted blocks of this unit.
    pub blocks: Vec<BlockHash>,
    /// Sum of the serialized sizes where known (files), else 0.
    pub bytes: u64,
    /// Which place of the source this is; meaningful to the source alone.
    pub place: u64,
}

/// The bytes of a unit.
#[derive(Debug, Default)]
pub struct RawUnit {
    /// All bytes read, already without XOR obfuscation.
    pub bytes: Vec<u8>,
    /// Each wanted block with its place in `bytes`. The block hash has been verified against the header;
    /// whether the transactions fit the merkle root has not.
    pub blocks: Vec<(BlockHash, Range<usize>)>,
}

/// Why a source could not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Trying again can help: the node is starting, busy or not reachable.
    #[error("{0}")]
    Unavailable(String),
    /// Trying again does not help until the operator acts: wrong network, refused password, pruned blocks.
    #[error("{0}")]
    Refused(String),
    /// The source does not have this block or transaction.
    #[error("{0}")]
    Missing(String),
    /// The source's data are damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl SourceError {
    /// Whether the same call can succeed later without anybody's action.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// A chain that can be read: by the index while it syncs, and by readers in light mode.
///
/// Calls block the thread; implementations are shared between threads.
pub trait ChainSource: Send + Sync {
    /// A short name for logs: `node http://127.0.0.1:18443` (without credentials) or `files /path`.
    fn describe(&self) -> String;

    /// The best block now.
    fn tip(&self) -> Result<Tip, SourceError>;

    /// Headers from the youngest block that `known` knows (it returns its height) up to the best tip (or up to height
    /// `until`). With nothing known the run starts at genesis.
    fn headers(
        &self,
        known: &dyn Fn(&BlockHash) -> Option<u32>,
        until: Option<u32>,
    ) -> Result<HeaderRun, SourceError>;

    /// Cuts the wanted blocks into units of about `unit_bytes` in the order in which they are read best (disk order).
    /// Wanted blocks that the files lack go into units that are fetched from the node.
    fn plan(&self, wanted: &[BlockHash], unit_bytes: u64) -> Result<Vec<Unit>, SourceError>;

    /// Reads one unit. Called by several threads at once.
    fn read(&self, unit: &Unit) -> Result<RawUnit, SourceError>;

    /// One block by hash, by the surest way (the node when there is one).
    fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError>;

    /// One confirmed transaction by the block that holds it (light mode).
    fn transaction(&self, txid: &Txid, block: &BlockHash) -> Result<Vec<u8>, SourceError>;

    /// Returns when there may be a new tip other than `tip`, or after `timeout`. A hint, not a promise.
    fn wait(&self, tip: &BlockHash, timeout: Duration);
}
