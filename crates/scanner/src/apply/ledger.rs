//! Rows, indexes, roll-ups and their projections; blocks; registrations.

use std::collections::BTreeMap;

use crate::block::{Block, Height};
use crate::error::ScannerError;
use crate::event::Event;
use crate::feed::{BLOCK_EVENT, FeedEvent, TX_EVENT};
use crate::ids::is_sentinel;
use crate::node::{Node, NodeKind};
use crate::record::{ItemKind, Operation, Record};
use crate::request::{Command, Origin};
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::tx::{Tx, row_json};

use super::{Group, Groups, HeadNow, Layer, Placed, Run, Status, leaves_json};

/// The ledger's part of a run.
#[derive(Default)]
pub(super) struct LedgerWork<'a> {
    rows: BTreeMap<usize, Row<'a>>,
    block: Option<BlockWork<'a>>,
    nodes: Vec<NodeWork<'a>>,
}

pub(super) struct Row<'a> {
    pub(super) record: &'a Record,
    origin: Origin,
    json: String,
    slot: Slot,
    op: Operation,
}

struct BlockWork<'a> {
    op: usize,
    placed: Placed<'a>,
    json: String,
    slot: Slot,
    /// The revision as it was first told, when it is known already.
    first: Option<Block>,
    /// Blocks that had to go.
    gone: Vec<String>,
}

struct NodeWork<'a> {
    op: usize,
    node: &'a Node,
    slot: Slot,
    changed: bool,
}

impl<'a> LedgerWork<'a> {
    pub(super) fn write_row(
        &mut self,
        run: &Run<'_>,
        op: usize,
        command: &'a Command,
        head: &HeadNow,
        batch: &mut Batch,
    ) {
        let Command::Tx {
            record,
            op: operation,
            origin,
            ..
        } = command
        else {
            return;
        };
        let keys = run.scanner.keys();
        let stamp = head.stamp.as_ref().filter(|_| *origin == Origin::Live);
        let json = row_json(record, keys.host(), *operation, run.now, stamp, true);
        let slot = batch.add("SET", keys.tx(&record.id), |set| {
            set.arg(&json).arg("NX").arg("GET");
        });
        let row = Row {
            record,
            origin: *origin,
            json,
            slot,
            op: *operation,
        };
        self.rows.insert(op, row);
    }

    pub(super) fn write_block(
        &mut self,
        run: &Run<'_>,
        op: usize,
        block: &'a Block,
        epoch: i64,
        batch: &mut Batch,
    ) {
        let at = Height {
            epoch,
            rev: block.rev,
        };
        let json = block.to_json(epoch);
        let kept = run.scanner.options().blocks_max;
        let store = run.scanner.store();
        let slot = store.step(
            batch,
            Step::InsertBlock,
            run.scanner.keys().blocks(),
            |step| {
                step.arg(at.score()).arg(&json).arg(kept);
            },
        );
        self.block = Some(BlockWork {
            op,
            placed: Placed { block, at },
            json,
            slot,
            first: None,
            gone: Vec::new(),
        });
    }

    pub(super) fn read_node(
        &mut self,
        run: &Run<'_>,
        op: usize,
        node: &'a Node,
        batch: &mut Batch,
    ) {
        let slot = batch.add("HMGET", run.scanner.keys().node(&node.node_id), |get| {
            get.arg(&["kind", "ownerNodeId"]);
        });
        self.nodes.push(NodeWork {
            op,
            node,
            slot,
            changed: false,
        });
    }

    /// Created, the same, or in conflict.
    pub(super) fn decide(&mut self, run: &mut Run<'_>, answers: &mut Answers) {
        for (&op, row) in &mut self.rows {
            match answers.take::<Option<String>>(row.slot) {
                Err(error) => run.fail(op, Layer::Ledger, &error),
                Ok(None) => run.status[op] = Some(Status::Created),
                Ok(Some(stored)) => decide_row(run, op, row, stored),
            }
        }
        if let Some(work) = &mut self.block {
            match answers.take::<Vec<String>>(work.slot) {
                Err(error) => run.fail(work.op, Layer::Ledger, &error),
                Ok(answer) => decide_block(run, work, answer),
            }
        }
        for work in &mut self.nodes {
            match answers.take::<(Option<String>, Option<String>)>(work.slot) {
                Err(error) => run.fail(work.op, Layer::Ledger, &error),
                Ok((kind, owner)) => {
                    let known = kind.as_deref().and_then(NodeKind::parse);
                    let same = known == Some(work.node.kind) && owner == work.node.owner;
                    // Whoever knows less does not overwrite who knows more.
                    let less = work.node.kind == NodeKind::Unknown && known.is_some();
                    work.changed = !same && !less;
                    run.status[work.op] = Some(if work.changed {
                        Status::Created
                    } else {
                        Status::Duplicate
                    });
                }
            }
        }
    }

    /// The event of a row, which is the same whichever way the row came.
    pub(super) fn event_of(&self, op: usize, command: &Command) -> Option<Event> {
        let row = self.rows.get(&op)?;
        let Command::Tx { record, .. } = command else {
            return None;
        };
        Some(Event::of_record(record, row.origin == Origin::Archive))
    }

