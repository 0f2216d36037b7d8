//! What an application ledger counts.

use prometheus_client::metrics::counter::Counter;

use crate::metrics::{CounterFamily, GaugeFamily, MetricSpec, MetricsRegistry, gauge_value};

/// Label with the host of the application.
const HOST: &str = "host";
/// Label with what became of an operation.
const RESULT: &str = "result";
/// Label with the layer: `ledger` (economic truth) or `analytics`.
const LAYER: &str = "layer";
/// Label with where a head came from: `cache` or `scan`.
const SOURCE: &str = "source";

/// Transactions told.
pub const SCANNER_TXS: MetricSpec = MetricSpec {
    name: "cairn_scanner_txs_total",
    labels: &[HOST, RESULT],
    help: "Transactions that applications told, by what became of them: created, duplicate",
};
/// Operations in conflict.
pub const SCANNER_CONFLICTS: MetricSpec = MetricSpec {
    name: "cairn_scanner_conflicts_total",
    labels: &[HOST],
    help: "Operations whose id was known with other content; the first one stays",
};
/// Failures.
pub const SCANNER_FAILURES: MetricSpec = MetricSpec {
    name: "cairn_scanner_index_failures_total",
    labels: &[HOST, LAYER],
    help: "Writes that failed and are tried again",
};
/// Rows that cannot be read.
pub const SCANNER_CORRUPT: MetricSpec = MetricSpec {
    name: "cairn_scanner_unreadable_rows_total",
    labels: &[HOST],
    help: "Listed rows that were missing or could not be read, and were left out of an answer",
};
/// Rows of a backfill.
pub const SCANNER_BACKFILL: MetricSpec = MetricSpec {
    name: "cairn_scanner_backfill_rows_total",
    labels: &[HOST, RESULT],
    help: "Rows that backfills read, by what became of them: new, invalid",
};
/// Heads.
pub const SCANNER_HEADS: MetricSpec = MetricSpec {
    name: "cairn_scanner_head_source_total",
    labels: &[HOST, SOURCE],
    help: "Heads answered from the cache, and by a scan because there was none",
};
/// Pending operations.
pub const SCANNER_PENDING: MetricSpec = MetricSpec {
    name: "cairn_scanner_pending",
    labels: &[HOST],
    help: "Entries of operations that were begun and not finished, as last seen",
};
/// Their age.
pub const SCANNER_PENDING_OLDEST: MetricSpec = MetricSpec {
    name: "cairn_scanner_pending_oldest_seconds",
    labels: &[HOST],
    help: "Age of the oldest of them, as last seen",
};

/// What a ledger has counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScannerFigures {
    /// Transactions written.
    pub created: u64,
    /// Transactions that were known.
    pub duplicate: u64,
    /// Operations in conflict.
    pub conflicts: u64,
    /// Failed operations of the ledger.
    pub ledger_failures: u64,
    /// Events that could not be counted at once.
    pub analytics_failures: u64,
    /// Rows that could not be read.
    pub unreadable_rows: u64,
    /// New rows of backfills.
    pub backfill_new: u64,
    /// Unusable rows of backfills.
    pub backfill_invalid: u64,
    /// Heads from the cache.
    pub heads_cached: u64,
    /// Heads by a scan.
    pub heads_scanned: u64,
    /// Pending entries.
    pub pending: u64,
    /// Age of the oldest, seconds.
    pub pending_oldest_seconds: u64,
}

/// The metrics of all ledgers of a process: the host is a label.
#[derive(Debug, Clone)]
pub struct ScannerMetrics {
    txs: CounterFamily,
    conflicts: CounterFamily,
    failures: CounterFamily,
    unreadable: CounterFamily,
    backfill: CounterFamily,
    heads: CounterFamily,
    pending: GaugeFamily,
    oldest: GaugeFamily,
}

impl ScannerMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            txs: registry.counter(SCANNER_TXS),
            conflicts: registry.counter(SCANNER_CONFLICTS),
            failures: registry.counter(SCANNER_FAILURES),
            unreadable: registry.counter(SCANNER_CORRUPT),
            backfill: registry.counter(SCANNER_BACKFILL),
            heads: registry.counter(SCANNER_HEADS),
            pending: registry.gauge(SCANNER_PENDING),
            oldest: registry.gauge(SCANNER_PENDING_OLDEST),
        }
    }

    /// Takes over what a ledger has counted.
    pub fn set(&self, host: &str, figures: &ScannerFigures) {
        let one = |family: &CounterFamily, spec: MetricSpec, labels: &[&str], value: u64| {
            let mut all = vec![host];
            all.extend(labels);
            raise(&family.get_or_create_owned(&spec.labels(&all)), value);
        };
        one(&self.txs, SCANNER_TXS, &["created"], figures.created);
        one(&self.txs, SCANNER_TXS, &["duplicate"], figures.duplicate);
        one(&self.conflicts, SCANNER_CONFLICTS, &[], figures.conflicts);
        one(
            &self.failures,
            SCANNER_FAILURES,
            &["ledger"],
            figures.ledger_failures,
        );
        one(
            &self.failures,
            SCANNER_FAILURES,
            &["analytics"],
            figures.analytics_failures,
        );
        one(
            &self.unreadable,
            SCANNER_CORRUPT,
            &[],
            figures.unreadable_rows,
        );
        one(
            &self.backfill,
            SCANNER_BACKFILL,
            &["new"],
            figures.backfill_new,
        );
        one(
            &self.backfill,
            SCANNER_BACKFILL,
            &["invalid"],
            figures.backfill_invalid,
        );
        one(&self.heads, SCANNER_HEADS, &["cache"], figures.heads_cached);
        one(&self.heads, SCANNER_HEADS, &["scan"], figures.heads_scanned);
        let labels = SCANNER_PENDING.labels(&[host]);
        self.pending
            .get_or_create_owned(&labels)
            .set(gauge_value(figures.pending));
        let labels = SCANNER_PENDING_OLDEST.labels(&[host]);
        let seconds = gauge_value(figures.pending_oldest_seconds);
        self.oldest.get_or_create_owned(&labels).set(seconds);
    }
}

/// A counter only grows.
fn raise(counter: &Counter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_over_and_never_go_back() {
        let registry = MetricsRegistry::new();
        let metrics = ScannerMetrics::register(&registry);
        let mut figures = ScannerFigures {
            created: 7,
            pending: 2,
            ..ScannerFigures::default()
        };
        metrics.set("default", &figures);
        figures.created = 5;
        figures.pending = 1;
        metrics.set("default", &figures);
        let text = registry.encode().expect("writable");
        for line in [
            "cairn_scanner_txs_total{host=\"default\",result=\"created\"} 7",
            "cairn_scanner_pending{host=\"default\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
