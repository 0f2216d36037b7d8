//! Bringing a complete index forward: headers, undo, and blocks applied in ascending order.
//!
//! Blocks are applied in groups, so that catching up on small blocks does not sync the disk for each. A group goes
//! through fixed steps: its `txstore` rows with their `D` in one synced batch; its `history` rows with their `D` in one
//! synced batch; the `t` row, synced; then a new view. A crash between any two steps leaves whole blocks only, and the
//! next start goes on from the `D` rows.
//!
//! The same code can load an index from genesis, slowly. That makes it an independent check of the bulk path.

mod apply;
mod block;
mod fetch;
mod outputs;
mod touched;
mod undo;

pub(crate) use block::{BlockData, write_history_rows, write_txstore_rows};
pub(crate) use outputs::OutputMap;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use cairn_utxo_node::{ChainSource, HeaderRun, SourceError, Tip};

use crate::engine::{Durability, Family, Stores};
use crate::headers::{HeaderTree, NodeId};
use crate::index::{IndexConfig, IndexError, Phase, SyncState};
use crate::progress::ProgressCell;
use crate::rows::TIP_KEY;

/// Writes the `t` row.
pub(crate) fn write_tip(stores: &Stores, tip: BlockHash) -> Result<(), IndexError> {
    let mut batch = stores.txstore.batch();
    batch.put(Family::Blocks, &TIP_KEY, tip.as_byte_array());
    Ok(stores.txstore.write(batch, Durability::Synced)?)
}

/// One catch-up: everything it works with.
pub(crate) struct Follower<'a> {
    pub(crate) stores: &'a Stores,
    pub(crate) config: &'a IndexConfig,
    pub(crate) tree: &'a RwLock<HeaderTree>,
    pub(crate) progress: &'a ProgressCell,
    pub(crate) source: &'a dyn ChainSource,
    pub(crate) stop: &'a AtomicBool,
    /// Makes a state visible to readers.
    pub(crate) publish: &'a dyn Fn(&mut SyncState),
}

/// What a catch-up did.
pub(crate) struct Followed {
    pub(crate) tip: Tip,
    pub(crate) blocks: u64,
    pub(crate) txs: u64,
    pub(crate) undone: u32,
}

