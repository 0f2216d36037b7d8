//! The application's own keys: found by scanning, read, never written.

use crate::apply::Status;
use crate::block::{Block, Height};
use crate::error::ScannerError;
use crate::faults::{Fault, Faults};
use crate::fields::Fields;
use crate::keys::AppKey;
use crate::money::Rounding;
use crate::node::Node;
use crate::record::Record;
use crate::request::{Command, Origin};
use crate::scanner::Scanner;
use crate::store::Batch;
use crate::time::AtMs;
use crate::wallet::Wallet;

use super::state::RowFault;

/// Keys looked at in one step of a scan.
const SCAN_COUNT: usize = 500;
/// Rows of a list read at once.
const SLICE: usize = 250;

/// What is read, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// `player:*:purchases`
    Purchases,
    /// `player:*:wallet`
    Wallets,
    /// `node:*:auth*`
    Nodes,
}

/// A place in a scan: `{shard}-{cursor}` on a Cluster, the cursor alone on a single server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    shard: usize,
    at: String,
    begun: bool,
    done: bool,
}

impl Cursor {
    pub(crate) fn start() -> Self {
        Self {
            shard: 0,
            at: "0".to_owned(),
            begun: false,
            done: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether a stored cursor says that its phase was done.
    pub(crate) fn is_done_after_start(&self) -> bool {
        self.done
    }

    fn parse(text: &str) -> Self {
        if text == "done" {
            return Self {
                done: true,
                ..Self::start()
            };
        }
        let (shard, at) = text.split_once('-').unwrap_or(("0", text));
        let digits = at.bytes().all(|byte| byte.is_ascii_digit()) && !at.is_empty();
        match shard.parse() {
            Ok(shard) if digits => Self {
                shard,
                at: at.to_owned(),
                begun: at != "0",
                done: false,
            },
            _ => Self::start(),
        }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.done, self.shard) {
            (true, _) => f.write_str("done"),
            (false, 0) => f.write_str(&self.at),
            (false, shard) => write!(f, "{shard}-{}", self.at),
        }
    }
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::Purchases, Self::Wallets, Self::Nodes];

    fn as_str(self) -> &'static str {
        match self {
            Self::Purchases => "purchases",
            Self::Wallets => "wallets",
            Self::Nodes => "nodes",
        }
    }

    /// The phase and place of a stored cursor.
    pub(crate) fn of(cursor: &str) -> Option<(Self, Cursor)> {
        let (word, at) = cursor.split_once(':')?;
        let phase = Self::ALL.into_iter().find(|phase| phase.as_str() == word)?;
        Some((phase, Cursor::parse(at)))
    }

    /// The stored cursor at the beginning of its phase.
    pub(crate) fn begin_again(cursor: &str) -> String {
        match Self::of(cursor) {
            Some((phase, at)) if !at.is_done() => format!("{phase}:0"),
            _ => cursor.to_owned(),
        }
    }

    fn pattern(self) -> &'static str {
        match self {
            Self::Purchases => "player:*:purchases",
            Self::Wallets => "player:*:wallet",
            Self::Nodes => "node:*:auth*",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Rows of a key, and where to go on in it.
pub(crate) struct Rows {
    pub(crate) commands: Vec<Command>,
    pub(crate) faults: Vec<RowFault>,
    pub(crate) next: Option<usize>,
}

/// What a sweep found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Keys of the application that were looked at.
    pub keys: u64,
    /// Rows that were new.
    pub new_rows: u64,
    /// All keys have been looked at; the next sweep begins again.
    pub wrapped: bool,
}

impl Scanner {
    /// Keys of a phase, and where the scan goes on.
    pub(crate) async fn scan_sources(
        &self,
        phase: Phase,
        cursor: &Cursor,
    ) -> Result<(Cursor, Vec<String>), ScannerError> {
        let pattern = self.keys().app_pattern(phase.pattern());
        let (next, shards, keys) = self
            .store()
            .scan(cursor.shard, &cursor.at, &pattern, SCAN_COUNT)
            .await?;
        let is_shard_done = next == "0";
        let shard = cursor.shard + usize::from(is_shard_done);
        let cursor = Cursor {
            shard,
            at: next,
            begun: true,
            done: is_shard_done && shard >= shards,
        };
        Ok((cursor, keys))
    }

