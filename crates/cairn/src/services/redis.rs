//! The Redis that streams and ledgers live in: the one that is configured, or a private server of Cairn's own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use cairn_config::Config;
use cairn_redis::{
    FoundServer, PrivateOptions, PrivateServer, PrivateState, Redis, ServerProgram, Target,
};
use cairn_telemetry::{RedisMetrics, Service, ServiceStatus};
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;

use crate::data_dir::DataDirLock;
use crate::services::Host;

/// The private server's folder below the data folder.
const FOLDER: &str = "redis";
/// The name of the program when nothing else is configured: any server of that kind on the path will do.
const ANY_PROGRAM: &str = "redis-server";
/// How often it is asked how it is.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Connects to the configured Redis, or starts the private one; `None` when nothing needs one. A configured Redis that is not
/// there yet is waited for by whoever uses it; one that refuses us, or is too old, fails the start.
pub(crate) async fn start(host: &mut Host, config: &Config) -> anyhow::Result<Option<Redis>> {
    if !config.needs_redis() {
        return Ok(None);
    }
    let (redis, server) = match target(config)? {
        Some(target) => (connect(&target).await?, None),
        None => {
            let server = start_private(config).await?;
            (Redis::connect(server.target()).await?, Some(server))
        }
    };
    let service = host.health.register_service("redis", redis.place());
    let metrics = RedisMetrics::register(&host.registry);
    let state = server.as_ref().map(PrivateServer::state);
    if let Some(server) = server {
        // Whoever writes has ended by then.
        host.run_last(async move {
            server.stop().await.context(
                "the private redis-server; what it had answered is in its append-only file",
            )
        });
    }
    let watch = Watch {
        redis: redis.clone(),
        service,
        metrics,
        state,
        stop: host.stop.token().clone(),
    };
    host.run(watch.run());
    Ok(Some(redis))
}

/// Where the configured Redis is; `None` for the private one.
pub(crate) fn target(config: &Config) -> anyhow::Result<Option<Target>> {
    let Some(url) = &config.redis.url else {
        return Ok(None);
    };
    Target::parse(url.expose_secret())
        .map(Some)
        .context("redis.url")
}

async fn connect(target: &Target) -> anyhow::Result<Redis> {
    match Redis::connect(target).await {
        Ok(redis) => Ok(redis),
        Err(error) if error.is_transient() => {
            tracing::warn!(%error, "Redis does not answer yet; going on and trying again");
            Ok(Redis::connect_lazily(target)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn folder(config: &Config) -> PathBuf {
    config.data_dir.join(FOLDER)
}

/// The program that the private server is.
pub(crate) fn program(server: &Path) -> anyhow::Result<ServerProgram> {
    let program = if server == Path::new(ANY_PROGRAM) {
        ServerProgram::find()
    } else {
        ServerProgram::at(server)
    };
    Ok(program?)
}

async fn start_private(config: &Config) -> anyhow::Result<PrivateServer> {
    let program = program(&config.redis.server)?;
    Ok(PrivateServer::start(&program, &PrivateOptions::new(folder(config))).await?)
}

/// Asks Redis again and again how it is, and tells it.
struct Watch {
    redis: Redis,
    service: Service,
    metrics: RedisMetrics,
    /// Of the private server.
    state: Option<tokio::sync::watch::Receiver<PrivateState>>,
    stop: CancellationToken,
}

impl Watch {
    async fn run(self) {
        let mut has_warned = false;
        let mut was_ready = true;
        while !self.stop.is_cancelled() {
            let checked = tokio::select! {
                () = self.stop.cancelled() => return,
                checked = self.redis.check() => checked,
            };
            self.metrics.set_up(checked.is_ok());
            let mut reason = None;
            match &checked {
                Ok(facts) => {
                    self.metrics.set_memory(facts.used_bytes, facts.max_bytes);
                    let warnings = facts.warnings();
                    if !has_warned {
                        has_warned = true;
                        for warning in &warnings {
                            tracing::warn!(redis = self.redis.place(), "{warning}");
                        }
                    }
                    if !warnings.is_empty() {
                        reason = Some(warnings.join("; "));
                    }
                }
                Err(error) => {
                    let mut text = error.to_string();
                    if let Some(PrivateState::Restarting { reason }) =
                        self.state.as_ref().map(|state| state.borrow().clone())
                    {
                        text = format!("{text}; it is being started again: {reason}");
                    }
                    reason = Some(text);
                }
            }
            let is_ready = checked.is_ok();
            if is_ready != was_ready {
                was_ready = is_ready;
                match &reason {
                    Some(reason) if !is_ready => tracing::error!(reason, "Redis cannot be used"),
                    _ => tracing::info!("Redis can be used again"),
                }
            }
            self.service.report(ServiceStatus {
                is_ready,
                place: self.redis.place().to_owned(),
                reason,
            });
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
        }
    }
}

/// A Redis for one command: the configured one, the one of the running server, or the private one started for the command.
pub(crate) struct CommandRedis {
    pub(crate) redis: Redis,
    held: Held,
}

/// What must be kept, or ended, with a command.
enum Held {
    Nothing,
    /// The server of a running Cairn: the way to its socket is held.
    Found(FoundServer),
    Started(PrivateServer, DataDirLock),
}

impl CommandRedis {
    /// Finds or starts one.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        if let Some(target) = target(config)? {
            return Ok(Self {
                redis: Redis::connect(&target).await?,
                held: Held::Nothing,
            });
        }
        if let Some(found) = PrivateServer::find(&folder(config)).await {
            return Ok(Self {
                redis: Redis::connect(&found.target()).await?,
                held: Held::Found(found),
            });
        }
        anyhow::ensure!(
            folder(config).is_dir(),
            "no redis.url is configured, and there is no private Redis below {} yet: nothing was ever published there",
            config.data_dir.display()
        );
        let lock = DataDirLock::take(&config.data_dir)?;
        let server = start_private(config).await?;
        Ok(Self {
            redis: Redis::connect(server.target()).await?,
            held: Held::Started(server, lock),
        })
    }

    /// Ends what was started for the command.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.held {
            Held::Nothing => {}
            Held::Found(found) => drop(found),
            Held::Started(server, _lock) => server.stop().await?,
        }
        Ok(())
    }
}
