//! One handle over a single server, a service behind Sentinels, and a Cluster.
//!
//! A single server and a Sentinel's master are reached through one multiplexed connection that is made anew when it broke or
//! when its server is no longer the master; whoever asks meanwhile waits for the one attempt under way. A Cluster's client
//! keeps a connection to each node and follows redirections by itself.

mod shards;

use std::sync::{Arc, Once};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisFuture, RedisResult,
    TlsMode, Value,
};
use tokio::sync::Mutex;

use crate::error::{RedisError, code};
use crate::server::{ServerFacts, VERSION_MIN};
use crate::target::{Target, TargetKind};

pub use shards::Shard;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long Redis may take to answer a command that does not block.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a Cluster's client asks again after a redirection or a lost node, within [`RESPONSE_TIMEOUT`].
const CLUSTER_RETRIES: u32 = 4;
/// Pause before the first of these, milliseconds.
const CLUSTER_RETRY_MIN_MS: u64 = 50;
/// The longest such pause, milliseconds.
const CLUSTER_RETRY_MAX_MS: u64 = 1_000;
/// Keys that a server looks at in one step of a walk.
const SCAN_COUNT: u32 = 1_000;

/// The way to Redis. Cheap to clone; clones share their connections. Commands of all clones are pipelined.
///
/// It implements `redis::aio::ConnectionLike`: `redis::cmd("GET").arg(key).query_async(&mut redis)`. A command that fails
/// with a lost connection may or may not have been executed.
#[derive(Clone)]
pub struct Redis {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    /// The URL without passwords, for messages.
    place: String,
    link: Link,
}

enum Link {
    Direct(Box<Reconnecting>),
    Cluster(ClusterConnection),
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.shared.place)
    }
}

impl Redis {
    /// Connects, and checks that the server answers and is new enough.
    pub async fn connect(target: &Target) -> Result<Self, RedisError> {
        let redis = Self::connect_inner(target, RESPONSE_TIMEOUT)
            .await
            .map_err(|error| RedisError::sort(&target.to_string(), "connecting", &error))?;
        redis.check().await?;
        Ok(redis)
    }

    /// A handle without a connection yet: it connects when it is first used, and again until that succeeds. The version is
    /// not checked; [`Redis::check`] does that.
    pub fn connect_lazily(target: &Target) -> Result<Self, RedisError> {
        let explain =
            |error: redis::RedisError| RedisError::sort(&target.to_string(), "connecting", &error);
        if target.is_tls() {
            install_tls_provider();
        }
        let link = match target.kind() {
            TargetKind::Single | TargetKind::Sentinel => Link::Direct(Box::new(
                Reconnecting::new(target, RESPONSE_TIMEOUT).map_err(explain)?,
            )),
            TargetKind::Cluster => {
                let client = cluster_client(target, RESPONSE_TIMEOUT).map_err(explain)?;
                let config = redis::cluster::ClusterConfig::new();
                Link::Cluster(client.get_pending_async_connection_with_config(config))
            }
        };
        Ok(Self {
            shared: Arc::new(Shared {
                target: target.clone(),
                place: target.to_string(),
                link,
            }),
        })
    }

    /// Checks that the server answers and is new enough.
    pub async fn check(&self) -> Result<ServerFacts, RedisError> {
        self.ping().await?;
        let facts = self.facts().await?;
        match facts.too_old() {
            Some(version) => Err(RedisError::TooOld {
                place: self.place().to_owned(),
                version: version.to_owned(),
                needed: VERSION_MIN.to_string(),
            }),
            None => Ok(facts),
        }
    }

