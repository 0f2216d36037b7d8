//! Progress of long work: a bar on a terminal, a log line per interval elsewhere.

use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::logs::Logs;

/// Between two log lines.
pub const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// What work is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkUnit {
    /// Bytes read or written.
    #[default]
    Bytes,
    /// Blocks.
    Blocks,
}

/// How far the work is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Name of the phase.
    pub phase: &'static str,
    /// What `done`, `total` and `rate` count.
    pub unit: WorkUnit,
    /// Work done in this phase.
    pub done: u64,
    /// Work of this phase in all; 0 = unknown.
    pub total: u64,
    /// Work per second.
    pub rate: f64,
    /// Estimated seconds until the end of the phase.
    pub eta_seconds: Option<u64>,
    /// Blocks read so far.
    pub blocks: u64,
    /// Transactions read so far.
    pub txs: u64,
}

impl Sample {
    /// Done of the phase, 0 to 100.
    pub fn percent(&self) -> Option<f64> {
        (self.total > 0).then(|| (self.done as f64 / self.total as f64 * 100.0).min(100.0))
    }
}

/// Shows samples. Feed it often (a few times a second); it decides what is shown when.
pub struct ProgressReporter {
    label: String,
    bar: Option<ProgressBar>,
    interval: Duration,
    last: Option<(&'static str, Instant)>,
    line: fn(&str, &Sample),
}

impl ProgressReporter {
    /// A reporter for the work of `label` (a chain's id).
    pub fn new(logs: &Logs, label: &str) -> Self {
        let bar = logs.on_terminal().then(|| {
            let bar = logs.bars().add(ProgressBar::new(0));
            bar.set_style(style());
            bar.set_prefix(label.to_owned());
            bar
        });
        Self {
            label: label.to_owned(),
            bar,
            interval: LINE_INTERVAL,
            last: None,
            line: log_line,
        }
    }

    /// The same with another interval between lines and another place for them.
    #[cfg(test)]
    fn lines_to(label: &str, interval: Duration, line: fn(&str, &Sample)) -> Self {
        Self {
            label: label.to_owned(),
            bar: None,
            interval,
            last: None,
            line,
        }
    }

    /// Shows a sample: always on a bar; as a line at a new phase and once per interval.
    pub fn update(&mut self, sample: &Sample) {
        self.update_at(sample, Instant::now());
    }

    fn update_at(&mut self, sample: &Sample, now: Instant) {
        if let Some(bar) = &self.bar {
            bar.set_length(sample.total);
            bar.set_position(sample.done.min(sample.total));
            bar.set_message(describe(sample));
            return;
        }
        let is_due = match self.last {
            Some((phase, at)) => phase != sample.phase || now.duration_since(at) >= self.interval,
            None => true,
        };
        if is_due {
            self.last = Some((sample.phase, now));
            (self.line)(&self.label, sample);
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}%  {msg}")
        .expect("the template is a constant that a test draws")
}

/// `adding 12 MiB/s, 3 min left, 1200 blocks, 34000 txs`
fn describe(sample: &Sample) -> String {
    let mut text = format!("{} {}", sample.phase, describe_rate(sample));
    if let Some(seconds) = sample.eta_seconds {
        text.push_str(&format!(", {} left", duration_text(seconds)));
    }
    text.push_str(&format!(", {} blocks", sample.blocks));
    if sample.unit == WorkUnit::Bytes {
        text.push_str(&format!(", {} txs", sample.txs));
    }
    text
}

fn describe_rate(sample: &Sample) -> String {
    match sample.unit {
        WorkUnit::Bytes => format!("{}/s", HumanBytes(sample.rate.max(0.0) as u64)),
        WorkUnit::Blocks => format!("{:.0} blocks/s", sample.rate),
    }
}

/// A duration as a person says it: two units at most.
pub fn duration_text(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min {} s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
        _ => format!("{} d {} h", seconds / DAY, seconds % DAY / HOUR),
    }
}

fn log_line(label: &str, sample: &Sample) {
    let percent = sample
        .percent()
        .map(|percent| (percent * 10.0).round() / 10.0);
    tracing::info!(
        chain = label,
        phase = sample.phase,
        percent,
        rate = describe_rate(sample),
        eta_seconds = sample.eta_seconds,
        blocks = sample.blocks,
        txs = sample.txs,
        "progress"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static LINES: Cell<u32> = const { Cell::new(0) };
    }

    fn count(_: &str, _: &Sample) {
        LINES.with(|lines| lines.set(lines.get() + 1));
    }

    #[test]
    fn a_line_per_interval_and_per_phase() {
        let interval = Duration::from_secs(10);
        let mut reporter = ProgressReporter::lines_to("a", interval, count);
        let start = Instant::now();
        let sample = |phase| Sample {
            phase,
            ..Default::default()
        };
        for (second, phase, expected) in [
            (0, "adding", 1),
            (1, "adding", 1),
            (9, "adding", 1),
            (10, "adding", 2),
            (11, "indexing", 3),
            (20, "indexing", 3),
            (21, "indexing", 4),
        ] {
            reporter.update_at(&sample(phase), start + Duration::from_secs(second));
            assert_eq!(LINES.with(Cell::get), expected, "{second} s");
        }
    }

    #[test]
    fn texts() {
        let sample = Sample {
            phase: "adding",
            unit: WorkUnit::Bytes,
            done: 50,
            total: 200,
            rate: 2_097_152.0,
            eta_seconds: Some(185),
            blocks: 10,
            txs: 20,
        };
        assert_eq!(
            describe(&sample),
            "adding 2.00 MiB/s, 3 min 5 s left, 10 blocks, 20 txs"
        );
        assert_eq!(sample.percent(), Some(25.0));
        let blocks = Sample {
            unit: WorkUnit::Blocks,
            rate: 12.4,
            ..sample.clone()
        };
        assert_eq!(
            describe(&blocks),
            "adding 12 blocks/s, 3 min 5 s left, 10 blocks"
        );
        assert_eq!(Sample::default().percent(), None);
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3661, "1 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(duration_text(seconds), text);
        }
    }

    #[test]
    fn the_bar_is_drawn() {
        let bar = ProgressBar::hidden();
        bar.set_style(style());
        assert!(ProgressReporter::new(&Logs::hidden(), "a").bar.is_none());
    }
}
