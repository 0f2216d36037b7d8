//! The first load of an index: an external sort.
//!
//! The rows of a whole chain are wanted in key order, and keys are hashes: inserting them as blocks come means random
//! writes, and sorting them later means writing everything twice. So the chain is cut by hash first and each cut is
//! sorted once, in memory:
//!
//! ```text
//! blocks ──add──▶ txs, edges (by txid) ──join──▶ T C O S files
//!            └──▶ blocks (by hash)        └────▶ history (by script) ──history──▶ H files
//!                   └──────────────────────────────────────────────finish──▶ B X M files, D rows, t
//! ```
//!
//! 1. [`add`] reads every block once, checks it, and spills transactions and inputs by transaction id.
//! 2. [`join`] sorts each partition, writes its rows as sorted files and joins outputs with the inputs that spend
//!    them: no previous output is ever looked up.
//! 3. [`history`] sorts the rows of each script and writes them.
//! 4. The files are ingested at the bottom level as they are finished; nothing is left to compact. The `D` rows, the
//!    marks and the tip come last.
//!
//! Memory depends on the size of a partition and of the write buffers, not on the chain. Chains larger than
//! [`LoadTuning::checkpoint_bytes`] are loaded in rounds; after each a [`manifest`] is written, and a load that was
//! killed goes on from there. A smaller load that was killed starts again.

mod add;
mod block;
mod collected;
mod files;
mod finish;
mod history;
mod join;
mod load;
mod manifest;
mod prefetch;
mod runs;
mod spill;
mod workers;

pub(crate) use load::{BulkJob, load};

/// How a first load trades memory for speed. The defaults suit every chain; tests use small ones to reach the paths
/// of large chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTuning {
    /// Bytes of spilled records a partition is aimed at.
    pub partition_bytes: u64,
    /// Bytes of spill after which a resume point is written; a chain below this has none.
    pub checkpoint_bytes: u64,
    /// Bytes of blocks read in one go.
    pub unit_bytes: u64,
    /// Bytes of write buffers, all spills together.
    pub buffer_bytes: usize,
}

impl Default for LoadTuning {
    fn default() -> Self {
        Self {
            partition_bytes: 4 << 20,
            checkpoint_bytes: 8 << 30,
            unit_bytes: 8 << 20,
            buffer_bytes: 192 << 20,
        }
    }
}
