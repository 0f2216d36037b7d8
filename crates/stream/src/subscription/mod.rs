//! Durable subscriptions: events of a stream, each given to its consumer at least once, in order.
//!
//! A [`Subscription`] is one instance. Of any number of instances with the same id one is active; the others stand by and take
//! over within seconds of its end. What an instance did not acknowledge is given out again, by the next one or after a
//! restart, before anything newer.
//!
//! | part | what it is about |
//! | --- | --- |
//! | `group` | the consumer group, and the mark in it that keeps replaced instances from moving it |
//! | `lock` | who is active, and for how long that is certain |
//! | `engine`, `session` | the background task: standing by, reading ahead, acknowledging |
//! | `failures`, `replay` | the counter of failures, the dead letters, and giving them out again |
//! | `registry`, `start` | the registration, and where a new subscription begins |
//! | `admin` | what commands do with subscriptions from outside |
//!
//! Nothing here speaks HTTP, and no handler runs in the background task: a consumer that takes long holds up nobody else.

pub mod admin;
mod delivery;
mod engine;
mod error;
mod event;
mod failures;
mod group;
mod lock;
mod names;
mod options;
mod registry;
mod replay;
mod session;
mod shared;
mod start;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cairn_redis::Redis;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

pub use delivery::Delivery;
use engine::{Engine, Told};
pub use error::SubscriptionError;
pub use event::{Origin, Received};
use failures::{Buried, Dead, Failures};
pub use group::CONSUMER;
use group::Mark;
pub use names::{EventSource, NameError, SubId};
pub use options::{LockTimes, StartFrom, StartFromError, SubscriptionOptions};
use replay::Replays;
use shared::{Ack, Returned, Shared, add};
pub use shared::{Role, SubscriptionObserver, SubscriptionStats, Watch};

/// Batches that are read ahead.
const BATCHES_AHEAD: usize = 2;
/// Pause before a step of the consumer's side is tried again when Redis failed.
const RETRY: Duration = Duration::from_millis(500);
/// How long closing waits for the last acknowledgements.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// What stands in the dead letters for an event during which the process ended again and again.
const ENDED_IN_HANDLER: &str = "the process ended while the event was handled";

/// An event that waits to be given out again.
#[derive(Debug)]
struct Retry {
    event: Arc<Received>,
    due: Instant,
    failures: u32,
    is_counted: bool,
}

/// One instance of a subscription.
///
/// [`Subscription::run`] calls a handler for each event; [`Subscription::next`] gives deliveries that are answered one by one.
/// Errors of Redis are waited out; what is returned as an error ends the subscription.
pub struct Subscription {
    shared: Arc<Shared>,
    options: Arc<SubscriptionOptions>,
    failures: Failures,
    batches: mpsc::Receiver<Told>,
    queue: VecDeque<Arc<Received>>,
    /// Session of what is in `queue` and `retries`.
    epoch: u64,
    /// Deliveries of this session that wait for their answer.
    out: Arc<AtomicUsize>,
    /// By the order in which they were given out first.
    retries: BTreeMap<u64, Retry>,
    /// Given back and not looked at yet.
    returned: VecDeque<Returned>,
    next_seq: u64,
    /// A try at what `returned` needs of Redis failed; the next one is not before.
    not_before: Option<Instant>,
    stop: watch::Sender<bool>,
    state: watch::Receiver<shared::State>,
    engine: Option<JoinHandle<()>>,
    failed: Option<SubscriptionError>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Subscription({}, {:?})",
            self.options.sub_id,
            self.role()
        )
    }
}

