//! The metrics registry and the groups of metrics that parts of Cairn count with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::names;

/// Labels of one time series, in the order of its metric.
pub type Labels = Vec<(&'static str, String)>;
/// A whole number that goes up and down.
pub type GaugeFamily = Family<Labels, Gauge>;
/// A number with a fraction that goes up and down.
pub type FloatGauge = Gauge<f64, AtomicU64>;
/// A number that only grows.
pub type CounterFamily = Family<Labels, Counter>;
/// A distribution.
pub type HistogramFamily = Family<Labels, Histogram>;

/// What is said about a metric where it is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricSpec {
    /// Its name as it is scraped, with the suffix of its unit; counters end in `_total`.
    pub name: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

impl MetricSpec {
    /// Labels with these values; there must be one per label name.
    pub(crate) fn labels(&self, values: &[&str]) -> Labels {
        assert_eq!(self.labels.len(), values.len(), "labels of {}", self.name);
        self.labels
            .iter()
            .copied()
            .zip(values.iter().map(|value| (*value).to_owned()))
            .collect()
    }
}

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
    /// A distribution in buckets.
    Histogram,
}

impl MetricKind {
    /// The word of the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

type ScrapeHook = Box<dyn Fn() + Send + Sync>;

/// All metrics of a process. Made by the binary, passed to whoever counts.
#[derive(Default)]
pub struct MetricsRegistry {
    inner: Mutex<Inner>,
    hooks: Mutex<Vec<ScrapeHook>>,
}

#[derive(Default)]
struct Inner {
    registry: Registry,
    registered: BTreeMap<&'static str, (MetricSpec, MetricKind)>,
}

impl fmt::Debug for MetricsRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsRegistry").finish_non_exhaustive()
    }
}

impl MetricsRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function that is called before each scrape, to refresh what is read and not counted. It should be quick.
    pub fn before_scrape(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(hook));
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        for hook in self
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            hook();
        }
        let mut text = String::new();
        text::encode(&mut text, &self.inner().registry)?;
        Ok(text)
    }

    /// Every registered metric, by name.
    pub fn registered(&self) -> Vec<(MetricSpec, MetricKind)> {
        self.inner().registered.values().copied().collect()
    }

    pub(crate) fn gauge(&self, spec: MetricSpec) -> GaugeFamily {
        self.add(spec, MetricKind::Gauge, GaugeFamily::default())
    }

    pub(crate) fn float_gauge(&self, spec: MetricSpec) -> FloatGauge {
        self.add(spec, MetricKind::Gauge, FloatGauge::default())
    }

    pub(crate) fn counter(&self, spec: MetricSpec) -> CounterFamily {
        self.add(spec, MetricKind::Counter, CounterFamily::default())
    }

    pub(crate) fn histogram(
        &self,
        spec: MetricSpec,
        buckets: fn() -> Histogram,
    ) -> HistogramFamily {
        self.add(
            spec,
            MetricKind::Histogram,
            HistogramFamily::new_with_constructor(buckets),
        )
    }

    fn add<M: Metric + Clone>(&self, spec: MetricSpec, kind: MetricKind, metric: M) -> M {
        let mut inner = self.inner();
        let before = inner.registered.insert(spec.name, (spec, kind));
        assert!(before.is_none(), "metric {} is registered twice", spec.name);
        // The library adds the suffixes itself.
        let bare = match kind {
            MetricKind::Counter => spec.name.strip_suffix("_total").unwrap_or(spec.name),
            MetricKind::Gauge | MetricKind::Histogram => spec.name,
        };
        let with_unit = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)]
            .into_iter()
            .find_map(|(suffix, unit)| Some((bare.strip_suffix(suffix)?, unit)));
        match with_unit {
            Some((name, unit)) => {
                inner
                    .registry
                    .register_with_unit(name, spec.help, unit, metric.clone())
            }
            None => inner.registry.register(bare, spec.help, metric.clone()),
        }
        metric
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while registering leaves the metrics that are there usable.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// From 1 ms to about 17 minutes.
fn sync_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 11))
}

/// From 0.1 ms to about 13 s: the deadline of a request is 10 s.
pub(crate) fn request_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.5, 14))
}

/// What the indexer of a chain counts. One set for all chains: the chain is a label.
#[derive(Debug, Clone)]
pub struct ChainMetrics {
    tip_height: GaugeFamily,
    source_height: GaugeFamily,
    ready: GaugeFamily,
    mempool_txs: GaugeFamily,
    mempool_vsize: GaugeFamily,
    mempool_complete: GaugeFamily,
    phase: GaugeFamily,
    phase_done: GaugeFamily,
    phase_work: GaugeFamily,
    blocks: CounterFamily,
    transactions: CounterFamily,
    undone: CounterFamily,
    reorganisations: CounterFamily,
    failures: CounterFamily,
    sync_seconds: HistogramFamily,
    rows: GaugeFamily,
    bytes: GaugeFamily,
    pending: GaugeFamily,
    cache: GaugeFamily,
}

