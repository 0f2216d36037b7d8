//! A bounded room for work that blocks its thread (store reads).
//!
//! Handing work to another thread and back costs more than reading a few rows that are in memory, and when all cores
//! are busy it costs a multiple. So *short* work is done in place as long as short work has lately been short; when it
//! has not been (a cold cache, a slow disk), it goes to the other threads like everything else, until it is again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::error::HttpError;

/// Runs blocking closures beside the asynchronous ones, at most so many at once, each with a deadline.
///
/// A closure that misses its deadline cannot be stopped: its client gets a 503, and its place stays taken until it
/// ends, so that abandoned work cannot pile up.
#[derive(Debug, Clone)]
pub struct BlockingPool {
    places: Arc<Semaphore>,
    deadline: Duration,
    /// How long short work lately took: a moving average, microseconds.
    short_micros: Arc<AtomicU64>,
}

/// Short work is done in place while its moving average is below this.
const IN_PLACE_MAX_MICROS: u64 = 400;
/// One measurement counts at most so much: being put aside by the scheduler says nothing about the disk.
const SAMPLE_MAX_MICROS: u64 = 3_000;
/// The moving average is of about so many measurements.
const AVERAGE_OF: u64 = 16;

impl BlockingPool {
    /// A pool of so many places (at least one); `deadline` covers waiting for a place and the work.
    pub fn new(places: usize, deadline: Duration) -> Self {
        let places = Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            places,
            deadline,
            short_micros: Arc::default(),
        }
    }

    /// Runs work that reads a handful of rows: in place, or like [`BlockingPool::run`] while such work is slow.
    pub async fn run_short<T, F>(&self, work: F) -> Result<T, HttpError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if self.short_micros.load(Ordering::Relaxed) < IN_PLACE_MAX_MICROS {
            let started = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(work));
            note(&self.short_micros, started);
            return result.map_err(|_| {
                // The panic hook has said what and where.
                tracing::error!("a read in place panicked");
                HttpError::internal()
            });
        }
        let short_micros = Arc::clone(&self.short_micros);
        self.run(move || {
            let started = Instant::now();
            let result = work();
            note(&short_micros, started);
            result
        })
        .await
    }

    /// Runs `work`. 503 when there is no place, or no result, before the deadline; 500 when it panics (logged).
    pub async fn run<T, F>(&self, work: F) -> Result<T, HttpError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let end = Instant::now() + self.deadline;
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => match tokio::time::timeout_at(end, self.places.clone().acquire_owned()).await
            {
                Ok(Ok(place)) => place,
                // The semaphore is never closed; were it, there would be no place either.
                Ok(Err(_)) | Err(_) => return Err(HttpError::unavailable("server is busy")),
            },
        };
        let task = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(place);
            result
        });
        match tokio::time::timeout_at(end, task).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(failure)) => {
                tracing::error!(%failure, "blocking work of a request panicked");
                Err(HttpError::internal())
            }
            Err(_) => Err(HttpError::deadline()),
        }
    }

    /// Places that are free now.
    pub fn free_places(&self) -> usize {
        self.places.available_permits()
    }
}

/// Takes one measurement into the moving average. Two at once may lose one, which does not matter.
fn note(average: &AtomicU64, started: Instant) {
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let before = average.load(Ordering::Relaxed);
    let after = (before * (AVERAGE_OF - 1) + micros.min(SAMPLE_MAX_MICROS)) / AVERAGE_OF;
    average.store(after, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn deadline_and_places() {
        let pool = BlockingPool::new(1, Duration::from_millis(50));
        assert_eq!(pool.run(|| 7).await, Ok(7));
        let (release, gate) = mpsc::channel::<()>();
        let late = pool
            .run(move || gate.recv().is_ok())
            .await
            .expect_err("held by the gate");
        assert_eq!(
            (late.status().as_u16(), late.text()),
            (503, "deadline exceeded")
        );
        // The abandoned closure still holds the only place.
        let busy = pool.run(|| 7).await.expect_err("no place");
        assert_eq!(
            (busy.status().as_u16(), busy.text()),
            (503, "server is busy")
        );
        release.send(()).expect("closure still waits");
        while pool.free_places() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 8).await, Ok(8));
    }

    #[tokio::test]
    async fn panic_is_500_and_frees_the_place() {
        let pool = BlockingPool::new(1, Duration::from_secs(5));
        let error = pool
            .run(|| -> u8 { panic!("boom") })
            .await
            .expect_err("panics");
        assert_eq!(
            (error.status().as_u16(), error.text()),
            (500, "Internal server error")
        );
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn short_work_moves_away_when_slow_and_comes_back() {
        let pool = BlockingPool::new(2, Duration::from_secs(5));
        let here = std::thread::current().id();
        let thread = || std::thread::current().id();
        assert_eq!(pool.run_short(thread).await, Ok(here));
        for _ in 0..8 {
            let slow = || std::thread::sleep(Duration::from_millis(5));
            pool.run_short(slow).await.expect("no panic");
        }
        assert_ne!(pool.run_short(thread).await, Ok(here), "slow lately");
        for _ in 0..200 {
            pool.run_short(|| ()).await.expect("no panic");
        }
        assert_eq!(pool.run_short(thread).await, Ok(here), "quick again");
        let error = pool
            .run_short(|| -> u8 { panic!("boom") })
            .await
            .expect_err("panics");
        assert_eq!(
            (error.status().as_u16(), error.text()),
            (500, "Internal server error")
        );
    }
}
