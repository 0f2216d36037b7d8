//! What is said of a chain: its state in health, its gauges, its progress.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cairn_telemetry::{
    ChainMetrics, Mempool, Part, PartStatus, Progression, Sample, State, WorkUnit,
};
use cairn_utxo_index::{Index, Progress};

use crate::services::chain::{PHASES, phase_name};

/// A chain this many blocks behind its node still counts as synced: the newest block takes a moment.
const READY_LAG_BLOCKS: u32 = 1;
/// After this long without the node, a chain that was synced counts as stalled.
const STALL_AFTER: Duration = Duration::from_secs(60);

/// Why the indexer does not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Tried again; usually passes.
    Transient,
    /// Tried again, but it needs the operator: a refused password, another network.
    Refused,
    /// The indexer has ended.
    Fatal,
}

struct Ongoing {
    trouble: Trouble,
    reason: String,
    since: Instant,
}

/// What the indexing thread knows and the index does not.
#[derive(Default)]
struct Told {
    ongoing: Option<Ongoing>,
    /// Whether a catch-up has succeeded since the start of the process: before that, the lag is unknown.
    has_caught_up: bool,
}

/// Watches one chain.
pub(crate) struct Monitor {
    id: String,
    index: Arc<Index>,
    part: Part,
    metrics: ChainMetrics,
    follows_mempool: bool,
    told: Mutex<Told>,
}

impl Monitor {
    pub(crate) fn new(
        id: &str,
        index: Arc<Index>,
        part: Part,
        metrics: ChainMetrics,
        follows_mempool: bool,
    ) -> Self {
        Self {
            id: id.to_owned(),
            index,
            part,
            metrics,
            follows_mempool,
            told: Mutex::default(),
        }
    }

    /// A catch-up succeeded. True when trouble is over.
    pub(crate) fn caught_up(&self) -> bool {
        let mut told = self.told();
        told.has_caught_up = true;
        let was_in_trouble = told.ongoing.take().is_some();
        drop(told);
        self.report();
        was_in_trouble
    }

