//! What the background task of a subscription and its consumer tell each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::subscription::event::{Origin, Received};

/// What an instance of a subscription does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is connecting and registering.
    Acquiring,
    /// Another instance is active; this one takes over when that one ends.
    Standby,
    /// It reads and gives out events.
    Active,
    /// It has ended.
    Released,
}

impl Role {
    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquiring => "acquiring",
            Self::Standby => "standby",
            Self::Active => "active",
            Self::Released => "released",
        }
    }
}

/// The state of an instance, now.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) role: Role,
    /// Number of the session; 0 when it is not active.
    pub(super) epoch: u64,
    /// Until when nothing can have been taken over by another.
    pub(super) valid_until: Instant,
}

impl State {
    /// Whether events of this session may be given out.
    pub(super) fn allows(&self, epoch: u64) -> bool {
        epoch != 0 && self.epoch == epoch && Instant::now() < self.valid_until
    }
}

/// How it went since the instance was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscriptionStats {
    /// Events given to the consumer, repetitions included.
    pub given: u64,
    /// Entries acknowledged, also those that were filtered out.
    pub acknowledged: u64,
    /// Entries that did not pass the filters.
    pub filtered: u64,
    /// Failures of the consumer.
    pub failures: u64,
    /// Events that went to the dead letters.
    pub dead_letters: u64,
    /// Entries known to be lost because they were trimmed before they were handled.
    pub lost: u64,
    /// Dead letters that were replayed with success.
    pub replayed: u64,
    /// Entries read and not acknowledged yet.
    pub pending: u64,
}

/// Hears of each event when it was handled. Called from the consumer's task: it must be quick.
pub trait SubscriptionObserver: Send + Sync {
    /// An event of this kind was answered for, after so long; `failed` when it was not handled.
    fn settled(&self, kind: &str, took: Duration, failed: bool);
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) given: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    pub(super) filtered: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) dead_letters: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) replayed: AtomicU64,
    pub(super) pending: AtomicU64,
}

pub(super) fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// An event that is done with.
#[derive(Debug)]
pub(super) struct Ack {
    pub(super) epoch: u64,
    pub(super) origin: Origin,
    /// Set when failures of the event were counted, to be forgotten.
    pub(super) counted: Option<String>,
    /// Whether it went to the dead letters instead of being handled.
    pub(super) is_buried: bool,
}

/// An event that the consumer gave back.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) event: Arc<Received>,
    /// Failures before this attempt.
    pub(super) failures: u32,
    /// Whether this attempt was counted before it began.
    pub(super) is_counted: bool,
    /// Why it failed; `None` when it was not tried.
    pub(super) reason: Option<String>,
}

pub(super) struct Shared {
    pub(super) state: watch::Sender<State>,
    acks: Mutex<Vec<Ack>>,
    /// There are acks, or it is time to stop.
    pub(super) wake: Notify,
    returned: Mutex<Vec<Returned>>,
    /// The consumer has settled something.
    pub(super) settled: Notify,
    pub(super) counts: Counts,
    pub(super) observer: Option<Arc<dyn SubscriptionObserver>>,
}

/// A view of a subscription: its role and its figures, also after it ended.
#[derive(Clone)]
pub struct Watch(pub(super) Arc<Shared>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({:?})", self.role())
    }
}

impl Watch {
    /// What the instance does now.
    pub fn role(&self) -> Role {
        self.0.state.borrow().role
    }

    /// How it went so far.
    pub fn stats(&self) -> SubscriptionStats {
        self.0.stats()
    }
}

/// Nobody panics while holding these locks; what they hold is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(observer: Option<Arc<dyn SubscriptionObserver>>) -> Self {
        let state = State {
            role: Role::Acquiring,
            epoch: 0,
            valid_until: Instant::now(),
        };
        Self {
            state: watch::Sender::new(state),
            acks: Mutex::default(),
            wake: Notify::new(),
            returned: Mutex::default(),
            settled: Notify::new(),
            counts: Counts::default(),
            observer,
        }
    }

    pub(super) fn acknowledge(&self, ack: Ack) {
        lock(&self.acks).push(ack);
        self.wake.notify_one();
    }

    pub(super) fn take_acks(&self) -> Vec<Ack> {
        std::mem::take(&mut *lock(&self.acks))
    }

    pub(super) fn give_back(&self, returned: Returned) {
        lock(&self.returned).push(returned);
        self.settled.notify_one();
    }

    pub(super) fn take_returned(&self) -> Vec<Returned> {
        std::mem::take(&mut *lock(&self.returned))
    }

    pub(super) fn set(&self, role: Role, epoch: u64) {
        self.state.send_modify(|state| {
            state.role = role;
            state.epoch = epoch;
        });
    }

    pub(super) fn set_valid_until(&self, until: Instant) {
        self.state.send_modify(|state| state.valid_until = until);
    }

    pub(super) fn stats(&self) -> SubscriptionStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        SubscriptionStats {
            given: of(&counts.given),
            acknowledged: of(&counts.acknowledged),
            filtered: of(&counts.filtered),
            failures: of(&counts.failures),
            dead_letters: of(&counts.dead_letters),
            lost: of(&counts.lost),
            replayed: of(&counts.replayed),
            pending: of(&counts.pending),
        }
    }
}

/// Ready when it is time to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender there is nobody left to work for.
    let _ = stop.wait_for(|stop| *stop).await;
}
