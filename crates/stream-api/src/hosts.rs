//! The subscriptions that this process serves to clients, each by a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use cairn_redis::Redis;
use cairn_stream::subscription::{
    EventSource, Role, SubId, Subscription, SubscriptionObserver, SubscriptionOptions,
    SubscriptionStats,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::client::{Attach, Client, Command, Settled, Told};
use crate::error::ApiError;
use crate::message::Answers;
use crate::state::ApiOptions;

/// Commands that may wait for a subscription's task.
const COMMANDS: usize = 256;
/// Most events of one connection that may be without an answer.
pub(crate) const WINDOW_MAX: usize = 10_000;

/// Makes the observer of a subscription of a chain, for metrics.
pub type ObserverOf =
    Arc<dyn Fn(&EventSource, &SubId) -> Arc<dyn SubscriptionObserver> + Send + Sync>;

/// A subscription that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedState {
    /// Its chain.
    pub chain: String,
    /// Its id.
    pub sub_id: String,
    /// Whether this process is the active one.
    pub role: Role,
    /// How it goes.
    pub stats: SubscriptionStats,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Name {
    source: EventSource,
    sub_id: SubId,
}

struct Hosted {
    options: SubscriptionOptions,
    commands: mpsc::Sender<Command>,
    watch: cairn_stream::subscription::Watch,
    connections: Vec<mpsc::Sender<Told>>,
    task: JoinHandle<()>,
}

struct Shared {
    redis: Redis,
    options: ApiOptions,
    observer: Option<ObserverOf>,
    hosted: Mutex<HashMap<Name, Hosted>>,
    stop: watch::Sender<bool>,
}

/// All of them. Cheap to clone.
#[derive(Clone)]
pub struct Hosts(Arc<Shared>);

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hosts")
    }
}

impl Hosts {
    /// None yet.
    pub fn new(redis: Redis, options: ApiOptions, observer: Option<ObserverOf>) -> Self {
        Self(Arc::new(Shared {
            redis,
            options,
            observer,
            hosted: Mutex::default(),
            stop: watch::Sender::new(false),
        }))
    }

    /// Waits until `stop` is ready, then ends all connections, sends the last acknowledgements and gives all locks back.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        stop.await;
        self.0.stop.send_replace(true);
        let all: Vec<Hosted> = self.hosted().drain().map(|(_, hosted)| hosted).collect();
        for hosted in all {
            // A task that panicked has said so.
            let _ = hosted.task.await;
        }
    }

    /// Those that are served now.
    pub fn states(&self) -> Vec<HostedState> {
        self.hosted()
            .iter()
            .map(|(name, hosted)| HostedState {
                chain: name.source.chain().to_string(),
                sub_id: name.sub_id.to_string(),
                role: hosted.watch.role(),
                stats: hosted.watch.stats(),
            })
            .collect()
    }

    pub(crate) fn options(&self) -> &ApiOptions {
        &self.0.options
    }

    fn hosted(&self) -> MutexGuard<'_, HashMap<Name, Hosted>> {
        let mut hosted = self.0.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        hosted.retain(|_, hosted| !hosted.task.is_finished());
        hosted
    }

    /// Connects a client to its subscription, which is started if it is not there.
    pub(crate) async fn attach(
        &self,
        source: EventSource,
        mut options: SubscriptionOptions,
        window: usize,
    ) -> Result<mpsc::Receiver<Told>, ApiError> {
        options.window = WINDOW_MAX;
        options.lock = self.0.options.lock;
        options
            .retry_pauses
            .clone_from(&self.0.options.retry_pauses);
        let (attach, told) = Attach::new(window);
        let commands = self.commands_of(source, options, &attach)?;
        if commands.send(Command::Attach(attach)).await.is_err() {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "closed",
                "the subscription is just ending; connect again",
            ));
        }
        Ok(told)
    }

    fn commands_of(
        &self,
        source: EventSource,
        options: SubscriptionOptions,
        attach: &Attach,
    ) -> Result<mpsc::Sender<Command>, ApiError> {
        let limits = &self.0.options;
        let name = Name {
            source,
            sub_id: options.sub_id.clone(),
        };
        let mut all = self.hosted();
        if *self.0.stop.borrow() {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "stopping",
                "the server is stopping",
            ));
        }
        if let Some(hosted) = all.get_mut(&name) {
            hosted.connections.retain(|told| !told.is_closed());
            if hosted.options != options {
                return Err(ApiError::new(
                    StatusCode::CONFLICT,
                    "other_options",
                    "the subscription is in use with other filters or another start; end that first, or wait until it is idle",
                ));
            }
            if hosted.connections.len() >= limits.connections_max {
                return Err(ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too_many_connections",
                    "the subscription has as many connections as it may have",
                ));
            }
            hosted.connections.push(attach.told.clone());
            return Ok(hosted.commands.clone());
        }
        if all.len() >= limits.subscriptions_max {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_subscriptions",
                "as many subscriptions are served as may be",
            ));
        }
        let observer = self
            .0
            .observer
            .as_ref()
            .map(|of| of(&name.source, &name.sub_id));
        let subscription = Subscription::start_observed(
            self.0.redis.clone(),
            name.source.clone(),
            options.clone(),
            observer,
        );
        let watch = subscription.watch();
        let (commands, received) = mpsc::channel(COMMANDS);
        let client = Client::new(subscription, received, self.0.stop.subscribe(), limits.idle);
        all.insert(
            name,
            Hosted {
                options,
                commands: commands.clone(),
                watch,
                connections: vec![attach.told.clone()],
                task: tokio::spawn(client.run()),
            },
        );
        Ok(commands)
    }

    /// Hands a client's answers to its subscription.
    pub(crate) async fn settle(
        &self,
        source: EventSource,
        sub_id: SubId,
        answers: Answers,
    ) -> Result<Settled, ApiError> {
        let not_here = || {
            ApiError::new(
                StatusCode::CONFLICT,
                "not_connected",
                "no client of this subscription is connected to this server; its events are given out again on the next connection",
            )
        };
        let name = Name { source, sub_id };
        let commands = self
            .hosted()
            .get(&name)
            .map(|hosted| hosted.commands.clone())
            .ok_or_else(not_here)?;
        let (reply, settled) = oneshot::channel();
        if commands
            .send(Command::Settle(answers, reply))
            .await
            .is_err()
        {
            return Err(not_here());
        }
        settled.await.map_err(|_| not_here())
    }
}
