//! Everything of a configuration, running: the services in the order in which they need each other, the listeners, and
//! the way to stop them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use cairn_config::Config;
use cairn_http::Listener;
use cairn_scanner::Scanner;
use cairn_telemetry::routes::health_router;
use cairn_telemetry::{Health, HttpMetrics, Logs, MetricsRegistry, ProcessMetrics};

use crate::data_dir::DataDirLock;
use crate::serve::{self, Serving};
use crate::services::antelope::Recordings;
use crate::services::chain::Chain;
use crate::services::{
    Host, Running, antelope, electrum, explorer, redis, scanner, subscriptions, utxo,
};
use crate::stop::Stop;

/// How long tasks and threads get to finish after a request to stop.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// The version in health, metrics and `--version`.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything of one process, running.
pub(crate) struct App {
    /// Where the listeners really are, the main one first.
    pub(crate) bound: Vec<cairn_http::Listen>,
    pub(crate) health: Health,
    chains: Vec<Chain>,
    scanner: Option<Scanner>,
    running: Running,
    stop: Stop,
    _lock: DataDirLock,
}

impl App {
    /// Opens everything, binds all listeners and starts. What fails here fails the start: the operator is still looking.
    pub(crate) async fn start(config: &Config, logs: &Logs, stop: &Stop) -> anyhow::Result<Self> {
        Self::start_with(config, logs, stop, &Recordings::new()).await
    }

    /// The same with recordings instead of nodes for some Antelope chains.
    pub(crate) async fn start_with(
        config: &Config,
        logs: &Logs,
        stop: &Stop,
        recordings: &Recordings,
    ) -> anyhow::Result<Self> {
        let lock = DataDirLock::take(&config.data_dir)?;
        electrum::check(config)?;
        let health = Health::new(VERSION);
        let registry = Arc::new(MetricsRegistry::new());
        ProcessMetrics::register(&registry, VERSION);
        let serving = Serving {
            health: health.clone(),
            registry: Arc::clone(&registry),
            metrics: HttpMetrics::register(&registry),
            cors: config.http.cors.clone(),
            stop: stop.clone(),
        };
        let mut host = Host::new(health.clone(), registry, stop.clone());
        let started = async {
            let chains = utxo::start(&mut host, config, logs).await?;
            electrum::start(&mut host, config, &chains).await?;
            let redis = redis::start(&mut host, config).await?;
            antelope::start(&mut host, config, redis.as_ref(), recordings)?;
            let scanner = scanner::start(&mut host, config, redis.as_ref())?;
            subscriptions::start(&mut host, config, redis.as_ref())?;
            explorer::start(&mut host, config, &chains, redis.as_ref(), scanner.as_ref())?;
            host.mount("", health_router(health.clone()));
            let bound = start_servers(&mut host, &serving, config, &chains).await?;
            anyhow::Ok((bound, chains, scanner))
        };
        let started = started.await;
        let running = host.into_running();
        match started {
            Ok((bound, chains, scanner)) => Ok(Self {
                bound,
                health,
                chains,
                scanner,
                running,
                stop: stop.clone(),
                _lock: lock,
            }),
            Err(error) => {
                // What runs already writes to stores: it must have ended before the process does.
                stop.request();
                if let Err(also) = end(running).await {
                    tracing::warn!(error = format!("{also:#}"), "a service did not stop");
                }
                Err(error)
            }
        }
    }

    /// The application ledger.
    pub(crate) fn scanner(&self) -> Option<&Scanner> {
        self.scanner.as_ref()
    }

    /// The opened chains.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Serves until asked to stop, then ends listeners, tasks and threads.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.stop.token().cancelled().await;
        crate::system::notify_stopping();
        end(self.running).await?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits for everything that runs; it has been asked to stop.
async fn end(running: Running) -> anyhow::Result<()> {
    let deadline = Instant::now() + STOP_GRACE;
    let Running {
        mut tasks,
        threads,
        last,
    } = running;
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.context("a listener or a service ended unexpectedly")?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout_at(deadline.into(), all)
        .await
        .with_context(|| format!("a service did not stop within {} s", STOP_GRACE.as_secs()))??;
    tokio::task::spawn_blocking(move || join_all(threads, deadline))
        .await
        .context("the threads could not be awaited")??;
    for ending in last {
        ending.await?;
    }
    Ok(())
}

/// Binds and runs every listener; gives back where they are, the main one first.
async fn start_servers(
    host: &mut Host,
    serving: &Serving,
    config: &Config,
    chains: &[Chain],
) -> anyhow::Result<Vec<cairn_http::Listen>> {
    let mut bound: Vec<cairn_http::Listen> = Vec::new();
    let mut listeners: Vec<(Listener, cairn_http::Surface)> = Vec::new();
    for planned in serving.plan(config, chains, host.take_routers())? {
        let listener = serve::bind(&planned.listen).await?;
        bound.push(
            listener
                .address()
                .context("a bound listener has no address")?,
        );
        listeners.push((listener, planned.surface));
    }
    // Only when all are bound does any answer.
    for ((listener, surface), address) in listeners.into_iter().zip(&bound) {
        tracing::info!(%address, "listening");
        let stopped = host.stop.token().clone().cancelled_owned();
        host.run(cairn_http::serve(listener, surface, stopped));
    }
    Ok(bound)
}

fn join_all(threads: Vec<JoinHandle<()>>, deadline: Instant) -> anyhow::Result<()> {
    for thread in threads {
        let name = thread.thread().name().unwrap_or("unnamed").to_owned();
        while !thread.is_finished() {
            anyhow::ensure!(
                Instant::now() < deadline,
                "the thread {name} did not stop within {} s; nothing finished is lost",
                STOP_GRACE.as_secs()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().map_err(|_| {
            anyhow::anyhow!("the thread {name} panicked; its message is in the log")
        })?;
    }
    Ok(())
}
