//! What Electrum servers count.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::{
    CounterFamily, GaugeFamily, HistogramFamily, MetricsRegistry, gauge_value, request_buckets,
};
use crate::names;

/// The metrics of all Electrum servers of a process: the chain is a label.
#[derive(Debug, Clone)]
pub struct ElectrumMetricsSet {
    requests: CounterFamily,
    seconds: HistogramFamily,
    sessions: GaugeFamily,
    ends: CounterFamily,
    refused: CounterFamily,
    notifications: CounterFamily,
    subscriptions: GaugeFamily,
}

impl ElectrumMetricsSet {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            requests: registry.counter(names::ELECTRUM_REQUESTS),
            seconds: registry.histogram(names::ELECTRUM_SECONDS, request_buckets),
            sessions: registry.gauge(names::ELECTRUM_SESSIONS),
            ends: registry.counter(names::ELECTRUM_SESSION_ENDS),
            refused: registry.counter(names::ELECTRUM_REFUSED),
            notifications: registry.counter(names::ELECTRUM_NOTIFICATIONS),
            subscriptions: registry.gauge(names::ELECTRUM_SUBSCRIPTIONS),
        }
    }

    /// The counters of one chain's server, whose methods are these.
    pub fn chain(&self, chain: &str, methods: &[&str]) -> ElectrumMetrics {
        let requests = |method: &str, outcome: &str| {
            let labels = names::ELECTRUM_REQUESTS.labels(&[chain, method, outcome]);
            self.requests.get_or_create_owned(&labels)
        };
        let per_method = methods
            .iter()
            .map(|method| MethodMetrics {
                answered: requests(method, "ok"),
                failed: requests(method, "error"),
                seconds: self
                    .seconds
                    .get_or_create_owned(&names::ELECTRUM_SECONDS.labels(&[chain, method])),
            })
            .collect();
        ElectrumMetrics(Arc::new(Inner {
            set: self.clone(),
            methods: per_method,
            invalid: requests("", "invalid"),
            notifications: self
                .notifications
                .get_or_create_owned(&names::ELECTRUM_NOTIFICATIONS.labels(&[chain])),
            subscriptions: self
                .subscriptions
                .get_or_create_owned(&names::ELECTRUM_SUBSCRIPTIONS.labels(&[chain])),
            chain: chain.to_owned(),
        }))
    }
}

#[derive(Debug)]
struct MethodMetrics {
    answered: Counter,
    failed: Counter,
    seconds: Histogram,
}

#[derive(Debug)]
struct Inner {
    set: ElectrumMetricsSet,
    chain: String,
    methods: Vec<MethodMetrics>,
    invalid: Counter,
    notifications: Counter,
    subscriptions: Gauge,
}

/// The counters of one chain's Electrum server.
#[derive(Debug, Clone)]
pub struct ElectrumMetrics(Arc<Inner>);

impl ElectrumMetrics {
    /// A request of the method at a place of the list given at the start was answered.
    pub fn request(&self, method: usize, is_ok: bool, duration: Duration) {
        if let Some(method) = self.0.methods.get(method) {
            if is_ok {
                &method.answered
            } else {
                &method.failed
            }
            .inc();
            method.seconds.observe(duration.as_secs_f64());
        }
    }

    /// Something that is no request, or of no method, was answered with an error.
    pub fn invalid(&self) {
        self.0.invalid.inc();
    }

    /// A notification was sent.
    pub fn notified(&self) {
        self.0.notifications.inc();
    }

    /// A session was opened; it counts until the guard is dropped.
    pub fn session(&self, transport: &str) -> SessionGuard {
        let labels = names::ELECTRUM_SESSIONS.labels(&[&self.0.chain, transport]);
        let gauge = self.0.set.sessions.get_or_create_owned(&labels);
        gauge.inc();
        SessionGuard(gauge)
    }

    /// A session ended.
    pub fn ended(&self, reason: &str) {
        let labels = names::ELECTRUM_SESSION_ENDS.labels(&[&self.0.chain, reason]);
        self.0.set.ends.get_or_create_owned(&labels).inc();
    }

    /// A connection was not served.
    pub fn refused(&self, reason: &str) {
        let labels = names::ELECTRUM_REFUSED.labels(&[&self.0.chain, reason]);
        self.0.set.refused.get_or_create_owned(&labels).inc();
    }

    /// Subscriptions of all sessions now.
    pub fn set_subscriptions(&self, count: usize) {
        self.0
            .subscriptions
            .set(gauge_value(u64::try_from(count).unwrap_or(u64::MAX)));
    }
}

/// An open session.
#[derive(Debug)]
pub struct SessionGuard(Gauge);

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_as_they_are_declared() {
        let registry = MetricsRegistry::new();
        let metrics = ElectrumMetricsSet::register(&registry).chain("a", &["server.ping"]);
        metrics.request(0, true, Duration::from_millis(1));
        metrics.invalid();
        metrics.notified();
        let open = metrics.session("tcp");
        drop(metrics.session("tcp"));
        metrics.ended("idle");
        metrics.refused("sessions");
        metrics.set_subscriptions(7);
        let text = registry.encode().expect("writing to a string cannot fail");
        for line in [
            "cairn_electrum_requests_total{chain=\"a\",method=\"server.ping\",outcome=\"ok\"} 1",
            "cairn_electrum_requests_total{chain=\"a\",method=\"\",outcome=\"invalid\"} 1",
            "cairn_electrum_sessions{chain=\"a\",listener=\"tcp\"} 1",
            "cairn_electrum_session_ends_total{chain=\"a\",reason=\"idle\"} 1",
            "cairn_electrum_refused_total{chain=\"a\",reason=\"sessions\"} 1",
            "cairn_electrum_notifications_total{chain=\"a\"} 1",
            "cairn_electrum_subscriptions{chain=\"a\"} 7",
        ] {
            assert!(
                text.lines().any(|got| got == line),
                "{line} is missing in\n{text}"
            );
        }
        drop(open);
    }
}
