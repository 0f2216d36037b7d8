//! The ABI history in Redis.
//!
//! | key | content |
//! | --- | --- |
//! | `parser2:abi:{contract}` | every different ABI: score the block in which it was first set, member base64 of its bytes |
//! | `parser2:abilog:{contract}` | the exact order: score the block, member `{block}:{global_sequence}:{abi_sequence}:{sha256}` |
//! | `parser2:abilog.open:{chain}` | versions set in blocks that may still be undone: score the block, member `{contract}:{sha256}:{block id}:{log member}` |
//!
//! A version is written in this order: open list, log, history; before its block enters the stream. After a fork the versions of
//! undone blocks are taken out again; the open list goes last. So at any moment the open list names every version that may have
//! to go, and the next start takes out those whose block is not published: a crash between any two steps is repaired.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_antelope_abi::{Checksum256, Name};
use cairn_redis::{Redis, RedisError};
use cairn_stream::{BlockId, ChainLabel, Resume, keys};
use sha2::{Digest, Sha256};

use crate::book::VERSIONS_MAX;
use crate::events::hex_text;
use crate::version::AbiVersion;

/// Different ABIs of one contract that are read at once.
const HISTORY_MAX: isize = 256;

/// Why the history cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AbiStoreError {
    /// Redis.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// What is stored is not what Cairn writes.
    #[error(
        "{key}: {member:?} is not an entry that Cairn writes. Remove it, or the key if it is not needed"
    )]
    Damaged {
        /// The key.
        key: String,
        /// The entry.
        member: String,
    },
}

impl AbiStoreError {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_transient())
    }
}

/// The ABI history in Redis.
pub struct AbiStore {
    redis: Redis,
    open_key: String,
    /// Versions in blocks that may still be undone.
    open: Vec<Open>,
}

/// A version in a block that may still be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    contract: Name,
    block_num: u32,
    block_id: Checksum256,
    sha256: String,
    log_member: String,
}

impl Open {
    /// `None` for a version that is in no particular block.
    fn of(version: &AbiVersion) -> Option<Self> {
        Some(Self {
            contract: version.contract,
            block_num: version.block_num,
            block_id: version.block_id?,
            sha256: hex_text(&version.sha256),
            log_member: log_member(version),
        })
    }

    fn member(&self) -> String {
        format!(
            "{}:{}:{}:{}",
            self.contract,
            self.sha256,
            hex_text(&self.block_id),
            self.log_member
        )
    }

    fn parse(member: &str) -> Option<Self> {
        let mut parts = member.splitn(4, ':');
        let contract = Name::parse(parts.next()?).ok()?;
        let sha256 = parts.next()?.to_owned();
        let block_id: BlockId = parts.next()?.parse().ok()?;
        let log_member = parts.next()?.to_owned();
        let block_num = LogEntry::parse(&log_member)?.block_num;
        Some(Self {
            contract,
            block_num,
            block_id: block_id.0,
            sha256,
            log_member,
        })
    }
}

/// An entry of the log.
pub(crate) struct LogEntry {
    pub(crate) block_num: u32,
    pub(crate) global_sequence: u64,
    abi_sequence: u32,
    pub(crate) sha256: String,
}

impl LogEntry {
    pub(crate) fn parse(member: &str) -> Option<Self> {
        let mut parts = member.split(':');
        let entry = Self {
            block_num: parts.next()?.parse().ok()?,
            global_sequence: parts.next()?.parse().ok()?,
            abi_sequence: parts.next()?.parse().ok()?,
            sha256: parts.next()?.to_owned(),
        };
        (entry.sha256.len() == 64 && parts.next().is_none()).then_some(entry)
    }
}

fn log_member(version: &AbiVersion) -> String {
    format!(
        "{}:{}:{}:{}",
        version.block_num,
        version.global_sequence,
        version.abi_sequence,
        hex_text(&version.sha256)
    )
}

fn damaged(key: &str, member: &str) -> AbiStoreError {
    AbiStoreError::Damaged {
        key: key.to_owned(),
        member: member.chars().take(200).collect(),
    }
}

