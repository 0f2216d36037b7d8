//! The state of a backfill, kept in a hash that tools read.

use std::collections::HashMap;

use crate::apply::Status;
use crate::error::ScannerError;
use crate::faults::Fault;
use crate::json::JsonObject;
use crate::request::Command;
use crate::scanner::{Counts, Scanner};
use crate::time::AtMs;

use super::sources::{Cursor, Phase};

/// Faults kept for a person to look at.
const FAULTS_MAX: usize = 100;

/// Where a backfill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationStatus {
    /// There was none.
    Pending,
    /// Under way.
    Running,
    /// Done.
    Completed,
    /// Ended early.
    Failed,
}

impl MigrationStatus {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// By the word; an unknown one, or none, is "there was none".
    pub(crate) fn parse(word: Option<&str>) -> Self {
        match word {
            Some("running") => Self::Running,
            Some("completed") => Self::Completed,
            Some("failed") => Self::Failed,
            _ => Self::Pending,
        }
    }
}

/// A row that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The key of the application.
    pub key: String,
    /// Its place in a list.
    pub index: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// The state of the last run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillState {
    /// Where it is.
    pub status: MigrationStatus,
    /// What is being read.
    pub cursor: Option<String>,
    /// Rows that are present because of the run, or were before it.
    pub total_indexed: u64,
    /// Rows that were new.
    pub newly_indexed: u64,
    /// Rows that were there.
    pub duplicates: u64,
    /// Rows whose id is known with other content.
    pub conflicts: u64,
    /// Rows that could not be used.
    pub invalid: u64,
    /// Wallets that were written.
    pub wallets_indexed: u64,
    /// Keys of the application that were read.
    pub keys_seen: u64,
    /// When it began.
    pub started_at: Option<String>,
    /// When it was done.
    pub completed_at: Option<String>,
    /// Why it ended early.
    pub error: Option<String>,
    /// Last sign of life, milliseconds since 1970.
    pub heartbeat_ms: i64,
    /// Runs since the last one that was done.
    pub attempt: u64,
    /// Rows that could not be used, the first hundred: known to the process that ran it.
    pub faults: Vec<RowFault>,
}

impl Default for BackfillState {
    fn default() -> Self {
        Self {
            status: MigrationStatus::Pending,
            cursor: None,
            total_indexed: 0,
            newly_indexed: 0,
            duplicates: 0,
            conflicts: 0,
            invalid: 0,
            wallets_indexed: 0,
            keys_seen: 0,
            started_at: None,
            completed_at: None,
            error: None,
            heartbeat_ms: 0,
            attempt: 0,
            faults: Vec::new(),
        }
    }
}

impl BackfillState {
    fn from_fields(fields: &HashMap<String, String>) -> Self {
        let number = |name: &str| {
            fields
                .get(name)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        };
        let text = |name: &str| fields.get(name).cloned();
        Self {
            status: MigrationStatus::parse(fields.get("status").map(String::as_str)),
            cursor: text("cursor"),
            total_indexed: number("totalIndexed"),
            newly_indexed: number("newlyIndexed"),
            duplicates: number("duplicates"),
            conflicts: number("conflicts"),
            invalid: number("invalid"),
            wallets_indexed: number("walletsIndexed"),
            keys_seen: number("keysSeen"),
            started_at: text("startedAt"),
            completed_at: text("completedAt"),
            error: text("error"),
            heartbeat_ms: fields
                .get("heartbeatAt")
                .and_then(|text| AtMs::parse(text))
                .map_or(0, AtMs::ms),
            attempt: number("attempt"),
            faults: fields
                .get("firstInvalid")
                .map(|json| read_faults(json))
                .unwrap_or_default(),
        }
    }

    /// The JSON form; absent values are absent fields.
    pub fn to_json(&self) -> String {
        let faults = self.faults.iter().map(fault_json);
        let json = JsonObject::new()
            .text("status", self.status.as_str())
            .text_if("cursor", self.cursor.as_deref())
            .number("totalIndexed", self.total_indexed)
            .number("newlyIndexed", self.newly_indexed)
            .number("duplicates", self.duplicates)
            .number("conflicts", self.conflicts)
            .number("invalid", self.invalid)
            .number("walletsIndexed", self.wallets_indexed)
            .number("keysSeen", self.keys_seen)
            .text_if("startedAt", self.started_at.as_deref())
            .text_if("completedAt", self.completed_at.as_deref())
            .text_if("error", self.error.as_deref());
        if self.faults.is_empty() {
            json.end()
        } else {
            json.raw("firstInvalid", &crate::json::array(faults)).end()
        }
    }
}

