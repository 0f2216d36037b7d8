//! The application ledger: its API on the main listener, and the work that goes on by itself.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use cairn_config::{Config, ScannerConfig};
use cairn_redis::{Redis, TargetKind};
use cairn_scanner::{Clock, HostId, KeyFollower, Options, Scanner, ScannerError, SweepCursor};
use cairn_scanner_api::{ApiOptions, ApiState, LiveFeed, Token};
use cairn_stream::ChainLabel;
use cairn_telemetry::{ScannerFigures, ScannerMetrics, Service, ServiceStatus};
use secrecy::{ExposeSecret, SecretString};

use crate::services::Host;
use crate::stop::Stop;

/// How often interrupted operations are looked for, and the store's answer is reported.
const CARE_INTERVAL: Duration = Duration::from_secs(10);
/// Operations younger than this are still being applied by whoever began them, milliseconds.
const HEAL_AFTER_MS: i64 = 30_000;
/// Steps of one sweep: bounded work at each interval.
const SWEEP_STEPS: usize = 8;

/// Opens the ledger, serves its API and looks after it. `None` when the configuration has none.
pub(crate) fn start(
    host: &mut Host,
    config: &Config,
    redis: Option<&Redis>,
) -> anyhow::Result<Option<Scanner>> {
    let Some(keys) = &config.scanner else {
        return Ok(None);
    };
    let redis = redis.context("the ledger needs Redis, and none was started")?;
    let scanner = open(keys, redis)?;
    let health = host.health.register_service("scanner", redis.place());
    let live = LiveFeed::new(ApiOptions::default().live_clients);
    let router = cairn_scanner_api::router(ApiState {
        scanner: scanner.clone(),
        admin_token: token(keys.admin_token.as_ref()),
        ingest_token: token(keys.ingest_token.as_ref()),
        live: live.clone(),
        options: ApiOptions::default(),
    });
    host.mount("", router);
    register_metrics(host, &scanner);
    let stopped = host.stop.token().clone().cancelled_owned();
    host.run(live.run(scanner.clone(), stopped));
    host.run(care(scanner.clone(), health, host.stop.clone()));
    if let Some(interval) = keys.sweep_interval {
        host.run(sweep(scanner.clone(), interval, host.stop.clone()));
        if let Some(client) = notifying_client(config)? {
            host.run(follow(scanner.clone(), client, host.stop.clone()));
        }
    }
    Ok(Some(scanner))
}

/// The ledger of a configuration.
pub(crate) fn open(keys: &ScannerConfig, redis: &Redis) -> anyhow::Result<Scanner> {
    let host = HostId::new(&keys.host_id)
        .with_context(|| format!("scanner.host_id: {:?} cannot be a host", keys.host_id))?;
    let stream = ChainLabel::new(&keys.chain_id).context("scanner.chain_id")?;
    let options = Options {
        lazy_backfill: keys.sweep_interval.is_some(),
        public_balances: keys.public_balances,
        public_detail: keys.public_detail,
        ..Options::new(host, stream)
    };
    Ok(Scanner::open_lazily(
        redis.clone(),
        options,
        Clock::system(),
    ))
}

fn token(secret: Option<&SecretString>) -> Option<Token> {
    Token::new(secret?.expose_secret())
}

fn status(place: &str, reason: Option<String>) -> ServiceStatus {
    ServiceStatus {
        is_ready: reason.is_none(),
        place: place.to_owned(),
        reason,
    }
}

fn register_metrics(host: &Host, scanner: &Scanner) {
    let metrics = ScannerMetrics::register(&host.registry);
    let scanner = scanner.clone();
    host.registry.before_scrape(move || {
        metrics.set(scanner.options().host.as_str(), &figures(&scanner));
    });
}

