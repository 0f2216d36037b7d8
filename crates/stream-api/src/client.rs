//! One subscription on behalf of clients: it holds what they did not answer for, and gives it to one connection at a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cairn_stream::subscription::{Delivery, Origin, Received, Role, Subscription};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::error::ApiError;
use crate::message::Answers;

/// Events on their way to one connection.
const ON_THE_WAY: usize = 64;
/// How often it is looked whether the role changed or a connection has gone.
const LOOK: Duration = Duration::from_millis(250);

/// What a connection is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// It works now, with this fencing value.
    Active {
        epoch: u64,
    },
    /// It waits: another connection, or another process, works.
    Standby,
    Event(Given),
    /// The subscription ended.
    Failed(ApiError),
}

/// An event that was given to a connection.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) event: Arc<Received>,
}

/// How a client names an event.
fn name(event: &Received) -> String {
    match event.origin() {
        Origin::Stream(entry) => entry.to_string(),
        Origin::DeadLetter { letter, .. } => format!("replay:{letter}"),
    }
}

/// How many answers did what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Settled {
    pub(crate) acknowledged: usize,
    pub(crate) failed: usize,
    /// Not, or no more, given to this client.
    pub(crate) unknown: usize,
}

pub(crate) enum Command {
    Attach(Attach),
    Settle(Answers, oneshot::Sender<Settled>),
}

/// A connection that wants events.
pub(crate) struct Attach {
    /// Most events that it has without an answer.
    pub(crate) window: usize,
    pub(crate) told: mpsc::Sender<Told>,
}

impl Attach {
    /// And the end that the connection listens at.
    pub(crate) fn new(window: usize) -> (Self, mpsc::Receiver<Told>) {
        let (told, listen) = mpsc::channel(ON_THE_WAY);
        (Self { window, told }, listen)
    }
}

/// An event without an answer.
struct Out {
    delivery: Delivery,
    id: String,
    /// Whether the present connection has got it.
    is_sent: bool,
}

pub(crate) struct Client {
    subscription: Subscription,
    commands: mpsc::Receiver<Command>,
    stop: watch::Receiver<bool>,
    idle: Duration,
    working: Option<Attach>,
    waiting: VecDeque<Attach>,
    /// By the order in which they were given out.
    out: BTreeMap<u64, Out>,
    by_id: HashMap<String, u64>,
    next: u64,
    /// The session whose events are out, as told to the connection.
    epoch: Option<u64>,
    empty_since: Instant,
}

impl Client {
    pub(crate) fn new(
        subscription: Subscription,
        commands: mpsc::Receiver<Command>,
        stop: watch::Receiver<bool>,
        idle: Duration,
    ) -> Self {
        Self {
            subscription,
            commands,
            stop,
            idle,
            working: None,
            waiting: VecDeque::new(),
            out: BTreeMap::new(),
            by_id: HashMap::new(),
            next: 0,
            epoch: None,
            empty_since: Instant::now(),
        }
    }

    /// Runs until nobody is connected for a while, it is time to stop, or the subscription fails.
    pub(crate) async fn run(mut self) {
        let mut look_at = Instant::now();
        let failed = loop {
            if *self.stop.borrow() {
                break None;
            }
            self.look();
            if self.working.is_none() && self.empty_since.elapsed() >= self.idle {
                break None;
            }
            look_at = look_at.max(Instant::now());
            let window = self.working.as_ref().map_or(0, |working| working.window);
            let unsent = self
                .out
                .iter()
                .find(|(_, out)| !out.is_sent)
                .map(|(at, _)| *at);
            let sender = self.working.as_ref().map(|working| working.told.clone());
            let room = async {
                match (&sender, unsent) {
                    (Some(sender), Some(_)) => sender.reserve().await.ok(),
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => break None,
                },
                permit = room => {
                    if let (Some(permit), Some(at)) = (permit, unsent)
                        && let Some(out) = self.out.get_mut(&at)
                    {
                        out.is_sent = true;
                        permit.send(Told::Event(Given {
                            id: out.id.clone(),
                            attempt: out.delivery.attempt(),
                            event: Arc::clone(out.delivery.event()),
                        }));
                    }
                }
                delivery = self.subscription.next(), if self.working.is_some() && self.out.len() < window => {
                    match delivery {
                        Ok(delivery) => self.hold(delivery),
                        Err(error) => break Some(ApiError::of_subscription(&error)),
                    }
                }
                () = sleep_until(look_at + LOOK) => look_at = Instant::now(),
                _ = self.stop.changed() => {}
            }
        };
        if let Some(error) = failed {
            for attached in self.working.iter().chain(&self.waiting) {
                let _ = attached.told.try_send(Told::Failed(error.clone()));
            }
        }
        self.forget();
        self.subscription.close().await;
    }

