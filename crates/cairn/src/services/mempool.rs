//! The unconfirmed transactions of a chain: compared with the node's own list again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_utxo_index::{Index, IndexError, MempoolSync};
use cairn_utxo_node::{Hints, MempoolSource, MempoolStamp, NodeMempool, SourceError};
use tokio::runtime::Handle;

use crate::services::Host;
use crate::services::chain::Chain;
use crate::services::monitor::Monitor;
use crate::services::worker::Backoff;
use crate::stop::Stop;

/// Between two glances at the node's mempool, unless it wakes us.
const GLANCE_INTERVAL: Duration = Duration::from_millis(250);
/// While the index catches up with the node.
const BEHIND_INTERVAL: Duration = Duration::from_millis(20);
/// Before the first load is complete.
const NO_VIEW_INTERVAL: Duration = Duration::from_millis(500);
/// A comparison may take one part in so many of the time, so that listing a large mempool does not become the node's main
/// work.
const SHARE: u32 = 10;
/// Longest pause after a comparison, however long it took.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After this long the lists are compared even if the glances saw no difference.
const COMPARE_AFTER: Duration = Duration::from_secs(30);

/// Starts following the mempool of a chain's node; a chain of block files alone has none.
pub(crate) fn start(host: &mut Host, chain: &Chain, monitor: &Arc<Monitor>) -> anyhow::Result<()> {
    let Some(node) = &chain.opened.node else {
        return Ok(());
    };
    let (runtime, token) = (Handle::current(), host.stop.token());
    let hints = chain
        .config
        .zmq_url
        .as_ref()
        .map(|url| Hints::subscribe(url, &runtime, token.clone()));
    let follower = MempoolFollower {
        index: Arc::clone(&chain.index),
        source: Box::new(NodeMempool::new(
            node.clone(),
            hints,
            runtime,
            token.clone(),
        )),
        monitor: Arc::clone(monitor),
        stop: host.stop.clone(),
        compared: None,
        has_loaded: false,
    };
    host.run_thread(&format!("mempool-{}", chain.config.id), move || {
        follower.run()
    })
}

/// Everything the thread needs.
struct MempoolFollower {
    index: Arc<Index>,
    source: Box<dyn MempoolSource>,
    monitor: Arc<Monitor>,
    stop: Stop,
    /// What the glance before the last complete comparison showed, and when that was.
    compared: Option<(MempoolStamp, Instant)>,
    has_loaded: bool,
}

impl MempoolFollower {
    fn run(mut self) {
        let chain = self.monitor.id().to_owned();
        let mut backoff = Backoff::new();
        let mut told = String::new();
        while !self.stop.is_requested() {
            match self.step() {
                Ok(pause) => {
                    if !told.is_empty() {
                        tracing::info!(chain, "the mempool is followed again");
                        told.clear();
                    }
                    backoff.reset();
                    self.source.wait(pause);
                }
                Err(IndexError::Stopped | IndexError::Source(SourceError::Stopped)) => break,
                Err(error) => {
                    let text = error.to_string();
                    if text != told {
                        tracing::warn!(
                            chain,
                            error = text,
                            "the mempool cannot be followed; trying again"
                        );
                        told = text;
                    }
                    self.stop.sleep(backoff.pause());
                }
            }
        }
    }

    /// A glance, and a comparison if there may be something new; how long to wait then.
    fn step(&mut self) -> Result<Duration, IndexError> {
        let Some(view) = self.index.view() else {
            return Ok(NO_VIEW_INTERVAL);
        };
        let stamp = self.source.stamp()?;
        if stamp.tip != view.tip().hash {
            return Ok(BEHIND_INTERVAL);
        }
        let is_same = self
            .compared
            .is_some_and(|(seen, at)| seen == stamp && at.elapsed() < COMPARE_AFTER);
        if is_same && view.mempool().is_loaded() {
            return Ok(GLANCE_INTERVAL);
        }
        drop(view);
        let started = Instant::now();
        let outcome = self.index.sync_mempool(&*self.source, self.stop.flag())?;
        let took = started.elapsed();
        let MempoolSync::Complete(round) = outcome else {
            return Ok(BEHIND_INTERVAL);
        };
        // What was left out needs another look, whatever the glance says.
        let is_whole = round.left_out == 0 && round.vanished == 0;
        self.compared = is_whole.then_some((stamp, started));
        self.monitor.mempool_complete();
        if !self.has_loaded {
            self.has_loaded = true;
            tracing::info!(
                chain = self.monitor.id(),
                transactions = round.added,
                seconds = took.as_secs_f64(),
                "mempool loaded"
            );
        }
        Ok((took * SHARE).clamp(GLANCE_INTERVAL, PAUSE_MAX))
    }
}
