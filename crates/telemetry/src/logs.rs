//! Log output: text for people, JSON for machines, always to stderr.

use std::io::{self, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressDrawTarget};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// Form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Logs that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not understood.
    #[error("not a log filter: {0}; examples: info, debug, info,cairn_utxo_index=debug")]
    Filter(String),
    /// There is a log output already.
    #[error("logs are set up already: {0}")]
    Twice(String),
}

/// The process's log output. Progress bars are drawn through it, so that lines and bars do not overwrite each other.
#[derive(Debug, Clone)]
pub struct Logs {
    bars: MultiProgress,
    on_terminal: bool,
}

/// Whether a text is a log filter.
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(filter).map(|_| ())
}

fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(filter).map_err(|error| LogError::Filter(error.to_string()))
}

impl Logs {
    /// Sets the log output of the process up; once.
    pub fn init(filter: &str, format: Format) -> Result<Self, LogError> {
        let filter = parse_filter(filter)?;
        let on_terminal = io::stderr().is_terminal();
        let logs = Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            on_terminal,
        };
        let as_json = match format {
            Format::Auto => !on_terminal,
            Format::Text => false,
            Format::Json => true,
        };
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(BarWriter(logs.bars.clone()))
            .with_ansi(on_terminal);
        let installed = if as_json {
            builder.json().flatten_event(true).finish().try_init()
        } else {
            builder.finish().try_init()
        };
        installed.map_err(|error| LogError::Twice(error.to_string()))?;
        Ok(logs)
    }

    /// A log output that nobody reads, for tests of progress.
    pub fn hidden() -> Self {
        Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            on_terminal: false,
        }
    }

    /// Whether stderr is a terminal, where bars can be drawn.
    pub fn on_terminal(&self) -> bool {
        self.on_terminal
    }

    pub(crate) fn bars(&self) -> &MultiProgress {
        &self.bars
    }
}

/// Writes lines to stderr with the bars taken away meanwhile.
struct BarWriter(MultiProgress);

impl<'a> MakeWriter<'a> for BarWriter {
    type Writer = &'a BarWriter;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &BarWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An event is written in one call, so a line is never torn.
        self.0.suspend(|| io::stderr().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        for good in [
            "info",
            "debug",
            "info,cairn_utxo_index=debug",
            "off",
            "cairn=trace,hyper=warn",
        ] {
            assert!(check_filter(good).is_ok(), "{good}");
        }
        for bad in ["info,cairn=loud", "a=b=c", "=="] {
            let error = check_filter(bad).expect_err(bad).to_string();
            assert!(error.starts_with("not a log filter"), "{error}");
        }
    }
}
