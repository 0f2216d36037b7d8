//! Revisions and leaves.

use serde::Deserialize;

use crate::block::{Block, Height, Leaf};
use crate::error::ScannerError;
use crate::merkle::{self, Sibling};
use crate::scanner::{Counts, Scanner};
use crate::store::Batch;

use super::QueryError;
use super::page::{ListId, Range};

/// A revision with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// Epoch and revision.
    pub at: Height,
    /// The revision.
    pub block: Block,
}

impl BlockRow {
    /// The JSON form.
    pub fn to_json(&self) -> String {
        self.block.to_json(self.at.epoch)
    }
}

/// A page of revisions, newest first.
#[derive(Debug, Clone)]
pub struct BlockPage {
    /// The revisions.
    pub blocks: Vec<BlockRow>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// The current epoch.
    pub epoch: i64,
}

/// The oldest revisions after one.
#[derive(Debug, Clone)]
pub struct BlockTail {
    /// The revisions, shown newest first.
    pub blocks: Vec<BlockRow>,
    /// Later ones exist.
    pub has_more: bool,
    /// Greatest revision of the page.
    pub next_since_rev: Option<i64>,
    /// The current epoch: a client that sees it change begins again at 0.
    pub epoch: i64,
}

/// A leaf, and how it leads to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafAnswer {
    /// The revision whose leaves these are.
    pub at: Option<Height>,
    /// Position and digest.
    pub leaf: Option<(usize, String)>,
    /// The root over all leaves.
    pub root: Option<String>,
    /// Siblings from the bottom.
    pub proof: Option<Vec<Sibling>>,
}

/// The leaves that are kept.
#[derive(Debug, Clone)]
pub(crate) struct KeptLeaves {
    pub(crate) at: Height,
    pub(crate) leaves: Vec<Leaf>,
}

impl Scanner {
    /// The newest epoch.
    pub async fn current_epoch(&self) -> Result<i64, ScannerError> {
        let epoch: Option<i64> = self
            .store()
            .one("HGET", self.keys().head(), |command| {
                command.arg("epoch");
            })
            .await?;
        Ok(epoch.unwrap_or(0))
    }

    fn block_row(&self, json: &str, score: i64) -> Option<BlockRow> {
        match (Block::from_json(json), Height::from_score(score)) {
            (Ok(block), Some(at)) => Some(BlockRow { at, block }),
            (Err(faults), _) => {
                Counts::add(&self.counts().corrupt_rows, 1);
                let why = faults.first().map_or_else(String::new, ToString::to_string);
                tracing::warn!(key = %self.keys().blocks(), score, why, "a revision cannot be read; it is left out");
                None
            }
            (Ok(_), None) => None,
        }
    }

    /// A page of revisions, of one epoch or of all.
    pub async fn blocks(
        &self,
        epoch: Option<i64>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<BlockPage, QueryError> {
        let list = ListId::new(&["blocks", &epoch.map_or_else(String::new, |e| e.to_string())]);
        let after = cursor.map(|cursor| list.read(cursor)).transpose()?;
        let mut range = Range::newest(limit + 1, after);
        if let Some(epoch) = epoch {
            range.from = Some(Height { epoch, rev: 0 }.score());
            range.to = Some(Height::epoch_end(epoch) + 1);
        }
        let mut batch = Batch::new();
        let page = self.add_page(&mut batch, self.keys().blocks(), &range);
        let current = batch.add("HGET", self.keys().head(), |command| {
            command.arg("epoch");
        });
        let mut answers = self.store().send(batch).await?;
        let mut found = super::scored(answers.take(page)?);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| has_more)
            .map(|(_, score)| list.cursor(*score, ""));
        Ok(BlockPage {
            blocks: found
                .iter()
                .filter_map(|(json, score)| self.block_row(json, *score))
                .collect(),
            next,
            epoch: answers.take::<Option<i64>>(current)?.unwrap_or(0),
        })
    }

    /// The oldest revisions after one, within an epoch (the current one unless said).
    pub async fn block_tail(
        &self,
        epoch: Option<i64>,
        since_rev: i64,
        limit: usize,
    ) -> Result<BlockTail, QueryError> {
        let current = self.current_epoch().await?;
        let of = epoch.unwrap_or(current);
        let since = Height::new(of, since_rev)
            .ok_or_else(|| QueryError::invalid("invalid_rev", "sinceRev or epoch is too large"))?;
        let flat: Vec<String> = self
            .store()
            .one("ZRANGEBYSCORE", self.keys().blocks(), |command| {
                command
                    .arg(format!("({}", since.score()))
                    .arg(Height::epoch_end(of))
                    .arg("WITHSCORES")
                    .arg("LIMIT")
                    .arg(0)
                    .arg(limit + 1);
            })
            .await?;
        let mut found = super::scored(flat);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next_since_rev = found
            .last()
            .and_then(|&(_, score)| Height::from_score(score))
            .map(|at| at.rev);
        Ok(BlockTail {
            blocks: found
                .iter()
                .rev()
                .filter_map(|(json, score)| self.block_row(json, *score))
                .collect(),
            has_more,
            next_since_rev,
            epoch: current,
        })
    }

