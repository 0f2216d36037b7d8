//! The Antelope chains: a parser and a trimmer for each, and a task that tells how they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use cairn_antelope_abi::Profile;
use cairn_antelope_parser::{
    AbiFallback, BlockReport, Observer, Parser, ParserSettings, ParserSource, ParserState,
    ParserStatus, StatusHandle,
};
use cairn_antelope_ship::ReplaySource;
use cairn_config::{AntelopeConfig, Config, JsonProfile};
use cairn_redis::Redis;
use cairn_stream::{
    ChainLabel, GroupState, StreamError, StreamState, TrimPolicy, TrimSettings, Trimmer,
    read_stream_state,
};
use cairn_telemetry::{ParserMetrics, Part, PartStatus, Progression, State, StreamMetrics};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::services::Host;

/// How often the state of a chain is told.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// How often the stream's length and subscriptions are looked at.
const STREAM_INTERVAL: Duration = Duration::from_secs(5);
/// After this long without the node or Redis, a chain that was followed counts as stalled.
const STALL_AFTER: Duration = Duration::from_secs(60);
/// Subscriptions that are shown.
const SUBSCRIPTIONS_SHOWN: usize = 100;

/// Chains whose blocks come from a recording, by their ids.
pub(crate) type Recordings = BTreeMap<String, ReplaySource>;

/// Starts following every Antelope chain.
pub(crate) fn start(
    host: &mut Host,
    config: &Config,
    redis: Option<&Redis>,
    recordings: &Recordings,
) -> anyhow::Result<()> {
    if config.antelope_chains().next().is_none() {
        return Ok(());
    }
    let redis = redis.context("an Antelope chain without a Redis")?;
    let parsers = ParserMetrics::register(&host.registry);
    let streams = StreamMetrics::register(&host.registry);
    for chain in config.antelope_chains() {
        let settings = settings(config, chain, recordings)?;
        let label = settings.chain.clone();
        let observer = Counter {
            chain: chain.id.clone(),
            metrics: parsers.clone(),
        };
        let parser = Parser::new(settings, redis.clone(), Arc::new(observer));
        let reporter = Reporter {
            status: parser.status(),
            part: host.health.register(&chain.id),
            chain: label.clone(),
            redis: redis.clone(),
            parsers: parsers.clone(),
            streams: streams.clone(),
            stop: host.stop.token().clone(),
        };
        let stopped = host.stop.token().clone().cancelled_owned();
        let id = chain.id.clone();
        host.run(async move {
            if let Err(error) = parser.run(stopped).await {
                tracing::error!(chain = id, %error, "the chain is no longer followed by this process");
            }
        });
        host.run(reporter.run());
        host.run(trim(
            Trimmer::new(redis.clone(), &label, trim_settings(config)),
            chain.id.clone(),
            config.stream.trim_interval,
            streams.clone(),
            host.stop.token().clone(),
        ));
    }
    Ok(())
}

fn settings(
    config: &Config,
    chain: &AntelopeConfig,
    recordings: &Recordings,
) -> anyhow::Result<ParserSettings> {
    let label = ChainLabel::new(&chain.id)?;
    let source = match recordings.get(&chain.id) {
        Some(recording) => ParserSource::Recorded(recording.clone()),
        None => ParserSource::Node(chain.ship_url.clone()),
    };
    let mut settings = ParserSettings::new(label, source);
    settings.start = ParserSettings::start_from(chain.start_block);
    settings.irreversible_only = chain.irreversible_only;
    settings.expect_chain_id = chain.expect_chain_id;
    settings.profile = match chain.json_profile {
        JsonProfile::Wharfkit => Profile::Wharfkit,
        JsonProfile::Nodeos => Profile::Nodeos,
    };
    settings.abi_fallback = match (chain.abi_fallback, &chain.chain_url) {
        (cairn_config::AbiFallback::Fail, _) => AbiFallback::Fail,
        (cairn_config::AbiFallback::RpcCurrent, Some(url)) => AbiFallback::RpcCurrent {
            chain_url: url.clone(),
        },
        (cairn_config::AbiFallback::RpcCurrent, None) => AbiFallback::Hex,
    };
    settings.max_len = config.stream.max_len.unwrap_or_default();
    Ok(settings)
}

fn trim_settings(config: &Config) -> TrimSettings {
    let stream = &config.stream;
    TrimSettings {
        window: stream.window,
        policy: match stream.policy {
            cairn_config::TrimPolicy::Window => TrimPolicy::Window,
            cairn_config::TrimPolicy::Hold { at_most } => TrimPolicy::Hold { at_most },
        },
        max_len: stream.max_len.unwrap_or_default(),
        min_blocks: u32::try_from(stream.min_blocks).unwrap_or(u32::MAX),
    }
}

