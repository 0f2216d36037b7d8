//! Making the caches again from the indexes, beside live traffic.
//!
//! Rows are applied again: their markers keep them from being counted twice, and what is missing is added (so the roll-ups
//! need not be dropped first, and a crash leaves nothing that is worse than before). Then each cache
//! is set to its totals and raised to what they are by then, so that a writer in between is not lost. A number that was
//! right does not change.

use crate::apply::{NODE_TOTALS, RUN_MAX, Status, node_cache};
use crate::block::Block;
use crate::error::ScannerError;
use crate::request::{Command, Origin};
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use crate::store::{Batch, Slot};
use crate::time::{HOUR_MS, Hour, Window};

/// How long roll-ups of an hour stay, milliseconds.
const HOUR_TTL_MS: i64 = 48 * HOUR_MS;
/// Nodes set at once.
const NODES_AT_ONCE: usize = 200;
/// Event names looked at.
const NAMES_MAX: usize = 1000;

/// How much is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The hours of the window and the head.
    Window,
    /// The whole history, nodes and counts of events too.
    All,
}

impl Scanner {
    /// The caches of the window, of the ledger and of events.
    pub async fn rebuild_caches(&self) -> Result<(), ScannerError> {
        self.rebuild_ledger(Scope::Window).await?;
        self.rebuild_analytics(Scope::Window).await
    }

    /// Caches of the ledger from its indexes.
    pub(crate) async fn rebuild_ledger(&self, scope: Scope) -> Result<(), ScannerError> {
        let window = Window::at(self.clock().now());
        if scope == Scope::All {
            self.reapply("-inf", "+inf").await?;
        }
        for hour in window.hours() {
            let end = hour.start().ms() + HOUR_MS;
            self.reapply(&hour.start().ms().to_string(), &format!("({end}"))
                .await?;
            self.set_hour(hour).await?;
        }
        if scope == Scope::All {
            self.set_nodes().await?;
        }
        self.raise_head().await
    }

