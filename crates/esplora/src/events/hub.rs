//! The last changes, kept once for all who listen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bitcoin::Txid;
use cairn_utxo_index::{BlockRef, Change, Changes, ChangesEnd, ScriptHash, Touched};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Changes kept for those who are behind or come back.
const KEPT_MAX: usize = 4_096;
/// Bytes of all changes kept, about.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Clients that listen at once.
const LISTENERS_MAX: usize = 2_000;

/// A change, without the view it leads to: views hold on to the store.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) sequence: u64,
    pub(super) tip: BlockRef,
    pub(super) count: usize,
    pub(super) vsize: u64,
    pub(super) connected: Vec<BlockRef>,
    pub(super) disconnected: Vec<BlockRef>,
    pub(super) scripts: Touched<ScriptHash>,
    pub(super) added: Vec<Txid>,
    pub(super) confirmed: Vec<Txid>,
    pub(super) removed: Vec<Txid>,
}

impl Told {
    fn of(change: &Change) -> Self {
        let mempool = change.view.mempool();
        Self {
            sequence: change.view.sequence(),
            tip: change.view.tip(),
            count: mempool.len(),
            vsize: mempool.vsize(),
            connected: change.connected.clone(),
            disconnected: change.disconnected.clone(),
            scripts: change.scripts.clone(),
            added: change.added.clone(),
            confirmed: change.confirmed.clone(),
            removed: change.removed.clone(),
        }
    }

    fn bytes(&self) -> usize {
        const ENTRY: usize = 48;
        let scripts = match &self.scripts {
            Touched::All => 0,
            Touched::Set(set) => set.len(),
        };
        let lists = self.added.len() + self.confirmed.len() + self.removed.len();
        let blocks = self.connected.len() + self.disconnected.len();
        256 + ENTRY * (scripts + lists + blocks)
    }
}

/// What comes after a place.
pub(super) enum Next {
    /// This change.
    Told(Arc<Told>),
    /// Changes that are not kept any more.
    Lost,
    /// Nothing will come any more.
    End,
}

#[derive(Default)]
struct Kept {
    told: VecDeque<Arc<Told>>,
    bytes: usize,
}

/// The last changes.
pub(crate) struct Hub {
    /// The run of the process.
    pub(super) epoch: u64,
    /// Places for listeners.
    pub(super) places: Arc<Semaphore>,
    kept: Mutex<Kept>,
    /// The number of the newest change; closed at the end.
    newest: watch::Sender<u64>,
    /// Held so that the sender above stays open while nobody listens.
    seen: watch::Receiver<u64>,
    stop: CancellationToken,
}

impl Hub {
    /// Begins to keep changes. Must be called on a runtime.
    pub(crate) fn start(changes: Changes, epoch: u64, stop: CancellationToken) -> Arc<Self> {
        let (newest, seen) = watch::channel(0);
        let hub = Arc::new(Self {
            epoch,
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
            kept: Mutex::default(),
            newest,
            seen,
            stop,
        });
        // The task must not keep the hub alive, nor with it whoever waits for it.
        let weak = Arc::downgrade(&hub);
        let stop = hub.stop.clone();
        tokio::spawn(async move {
            let mut changes = changes;
            loop {
                let received = tokio::select! {
                    () = stop.cancelled() => return,
                    received = changes.recv() => received,
                };
                let Some(hub) = weak.upgrade() else {
                    return;
                };
                match received {
                    Ok(change) => hub.keep(Told::of(&change)),
                    Err(ChangesEnd::Lagged(missed)) => {
                        tracing::warn!(missed, "changes came faster than they were told on");
                        *hub.lock() = Kept::default();
                    }
                    Err(ChangesEnd::Closed) => {
                        hub.stop.cancel();
                        return;
                    }
                }
            }
        });
        hub
    }

    fn keep(&self, told: Told) {
        let sequence = told.sequence;
        let mut kept = self.lock();
        kept.bytes += told.bytes();
        kept.told.push_back(Arc::new(told));
        while kept.told.len() > KEPT_MAX || (kept.bytes > KEPT_BYTES_MAX && kept.told.len() > 1) {
            if let Some(oldest) = kept.told.pop_front() {
                kept.bytes -= oldest.bytes();
            }
        }
        drop(kept);
        self.newest.send_replace(sequence);
    }

    /// What comes after a change; waits for it.
    pub(super) async fn next(&self, after: u64) -> Next {
        let mut newest = self.seen.clone();
        loop {
            newest.mark_unchanged();
            if let Some(next) = self.after(after) {
                return next;
            }
            tokio::select! {
                () = self.stop.cancelled() => return Next::End,
                changed = newest.changed() => {
                    if changed.is_err() {
                        return Next::End;
                    }
                }
            }
        }
    }

    fn after(&self, after: u64) -> Option<Next> {
        let kept = self.lock();
        // Numbers follow each other without a gap.
        let first = kept.told.front()?.sequence;
        let newest = kept.told.back()?.sequence;
        if newest <= after {
            return None;
        }
        let at = (after + 1).checked_sub(first);
        let told = at.and_then(|at| kept.told.get(usize::try_from(at).ok()?));
        Some(told.map_or(Next::Lost, |told| Next::Told(Arc::clone(told))))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Each change of the list is whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
