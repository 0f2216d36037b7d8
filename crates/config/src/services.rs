//! The sections of what chains share: `[redis]`, `[stream]`, `[scanner]`.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::chain::not_a_name;
use crate::keys::Section;
use crate::layers::RawConfig;
use crate::model::{RedisConfig, ScannerConfig, StreamConfig, TrimPolicy};
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};
use crate::values::{read_choice, read_secret};

fn at_of(raw: &RawConfig, section: Section) -> At<'_> {
    At {
        section,
        raw: raw.section(section),
        path: section.name(),
    }
}

/// `[scanner]`, for problems that only the whole configuration shows.
pub(crate) fn scanner_at(raw: &RawConfig) -> At<'_> {
    at_of(raw, Section::Scanner)
}

pub(crate) fn read_redis(reader: &mut Reader<'_>, raw: &RawConfig) -> RedisConfig {
    let at = at_of(raw, Section::Redis);
    let url = reader.text(&at, "url");
    let server = reader.text(&at, "server");
    if server.is_empty() {
        let message = "must not be empty: the program of the private server";
        reader.problem(&at, "server", ProblemKind::InvalidValue, message);
    }
    RedisConfig {
        url: (!url.is_empty()).then(|| SecretString::from(url)),
        server: PathBuf::from(server),
    }
}

pub(crate) fn read_stream(reader: &mut Reader<'_>, raw: &RawConfig) -> StreamConfig {
    let at = at_of(raw, Section::Stream);
    let window = hours(reader.integer(&at, "window_hours"));
    let trim_interval = Duration::from_secs(reader.integer(&at, "trim_interval_seconds"));
    let holds = read_choice(reader, &at, "policy", [("window", false), ("hold", true)]);
    let at_most = hours(reader.integer(&at, "hold_max_hours"));
    if holds && at_most < window {
        let message = "is shorter than window_hours, which events are kept for anyway";
        reader.problem(&at, "hold_max_hours", ProblemKind::InvalidValue, message);
    }
    let max_len = reader.integer(&at, "max_len");
    let token = read_secret(reader, &at, "token", "token_file");
    StreamConfig {
        window,
        trim_interval,
        policy: if holds {
            TrimPolicy::Hold { at_most }
        } else {
            TrimPolicy::Window
        },
        max_len: (max_len > 0).then_some(max_len),
        min_blocks: reader.integer(&at, "min_blocks"),
        token,
    }
}

/// The bound of the keys keeps this far from overflow.
fn hours(count: u64) -> Duration {
    const SECONDS: u64 = 3600;
    Duration::from_secs(count.saturating_mul(SECONDS))
}

pub(crate) fn read_scanner(reader: &mut Reader<'_>, raw: &RawConfig) -> Option<ScannerConfig> {
    let at = scanner_at(raw);
    let is_enabled = reader.bool(&at, "enabled");
    let host_id = reader.text(&at, "host_id");
    if let Some(message) = not_a_name(&host_id) {
        reader.problem(&at, "host_id", ProblemKind::InvalidValue, message);
    }
    let given = reader.text(&at, "chain_id");
    let chain_id = if given.is_empty() {
        format!("ledger-{host_id}")
    } else {
        if let Some(message) = not_a_name(&given) {
            reader.problem(&at, "chain_id", ProblemKind::InvalidValue, message);
        }
        given
    };
    let admin_token = read_secret(reader, &at, "admin_token", "admin_token_file");
    let ingest_token = read_secret(reader, &at, "ingest_token", "ingest_token_file");
    let reads_keys = read_choice(reader, &at, "source", [("http", false), ("redis", true)]);
    let sweep_interval = Duration::from_secs(reader.integer(&at, "sweep_interval_seconds"));
    let public_balances = reader.bool(&at, "public_balances");
    let public_detail = reader.bool(&at, "public_detail");
    is_enabled.then_some(ScannerConfig {
        host_id,
        chain_id,
        admin_token,
        ingest_token,
        sweep_interval: reads_keys.then_some(sweep_interval),
        public_balances,
        public_detail,
    })
}