impl ChainMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            tip_height: registry.gauge(names::INDEX_TIP_HEIGHT),
            source_height: registry.gauge(names::SOURCE_TIP_HEIGHT),
            ready: registry.gauge(names::INDEX_READY),
            mempool_txs: registry.gauge(names::MEMPOOL_TRANSACTIONS),
            mempool_vsize: registry.gauge(names::MEMPOOL_VIRTUAL_BYTES),
            mempool_complete: registry.gauge(names::MEMPOOL_COMPLETE_SECONDS),
            phase: registry.gauge(names::INDEX_PHASE),
            phase_done: registry.gauge(names::PHASE_DONE_BYTES),
            phase_work: registry.gauge(names::PHASE_WORK_BYTES),
            blocks: registry.counter(names::INDEX_BLOCKS),
            transactions: registry.counter(names::INDEX_TRANSACTIONS),
            undone: registry.counter(names::INDEX_UNDONE_BLOCKS),
            reorganisations: registry.counter(names::INDEX_REORGS),
            failures: registry.counter(names::SYNC_FAILURES),
            sync_seconds: registry.histogram(names::SYNC_SECONDS, sync_buckets),
            rows: registry.gauge(names::STORE_ROWS),
            bytes: registry.gauge(names::STORE_BYTES),
            pending: registry.gauge(names::STORE_PENDING_BYTES),
            cache: registry.gauge(names::STORE_CACHE_BYTES),
        }
    }

    /// The heights, where known.
    pub fn set_heights(&self, chain: &str, tip: Option<u32>, source: Option<u32>) {
        for (family, spec, height) in [
            (&self.tip_height, names::INDEX_TIP_HEIGHT, tip),
            (&self.source_height, names::SOURCE_TIP_HEIGHT, source),
        ] {
            if let Some(height) = height {
                family
                    .get_or_create(&spec.labels(&[chain]))
                    .set(i64::from(height));
            }
        }
    }

    /// Whether the chain counts as ready.
    pub fn set_ready(&self, chain: &str, ready: bool) {
        self.ready
            .get_or_create(&names::INDEX_READY.labels(&[chain]))
            .set(i64::from(ready));
    }

    /// Number and virtual bytes of the unconfirmed transactions.
    pub fn set_mempool(&self, chain: &str, transactions: u64, virtual_bytes: u64) {
        let labels = names::MEMPOOL_TRANSACTIONS.labels(&[chain]);
        self.mempool_txs
            .get_or_create(&labels)
            .set(gauge_value(transactions));
        let labels = names::MEMPOOL_VIRTUAL_BYTES.labels(&[chain]);
        self.mempool_vsize
            .get_or_create(&labels)
            .set(gauge_value(virtual_bytes));
    }

    /// The unconfirmed transactions were those of the node at this Unix time.
    pub fn mempool_complete(&self, chain: &str, unix_seconds: u64) {
        let labels = names::MEMPOOL_COMPLETE_SECONDS.labels(&[chain]);
        self.mempool_complete
            .get_or_create(&labels)
            .set(gauge_value(unix_seconds));
    }

    /// The phase out of all there are, and its work in bytes.
    pub fn set_phase(
        &self,
        chain: &str,
        phases: &[&str],
        present: &str,
        done_bytes: u64,
        work_bytes: u64,
    ) {
        for phase in phases {
            let labels = names::INDEX_PHASE.labels(&[chain, phase]);
            self.phase
                .get_or_create(&labels)
                .set(i64::from(*phase == present));
        }
        let labels = names::PHASE_DONE_BYTES.labels(&[chain]);
        self.phase_done
            .get_or_create(&labels)
            .set(gauge_value(done_bytes));
        let labels = names::PHASE_WORK_BYTES.labels(&[chain]);
        self.phase_work
            .get_or_create(&labels)
            .set(gauge_value(work_bytes));
    }

    /// A catch-up that changed something ended.
    pub fn synced(
        &self,
        chain: &str,
        blocks: u64,
        transactions: u64,
        undone: u32,
        duration: Duration,
    ) {
        self.blocks
            .get_or_create(&names::INDEX_BLOCKS.labels(&[chain]))
            .inc_by(blocks);
        self.transactions
            .get_or_create(&names::INDEX_TRANSACTIONS.labels(&[chain]))
            .inc_by(transactions);
        self.undone
            .get_or_create(&names::INDEX_UNDONE_BLOCKS.labels(&[chain]))
            .inc_by(u64::from(undone));
        let reorganisations = self
            .reorganisations
            .get_or_create_owned(&names::INDEX_REORGS.labels(&[chain]));
        reorganisations.inc_by(u64::from(undone > 0));
        let labels = names::SYNC_SECONDS.labels(&[chain]);
        self.sync_seconds
            .get_or_create(&labels)
            .observe(duration.as_secs_f64());
    }

    /// A catch-up failed.
    pub fn failed(&self, chain: &str, is_transient: bool) {
        let kind = if is_transient { "transient" } else { "fatal" };
        self.failures
            .get_or_create(&names::SYNC_FAILURES.labels(&[chain, kind]))
            .inc();
    }

    /// Estimated rows of a part of the store.
    pub fn set_store_rows(&self, chain: &str, family: &str, rows: u64) {
        let labels = names::STORE_ROWS.labels(&[chain, family]);
        self.rows.get_or_create(&labels).set(gauge_value(rows));
    }

    /// Size of a part of the store.
    pub fn set_store_bytes(&self, chain: &str, family: &str, bytes: u64) {
        let labels = names::STORE_BYTES.labels(&[chain, family]);
        self.bytes.get_or_create(&labels).set(gauge_value(bytes));
    }

    /// Compaction that a part of the store waits for.
    pub fn set_store_pending(&self, chain: &str, family: &str, bytes: u64) {
        let labels = names::STORE_PENDING_BYTES.labels(&[chain, family]);
        self.pending.get_or_create(&labels).set(gauge_value(bytes));
    }

    /// Memory of the cache of store blocks.
    pub fn set_store_cache(&self, chain: &str, bytes: u64) {
        let labels = names::STORE_CACHE_BYTES.labels(&[chain]);
        self.cache.get_or_create(&labels).set(gauge_value(bytes));
    }
}