    /// Applies the rows between two scores again.
    async fn reapply(&self, from: &str, to: &str) -> Result<(), ScannerError> {
        let mut start = 0usize;
        let end: usize = self
            .store()
            .one("ZCOUNT", self.keys().txs(), |command| {
                command.arg(from).arg(to);
            })
            .await?;
        // Rows that arrive meanwhile are applied by their writer; those that shift the ranks make a row come twice at
        // most, since only insertions happen.
        while start < end {
            let ids: Vec<String> = self
                .store()
                .one("ZRANGEBYSCORE", self.keys().txs(), |command| {
                    command
                        .arg(from)
                        .arg(to)
                        .arg("LIMIT")
                        .arg(start)
                        .arg(RUN_MAX);
                })
                .await?;
            if ids.is_empty() {
                break;
            }
            start += ids.len();
            let commands: Vec<Command> = self
                .rows(&ids)
                .await?
                .into_iter()
                .flatten()
                .map(|tx| Command::Tx {
                    origin: if tx.stamp.is_some() {
                        Origin::Live
                    } else {
                        Origin::Archive
                    },
                    record: tx.record,
                    op: tx.op,
                    wallets: Vec::new(),
                })
                .collect();
            for status in self.apply(&commands).await {
                if let Status::Failed(error) = status
                    && error.is_transient()
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn hour_totals(&self, hour: Hour) -> Result<[String; 3], ScannerError> {
        let (n, mint, burn): (Option<String>, Option<String>, Option<String>) = self
            .store()
            .one("HMGET", self.keys().hour(hour), |command| {
                command.arg(&["#n", "#mint", "#burn"]);
            })
            .await?;
        Ok([n, mint, burn].map(|total| total.unwrap_or_else(|| "0".to_owned())))
    }

    async fn set_hour(&self, hour: Hour) -> Result<(), ScannerError> {
        let keys = self.keys();
        let targets = [
            keys.hour_txs(hour),
            keys.hour_mint(hour),
            keys.hour_burn(hour),
        ];
        self.set_then_raise(
            &targets,
            self.hour_totals(hour).await?.as_slice(),
            async || Ok(self.hour_totals(hour).await?.to_vec()),
        )
        .await
    }

    /// Sets buckets to totals, then raises them to what the totals are by then.
    async fn set_then_raise(
        &self,
        targets: &[String],
        totals: &[String],
        again: impl AsyncFnOnce() -> Result<Vec<String>, ScannerError>,
    ) -> Result<(), ScannerError> {
        let mut batch = Batch::new();
        let mut slots: Vec<Slot> = Vec::new();
        for (key, total) in targets.iter().zip(totals) {
            slots.push(if total == "0" {
                batch.add("DEL", key.clone(), |_| {})
            } else {
                batch.add("SET", key.clone(), |command| {
                    command.arg(total).arg("PX").arg(HOUR_TTL_MS);
                })
            });
        }
        let mut answers = self.store().send(batch).await?;
        for slot in slots {
            answers.take::<redis::Value>(slot)?;
        }
        let mut batch = Batch::new();
        let mut slots: Vec<Slot> = Vec::new();
        for (key, total) in targets.iter().zip(again().await?) {
            if total != "0" {
                slots.push(
                    self.store()
                        .step(&mut batch, Step::Raise, key.clone(), |command| {
                            command.arg(&total).arg(HOUR_TTL_MS);
                        }),
                );
            }
        }
        let mut answers = self.store().send(batch).await?;
        for slot in slots {
            answers.take::<redis::Value>(slot)?;
        }
        Ok(())
    }

    /// The caches of all nodes from their totals.
    async fn set_nodes(&self) -> Result<(), ScannerError> {
        let mut from = "-".to_owned();
        loop {
            let nodes: Vec<String> = self
                .store()
                .one("ZRANGEBYLEX", self.keys().nodes(), |command| {
                    command
                        .arg(&from)
                        .arg("+")
                        .arg("LIMIT")
                        .arg(0)
                        .arg(NODES_AT_ONCE);
                })
                .await?;
            let Some(last) = nodes.last() else {
                return Ok(());
            };
            from = format!("({last}");
            self.set_node_caches(&nodes, false).await?;
            self.set_node_caches(&nodes, true).await?;
        }
    }

    async fn set_node_caches(&self, nodes: &[String], raise: bool) -> Result<(), ScannerError> {
        let keys = self.keys();
        let mut batch = Batch::new();
        let slots: Vec<Slot> = nodes
            .iter()
            .map(|node| {
                batch.add("HMGET", keys.agg_node(node), |command| {
                    command.arg(NODE_TOTALS);
                })
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut batch = Batch::new();
        let mut written = Vec::new();
        for (node, slot) in nodes.iter().zip(slots) {
            let totals: Vec<Option<String>> = answers.take(slot)?;
            let totals: Vec<String> = totals
                .into_iter()
                .map(|total| total.unwrap_or_else(|| "0".to_owned()))
                .collect();
            // A node without transactions has no cache.
            if totals.first().is_none_or(|count| count == "0") {
                continue;
            }
            let fields = node_cache(&totals, self.clock().now());
            let key = keys.cache_node(node);
            written.push(if raise {
                self.store()
                    .step(&mut batch, Step::RaiseHash, key, |command| {
                        command.arg(&fields);
                    })
            } else {
                batch.add("HSET", key, |command| {
                    command.arg(&fields);
                })
            });
        }
        let mut answers = self.store().send(batch).await?;
        for slot in written {
            answers.take::<redis::Value>(slot)?;
        }
        Ok(())
    }

    /// The head from the last transaction and the last block. Blocks that it has already stay.
    async fn raise_head(&self) -> Result<(), ScannerError> {
        let keys = self.keys();
        let mut batch = Batch::new();
        let last = batch.add("ZREVRANGE", keys.txs(), |command| {
            command.arg(0).arg(0).arg("WITHSCORES");
        });
        let block = batch.add("ZREVRANGE", keys.blocks(), |command| {
            command.arg(0).arg(0);
        });
        let mut answers = self.store().send(batch).await?;
        let last = crate::read::scored(answers.take(last)?);
        let block: Option<String> = answers.take::<Vec<String>>(block)?.into_iter().next();
        let now = self.clock().now().to_string();
        if let Some((_, at)) = last.first() {
            let _: i64 = self
                .store()
                .one_step(Step::RaiseField, keys.head(), |command| {
                    command.arg("lastTxAtMs").arg(at.to_string()).arg(&now);
                })
                .await?;
        }
        if let Some(block) = block.and_then(|json| Block::from_json(&json).ok()) {
            let _: i64 = self
                .store()
                .one_step(Step::RaiseHead, keys.head(), |command| {
                    command
                        .arg(block.epoch.unwrap_or(0))
                        .arg(block.rev)
                        .arg(&block.root)
                        .arg(block.leaf_count)
                        .arg(&now);
                })
                .await?;
        }
        self.store()
            .one::<redis::Value>("HSETNX", keys.head(), |command| {
                command.arg("updatedAt").arg(&now);
            })
            .await
            .map(drop)
    }

    /// Caches of events from their lists, which hold every event by its own time: the stream holds them by arrival, and
    /// may have lost its beginning.
    pub(crate) async fn rebuild_analytics(&self, scope: Scope) -> Result<(), ScannerError> {
        let (store, keys) = (self.store(), self.keys());
        let window = Window::at(self.clock().now());
        let names: Vec<String> = store
            .one("ZRANGE", keys.event_names(), |command| {
                command.arg(0).arg(NAMES_MAX - 1);
            })
            .await?;
        for hour in window.hours() {
            for name in &names {
                self.reapply_events(hour, name).await?;
            }
            let totals = self.events_of_hour(hour).await?;
            self.set_then_raise(&[keys.hour_events(hour)], &[totals], async || {
                Ok(vec![self.events_of_hour(hour).await?])
            })
            .await?;
        }
        for name in &names {
            let size: u64 = store.one("ZCARD", keys.event(name), |_| {}).await?;
            let trimmed: Option<String> = store
                .one("HGET", keys.agg_trimmed(), |command| {
                    command.arg(name);
                })
                .await?;
            let total = size.saturating_add(crate::retention::trimmed_count(trimmed.as_deref()));
            let _: i64 = store
                .one_step(Step::Raise, keys.agg_count(name), |command| {
                    command.arg(total).arg(0);
                })
                .await?;
        }
        if scope == Scope::All {
            self.recount_events(&names).await?;
        }
        let newest: Vec<(String, Vec<String>)> = store
            .one("XREVRANGE", keys.events(), |command| {
                command.arg("+").arg("-").arg("COUNT").arg(1);
            })
            .await?;
        store
            .one::<redis::Value>("HSET", keys.overview(), |command| {
                command.arg("updatedAt").arg(self.clock().now().to_string());
                if let Some((id, _)) = newest.first() {
                    command.arg("lastStreamId").arg(id);
                }
            })
            .await
            .map(drop)
    }

    async fn events_of_hour(&self, hour: Hour) -> Result<String, ScannerError> {
        let total: Option<String> = self
            .store()
            .one("HGET", self.keys().hour_of_events(hour), |command| {
                command.arg("#n");
            })
            .await?;
        Ok(total.unwrap_or_else(|| "0".to_owned()))
    }

    async fn reapply_events(&self, hour: Hour, name: &str) -> Result<(), ScannerError> {
        let from = hour.start().ms();
        let mut start = 0usize;
        loop {
            let ids: Vec<String> = self
                .store()
                .one("ZRANGEBYSCORE", self.keys().event(name), |command| {
                    command
                        .arg(from)
                        .arg(format!("({}", from + HOUR_MS))
                        .arg("LIMIT")
                        .arg(start)
                        .arg(RUN_MAX);
                })
                .await?;
            if ids.is_empty() {
                return Ok(());
            }
            start += ids.len();
            let key = self.keys().hour_of_events(hour);
            let _: Vec<String> = self
                .store()
                .one_step(Step::RollUp, key, |command| {
                    command.arg(HOUR_TTL_MS).arg(0);
                    for id in &ids {
                        command.arg(format!("m:{id}")).arg(1).arg("#n").arg(1);
                    }
                })
                .await?;
        }
    }
}