fn fault_json(row: &RowFault) -> String {
    JsonObject::new()
        .text("key", &row.key)
        .number("index", row.index as u64)
        .text("path", &row.fault.path)
        .text("code", &row.fault.code)
        .text("message", &row.fault.message)
        .end()
}

fn read_faults(json: &str) -> Vec<RowFault> {
    #[derive(serde::Deserialize)]
    struct Stored {
        key: String,
        index: usize,
        #[serde(flatten)]
        fault: Fault,
    }
    // The list is for people: one that cannot be read is none.
    let stored: Vec<Stored> = serde_json::from_str(json).unwrap_or_default();
    stored
        .into_iter()
        .map(|row| RowFault {
            key: row.key,
            index: row.index,
            fault: row.fault,
        })
        .collect()
}

impl Scanner {
    /// The state of the last run.
    pub async fn backfill_state(&self) -> Result<BackfillState, ScannerError> {
        let fields: HashMap<String, String> = self
            .store()
            .one("HGETALL", self.keys().migration_state(), |_| {})
            .await?;
        Ok(BackfillState::from_fields(&fields))
    }

    /// The state of the events' part of the last run.
    pub async fn analytics_backfill_state(&self) -> Result<BackfillState, ScannerError> {
        let fields: HashMap<String, String> = self
            .store()
            .one("HGETALL", self.keys().analytics_state(), |_| {})
            .await?;
        Ok(BackfillState::from_fields(&fields))
    }

    /// Which server this is: a cursor means nothing to another one.
    async fn server_run_id(&self) -> String {
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let text: Result<String, _> = self.redis().query("INFO server", &info).await;
        text.ok()
            .and_then(|text| {
                text.lines()
                    .find_map(|line| line.strip_prefix("run_id:").map(|id| id.trim().to_owned()))
            })
            .unwrap_or_default()
    }
}

/// The progress of a run of this process.
pub(super) struct Progress {
    pub(super) state: BackfillState,
    owner: String,
    server: String,
}

impl Progress {
    /// Takes over: goes on with a run that was not ended, if this is the same server, else begins.
    pub(super) async fn begin(scanner: &Scanner, owner: &str) -> Result<Self, ScannerError> {
        let fields: HashMap<String, String> = scanner
            .store()
            .one("HGETALL", scanner.keys().migration_state(), |_| {})
            .await?;
        let before = BackfillState::from_fields(&fields);
        let server = scanner.server_run_id().await;
        let now = scanner.clock().now();
        let mut state = if before.status == MigrationStatus::Running {
            let same = fields.get("serverRunId") == Some(&server);
            BackfillState {
                cursor: before.cursor.clone().map(|cursor| {
                    if same {
                        cursor
                    } else {
                        Phase::begin_again(&cursor)
                    }
                }),
                ..before.clone()
            }
        } else {
            BackfillState {
                started_at: Some(now.to_string()),
                ..BackfillState::default()
            }
        };
        state.status = MigrationStatus::Running;
        state.error = None;
        state.completed_at = None;
        state.attempt = match before.status {
            MigrationStatus::Completed | MigrationStatus::Pending => 1,
            MigrationStatus::Failed | MigrationStatus::Running => before.attempt + 1,
        };
        let mut progress = Self {
            state,
            owner: owner.to_owned(),
            server,
        };
        scanner
            .store()
            .one::<redis::Value>("HDEL", scanner.keys().migration_state(), |command| {
                command.arg(&["completedAt", "error", "stopRequested", "firstInvalid"]);
            })
            .await?;
        progress.write(scanner).await?;
        progress.write_analytics(scanner).await?;
        Ok(progress)
    }

    /// Where the run is.
    pub(super) fn at(&mut self, cursor: &str) {
        self.state.cursor = Some(cursor.to_owned());
    }

    /// Whether a phase is still to be done.
    pub(super) fn is_before_end_of(&self, phase: Phase) -> bool {
        match self.state.cursor.as_deref().and_then(Phase::of) {
            None => self.state.cursor.as_deref() != Some("rebuild"),
            Some((current, cursor)) => {
                current < phase || (current == phase && !cursor.is_done_after_start())
            }
        }
    }

    pub(super) fn cursor_in(&self, phase: Phase) -> Cursor {
        match self.state.cursor.as_deref().and_then(Phase::of) {
            Some((current, cursor)) if current == phase => cursor,
            _ => Cursor::start(),
        }
    }

