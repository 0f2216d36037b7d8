//! The manual page of the metrics, made by walking a registry.

use std::fmt::Write as _;

use crate::antelope::{ParserMetrics, RedisMetrics, StreamMetrics};
use crate::electrum::ElectrumMetricsSet;
use crate::metrics::{ChainMetrics, HttpMetrics, MetricsRegistry};
use crate::process::ProcessMetrics;
use crate::scanner::ScannerMetrics;
use crate::subscription::SubscriptionMetrics;

const HEAD: &str = "\
# Metrics

`GET /metrics` on `http.listen`, or on `telemetry.metrics_listen` when that is set, answers in the OpenMetrics text
format, which Prometheus reads. Units are base units (seconds, bytes); rates are left to the reader. This page is made
from the registry in the code, and a test compares them.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";

/// The text of `docs/metrics.md`.
pub fn manual() -> String {
    let registry = MetricsRegistry::new();
    ChainMetrics::register(&registry);
    HttpMetrics::register(&registry);
    ElectrumMetricsSet::register(&registry);
    ParserMetrics::register(&registry);
    StreamMetrics::register(&registry);
    RedisMetrics::register(&registry);
    SubscriptionMetrics::register(&registry);
    ScannerMetrics::register(&registry);
    ProcessMetrics::register(&registry, "");
    let mut out = HEAD.to_owned();
    for (spec, kind) in registry.registered() {
        let labels: Vec<String> = spec
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {}. |",
            spec.name,
            kind.name(),
            labels.join(", "),
            spec.help
        );
    }
    out
}
