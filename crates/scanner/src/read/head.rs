//! The head: the newest revision and the figures of the last 24 hours, from the materialised cache; without one, from the
//! index, with the same numbers.

use std::sync::atomic::Ordering;

use crate::backfill::MigrationStatus;
use crate::block::{Block, Height};
use crate::error::ScannerError;
use crate::json::to_json;
use crate::merkle;
use crate::node::NodeKind;
use crate::scanner::{Counts, Scanner};
use crate::store::{Batch, Slot};
use crate::time::{AtMs, Hour, Window};

use super::QueryError;

/// Rows read at once when there is no cache.
const SCAN_ROWS: usize = 500;

/// The head.
#[derive(Debug, Clone)]
pub struct Head {
    /// The instant it was made for.
    pub now: AtMs,
    /// The hours it counts.
    pub window: Window,
    /// The newest revision; none before the first.
    pub block: Option<HeadBlock>,
    /// Current epoch.
    pub epoch: i64,
    /// Transactions in the window.
    pub txs: u64,
    /// APU minted in the window.
    pub minted: u64,
    /// APU burned in the window.
    pub burned: u64,
    /// The latest transaction.
    pub last_tx: Option<AtMs>,
    /// State of the backfill.
    pub migration: MigrationStatus,
    /// Counters that are refreshed in the background.
    pub platform: Option<Platform>,
}

/// The newest revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadBlock {
    /// The revision.
    pub rev: i64,
    /// Its root.
    pub root: String,
    /// Its number of leaves.
    pub leaf_count: Option<i64>,
}

/// Counters of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// When they were counted.
    pub as_of: AtMs,
    /// Genesis leaves of the newest snapshot.
    pub genesis_nodes: u64,
    /// Main nodes.
    pub main_nodes: u64,
    /// Agent nodes.
    pub agent_nodes: u64,
    /// Agents in the newest snapshot.
    pub agents_in_world: u64,
}

/// The stored root and the one made from the leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recomputed {
    /// The newest revision.
    pub block: Option<HeadBlock>,
    /// The root over the kept leaves.
    pub root: Option<String>,
    /// Why there is none, or why it need not match: `leaves_unavailable`, `order_unknown`.
    pub reason: Option<&'static str>,
    /// When it was made.
    pub now: AtMs,
}

/// Epoch, revision, root, number of leaves, and milliseconds of the latest transaction.
type HeadFields = (
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
);

/// The figures of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Figures {
    txs: u64,
    minted: u64,
    burned: u64,
}

/// Reading a bucket of each hour of a window.
pub(crate) fn add_buckets(
    scanner: &Scanner,
    batch: &mut Batch,
    window: Window,
    key: impl Fn(Hour) -> String,
) -> Vec<Slot> {
    let keys: Vec<String> = window.hours().map(key).collect();
    if scanner.redis().is_cluster() {
        return keys
            .into_iter()
            .map(|key| batch.add("GET", key, |_| {}))
            .collect();
    }
    let mut keys = keys.into_iter();
    let first = keys.next().unwrap_or_default();
    vec![batch.add("MGET", first, |command| {
        command.arg(keys.collect::<Vec<_>>());
    })]
}

/// The buckets that were read, oldest first; what is missing or no number is zero.
pub(crate) fn bucket_values(
    answers: &mut crate::store::Answers,
    slots: Vec<Slot>,
) -> Result<Vec<u64>, ScannerError> {
    let mut all = Vec::new();
    for slot in slots {
        let values: Vec<Option<String>> = match answers.take::<redis::Value>(slot)? {
            redis::Value::Array(values) => values
                .into_iter()
                .map(|value| redis::from_redis_value(value).unwrap_or(None))
                .collect(),
            value => vec![redis::from_redis_value(value).unwrap_or(None)],
        };
        all.extend(
            values
                .into_iter()
                .map(|value| value.and_then(|text| text.parse().ok()).unwrap_or(0)),
        );
    }
    Ok(all)
}

/// The sum of buckets that were read.
pub(crate) fn sum_buckets(
    answers: &mut crate::store::Answers,
    slots: Vec<Slot>,
) -> Result<u64, ScannerError> {
    let values = bucket_values(answers, slots)?;
    Ok(values.into_iter().fold(0, u64::saturating_add))
}

impl Scanner {
    /// The head. One round trip, unless the cache is missing.
    pub async fn head(&self) -> Result<Head, QueryError> {
        if let Some(head) = self.cached_head().await? {
            Counts::add(&self.counts().head_from_cache, 1);
            return Ok(head);
        }
        // One request computes; those that waited find the cache.
        let _one = self.fallback().lock().await;
        if let Some(head) = self.cached_head().await? {
            Counts::add(&self.counts().head_from_cache, 1);
            return Ok(head);
        }
        Counts::add(&self.counts().head_from_scan, 1);
        Ok(self.scanned_head().await?)
    }

