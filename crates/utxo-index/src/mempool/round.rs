//! One comparison with the node's own list of unconfirmed transactions.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bitcoin::{BlockHash, OutPoint, Txid};
use cairn_utxo_chain::Network;
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_node::{MempoolListing, MempoolSource};

use super::MempoolView;
use super::admit::{self, Candidate, ChainOutputs, Conflict, Terms};
use super::changes::Journal;
use crate::index::{Index, IndexError};
use crate::publish::Publisher;
use crate::types::QueryError;
use crate::view::View;

/// Transactions fetched and added in one step. Bounds how long a new block waits for the lock, and the memory of what is on
/// its way.
const STEP_TXS: usize = 500;

/// What a comparison with the node's mempool led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MempoolSync {
    /// There is no view yet.
    NoView,
    /// The node's tip is not the index's, or moved meanwhile: the index has to catch up first. What was done so far stays.
    TipMoved,
    /// The mempool is that of the node when it was asked.
    Complete(MempoolRound),
}

/// What a complete comparison changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MempoolRound {
    /// Transactions that came.
    pub added: u64,
    /// Transactions that went.
    pub removed: u64,
    /// Transactions of the node's list that it no longer had when they were asked for.
    pub vanished: u64,
    /// Transactions left out because an input of theirs is not known; they come with a later comparison.
    pub left_out: u64,
}

impl Index {
    /// Compares the mempool with the node's and takes over the difference, in steps that readers see as they are done.
    /// Returns early with [`IndexError::Stopped`] soon after `stop` is set.
    ///
    /// # Errors
    /// See [`IndexError`]; what was done before stays.
    pub fn sync_mempool(
        &self,
        source: &dyn MempoolSource,
        stop: &AtomicBool,
    ) -> Result<MempoolSync, IndexError> {
        // Before the list: what is added while it is on its way is newer than it.
        let Some(view) = self.view() else {
            return Ok(MempoolSync::NoView);
        };
        let listing = source.list()?;
        if listing.tip != view.tip().hash {
            return Ok(MempoolSync::TipMoved);
        }
        let round = Round {
            publisher: self.publisher(),
            unspendables: self.config().index_unspendables,
            network: self.config().network,
            source,
            stop,
            tip: listing.tip,
            newer_from: view.mempool().next_arrival(),
        };
        round.run(&view, &listing)
    }

    /// Adds transactions that the node has just accepted, so that whoever sent them sees them at once and not with the next
    /// comparison. Those whose parents are not known yet are left to that. Returns how many were added.
    ///
    /// # Errors
    /// [`QueryError::Store`] if the store fails.
    pub fn add_accepted(&self, candidates: Vec<WholeTx>) -> Result<usize, QueryError> {
        let Some(view) = self.view() else {
            return Ok(0);
        };
        let mut outputs = ChainOutputs::new();
        admit::chain_outputs(&view, &candidates, &mut outputs)?;
        let (unspendables, network) = (self.config().index_unspendables, self.config().network);
        let add = |now: &View, mempool: &mut MempoolView, journal: &mut Journal| {
            // A block may have come meanwhile; with that, the outputs read above may be of another chain.
            if now.tip().hash != view.tip().hash {
                outputs.clear();
                if let Err(error) = admit::chain_outputs(now, &candidates, &mut outputs) {
                    return (false, Err(error));
                }
            }
            let mut open = Vec::with_capacity(candidates.len());
            for candidate in candidates {
                match admit::is_open(now, &candidate) {
                    Ok(true) => open.push(candidate),
                    Ok(false) => {}
                    Err(error) => return (false, Err(error)),
                }
            }
            let terms = Terms {
                outputs: &outputs,
                conflict: Conflict::Replace,
                unspendables,
                network,
            };
            mempool.admit(open, terms, journal);
            (!journal.added.is_empty(), Ok(journal.added.len()))
        };
        self.publisher().publish_mempool(add).unwrap_or(Ok(0))
    }
}

