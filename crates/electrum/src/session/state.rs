//! What a session knows about its client.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bitcoin::BlockHash;
use tokio::sync::Semaphore;

use super::{Topic, Wake};
use crate::limits::Seat;
use crate::version::{V1_4, Version};

/// Long reads of one session at once: the others wait, so that one client does not take all places.
const HEAVY_PER_SESSION: usize = 2;

/// What a session has said about its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Nothing yet.
    Nothing,
    /// It agreed on one.
    Version(Version),
}

impl Spoken {
    /// The version that answers follow.
    pub(crate) fn version(self) -> Version {
        match self {
            Self::Nothing => V1_4,
            Self::Version(version) => version,
        }
    }
}

/// A tip that a session was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToldTip {
    /// The number of the view it was the tip of.
    pub(crate) view: u64,
    /// Its hash.
    pub(crate) hash: BlockHash,
}

/// A connection's state, shared with its requests in flight.
pub(crate) struct Session {
    /// What it has to be told.
    pub(crate) wake: Arc<Wake>,
    /// The client's address; `None` for a unix socket.
    pub(crate) client: Option<IpAddr>,
    /// Its account, which requests are charged to.
    pub(crate) seat: Seat,
    /// Places for long reads.
    pub(crate) heavy: Arc<Semaphore>,
    version: OnceLock<Version>,
    watched: Mutex<HashSet<Topic>>,
    tip: Mutex<Option<ToldTip>>,
    added_peer: OnceLock<()>,
}

impl Session {
    pub(crate) fn new(client: Option<IpAddr>, seat: Seat) -> Self {
        Self {
            wake: Arc::default(),
            client,
            seat,
            heavy: Arc::new(Semaphore::new(HEAVY_PER_SESSION)),
            version: OnceLock::new(),
            watched: Mutex::default(),
            tip: Mutex::new(None),
            added_peer: OnceLock::new(),
        }
    }

    /// What was agreed on.
    pub(crate) fn spoken(&self) -> Spoken {
        match self.version.get() {
            None => Spoken::Nothing,
            Some(version) => Spoken::Version(*version),
        }
    }

    /// Agrees on a version; `false` if one was agreed on before.
    pub(crate) fn agree(&self, version: Version) -> bool {
        self.version.set(version).is_ok()
    }

    /// `true` at the first call.
    pub(crate) fn first_peer(&self) -> bool {
        self.added_peer.set(()).is_ok()
    }

    /// The subscriptions.
    pub(crate) fn watched(&self) -> MutexGuard<'_, HashSet<Topic>> {
        // Every change under the lock is a single step.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tip it was told last; `None` while it has not asked for tips.
    pub(crate) fn tip(&self) -> MutexGuard<'_, Option<ToldTip>> {
        self.tip.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
