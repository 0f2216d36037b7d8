//! The feed of what changed between successive views.

use std::hash::Hash;
use std::sync::Arc;

use bitcoin::{OutPoint, Txid};
use hashbrown::HashSet;
use tokio::sync::broadcast;

use super::MempoolEntry;
use crate::types::{BlockRef, ScriptHash};
use crate::view::View;

/// Changes that a receiver may be behind before it is told that it missed some. A change of a block holds the ids of all
/// scripts and outputs the block touches, so this bounds memory.
const BEHIND_MAX: usize = 64;
/// Scripts or outputs named in one change; beyond it, the change says that all may have changed.
const TOUCHED_MAX: usize = 1 << 20;

/// Which things may have changed.
#[derive(Debug, Clone)]
pub enum Touched<T> {
    /// Any of them.
    All,
    /// These and no others.
    Set(Arc<HashSet<T>>),
}

impl<T: Eq + Hash> Touched<T> {
    /// Whether this one may have changed.
    pub fn contains(&self, item: &T) -> bool {
        match self {
            Self::All => true,
            Self::Set(set) => set.contains(item),
        }
    }
}

/// What is different in a view from the one before it.
#[derive(Clone)]
pub struct Change {
    /// The new view.
    pub view: Arc<View>,
    /// Blocks that are on the chain now, ascending. Empty after a catch-up too long to tell; compare the tips.
    pub connected: Vec<BlockRef>,
    /// Blocks that are not on the chain any more, from the old tip down.
    pub disconnected: Vec<BlockRef>,
    /// Scripts whose history may be different: touched by a block that came or went, by an unconfirmed transaction that
    /// came or went, or by one that has unconfirmed parents now and had none, or the other way round.
    pub scripts: Touched<ScriptHash>,
    /// Outputs of which existence, confirmation or spender may be different, for the same reasons.
    pub outpoints: Touched<OutPoint>,
    /// Transactions that came into the mempool, in the order of arrival.
    pub added: Vec<Txid>,
    /// Transactions that left the mempool because a connected block holds them.
    pub confirmed: Vec<Txid>,
    /// Transactions that left the mempool for another reason: replaced, evicted, expired, or in conflict with the chain.
    pub removed: Vec<Txid>,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change")
            .field("sequence", &self.view.sequence())
            .field("tip", &self.view.tip())
            .field("connected", &self.connected)
            .field("disconnected", &self.disconnected)
            .field("added", &self.added)
            .field("confirmed", &self.confirmed)
            .field("removed", &self.removed)
            .finish_non_exhaustive()
    }
}

/// Why there is no next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangesEnd {
    /// The receiver fell behind and so many changes are lost to it: it must look at everything again, in the newest view,
    /// and can go on receiving.
    #[error("fell behind by {0} changes")]
    Lagged(u64),
    /// The index is closed.
    #[error("the index is closed")]
    Closed,
}

/// A receiver of changes, from [`crate::Index::changes`]. Every change published after its making comes once and in
/// order; a change whose view is not newer than one already seen ([`View::sequence`]) is old news.
pub struct Changes(broadcast::Receiver<Arc<Change>>);

impl Changes {
    /// Waits for the next change.
    ///
    /// # Errors
    /// See [`ChangesEnd`].
    pub async fn recv(&mut self) -> Result<Arc<Change>, ChangesEnd> {
        self.0.recv().await.map_err(ChangesEnd::from)
    }

    /// Waits for the next change on a plain thread.
    ///
    /// # Errors
    /// See [`ChangesEnd`].
    pub fn blocking_recv(&mut self) -> Result<Arc<Change>, ChangesEnd> {
        self.0.blocking_recv().map_err(ChangesEnd::from)
    }

    /// The next change if there is one already.
    ///
    /// # Errors
    /// See [`ChangesEnd`].
    pub fn try_recv(&mut self) -> Result<Option<Arc<Change>>, ChangesEnd> {
        match self.0.try_recv() {
            Ok(change) => Ok(Some(change)),
            Err(broadcast::error::TryRecvError::Empty) => Ok(None),
            Err(broadcast::error::TryRecvError::Closed) => Err(ChangesEnd::Closed),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Err(ChangesEnd::Lagged(missed)),
        }
    }
}

impl From<broadcast::error::RecvError> for ChangesEnd {
    fn from(error: broadcast::error::RecvError) -> Self {
        match error {
            broadcast::error::RecvError::Closed => Self::Closed,
            broadcast::error::RecvError::Lagged(missed) => Self::Lagged(missed),
        }
    }
}

/// The sending side.
pub(crate) struct Feed(broadcast::Sender<Arc<Change>>);

impl Feed {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }

    pub(crate) fn subscribe(&self) -> Changes {
        Changes(self.0.subscribe())
    }

    pub(crate) fn send(&self, view: Arc<View>, journal: Journal) {
        // An error means that nobody listens.
        let _ = self.0.send(Arc::new(journal.into_change(view)));
    }
}

/// What changes while a new view is made. Bounded: beyond [`TOUCHED_MAX`] it only says that anything may have changed.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) connected: Vec<BlockRef>,
    pub(crate) disconnected: Vec<BlockRef>,
    pub(crate) added: Vec<Txid>,
    pub(crate) confirmed: Vec<Txid>,
    pub(crate) removed: Vec<Txid>,
    scripts: HashSet<ScriptHash>,
    outpoints: HashSet<OutPoint>,
    all: bool,
}

impl Journal {
    /// Gives up on naming what changed.
    pub(crate) fn set_all(&mut self) {
        self.all = true;
        self.scripts = HashSet::new();
        self.outpoints = HashSet::new();
    }

    pub(crate) fn touch_script(&mut self, script: ScriptHash) {
        if !self.all {
            self.scripts.insert(script);
            self.check();
        }
    }

    pub(crate) fn touch_outpoint(&mut self, outpoint: OutPoint) {
        if !self.all {
            self.outpoints.insert(outpoint);
            self.check();
        }
    }

    fn check(&mut self) {
        if self.scripts.len() > TOUCHED_MAX || self.outpoints.len() > TOUCHED_MAX {
            self.set_all();
        }
    }

    /// All scripts and outputs of an unconfirmed transaction.
    pub(crate) fn touch_entry(&mut self, entry: &MempoolEntry) {
        for script in entry.scripts() {
            self.touch_script(*script);
        }
        let tx = entry.tx();
        for input in &tx.input {
            self.touch_outpoint(input.previous_output);
        }
        for (vout, _) in (0u32..).zip(&tx.output) {
            self.touch_outpoint(OutPoint::new(entry.txid, vout));
        }
    }

    /// An unconfirmed transaction that came.
    pub(crate) fn add(&mut self, entry: &MempoolEntry) {
        self.added.push(entry.txid);
        self.touch_entry(entry);
    }

    /// An unconfirmed transaction that went, not into a block.
    pub(crate) fn remove(&mut self, entry: &MempoolEntry) {
        self.removed.push(entry.txid);
        self.touch_entry(entry);
    }

    fn into_change(self, view: Arc<View>) -> Change {
        let (scripts, outpoints) = if self.all {
            (Touched::All, Touched::All)
        } else {
            (
                Touched::Set(Arc::new(self.scripts)),
                Touched::Set(Arc::new(self.outpoints)),
            )
        };
        Change {
            view,
            connected: self.connected,
            disconnected: self.disconnected,
            scripts,
            outpoints,
            added: self.added,
            confirmed: self.confirmed,
            removed: self.removed,
        }
    }
}
