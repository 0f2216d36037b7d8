//! An event in the hands of the consumer, and its answer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::subscription::event::Received;
use crate::subscription::shared::{Ack, Returned, Shared};

/// What a delivery says that was dropped.
const NO_ANSWER: &str = "the consumer dropped the event without an answer";

/// An event that waits for its answer: exactly one of [`Delivery::ack`], [`Delivery::nack`] and [`Delivery::release`]. One that
/// is dropped counts as a failure, so that an error on the way is never taken for success.
pub struct Delivery {
    pub(super) shared: Arc<Shared>,
    /// How many of the session are with the consumer.
    pub(super) out: Arc<AtomicUsize>,
    pub(super) event: Arc<Received>,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) failures: u32,
    pub(super) is_counted: bool,
    pub(super) given: Instant,
    pub(super) is_settled: bool,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Delivery({}, attempt {})",
            self.event.id(),
            self.attempt()
        )
    }
}

impl Delivery {
    /// The event.
    pub fn event(&self) -> &Arc<Received> {
        &self.event
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.failures.saturating_add(1)
    }

    /// The fencing value: higher for each active instance after another. A store that refuses lower ones than it has seen
    /// cannot be written by an instance that was replaced while it slept.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this instance is still the active one as far as is known. When it is not, the event was given, or will be
    /// given, to another.
    pub fn is_current(&self) -> bool {
        self.shared.state.borrow().allows(self.epoch)
    }

    /// It was handled. The acknowledgement is sent with others soon after; should the process end before, the event is given
    /// out again.
    pub fn ack(mut self) {
        self.settle(false);
        let counted = (self.is_counted || self.failures > 0).then(|| self.event.id().to_owned());
        self.shared.acknowledge(Ack {
            epoch: self.epoch,
            origin: self.event.origin(),
            counted,
            is_buried: false,
        });
        self.shared.settled.notify_one();
    }

    /// It could not be handled: it is given out again after a pause, or goes to the dead letters. `reason` is kept there.
    pub fn nack(mut self, reason: impl fmt::Display) {
        self.fail(reason.to_string());
    }

    /// It was not tried: it is given out again, and no failure is counted.
    pub fn release(mut self) {
        self.is_settled = true;
        self.out.fetch_sub(1, Ordering::Relaxed);
        self.give_back(None);
    }

    fn fail(&mut self, reason: String) {
        self.settle(true);
        self.give_back(Some(reason));
    }

    fn give_back(&self, reason: Option<String>) {
        self.shared.give_back(Returned {
            epoch: self.epoch,
            seq: self.seq,
            event: Arc::clone(&self.event),
            failures: self.failures,
            is_counted: self.is_counted,
            reason,
        });
    }

    fn settle(&mut self, failed: bool) {
        self.is_settled = true;
        self.out.fetch_sub(1, Ordering::Relaxed);
        if failed {
            self.shared.counts.failures.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(observer) = &self.shared.observer {
            observer.settled(self.event.kind(), self.given.elapsed(), failed);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.is_settled {
            self.fail(NO_ANSWER.to_owned());
        }
    }
}
