//! From what changes in the index to what sessions are told.
//!
//! One task for a server. It takes the changes as they come, announces a new tip first, and then looks at those of the
//! watched things that the change may have touched, in slices, each once however many sessions watch it. Further changes
//! that arrive meanwhile are added to what is left to look at, so a burst costs no more than its last state. When it falls
//! behind, everything that is watched is looked at again: slower, but nothing is missed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bitcoin::{OutPoint, Txid};
use cairn_utxo_index::{Change, Changes, ChangesEnd, ScriptHash, Touched, View};
use tokio_util::sync::CancellationToken;

use crate::methods::{find_height, find_outpoint};
use crate::server::Server;
use crate::status::{Pace, Reached};

/// Things looked at in one slice.
const SLICE: usize = 128;
/// Time for the status of one script.
const STATUS_TIME: Duration = Duration::from_secs(60);
/// Pause after things could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// What is left to look at.
#[derive(Default)]
struct Pending {
    scripts: HashSet<ScriptHash>,
    outpoints: HashSet<OutPoint>,
    transactions: HashSet<Txid>,
    /// The next part of the registries to look at whole.
    part: Option<usize>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.scripts.is_empty()
            && self.outpoints.is_empty()
            && self.transactions.is_empty()
            && self.part.is_none()
    }

    /// Everything that is watched.
    fn add_all(&mut self) {
        self.part = Some(0);
    }

    /// What a change may have touched and somebody watches.
    fn add(&mut self, server: &Server, change: &Change) {
        match &change.scripts {
            Touched::All => self.add_all(),
            Touched::Set(touched) => self.scripts.extend(
                touched
                    .iter()
                    .filter(|script| server.scripts.is_watched(script)),
            ),
        }
        match &change.outpoints {
            Touched::All => self.add_all(),
            Touched::Set(touched) => {
                self.outpoints.extend(
                    touched
                        .iter()
                        .filter(|outpoint| server.outpoints.is_watched(outpoint)),
                );
                // A transaction's height changes with the existence or confirmation of its outputs.
                if server.transactions.len() > 0 {
                    self.transactions.extend(
                        touched
                            .iter()
                            .map(|outpoint| outpoint.txid)
                            .filter(|txid| server.transactions.is_watched(txid)),
                    );
                }
            }
        }
    }

    /// Takes the next slice.
    fn take(&mut self, server: &Server) -> Slice {
        if let Some(part) = self.part {
            let (scripts, outpoints, transactions) = (
                server.scripts.keys_of_part(part),
                server.outpoints.keys_of_part(part),
                server.transactions.keys_of_part(part),
            );
            self.part = scripts.is_some().then_some(part + 1);
            self.scripts.extend(scripts.into_iter().flatten());
            self.outpoints.extend(outpoints.into_iter().flatten());
            self.transactions.extend(transactions.into_iter().flatten());
        }
        Slice {
            scripts: take_some(&mut self.scripts),
            outpoints: take_some(&mut self.outpoints),
            transactions: take_some(&mut self.transactions),
        }
    }

    /// Puts back what could not be read.
    fn give_back(&mut self, slice: Slice) {
        self.scripts.extend(slice.scripts);
        self.outpoints.extend(slice.outpoints);
        self.transactions.extend(slice.transactions);
    }
}

fn take_some<T: Copy + Eq + std::hash::Hash>(set: &mut HashSet<T>) -> Vec<T> {
    let some: Vec<T> = set.iter().take(SLICE).copied().collect();
    if some.len() == set.len() {
        // Gives back the memory of a large change as well.
        *set = HashSet::new();
    } else {
        some.iter().for_each(|item| {
            set.remove(item);
        });
    }
    some
}

#[derive(Default)]
struct Slice {
    scripts: Vec<ScriptHash>,
    outpoints: Vec<OutPoint>,
    transactions: Vec<Txid>,
}

impl Slice {
    /// Looks at everything in the slice. Gives back what could not be read.
    fn look(self, server: &Server, view: &View) -> Self {
        let mut left = Self::default();
        let number = view.sequence();
        for script in self.scripts {
            let from = server.statuses.begin(view, &script);
            let pace = Pace::Until(Instant::now() + STATUS_TIME);
            // No limit here: a subscription that was taken is kept up, however much its script grows.
            match server.statuses.status(view, &script, from, 0, pace) {
                Ok(Reached::End(status)) => server.scripts.found(&script, number, status),
                Ok(Reached::More(_)) | Err(_) => left.scripts.push(script),
            }
        }
        for outpoint in self.outpoints {
            match find_outpoint(view, &outpoint) {
                Ok(status) => server.outpoints.found(&outpoint, number, status),
                Err(_) => left.outpoints.push(outpoint),
            }
        }
        for txid in self.transactions {
            match find_height(view, &txid) {
                Ok(height) => {
                    let height = height.map(|height| height.max(0));
                    server.transactions.found(&txid, number, height);
                }
                Err(_) => left.transactions.push(txid),
            }
        }
        left
    }

    fn is_empty(&self) -> bool {
        self.scripts.is_empty() && self.outpoints.is_empty() && self.transactions.is_empty()
    }
}

/// Tells sessions what changes, until the server stops. `changes` was taken before any session could subscribe.
pub(crate) async fn run(server: Arc<Server>, mut changes: Changes, stop: CancellationToken) {
    let mut pending = Pending::default();
    let mut view: Option<Arc<View>> = None;
    if let Some(first) = server.index.view() {
        server.announce(&first);
        warm(&server, &first);
        view = Some(first);
    }
    while !stop.is_cancelled() {
        let change = if pending.is_empty() {
            tokio::select! {
                () = stop.cancelled() => return,
                change = changes.recv() => change.map(Some),
            }
        } else {
            changes.try_recv()
        };
        match change {
            Ok(Some(change)) => {
                if view
                    .as_ref()
                    .is_none_or(|view| view.sequence() < change.view.sequence())
                {
                    server.announce(&change.view);
                    if view.is_none() || change.connected.len() > 1 {
                        warm(&server, &change.view);
                    }
                    view = Some(Arc::clone(&change.view));
                }
                pending.add(&server, &change);
                continue;
            }
            Ok(None) => {}
            Err(ChangesEnd::Lagged(missed)) => {
                tracing::debug!(
                    chain = server.chain,
                    missed,
                    "fell behind; everything watched is looked at again"
                );
                if let Some(newest) = server.index.view() {
                    server.announce(&newest);
                    view = Some(newest);
                }
                pending.add_all();
                continue;
            }
            Err(ChangesEnd::Closed) => return,
        }
        let Some(current) = view.clone() else {
            pending = Pending::default();
            continue;
        };
        let slice = pending.take(&server);
        if slice.is_empty() {
            continue;
        }
        let looker = Arc::clone(&server);
        match tokio::task::spawn_blocking(move || slice.look(&looker, &current)).await {
            Ok(left) if left.is_empty() => {}
            Ok(left) => {
                tracing::warn!(
                    chain = server.chain,
                    scripts = left.scripts.len(),
                    "the index cannot be read for notifications; trying again"
                );
                pending.give_back(left);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                }
            }
            Err(failure) => {
                // What the slice held is lost, so all is looked at again.
                tracing::error!(chain = server.chain, %failure, "looking at watched scripts panicked");
                pending.add_all();
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Brings the tree of header proofs up to a view in the background.
fn warm(server: &Arc<Server>, view: &Arc<View>) {
    let (server, view) = (Arc::clone(server), Arc::clone(view));
    drop(tokio::task::spawn_blocking(move || {
        server.proofs.extend(&view)
    }));
}
