//! What is measured every few seconds while the program runs: the values behind the small charts of the home page, and
//! the signal that a ledger's pages are out of date.
//!
//! The only state that the site keeps between requests, and a bounded one: so many points for each line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cairn_telemetry::Health;
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior};

use crate::ledger::Ledger;

/// Points of a line.
const POINTS_MAX: usize = 120;
/// Time between two points.
pub(crate) const POINT_INTERVAL: Duration = Duration::from_secs(5);
/// How often a ledger is looked at while somebody watches.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A look that takes longer is given up: the line gets no point.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);
/// Signals that a slow listener may be behind before it is told to look at everything.
const SIGNALS_BEHIND_MAX: usize = 256;

/// One measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// A value as it is: the length of a queue.
    Level(f64),
    /// A number that only grows: the line shows its growth a second.
    Total(f64),
}

/// What one look at a ledger found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// Changes whenever pages of the ledger do.
    pub(crate) mark: String,
    /// Values by the name of their line.
    pub(crate) values: Vec<(&'static str, Measure)>,
}

/// A line of a chart, oldest point first.
#[derive(Debug, Default)]
struct Line {
    points: VecDeque<f64>,
    /// The last value of a total and when it was read.
    total: Option<(f64, Instant)>,
}

impl Line {
    fn add(&mut self, measure: Measure, now: Instant) {
        let point = match measure {
            Measure::Level(level) => level,
            Measure::Total(total) => {
                let before = self.total.replace((total, now));
                let Some((before, at)) = before else {
                    return;
                };
                let seconds = now.duration_since(at).as_secs_f64();
                // A total that shrinks has begun anew.
                if seconds <= 0.0 || total < before {
                    return;
                }
                (total - before) / seconds
            }
        };
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }
}

/// The lines, and the signals.
pub(crate) struct Pulse {
    lines: Mutex<BTreeMap<String, BTreeMap<&'static str, Line>>>,
    signals: broadcast::Sender<Arc<str>>,
    health: Health,
}

impl Pulse {
    /// Nothing measured yet.
    pub(crate) fn new(health: Health) -> Arc<Self> {
        let (signals, _) = broadcast::channel(SIGNALS_BEHIND_MAX);
        Arc::new(Self {
            lines: Mutex::default(),
            signals,
            health,
        })
    }

    /// The state of all parts of the process.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Who listens hears the id of each ledger that changed; the empty text stands for the state of the process.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.signals.subscribe()
    }

    /// A line of a ledger, oldest point first; empty before two looks.
    pub(crate) fn line(&self, ledger: &str, name: &str) -> Vec<f64> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .get(ledger)
            .and_then(|lines| lines.get(name))
            .map(|line| line.points.iter().copied().collect())
            .unwrap_or_default()
    }

    fn add(&self, ledger: &str, reading: &Reading, now: Instant) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of_ledger = lines.entry(ledger.to_owned()).or_default();
        for (name, measure) in &reading.values {
            of_ledger.entry(name).or_default().add(*measure, now);
        }
    }

    /// Measures until it is dropped.
    pub(crate) async fn run(self: Arc<Self>, ledgers: Arc<[Arc<dyn Ledger>]>) {
        let mut marks: Vec<String> = vec![String::new(); ledgers.len()];
        let mut health = String::new();
        let mut interval = tokio::time::interval(LOOK_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut point_at = Instant::now();
        loop {
            interval.tick().await;
            let now = Instant::now();
            let is_point = now >= point_at;
            // Without anybody who watches, only the charts are fed.
            if !is_point && self.signals.receiver_count() == 0 {
                continue;
            }
            if is_point {
                point_at = now + POINT_INTERVAL;
            }
            for (ledger, mark) in ledgers.iter().zip(&mut marks) {
                let Ok(reading) = tokio::time::timeout(LOOK_TIME_MAX, ledger.read_pulse()).await
                else {
                    continue;
                };
                if is_point {
                    self.add(ledger.id(), &reading, Instant::now());
                }
                if reading.mark != *mark {
                    *mark = reading.mark;
                    self.signal(ledger.id());
                }
            }
            let (_, state) = self.health.ready_json();
            let state = state.to_string();
            if state != health || is_point {
                health = state;
                self.signal("");
            }
        }
    }

    fn signal(&self, ledger: &str) {
        // Without listeners there is nobody to tell.
        let _ = self.signals.send(ledger.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_points_and_totals_are_rates() {
        let mut line = Line::default();
        let start = Instant::now();
        for (seconds, measure) in [
            (0, Measure::Total(100.0)),
            (5, Measure::Total(150.0)),
            // Begun anew: no point.
            (10, Measure::Total(0.0)),
            (15, Measure::Total(5.0)),
        ] {
            line.add(measure, start + Duration::from_secs(seconds));
        }
        assert_eq!(line.points, [10.0, 1.0]);
        line.add(Measure::Level(7.0), start);
        assert_eq!(line.points.back(), Some(&7.0));
    }

    #[test]
    fn a_line_is_bounded() {
        let mut line = Line::default();
        let now = Instant::now();
        for n in 0..1_000 {
            line.add(Measure::Level(f64::from(n)), now);
        }
        assert_eq!(line.points.len(), POINTS_MAX);
        assert_eq!(line.points.back(), Some(&999.0));
    }
}