    /// The event of a revision, as it was first told; none when no leaf changed.
    pub(super) fn event_of_block(&self) -> Option<Event> {
        let work = self.block.as_ref()?;
        let block = work.first.as_ref().unwrap_or(work.placed.block);
        (block.leaf_delta != Some(0)).then(|| Event::of_block(block, work.placed.at.epoch))
    }

    /// Lists, in which a row is before any roll-up counts it: a rebuild sees it there, or its writer comes later.
    pub(super) fn index(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let keys = run.scanner.keys();
        let mut groups = Groups::new();
        let mut directories: BTreeMap<(String, &str), Vec<usize>> = BTreeMap::new();
        let names = [
            keys.txs(),
            keys.by_token("APU"),
            keys.by_token("USD"),
            keys.nodes(),
            keys.spaces(),
            keys.games(),
        ];
        let [txs, apu, usd, nodes, spaces, games] = &names;
        for (&op, row) in &self.rows {
            if run.is_over(op) {
                continue;
            }
            let record = row.record;
            let at = record.at_ms.to_string();
            let mut add = |key: &str| {
                if !groups.contains_key(key) {
                    groups.insert(key.to_owned(), Group::default());
                }
                if let Some(group) = groups.get_mut(key) {
                    group.args.extend([at.clone(), record.id.clone()]);
                    group.note(op);
                }
            };
            add(txs);
            add(&keys.by_player(&record.player_id));
            add(&keys.by_space(&record.space_id));
            add(&keys.by_item(&format!("{}:{}", record.item_kind, record.item_id)));
            if record.in_apu_list() {
                add(apu);
            }
            if record.in_usd_list() {
                add(usd);
            }
            // A name is in its directory once, however many rows of the run have it.
            let mut name = |key: &String, member: &'a str| {
                let ops = directories.entry((key.clone(), member)).or_default();
                ops.push(op);
            };
            name(nodes, &record.player_id);
            if !is_sentinel(&record.space_id) {
                name(spaces, &record.space_id);
            }
            if record.item_kind == ItemKind::Game {
                name(games, &record.item_id);
            }
        }
        for ((key, member), ops) in directories {
            let group = groups.entry(key).or_default();
            group.args.extend(["0".to_owned(), member.to_owned()]);
            group.ops.extend(ops);
        }
        for (key, group) in groups {
            run.send_group(batch, Layer::Ledger, "ZADD", key, group, &["NX"]);
        }
        self.index_block(run, batch);
        self.index_nodes(run, batch);
    }

    fn index_block(&self, run: &mut Run<'_>, batch: &mut Batch) {
        let Some(work) = self.block.as_ref().filter(|work| !run.is_over(work.op)) else {
            return;
        };
        let keys = run.scanner.keys();
        let (block, at) = (work.placed.block, work.placed.at);
        let one = |args: Vec<String>| Group {
            args,
            ops: vec![work.op],
        };
        let root = root_member(&block.root, at);
        let args = one(vec!["0".to_owned(), root]);
        run.send_group(
            batch,
            Layer::Ledger,
            "ZADD",
            keys.block_roots(),
            args,
            &["NX"],
        );
        let gone: Vec<String> = work.gone.iter().filter_map(|json| root_of(json)).collect();
        if !gone.is_empty() {
            run.send_group(
                batch,
                Layer::Ledger,
                "ZREM",
                keys.block_roots(),
                one(gone),
                &[],
            );
        }
        let head = one(vec![
            at.epoch.to_string(),
            at.rev.to_string(),
            block.root.clone(),
            block.leaf_count.to_string(),
            run.now.to_string(),
        ]);
        run.send_step(batch, Layer::Ledger, Step::RaiseHead, keys.head(), head);
        if let Command::Block {
            leaves: Some(leaves),
            ..
        } = &run.commands[work.op]
        {
            let args = one(vec![at.score().to_string(), leaves_json(at, leaves)]);
            run.send_step(batch, Layer::Ledger, Step::RaiseLeaves, keys.leaves(), args);
        }
    }

    fn index_nodes(&self, run: &mut Run<'_>, batch: &mut Batch) {
        let keys = run.scanner.keys();
        for work in &self.nodes {
            if run.is_over(work.op) {
                continue;
            }
            let node = work.node;
            let one = |args: &[&str]| Group {
                args: args.iter().map(|&arg| arg.to_owned()).collect(),
                ops: vec![work.op],
            };
            let now = run.now.to_string();
            let id = node.node_id.as_str();
            if work.changed {
                let mut fields = vec!["kind", node.kind.as_str()];
                fields.extend(
                    node.owner
                        .as_deref()
                        .into_iter()
                        .flat_map(|o| ["ownerNodeId", o]),
                );
                run.send_group(
                    batch,
                    Layer::Ledger,
                    "HSET",
                    keys.node(id),
                    one(&fields),
                    &[],
                );
                let traits = one(&["nodeKind", node.kind.as_str(), "updatedAt", &now]);
                run.send_group(
                    batch,
                    Layer::Analytics,
                    "HSET",
                    keys.traits(id),
                    traits,
                    &[],
                );
            }
            let seen = one(&["firstSeenAt", &now]);
            run.send_group(batch, Layer::Ledger, "HSETNX", keys.node(id), seen, &[]);
            run.send_group(
                batch,
                Layer::Ledger,
                "ZADD",
                keys.nodes(),
                one(&["0", id]),
                &["NX"],
            );
            if !work.changed {
                continue;
            }
            for kind in NodeKind::ALL {
                let key = keys.nodes_by_kind(kind.as_str());
                if *kind == node.kind {
                    run.send_group(batch, Layer::Ledger, "ZADD", key, one(&["0", id]), &["NX"]);
                } else {
                    run.send_group(batch, Layer::Ledger, "ZREM", key, one(&[id]), &[]);
                }
            }
        }
    }

    /// The rows that are not over, with their operations.
    pub(super) fn rows(&self, run: &Run<'_>) -> Vec<(usize, &Row<'a>)> {
        self.rows
            .iter()
            .filter(|(op, _)| !run.is_over(**op))
            .map(|(op, row)| (*op, row))
            .collect()
    }

    /// What goes to the shared stream, and for which operations: what is new, and in a repeated run all, since it may not
    /// have got there.
    pub(super) fn published(&self, run: &Run<'_>) -> (Vec<FeedEvent<'_>>, Vec<usize>) {
        let is_new = |op: usize| {
            matches!(run.status[op], Some(Status::Created)) || (run.healing && !run.is_over(op))
        };
        let mut events = Vec::new();
        let mut ops = Vec::new();
        for (&op, row) in self.rows.iter().filter(|(op, _)| is_new(**op)) {
            events.push(FeedEvent {
                kind: TX_EVENT,
                key: row.record.id.clone(),
                at_ms: row.record.at_ms,
                json: &row.json,
            });
            ops.push(op);
        }
        if let Some(work) = self.block.as_ref().filter(|work| is_new(work.op)) {
            let at = work.placed.at;
            events.push(FeedEvent {
                kind: BLOCK_EVENT,
                key: format!("{}:{}", at.epoch, at.rev),
                at_ms: work.placed.block.at_ms,
                json: &work.json,
            });
            ops.push(work.op);
        }
        (events, ops)
    }
}

