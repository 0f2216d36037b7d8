//! One time of being active: first everything pending, in order, then what is new; acknowledgements in between.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairn_redis::{Dedicated, Redis, RedisError};
use redis::Value;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::filter::EventView;
use crate::scan::Reader;
use crate::subscription::engine::{Batch, Engine, Kept, Told};
use crate::subscription::error::SubscriptionError;
use crate::subscription::event::{Origin, Received};
use crate::subscription::failures::{Buried, Dead};
use crate::subscription::group::{Group, Mark, Raw, Read, ServerTime, Step, Stepped};
use crate::subscription::shared::{Ack, Role, add, stopped};

/// Most acknowledgements in one step.
const ACKS_PER_STEP: usize = 5_000;
/// Fewer acknowledgements than this wait a moment for company: each step costs Redis as much as several dozen of them.
const ACKS_ENOUGH: usize = 64;
/// For so long.
const ACKS_DELAY: Duration = Duration::from_millis(2);
/// How long a wait for a new entry stays in Redis.
const BLOCK: Duration = Duration::from_secs(2);
/// How often it is looked whether anybody else moves the group, and whether dead letters are to be given again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Dead letters that are given again at once.
const REPLAYS_AT_ONCE: usize = 100;
/// From so many times that an entry was given out on, attempts are counted before they begin.
const SUSPECT_DELIVERIES: u64 = 3;
/// What stands in the dead letters for an entry that is no event.
const MALFORMED: &str = "malformed entry";

/// Why a session ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was asked to.
    Stopped,
    /// Another instance is active, or may be.
    Lost,
    /// The next one finds out what is pending.
    Again(String),
}

/// Waits for an entry on a connection of its own; gives that back.
type Wait = Pin<Box<dyn Future<Output = (Option<Dedicated>, Result<bool, RedisError>)> + Send>>;

