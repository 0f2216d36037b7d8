//! The ledger of one host: its store, its clock, its options, its counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cairn_redis::Redis;
use cairn_redis::RedisError;
use cairn_stream::{ChainLabel, EventLog};

use crate::apply::{CallerGroups, Status};
use crate::error::ScannerError;
use crate::faults::Fault;
use crate::ids::HostId;
use crate::keys::Keys;
use crate::read::head::Platform;
use crate::request::{Command, Hook, Reader};
use crate::store::Store;
use crate::time::{AtMs, Clock};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// How a ledger behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The tenant.
    pub host: HostId,
    /// Name of the event stream: events go to `ce:parser2:{stream}:events`.
    pub stream: ChainLabel,
    /// Revisions kept.
    pub blocks_max: u32,
    /// How far ahead of our clock an instant may be, milliseconds.
    pub future_skew_ms: i64,
    /// How long events stay in their lists, days.
    pub index_days: u32,
    /// Take events outside the catalogue.
    pub custom_events: bool,
    /// Show the free text of transactions.
    pub public_detail: bool,
    /// Show balances.
    pub public_balances: bool,
    /// Start a backfill by itself when the head is first asked for.
    pub lazy_backfill: bool,
    /// Rows a backfill applies in a second at most.
    pub backfill_rows_per_second: u32,
}

impl Options {
    /// The defaults for a host and the stream of its events.
    pub fn new(host: HostId, stream: ChainLabel) -> Self {
        Self {
            stream,
            host,
            blocks_max: 10_000,
            future_skew_ms: 5 * 60_000,
            index_days: 400,
            custom_events: false,
            public_detail: true,
            public_balances: true,
            lazy_backfill: false,
            backfill_rows_per_second: 5_000,
        }
    }
}

/// A ledger. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Scanner {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    log: EventLog,
    keys: Keys,
    options: Options,
    clock: Clock,
    counts: Counts,
    platform: Mutex<Option<Platform>>,
    rebuilding: AtomicBool,
    backfilling: AtomicBool,
    fallback: tokio::sync::Mutex<()>,
    groups: CallerGroups,
}

/// What happened since the start, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Transactions written.
    pub txs_created: AtomicU64,
    /// Transactions that were known.
    pub txs_duplicate: AtomicU64,
    /// Operations whose id was known with other content.
    pub conflicts: AtomicU64,
    /// Operations of the ledger that failed.
    pub ledger_failures: AtomicU64,
    /// Events that could not be written at once.
    pub analytics_failures: AtomicU64,
    /// Rows of lists that are missing or cannot be read.
    pub corrupt_rows: AtomicU64,
    /// Rows of a backfill that were new.
    pub backfill_new: AtomicU64,
    /// Rows of a backfill that could not be used.
    pub backfill_invalid: AtomicU64,
    /// Heads answered from the cache.
    pub head_from_cache: AtomicU64,
    /// Heads answered by a scan.
    pub head_from_scan: AtomicU64,
    /// Operations that are pending, as last seen.
    pub pending: AtomicU64,
    /// Age of the oldest of them, milliseconds, as last seen.
    pub pending_oldest_ms: AtomicU64,
}

impl Counts {
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scanner({})", self.inner.options.host)
    }
}

impl Scanner {
    /// Opens the ledger of a host and prepares it.
    pub async fn open(redis: Redis, options: Options, clock: Clock) -> Result<Self, ScannerError> {
        let scanner = Self::open_lazily(redis, options, clock);
        scanner.prepare().await?;
        Ok(scanner)
    }

    /// The ledger of a host, without asking Redis anything yet: it need not be there.
    pub fn open_lazily(redis: Redis, options: Options, clock: Clock) -> Self {
        Self {
            inner: Arc::new(Inner {
                log: EventLog::new(redis.clone(), &options.stream, 0),
                store: Store::new(redis),
                keys: Keys::new(&options.host),
                options,
                clock,
                counts: Counts::default(),
                platform: Mutex::new(None),
                rebuilding: AtomicBool::new(false),
                backfilling: AtomicBool::new(false),
                fallback: tokio::sync::Mutex::new(()),
                groups: CallerGroups::default(),
            }),
        }
    }

