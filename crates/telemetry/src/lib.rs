//! What the operator sees of a running Cairn: log lines, metrics, health and the progress of long work.
//!
//! * [`logs`]: the process's log output, set up once by the binary.
//! * [`metrics`]: an explicit registry, passed to whoever counts; there is no global one, so tests run in parallel and
//!   the reference page is made by walking it. Every name is a constant in [`names`].
//! * [`health`]: a registry of named parts, each with its state and reason.
//! * [`electrum`]: what Electrum servers count.
//! * [`scanner`]: what an application ledger counts.
//! * [`subscription`]: what subscriptions that are served to clients count.
//! * [`routes`]: both over HTTP.
//! * [`progress`]: a bar on a terminal, a log line per interval elsewhere.
//!
//! This crate knows no ledger: states, phases and labels are given to it.

pub mod antelope;
pub mod electrum;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod names;
pub mod process;
pub mod progress;
pub mod reference;
pub mod routes;
pub mod scanner;
pub mod subscription;

pub use antelope::{ParserMetrics, RedisMetrics, StreamMetrics};
pub use electrum::{ElectrumMetrics, ElectrumMetricsSet};
pub use health::{Health, Mempool, Part, PartStatus, Progression, Service, ServiceStatus, State};
pub use logs::{Format, LogError, Logs, check_filter};
pub use metrics::{ChainMetrics, HttpMetrics, MetricsRegistry};
pub use process::ProcessMetrics;
pub use progress::{ProgressReporter, Sample, WorkUnit};
pub use scanner::{ScannerFigures, ScannerMetrics};
pub use subscription::{SubscriptionFigures, SubscriptionMetrics};