/// What listeners count. One set for all: the listener is a label.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: CounterFamily,
    seconds: HistogramFamily,
    connections: GaugeFamily,
}

impl HttpMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            requests: registry.counter(names::HTTP_REQUESTS),
            seconds: registry.histogram(names::HTTP_SECONDS, request_buckets),
            connections: registry.gauge(names::HTTP_CONNECTIONS),
        }
    }

    /// A request was answered.
    pub fn request(
        &self,
        surface: &str,
        endpoint: &str,
        method: &str,
        status: u16,
        duration: Duration,
    ) {
        let status = status.to_string();
        let labels = names::HTTP_REQUESTS.labels(&[surface, endpoint, method, &status]);
        self.requests.get_or_create(&labels).inc();
        let labels = names::HTTP_SECONDS.labels(&[surface, endpoint]);
        self.seconds
            .get_or_create(&labels)
            .observe(duration.as_secs_f64());
    }

    /// A connection was opened (+1) or closed (-1).
    pub fn connection(&self, surface: &str, change: i64) {
        let labels = names::HTTP_CONNECTIONS.labels(&[surface]);
        self.connections.get_or_create(&labels).inc_by(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_as_they_are_declared() {
        let registry = MetricsRegistry::new();
        let chain = ChainMetrics::register(&registry);
        let http = HttpMetrics::register(&registry);
        chain.set_heights("a", Some(7), Some(9));
        chain.set_ready("a", true);
        chain.set_phase("a", &["adding", "following"], "following", 5, 10);
        chain.synced("a", 2, 30, 1, Duration::from_millis(20));
        chain.failed("a", true);
        chain.set_mempool("a", 7, 8);
        chain.mempool_complete("a", 9);
        chain.set_store_rows("a", "txstore_blocks", 3);
        chain.set_store_bytes("a", "txstore_blocks", 4);
        chain.set_store_pending("a", "txstore_blocks", 5);
        chain.set_store_cache("a", 6);
        http.request("main", "/tx/{txid}", "GET", 200, Duration::from_millis(3));
        http.connection("main", 1);
        let text = registry.encode().expect("writing to a string cannot fail");
        for (spec, _) in registry.registered() {
            let sample = text.lines().any(|line| {
                line.strip_prefix(spec.name).is_some_and(|rest| {
                    rest.starts_with(['{', ' ']) || rest.starts_with("_bucket{")
                })
            });
            assert!(sample, "{} has no sample in\n{text}", spec.name);
        }
        for line in [
            "cairn_index_tip_height{chain=\"a\"} 7",
            "cairn_index_phase{chain=\"a\",phase=\"following\"} 1",
            "cairn_index_phase{chain=\"a\",phase=\"adding\"} 0",
            "cairn_index_blocks_total{chain=\"a\"} 2",
            "cairn_index_reorganisations_total{chain=\"a\"} 1",
            "cairn_index_sync_failures_total{chain=\"a\",kind=\"transient\"} 1",
            "cairn_http_requests_total{surface=\"main\",endpoint=\"/tx/{txid}\",method=\"GET\",status=\"200\"} 1",
            "# UNIT cairn_store_size_bytes bytes",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|got| got == line),
                "{line} is missing in\n{text}"
            );
        }
    }

    #[test]
    fn hooks_run_before_each_scrape() {
        let registry = MetricsRegistry::new();
        let chain = ChainMetrics::register(&registry);
        registry.before_scrape(move || chain.set_store_cache("b", 42));
        let text = registry.encode().expect("writing to a string cannot fail");
        assert!(
            text.contains("cairn_store_block_cache_bytes{chain=\"b\"} 42"),
            "{text}"
        );
    }
}
