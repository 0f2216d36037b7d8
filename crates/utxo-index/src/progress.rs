//! How far the indexer is, written by its threads without a lock and read by anybody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::index::{Phase, Progress};

/// "No height yet" in an atomic height.
const NONE: u32 = u32::MAX;
/// The rate is measured over steps of at least this long.
const RATE_STEP: Duration = Duration::from_millis(500);
/// Weight of the newest step in the smoothed rate.
const RATE_WEIGHT: f64 = 0.2;

/// Counters of the running work. Writers add with relaxed atomics; the reader smooths the rate.
pub(crate) struct ProgressCell {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    blocks: AtomicU64,
    txs: AtomicU64,
    tip: AtomicU32,
    source_tip: AtomicU32,
    rate: Mutex<Rate>,
}

struct Rate {
    phase: Phase,
    at: Instant,
    done: u64,
    bytes_per_second: f64,
}

impl ProgressCell {
    pub(crate) fn new() -> Self {
        Self {
            phase: AtomicU8::new(code(Phase::Waiting)),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            txs: AtomicU64::new(0),
            tip: AtomicU32::new(NONE),
            source_tip: AtomicU32::new(NONE),
            rate: Mutex::new(Rate {
                phase: Phase::Waiting,
                at: Instant::now(),
                done: 0,
                bytes_per_second: 0.0,
            }),
        }
    }

    /// Starts a phase whose work is `total` bytes (0 = unknown).
    pub(crate) fn set_phase(&self, phase: Phase, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
        self.phase.store(code(phase), Relaxed);
    }

    /// Work done since the phase began, bytes.
    pub(crate) fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    /// Blocks read.
    pub(crate) fn add_blocks(&self, blocks: u64) {
        self.blocks.fetch_add(blocks, Relaxed);
    }

    /// Transactions read.
    pub(crate) fn add_txs(&self, txs: u64) {
        self.txs.fetch_add(txs, Relaxed);
    }

    /// The index's tip.
    pub(crate) fn set_tip(&self, height: Option<u32>) {
        self.tip.store(height.unwrap_or(NONE), Relaxed);
    }

    /// The source's tip as just seen.
    pub(crate) fn set_source_tip(&self, height: u32) {
        self.source_tip.store(height, Relaxed);
    }

    /// A reading, with the rate smoothed over the readings so far.
    pub(crate) fn read(&self) -> Progress {
        let phase = phase(self.phase.load(Relaxed));
        let (done, total) = (self.done.load(Relaxed), self.total.load(Relaxed));
        let rate = self.rate(phase, done);
        let left = total.saturating_sub(done);
        let eta_seconds = (total > 0 && rate > 0.0).then(|| (left as f64 / rate).ceil() as u64);
        let height = |cell: &AtomicU32| Some(cell.load(Relaxed)).filter(|height| *height != NONE);
        Progress {
            phase,
            done,
            total,
            rate,
            eta_seconds,
            blocks: self.blocks.load(Relaxed),
            txs: self.txs.load(Relaxed),
            tip: height(&self.tip),
            source_tip: height(&self.source_tip),
        }
    }

    fn rate(&self, phase: Phase, done: u64) -> f64 {
        // A poisoned lock only means that another reader panicked; the numbers in it are still numbers.
        let mut rate = self
            .rate
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        if rate.phase != phase || done < rate.done {
            *rate = Rate {
                phase,
                at: now,
                done,
                bytes_per_second: 0.0,
            };
        }
        let elapsed = now.duration_since(rate.at);
        if elapsed >= RATE_STEP {
            let step = (done - rate.done) as f64 / elapsed.as_secs_f64();
            rate.bytes_per_second = if rate.bytes_per_second == 0.0 {
                step
            } else {
                rate.bytes_per_second * (1.0 - RATE_WEIGHT) + step * RATE_WEIGHT
            };
            rate.at = now;
            rate.done = done;
        }
        rate.bytes_per_second
    }
}

const PHASES: [Phase; 5] = [
    Phase::Waiting,
    Phase::Headers,
    Phase::Adding,
    Phase::Indexing,
    Phase::Following,
];

fn code(phase: Phase) -> u8 {
    match phase {
        Phase::Waiting => 0,
        Phase::Headers => 1,
        Phase::Adding => 2,
        Phase::Indexing => 3,
        Phase::Following => 4,
    }
}

fn phase(code: u8) -> Phase {
    PHASES
        .get(usize::from(code))
        .copied()
        .unwrap_or(Phase::Waiting)
}