    /// A catch-up failed. True when the trouble is new or another one.
    pub(crate) fn troubled(&self, trouble: Trouble, reason: String) -> bool {
        self.metrics.failed(&self.id, trouble == Trouble::Transient);
        let mut told = self.told();
        let before = told.ongoing.take();
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.reason == reason);
        let since = before.map_or_else(Instant::now, |before| before.since);
        told.ongoing = Some(Ongoing {
            trouble,
            reason,
            since,
        });
        drop(told);
        self.report();
        !is_same
    }

    /// Counts a catch-up.
    pub(crate) fn count(&self, blocks: u64, txs: u64, undone: u32, duration: Duration) {
        self.metrics.synced(&self.id, blocks, txs, undone, duration);
    }

    /// Reports the state to health and metrics; called often.
    pub(crate) fn report(&self) -> PartStatus {
        let progress = self.index.progress();
        let view = self.index.view();
        let mempool = self.follows_mempool.then(|| {
            match view.as_ref().is_some_and(|view| view.mempool().is_loaded()) {
                true => Mempool::Loaded,
                false => Mempool::Loading,
            }
        });
        if let (true, Some(view)) = (self.follows_mempool, &view) {
            let mempool = view.mempool();
            self.metrics
                .set_mempool(&self.id, mempool.len() as u64, mempool.vsize());
        }
        let facts = {
            let told = self.told();
            Facts {
                has_view: view.is_some(),
                has_caught_up: told.has_caught_up,
                tip: progress.tip,
                source_tip: progress.source_tip,
                trouble: told
                    .ongoing
                    .as_ref()
                    .map(|ongoing| (ongoing.trouble, ongoing.since.elapsed())),
                reason: told.ongoing.as_ref().map(|ongoing| ongoing.reason.clone()),
            }
        };
        let (state, reason) = judge(&facts);
        let sample = sample(&progress);
        let status = PartStatus {
            state,
            reason,
            progress: Progression {
                height: progress.tip,
                node_height: progress.source_tip,
                phase: sample.phase,
                percent: sample.percent(),
                rate: sample.rate,
                eta_seconds: sample.eta_seconds,
                blocks: sample.blocks,
                txs: sample.txs,
            },
            mempool,
        };
        self.part.report(status.clone());
        self.metrics.set_ready(&self.id, status.is_ready());
        self.metrics
            .set_heights(&self.id, progress.tip, progress.source_tip);
        self.metrics.set_phase(
            &self.id,
            &PHASES,
            sample.phase,
            progress.done,
            progress.total,
        );
        status
    }

    /// The mempool was compared with the node's, to the end.
    pub(crate) fn mempool_complete(&self) {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.metrics.mempool_complete(&self.id, now);
    }

    /// Refreshes the gauges of the store; not cheap, so only when somebody looks.
    pub(crate) fn report_store(&self) {
        for (name, value) in self.index.store_metrics() {
            match store_gauge(&name) {
                StoreGauge::Pending(family) => {
                    self.metrics.set_store_pending(&self.id, family, value)
                }
                StoreGauge::Rows(family) => self.metrics.set_store_rows(&self.id, family, value),
                StoreGauge::Cache => self.metrics.set_store_cache(&self.id, value),
                StoreGauge::Bytes(family) => self.metrics.set_store_bytes(&self.id, family, value),
                StoreGauge::Unknown => tracing::debug!(name, "a number of the store has no metric"),
            }
        }
    }

    /// How far the load is.
    pub(crate) fn sample(&self) -> Sample {
        sample(&self.index.progress())
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether readers have something to read.
    pub(crate) fn is_serving(&self) -> bool {
        self.index.view().is_some()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Each change is one assignment: nothing half-done can be seen.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A progress as reporters show it.
pub(crate) fn sample(progress: &Progress) -> Sample {
    Sample {
        phase: phase_name(progress.phase),
        unit: WorkUnit::Bytes,
        done: progress.done,
        total: progress.total,
        rate: progress.rate,
        eta_seconds: progress.eta_seconds,
        blocks: progress.blocks,
        txs: progress.txs,
    }
}

/// All that the state of a chain depends on.
struct Facts {
    has_view: bool,
    has_caught_up: bool,
    tip: Option<u32>,
    source_tip: Option<u32>,
    trouble: Option<(Trouble, Duration)>,
    reason: Option<String>,
}

fn judge(facts: &Facts) -> (State, Option<String>) {
    let reason = facts.reason.clone();
    match facts.trouble {
        Some((Trouble::Fatal | Trouble::Refused, _)) => return (State::Failed, reason),
        Some((Trouble::Transient, age)) if facts.has_view && age >= STALL_AFTER => {
            return (State::Stalled, reason);
        }
        _ => {}
    }
    if !facts.has_view {
        // Nothing is indexed before the source has told its tip.
        let state = if facts.source_tip.is_none() {
            State::Starting
        } else {
            State::Indexing
        };
        return (state, reason);
    }
    if !facts.has_caught_up {
        return (
            State::Starting,
            reason.or_else(|| Some("the tip of the source is not known yet".to_owned())),
        );
    }
    let lag = match (facts.source_tip, facts.tip) {
        (Some(source), Some(tip)) => source.saturating_sub(tip),
        _ => 0,
    };
    if lag > READY_LAG_BLOCKS {
        return (
            State::Indexing,
            reason.or_else(|| Some(format!("{lag} blocks behind"))),
        );
    }
    (State::Synced, reason)
}

/// Which metric a number of the store belongs to.
#[derive(Debug, PartialEq, Eq)]
enum StoreGauge<'a> {
    Rows(&'a str),
    Bytes(&'a str),
    Pending(&'a str),
    Cache,
    Unknown,
}

fn store_gauge(name: &str) -> StoreGauge<'_> {
    if name == "block_cache_bytes" {
        StoreGauge::Cache
    } else if let Some(family) = name.strip_suffix("_pending_compaction_bytes") {
        StoreGauge::Pending(family)
    } else if let Some(family) = name.strip_suffix("_bytes") {
        StoreGauge::Bytes(family)
    } else if let Some(family) = name.strip_suffix("_rows") {
        StoreGauge::Rows(family)
    } else {
        StoreGauge::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        let second = Duration::from_secs(1);
        let facts =
            |has_view, has_caught_up, tip, source_tip, trouble: Option<(Trouble, Duration)>| {
                Facts {
                    has_view,
                    has_caught_up,
                    tip,
                    source_tip,
                    trouble,
                    reason: trouble.map(|_| "why".to_owned()),
                }
            };
        for (facts, state, reason) in [
            (facts(false, false, None, None, None), State::Starting, None),
            (
                facts(false, false, None, Some(9), None),
                State::Indexing,
                None,
            ),
            (
                facts(false, false, None, None, Some((Trouble::Transient, second))),
                State::Starting,
                Some("why"),
            ),
            (
                facts(
                    false,
                    false,
                    None,
                    Some(9),
                    Some((Trouble::Transient, second * 999)),
                ),
                State::Indexing,
                Some("why"),
            ),
            (
                facts(true, false, Some(5), None, None),
                State::Starting,
                Some("the tip of the source is not known yet"),
            ),
            (
                facts(true, true, Some(5), Some(5), None),
                State::Synced,
                None,
            ),
            (
                facts(true, true, Some(5), Some(6), None),
                State::Synced,
                None,
            ),
            (
                facts(true, true, Some(5), Some(7), None),
                State::Indexing,
                Some("2 blocks behind"),
            ),
            // The node went back: nothing is missing here.
            (
                facts(true, true, Some(5), Some(3), None),
                State::Synced,
                None,
            ),
            (
                facts(
                    true,
                    true,
                    Some(5),
                    Some(5),
                    Some((Trouble::Transient, second)),
                ),
                State::Synced,
                Some("why"),
            ),
            (
                facts(
                    true,
                    true,
                    Some(5),
                    Some(5),
                    Some((Trouble::Transient, STALL_AFTER)),
                ),
                State::Stalled,
                Some("why"),
            ),
            (
                facts(
                    true,
                    true,
                    Some(5),
                    Some(5),
                    Some((Trouble::Refused, second)),
                ),
                State::Failed,
                Some("why"),
            ),
            (
                facts(false, false, None, None, Some((Trouble::Fatal, second))),
                State::Failed,
                Some("why"),
            ),
        ] {
            assert_eq!(judge(&facts), (state, reason.map(str::to_owned)));
        }
    }

    #[test]
    fn store_numbers_find_their_metric() {
        for (name, expected) in [
            ("block_cache_bytes", StoreGauge::Cache),
            ("txstore_blocks_rows", StoreGauge::Rows("txstore_blocks")),
            ("txstore_blocks_bytes", StoreGauge::Bytes("txstore_blocks")),
            (
                "history_funding_pending_compaction_bytes",
                StoreGauge::Pending("history_funding"),
            ),
            ("other", StoreGauge::Unknown),
        ] {
            assert_eq!(store_gauge(name), expected, "{name}");
        }
    }
}
