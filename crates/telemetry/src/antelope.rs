//! What following an Antelope chain counts, and what its stream and Redis show.

use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::metrics::{CounterFamily, GaugeFamily, HistogramFamily, MetricsRegistry, gauge_value};
use crate::names;

/// As the names' contract has them, seconds.
const BLOCK_BUCKETS: [f64; 8] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

fn block_buckets() -> Histogram {
    Histogram::new(BLOCK_BUCKETS)
}

/// From 1 to 1,024 blocks.
fn depth_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 11))
}

/// One set for all Antelope chains: the chain is a label.
#[derive(Debug, Clone)]
pub struct ParserMetrics {
    blocks: CounterFamily,
    lag: GaugeFamily,
    events: CounterFamily,
    abi_hits: CounterFamily,
    abi_misses: CounterFamily,
    seconds: HistogramFamily,
    errors: CounterFamily,
    forks: CounterFamily,
    depth: HistogramFamily,
    undecoded: CounterFamily,
    head: GaugeFamily,
    lib: GaugeFamily,
    last: GaugeFamily,
    reconnects: CounterFamily,
    blocked: GaugeFamily,
}

impl ParserMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            blocks: registry.counter(names::PARSER_BLOCKS),
            lag: registry.gauge(names::PARSER_LAG),
            events: registry.counter(names::PARSER_EVENTS),
            abi_hits: registry.counter(names::PARSER_ABI_HITS),
            abi_misses: registry.counter(names::PARSER_ABI_MISSES),
            seconds: registry.histogram(names::PARSER_BLOCK_SECONDS, block_buckets),
            errors: registry.counter(names::PARSER_ERRORS),
            forks: registry.counter(names::PARSER_FORKS),
            depth: registry.histogram(names::PARSER_FORK_DEPTH, depth_buckets),
            undecoded: registry.counter(names::PARSER_UNDECODED),
            head: registry.gauge(names::PARSER_HEAD),
            lib: registry.gauge(names::PARSER_LIB),
            last: registry.gauge(names::PARSER_LAST),
            reconnects: registry.counter(names::PARSER_RECONNECTS),
            blocked: registry.gauge(names::PARSER_BLOCKED),
        }
    }

    /// A block's events are in the stream: how many of each kind, how long decoding took, how many blocks were undone
    /// before it.
    pub fn block<'a>(
        &self,
        chain: &str,
        kinds: impl IntoIterator<Item = (&'a str, u64)>,
        decoding: Duration,
        undone: u32,
    ) {
        self.blocks
            .get_or_create(&names::PARSER_BLOCKS.labels(&[chain]))
            .inc();
        for (kind, count) in kinds {
            self.events
                .get_or_create(&names::PARSER_EVENTS.labels(&[chain, kind]))
                .inc_by(count);
        }
        self.seconds
            .get_or_create(&names::PARSER_BLOCK_SECONDS.labels(&[chain]))
            .observe(decoding.as_secs_f64());
        if undone > 0 {
            self.forks
                .get_or_create(&names::PARSER_FORKS.labels(&[chain]))
                .inc();
            self.depth
                .get_or_create(&names::PARSER_FORK_DEPTH.labels(&[chain]))
                .observe(f64::from(undone));
        }
    }

    /// A value was published as raw bytes.
    pub fn undecoded(&self, chain: &str, reason: &str) {
        self.undecoded
            .get_or_create(&names::PARSER_UNDECODED.labels(&[chain, reason]))
            .inc();
    }

    /// A failure stopped the chain.
    pub fn failed(&self, chain: &str) {
        self.errors
            .get_or_create(&names::PARSER_ERRORS.labels(&[chain]))
            .inc();
    }

    /// A connection to the node was lost or refused.
    pub fn disconnected(&self, chain: &str) {
        self.reconnects
            .get_or_create(&names::PARSER_RECONNECTS.labels(&[chain]))
            .inc();
    }

    /// Whether Redis takes no events.
    pub fn set_blocked(&self, chain: &str, is_blocked: bool) {
        self.blocked
            .get_or_create(&names::PARSER_BLOCKED.labels(&[chain]))
            .set(i64::from(is_blocked));
    }

    /// Block numbers, where known.
    pub fn set_blocks(&self, chain: &str, head: Option<u32>, lib: Option<u32>, last: Option<u32>) {
        for (family, spec, num) in [
            (&self.head, names::PARSER_HEAD, head),
            (&self.lib, names::PARSER_LIB, lib),
            (&self.last, names::PARSER_LAST, last),
        ] {
            if let Some(num) = num {
                family
                    .get_or_create(&spec.labels(&[chain]))
                    .set(i64::from(num));
            }
        }
    }

    /// Age of the newest published block.
    pub fn set_lag(&self, chain: &str, seconds: u64) {
        self.lag
            .get_or_create(&names::PARSER_LAG.labels(&[chain]))
            .set(gauge_value(seconds));
    }

    /// How often an ABI was found compiled, and how often not, since the start of the process.
    pub fn set_abis(&self, chain: &str, hits: u64, misses: u64) {
        for (family, spec, count) in [
            (&self.abi_hits, names::PARSER_ABI_HITS, hits),
            (&self.abi_misses, names::PARSER_ABI_MISSES, misses),
        ] {
            let counter = family.get_or_create_owned(&spec.labels(&[chain]));
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}

/// What the event streams show. One set for all: the chain is a label.
#[derive(Debug, Clone)]
pub struct StreamMetrics {
    length: GaugeFamily,
    trimmed: CounterFamily,
    losses: CounterFamily,
    lag: GaugeFamily,
    pending: GaugeFamily,
}

impl StreamMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            length: registry.gauge(names::STREAM_LENGTH),
            trimmed: registry.counter(names::STREAM_TRIMMED),
            losses: registry.counter(names::STREAM_GROUP_LOSS),
            lag: registry.gauge(names::STREAM_GROUP_LAG),
            pending: registry.gauge(names::STREAM_GROUP_PENDING),
        }
    }

    /// Entries of a stream.
    pub fn set_length(&self, chain: &str, entries: u64) {
        self.length
            .get_or_create(&names::STREAM_LENGTH.labels(&[chain]))
            .set(gauge_value(entries));
    }

    /// Entries that a subscription was not given yet, where known, and those that it has not acknowledged.
    pub fn set_subscription(&self, chain: &str, sub_id: &str, lag: Option<u64>, pending: u64) {
        if let Some(lag) = lag {
            self.lag
                .get_or_create(&names::STREAM_GROUP_LAG.labels(&[chain, sub_id]))
                .set(gauge_value(lag));
        }
        self.pending
            .get_or_create(&names::STREAM_GROUP_PENDING.labels(&[chain, sub_id]))
            .set(gauge_value(pending));
    }

    /// Entries were removed.
    pub fn trimmed(&self, chain: &str, entries: u64) {
        self.trimmed
            .get_or_create(&names::STREAM_TRIMMED.labels(&[chain]))
            .inc_by(entries);
    }

    /// A subscription lost entries.
    pub fn lost(&self, chain: &str, sub_id: &str) {
        self.losses
            .get_or_create(&names::STREAM_GROUP_LOSS.labels(&[chain, sub_id]))
            .inc();
    }
}

