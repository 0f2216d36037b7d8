//! What transactions add up to: by hour, account, space, game and talk; and what is projected from these totals for readers.

use crate::error::ScannerError;
use crate::ids::is_sentinel;
use crate::money::decimal_of_micros;
use crate::record::{AmenityKind, ItemKind, Record};
use crate::store::scripts::Step;
use crate::store::{Answers, Batch};
use crate::time::{AtMs, Hour};

use super::ledger::Row;
use super::rolls::{Change, Changes, Counted, HOUR_TTL_MS, Rolled, Rolls};
use super::{Group, Groups, Layer, Run, Status};

/// Fields that are projected from the totals of a node, in their order.
pub(crate) const NODE_TOTALS: &[&str] = &[
    "#n",
    "#usdSpent",
    "#usdCredited",
    "#mint",
    "#burn",
    "#lastAt",
];

/// What totals are of.
enum Purpose {
    Hour(Hour),
    /// An account, and the spaces whose counts it needs.
    Node(String, Vec<String>),
    Space(String),
    Other,
}

/// The totals of a run.
pub(super) struct TotalsWork {
    rolls: Rolls<Purpose>,
    rolled: Vec<Rolled<Purpose>>,
    /// The newest transaction, and who told of any.
    newest: Option<(i64, Vec<usize>)>,
}

impl TotalsWork {
    pub(super) fn new() -> Self {
        Self {
            rolls: Rolls::new(Layer::Ledger),
            rolled: Vec::new(),
            newest: None,
        }
    }

