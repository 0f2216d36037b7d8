//! All chains of a configuration, running: indexing threads, listeners, health, and the way to stop them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use cairn_config::Config;
use cairn_http::Listener;
use cairn_telemetry::{
    ChainMetrics, Health, HttpMetrics, Logs, MetricsRegistry, ProcessMetrics, ProgressReporter,
};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::chain::Chain;
use crate::data_dir::DataDirLock;
use crate::monitor::Monitor;
use crate::serve::{self, Serving};
use crate::stop::Stop;
use crate::worker::Worker;

/// How often the state of the chains is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// How long indexing threads get to finish after a request to stop.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// The version in health, metrics and `--version`.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything of one process, running.
pub(crate) struct App {
    /// Where the listeners really are, the main one first.
    pub(crate) bound: Vec<cairn_http::Listen>,
    pub(crate) health: Health,
    chains: Vec<Chain>,
    servers: JoinSet<()>,
    threads: Vec<JoinHandle<()>>,
    stop: Stop,
    _lock: DataDirLock,
}

impl App {
    /// Opens all chains, binds all listeners and starts everything. What fails here fails the start: the operator is
    /// still looking.
    pub(crate) async fn start(config: &Config, logs: &Logs, stop: &Stop) -> anyhow::Result<Self> {
        let lock = DataDirLock::take(&config.data_dir)?;
        let health = Health::new(VERSION);
        let registry = Arc::new(MetricsRegistry::new());
        let chain_metrics = ChainMetrics::register(&registry);
        ProcessMetrics::register(&registry, VERSION);
        let serving = Serving {
            health: health.clone(),
            registry: Arc::clone(&registry),
            metrics: HttpMetrics::register(&registry),
            cors: config.http.cors.clone(),
        };
        let mut chains = Vec::new();
        let mut monitors = Vec::new();
        for chain in &config.chains {
            let opened = open_chain(config, chain, stop).await?;
            let part = health.register(&chain.id);
            let index = Arc::clone(&opened.index);
            monitors.push(Arc::new(Monitor::new(
                &chain.id,
                index,
                part,
                chain_metrics.clone(),
            )));
            chains.push(opened);
        }
        registry.before_scrape({
            let monitors = monitors.clone();
            move || monitors.iter().for_each(|monitor| monitor.report_store())
        });

        let (bound, servers) = start_servers(&serving, config, &chains, stop).await?;
        let mut threads = Vec::new();
        for (chain, monitor) in chains.iter().zip(&monitors) {
            let worker = Worker {
                index: Arc::clone(&chain.index),
                source: Arc::clone(&chain.opened.source),
                monitor: Arc::clone(monitor),
                stop: stop.clone(),
            };
            threads.push(spawn(&format!("index-{}", chain.config.id), move || {
                worker.run()
            })?);
        }
        let reporter = Reporter {
            monitors,
            logs: logs.clone(),
            stop: stop.clone(),
        };
        threads.push(spawn("report", move || reporter.run())?);
        Ok(Self {
            bound,
            health,
            chains,
            servers,
            threads,
            stop: stop.clone(),
            _lock: lock,
        })
    }

    /// The opened chains.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Serves until asked to stop, then ends listeners and threads.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        self.stop.token().cancelled().await;
        crate::system::notify_stopping();
        let deadline = Instant::now() + STOP_GRACE;
        while let Some(ended) = self.servers.join_next().await {
            ended.context("a listener ended unexpectedly")?;
        }
        let threads = std::mem::take(&mut self.threads);
        tokio::task::spawn_blocking(move || join_all(threads, deadline))
            .await
            .context("the threads could not be awaited")??;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn open_chain(
    config: &Config,
    chain: &cairn_config::ChainConfig,
    stop: &Stop,
) -> anyhow::Result<Chain> {
    let (config, chain, stop, handle) = (
        config.clone(),
        chain.clone(),
        stop.clone(),
        Handle::current(),
    );
    // Opening reads the header list: seconds on a large chain.
    tokio::task::spawn_blocking(move || Chain::open(&config, &chain, &handle, &stop))
        .await
        .context("opening a chain ended unexpectedly")?
}

async fn start_servers(
    serving: &Serving,
    config: &Config,
    chains: &[Chain],
    stop: &Stop,
) -> anyhow::Result<(Vec<cairn_http::Listen>, JoinSet<()>)> {
    let mut bound: Vec<cairn_http::Listen> = Vec::new();
    let mut listeners: Vec<(Listener, cairn_http::Surface)> = Vec::new();
    for planned in serving.plan(config, chains)? {
        let listener = serve::bind(&planned.listen).await?;
        bound.push(
            listener
                .address()
                .context("a bound listener has no address")?,
        );
        listeners.push((listener, planned.surface));
    }
    // Only when all are bound does any answer.
    let mut servers = JoinSet::new();
    for ((listener, surface), address) in listeners.into_iter().zip(&bound) {
        tracing::info!(%address, "listening");
        servers.spawn(cairn_http::serve(
            listener,
            surface,
            stop.token().clone().cancelled_owned(),
        ));
    }
    Ok((bound, servers))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .with_context(|| format!("cannot start the thread {name}"))
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

/// Reports the chains' states, and the progress of first loads.
struct Reporter {
    monitors: Vec<Arc<Monitor>>,
    logs: Logs,
    stop: Stop,
}

impl Reporter {
    fn run(self) {
        let mut loads: Vec<Option<ProgressReporter>> = self
            .monitors
            .iter()
            .map(|monitor| {
                (!monitor.is_serving()).then(|| ProgressReporter::new(&self.logs, monitor.id()))
            })
            .collect();
        while !self.stop.is_requested() {
            for (monitor, load) in self.monitors.iter().zip(&mut loads) {
                monitor.report();
                match load {
                    Some(_) if monitor.is_serving() => *load = None,
                    Some(reporter) => reporter.update(&monitor.sample()),
                    None => {}
                }
            }
            self.stop.sleep(REPORT_INTERVAL);
        }
    }
}
