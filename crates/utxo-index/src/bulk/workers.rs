//! The threads of a load: each runs the same closure; the first error stops all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::index::IndexError;

pub(super) struct Workers<'a> {
    count: usize,
    stop: &'a AtomicBool,
    failed: AtomicBool,
}

impl<'a> Workers<'a> {
    /// `count` 0 means one per core.
    pub(super) fn new(count: usize, stop: &'a AtomicBool) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = if count == 0 { cores() } else { count };
        Self {
            count,
            stop,
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a worker should go on: fails when the caller asked to stop or another worker failed.
    pub(super) fn check(&self) -> Result<(), IndexError> {
        if self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return Err(IndexError::Stopped);
        }
        Ok(())
    }

    /// Runs `work` on every thread and waits for all.
    pub(super) fn run(
        &self,
        work: impl Fn() -> Result<(), IndexError> + Sync,
    ) -> Result<(), IndexError> {
        self.check()?;
        let first: Mutex<Option<IndexError>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.count {
                scope.spawn(|| {
                    let Err(error) = work() else { return };
                    self.failed.store(true, Ordering::Relaxed);
                    let mut first = first.lock().expect("no worker panics while it reports");
                    // The workers that stopped because of another's failure have nothing to tell.
                    if first.is_none() || matches!(*first, Some(IndexError::Stopped)) {
                        *first = Some(error);
                    }
                });
            }
        });
        match first
            .into_inner()
            .expect("no worker panics while it reports")
        {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