/// The versions of a contract's ABI that a database holds, oldest first. Reads alone: versions of a branch that was left while
/// nobody followed the chain may still be there.
///
/// # Errors
/// When Redis cannot be reached or holds something else under these keys.
pub async fn read_abi_versions(
    redis: &Redis,
    contract: Name,
) -> Result<Vec<AbiVersion>, AbiStoreError> {
    let (history_key, log_key) = (keys::abi(&contract.text()), keys::abi_log(&contract.text()));
    let mut command = redis::cmd("ZREVRANGE");
    command
        .arg(&history_key)
        .arg(0)
        .arg(HISTORY_MAX - 1)
        .arg("WITHSCORES");
    let history: Vec<(String, f64)> = redis.query(&history_key, &command).await?;
    let mut command = redis::cmd("ZREVRANGE");
    command.arg(&log_key).arg(0).arg(VERSIONS_MAX - 1);
    let log: Vec<String> = redis.query(&log_key, &command).await?;

    let mut by_digest: HashMap<String, (u32, Arc<[u8]>)> = HashMap::new();
    for (member, score) in history {
        let bytes = STANDARD
            .decode(&member)
            .map_err(|_| damaged(&history_key, &member))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a block number; others saturate"
        )]
        let block_num = score as u32;
        by_digest.insert(hex_text(&Sha256::digest(&bytes)), (block_num, bytes.into()));
    }
    let mut versions = Vec::new();
    for member in &log {
        let entry = LogEntry::parse(member).ok_or_else(|| damaged(&log_key, member))?;
        // The bytes of a pruned version are gone; what is older than it is not needed either.
        if let Some((_, bytes)) = by_digest.get(&entry.sha256) {
            let mut version = AbiVersion::new(
                contract,
                entry.block_num,
                entry.global_sequence,
                Arc::clone(bytes),
            );
            version.abi_sequence = entry.abi_sequence;
            versions.push(version);
        }
    }
    // Versions that another program stored have no log.
    let logged: Vec<String> = log
        .iter()
        .filter_map(|m| Some(LogEntry::parse(m)?.sha256))
        .collect();
    for (digest, (block_num, bytes)) in by_digest {
        if !logged.contains(&digest) {
            versions.push(AbiVersion::new(contract, block_num, 0, bytes));
        }
    }
    versions.sort_by_key(AbiVersion::place);
    Ok(versions)
}

impl AbiStore {
    /// Opens the history of a chain where the stream ends, and takes out what does not belong to the published chain.
    ///
    /// # Errors
    /// When Redis cannot be reached or holds something else under these keys.
    pub async fn open(
        redis: Redis,
        chain: &ChainLabel,
        resume: &Resume,
    ) -> Result<Self, AbiStoreError> {
        let mut store = Self {
            redis,
            open_key: keys::abi_log_open(chain),
            open: Vec::new(),
        };
        let mut command = redis::cmd("ZRANGE");
        command.arg(&store.open_key).arg(0).arg(-1);
        let members: Vec<String> = store.redis.query(&store.open_key, &command).await?;
        for member in members {
            let open = Open::parse(&member).ok_or_else(|| damaged(&store.open_key, &member))?;
            store.open.push(open);
        }
        let published: HashMap<u32, BlockId> = resume
            .reversible
            .iter()
            .map(|block| (block.num, block.id))
            .collect();
        let first = resume.reversible.first().map_or(0, |block| block.num);
        let last = resume.position.map_or(0, |block| block.num);
        let lost = |open: &Open| {
            open.block_num > last
                || (open.block_num >= first
                    && published.get(&open.block_num) != Some(&BlockId(open.block_id)))
        };
        store.take_out(lost).await?;
        Ok(store)
    }

    /// The versions of a contract, oldest first.
    ///
    /// # Errors
    /// When Redis cannot be reached or holds something else under these keys.
    pub async fn versions(&self, contract: Name) -> Result<Vec<AbiVersion>, AbiStoreError> {
        read_abi_versions(&self.redis, contract).await
    }

    /// Stores versions, before their blocks enter the stream. Storing one again changes nothing.
    ///
    /// # Errors
    /// When Redis cannot be reached or holds something else under these keys.
    pub async fn add(&mut self, versions: &[Arc<AbiVersion>]) -> Result<(), AbiStoreError> {
        if versions.is_empty() {
            return Ok(());
        }
        // In one go where one server has all keys; it runs the commands in their order. Where that fails, one by one: that tells
        // which key it is.
        if self.redis.is_cluster() || self.add_in_one_go(versions).await.is_err() {
            self.add_one_by_one(versions).await?;
        }
        for open in versions.iter().filter_map(|version| Open::of(version)) {
            if !self.open.contains(&open) {
                self.open.push(open);
            }
        }
        Ok(())
    }

    async fn add_in_one_go(&self, versions: &[Arc<AbiVersion>]) -> redis::RedisResult<()> {
        let mut pipe = redis::pipe();
        for (_, command) in versions.iter().flat_map(|version| self.commands(version)) {
            pipe.add_command(command).ignore();
        }
        pipe.query_async(&mut self.redis.clone()).await
    }

    async fn add_one_by_one(&self, versions: &[Arc<AbiVersion>]) -> Result<(), AbiStoreError> {
        for (key, command) in versions.iter().flat_map(|version| self.commands(version)) {
            let _: u64 = self.redis.query(&key, &command).await?;
        }
        Ok(())
    }