    pub(super) fn count(
        &mut self,
        scanner: &Scanner,
        commands: &[Command],
        statuses: &[Status],
        faults: Vec<RowFault>,
    ) {
        let state = &mut self.state;
        for (command, status) in commands.iter().zip(statuses) {
            let is_tx = matches!(command, Command::Tx { .. });
            match status {
                Status::Created if is_tx => {
                    state.newly_indexed += 1;
                    state.total_indexed += 1;
                    Counts::add(&scanner.counts().backfill_new, 1);
                }
                Status::Duplicate if is_tx => {
                    state.duplicates += 1;
                    state.total_indexed += 1;
                }
                Status::Conflict { .. } => state.conflicts += 1,
                Status::Created if matches!(command, Command::Wallet { .. }) => {
                    state.wallets_indexed += 1;
                }
                _ => {}
            }
        }
        state.invalid += faults.len() as u64;
        Counts::add(&scanner.counts().backfill_invalid, faults.len() as u64);
        for fault in faults {
            tracing::warn!(key = %fault.key, index = fault.index, fault = %fault.fault, "a row of the application cannot be used");
            if state.faults.len() < FAULTS_MAX {
                state.faults.push(fault);
            }
        }
    }

    /// Writes the progress; whether somebody asked to stop.
    pub(super) async fn write(&mut self, scanner: &Scanner) -> Result<bool, ScannerError> {
        let state = &mut self.state;
        let now = scanner.clock().now();
        state.heartbeat_ms = now.ms();
        let mut fields: Vec<(&str, String)> = vec![
            ("status", state.status.as_str().to_owned()),
            ("totalIndexed", state.total_indexed.to_string()),
            ("newlyIndexed", state.newly_indexed.to_string()),
            ("duplicates", state.duplicates.to_string()),
            ("conflicts", state.conflicts.to_string()),
            ("invalid", state.invalid.to_string()),
            ("walletsIndexed", state.wallets_indexed.to_string()),
            ("keysSeen", state.keys_seen.to_string()),
            ("attempt", state.attempt.to_string()),
            ("heartbeatAt", now.to_string()),
            ("owner", self.owner.clone()),
            ("serverRunId", self.server.clone()),
        ];
        for (name, value) in [
            ("cursor", &state.cursor),
            ("startedAt", &state.started_at),
            ("completedAt", &state.completed_at),
            ("error", &state.error),
        ] {
            fields.extend(value.clone().map(|value| (name, value)));
        }
        if !state.faults.is_empty() {
            let faults = crate::json::array(state.faults.iter().map(fault_json));
            fields.push(("firstInvalid", faults));
        }
        let mut batch = crate::store::Batch::new();
        let key = scanner.keys().migration_state();
        let written = batch.add("HSET", key.clone(), |command| {
            command.arg(&fields);
        });
        let stop = batch.add("HGET", key, |command| {
            command.arg("stopRequested");
        });
        let mut answers = scanner.store().send(batch).await?;
        answers.take::<redis::Value>(written)?;
        Ok(answers.take::<Option<String>>(stop)?.is_some())
    }

    /// The events' part: every row makes its event on the way.
    async fn write_analytics(&self, scanner: &Scanner) -> Result<(), ScannerError> {
        let state = &self.state;
        let mut fields: Vec<(&str, String)> = vec![
            ("status", state.status.as_str().to_owned()),
            ("totalIndexed", state.total_indexed.to_string()),
            ("heartbeatAt", scanner.clock().now().to_string()),
        ];
        let given = [
            ("startedAt", &state.started_at),
            ("completedAt", &state.completed_at),
            ("error", &state.error),
        ];
        for (name, value) in given {
            fields.extend(value.clone().map(|value| (name, value)));
        }
        let absent: Vec<&str> = given
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| *name)
            .collect();
        let mut batch = crate::store::Batch::new();
        let key = scanner.keys().analytics_state();
        if !absent.is_empty() {
            batch.add("HDEL", key.clone(), |command| {
                command.arg(&absent);
            });
        }
        let slot = batch.add("HSET", key, |command| {
            command.arg(&fields);
        });
        scanner
            .store()
            .send(batch)
            .await?
            .take::<redis::Value>(slot)
            .map(drop)
    }

    pub(super) async fn complete(&mut self, scanner: &Scanner) -> Result<(), ScannerError> {
        self.state.status = MigrationStatus::Completed;
        self.state.completed_at = Some(scanner.clock().now().to_string());
        self.at("done");
        self.write(scanner).await?;
        self.write_analytics(scanner).await
    }

    pub(super) async fn fail(
        &mut self,
        scanner: &Scanner,
        error: &str,
    ) -> Result<(), ScannerError> {
        self.state.status = MigrationStatus::Failed;
        self.state.error = Some(error.to_owned());
        self.at("error");
        self.write(scanner).await?;
        self.write_analytics(scanner).await
    }
}
