//! What subscriptions that this process serves to clients count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::{
    CounterFamily, GaugeFamily, HistogramFamily, MetricSpec, MetricsRegistry, gauge_value,
};
use crate::names::{CHAIN, EVENT, SUB_ID};

/// Label with what an instance does: acquiring, standby, active or released.
const ROLE: &str = "role";
/// The roles.
const ROLES: [&str; 4] = ["acquiring", "standby", "active", "released"];
/// Kinds that are labels; any other is `other`, since kinds are whatever a stream holds.
const KINDS: [&str; 7] = [
    "action",
    "delta",
    "native-delta",
    "fork",
    "block",
    "tx",
    "transaction",
];

const fn spec(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricSpec {
    MetricSpec { name, labels, help }
}

/// Failures of consumers.
pub const CLIENT_ERRORS: MetricSpec = spec(
    "parser2_client_handler_errors_total",
    &[CHAIN, SUB_ID, EVENT],
    "Events that a subscription's consumer could not handle, by their kind",
);
/// Time of consumers.
pub const CLIENT_SECONDS: MetricSpec = spec(
    "parser2_client_handler_duration_seconds",
    &[CHAIN, SUB_ID, EVENT],
    "Time from giving an event out to its answer",
);
/// Who is active.
pub const CLIENT_LOCK: MetricSpec = spec(
    "parser2_client_subscription_lock_state",
    &[CHAIN, SUB_ID, ROLE],
    "1 for what this process's instance of a subscription does, 0 for the rest",
);
/// Dead letters.
pub const CLIENT_DEAD: MetricSpec = spec(
    "parser2_client_dead_letters_total",
    &[CHAIN, SUB_ID],
    "Events that went to a subscription's dead letters",
);
/// Events given out.
pub const CLIENT_CONSUMED: MetricSpec = spec(
    "parser2_client_messages_consumed_total",
    &[CHAIN, SUB_ID],
    "Events given to a subscription's consumer, repetitions included",
);
/// Entries acknowledged.
pub const CLIENT_ACKED: MetricSpec = spec(
    "parser2_client_messages_acknowledged_total",
    &[CHAIN, SUB_ID],
    "Entries that a subscription acknowledged, those that it filters out included",
);
/// Entries filtered out.
pub const CLIENT_FILTERED: MetricSpec = spec(
    "parser2_client_messages_filtered_total",
    &[CHAIN, SUB_ID],
    "Entries that did not pass a subscription's filters",
);
/// Entries lost.
pub const CLIENT_LOST: MetricSpec = spec(
    "parser2_client_messages_lost_total",
    &[CHAIN, SUB_ID],
    "Entries that were trimmed before a subscription handled them, as far as its instance found out",
);
/// Entries pending.
pub const CLIENT_PENDING: MetricSpec = spec(
    "parser2_client_consumer_pending_messages",
    &[CHAIN, SUB_ID],
    "Entries that a subscription has read and not acknowledged",
);

/// What an instance has counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubscriptionFigures {
    /// Events given out.
    pub given: u64,
    /// Entries acknowledged.
    pub acknowledged: u64,
    /// Entries filtered out.
    pub filtered: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Entries lost.
    pub lost: u64,
    /// Entries pending, now.
    pub pending: u64,
}

/// The set. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SubscriptionMetrics {
    errors: CounterFamily,
    seconds: HistogramFamily,
    lock: GaugeFamily,
    dead: CounterFamily,
    consumed: CounterFamily,
    acked: CounterFamily,
    filtered: CounterFamily,
    lost: CounterFamily,
    pending: GaugeFamily,
    /// What was taken over last, by chain and subscription: an instance that is started anew counts from 0.
    taken: Arc<Mutex<HashMap<(String, String), SubscriptionFigures>>>,
}

fn buckets() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0])
}