pub(super) struct Session<'a> {
    engine: &'a Engine,
    group: Group,
    mark: Mark,
    kept: &'a mut Kept,
    /// Entries read in this session and not acknowledged.
    in_flight: BTreeSet<EntryId>,
    read: Read,
    /// Nothing new was there when it was looked last.
    is_at_end: bool,
    last_read: EntryId,
    /// The stream had an entry after the last read one.
    is_woken: bool,
    /// The clock of the server that has the stream, against ours.
    clock: Option<ServerTime>,
    waiter: Option<Dedicated>,
    wait: Option<Wait>,
    next_check: Instant,
    /// When acknowledgements that wait for company are sent.
    flush_at: Option<Instant>,
    replays_out: usize,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        group: Group,
        mark: Mark,
        position: EntryId,
        kept: &'a mut Kept,
    ) -> Self {
        Self {
            engine,
            group,
            mark,
            kept,
            in_flight: BTreeSet::new(),
            read: Read::Pending(EntryId::ZERO),
            is_at_end: false,
            last_read: position,
            is_woken: false,
            clock: None,
            waiter: None,
            wait: None,
            next_check: Instant::now(),
            flush_at: None,
            replays_out: 0,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ended, SubscriptionError> {
        let engine = self.engine;
        // What was handled under an earlier number goes first, so that it is not given out again.
        self.kept.acks.extend(engine.shared.take_acks());
        match self.step(Read::Nothing).await? {
            Stepped::Done(_) => {}
            other => return Ok(ended(&other)),
        }
        match self.group.claim(&self.mark, self.deadline_ms()).await? {
            Stepped::Done(trimmed) => add(
                &engine.shared.counts.lost,
                usize::try_from(trimmed).unwrap_or(usize::MAX),
            ),
            other => return Ok(ended(&other)),
        }
        tracing::info!(subscription = %engine.options.sub_id, epoch = self.mark.epoch, key = self.group.key(), "active");
        engine.shared.set(Role::Active, self.mark.epoch);
        let mut stop = engine.stop.clone();
        loop {
            let is_stopping = *stop.borrow();
            self.kept.acks.extend(engine.shared.take_acks());
            let permit = if is_stopping {
                None
            } else {
                engine.batches.try_reserve().ok()
            };
            let has_room = permit.is_some();
            let may_read = has_room && !(self.read == Read::New && self.is_at_end);
            if Instant::now() >= self.next_check {
                self.next_check = Instant::now() + CHECK_INTERVAL;
                if let Some(why) = self.check().await? {
                    return Ok(Ended::Again(why));
                }
                if let Some(permit) = permit
                    && self.read == Read::New
                    && self.replays_out == 0
                {
                    let replays = self.replays().await?;
                    if !replays.is_empty() {
                        permit.send(Ok(self.batch(replays)));
                    }
                }
                continue;
            }
            if !may_read && !self.must_flush(is_stopping) {
                if is_stopping {
                    return Ok(Ended::Stopped);
                }
                drop(permit);
                self.wait(has_room, &mut stop).await;
                continue;
            }
            let what = if may_read { self.read } else { Read::Nothing };
            let entries = match self.step(what).await? {
                Stepped::Done(entries) => entries,
                other => return Ok(ended(&other)),
            };
            if what != Read::Nothing {
                let events = match self.take_in(what, entries).await? {
                    Ok(events) => events,
                    Err(ended) => return Ok(ended),
                };
                if let Some(permit) = permit
                    && !events.is_empty()
                {
                    permit.send(Ok(self.batch(events)));
                }
            }
        }
    }

    /// Whether acknowledgements are to be sent now.
    fn must_flush(&mut self, is_stopping: bool) -> bool {
        let count = self.kept.acks.len();
        if count == 0 {
            self.flush_at = None;
            return false;
        }
        let now = Instant::now();
        let flush_at = *self.flush_at.get_or_insert(now + ACKS_DELAY);
        is_stopping || count >= ACKS_ENOUGH || now >= flush_at
    }

    fn batch(&self, events: Vec<Arc<Received>>) -> Batch {
        Batch {
            epoch: self.mark.epoch,
            events,
        }
    }

    /// The last moment for a step, by the server's clock. Before the first answer nothing is known of it, and the mark alone
    /// decides.
    fn deadline_ms(&self) -> u64 {
        let Some(clock) = self.clock else {
            return u64::MAX >> 12;
        };
        let until = self.engine.shared.state.borrow().valid_until;
        let left = until.saturating_duration_since(clock.seen);
        clock
            .ms
            .saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Acknowledges what there is, and reads. The acknowledgements are forgotten only when it is done.
    async fn step(&mut self, read: Read) -> Result<Stepped<Vec<Raw>>, SubscriptionError> {
        let engine = self.engine;
        self.flush_at = None;
        let acks: Vec<Ack> = {
            let count = self.kept.acks.len().min(ACKS_PER_STEP);
            self.kept.acks.drain(..count).collect()
        };
        let ids: Vec<EntryId> = acks
            .iter()
            .filter_map(|ack| match ack.origin {
                Origin::Stream(id) => Some(id),
                Origin::DeadLetter { .. } => None,
            })
            .collect();
        let step = Step {
            mark: &self.mark,
            deadline_ms: self.deadline_ms(),
            acks: &ids,
            read,
            count: engine.options.batch_events.max(1),
            bytes: engine.options.batch_bytes.max(1),
        };
        let stepped = match self.group.step(&step).await {
            Ok((stepped, clock)) => {
                self.clock = Some(clock);
                stepped
            }
            Err(error) => {
                self.kept.acks.splice(0..0, acks);
                return Err(error.into());
            }
        };
        if matches!(stepped, Stepped::Done(_)) {
            for id in &ids {
                self.in_flight.remove(id);
            }
            add(&engine.shared.counts.acknowledged, ids.len());
            self.settle(acks).await?;
            self.kept.floor = Some(match self.in_flight.first() {
                Some(first) => first.previous(),
                None => self.last_read,
            });
            engine.set_pending(&self.in_flight);
        }
        Ok(stepped)
    }

    /// What follows an acknowledgement: counters are forgotten, replayed dead letters removed.
    async fn settle(&mut self, acks: Vec<Ack>) -> Result<(), SubscriptionError> {
        let engine = self.engine;
        let mut counted = Vec::new();
        for ack in acks {
            if let Origin::DeadLetter { letter, request } = ack.origin {
                if let Err(error) = engine.replays.done(request, letter).await {
                    // It would be handled again otherwise.
                    self.kept.acks.push(ack);
                    return Err(error.into());
                }
                if ack.epoch == self.mark.epoch {
                    self.replays_out = self.replays_out.saturating_sub(1);
                }
                if !ack.is_buried {
                    engine
                        .shared
                        .counts
                        .replayed
                        .fetch_add(1, Ordering::Relaxed);
                }
            }
            counted.extend(ack.counted);
        }
        engine.failures.forget(&counted).await?;
        Ok(())
    }

    /// Makes events of entries.
    async fn take_in(
        &mut self,
        read: Read,
        entries: Vec<Raw>,
    ) -> Result<Result<Vec<Arc<Received>>, Ended>, SubscriptionError> {
        let engine = self.engine;
        let bounds = entries
            .first()
            .map(|(id, _)| *id)
            .zip(entries.last().map(|(id, _)| *id));
        let Some((first, last)) = bounds else {
            if matches!(read, Read::Pending(_)) {
                self.read = Read::New;
                return Ok(Ok(Vec::new()));
            }
            self.is_at_end = true;
            if std::mem::take(&mut self.is_woken) {
                // There is an entry, but the group was moved past it.
                let reader = Reader::of(&engine.redis, self.group.key().to_owned());
                match reader.group(engine.options.sub_id.as_str()).await? {
                    Some(group) => self.last_read = group.last_delivered,
                    None => return Ok(Err(Ended::Again("the group was removed".to_owned()))),
                }
            }
            return Ok(Ok(Vec::new()));
        };
        self.is_woken = false;
        let mut suspects = BTreeSet::new();
        if matches!(read, Read::Pending(_)) {
            self.read = Read::Pending(last);
            for (id, times) in self.group.deliveries(first, last, entries.len()).await? {
                if times >= SUSPECT_DELIVERIES {
                    suspects.insert(id);
                }
            }
        }
        self.last_read = self.last_read.max(last);
        self.in_flight.extend(entries.iter().map(|(id, _)| *id));
        engine.set_pending(&self.in_flight);
        let options = &engine.options;
        let mut events = Vec::with_capacity(entries.len());
        for (id, data) in entries {
            let Some(data) = data else {
                tracing::warn!(subscription = %options.sub_id, entry = %id, "a pending entry was removed from the stream before it was handled");
                add(&engine.shared.counts.lost, 1);
                self.pass(id);
                continue;
            };
            let wants = |view: &EventView<'_>| {
                if view.kind == "fork" {
                    options.forks
                } else {
                    options.filters.passes(view)
                }
            };
            match Received::read(Origin::Stream(id), self.mark.epoch, data, wants) {
                Ok(Some(mut event)) => {
                    event.is_suspect = suspects.contains(&id);
                    events.push(Arc::new(event));
                }
                Ok(None) => {
                    add(&engine.shared.counts.filtered, 1);
                    self.pass(id);
                }
                Err((why, data)) => {
                    tracing::warn!(subscription = %options.sub_id, entry = %id, why, "an entry that is no event goes to the dead letters");
                    let dead = Dead {
                        entry: id,
                        event_id: "",
                        data: &data,
                        failures: 0,
                        reason: MALFORMED,
                    };
                    if engine.failures.bury(&self.mark, &dead).await? == Buried::Fenced {
                        return Ok(Err(Ended::Lost));
                    }
                    add(&engine.shared.counts.dead_letters, 1);
                    self.pass(id);
                }
            }
        }
        Ok(Ok(events))
    }

    /// Nothing is to be done with an entry: it is acknowledged with the next step.
    fn pass(&mut self, id: EntryId) {
        self.kept.acks.push(Ack {
            epoch: self.mark.epoch,
            origin: Origin::Stream(id),
            counted: None,
            is_buried: false,
        });
    }

    /// Whether the group holds what this session does not know of.
    async fn check(&mut self) -> Result<Option<String>, SubscriptionError> {
        if self.read != Read::New {
            return Ok(None);
        }
        let (own, others) = match self.group.pending().await {
            Ok(pending) => pending,
            Err(StreamError::Redis(RedisError::Failed { cause, .. }))
                if cause.contains("NOGROUP") =>
            {
                return Ok(Some("the group was removed".to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        let known = u64::try_from(self.in_flight.len()).unwrap_or(u64::MAX);
        Ok(if own > known {
            Some("another client has read in this subscription's name".to_owned())
        } else if others {
            Some("another consumer of the group has left entries".to_owned())
        } else {
            None
        })
    }

    /// Dead letters that were asked for again.
    async fn replays(&mut self) -> Result<Vec<Arc<Received>>, SubscriptionError> {
        let mut events = Vec::new();
        for replay in self.engine.replays.next(REPLAYS_AT_ONCE).await? {
            let origin = Origin::DeadLetter {
                letter: replay.letter,
                request: replay.request,
            };
            match Received::read(origin, self.mark.epoch, replay.data, |_| true) {
                Ok(Some(event)) => events.push(Arc::new(event)),
                Ok(None) => {}
                Err((why, _)) => {
                    tracing::warn!(subscription = %self.engine.options.sub_id, letter = %replay.letter, why, "a dead letter is no event; it stays");
                    self.engine
                        .failures
                        .bury_again(replay.letter, 0, MALFORMED)
                        .await?;
                    self.engine
                        .replays
                        .done(replay.request, replay.letter)
                        .await?;
                }
            }
        }
        self.replays_out = events.len();
        Ok(events)
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, has_room: bool, stop: &mut tokio::sync::watch::Receiver<bool>) {
        let engine = self.engine;
        if has_room && self.wait.is_none() {
            let after = self.last_read;
            let key = self.group.key().to_owned();
            self.wait = Some(Box::pin(wait_for_entry(
                self.waiter.take(),
                engine.redis.clone(),
                key,
                after,
            )));
        }
        let woken = async {
            match (&mut self.wait, has_room) {
                (Some(wait), true) => wait.await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = engine.shared.wake.notified() => {}
            () = stopped(stop) => {}
            () = room(&engine.batches), if !has_room => {}
            () = sleep_until(self.flush_at.unwrap_or(self.next_check).min(self.next_check).into()) => {}
            (waiter, waited) = woken => {
                self.wait = None;
                self.waiter = waiter;
                // On an error the next step tells it.
                self.is_at_end = false;
                match waited {
                    Ok(found) => self.is_woken = found,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
    }
}

fn ended<T>(stepped: &Stepped<T>) -> Ended {
    match stepped {
        Stepped::Gone => Ended::Again("the group was removed".to_owned()),
        _ => Ended::Lost,
    }
}

/// Ready when the consumer has taken a batch, or is gone.
async fn room(batches: &mpsc::Sender<Told>) {
    // Whether there is room is looked at again; a closed channel means that stopping was asked for.
    if batches.reserve().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ready when the stream may have an entry after this one. It reads without the group, so that nothing is given out that
/// nobody waits for any more.
async fn wait_for_entry(
    waiter: Option<Dedicated>,
    redis: Redis,
    key: String,
    after: EntryId,
) -> (Option<Dedicated>, Result<bool, RedisError>) {
    let mut waiter = match waiter {
        Some(waiter) => waiter,
        None => match redis.dedicated(BLOCK).await {
            Ok(waiter) => waiter,
            Err(error) => return (None, Err(error)),
        },
    };
    let mut command = redis::cmd("XREAD");
    command
        .arg("COUNT")
        .arg(1)
        .arg("BLOCK")
        .arg(BLOCK.as_millis().to_string())
        .arg("STREAMS")
        .arg(&key)
        .arg(after.to_string());
    match command.query_async::<Value>(&mut waiter).await {
        Ok(found) => (Some(waiter), Ok(found != Value::Nil)),
        Err(error) => {
            let error = waiter.explain(&key, &error);
            (None, Err(error))
        }
    }
}