/// Trims a stream again and again. A failure is Redis', which tells of itself.
async fn trim(
    trimmer: Trimmer,
    chain: String,
    interval: Duration,
    metrics: StreamMetrics,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let trimmed = tokio::select! {
            () = stop.cancelled() => return,
            trimmed = trimmer.run_once() => trimmed,
        };
        match trimmed {
            Ok(report) => {
                metrics.trimmed(&chain, report.removed);
                for loss in &report.losses {
                    metrics.lost(&chain, &loss.sub_id);
                }
                if report.removed > 0 {
                    tracing::debug!(
                        chain,
                        removed = report.removed,
                        left = report.length,
                        "trimmed"
                    );
                }
            }
            Err(error) => tracing::warn!(chain, %error, "the stream could not be trimmed"),
        }
    }
}

/// Counts what a parser tells.
struct Counter {
    chain: String,
    metrics: ParserMetrics,
}

impl Observer for Counter {
    fn published(&self, block: &BlockReport) {
        let kinds = block.kinds.iter().map(|(kind, count)| (*kind, *count));
        self.metrics
            .block(&self.chain, kinds, block.decoding, block.undone_blocks);
        for (_, reason) in &block.undecoded {
            self.metrics.undecoded(&self.chain, reason.label());
        }
    }

    fn disconnected(&self, _reason: &str) {
        self.metrics.disconnected(&self.chain);
    }

    fn blocked(&self, error: Option<&StreamError>) {
        self.metrics.set_blocked(&self.chain, error.is_some());
    }

    fn failed(&self, _reason: &str) {
        self.metrics.failed(&self.chain);
    }
}

/// Tells how a chain is.
struct Reporter {
    status: StatusHandle,
    part: Part,
    chain: ChainLabel,
    redis: Redis,
    parsers: ParserMetrics,
    streams: StreamMetrics,
    stop: CancellationToken,
}

impl Reporter {
    async fn run(self) {
        let mut watched = Watched::default();
        let mut stream = None;
        let mut next_look = Instant::now();
        loop {
            if Instant::now() >= next_look {
                next_look = Instant::now() + STREAM_INTERVAL;
                let looked = tokio::select! {
                    () = self.stop.cancelled() => return,
                    looked = read_stream_state(&self.redis, &self.chain) => looked,
                };
                // Redis tells of its own failures.
                if let Ok(Some((state, groups))) = looked {
                    self.count_stream(&state, &groups);
                    stream = Some((state, groups));
                }
                if stream.is_none() {
                    // Its first events are news.
                    next_look = Instant::now() + REPORT_INTERVAL;
                }
            }
            let status = self.status.read();
            self.count(&status);
            self.part.report(watched.judge(&status, Instant::now()));
            self.part.detail(details(&status, stream.as_ref()));
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(REPORT_INTERVAL) => {}
            }
        }
    }

    fn count(&self, status: &ParserStatus) {
        let chain = self.chain.as_str();
        let num = |position: Option<cairn_stream::Position>| position.map(|position| position.num);
        self.parsers.set_blocks(
            chain,
            num(status.head),
            num(status.last_irreversible),
            num(status.last),
        );
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|now| i64::try_from(now.as_millis()).ok());
        if let Some(lag) = now.and_then(|now| status.lag_ms(now)) {
            self.parsers
                .set_lag(chain, u64::try_from(lag / 1_000).unwrap_or_default());
        }
        self.parsers
            .set_abis(chain, status.abis.hits, status.abis.misses);
    }

    fn count_stream(&self, state: &StreamState, groups: &[GroupState]) {
        let chain = self.chain.as_str();
        self.streams.set_length(chain, state.length);
        for group in groups.iter().take(SUBSCRIPTIONS_SHOWN) {
            self.streams
                .set_subscription(chain, &group.name, group.lag, group.pending);
        }
    }
}

/// What only an Antelope chain has to tell.
fn details(
    status: &ParserStatus,
    stream: Option<&(StreamState, Vec<GroupState>)>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("source".to_owned(), status.endpoint.as_str().into());
    fields.insert("network".to_owned(), status.chain_id.clone().into());
    fields.insert(
        "irreversible_height".to_owned(),
        status.last_irreversible.map(|lib| lib.num).into(),
    );
    fields.insert("events".to_owned(), status.events.into());
    fields.insert("undecoded".to_owned(), status.undecoded.into());
    fields.insert("forks".to_owned(), status.forks.into());
    if let Some((state, groups)) = stream {
        fields.insert("stream_length".to_owned(), state.length.into());
        fields.insert("subscriptions".to_owned(), subscriptions(groups));
    }
    fields
}

/// The subscriptions of a stream with what they have not got yet.
pub(crate) fn subscriptions(groups: &[GroupState]) -> Value {
    groups
        .iter()
        .take(SUBSCRIPTIONS_SHOWN)
        .map(|group| {
            json!({
                "id": group.name, "lag": group.lag, "pending": group.pending,
                "last_delivered": group.last_delivered.to_string(),
            })
        })
        .collect()
}