    /// Reads a slice of a key. What is of another type is a fault of the key.
    pub(crate) async fn read_source(
        &self,
        phase: Phase,
        key: &str,
        from: usize,
    ) -> Result<Rows, ScannerError> {
        let rows = match (phase, self.keys().app_key(key)) {
            (Phase::Purchases, Some(AppKey::Purchases(player))) => {
                self.read_purchases(key, player, from).await
            }
            (Phase::Wallets, Some(AppKey::Wallet(player))) => self.read_wallet(key, player).await,
            (Phase::Nodes, Some(AppKey::Auth(node))) => self.read_auth(key, node).await,
            // The pattern of a scan takes more than these.
            _ => Ok(Rows::none()),
        };
        match rows {
            Err(error) if !error.is_transient() => Ok(Rows {
                faults: vec![RowFault {
                    key: key.to_owned(),
                    index: 0,
                    fault: Fault {
                        path: String::new(),
                        code: error.cause().to_owned(),
                        message: error.to_string(),
                    },
                }],
                ..Rows::none()
            }),
            rows => rows,
        }
    }

    async fn read_purchases(
        &self,
        key: &str,
        player: &str,
        from: usize,
    ) -> Result<Rows, ScannerError> {
        let rows: Vec<Vec<u8>> = self
            .store()
            .one("LRANGE", key.to_owned(), |command| {
                command.arg(from).arg(from + SLICE - 1);
            })
            .await?;
        let next = (rows.len() == SLICE).then_some(from + SLICE);
        let mut read = Rows {
            next,
            ..Rows::none()
        };
        let latest = self.reader().latest();
        for (index, row) in rows.iter().enumerate() {
            match read_record(row, latest) {
                Ok(record) => {
                    if record.player_id != player {
                        tracing::warn!(key, player = %record.player_id, "a row is in the list of another player; it is indexed under its own");
                    }
                    read.commands.push(Command::Tx {
                        op: record.default_op(),
                        record,
                        wallets: Vec::new(),
                        origin: Origin::Archive,
                    });
                }
                Err(fault) => read.faults.push(RowFault {
                    key: key.to_owned(),
                    index: from + index,
                    fault,
                }),
            }
        }
        Ok(read)
    }

    async fn read_wallet(&self, key: &str, player: &str) -> Result<Rows, ScannerError> {
        let json: Option<Vec<u8>> = self.store().one("GET", key.to_owned(), |_| {}).await?;
        let Some(json) = json else {
            return Ok(Rows::none());
        };
        let mut read = Rows::none();
        match read_app_wallet(&json, player, self.reader().latest()) {
            Ok(wallet) => read.commands.push(Command::Wallet { wallet }),
            Err(fault) => read.faults.push(RowFault {
                key: key.to_owned(),
                index: 0,
                fault,
            }),
        }
        Ok(read)
    }

    /// Named fields only: the hash holds credentials.
    async fn read_auth(&self, key: &str, node: &str) -> Result<Rows, ScannerError> {
        let (kind, parent): (Option<String>, Option<String>) = self
            .store()
            .one("HMGET", key.to_owned(), |command| {
                command.arg(&["kind", "parentNodeId"]);
            })
            .await?;
        let node = kind.and_then(|kind| Node::from_auth(node, &kind, parent.as_deref()));
        Ok(Rows {
            commands: node
                .into_iter()
                .map(|node| Command::Node { node })
                .collect(),
            ..Rows::none()
        })
    }

