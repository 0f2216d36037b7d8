//! The background task of an instance: it becomes active or waits, keeps the lock, reads ahead, and acknowledges.
//!
//! Whatever goes wrong while it is active ends the session, and the next one begins as after a crash: a new number, everything
//! pending again, in order. So there is one way to recover, and it is used often.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairn_redis::{Redis, RedisError};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout_at;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::scan::Reader;
use crate::subscription::error::SubscriptionError;
use crate::subscription::failures::Failures;
use crate::subscription::group::{Group, Mark};
use crate::subscription::lock::{Lock, about};
use crate::subscription::names::EventSource;
use crate::subscription::options::SubscriptionOptions;
use crate::subscription::replay::Replays;
use crate::subscription::session::{Ended, Session};
use crate::subscription::shared::{Ack, Role, Shared, add, stopped};
use crate::subscription::{registry, start};

/// Pause after an error of Redis.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long giving the lock back may take at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts at becoming the newest holder under one lock.
const TAKE_ATTEMPTS: usize = 3;

/// Events of one session on their way to the consumer.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) epoch: u64,
    pub(super) events: Vec<Arc<crate::subscription::event::Received>>,
}

/// What the consumer gets.
pub(super) type Told = Result<Batch, SubscriptionError>;

pub(super) struct Engine {
    pub(super) redis: Redis,
    pub(super) source: EventSource,
    pub(super) options: Arc<SubscriptionOptions>,
    pub(super) shared: Arc<Shared>,
    pub(super) failures: Failures,
    pub(super) replays: Replays,
    pub(super) batches: mpsc::Sender<Told>,
    pub(super) stop: watch::Receiver<bool>,
}

/// What outlives a session.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Handled, and not acknowledged because of an error.
    pub(super) acks: Vec<Ack>,
    /// Up to here everything was acknowledged, if this instance has been active.
    pub(super) floor: Option<EntryId>,
    /// The loss that was told last.
    pub(super) told_loss: Option<EntryId>,
}

