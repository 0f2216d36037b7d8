//! The request to stop, as seen by threads, tasks and sources.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::EXIT_FAILED;

/// How often a sleeping thread looks whether it should stop.
const NAP: Duration = Duration::from_millis(50);

/// One request for the whole process. Clones are the same request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    token: CancellationToken,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Asks everything to stop.
    pub(crate) fn request(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.token.cancel();
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// For code that polls.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// For code that awaits.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Sleeps on a thread, at most until the request.
    pub(crate) fn sleep(&self, duration: Duration) {
        let end = Instant::now() + duration;
        while !self.is_requested() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// SIGTERM and SIGINT become the request; a second one ends the process at once, which is safe at any moment.
    /// Must be called within the runtime.
    pub(crate) fn on_signals(&self) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let stop = self.clone();
        tokio::spawn(async move {
            let name = either(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = name, "stopping");
            stop.request();
            either(&mut terminate, &mut interrupt).await;
            std::process::exit(i32::from(EXIT_FAILED));
        });
        Ok(())
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// The exit code of work that was asked to stop before its end.
pub(crate) fn interrupted(what: &str) -> ExitCode {
    eprintln!("error: stopped before {what}; run the command again to continue");
    ExitCode::from(EXIT_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_a_sleep() {
        let stop = Stop::new();
        let start = Instant::now();
        stop.sleep(Duration::from_millis(60));
        assert!(start.elapsed() >= Duration::from_millis(60));
        let sleeper = std::thread::spawn({
            let stop = stop.clone();
            move || stop.sleep(Duration::from_secs(600))
        });
        stop.request();
        sleeper.join().expect("it slept");
        assert!(stop.is_requested() && stop.token().is_cancelled());
    }
}