/// What is remembered between two reports.
#[derive(Debug, Default)]
struct Watched {
    has_followed: bool,
    waiting_since: Option<Instant>,
}

impl Watched {
    fn judge(&mut self, status: &ParserStatus, now: Instant) -> PartStatus {
        if status.state == ParserState::Following {
            self.has_followed = true;
        }
        self.waiting_since = match &status.state {
            ParserState::Waiting { .. } => self.waiting_since.or(Some(now)),
            _ => None,
        };
        let behind = status.blocks_behind();
        let (state, reason, phase) = match &status.state {
            ParserState::Starting => (State::Starting, None, "starting"),
            ParserState::CatchingUp => (
                State::Indexing,
                behind.map(|blocks| format!("{blocks} blocks behind")),
                "catching up",
            ),
            ParserState::Following => (State::Synced, None, "following"),
            ParserState::Waiting { reason } => {
                let age = self
                    .waiting_since
                    .map(|since| now.saturating_duration_since(since));
                let state = match (self.has_followed, age) {
                    (true, Some(age)) if age < STALL_AFTER => State::Synced,
                    (true, _) => State::Stalled,
                    (false, _) if status.last.is_some() => State::Indexing,
                    (false, _) => State::Starting,
                };
                (state, Some(reason.clone()), "waiting")
            }
            ParserState::Failed { reason } => (State::Failed, Some(reason.clone()), "failed"),
            ParserState::Stopped => (State::Failed, Some("stopped".to_owned()), "stopped"),
        };
        let height = status.last.map(|last| last.num);
        let node_height = status.head.map(|head| head.num);
        let percent = match (height, node_height) {
            (Some(own), Some(head)) if head > 0 => {
                Some((f64::from(own) / f64::from(head) * 100.0).min(100.0))
            }
            _ => None,
        };
        PartStatus {
            reason,
            progress: Progression {
                height,
                node_height,
                phase,
                percent,
                blocks: status.blocks,
                ..Progression::default()
            },
            ..PartStatus::new(state)
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_stream::{BlockId, Position};

    use super::*;

    fn status(state: ParserState, last: Option<u32>, head: Option<u32>) -> ParserStatus {
        let at = |num: u32| Position {
            num,
            id: BlockId([0; 32]),
        };
        ParserStatus {
            state,
            last: last.map(at),
            head: head.map(at),
            ..ParserStatus::default()
        }
    }

    #[test]
    fn states() {
        let waiting = || ParserState::Waiting {
            reason: "why".to_owned(),
        };
        let failed = ParserState::Failed {
            reason: "why".to_owned(),
        };
        let start = Instant::now();
        for (has_followed, state, last, waited, expected, reason) in [
            (false, ParserState::Starting, None, 0, State::Starting, None),
            (
                false,
                ParserState::CatchingUp,
                Some(5),
                0,
                State::Indexing,
                Some("5 blocks behind"),
            ),
            (
                false,
                ParserState::Following,
                Some(10),
                0,
                State::Synced,
                None,
            ),
            (false, waiting(), None, 0, State::Starting, Some("why")),
            (false, waiting(), Some(5), 0, State::Indexing, Some("why")),
            (true, waiting(), Some(10), 59, State::Synced, Some("why")),
            (true, waiting(), Some(10), 60, State::Stalled, Some("why")),
            (true, failed, Some(10), 0, State::Failed, Some("why")),
            (
                true,
                ParserState::Stopped,
                Some(10),
                0,
                State::Failed,
                Some("stopped"),
            ),
        ] {
            let mut watched = Watched {
                has_followed,
                waiting_since: Some(start),
            };
            let told = watched.judge(
                &status(state.clone(), last, Some(10)),
                start + Duration::from_secs(waited),
            );
            assert_eq!(
                (told.state, told.reason.as_deref()),
                (expected, reason),
                "{state:?}"
            );
            assert_eq!(told.progress.node_height, Some(10));
        }
    }

    #[test]
    fn a_wait_that_ended_begins_anew() {
        let mut watched = Watched::default();
        let start = Instant::now();
        let waiting = status(
            ParserState::Waiting {
                reason: "why".to_owned(),
            },
            Some(1),
            None,
        );
        watched.judge(&status(ParserState::Following, Some(1), None), start);
        watched.judge(&waiting, start);
        watched.judge(&status(ParserState::Following, Some(1), None), start);
        let later = start + STALL_AFTER;
        assert_eq!(watched.judge(&waiting, later).state, State::Synced);
        assert_eq!(
            watched.judge(&waiting, later + STALL_AFTER).state,
            State::Stalled
        );
    }
}