fn decide_row(run: &mut Run<'_>, op: usize, row: &mut Row<'_>, stored: String) {
    let keys = run.scanner.keys();
    match Tx::from_json(&stored, keys.host()) {
        Ok(tx) if tx.record == *row.record => {
            row.json = stored;
            run.status[op] = Some(Status::Duplicate);
        }
        Ok(tx) => {
            tracing::warn!(
                id = %tx.record.id,
                stored = %fingerprint(&tx.record, tx.op),
                given = %fingerprint(row.record, row.op),
                "a transaction id was used again with other content; the first one stays"
            );
            let existing = tx.to_json(run.scanner.options().public_detail);
            run.status[op] = Some(Status::Conflict { existing });
        }
        Err(faults) => {
            let error = ScannerError::Corrupt {
                key: keys.tx(&row.record.id),
                why: faults.first().map_or_else(String::new, ToString::to_string),
            };
            run.fail(op, Layer::Ledger, &error);
        }
    }
}

/// What tells two records apart in a log, without their texts.
fn fingerprint(record: &Record, op: Operation) -> String {
    format!(
        "{op} {} of {} at {}: {:?} micros, {:?} APU",
        record.amenity,
        record.player_id,
        record.at(),
        record.price_micros,
        record.delta
    )
}

fn decide_block(run: &mut Run<'_>, work: &mut BlockWork<'_>, answer: Vec<String>) {
    let mut answer = answer.into_iter();
    let is_new = answer.next().is_some_and(|word| word == "new");
    if is_new {
        work.gone = answer.collect();
        run.status[work.op] = Some(Status::Created);
        return;
    }
    let stored = answer.next().unwrap_or_default();
    match Block::from_json(&stored) {
        Ok(block) if block.root == work.placed.block.root => {
            work.json = stored;
            work.first = Some(block);
            run.status[work.op] = Some(Status::Duplicate);
        }
        Ok(block) => {
            tracing::warn!(
                rev = block.rev, stored = %block.root, given = %work.placed.block.root,
                "a revision was told again with another root; the first one stays"
            );
            run.status[work.op] = Some(Status::Conflict { existing: stored });
        }
        Err(faults) => {
            let error = ScannerError::Corrupt {
                key: run.scanner.keys().blocks(),
                why: faults.first().map_or_else(String::new, ToString::to_string),
            };
            run.fail(work.op, Layer::Ledger, &error);
        }
    }
}

/// The entry of the index of roots.
pub(crate) fn root_member(root: &str, at: Height) -> String {
    format!("{root}:{}", at.score())
}

fn root_of(json: &str) -> Option<String> {
    let block = Block::from_json(json).ok()?;
    let at = Height::new(block.epoch.unwrap_or(0), block.rev)?;
    Some(root_member(&block.root, at))
}