    /// What stores a version, with the keys, in order.
    fn commands(&self, version: &AbiVersion) -> Vec<(String, redis::Cmd)> {
        let contract = version.contract.text();
        let mut commands = Vec::with_capacity(3);
        let mut zadd = |key: String, flag: Option<&str>, member: String| {
            let mut command = redis::cmd("ZADD");
            command
                .arg(&key)
                .arg(flag)
                .arg(version.block_num)
                .arg(member);
            commands.push((key, command));
        };
        if let Some(open) = Open::of(version) {
            zadd(self.open_key.clone(), None, open.member());
        }
        zadd(keys::abi_log(&contract), None, log_member(version));
        // An ABI that comes again keeps its first block: the log knows the rest.
        zadd(
            keys::abi(&contract),
            Some("NX"),
            STANDARD.encode(&version.bytes),
        );
        commands
    }

    /// Stores an ABI that the chain API gave, with the block at which it was asked for: from there on it was in force, and nothing is
    /// said of the time before. It has no entry in the log, because nobody saw it being set.
    ///
    /// # Errors
    /// When Redis cannot be reached or holds something else under this key.
    pub async fn add_current(&self, version: &AbiVersion) -> Result<(), AbiStoreError> {
        let key = keys::abi(&version.contract.text());
        let mut command = redis::cmd("ZADD");
        command
            .arg(&key)
            .arg("NX")
            .arg(version.block_num)
            .arg(STANDARD.encode(&version.bytes));
        let _: u64 = self.redis.query(&key, &command).await?;
        Ok(())
    }

    /// Takes out what undone blocks set, after the first block of the new branch is in the stream.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn undo(
        &mut self,
        common: u32,
        is_ours: impl Fn(u32, &Checksum256) -> bool,
    ) -> Result<(), AbiStoreError> {
        self.take_out(|open| open.block_num > common && !is_ours(open.block_num, &open.block_id))
            .await
    }

    /// Everything up to this block is irreversible: its versions stay.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn settle(&mut self, last_irreversible: u32) -> Result<(), AbiStoreError> {
        if self
            .open
            .iter()
            .all(|open| open.block_num > last_irreversible)
        {
            return Ok(());
        }
        let mut command = redis::cmd("ZREMRANGEBYSCORE");
        command
            .arg(&self.open_key)
            .arg("-inf")
            .arg(last_irreversible);
        let _: u64 = self.redis.query(&self.open_key, &command).await?;
        self.open.retain(|open| open.block_num > last_irreversible);
        Ok(())
    }

    async fn take_out(&mut self, is_lost: impl Fn(&Open) -> bool) -> Result<(), AbiStoreError> {
        let (lost, kept): (Vec<Open>, Vec<Open>) = self.open.iter().cloned().partition(is_lost);
        for open in lost {
            // Both branches can have set the same ABI at the same place: the log then has one entry for the two.
            let is_shared = kept.iter().any(|other| {
                other.contract == open.contract && other.log_member == open.log_member
            });
            if !is_shared {
                self.forget(&open).await?;
            }
            let mut command = redis::cmd("ZREM");
            command.arg(&self.open_key).arg(open.member());
            let _: u64 = self.redis.query(&self.open_key, &command).await?;
            self.open.retain(|known| *known != open);
        }
        Ok(())
    }

    /// Takes a version out of the log, and its bytes out of the history when nothing in the log names them any more.
    async fn forget(&self, open: &Open) -> Result<(), AbiStoreError> {
        let contract = open.contract.text();
        let log_key = keys::abi_log(&contract);
        let mut command = redis::cmd("ZREM");
        command.arg(&log_key).arg(&open.log_member);
        let _: u64 = self.redis.query(&log_key, &command).await?;
        let mut command = redis::cmd("ZRANGE");
        command.arg(&log_key).arg(0).arg(-1);
        let log: Vec<String> = self.redis.query(&log_key, &command).await?;
        if !log.iter().any(|member| member.ends_with(&open.sha256)) {
            self.remove_bytes(&keys::abi(&contract), &open.sha256)
                .await?;
        }
        Ok(())
    }

    /// Removes the ABI of this digest, which no entry of the log names any more.
    async fn remove_bytes(&self, key: &str, sha256: &str) -> Result<(), AbiStoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1);
        let members: Vec<String> = self.redis.query(key, &command).await?;
        for member in members {
            let same = STANDARD
                .decode(&member)
                .is_ok_and(|bytes| hex_text(&Sha256::digest(&bytes)) == sha256);
            if same {
                let mut command = redis::cmd("ZREM");
                command.arg(key).arg(member);
                let _: u64 = self.redis.query(key, &command).await?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for AbiStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbiStore")
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}