    /// Counts rows, each once.
    pub(super) fn roll_up(
        &mut self,
        run: &mut Run<'_>,
        rows: &[(usize, &Row<'_>)],
        batch: &mut Batch,
    ) {
        for (op, row) in rows {
            self.roll_row(run, *op, row.record);
        }
        let newest = rows.iter().map(|(_, row)| row.record.at_ms).max();
        self.newest = newest.map(|at| (at, rows.iter().map(|(op, _)| *op).collect()));
        self.rolls.send(run, batch, |purpose| match purpose {
            Purpose::Node(_, spaces) => spaces.iter().map(|space| format!("s:{space}")).collect(),
            _ => Vec::new(),
        });
    }

    fn roll_row(&mut self, run: &Run<'_>, op: usize, record: &Record) {
        let keys = run.scanner.keys();
        let marker = format!("t:{}", record.id);
        let counted = Counted {
            op,
            marker: &marker,
            is_new: matches!(run.status[op], Some(Status::Created)),
        };
        let hour = record.at().hour();
        // Of hours that are over for so long nobody asks, and what is kept of them would expire unread.
        let is_recent = record.at_ms >= run.now.ms().saturating_sub(HOUR_TTL_MS);
        if is_recent {
            self.rolls.count(
                keys.hour(hour),
                &counted,
                HOUR_TTL_MS,
                &["#n", "#mint", "#burn"],
                || Purpose::Hour(hour),
                sums(&[
                    ("#n", 1),
                    ("#mint", record.mint()),
                    ("#burn", record.burn()),
                ]),
            );
        }
        let node = self.rolls.count(
            keys.agg_node(&record.player_id),
            &counted,
            0,
            NODE_TOTALS,
            || Purpose::Node(record.player_id.clone(), Vec::new()),
            node_changes(record),
        );
        if let Purpose::Node(_, spaces) = node
            && !spaces.contains(&record.space_id)
        {
            spaces.push(record.space_id.clone());
        }
        self.rolls.count(
            keys.agg_space(&record.space_id),
            &counted,
            0,
            &["#volume"],
            || Purpose::Space(record.space_id.clone()),
            space_changes(record),
        );
        let mut other = |key: String, ttl_ms: i64, changes: Changes| {
            self.rolls
                .count(key, &counted, ttl_ms, &[], || Purpose::Other, changes);
        };
        if record.amenity.is_gmv() && is_recent {
            let key = keys.space_hour(hour, &record.space_id);
            other(key, HOUR_TTL_MS, gmv_changes(record));
        }
        if record.item_kind == ItemKind::Game {
            let changes = sums(&[
                ("#n", 1),
                ("#net", record.delta.unwrap_or(0)),
                ("#mint", record.mint()),
                ("#burn", record.burn()),
            ]);
            other(keys.agg_game(&record.item_id), 0, changes);
        }
        if record.amenity == AmenityKind::TalkTime || record.item_kind == ItemKind::Talk {
            other(keys.agg_talk(), 0, talk_changes(record));
        }
    }

    /// Reads the totals, telling rows apart where that is needed.
    pub(super) async fn read(
        &mut self,
        run: &mut Run<'_>,
        answers: &mut Answers,
    ) -> Result<(), ScannerError> {
        self.rolled = self.rolls.read(run, answers).await?;
        Ok(())
    }

    /// What others read: written only if greater.
    pub(super) fn project(&mut self, run: &mut Run<'_>, batch: &mut Batch) {
        let mut volumes = Groups::new();
        for rolled in std::mem::take(&mut self.rolled) {
            let Rolled {
                purpose,
                totals,
                ops,
            } = rolled;
            match purpose {
                Purpose::Hour(hour) => project_hour(run, hour, &totals, &ops, batch),
                Purpose::Node(node, spaces) => {
                    project_node(run, &node, &spaces, &totals, ops, batch);
                }
                Purpose::Space(space) if !is_sentinel(&space) => {
                    let group = volumes
                        .entry(run.scanner.keys().spaces_by_volume())
                        .or_default();
                    group.args.push(volume_score(&totals));
                    group.args.push(space);
                    group.ops.extend(ops);
                }
                Purpose::Space(_) | Purpose::Other => {}
            }
        }
        for (key, group) in volumes {
            run.send_group(batch, Layer::Ledger, "ZADD", key, group, &["LT"]);
        }
        if let Some((newest, ops)) = self.newest.take() {
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
}

/// Additions, without those of nothing.
fn sums(changes: &[(&'static str, i64)]) -> Changes {
    changes
        .iter()
        .filter(|(_, value)| *value != 0)
        .map(|&(field, value)| (field.into(), Change::Add(value)))
        .collect()
}

fn node_changes(record: &Record) -> Changes {
    let mut changes = sums(&[
        ("#n", 1),
        ("#usdSpent", record.usd_spent()),
        ("#usdCredited", record.usd_credited()),
        ("#usdAll", record.price_micros.unwrap_or(0)),
        ("#mint", record.mint()),
        ("#burn", record.burn()),
    ]);
    let counts = [
        format!("k:{}", record.amenity),
        format!("s:{}", record.space_id),
    ];
    changes.extend(counts.map(|field| (field.into(), Change::Add(1))));
    changes.push(("#lastAt".into(), Change::Raise(record.at_ms)));
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
    let mut changes = vec![(format!("n:{}", record.amenity).into(), Change::Add(1))];
    if let Some(price) = record.price_micros {
        changes.push((format!("u:{}", record.amenity).into(), Change::Add(price)));
    }
    changes
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
        changes.push((format!("r:{session}").into(), Change::First("#sessions")));
    }
    changes
}

fn project_hour(
    run: &mut Run<'_>,
    hour: Hour,
    totals: &[String],
    ops: &[usize],
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
    node: &str,
    spaces: &[String],
    totals: &[String],
    ops: Vec<usize>,
    batch: &mut Batch,
) {
    let keys = run.scanner.keys();
    let group = Group {
        args: node_cache(totals, run.now),
        ops: ops.clone(),
    };
    let key = keys.cache_node(node);
    run.send_step(batch, Layer::Ledger, Step::RaiseHash, key, group);
    let counts = totals.get(NODE_TOTALS.len()..).unwrap_or_default();
    let args = spaces
        .iter()
        .zip(counts)
        .flat_map(|(space, count)| [count.clone(), space.clone()])
        .collect();
    let group = Group { args, ops };
    let key = keys.node_spaces(node);
    run.send_group(batch, Layer::Ledger, "ZADD", key, group, &["GT"]);
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

/// Negative, so that the order by score is that of the list: volume descending, then id.
fn volume_score(totals: &[String]) -> String {
    match totals.first().map(String::as_str) {
        None | Some("0") => "0".to_owned(),
        Some(volume) => format!("-{volume}"),
    }
}
