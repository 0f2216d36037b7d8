//! The UTXO chains: a source, an index and an indexing thread for each, and one thread that reports on all.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cairn_config::{Config, UtxoConfig};
use cairn_telemetry::{ChainMetrics, Logs, ProgressReporter};
use tokio::runtime::Handle;

use crate::services::chain::Chain;
use crate::services::monitor::Monitor;
use crate::services::worker::Worker;
use crate::services::{Host, assets, mempool};
use crate::stop::Stop;

/// How often the state of the chains is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Opens every chain and starts following it.
pub(crate) async fn start(
    host: &mut Host,
    config: &Config,
    logs: &Logs,
) -> anyhow::Result<Vec<Chain>> {
    let metrics = ChainMetrics::register(&host.registry);
    let mut chains = Vec::new();
    let mut monitors = Vec::new();
    for chain in config.utxo_chains() {
        let mut opened = open(config, chain, &host.stop).await?;
        opened.registry = assets::start(host, chain)?;
        let part = host.health.register(&chain.id);
        let index = Arc::clone(&opened.index);
        monitors.push(Arc::new(Monitor::new(
            &chain.id,
            index,
            part,
            metrics.clone(),
            opened.opened.node.is_some(),
        )));
        chains.push(opened);
    }
    host.registry.before_scrape({
        let monitors = monitors.clone();
        move || monitors.iter().for_each(|monitor| monitor.report_store())
    });
    for (chain, monitor) in chains.iter().zip(&monitors) {
        let worker = Worker {
            index: Arc::clone(&chain.index),
            source: Arc::clone(&chain.opened.source),
            monitor: Arc::clone(monitor),
            stop: host.stop.clone(),
        };
        host.run_thread(&format!("index-{}", chain.config.id), move || worker.run())?;
        mempool::start(host, chain, monitor)?;
    }
    let reporter = Reporter {
        monitors,
        logs: logs.clone(),
        stop: host.stop.clone(),
    };
    host.run_thread("report", move || reporter.run())?;
    Ok(chains)
}

async fn open(config: &Config, chain: &UtxoConfig, stop: &Stop) -> anyhow::Result<Chain> {
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
