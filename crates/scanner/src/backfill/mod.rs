//! Backfill: everything an application has already written into its own keys, brought into the ledger.
//!
//! One run at a time holds a lease; a second starter joins it. A run that was killed is gone on with at its cursor.
//! Running twice, or beside live traffic, counts nothing twice: the id decides.

mod sources;
mod state;

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

pub use sources::{SweepCursor, SweepReport};
pub use state::{BackfillState, MigrationStatus, RowFault};

use crate::error::ScannerError;
use crate::rebuild::Scope;
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use sources::{Phase, Rows};
use state::Progress;

/// The lease, milliseconds.
const LEASE_MS: i64 = 30_000;
/// How often it is renewed and the progress written.
const CHECKPOINT: Duration = Duration::from_secs(2);
/// A run whose last word is older than this is dead, milliseconds.
pub(crate) const DEAD_AFTER_MS: i64 = 60_000;
/// Wait before a failed run is lazily started again: one minute, doubled with each attempt, at most an hour.
const LAZY_WAIT_MS: i64 = 60_000;
const LAZY_WAIT_MAX_MS: i64 = 3_600_000;
/// How often whoever waits for a run looks at it.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Why a run ended early.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackfillError {
    /// The store.
    #[error(transparent)]
    Store(#[from] ScannerError),
    /// Somebody asked for it.
    #[error("stopped on request")]
    Stopped,
    /// Another run has taken over.
    #[error("the lease was lost; another run has taken over")]
    LeaseLost,
}

/// What a run is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillKind {
    /// The rows alone: they apply themselves.
    Lazy,
    /// Rows, then all caches.
    Full,
}

/// A run that holds its lease.
struct Run<'a> {
    scanner: &'a Scanner,
    token: String,
    progress: Progress,
    written: Instant,
    started: Instant,
    rows_done: u64,
}

impl Scanner {
    /// Runs a backfill, unless another one runs: then gives `false` at once. Returns when it is done.
    pub async fn run_backfill(&self, kind: BackfillKind) -> Result<bool, BackfillError> {
        let token = Uuid::now_v7().to_string();
        let taken: Option<String> = self
            .store()
            .one("SET", self.keys().migration_lock(), |command| {
                command.arg(&token).arg("NX").arg("PX").arg(LEASE_MS);
            })
            .await?;
        if taken.is_none() {
            return Ok(false);
        }
        let result = self.backfill_with(&token, kind).await;
        let released = self
            .store()
            .one_step::<i64>(Step::Release, self.keys().migration_lock(), |command| {
                command.arg(&token);
            })
            .await;
        if let Err(error) = released {
            tracing::debug!(%error, "the lease of the backfill runs out by itself");
        }
        result.map(|()| true)
    }

    async fn backfill_with(&self, token: &str, kind: BackfillKind) -> Result<(), BackfillError> {
        let progress = Progress::begin(self, token).await?;
        let mut run = Run {
            scanner: self,
            token: token.to_owned(),
            progress,
            written: Instant::now(),
            started: Instant::now(),
            rows_done: 0,
        };
        let result = run.through(kind).await;
        match &result {
            Ok(()) => run.progress.complete(self).await?,
            // Whoever took over writes the state now.
            Err(BackfillError::LeaseLost) => {}
            Err(error) => {
                tracing::warn!(%error, "the backfill ended early");
                if let Err(unwritten) = run.progress.fail(self, &error.to_string()).await {
                    tracing::warn!(error = %unwritten, "the state of the backfill cannot be written");
                }
            }
        }
        result
    }

    /// Starts a backfill in the background, unless this process runs one.
    pub fn start_backfill(&self, kind: BackfillKind) {
        if self.backfilling().swap(true, Ordering::AcqRel) {
            return;
        }
        let scanner = self.clone();
        tokio::spawn(async move {
            if let Err(error) = scanner.run_backfill(kind).await {
                tracing::warn!(%error, "backfill");
            }
            scanner.backfilling().store(false, Ordering::Release);
        });
    }

    /// What a request for the head does: starts a backfill of a host that never had one, or whose last one failed a
    /// while ago. Never waits.
    pub async fn backfill_lazily(&self, status: MigrationStatus) -> Result<(), ScannerError> {
        let wanted = matches!(status, MigrationStatus::Pending | MigrationStatus::Failed);
        if !self.options().lazy_backfill || !wanted || self.backfilling().load(Ordering::Acquire) {
            return Ok(());
        }
        if status == MigrationStatus::Failed {
            let state = self.backfill_state().await?;
            let attempts = u32::try_from(state.attempt.clamp(1, 30)).unwrap_or(1);
            let wait = LAZY_WAIT_MS
                .saturating_mul(1 << (attempts - 1))
                .min(LAZY_WAIT_MAX_MS);
            if self.clock().now().ms() < state.heartbeat_ms.saturating_add(wait) {
                return Ok(());
            }
        }
        self.start_backfill(BackfillKind::Lazy);
        Ok(())
    }