    async fn cached_head(&self) -> Result<Option<Head>, ScannerError> {
        let keys = self.keys();
        let now = self.clock().now();
        let window = Window::at(now);
        let mut batch = Batch::new();
        let head = batch.add("HMGET", keys.head(), |command| {
            command.arg(&[
                "epoch",
                "snapshotRev",
                "merkleRootHex",
                "merkleLeafCount",
                "lastTxAtMs",
            ]);
        });
        let exists = batch.add("EXISTS", keys.head(), |_| {});
        let state = batch.add("HGET", keys.migration_state(), |command| {
            command.arg("status");
        });
        let txs = add_buckets(self, &mut batch, window, |hour| keys.hour_txs(hour));
        let mint = add_buckets(self, &mut batch, window, |hour| keys.hour_mint(hour));
        let burn = add_buckets(self, &mut batch, window, |hour| keys.hour_burn(hour));
        let mut answers = self.store().send(batch).await?;
        let (epoch, rev, root, leaf_count, last): HeadFields = answers.take(head)?;
        if !answers.take::<bool>(exists)? {
            return Ok(None);
        }
        let migration = MigrationStatus::parse(answers.take::<Option<String>>(state)?.as_deref());
        let figures = Figures {
            txs: sum_buckets(&mut answers, txs)?,
            minted: sum_buckets(&mut answers, mint)?,
            burned: sum_buckets(&mut answers, burn)?,
        };
        let block = rev.zip(root).map(|(rev, root)| HeadBlock {
            rev,
            root,
            leaf_count,
        });
        let last = last.map(AtMs::clamped);
        Ok(Some(self.make_head(
            now,
            figures,
            block,
            epoch.unwrap_or(0),
            last,
            migration,
        )))
    }

    fn make_head(
        &self,
        now: AtMs,
        figures: Figures,
        block: Option<HeadBlock>,
        epoch: i64,
        last_tx: Option<AtMs>,
        migration: MigrationStatus,
    ) -> Head {
        let platform = self.platform().lock().map_or(None, |kept| kept.clone());
        Head {
            now,
            window: Window::at(now),
            block,
            epoch,
            txs: figures.txs,
            minted: figures.minted,
            burned: figures.burned,
            last_tx,
            migration,
            platform,
        }
    }

    /// The head from the index, restricted to the window. Starts one rebuild; a host without anything gets an empty
    /// cache, so that it is not scanned for ever.
    async fn scanned_head(&self) -> Result<Head, ScannerError> {
        let keys = self.keys();
        let now = self.clock().now();
        let window = Window::at(now);
        let ids: Vec<String> = self
            .store()
            .one("ZRANGEBYSCORE", keys.txs(), |command| {
                command
                    .arg(window.from().ms())
                    .arg(format!("({}", window.to().ms()));
            })
            .await?;
        let mut figures = Figures::default();
        for ids in ids.chunks(SCAN_ROWS) {
            for tx in self.rows(ids).await?.into_iter().flatten() {
                figures.txs += 1;
                figures.minted = figures
                    .minted
                    .saturating_add(tx.record.mint().unsigned_abs());
                figures.burned = figures
                    .burned
                    .saturating_add(tx.record.burn().unsigned_abs());
            }
        }
        let mut batch = Batch::new();
        let last = batch.add("ZREVRANGE", keys.txs(), |command| {
            command.arg(0).arg(0).arg("WITHSCORES");
        });
        let block = batch.add("ZREVRANGE", keys.blocks(), |command| {
            command.arg(0).arg(0);
        });
        let state = batch.add("HGET", keys.migration_state(), |command| {
            command.arg("status");
        });
        let mut answers = self.store().send(batch).await?;
        let last = super::scored(answers.take(last)?)
            .first()
            .map(|&(_, score)| AtMs::clamped(score));
        let block: Option<String> = answers.take::<Vec<String>>(block)?.into_iter().next();
        let block = block.and_then(|json| Block::from_json(&json).ok());
        let migration = MigrationStatus::parse(answers.take::<Option<String>>(state)?.as_deref());
        let epoch = block.as_ref().and_then(|block| block.epoch).unwrap_or(0);
        let found = block.map(|block| HeadBlock {
            rev: block.rev,
            root: block.root,
            leaf_count: Some(block.leaf_count),
        });
        if last.is_none() && found.is_none() {
            self.store()
                .one::<redis::Value>("HSETNX", keys.head(), |command| {
                    command.arg("updatedAt").arg(now.to_string());
                })
                .await?;
        } else {
            self.rebuild_in_background();
        }
        Ok(self.make_head(now, figures, found, epoch, last, migration))
    }