/// What Redis shows.
#[derive(Debug, Clone)]
pub struct RedisMetrics {
    up: GaugeFamily,
    memory: GaugeFamily,
    memory_max: GaugeFamily,
}

impl RedisMetrics {
    /// Registers the set; once per registry.
    pub fn register(registry: &MetricsRegistry) -> Self {
        Self {
            up: registry.gauge(names::REDIS_UP),
            memory: registry.gauge(names::REDIS_MEMORY),
            memory_max: registry.gauge(names::REDIS_MEMORY_MAX),
        }
    }

    /// Whether it answers.
    pub fn set_up(&self, is_up: bool) {
        self.up
            .get_or_create(&names::REDIS_UP.labels(&[]))
            .set(i64::from(is_up));
    }

    /// Memory used and allowed, where told.
    pub fn set_memory(&self, used: Option<u64>, max: Option<u64>) {
        for (family, spec, bytes) in [
            (&self.memory, names::REDIS_MEMORY, used),
            (&self.memory_max, names::REDIS_MEMORY_MAX, max),
        ] {
            if let Some(bytes) = bytes {
                family
                    .get_or_create(&spec.labels(&[]))
                    .set(gauge_value(bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_sample() {
        let registry = MetricsRegistry::new();
        let parser = ParserMetrics::register(&registry);
        let stream = StreamMetrics::register(&registry);
        let redis = RedisMetrics::register(&registry);
        parser.block(
            "eos",
            [("action", 3), ("fork", 1)],
            Duration::from_millis(2),
            12,
        );
        parser.undecoded("eos", "no_abi");
        parser.failed("eos");
        parser.disconnected("eos");
        parser.set_blocked("eos", true);
        parser.set_blocks("eos", Some(9), Some(5), Some(8));
        parser.set_lag("eos", 4);
        parser.set_abis("eos", 7, 2);
        parser.set_abis("eos", 9, 2);
        stream.set_length("eos", 11);
        stream.set_subscription("eos", "s", Some(3), 1);
        stream.trimmed("eos", 6);
        stream.lost("eos", "s");
        redis.set_up(true);
        redis.set_memory(Some(100), Some(200));
        let text = registry.encode().expect("writing to a string cannot fail");
        for (spec, _) in registry.registered() {
            let has_sample = text.lines().any(|line| {
                line.strip_prefix(spec.name).is_some_and(|rest| {
                    rest.starts_with(['{', ' ']) || rest.starts_with("_bucket{")
                })
            });
            assert!(has_sample, "{} has no sample in\n{text}", spec.name);
        }
        for line in [
            "parser2_events_published_total{chain=\"eos\",kind=\"action\"} 3",
            "parser2_abi_cache_hits_total{chain=\"eos\"} 9",
            "parser2_fork_depth_blocks_bucket{le=\"16.0\",chain=\"eos\"} 1",
            "parser2_xtrim_group_loss_total{chain=\"eos\",sub_id=\"s\"} 1",
            "cairn_redis_up 1",
        ] {
            assert!(
                text.lines().any(|got| got == line),
                "{line} is missing in\n{text}"
            );
        }
    }
}