    async fn connect_inner(target: &Target, response_timeout: Duration) -> RedisResult<Self> {
        if target.is_tls() {
            install_tls_provider();
        }
        let link = match target.kind() {
            TargetKind::Single | TargetKind::Sentinel => {
                let reconnecting = Reconnecting::new(target, response_timeout)?;
                reconnecting.get().await?;
                Link::Direct(Box::new(reconnecting))
            }
            TargetKind::Cluster => Link::Cluster(connect_cluster(target, response_timeout).await?),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                target: target.clone(),
                place: target.to_string(),
                link,
            }),
        })
    }

    /// A connection of its own for commands that wait in Redis for at most `longest_block` (`XREADGROUP … BLOCK`).
    pub async fn dedicated(&self, longest_block: Duration) -> Result<Dedicated, RedisError> {
        let timeout = longest_block.saturating_add(RESPONSE_TIMEOUT);
        Self::connect_inner(&self.shared.target, timeout)
            .await
            .map(Dedicated)
            .map_err(|error| self.explain("connecting", &error))
    }

    /// Where it is, without passwords.
    pub fn place(&self) -> &str {
        &self.shared.place
    }

    /// What it was connected with.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Whether keys are spread over a Cluster, so that a step can hold one key only.
    pub fn is_cluster(&self) -> bool {
        matches!(self.shared.link, Link::Cluster(_))
    }

    /// Sends one command. `what` says in an error what was being done, with the key's name.
    pub async fn query<T: FromRedisValue>(
        &self,
        what: &str,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        command
            .query_async(&mut self.clone())
            .await
            .map_err(|error| self.explain(what, &error))
    }

    /// Sorts an error of the client library by what can be done about it. `what` says what was being done, with the key's
    /// name.
    pub fn explain(&self, what: &str, error: &redis::RedisError) -> RedisError {
        RedisError::sort(&self.shared.place, what, error)
    }

    /// Whether it answers.
    pub async fn ping(&self) -> Result<(), RedisError> {
        self.ask_any(redis::cmd("PING"), "PING").await.map(drop)
    }

    /// What the server says about itself; of a Cluster, what one of its masters says. A login that may not ask gets
    /// `None`s.
    pub async fn facts(&self) -> Result<ServerFacts, RedisError> {
        let hello = self.if_allowed(self.ask_any(redis::cmd("HELLO"), "HELLO").await)?;
        let info = self.if_allowed(self.ask_any(redis::cmd("INFO"), "INFO").await)?;
        let info = info
            .map(redis::from_redis_value::<String>)
            .transpose()
            .map_err(|error| self.explain("INFO", &error.into()))?;
        Ok(ServerFacts::read(hello.as_ref(), info.as_deref()))
    }

    /// Managed services refuse such questions, or do not know them.
    fn if_allowed(&self, answer: Result<Value, RedisError>) -> Result<Option<Value>, RedisError> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(RedisError::Refused { .. } | RedisError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All keys that match a pattern (`prefix:*`), of every node of a Cluster. A key that comes or goes meanwhile may be
    /// missing; one may be there twice. It is a walk over the whole database: for commands, not for requests.
    pub async fn scan_keys(&self, pattern: &str) -> Result<Vec<String>, RedisError> {
        let mut keys = Vec::new();
        let nodes = match &self.shared.link {
            Link::Direct(_) => vec![None],
            Link::Cluster(_) => self.masters().await?.into_iter().map(Some).collect(),
        };
        for node in nodes {
            let mut cursor = "0".to_owned();
            loop {
                let mut command = redis::cmd("SCAN");
                command
                    .arg(&cursor)
                    .arg("MATCH")
                    .arg(pattern)
                    .arg("COUNT")
                    .arg(SCAN_COUNT);
                let answer = match (&self.shared.link, &node) {
                    (Link::Cluster(cluster), Some((host, port))) => {
                        let route = SingleNodeRoutingInfo::ByAddress {
                            host: host.clone(),
                            port: *port,
                        };
                        cluster
                            .clone()
                            .route_command(command, RoutingInfo::SingleNode(route))
                            .await
                    }
                    (Link::Cluster(_), None) => break,
                    (Link::Direct(link), _) => link.send(&command).await,
                };
                let (next, page): (String, Vec<String>) = answer
                    .and_then(|value| Ok(redis::from_redis_value(value)?))
                    .map_err(|error| self.explain("SCAN", &error))?;
                keys.extend(page);
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok(keys)
    }

    /// The masters of a Cluster.
    async fn masters(&self) -> Result<Vec<(String, u16)>, RedisError> {
        type Node = (String, u16);
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let answer = self.ask_any(command, "CLUSTER SLOTS").await?;
        let slots: Vec<Vec<Value>> = redis::from_redis_value(answer)
            .map_err(|error| self.explain("CLUSTER SLOTS", &error.into()))?;
        let mut masters: Vec<Node> = Vec::new();
        for range in slots {
            // First slot, last slot, the master, its replicas. A node is address, port, id and more.
            let Some(Value::Array(node)) = range.into_iter().nth(2) else {
                continue;
            };
            let mut node = node.into_iter();
            if let (Some(host), Some(port)) = (node.next(), node.next()) {
                let host = redis::from_redis_value(host);
                let port = redis::from_redis_value(port);
                if let (Ok(host), Ok(port)) = (host, port)
                    && !masters.contains(&(String::clone(&host), port))
                {
                    masters.push((host, port));
                }
            }
        }
        Ok(masters)
    }

    /// A question that any master can answer.
    async fn ask_any(&self, command: Cmd, what: &str) -> Result<Value, RedisError> {
        let answer = match &self.shared.link {
            Link::Direct(link) => link.send(&command).await,
            Link::Cluster(cluster) => {
                let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                cluster.clone().route_command(command, route).await
            }
        };
        answer
            .and_then(Value::extract_error)
            .map_err(|error| self.explain(what, &error))
    }
}

impl ConnectionLike for Redis {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match &self.shared.link {
            Link::Direct(link) => Box::pin(link.send(cmd)),
            Link::Cluster(cluster) => {
                let mut cluster = cluster.clone();
                Box::pin(async move { cluster.req_packed_command(cmd).await })
            }
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &self.shared.link {
            Link::Direct(link) => Box::pin(link.send_pipeline(pipeline, offset, count)),
            Link::Cluster(cluster) => {
                let mut cluster = cluster.clone();
                Box::pin(async move { cluster.req_packed_commands(pipeline, offset, count).await })
            }
        }
    }

    fn get_db(&self) -> i64 {
        self.shared.target.db()
    }
}

/// A connection of its own, for commands that wait in Redis. It is not shared: a waiting command holds up what is sent
/// after it.
#[derive(Debug)]
pub struct Dedicated(Redis);

impl Dedicated {
    /// Sorts an error, as [`Redis::explain`].
    pub fn explain(&self, what: &str, error: &redis::RedisError) -> RedisError {
        self.0.explain(what, error)
    }
}

impl ConnectionLike for Dedicated {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// How a connection to the server in charge is made.
enum Connector {
    Server(Box<Client>),
    /// Asked anew for each connection: the master may be another one now.
    Sentinel(Box<Mutex<SentinelClient>>),
}

/// A multiplexed connection that is made anew when it broke.
struct Reconnecting {
    connector: Connector,
    config: AsyncConnectionConfig,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Counts connections, so that only the first who saw a broken one throws it away.
    generation: u64,
    connection: Option<MultiplexedConnection>,
}

impl Reconnecting {
    fn new(target: &Target, response_timeout: Duration) -> RedisResult<Self> {
        let connector = match target.sentinels()? {
            Some((sentinels, service)) => {
                let mut info = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(target.settings());
                if target.is_tls() {
                    info = info.set_tls_mode(TlsMode::Secure);
                }
                Connector::Sentinel(Box::new(Mutex::new(SentinelClient::build(
                    sentinels,
                    service,
                    Some(info),
                    SentinelServerType::Master,
                )?)))
            }
            None => {
                let server = target.servers()?.into_iter().next();
                let server = server.ok_or_else(|| {
                    redis::RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server"))
                })?;
                Connector::Server(Box::new(Client::open(server)?))
            }
        };
        Ok(Self {
            connector,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_response_timeout(Some(response_timeout)),
            slot: Mutex::default(),
        })
    }

    async fn get(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((slot.generation, connection.clone()));
        }
        let connection = self.connect().await?;
        slot.generation += 1;
        slot.connection = Some(connection.clone());
        Ok((slot.generation, connection))
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let client = match &self.connector {
            Connector::Server(client) => Client::clone(client),
            Connector::Sentinel(sentinels) => {
                let mut sentinels = sentinels.lock().await;
                tokio::time::timeout(CONNECT_TIMEOUT, sentinels.async_get_client())
                    .await
                    .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??
            }
        };
        client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await
    }

    /// Throws the connection away when the error says that it, or its server, is no longer the right one.
    async fn look_at<T>(&self, generation: u64, result: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &result {
            let is_stale = error.is_unrecoverable_error()
                || error.is_connection_dropped()
                || error.is_timeout()
                || matches!(code(error).as_deref(), Some("READONLY" | "MASTERDOWN"));
            if is_stale {
                let mut slot = self.slot.lock().await;
                if slot.generation == generation {
                    slot.connection = None;
                }
            }
        }
        result
    }

    async fn send(&self, cmd: &Cmd) -> RedisResult<Value> {
        let (generation, mut connection) = self.get().await?;
        let answer = connection.send_packed_command(cmd).await;
        // An error of the server is a value of its own until somebody asks for the result.
        let answer = answer.and_then(Value::extract_error);
        self.look_at(generation, answer).await
    }

    async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (generation, mut connection) = self.get().await?;
        let answers = connection
            .send_packed_commands(pipeline, offset, count)
            .await;
        let answers = self.look_at(generation, answers).await?;
        let demoted = answers
            .iter()
            .find(|value| matches!(value, Value::ServerError(error) if error.code() == "READONLY"));
        if let Some(Value::ServerError(error)) = demoted {
            let _ = self
                .look_at::<()>(generation, Err(error.clone().into()))
                .await;
        }
        Ok(answers)
    }
}

fn cluster_client(target: &Target, response_timeout: Duration) -> RedisResult<ClusterClient> {
    let mut builder = ClusterClientBuilder::new(target.servers()?)
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(response_timeout)
        .overall_response_timeout(Some(response_timeout))
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(CLUSTER_RETRY_MIN_MS)
        .max_retry_wait(CLUSTER_RETRY_MAX_MS);
    if target.is_tls() {
        builder = builder.tls(TlsMode::Secure);
    }
    builder.build()
}

async fn connect_cluster(
    target: &Target,
    response_timeout: Duration,
) -> RedisResult<ClusterConnection> {
    cluster_client(target, response_timeout)?
        .get_async_connection()
        .await
}

/// The process may hold more than one TLS implementation; one has to be named before the first connection.
fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that somebody chose before us: fine.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}
