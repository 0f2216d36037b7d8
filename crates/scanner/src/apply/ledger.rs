//! Rows, indexes, roll-ups and their projections; blocks; registrations.

use std::collections::BTreeMap;

use crate::block::{Block, Height};
use crate::error::ScannerError;
use crate::event::Event;
use crate::feed::{BLOCK_EVENT, FeedEvent, TX_EVENT};
use crate::ids::is_sentinel;
use crate::money::decimal_of_micros;
use crate::node::{Node, NodeKind};
use crate::record::{AmenityKind, ItemKind, Operation, Record};
use crate::request::{Command, Origin};
use crate::store::scripts::Step;
use crate::store::{Answers, Batch, Slot};
use crate::time::{AtMs, HOUR_MS, Hour};
use crate::tx::{Tx, row_json};

use super::{Group, Groups, HeadNow, Layer, Placed, Run, Status, leaves_json};

/// How long roll-ups of an hour stay after the last write, milliseconds: twice the window.
pub(super) const HOUR_TTL_MS: i64 = 48 * HOUR_MS;

/// The ledger's part of a run.
#[derive(Default)]
pub(super) struct LedgerWork<'a> {
    rows: BTreeMap<usize, Row<'a>>,
    block: Option<BlockWork<'a>>,
    nodes: Vec<NodeWork<'a>>,
    rolled: Vec<(Purpose, Slot)>,
}

struct Row<'a> {
    record: &'a Record,
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

/// What a roll-up is of.
enum Purpose {
    Hour(Hour),
    Node(String, Vec<String>),
    Space(String),
    Other,
}

/// A roll-up being gathered.
struct RollUp {
    purpose: Purpose,
    ttl_ms: i64,
    outs: Vec<String>,
    items: Group,
}