    /// Starts a rebuild unless this process runs one.
    pub(crate) fn rebuild_in_background(&self) {
        if self.rebuilding().swap(true, Ordering::AcqRel) {
            return;
        }
        let scanner = self.clone();
        tokio::spawn(async move {
            if let Err(error) = scanner.rebuild_caches().await {
                tracing::warn!(%error, "the caches of the ledger are not rebuilt; the next reader tries again");
            }
            scanner.rebuilding().store(false, Ordering::Release);
        });
    }

    /// Counts the platform's accounts anew, unless that was done within the last minute.
    pub async fn refresh_platform(&self) -> Result<(), ScannerError> {
        const AGE_MS: i64 = 60_000;
        let now = self.clock().now();
        let known = self.platform().lock().map_or(None, |kept| kept.clone());
        if known.is_some_and(|known| now.ms().abs_diff(known.as_of.ms()) < AGE_MS.unsigned_abs()) {
            return Ok(());
        }
        let keys = self.keys();
        let mut batch = Batch::new();
        let main = batch.add("ZCARD", keys.nodes_by_kind(NodeKind::Main.as_str()), |_| {});
        let agent = batch.add(
            "ZCARD",
            keys.nodes_by_kind(NodeKind::Agent.as_str()),
            |_| {},
        );
        let mut answers = self.store().send(batch).await?;
        let leaves = self.kept_leaves().await?;
        let count = |prefix: &str| {
            let leaves = leaves.as_ref().map_or(&[][..], |kept| &kept.leaves);
            leaves
                .iter()
                .filter(|(key, _)| key.starts_with(prefix))
                .count() as u64
        };
        let platform = Platform {
            as_of: now,
            genesis_nodes: count("__genesis__"),
            main_nodes: answers.take(main)?,
            agent_nodes: answers.take(agent)?,
            agents_in_world: count("agent:"),
        };
        if let Ok(mut kept) = self.platform().lock() {
            *kept = Some(platform);
        }
        Ok(())
    }

    /// Makes the root of the newest revision again from its leaves.
    pub async fn recompute_root(&self) -> Result<Recomputed, QueryError> {
        let now = self.clock().now();
        let Head { block, epoch, .. } = self.head().await?;
        let kept = self.kept_leaves().await?;
        let (root, reason) = match (&block, kept) {
            (Some(block), Some(kept))
                if (kept.at
                    == Height {
                        epoch,
                        rev: block.rev,
                    }) =>
            {
                let digests: Vec<&str> = kept.leaves.iter().map(|(_, d)| d.as_str()).collect();
                (Some(merkle::root(&digests)), None)
            }
            (Some(block), _) => self.root_of_application(&block.root).await?,
            (None, _) => (None, Some("leaves_unavailable")),
        };
        Ok(Recomputed {
            block,
            root,
            reason,
            now,
        })
    }

    /// The application keeps digests of the current snapshot without order; byte-wise order is tried.
    async fn root_of_application(
        &self,
        stored: &str,
    ) -> Result<(Option<String>, Option<&'static str>), ScannerError> {
        let pairs: std::collections::BTreeMap<String, String> = self
            .store()
            .one("HGETALL", self.keys().app_leaves(), |_| {})
            .await?;
        if pairs.is_empty() || !pairs.values().all(|digest| merkle::is_digest(digest)) {
            return Ok((None, Some("leaves_unavailable")));
        }
        let rank = |key: &str| match key {
            "__genesis__" => 0,
            "__header__" => 1,
            key if key.starts_with("space:") => 3,
            _ => 2,
        };
        let mut ordered: Vec<(&String, &String)> = pairs.iter().collect();
        ordered.sort_by_key(|(key, _)| (rank(key), key.as_str()));
        let digests: Vec<&str> = ordered.iter().map(|(_, digest)| digest.as_str()).collect();
        let root = merkle::root(&digests);
        let reason = (root != stored).then_some("order_unknown");
        Ok((Some(root), reason))
    }
}

impl Head {
    /// Everything an entity tag must tell apart: all figures, not the instant.
    pub fn fingerprint(&self) -> String {
        to_json(&(
            self.window.from().ms(),
            self.block
                .as_ref()
                .map(|block| (block.rev, &block.root, block.leaf_count)),
            self.epoch,
            (self.txs, self.minted, self.burned),
            self.last_tx.map(AtMs::ms),
            self.migration.as_str(),
        ))
    }
}