    /// Loads the scripts, and brings a list of blocks that an older program kept into order. Doing it twice does no harm.
    pub async fn prepare(&self) -> Result<(), ScannerError> {
        self.store().load_scripts().await?;
        self.convert_block_list().await?;
        self.warn_of_eviction().await;
        Ok(())
    }

    /// Reads the body of a call. All faults at once.
    pub fn read_request(&self, hook: Hook, body: &str) -> Result<Command, Vec<Fault>> {
        self.reader().read(hook, body)
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    /// The way to Redis, for whoever follows the event stream.
    pub fn redis(&self) -> &Redis {
        self.inner.store.redis()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The shared event stream.
    pub(crate) fn log(&self) -> &EventLog {
        &self.inner.log
    }

    /// The key of the shared event stream.
    pub fn stream_key(&self) -> &str {
        self.inner.log.key()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    pub(crate) fn platform(&self) -> &Mutex<Option<Platform>> {
        &self.inner.platform
    }

    /// Set while a rebuild of this process runs.
    pub(crate) fn rebuilding(&self) -> &AtomicBool {
        &self.inner.rebuilding
    }

    /// Set while a backfill of this process runs.
    pub(crate) fn backfilling(&self) -> &AtomicBool {
        &self.inner.backfilling
    }

    /// Whether a backfill of this process runs.
    pub fn is_backfilling(&self) -> bool {
        self.inner.backfilling.load(Ordering::Acquire)
    }

    /// Held by the one request that computes a head without the cache.
    pub(crate) fn fallback(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.fallback
    }

    /// What callers have told and nobody has begun to apply.
    pub(crate) fn groups(&self) -> &CallerGroups {
        &self.inner.groups
    }

    pub(crate) fn reader(&self) -> Reader {
        let options = self.options();
        Reader {
            now: self.clock().now(),
            skew_ms: options.future_skew_ms,
            index_ms: i64::from(options.index_days) * DAY_MS,
            custom_events: options.custom_events,
        }
    }

    /// The oldest event that is taken.
    pub(crate) fn earliest_event(&self) -> AtMs {
        self.reader().earliest_event()
    }

    /// Counts what became of operations.
    pub(crate) fn count(&self, commands: &[Command], statuses: &[Status]) {
        let counts = self.counts();
        for (command, status) in commands.iter().zip(statuses) {
            match (command, status) {
                (Command::Tx { .. }, Status::Created) => Counts::add(&counts.txs_created, 1),
                (Command::Tx { .. }, Status::Duplicate) => Counts::add(&counts.txs_duplicate, 1),
                (_, Status::Conflict { .. }) => Counts::add(&counts.conflicts, 1),
                _ => {}
            }
        }
    }

    /// Logs and counts a failure.
    pub(crate) fn note_failure(&self, command: &Command, analytics: bool, error: &ScannerError) {
        let counts = self.counts();
        if analytics {
            Counts::add(&counts.analytics_failures, 1);
            tracing::warn!(id = %command.id(), cause = error.cause(), %error, "an event is not yet counted; it is tried again");
        } else {
            Counts::add(&counts.ledger_failures, 1);
            tracing::warn!(id = %command.id(), cause = error.cause(), %error, "an operation of the ledger failed");
        }
    }

    /// Redis must not throw away keys by itself: the ledger is not a cache.
    async fn warn_of_eviction(&self) {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg("maxmemory-policy");
        let answer: Result<Vec<String>, RedisError> = self.redis().query("CONFIG GET", &get).await;
        // Managed services refuse the question: then there is nothing to say.
        if let Ok(pair) = answer
            && let Some(policy) = pair.get(1)
            && policy != "noeviction"
        {
            tracing::warn!(
                policy,
                "Redis may throw away keys of the ledger; set maxmemory-policy to noeviction"
            );
        }
    }
}