    /// Follows the subscription's role and the connections that come and go.
    fn look(&mut self) {
        let epoch = self.subscription.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            // Given out by an earlier session: they come again.
            self.forget();
            self.tell_role();
        }
        if self
            .working
            .as_ref()
            .is_some_and(|working| working.told.is_closed())
        {
            self.working = None;
            self.empty_since = Instant::now();
        }
        self.waiting.retain(|waiting| !waiting.told.is_closed());
        if self.working.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            self.begin(next);
        }
    }

    fn begin(&mut self, attached: Attach) {
        // What was not answered for comes first, again.
        for out in self.out.values_mut() {
            out.is_sent = false;
        }
        self.working = Some(attached);
        self.tell_role();
    }

    fn tell_role(&self) {
        let told = match (self.epoch, self.subscription.role()) {
            (Some(epoch), Role::Active) => Told::Active { epoch },
            _ => Told::Standby,
        };
        if let Some(working) = &self.working {
            // A connection so far behind that it misses this has events to handle first.
            let _ = working.told.try_send(told);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Attach(attached) => {
                if self
                    .working
                    .as_ref()
                    .is_some_and(|working| !working.told.is_closed())
                {
                    let _ = attached.told.try_send(Told::Standby);
                    self.waiting.push_back(attached);
                } else {
                    self.begin(attached);
                }
            }
            Command::Settle(answers, reply) => {
                let _ = reply.send(self.settle(answers));
            }
        }
    }

    fn hold(&mut self, delivery: Delivery) {
        let id = name(delivery.event());
        let at = self.next;
        self.next = at.saturating_add(1);
        self.by_id.insert(id.clone(), at);
        self.out.insert(
            at,
            Out {
                delivery,
                id,
                is_sent: false,
            },
        );
    }

    fn settle(&mut self, answers: Answers) -> Settled {
        let mut settled = Settled::default();
        for (id, reason) in answers.failed {
            match self.remove(&id) {
                Some(out) => {
                    out.delivery.nack(reason);
                    settled.failed += 1;
                }
                None => settled.unknown += 1,
            }
        }
        for id in answers.ids {
            match self.remove(&id) {
                Some(out) => {
                    out.delivery.ack();
                    settled.acknowledged += 1;
                }
                None => settled.unknown += 1,
            }
        }
        if let Some(id) = answers.up_to {
            match self.by_id.get(&id).copied() {
                Some(last) => {
                    let later = self.out.split_off(&last.saturating_add(1));
                    for (_, out) in std::mem::replace(&mut self.out, later) {
                        self.by_id.remove(&out.id);
                        out.delivery.ack();
                        settled.acknowledged += 1;
                    }
                }
                None => settled.unknown += 1,
            }
        }
        settled
    }

    fn remove(&mut self, id: &str) -> Option<Out> {
        let at = self.by_id.remove(id)?;
        self.out.remove(&at)
    }

    fn forget(&mut self) {
        self.by_id.clear();
        for out in std::mem::take(&mut self.out).into_values() {
            out.delivery.release();
        }
    }
}