impl Engine {
    /// Works until asked to stop, or until something happens that trying again does not cure.
    pub(super) async fn run(self) {
        let lock = Lock::new(self.redis.clone(), &self.options.sub_id, self.options.lock);
        let ended = self.live(&lock).await;
        self.shared.set(Role::Released, 0);
        // Not releasing costs a standby the life of the lock.
        let released = tokio::time::timeout(RELEASE_TIMEOUT, lock.release()).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::warn!(subscription = %self.options.sub_id, "the lock was not given back; it ends by itself");
        }
        if let Err(error) = ended {
            // Without a consumer there is nobody to tell.
            let _ = self.batches.send(Err(error)).await;
        }
    }

    async fn live(&self, lock: &Lock) -> Result<(), SubscriptionError> {
        let mut kept = Kept::default();
        let mut pause = PAUSE;
        let mut is_registered = false;
        let mut waiting_since = Instant::now();
        while !*self.stop.borrow() {
            let ended = async {
                if !is_registered {
                    registry::register(&self.redis, &self.source, &self.options, false).await?;
                    is_registered = true;
                }
                let Some(until) = self.acquire(lock, waiting_since).await? else {
                    return Ok(Ended::Stopped);
                };
                let ended = self.session(lock, until, &mut kept).await;
                self.shared.set(Role::Standby, 0);
                waiting_since = Instant::now();
                ended
            };
            match ended.await {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Lost) => {
                    // Whoever is active now gives these out again.
                    kept = Kept {
                        told_loss: kept.told_loss,
                        ..Kept::default()
                    };
                    self.shared.take_acks();
                    pause = PAUSE;
                    tracing::info!(subscription = %self.options.sub_id, "no longer active");
                }
                Ok(Ended::Again(why)) => {
                    pause = PAUSE;
                    tracing::info!(subscription = %self.options.sub_id, why, "beginning anew with what is pending");
                }
                Err(SubscriptionError::Stream(StreamError::Redis(RedisError::Failed {
                    cause,
                    ..
                }))) if cause.contains("NOGROUP") => {
                    tracing::info!(subscription = %self.options.sub_id, "the group was removed");
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(subscription = %self.options.sub_id, %error, "waiting for Redis");
                    let mut stop = self.stop.clone();
                    tokio::select! {
                        () = tokio::time::sleep(about(pause)) => {}
                        () = stopped(&mut stop) => {}
                    }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for the lock. `None` when it is time to stop.
    async fn acquire(
        &self,
        lock: &Lock,
        since: Instant,
    ) -> Result<Option<Instant>, SubscriptionError> {
        let mut stop = self.stop.clone();
        loop {
            if *stop.borrow() {
                return Ok(None);
            }
            if let Some(until) = lock.acquire().await? {
                return Ok(Some(until));
            }
            self.shared.set(Role::Standby, 0);
            if let Some(longest) = self.options.acquire_lock_timeout
                && since.elapsed() >= longest
            {
                return Err(SubscriptionError::LockTimeout {
                    sub_id: self.options.sub_id.to_string(),
                    waited_ms: since.elapsed().as_millis(),
                });
            }
            tokio::select! {
                () = tokio::time::sleep(about(lock.times().poll)) => {}
                () = stopped(&mut stop) => {}
            }
        }
    }

    /// One time of being active.
    async fn session(
        &self,
        lock: &Lock,
        until: Instant,
        kept: &mut Kept,
    ) -> Result<Ended, SubscriptionError> {
        let margin = lock.times().heartbeat;
        self.shared
            .set_valid_until(until.checked_sub(margin).unwrap_or(until));
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            () = heartbeat(lock, &shared, until) => Ok(Ended::Lost),
            ended = self.active(lock, kept) => ended,
        }
    }

    async fn active(&self, lock: &Lock, kept: &mut Kept) -> Result<Ended, SubscriptionError> {
        let group = Group::new(
            self.redis.clone(),
            self.source.key(),
            self.options.sub_id.to_string(),
        );
        let Some(mark) = self.take(lock, &group, kept.floor).await? else {
            return Ok(Ended::Lost);
        };
        let Some(position) = self.tell_losses(kept).await? else {
            return Ok(Ended::Again("the group was removed".to_owned()));
        };
        Session::new(self, group, mark, position, kept).run().await
    }

    /// Becomes the newest holder. `None` when the lock is no longer ours.
    async fn take(
        &self,
        lock: &Lock,
        group: &Group,
        floor: Option<EntryId>,
    ) -> Result<Option<Mark>, SubscriptionError> {
        let reader = Reader::of(&self.redis, group.key().to_owned());
        let is_there = reader.group(self.options.sub_id.as_str()).await?.is_some();
        let start = match (is_there, floor) {
            (true, _) => "$".to_owned(),
            (false, Some(floor)) => {
                tracing::warn!(subscription = %self.options.sub_id, key = group.key(), after = %floor,
                    "the subscription's group was removed; it is made again where it was");
                floor.to_string()
            }
            (false, None) => {
                let options = &self.options;
                start::resolve(
                    &self.redis,
                    &self.source,
                    options.start_from,
                    options.allow_gap,
                )
                .await?
            }
        };
        let mut above = 0;
        for _ in 0..TAKE_ATTEMPTS {
            let mark = Mark::of(lock.next_epoch(above).await?);
            match group.take(&mark, &start).await? {
                Ok(()) => return Ok(Some(mark)),
                // Ours came late, or the counter was lost: who has the lock decides.
                Err(newer) => above = newer,
            }
            if lock.renew().await?.is_none() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Says when entries were trimmed before the subscription got them. Gives the entry that it was given last; `None` when
    /// the group is not there.
    async fn tell_losses(&self, kept: &mut Kept) -> Result<Option<EntryId>, SubscriptionError> {
        let trimmed_past =
            registry::register(&self.redis, &self.source, &self.options, true).await?;
        let reader = Reader::of(&self.redis, self.source.key());
        let sub_id = self.options.sub_id.as_str();
        let (Some(state), Some(group)) = (reader.state().await?, reader.group(sub_id).await?)
        else {
            return Ok(None);
        };
        let gone = state.added.saturating_sub(state.length);
        let lost = match group.read {
            Some(read) if group.last_delivered != EntryId::ZERO => gone.saturating_sub(read),
            _ => 0,
        };
        let is_lost = lost > 0 || trimmed_past.is_some();
        if is_lost && kept.told_loss != Some(group.last_delivered) {
            kept.told_loss = Some(group.last_delivered);
            add(
                &self.shared.counts.lost,
                usize::try_from(lost).unwrap_or(usize::MAX),
            );
            tracing::warn!(
                subscription = sub_id, key = self.source.key(), lost,
                after = %group.last_delivered, oldest_left = ?state.first.map(|id| id.to_string()),
                "events were removed from the stream before this subscription got them (stream.window_hours, stream.policy)"
            );
        }
        Ok(Some(group.last_delivered))
    }

    /// Notes that entries are with the consumer.
    pub(super) fn set_pending(&self, in_flight: &BTreeSet<EntryId>) {
        let count = u64::try_from(in_flight.len()).unwrap_or(u64::MAX);
        self.shared.counts.pending.store(count, Ordering::Relaxed);
    }
}

/// Keeps the lock; returns when it is ours no more, or may not be.
async fn heartbeat(lock: &Lock, shared: &Shared, mut until: Instant) {
    let times = lock.times();
    loop {
        // One heartbeat before its end nothing may be given out any more.
        let Some(last) = until.checked_sub(times.heartbeat) else {
            return;
        };
        let next = (Instant::now() + times.heartbeat).min(last);
        tokio::time::sleep_until(next.into()).await;
        loop {
            if Instant::now() >= last {
                return;
            }
            match timeout_at(last.into(), lock.renew()).await {
                Ok(Ok(Some(renewed))) => {
                    until = renewed;
                    shared.set_valid_until(renewed.checked_sub(times.heartbeat).unwrap_or(renewed));
                    break;
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the lock could not be renewed");
                    tokio::time::sleep(times.heartbeat / 10).await;
                }
                Ok(Ok(None)) | Err(_) => return,
            }
        }
    }
}