impl SubscriptionMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            errors: registry.counter(CLIENT_ERRORS),
            seconds: registry.histogram(CLIENT_SECONDS, buckets),
            lock: registry.gauge(CLIENT_LOCK),
            dead: registry.counter(CLIENT_DEAD),
            consumed: registry.counter(CLIENT_CONSUMED),
            acked: registry.counter(CLIENT_ACKED),
            filtered: registry.counter(CLIENT_FILTERED),
            lost: registry.counter(CLIENT_LOST),
            pending: registry.gauge(CLIENT_PENDING),
            taken: Arc::default(),
        }
    }

    /// An event was answered for.
    pub fn settled(&self, chain: &str, sub_id: &str, kind: &str, took: Duration, failed: bool) {
        let kind = KINDS
            .into_iter()
            .find(|known| *known == kind)
            .unwrap_or("other");
        let labels = [chain, sub_id, kind];
        self.seconds
            .get_or_create_owned(&CLIENT_SECONDS.labels(&labels))
            .observe(took.as_secs_f64());
        if failed {
            self.errors
                .get_or_create_owned(&CLIENT_ERRORS.labels(&labels))
                .inc();
        }
    }

    /// Takes over what an instance does and has counted.
    pub fn set(&self, chain: &str, sub_id: &str, role: &str, figures: &SubscriptionFigures) {
        for known in ROLES {
            self.lock
                .get_or_create_owned(&CLIENT_LOCK.labels(&[chain, sub_id, known]))
                .set(i64::from(known == role));
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (chain.to_owned(), sub_id.to_owned());
        let before = taken.insert(name, *figures).unwrap_or_default();
        drop(taken);
        let more = |family: &CounterFamily, spec: MetricSpec, before: u64, now: u64| {
            // A smaller figure is that of a new instance.
            let more = now.checked_sub(before).unwrap_or(now);
            family
                .get_or_create_owned(&spec.labels(&[chain, sub_id]))
                .inc_by(more);
        };
        more(&self.consumed, CLIENT_CONSUMED, before.given, figures.given);
        more(
            &self.acked,
            CLIENT_ACKED,
            before.acknowledged,
            figures.acknowledged,
        );
        more(
            &self.filtered,
            CLIENT_FILTERED,
            before.filtered,
            figures.filtered,
        );
        more(
            &self.dead,
            CLIENT_DEAD,
            before.dead_letters,
            figures.dead_letters,
        );
        more(&self.lost, CLIENT_LOST, before.lost, figures.lost);
        self.pending
            .get_or_create_owned(&CLIENT_PENDING.labels(&[chain, sub_id]))
            .set(gauge_value(figures.pending));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_new_instance_are_added() {
        let registry = MetricsRegistry::new();
        let metrics = SubscriptionMetrics::register(&registry);
        let figures = |given, pending| SubscriptionFigures {
            given,
            pending,
            ..SubscriptionFigures::default()
        };
        metrics.set("eos", "s", "active", &figures(10, 3));
        metrics.set("eos", "s", "active", &figures(12, 0));
        metrics.set("eos", "s", "standby", &figures(5, 1));
        metrics.settled("eos", "s", "action", Duration::from_millis(2), false);
        metrics.settled("eos", "s", "odd", Duration::from_millis(2), true);
        let text = registry.encode().expect("writing to a string cannot fail");
        for line in [
            "parser2_client_messages_consumed_total{chain=\"eos\",sub_id=\"s\"} 17",
            "parser2_client_consumer_pending_messages{chain=\"eos\",sub_id=\"s\"} 1",
            "parser2_client_subscription_lock_state{chain=\"eos\",sub_id=\"s\",role=\"standby\"} 1",
            "parser2_client_subscription_lock_state{chain=\"eos\",sub_id=\"s\",role=\"active\"} 0",
            "parser2_client_handler_errors_total{chain=\"eos\",sub_id=\"s\",kind=\"other\"} 1",
            "parser2_client_handler_duration_seconds_bucket{le=\"0.005\",chain=\"eos\",sub_id=\"s\",kind=\"action\"} 1",
        ] {
            assert!(
                text.lines().any(|got| got == line),
                "{line} is missing in\n{text}"
            );
        }
    }
}