impl Subscription {
    /// Starts an instance. It registers, becomes active or stands by, and reads ahead, in a task of its own on the current
    /// runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(redis: Redis, source: EventSource, options: SubscriptionOptions) -> Self {
        Self::start_observed(redis, source, options, None)
    }

    /// The same; `observer` hears of each event that was answered for.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start_observed(
        redis: Redis,
        source: EventSource,
        options: SubscriptionOptions,
        observer: Option<Arc<dyn SubscriptionObserver>>,
    ) -> Self {
        let options = Arc::new(options);
        let shared = Arc::new(Shared::new(observer));
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let (stop, stopped) = watch::channel(false);
        let failures = Failures::new(redis.clone(), &source, &options.sub_id);
        let engine = Engine {
            replays: Replays::new(redis.clone(), &source, &options.sub_id),
            redis,
            source,
            options: Arc::clone(&options),
            shared: Arc::clone(&shared),
            failures: failures.clone(),
            batches: sender,
            stop: stopped,
        };
        Self {
            state: shared.state.subscribe(),
            shared,
            options,
            failures,
            batches,
            queue: VecDeque::new(),
            epoch: 0,
            out: Arc::default(),
            retries: BTreeMap::new(),
            returned: VecDeque::new(),
            next_seq: 0,
            not_before: None,
            stop,
            engine: Some(tokio::spawn(engine.run())),
            failed: None,
        }
    }

    /// What the instance does now.
    pub fn role(&self) -> Role {
        self.shared.state.borrow().role
    }

    /// The fencing value of the session; `None` when the instance is not active.
    pub fn epoch(&self) -> Option<u64> {
        Some(self.shared.state.borrow().epoch).filter(|epoch| *epoch != 0)
    }

    /// A view of role and figures that can be kept elsewhere.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    /// Waits until the role or the session changes.
    pub async fn changed(&mut self) {
        let before = (self.role(), self.epoch());
        loop {
            if self.state.changed().await.is_err() {
                return;
            }
            if (self.role(), self.epoch()) != before {
                return;
            }
        }
    }

    /// How it went so far.
    pub fn stats(&self) -> SubscriptionStats {
        self.shared.stats()
    }

    /// The next event: waits until this instance is active, an event is there, and fewer than `window` are out. May be
    /// dropped at any time without losing one.
    pub async fn next(&mut self) -> Result<Delivery, SubscriptionError> {
        loop {
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            self.follow();
            self.look_at_returned().await?;
            let state = *self.shared.state.borrow();
            let may_give = state.allows(self.epoch)
                && self.out.load(Ordering::Relaxed) < self.options.window.max(1);
            let mut due = self.not_before;
            if may_give && self.returned.is_empty() {
                if let Some(first) = self.retries.first_entry() {
                    if first.get().due <= Instant::now() {
                        let (seq, retry) = first.remove_entry();
                        return Ok(self.give(seq, retry.event, retry.failures, retry.is_counted));
                    }
                    due = Some(first.get().due);
                } else if let Some(event) = self.queue.front() {
                    let event = Arc::clone(event);
                    let (failures, is_counted) = if event.is_suspect {
                        match self.begin_suspect(&event).await? {
                            Some(failures) => (failures, true),
                            None => continue,
                        }
                    } else {
                        (0, false)
                    };
                    self.queue.pop_front();
                    let seq = self.next_seq;
                    self.next_seq = seq.saturating_add(1);
                    return Ok(self.give(seq, event, failures, is_counted));
                }
            }
            let may_take = self.queue.is_empty();
            tokio::select! {
                told = self.batches.recv(), if may_take => self.take_in(told),
                () = self.shared.settled.notified() => {}
                _ = self.state.changed() => {}
                () = until(due) => self.not_before = None,
            }
        }
    }

    /// The next event if one can be given out without waiting.
    fn next_now(&mut self) -> Option<Delivery> {
        let state = *self.shared.state.borrow();
        let may_give = self.failed.is_none()
            && state.allows(self.epoch)
            && self.out.load(Ordering::Relaxed) < self.options.window.max(1)
            && self.retries.is_empty()
            && self.returned.is_empty();
        let event = self
            .queue
            .front()
            .filter(|event| may_give && !event.is_suspect)?;
        let event = Arc::clone(event);
        self.queue.pop_front();
        let seq = self.next_seq;
        self.next_seq = seq.saturating_add(1);
        Some(self.give(seq, event, 0, false))
    }

    /// At least one event, and at most `max` of those that can be given out without waiting; `window` bounds them too. For
    /// consumers that write many events in one transaction.
    pub async fn next_batch(&mut self, max: usize) -> Result<Vec<Delivery>, SubscriptionError> {
        let mut batch = vec![self.next().await?];
        while batch.len() < max
            && let Some(more) = self.next_now()
        {
            batch.push(more);
        }
        Ok(batch)
    }

    /// Calls the handler for each event, in order, until `stop` is ready; then lets the running call end and closes.
    ///
    /// An error, or a panic, of the handler is a failure of the event: it is handled again after a pause, and goes to the
    /// dead letters after `failures_max` of them. When another instance takes over, the running call is dropped.
    pub async fn run<F, Fut, E>(
        mut self,
        mut handler: F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), SubscriptionError>
    where
        F: FnMut(Arc<Received>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let mut stop = pin!(stop);
        loop {
            let delivery = tokio::select! {
                biased;
                () = &mut stop => break,
                delivery = self.next() => delivery?,
            };
            let mut state = self.state.clone();
            let epoch = delivery.epoch();
            let handled = tokio::select! {
                biased;
                handled = caught(handler(Arc::clone(delivery.event()))) => Some(handled),
                () = replaced(&mut state, epoch) => None,
            };
            match handled {
                Some(Ok(())) => delivery.ack(),
                Some(Err(reason)) => delivery.nack(reason),
                None => {
                    let counted = delivery.is_counted.then(|| Arc::clone(delivery.event()));
                    delivery.release();
                    if let Some(event) = counted {
                        // Best effort: a count too many is forgotten within a day.
                        let _ = self.failures.uncount(event.id()).await;
                    }
                }
            }
        }
        self.close().await;
        Ok(())
    }

    /// Sends the last acknowledgements, gives the lock back and ends. Deliveries without an answer are given out again by
    /// the next instance.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        self.shared.wake.notify_one();
        // An engine that waits to tell an error must not wait for us.
        self.batches.close();
        if let Some(engine) = self.engine.take()
            && tokio::time::timeout(CLOSE_TIMEOUT, engine).await.is_err()
        {
            tracing::warn!(subscription = %self.options.sub_id, "Redis does not answer; what was not acknowledged is given out again");
        }
    }

    fn give(&self, seq: u64, event: Arc<Received>, failures: u32, is_counted: bool) -> Delivery {
        self.out.fetch_add(1, Ordering::Relaxed);
        add(&self.shared.counts.given, 1);
        Delivery {
            shared: Arc::clone(&self.shared),
            out: Arc::clone(&self.out),
            event,
            epoch: self.epoch,
            seq,
            failures,
            is_counted,
            given: Instant::now(),
            is_settled: false,
        }
    }

    /// Forgets what an earlier session left.
    fn follow(&mut self) {
        let epoch = self.shared.state.borrow().epoch;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.queue.clear();
            self.retries.clear();
            self.returned.clear();
            self.out = Arc::default();
            self.not_before = None;
        }
    }

    fn take_in(&mut self, told: Option<Told>) {
        match told {
            Some(Ok(batch)) => {
                self.follow();
                if batch.epoch == self.epoch {
                    self.queue.extend(batch.events);
                }
            }
            Some(Err(error)) => self.failed = Some(error),
            None => {
                self.failed = Some(SubscriptionError::Closed {
                    sub_id: self.options.sub_id.to_string(),
                });
            }
        }
    }

    /// Counts an attempt at an event before it begins. `None` when the event is out of the queue now, or has to wait.
    async fn begin_suspect(
        &mut self,
        event: &Arc<Received>,
    ) -> Result<Option<u32>, SubscriptionError> {
        let count = match self.failures.count(event.id()).await {
            Ok(count) => count,
            Err(error) => {
                self.wait_out(error)?;
                tokio::time::sleep(RETRY).await;
                return Ok(None);
            }
        };
        let before = count.saturating_sub(1);
        if before < self.options.failures_max.max(1) {
            return Ok(Some(before));
        }
        let (epoch, seq) = (self.epoch, self.next_seq);
        self.next_seq = seq.saturating_add(1);
        self.queue.pop_front();
        self.returned.push_back(Returned {
            epoch,
            seq,
            event: Arc::clone(event),
            failures: before.saturating_sub(1),
            is_counted: true,
            reason: Some(ENDED_IN_HANDLER.to_owned()),
        });
        Ok(None)
    }

    /// An error of Redis is waited out, any other ends the subscription.
    fn wait_out(&self, error: crate::StreamError) -> Result<(), SubscriptionError> {
        if error.is_transient() {
            tracing::warn!(subscription = %self.options.sub_id, %error, "waiting for Redis");
            return Ok(());
        }
        Err(error.into())
    }

    /// Decides about what the consumer gave back: once more, or the dead letters.
    async fn look_at_returned(&mut self) -> Result<(), SubscriptionError> {
        let epoch = self.epoch;
        let given_back = self.shared.take_returned();
        self.returned
            .extend(given_back.into_iter().filter(|back| back.epoch == epoch));
        if self.not_before.is_some_and(|then| Instant::now() < then) {
            return Ok(());
        }
        while let Some(back) = self.returned.front() {
            match self.judge(back).await {
                Ok(retry) => {
                    let back = self.returned.pop_front();
                    if let (Some(back), Some(retry)) = (back, retry) {
                        self.retries.insert(back.seq, retry);
                    }
                }
                Err(SubscriptionError::Stream(error)) => {
                    self.wait_out(error)?;
                    self.not_before = Some(Instant::now() + RETRY);
                    break;
                }
                Err(error) => {
                    self.stop.send_replace(true);
                    self.shared.wake.notify_one();
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// `Some` for an event that is given out again; else it went to the dead letters.
    async fn judge(&self, back: &Returned) -> Result<Option<Retry>, SubscriptionError> {
        let again = |failures, is_counted, pause| {
            Ok(Some(Retry {
                event: Arc::clone(&back.event),
                due: Instant::now() + pause,
                failures,
                is_counted,
            }))
        };
        let Some(reason) = &back.reason else {
            return again(back.failures, back.is_counted, Duration::ZERO);
        };
        let event = &back.event;
        let failures = if back.is_counted {
            back.failures.saturating_add(1)
        } else {
            self.failures.count(event.id()).await?
        };
        if failures < self.options.failures_max.max(1) {
            tracing::warn!(subscription = %self.options.sub_id, event = event.id(), failures, reason, "an event could not be handled; it is tried again");
            return again(failures, false, self.options.pause_after(failures));
        }
        if event.is_fork() {
            return Err(SubscriptionError::ForkFailed {
                sub_id: self.options.sub_id.to_string(),
                event_id: event.id().to_owned(),
                failures,
                reason: reason.clone(),
            });
        }
        tracing::error!(subscription = %self.options.sub_id, event = event.id(), failures, reason, "an event could not be handled; it goes to the dead letters");
        match event.origin() {
            Origin::Stream(entry) => {
                let dead = Dead {
                    entry,
                    event_id: event.id(),
                    data: event.text().as_bytes(),
                    failures,
                    reason,
                };
                let buried = self.failures.bury(&Mark::of(back.epoch), &dead).await?;
                if buried == Buried::Fenced {
                    // The session ends; whoever is active now decides.
                    return Ok(None);
                }
            }
            Origin::DeadLetter { letter, .. } => {
                self.failures.bury_again(letter, failures, reason).await?;
            }
        }
        add(&self.shared.counts.dead_letters, 1);
        self.shared.acknowledge(Ack {
            epoch: back.epoch,
            origin: event.origin(),
            counted: Some(event.id().to_owned()),
            is_buried: true,
        });
        Ok(None)
    }
}

/// Ready at an instant; never without one.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then.into()).await,
        None => std::future::pending().await,
    }
}

/// Ready when the session is over.
async fn replaced(state: &mut watch::Receiver<shared::State>, epoch: u64) {
    let _ = state.wait_for(|state| state.epoch != epoch).await;
}

/// Makes a failure of a panic.
async fn caught<Fut, E>(handled: Fut) -> Result<(), String>
where
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let mut handled = pin!(handled);
    std::future::poll_fn(move |context| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| handled.as_mut().poll(context)));
        match polled {
            Ok(poll) => poll.map(|result| result.map_err(|error| error.to_string())),
            Err(panic) => std::task::Poll::Ready(Err(panic_text(panic.as_ref()))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_default())
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.shared.wake.notify_one();
    }
}