/// Changes of one row in one roll-up.
type Changes = Vec<(String, String)>;

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
        let mut add = |key: String, score: String, member: &str, op: usize| {
            let group = groups.entry(key).or_default();
            group.args.push(score);
            group.args.push(member.to_owned());
            group.note(op);
        };
        for (&op, row) in &self.rows {
            if run.is_over(op) {
                continue;
            }
            let record = row.record;
            let at = record.at_ms.to_string();
            let item = format!("{}:{}", record.item_kind, record.item_id);
            add(keys.txs(), at.clone(), &record.id, op);
            add(
                keys.by_player(&record.player_id),
                at.clone(),
                &record.id,
                op,
            );
            add(keys.by_space(&record.space_id), at.clone(), &record.id, op);
            add(keys.by_item(&item), at.clone(), &record.id, op);
            if record.in_apu_list() {
                add(keys.by_token("APU"), at.clone(), &record.id, op);
            }
            if record.in_usd_list() {
                add(keys.by_token("USD"), at.clone(), &record.id, op);
            }
            let zero = || "0".to_owned();
            add(keys.nodes(), zero(), &record.player_id, op);
            if !is_sentinel(&record.space_id) {
                add(keys.spaces(), zero(), &record.space_id, op);
            }
            if record.item_kind == ItemKind::Game {
                add(keys.games(), zero(), &record.item_id, op);
            }
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

    /// Totals, each row once.
    pub(super) fn roll_up(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let mut rolls: BTreeMap<String, RollUp> = BTreeMap::new();
        for (&op, row) in &self.rows {
            if !run.is_over(op) {
                roll_row(run, op, row, &mut rolls);
            }
        }
        for (key, roll) in rolls {
            let RollUp {
                purpose,
                ttl_ms,
                outs,
                items,
            } = roll;
            let mut args = vec![ttl_ms.to_string(), outs.len().to_string()];
            args.extend(outs);
            args.extend(items.args);
            let group = Group {
                args,
                ops: items.ops,
            };
            let slot = run.send_step(batch, Layer::Ledger, Step::RollUp, key, group);
            self.rolled.push((purpose, slot));
        }
    }

    /// What others read: written only if greater.
    pub(super) fn project(&mut self, run: &mut Run<'_>, answers: &mut Answers, batch: &mut Batch) {
        let ops: Vec<usize> = self.rows.keys().copied().collect();
        for (purpose, slot) in std::mem::take(&mut self.rolled) {
            // An error has been noted already.
            let Ok(totals) = answers.take::<Vec<String>>(slot) else {
                continue;
            };
            let totals = totals.get(1..).unwrap_or_default();
            match purpose {
                Purpose::Hour(hour) => project_hour(run, &ops, hour, totals, batch),
                Purpose::Node(node, spaces) => {
                    project_node(run, &ops, &node, &spaces, totals, batch)
                }
                Purpose::Space(space) => project_space(run, &ops, &space, totals, batch),
                Purpose::Other => {}
            }
        }
        let newest = self
            .rows
            .iter()
            .filter(|(op, _)| !run.is_over(**op))
            .map(|(_, row)| row.record.at_ms)
            .max();
        if let Some(newest) = newest {
            let group = Group {
                args: vec![
                    "lastTxAtMs".to_owned(),
                    newest.to_string(),
                    run.now.to_string(),
                ],
                ops,
            };
            let key = run.scanner.keys().head();
            run.send_step(batch, Layer::Ledger, Step::RaiseField, key, group);
        }
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

/// Fields that are projected from the totals of a node, in their order.
pub(crate) const NODE_TOTALS: &[&str] = &[
    "#n",
    "#usdSpent",
    "#usdCredited",
    "#mint",
    "#burn",
    "#lastAt",
];

fn roll_row(run: &Run<'_>, op: usize, row: &Row<'_>, rolls: &mut BTreeMap<String, RollUp>) {
    let keys = run.scanner.keys();
    let record = row.record;
    let marker = format!("t:{}", record.id);
    let mut note = |key: String,
                    purpose: &dyn Fn() -> Purpose,
                    ttl_ms: i64,
                    outs: &[&str],
                    changes: Changes| {
        let roll = rolls.entry(key).or_insert_with(|| RollUp {
            purpose: purpose(),
            ttl_ms,
            outs: outs.iter().map(|&out| out.to_owned()).collect(),
            items: Group::default(),
        });
        roll.items.args.push(marker.clone());
        roll.items.args.push(changes.len().to_string());
        for (field, change) in changes {
            roll.items.args.push(field);
            roll.items.args.push(change);
        }
        roll.items.note(op);
        if let Purpose::Node(_, spaces) = &mut roll.purpose
            && !spaces.contains(&record.space_id)
        {
            spaces.push(record.space_id.clone());
            roll.outs.push(format!("s:{}", record.space_id));
        }
    };
    let hour = record.at().hour();
    note(
        keys.hour(hour),
        &|| Purpose::Hour(hour),
        HOUR_TTL_MS,
        &["#n", "#mint", "#burn"],
        sums(&[
            ("#n", 1),
            ("#mint", record.mint()),
            ("#burn", record.burn()),
        ]),
    );
    note(
        keys.agg_node(&record.player_id),
        &|| Purpose::Node(record.player_id.clone(), Vec::new()),
        0,
        NODE_TOTALS,
        node_changes(record),
    );
    note(
        keys.agg_space(&record.space_id),
        &|| Purpose::Space(record.space_id.clone()),
        0,
        &["#volume"],
        space_changes(record),
    );
    let recent = record.at_ms >= run.now.ms().saturating_sub(HOUR_TTL_MS);
    if record.amenity.is_gmv() && recent {
        note(
            keys.space_hour(hour, &record.space_id),
            &|| Purpose::Other,
            HOUR_TTL_MS,
            &[],
            gmv_changes(record),
        );
    }
    if record.item_kind == ItemKind::Game {
        let (mint, burn) = (record.mint(), record.burn());
        note(
            keys.agg_game(&record.item_id),
            &|| Purpose::Other,
            0,
            &[],
            sums(&[
                ("#n", 1),
                ("#net", record.delta.unwrap_or(0)),
                ("#mint", mint),
                ("#burn", burn),
            ]),
        );
    }
    if record.amenity == AmenityKind::TalkTime || record.item_kind == ItemKind::Talk {
        note(
            keys.agg_talk(),
            &|| Purpose::Other,
            0,
            &[],
            talk_changes(record),
        );
    }
}

/// Additions, without those of nothing.
fn sums(changes: &[(&str, i64)]) -> Changes {
    changes
        .iter()
        .filter(|(_, value)| *value != 0)
        .map(|(field, value)| ((*field).to_owned(), value.to_string()))
        .collect()
}

fn node_changes(record: &Record) -> Changes {
    let kind = format!("k:{}", record.amenity);
    let space = format!("s:{}", record.space_id);
    let mut changes = sums(&[
        ("#n", 1),
        ("#usdSpent", record.usd_spent()),
        ("#usdCredited", record.usd_credited()),
        ("#usdAll", record.price_micros.unwrap_or(0)),
        ("#mint", record.mint()),
        ("#burn", record.burn()),
        (&kind, 1),
        (&space, 1),
    ]);
    changes.push(("#lastAt".to_owned(), format!(">{}", record.at_ms)));
    changes
}

fn space_changes(record: &Record) -> Changes {
    let mut changes = sums(&[("#n", 1), ("#volume", record.usd_spent())]);
    if record.amenity.is_gmv() {
        changes.extend(gmv_changes(record));
    }
    changes
}

fn gmv_changes(record: &Record) -> Changes {
    let (count, usd) = (
        format!("n:{}", record.amenity),
        format!("u:{}", record.amenity),
    );
    sums(&[(&count, 1), (&usd, record.price_micros.unwrap_or(0))])
}

fn talk_changes(record: &Record) -> Changes {
    let is_tick = record.amenity == AmenityKind::TalkTime;
    let mut changes = sums(&[
        ("#ticks", i64::from(is_tick)),
        (
            "#charged",
            record.price_micros.filter(|_| is_tick).unwrap_or(0),
        ),
        ("#apu", record.mint()),
        (
            "#sessions",
            i64::from(is_tick && record.session_ref.is_none()),
        ),
    ]);
    if let Some(session) = record.session_ref.as_ref().filter(|_| is_tick) {
        changes.push((format!("r:{session}"), "?#sessions".to_owned()));
    }
    changes
}

fn project_hour(
    run: &mut Run<'_>,
    ops: &[usize],
    hour: Hour,
    totals: &[String],
    batch: &mut Batch,
) {
    let keys = run.scanner.keys();
    let targets = [
        keys.hour_txs(hour),
        keys.hour_mint(hour),
        keys.hour_burn(hour),
    ];
    for (key, total) in targets.into_iter().zip(totals) {
        if total != "0" {
            let group = Group {
                args: vec![total.clone(), HOUR_TTL_MS.to_string()],
                ops: ops.to_vec(),
            };
            run.send_step(batch, Layer::Ledger, Step::Raise, key, group);
        }
    }
}

fn project_node(
    run: &mut Run<'_>,
    ops: &[usize],
    node: &str,
    spaces: &[String],
    totals: &[String],
    batch: &mut Batch,
) {
    let keys = run.scanner.keys();
    let args = node_cache(totals, run.now);
    let group = Group {
        args,
        ops: ops.to_vec(),
    };
    run.send_step(
        batch,
        Layer::Ledger,
        Step::RaiseHash,
        keys.cache_node(node),
        group,
    );
    let mut group = Group {
        args: Vec::new(),
        ops: ops.to_vec(),
    };
    for (space, count) in spaces
        .iter()
        .zip(totals.get(NODE_TOTALS.len()..).unwrap_or_default())
    {
        group.args.push(count.clone());
        group.args.push(space.clone());
    }
    if !group.args.is_empty() {
        run.send_group(
            batch,
            Layer::Ledger,
            "ZADD",
            keys.node_spaces(node),
            group,
            &["GT"],
        );
    }
}

/// The fields of the node's cache, with the count of transactions first: it is the version.
pub(crate) fn node_cache(totals: &[String], now: AtMs) -> Vec<String> {
    let total = |index: usize| totals.get(index).map_or("0", String::as_str);
    let spent: i128 = total(1).parse().unwrap_or(0);
    let last = AtMs::clamped(total(5).parse().unwrap_or(0));
    [
        ("txCount", total(0).to_owned()),
        ("usdSpent", decimal_of_micros(spent)),
        ("usdSpentMicros", total(1).to_owned()),
        ("usdCreditedMicros", total(2).to_owned()),
        ("apuMinted", total(3).to_owned()),
        ("apuBurned", total(4).to_owned()),
        ("lastTxAt", last.to_string()),
        ("updatedAt", now.to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect()
}

fn project_space(
    run: &mut Run<'_>,
    ops: &[usize],
    space: &str,
    totals: &[String],
    batch: &mut Batch,
) {
    if is_sentinel(space) {
        return;
    }
    let volume = totals.first().map_or("0", String::as_str);
    // Negative, so that the order by score is that of the list: volume descending, then id.
    let score = if volume == "0" {
        "0".to_owned()
    } else {
        format!("-{volume}")
    };
    let group = Group {
        args: vec![score, space.to_owned()],
        ops: ops.to_vec(),
    };
    let key = run.scanner.keys().spaces_by_volume();
    run.send_group(batch, Layer::Ledger, "ZADD", key, group, &["LT"]);
}