/// One comparison at work.
struct Round<'a> {
    publisher: &'a Publisher,
    unspendables: bool,
    network: Network,
    source: &'a dyn MempoolSource,
    stop: &'a AtomicBool,
    tip: BlockHash,
    /// Transactions that arrived from this number on are newer than the list.
    newer_from: u64,
}

/// The tip moved while a comparison was at work.
struct TipMoved;

impl Round<'_> {
    fn run(&self, view: &Arc<View>, listing: &MempoolListing) -> Result<MempoolSync, IndexError> {
        let theirs: HashSet<&Txid> = listing.txids.iter().collect();
        let mut gone: Vec<Txid> = view
            .mempool()
            .entries()
            .map(|entry| entry.txid)
            .filter(|txid| !theirs.contains(txid))
            .collect();
        let new: Vec<Txid> = listing
            .txids
            .iter()
            .filter(|txid| !view.mempool().contains(txid))
            .copied()
            .collect();
        drop(theirs);
        let mut done = MempoolRound::default();
        let mut waiting = Vec::new();
        let mut outputs = ChainOutputs::new();
        let mut steps = new.chunks(STEP_TXS).peekable();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(IndexError::Stopped);
            }
            let ids = steps.next().unwrap_or(&[]);
            let is_last = steps.peek().is_none();
            let mut fresh = Vec::with_capacity(ids.len());
            if !ids.is_empty() {
                for tx in self.source.fetch(ids)? {
                    match tx {
                        Some(tx) => fresh.push(tx),
                        None => done.vanished += 1,
                    }
                }
            }
            admit::chain_outputs(view, &fresh, &mut outputs)?;
            waiting.extend(fresh);
            // Those taken out go in the same step as the first ones that come: a replacement is one step to readers.
            let step = Step {
                gone: std::mem::take(&mut gone),
                candidates: std::mem::take(&mut waiting),
                is_last,
            };
            match self.take(step, &outputs, &mut done) {
                Ok(left) => waiting = left,
                Err(TipMoved) => return Ok(MempoolSync::TipMoved),
            }
            // What is known of the chain is needed again only by those that wait.
            let wanted: HashSet<OutPoint> = waiting
                .iter()
                .flat_map(|candidate: &Candidate| candidate.tx.spends())
                .map(|(_, outpoint)| outpoint)
                .collect();
            outputs.retain(|outpoint, _| wanted.contains(outpoint));
            if is_last {
                done.left_out = waiting.len() as u64;
                return Ok(MempoolSync::Complete(done));
            }
        }
    }

    /// One step, under the lock; fails if the tip is another one by now.
    fn take(
        &self,
        step: Step,
        outputs: &ChainOutputs,
        done: &mut MempoolRound,
    ) -> Result<Vec<Candidate>, TipMoved> {
        let change = |now: &View, mempool: &mut MempoolView, journal: &mut Journal| {
            if now.tip().hash != self.tip {
                return (false, Err(TipMoved));
            }
            for txid in &step.gone {
                for entry in mempool.remove_with_descendants(txid) {
                    journal.remove(&entry);
                }
            }
            let terms = Terms {
                outputs,
                conflict: Conflict::KeepFrom(self.newer_from),
                unspendables: self.unspendables,
                network: self.network,
            };
            let left = mempool.admit(step.candidates, terms, journal);
            let became_loaded = step.is_last && !mempool.is_loaded();
            if became_loaded {
                mempool.set_loaded(true);
            }
            let changed = became_loaded || !journal.added.is_empty() || !journal.removed.is_empty();
            (
                changed,
                Ok((
                    left,
                    journal.added.len() as u64,
                    journal.removed.len() as u64,
                )),
            )
        };
        let (left, added, removed) = self
            .publisher
            .publish_mempool(change)
            .unwrap_or(Err(TipMoved))?;
        done.added += added;
        done.removed += removed;
        Ok(left)
    }
}

/// What one step takes out and in.
struct Step {
    gone: Vec<Txid>,
    candidates: Vec<Candidate>,
    is_last: bool,
}