    /// A revision, of an epoch (the current one unless said).
    pub async fn block(
        &self,
        epoch: Option<i64>,
        rev: i64,
    ) -> Result<Option<BlockRow>, QueryError> {
        let epoch = match epoch {
            Some(epoch) => epoch,
            None => self.current_epoch().await?,
        };
        let Some(at) = Height::new(epoch, rev) else {
            return Ok(None);
        };
        let found: Vec<String> = self
            .store()
            .one("ZRANGEBYSCORE", self.keys().blocks(), |command| {
                command.arg(at.score()).arg(at.score());
            })
            .await?;
        Ok(found
            .first()
            .and_then(|json| self.block_row(json, at.score())))
    }

    pub(crate) async fn kept_leaves(&self) -> Result<Option<KeptLeaves>, ScannerError> {
        #[derive(Deserialize)]
        struct Stored {
            epoch: i64,
            rev: i64,
            leaves: Vec<Leaf>,
        }
        let key = self.keys().leaves();
        let json: Option<String> = self.store().one("GET", key.clone(), |_| {}).await?;
        let Some(json) = json else {
            return Ok(None);
        };
        let stored: Stored =
            serde_json::from_str(&json).map_err(|error| ScannerError::Corrupt {
                key: key.clone(),
                why: error.to_string(),
            })?;
        let at = Height::new(stored.epoch, stored.rev).ok_or_else(|| ScannerError::Corrupt {
            key,
            why: "epoch or revision out of range".to_owned(),
        })?;
        Ok(Some(KeptLeaves {
            at,
            leaves: stored.leaves,
        }))
    }

    /// A leaf of the newest revision that came with leaves; with its proof if asked for.
    pub async fn leaf(&self, stable_key: &str, with_proof: bool) -> Result<LeafAnswer, QueryError> {
        let Some(kept) = self.kept_leaves().await? else {
            return Ok(LeafAnswer {
                at: None,
                leaf: None,
                root: None,
                proof: None,
            });
        };
        let digests: Vec<&str> = kept
            .leaves
            .iter()
            .map(|(_, digest)| digest.as_str())
            .collect();
        let index = kept.leaves.iter().position(|(key, _)| key == stable_key);
        Ok(LeafAnswer {
            at: Some(kept.at),
            leaf: index.map(|index| (index, digests[index].to_owned())),
            root: Some(merkle::root(&digests)),
            proof: index
                .filter(|_| with_proof)
                .and_then(|index| merkle::proof(&digests, index)),
        })
    }

    /// An older program kept blocks as a LIST of JSON, newest first: brought into order once, and kept under another
    /// name.
    pub(crate) async fn convert_block_list(&self) -> Result<(), ScannerError> {
        const READ_AT_ONCE: isize = 500;
        let (store, keys) = (self.store(), self.keys());
        let kind: String = store.one("TYPE", keys.blocks(), |_| {}).await?;
        if kind != "list" {
            return Ok(());
        }
        let mut rows: Vec<String> = Vec::new();
        loop {
            let from = isize::try_from(rows.len()).unwrap_or(isize::MAX);
            let part: Vec<String> = store
                .one("LRANGE", keys.blocks(), |command| {
                    command.arg(from).arg(from.saturating_add(READ_AT_ONCE - 1));
                })
                .await?;
            if part.is_empty() {
                break;
            }
            rows.extend(part);
        }
        // The backup is whole before the list goes: a crash in between begins again.
        store
            .one::<redis::Value>("DEL", keys.blocks_backup(), |_| {})
            .await?;
        for part in rows.chunks(500) {
            store
                .one::<redis::Value>("RPUSH", keys.blocks_backup(), |command| {
                    command.arg(part);
                })
                .await?;
        }
        store
            .one::<redis::Value>("DEL", keys.blocks(), |_| {})
            .await?;
        tracing::info!(
            rows = rows.len(),
            "the list of revisions becomes a sorted set"
        );
        self.insert_old_blocks(&rows).await
    }

    /// Oldest first. A revision that is lower than the one before it began a new epoch.
    async fn insert_old_blocks(&self, newest_first: &[String]) -> Result<(), ScannerError> {
        let mut epoch = 0;
        let mut last = -1;
        let mut commands = Vec::new();
        for json in newest_first.iter().rev() {
            let Ok(mut block) = Block::from_json(json) else {
                tracing::warn!("an old revision cannot be read; it stays in the backup alone");
                continue;
            };
            if block.rev < last {
                epoch += 1;
            }
            last = block.rev;
            block.epoch = Some(epoch);
            // Events of old revisions were told when they were published.
            block.leaf_delta = block.leaf_delta.or(Some(0));
            commands.push(crate::request::Command::Block {
                block,
                leaves: None,
            });
        }
        for status in self.apply(&commands).await {
            if let crate::apply::Status::Failed(error) = status {
                return Err(error);
            }
        }
        Ok(())
    }
}