    /// Goes on with a run whose process died: what the service asks for from time to time.
    pub async fn resume_dead_backfill(&self) -> Result<(), ScannerError> {
        let state = self.backfill_state().await?;
        let age = self.clock().now().ms().saturating_sub(state.heartbeat_ms);
        if state.status == MigrationStatus::Running && age > DEAD_AFTER_MS {
            self.start_backfill(BackfillKind::Full);
        }
        Ok(())
    }

    /// Waits until no run is under way, at most so long. Gives the state then.
    pub async fn await_backfill(&self, at_most: Duration) -> Result<BackfillState, ScannerError> {
        let end = Instant::now() + at_most;
        loop {
            let state = self.backfill_state().await?;
            let is_running = state.status == MigrationStatus::Running
                || self.backfilling().load(Ordering::Acquire);
            if !is_running || Instant::now() >= end {
                return Ok(state);
            }
            tokio::time::sleep(LOOK_INTERVAL.min(end - Instant::now())).await;
        }
    }

    /// Asks a run to stop at its next checkpoint.
    pub async fn stop_backfill(&self) -> Result<(), ScannerError> {
        self.store()
            .one::<redis::Value>("HSET", self.keys().migration_state(), |command| {
                command.arg("stopRequested").arg("1");
            })
            .await
            .map(drop)
    }
}

impl Run<'_> {
    async fn through(&mut self, kind: BackfillKind) -> Result<(), BackfillError> {
        for phase in Phase::ALL {
            if !self.progress.is_before_end_of(phase) {
                continue;
            }
            self.phase(phase).await?;
        }
        self.scanner.sync_session().await?;
        self.progress.at("rebuild");
        self.checkpoint(true).await?;
        if kind == BackfillKind::Full {
            self.scanner.rebuild_ledger(Scope::All).await?;
            self.checkpoint(true).await?;
            self.scanner.rebuild_analytics(Scope::All).await?;
        }
        self.checkpoint(true).await
    }

    async fn phase(&mut self, phase: Phase) -> Result<(), BackfillError> {
        let mut cursor = self.progress.cursor_in(phase);
        loop {
            let (next, keys) = self.scanner.scan_sources(phase, &cursor).await?;
            for key in keys {
                self.key(phase, &key).await?;
            }
            cursor = next;
            self.progress.at(&format!("{phase}:{cursor}"));
            self.checkpoint(false).await?;
            if cursor.is_done() {
                return Ok(());
            }
        }
    }

    /// All rows of one key of the application.
    async fn key(&mut self, phase: Phase, key: &str) -> Result<(), BackfillError> {
        self.progress.state.keys_seen += 1;
        let mut from = 0;
        loop {
            let Rows {
                commands,
                faults,
                next,
            } = self.scanner.read_source(phase, key, from).await?;
            let statuses = self.scanner.apply(&commands).await;
            self.progress
                .count(self.scanner, &commands, &statuses, faults);
            // What failed for now is tried again by a later run; what cannot succeed is counted and left behind.
            if let Some(error) = statuses.into_iter().find_map(|status| match status {
                crate::apply::Status::Failed(error) if error.is_transient() => Some(error),
                _ => None,
            }) {
                return Err(error.into());
            }
            self.slow_down(commands.len()).await;
            self.checkpoint(false).await?;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Keeps to the rows a second that are allowed, so that live traffic is not starved.
    async fn slow_down(&mut self, rows: usize) {
        self.rows_done = self.rows_done.saturating_add(rows as u64);
        let rate = f64::from(self.scanner.options().backfill_rows_per_second.max(1));
        // Rows of one run stay far below 2^52.
        let due = Duration::from_secs_f64(self.rows_done as f64 / rate);
        if let Some(wait) = due.checked_sub(self.started.elapsed()) {
            tokio::time::sleep(wait.min(Duration::from_secs(1))).await;
        }
    }

    /// Renews the lease and writes the progress, now and then or at once.
    async fn checkpoint(&mut self, at_once: bool) -> Result<(), BackfillError> {
        if !at_once && self.written.elapsed() < CHECKPOINT {
            return Ok(());
        }
        self.written = Instant::now();
        let renewed: i64 = self
            .scanner
            .store()
            .one_step(
                Step::Renew,
                self.scanner.keys().migration_lock(),
                |command| {
                    command.arg(&self.token).arg(LEASE_MS);
                },
            )
            .await?;
        if renewed == 0 {
            return Err(BackfillError::LeaseLost);
        }
        if self.progress.write(self.scanner).await? {
            return Err(BackfillError::Stopped);
        }
        Ok(())
    }
}