    /// The revision in the application's session. A lower one than the last begins a new epoch.
    pub async fn sync_session(&self) -> Result<bool, ScannerError> {
        let mut batch = Batch::new();
        let session = batch.add("HMGET", self.keys().app_session(), |command| {
            command.arg(&[
                "snapshotRev",
                "merkleRootHex",
                "merkleLeafCount",
                "lastSnapshotAt",
            ]);
        });
        let head = batch.add("HMGET", self.keys().head(), |command| {
            command.arg(&["epoch", "snapshotRev", "merkleRootHex"]);
        });
        let mut answers = self.store().send(batch).await?;
        let (rev, root, leaves, at): (Option<i64>, Option<String>, Option<i64>, Option<String>) =
            answers.take(session).unwrap_or_default();
        let (epoch, head_rev, head_root): (Option<i64>, Option<i64>, Option<String>) =
            answers.take(head)?;
        let (Some(rev), Some(root)) = (rev, root) else {
            return Ok(false);
        };
        let root = root.to_ascii_lowercase();
        if head_rev == Some(rev) && head_root.as_ref() == Some(&root) {
            return Ok(false);
        }
        let epoch = epoch.unwrap_or(0) + i64::from(head_rev.is_some_and(|head| rev < head));
        let at = at
            .as_deref()
            .and_then(AtMs::parse)
            .unwrap_or(self.clock().now());
        let is_hex = !root.is_empty() && root.bytes().all(|byte| byte.is_ascii_hexdigit());
        if Height::new(epoch, rev).is_none() || !is_hex {
            return Ok(false);
        }
        let block = Block {
            rev,
            epoch: Some(epoch),
            root,
            leaf_count: leaves.unwrap_or(0).max(0),
            at_ms: at.ms(),
            occupants: None,
            leaf_delta: None,
            label: None,
        };
        let command = Command::Block {
            block,
            leaves: None,
        };
        let status = self.apply(std::slice::from_ref(&command)).await.pop();
        match status {
            Some(Status::Failed(error)) => Err(error),
            Some(Status::Created) => Ok(true),
            _ => Ok(false),
        }
    }

    /// Indexes what is new in one key of the application: of a list, from its head down to the first known row.
    pub async fn index_app_key(&self, key: &str, live: bool) -> Result<u64, ScannerError> {
        let phase = match self.keys().app_key(key) {
            Some(AppKey::Purchases(_)) => Phase::Purchases,
            Some(AppKey::Wallet(_)) => Phase::Wallets,
            Some(AppKey::Auth(_)) => Phase::Nodes,
            Some(AppKey::Session) => return Ok(u64::from(self.sync_session().await?)),
            None => return Ok(0),
        };
        let mut new_rows = 0;
        let mut from = 0;
        loop {
            let Rows {
                mut commands,
                faults,
                next,
            } = self.read_source(phase, key, from).await?;
            for fault in faults {
                tracing::warn!(key, index = fault.index, fault = %fault.fault, "a row of the application cannot be used");
            }
            if live {
                for command in &mut commands {
                    if let Command::Tx { origin, .. } = command {
                        *origin = Origin::Live;
                    }
                }
            }
            let is_known_reached = self.keep_unknown(&mut commands).await?;
            for status in self.apply(&commands).await {
                match status {
                    Status::Failed(error) => return Err(error),
                    Status::Created => new_rows += 1,
                    _ => {}
                }
            }
            match next.filter(|_| !is_known_reached) {
                Some(next) => from = next,
                None => return Ok(new_rows),
            }
        }
    }

    /// Keeps the rows before the first one that the ledger has; whether there was one.
    async fn keep_unknown(&self, commands: &mut Vec<Command>) -> Result<bool, ScannerError> {
        let mut batch = Batch::new();
        let mut slots = Vec::new();
        for command in commands.iter() {
            if let Command::Tx { record, .. } = command {
                slots.push(batch.add("EXISTS", self.keys().tx(&record.id), |_| {}));
            }
        }
        let mut answers = self.store().send(batch).await?;
        let mut known = None;
        for (index, slot) in slots.into_iter().enumerate() {
            if answers.take::<bool>(slot)? {
                known = Some(index);
                break;
            }
        }
        if let Some(index) = known {
            commands.truncate(index);
        }
        Ok(known.is_some())
    }