impl Follower<'_> {
    /// Goes to the source's tip as it is now, or to `until` if that is lower and not below the index's own tip.
    pub(crate) fn catch_up(
        &self,
        state: &mut SyncState,
        until: Option<u32>,
    ) -> Result<Followed, IndexError> {
        let mut followed = Followed {
            tip: Tip {
                hash: BlockHash::all_zeros(),
                height: 0,
            },
            blocks: 0,
            txs: 0,
            undone: 0,
        };
        if let Some(target) = self.target(state, until)? {
            let path = self.path(state, target)?;
            if !path.undo.is_empty() || !path.apply.is_empty() {
                let old_len = state.chain.len();
                self.check_depth(&path)?;
                self.undo(state, &path.undo, &mut followed)?;
                self.apply(state, &path.apply, old_len, &mut followed)?;
                if path.apply.is_empty() && state.loaded {
                    (self.publish)(state);
                }
            }
        }
        let tip = state.chain.tip().ok_or_else(|| {
            IndexError::Source(SourceError::Missing(format!(
                "{} has no blocks",
                self.source.describe()
            )))
        })?;
        let tree = self.tree();
        followed.tip = Tip {
            hash: tree.hash(tip),
            height: tree.height(tip),
        };
        drop(tree);
        if !state.loaded {
            write_tip(self.stores, followed.tip.hash)?;
            state.loaded = true;
            (self.publish)(state);
        }
        self.progress.set_phase(Phase::Following, 0);
        Ok(followed)
    }

    /// The block to go to; `None` when there is nothing to do.
    fn target(&self, state: &SyncState, until: Option<u32>) -> Result<Option<NodeId>, IndexError> {
        let known = |hash: &BlockHash| {
            let tree = self.tree();
            tree.find(hash).map(|id| tree.height(id))
        };
        let run = self.source.headers(&known, until)?;
        self.insert(&run)?;
        let tip = match (run.tip, run.headers.last()) {
            (Some(tip), _) => tip.hash,
            (None, Some(header)) => header.hash,
            (None, None) => {
                return Err(IndexError::Source(SourceError::Damaged(format!(
                    "{} named neither headers nor a tip",
                    self.source.describe()
                ))));
            }
        };
        let tree = self.tree();
        let target = tree.find(&tip).ok_or_else(|| {
            IndexError::Source(SourceError::Damaged(format!(
                "{} named tip {tip}, but its headers do not lead there",
                self.source.describe()
            )))
        })?;
        self.progress.set_source_tip(tree.height(target));
        // A chain cut short at `until` is not a chain that lost its tip: never undo for it.
        let cut = until == Some(tree.height(target));
        if cut && state.chain.get(tree.height(target)) == Some(target) {
            return Ok(None);
        }
        Ok(Some(target))
    }

    /// Adds a run of headers to the tree, after checking that it continues what is known.
    fn insert(&self, run: &HeaderRun) -> Result<(), IndexError> {
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        for (height, header) in (run.start_height..).zip(&run.headers) {
            let id = tree.insert(header).map_err(|error| {
                IndexError::Mismatch(format!(
                    "{} is on another chain than this index ({}): {error}",
                    self.source.describe(),
                    self.config.network
                ))
            })?;
            if tree.height(id) != height {
                return Err(IndexError::Source(SourceError::Damaged(format!(
                    "{} says that block {} has height {height}, but its ancestors say {}",
                    self.source.describe(),
                    header.hash,
                    tree.height(id)
                ))));
            }
        }
        Ok(())
    }

    /// Which blocks to undo and which to apply.
    fn path(&self, state: &SyncState, target: NodeId) -> Result<Path, IndexError> {
        let tree = self.tree();
        let fork = match state.chain.tip() {
            None => None,
            Some(tip) => Some(tree.fork_point(tip, target).ok_or_else(|| {
                IndexError::Mismatch(format!(
                    "{} shares no block with this index",
                    self.source.describe()
                ))
            })?),
        };
        let up_to_fork = |from: Option<NodeId>| {
            let mut nodes = Vec::new();
            let mut at = from;
            while let Some(node) = at.filter(|node| Some(*node) != fork) {
                nodes.push(node);
                at = tree.parent(node);
            }
            nodes
        };
        let undo = up_to_fork(state.chain.tip());
        let mut apply = up_to_fork(Some(target));
        apply.reverse();
        Ok(Path { undo, apply })
    }

    fn check_depth(&self, path: &Path) -> Result<(), IndexError> {
        let depth = u32::try_from(path.undo.len()).unwrap_or(u32::MAX);
        let limit = self.config.reorg_depth_max;
        if depth > limit {
            let tree = self.tree();
            let tip = path.undo[0];
            return Err(IndexError::Corrupt(format!(
                "{} is on a chain that leaves this index's {depth} blocks below its tip {} (height {}), more than the \
                 {limit} that are followed without asking; check that the node is on the right chain, then raise the \
                 limit or delete the index folder",
                self.source.describe(),
                tree.hash(tip),
                tree.height(tip)
            )));
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), IndexError> {
        if self.stop.load(Ordering::Relaxed) {
            Err(IndexError::Stopped)
        } else {
            Ok(())
        }
    }

    fn tree(&self) -> std::sync::RwLockReadGuard<'_, HeaderTree> {
        // The tree only grows, and each insertion is complete before the lock is let go.
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way from the index's tip to the source's.
struct Path {
    /// From the tip down, the fork point excluded.
    undo: Vec<NodeId>,
    /// From the fork point up, the fork point excluded.
    apply: Vec<NodeId>,
}