fn figures(scanner: &Scanner) -> ScannerFigures {
    let counts = scanner.counts();
    let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    ScannerFigures {
        created: of(&counts.txs_created),
        duplicate: of(&counts.txs_duplicate),
        conflicts: of(&counts.conflicts),
        ledger_failures: of(&counts.ledger_failures),
        analytics_failures: of(&counts.analytics_failures),
        unreadable_rows: of(&counts.corrupt_rows),
        backfill_new: of(&counts.backfill_new),
        backfill_invalid: of(&counts.backfill_invalid),
        heads_cached: of(&counts.head_from_cache),
        heads_scanned: of(&counts.head_from_scan),
        pending: of(&counts.pending),
        pending_oldest_seconds: of(&counts.pending_oldest_ms) / 1000,
    }
}

/// Sleeps; false when it is time to stop.
async fn pause(stop: &Stop, duration: Duration) -> bool {
    tokio::select! {
        () = stop.token().cancelled() => false,
        () = tokio::time::sleep(duration) => true,
    }
}

/// Finishes what was interrupted, goes on with a backfill whose process died, trims, counts; reports whether the store
/// answers.
async fn care(scanner: Scanner, health: Service, stop: Stop) {
    let mut is_prepared = false;
    loop {
        let cared = async {
            if !is_prepared {
                scanner.prepare().await?;
                is_prepared = true;
            }
            care_once(&scanner).await
        };
        let reason = match cared.await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, "the ledger's store");
                // What needs an operator does not keep the ledger from answering.
                error.is_transient().then(|| error.to_string())
            }
        };
        health.report(status(scanner.redis().place(), reason));
        if !pause(&stop, CARE_INTERVAL).await {
            return;
        }
    }
}

async fn care_once(scanner: &Scanner) -> Result<(), ScannerError> {
    let report = scanner.heal(HEAL_AFTER_MS).await?;
    if report.repeated > 0 {
        tracing::info!(
            operations = report.repeated,
            "interrupted operations were finished"
        );
    }
    scanner.resume_dead_backfill().await?;
    scanner.refresh_platform().await?;
    scanner.trim_events().await
}

/// The way to a server that may notify of the application's writes: a single one that is configured. A Cluster's nodes
/// notify each for itself, and a private server has no application.
fn notifying_client(config: &Config) -> anyhow::Result<Option<redis::Client>> {
    let (Some(url), Some(target)) = (&config.redis.url, super::redis::target(config)?) else {
        return Ok(None);
    };
    if target.kind() != TargetKind::Single {
        return Ok(None);
    }
    let client = redis::Client::open(url.expose_secret()).context("redis.url")?;
    Ok(Some(client))
}

/// Follows the application's writes as long as the server tells of them.
async fn follow(scanner: Scanner, client: redis::Client, stop: Stop) {
    loop {
        let followed = async {
            let Some(mut follower) = KeyFollower::open(&scanner, &client).await? else {
                return Ok(false);
            };
            while follower.next().await?.is_some() {}
            Ok::<bool, ScannerError>(true)
        };
        match within(&stop, followed).await {
            None => return,
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                tracing::info!(
                    "Redis does not notify of the application's writes (notify-keyspace-events Kl$h); the sweep finds them"
                );
                return;
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "following the application's keys goes on later")
            }
        }
        if !pause(&stop, CARE_INTERVAL).await {
            return;
        }
    }
}

/// Looks at the application's own keys, some at each interval.
async fn sweep(scanner: Scanner, interval: Duration, stop: Stop) {
    let mut cursor = SweepCursor::default();
    while pause(&stop, interval).await {
        for _ in 0..SWEEP_STEPS {
            match within(&stop, scanner.sweep(&mut cursor)).await {
                None => return,
                Some(Ok(report)) if report.wrapped => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "the sweep of the application's keys goes on later");
                    break;
                }
            }
        }
    }
}

/// Waits for work, at most until the request to stop.
async fn within<T>(stop: &Stop, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = stop.token().cancelled() => None,
        done = work => Some(done),
    }
}
