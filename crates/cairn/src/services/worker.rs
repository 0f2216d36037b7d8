//! The indexing thread of a chain: catch up, wait for a new tip, and again, until asked to stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_utxo_index::{Index, IndexError, SyncOutcome};
use cairn_utxo_node::{ChainSource, SourceError};

use crate::services::monitor::{Monitor, Trouble};
use crate::stop::Stop;

/// Longest wait for a hint of a new tip before the source is asked anyway.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after the first failure; each further one doubles it.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Growing pauses between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            next: BACKOFF_FIRST,
        }
    }

    /// The pause to make now.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(BACKOFF_MAX);
        pause
    }

    pub(crate) fn reset(&mut self) {
        self.next = BACKOFF_FIRST;
    }
}

/// What to do after a failed catch-up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was asked to stop.
    Stopped,
    /// Try again after a pause.
    Retry(Trouble),
    /// Give up: what is indexed stays readable, but nothing is added any more.
    GiveUp,
}

/// Failures of the source are tried again for as long as the process runs: nodes are restarted, passwords are set
/// right, blocks arrive. Failures of the index itself are not: writing on could make them worse.
pub(crate) fn verdict(error: &IndexError) -> Verdict {
    match error {
        IndexError::Stopped | IndexError::Source(SourceError::Stopped) => Verdict::Stopped,
        IndexError::Source(SourceError::Unavailable(_) | SourceError::Missing(_)) => {
            Verdict::Retry(Trouble::Transient)
        }
        IndexError::Source(SourceError::Refused(_) | SourceError::Damaged(_)) => {
            Verdict::Retry(Trouble::Refused)
        }
        IndexError::Mismatch(_) | IndexError::Store(_) | IndexError::Corrupt(_) => Verdict::GiveUp,
    }
}

/// Everything the thread needs.
pub(crate) struct Worker {
    pub(crate) index: Arc<Index>,
    pub(crate) source: Arc<dyn ChainSource>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) stop: Stop,
}

impl Worker {
    /// Runs until asked to stop or until the index fails.
    pub(crate) fn run(self) {
        let chain = self.monitor.id().to_owned();
        tracing::info!(chain, source = self.source.describe(), "indexing starts");
        let mut backoff = Backoff::new();
        while !self.stop.is_requested() {
            let started = Instant::now();
            match self.index.sync(&*self.source, None, self.stop.flag()) {
                Ok(outcome) => {
                    backoff.reset();
                    self.synced(&chain, &outcome, started.elapsed());
                    self.source.wait(&outcome.tip.hash, POLL_INTERVAL);
                }
                Err(error) => match verdict(&error) {
                    Verdict::Stopped => break,
                    Verdict::Retry(trouble) => {
                        if self.monitor.troubled(trouble, error.to_string()) {
                            tracing::warn!(chain, %error, "the chain cannot be followed; trying again");
                        }
                        self.stop.sleep(backoff.pause());
                    }
                    Verdict::GiveUp => {
                        self.monitor.troubled(Trouble::Fatal, error.to_string());
                        tracing::error!(chain, %error, "indexing ended; what is indexed is still served");
                        break;
                    }
                },
            }
        }
        tracing::debug!(chain, "indexing stopped");
    }

    fn synced(&self, chain: &str, outcome: &SyncOutcome, duration: Duration) {
        if self.monitor.caught_up() {
            tracing::info!(chain, "the chain is followed again");
        }
        if outcome.blocks == 0 && outcome.undone == 0 {
            return;
        }
        self.monitor
            .count(outcome.blocks, outcome.txs, outcome.undone, duration);
        tracing::info!(
            chain,
            height = outcome.tip.height,
            hash = %outcome.tip.hash,
            blocks = outcome.blocks,
            txs = outcome.txs,
            undone = outcome.undone,
            seconds = duration.as_secs_f64(),
            "new tip"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u64> = (0..9)
            .map(|_| u64::try_from(backoff.pause().as_millis()).expect("small"))
            .collect();
        assert_eq!(
            pauses,
            [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
        );
        backoff.reset();
        assert_eq!(backoff.pause(), BACKOFF_FIRST);
    }

    #[test]
    fn verdicts() {
        let text = || "why".to_owned();
        for (error, expected) in [
            (IndexError::Stopped, Verdict::Stopped),
            (SourceError::Stopped.into(), Verdict::Stopped),
            (
                SourceError::Unavailable(text()).into(),
                Verdict::Retry(Trouble::Transient),
            ),
            (
                SourceError::Missing(text()).into(),
                Verdict::Retry(Trouble::Transient),
            ),
            (
                SourceError::Refused(text()).into(),
                Verdict::Retry(Trouble::Refused),
            ),
            (
                SourceError::Damaged(text()).into(),
                Verdict::Retry(Trouble::Refused),
            ),
            (IndexError::Mismatch(text()), Verdict::GiveUp),
            (IndexError::Store(text()), Verdict::GiveUp),
            (IndexError::Corrupt(text()), Verdict::GiveUp),
        ] {
            assert_eq!(verdict(&error), expected, "{error:?}");
        }
    }
}
