//! From changes to the events of one client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitcoin::Txid;
use cairn_http::HttpError;
use cairn_utxo_index::{BlockRef, View};
use tokio::sync::OwnedSemaphorePermit;

use super::hub::{Hub, Next, Told};
use super::interest::Interest;
use super::place::Place;
use super::write::{self, Event};
use crate::error::Failure;
use crate::state::App;

/// Blocks told one by one to a client that comes back.
const PATH_MAX: usize = 1_000;

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    Nowhere,
    Unconfirmed,
    In(BlockRef),
}

/// One client.
pub(super) struct Listener {
    app: App,
    hub: Arc<Hub>,
    interest: Interest,
    /// The last change the client was told of.
    sequence: u64,
    /// What it was told of the transactions it watches.
    told_of: BTreeMap<Txid, Whereabouts>,
    /// Transactions whose whereabouts it has to be told whatever happens.
    new_txs: BTreeSet<Txid>,
    /// Where it begins, if there was something before.
    last: Option<Place>,
    has_begun: bool,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    pub(super) fn new(
        app: App,
        interest: Interest,
        view: &View,
        last: Option<Place>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let hub = app.hub();
        // A place of this run is a place in the list of changes; of another run, only its tip says something.
        let sequence = match &last {
            Some(last) if last.epoch == hub.epoch && last.sequence <= view.sequence() => {
                last.sequence
            }
            _ => view.sequence(),
        };
        let new_txs = interest.txs.clone();
        Self {
            app,
            hub,
            interest,
            sequence,
            told_of: BTreeMap::new(),
            new_txs,
            last,
            has_begun: false,
            _place: place,
        }
    }

    /// The next events; waits for them. `None` at the end. Being dropped while it waits loses nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let events = if self.has_begun {
                match self.hub.next(self.sequence).await {
                    Next::Told(told) => self.tell(told).await,
                    Next::Lost => self.resync().await,
                    Next::End => return None,
                }
            } else {
                self.begin().await
            };
            match events {
                Ok(events) if events.is_empty() => {}
                Ok(events) => return Some(events),
                Err(error) => {
                    // The client comes back with the place it has.
                    tracing::warn!(error = error.text(), "a listener could not be told");
                    return None;
                }
            }
        }
    }

    /// Takes a message of the client.
    pub(super) async fn take(&mut self, text: &str) -> Result<Vec<Event>, HttpError> {
        let new = self.interest.take(&self.app, text)?;
        self.told_of
            .retain(|txid, _| self.interest.txs.contains(txid));
        self.new_txs.extend(new);
        let view = self.app.view()?;
        self.about_txs(view, None).await
    }

    /// The first events: where everything stands, or what happened since the client was last here.
    async fn begin(&mut self) -> Result<Vec<Event>, HttpError> {
        let view = self.app.view()?;
        let (mut events, sequence) = match &self.last {
            None => (vec![write::state("state", &view)], view.sequence()),
            // The list of changes goes on from there, or says that it does not.
            Some(last) if last.epoch == self.hub.epoch && last.sequence == self.sequence => {
                (Vec::new(), self.sequence)
            }
            Some(last) => (self.since(&view, last), view.sequence()),
        };
        let tip = view.tip();
        events.extend(self.about_txs(view, None).await?);
        self.has_begun = true;
        self.reached(sequence, tip, &mut events);
        Ok(events)
    }

    /// What can be said to a client that was at a place which is not in the list of changes.
    fn since(&self, view: &View, last: &Place) -> Vec<Event> {
        let mut events = Vec::new();
        let path = view.path_from(&last.tip, PATH_MAX);
        if let (true, Some((left, came))) = (self.interest.blocks, &path) {
            events.extend(write::reorg(left));
            events.extend(came.iter().map(write::block));
        }
        if path.is_none() || !self.interest.is_of_blocks_alone() {
            events.push(write::state("resync", view));
        }
        events
    }

    /// After a gap.
    async fn resync(&mut self) -> Result<Vec<Event>, HttpError> {
        let view = self.app.view()?;
        let (sequence, tip) = (view.sequence(), view.tip());
        let mut events = vec![write::state("resync", &view)];
        self.new_txs.clone_from(&self.interest.txs);
        events.extend(self.about_txs(view, None).await?);
        self.reached(sequence, tip, &mut events);
        Ok(events)
    }

    /// The events of one change.
    async fn tell(&mut self, told: Arc<Told>) -> Result<Vec<Event>, HttpError> {
        let mut events = Vec::new();
        if self.interest.blocks {
            events.extend(write::reorg(&told.disconnected));
            events.extend(told.connected.iter().map(write::block));
        }
        if self.interest.mempool {
            events.extend(write::mempool(&told));
        }
        for (script, address) in &self.interest.scripts {
            if told.scripts.contains(script) {
                events.push(write::script(script, address.as_deref()));
            }
        }
        if !self.interest.txs.is_empty() {
            let view = self.app.view()?;
            events.extend(self.about_txs(view, Some(&told)).await?);
        }
        self.reached(told.sequence, told.tip, &mut events);
        Ok(events)
    }

    /// Notes how far the client is, and gives the last event that id. The last thing to happen to a change: a wait that is
    /// given up before does not count.
    fn reached(&mut self, sequence: u64, tip: BlockRef, events: &mut [Event]) {
        self.sequence = sequence;
        if let Some(last) = events.last_mut() {
            let place = Place {
                epoch: self.hub.epoch,
                sequence,
                tip: tip.hash,
            };
            last.id = Some(place.to_string());
        }
    }

    /// Tells where watched transactions are now, if that is new to the client.
    async fn about_txs(
        &mut self,
        view: Arc<View>,
        told: Option<&Told>,
    ) -> Result<Vec<Event>, HttpError> {
        let mut wanted: BTreeSet<Txid> = self.new_txs.clone();
        if let Some(told) = told {
            if told.connected.is_empty() && told.disconnected.is_empty() {
                let lists = [&told.added, &told.confirmed, &told.removed];
                let named = lists.into_iter().flatten();
                wanted.extend(named.filter(|txid| self.interest.txs.contains(*txid)));
            } else {
                wanted.extend(&self.interest.txs);
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let find = move || -> Result<Vec<(Txid, Whereabouts)>, Failure> {
            let mut found = Vec::with_capacity(wanted.len());
            for txid in wanted {
                let whereabouts = if view.mempool().contains(&txid) {
                    Whereabouts::Unconfirmed
                } else {
                    match view.confirming_block(&txid)? {
                        Some(block) => Whereabouts::In(block),
                        None => Whereabouts::Nowhere,
                    }
                };
                found.push((txid, whereabouts));
            }
            Ok(found)
        };
        let found = self.app.pool.run(find).await?.map_err(HttpError::from)?;
        self.new_txs.clear();
        let mut events = Vec::new();
        for (txid, whereabouts) in found {
            if self.told_of.insert(txid, whereabouts) == Some(whereabouts) {
                continue;
            }
            let block = match &whereabouts {
                Whereabouts::In(block) => Some(block),
                Whereabouts::Nowhere | Whereabouts::Unconfirmed => None,
            };
            let known = whereabouts != Whereabouts::Nowhere;
            events.push(write::tx(&txid, known, block));
        }
        Ok(events)
    }
}