    /// One step of the sweep over all keys of the application: bounded work, so that notifications may be lost.
    pub async fn sweep(&self, cursor: &mut SweepCursor) -> Result<SweepReport, ScannerError> {
        let phase = Phase::ALL[cursor.phase % Phase::ALL.len()];
        let (next, keys) = self.scan_sources(phase, &cursor.at).await?;
        let mut report = SweepReport::default();
        for key in keys {
            report.keys += 1;
            match self.index_app_key(&key, false).await {
                Ok(new) => report.new_rows += new,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => tracing::warn!(key, %error, "a key of the application is skipped"),
            }
        }
        if next.is_done() {
            cursor.phase += 1;
            cursor.at = Cursor::start();
            report.wrapped = cursor.phase.is_multiple_of(Phase::ALL.len());
            if report.wrapped {
                self.sync_session().await?;
            }
        } else {
            cursor.at = next;
        }
        Ok(report)
    }
}

/// Where a sweep goes on.
#[derive(Debug, Clone)]
pub struct SweepCursor {
    phase: usize,
    at: Cursor,
}

impl Default for SweepCursor {
    fn default() -> Self {
        Self {
            phase: 0,
            at: Cursor::start(),
        }
    }
}

impl Rows {
    fn none() -> Self {
        Self {
            commands: Vec::new(),
            faults: Vec::new(),
            next: None,
        }
    }
}

fn not_text() -> Fault {
    Fault {
        path: String::new(),
        code: "invalid_json".to_owned(),
        message: "is not UTF-8".to_owned(),
    }
}

fn first(faults: Faults) -> Fault {
    faults.into_vec().into_iter().next().unwrap_or(Fault {
        path: String::new(),
        code: "invalid".to_owned(),
        message: "cannot be used".to_owned(),
    })
}

fn read_record(row: &[u8], latest: AtMs) -> Result<Record, Fault> {
    let json = std::str::from_utf8(row).map_err(|_| not_text())?;
    let mut faults = Faults::default();
    let record = {
        let mut fields = Fields::parse(json, "", Rounding::HalfEven, &mut faults);
        Record::read(&mut fields, latest)
    };
    match record {
        Some(record) if faults.is_empty() => Ok(record),
        _ => Err(first(faults)),
    }
}

/// The application's wallet need not say whose it is: the key does.
fn read_app_wallet(json: &[u8], player: &str, latest: AtMs) -> Result<Wallet, Fault> {
    let json = std::str::from_utf8(json).map_err(|_| not_text())?;
    let mut faults = Faults::default();
    let named = Fields::parse(json, "", Rounding::HalfEven, &mut faults)
        .raw("playerId")
        .is_some();
    let with_name;
    let json = match json.trim_start().strip_prefix('{') {
        Some(rest) if !named && rest.trim_start() != "}" => {
            with_name = format!("{{\"playerId\":{},{rest}", crate::json::quote(player));
            with_name.as_str()
        }
        _ => json,
    };
    let mut faults = Faults::default();
    Wallet::read(json, "", latest, &mut faults).ok_or_else(|| first(faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_kept_as_text() {
        for text in ["0", "17", "3-99", "done"] {
            assert_eq!(Cursor::parse(text).to_string(), text);
        }
        assert_eq!(Cursor::parse("x-y").to_string(), "0");
        let (phase, cursor) = Phase::of("wallets:17").expect("a cursor");
        assert_eq!((phase, cursor.to_string().as_str()), (Phase::Wallets, "17"));
        assert_eq!(Phase::begin_again("wallets:17"), "wallets:0");
        assert_eq!(Phase::begin_again("rebuild"), "rebuild");
        assert_eq!(Phase::of("rebuild"), None);
    }

    #[test]
    fn wallets_of_the_application_may_lack_a_name() {
        let latest = AtMs::clamped(i64::MAX);
        let json = br#"{"balanceUsd":1.5,"updatedAt":"2026-03-10T14:05:17.123Z"}"#;
        let wallet = read_app_wallet(json, "nm\"1", latest).expect("good");
        assert_eq!(wallet.player_id, "nm\"1");
        assert!(read_app_wallet(b"{}", "x", latest).is_err());
        assert!(read_app_wallet(b"\xff", "x", latest).is_err());
        assert!(read_app_wallet(b"[1]", "x", latest).is_err());
    }
}
