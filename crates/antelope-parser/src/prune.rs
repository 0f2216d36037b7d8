//! Removing old ABI versions that no block from some number on needs.
//!
//! A version is in force from its block until the next one. So of all versions older than a block the newest is still needed
//! by that block and those after it; the others are not.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_redis::Redis;
use cairn_stream::keys;
use sha2::{Digest, Sha256};

use crate::events::hex_text;
use crate::store::{AbiStoreError, LogEntry};

/// What was, or would be, removed of one contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneReport {
    /// The contract.
    pub contract: String,
    /// Versions that there were.
    pub versions: usize,
    /// Blocks of the removed versions, ascending.
    pub removed: Vec<u32>,
    /// Block of the version in force at the bound; `None` when all are newer.
    pub in_force: Option<u32>,
}

struct Version {
    block_num: u32,
    global_sequence: u64,
    sha256: String,
    /// Its entry in the log; none when another program stored it.
    log_member: Option<String>,
}

/// The contracts that have a history.
///
/// # Errors
/// When Redis cannot be reached.
pub async fn contracts_with_abis(redis: &Redis) -> Result<Vec<String>, AbiStoreError> {
    let pattern = format!("{}*", keys::ABI_PREFIX);
    let mut contracts: Vec<String> = redis
        .scan_keys(&pattern)
        .await?
        .iter()
        .filter_map(|key| key.strip_prefix(keys::ABI_PREFIX))
        .map(str::to_owned)
        .collect();
    contracts.sort();
    contracts.dedup();
    Ok(contracts)
}

/// Removes the versions of a contract that are older than a block, but for the one in force at it and the newest `keep_last`;
/// with `dry_run` only says what would go.
///
/// # Errors
/// When Redis cannot be reached or holds something else under these keys.
pub async fn prune_abis(
    redis: &Redis,
    contract: &str,
    older_than: u32,
    keep_last: usize,
    dry_run: bool,
) -> Result<PruneReport, AbiStoreError> {
    let (history_key, log_key) = (keys::abi(contract), keys::abi_log(contract));
    let members = read_history(redis, &history_key).await?;
    let log = read_log(redis, &log_key).await?;
    let logged: HashSet<String> = log.iter().map(|version| version.sha256.clone()).collect();
    let mut versions = log;
    for (sha256, (block_num, _)) in &members {
        if !logged.contains(sha256) {
            versions.push(Version {
                block_num: *block_num,
                global_sequence: 0,
                sha256: sha256.clone(),
                log_member: None,
            });
        }
    }
    versions.sort_by_key(|version| (version.block_num, version.global_sequence));

    let count = versions.len();
    let older = versions.partition_point(|version| version.block_num < older_than);
    let in_force = older.checked_sub(1);
    let removable = in_force
        .unwrap_or_default()
        .min(count.saturating_sub(keep_last));
    let (gone, kept) = versions.split_at(removable);
    let report = PruneReport {
        contract: contract.to_owned(),
        versions: count,
        removed: gone.iter().map(|version| version.block_num).collect(),
        in_force: in_force.map(|at| versions[at].block_num),
    };
    if dry_run || gone.is_empty() {
        return Ok(report);
    }
    let log_members: Vec<&String> = gone
        .iter()
        .filter_map(|version| version.log_member.as_ref())
        .collect();
    if !log_members.is_empty() {
        let mut command = redis::cmd("ZREM");
        command.arg(&log_key).arg(log_members);
        let _: u64 = redis.query(&log_key, &command).await?;
    }
    let needed: HashSet<&String> = kept.iter().map(|version| &version.sha256).collect();
    let bytes: Vec<(&String, &String)> = gone
        .iter()
        .filter(|version| !needed.contains(&version.sha256))
        .filter_map(|version| Some((&version.sha256, &members.get(&version.sha256)?.1)))
        .collect();
    for (_, member) in &bytes {
        let mut command = redis::cmd("ZREM");
        command.arg(&history_key).arg(member);
        let _: u64 = redis.query(&history_key, &command).await?;
    }
    // The parser may have set one of them again meanwhile: it writes the log first, so the log shows it.
    for version in read_log(redis, &log_key).await? {
        if let Some((_, member)) = bytes.iter().find(|(sha256, _)| **sha256 == version.sha256) {
            let mut command = redis::cmd("ZADD");
            command
                .arg(&history_key)
                .arg("NX")
                .arg(version.block_num)
                .arg(member);
            let _: u64 = redis.query(&history_key, &command).await?;
        }
    }
    Ok(report)
}

/// Members of the history by digest, with their first block.
async fn read_history(
    redis: &Redis,
    key: &str,
) -> Result<HashMap<String, (u32, String)>, AbiStoreError> {
    let mut command = redis::cmd("ZRANGE");
    command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
    let members: Vec<(String, f64)> = redis.query(key, &command).await?;
    members
        .into_iter()
        .map(|(member, score)| {
            let bytes = STANDARD
                .decode(&member)
                .map_err(|_| damaged(key, &member))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a block number; others saturate"
            )]
            let block_num = score as u32;
            Ok((hex_text(&Sha256::digest(&bytes)), (block_num, member)))
        })
        .collect()
}

async fn read_log(redis: &Redis, key: &str) -> Result<Vec<Version>, AbiStoreError> {
    let mut command = redis::cmd("ZRANGE");
    command.arg(key).arg(0).arg(-1);
    let members: Vec<String> = redis.query(key, &command).await?;
    members
        .into_iter()
        .map(|member| {
            let entry = LogEntry::parse(&member).ok_or_else(|| damaged(key, &member))?;
            Ok(Version {
                block_num: entry.block_num,
                global_sequence: entry.global_sequence,
                sha256: entry.sha256,
                log_member: Some(member),
            })
        })
        .collect()
}

fn damaged(key: &str, member: &str) -> AbiStoreError {
    AbiStoreError::Damaged {
        key: key.to_owned(),
        member: member.chars().take(200).collect(),
    }
}
