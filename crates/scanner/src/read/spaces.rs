//! Spaces, games and talking: totals over the whole history.

use std::collections::BTreeMap;

use crate::error::ScannerError;
use crate::ids::{check_id, is_sentinel};
use crate::record::AmenityKind;
use crate::scanner::Scanner;
use crate::store::{Batch, Slot};
use crate::time::Window;

use super::QueryError;
use super::page::{ListId, Order, Range};

/// A space in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceRow {
    /// The space.
    pub space_id: String,
    /// Its transactions.
    pub txs: u64,
    /// Micro-dollars spent there.
    pub volume_micros: i128,
}

/// A page of spaces, by volume.
#[derive(Debug, Clone, Default)]
pub struct SpacePage {
    /// The spaces.
    pub spaces: Vec<SpaceRow>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Count and micro-dollars of one kind of service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindTotals {
    /// Purchases.
    pub purchases: u64,
    /// Micro-dollars.
    pub usd_micros: i128,
}

/// Gross merchandise value by kind of service.
pub type ByKind = BTreeMap<AmenityKind, KindTotals>;

/// A space on its own page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// As in the list.
    pub row: SpaceRow,
    /// All-time.
    pub all_time: ByKind,
    /// Within the window.
    pub in_window: ByKind,
    /// The window.
    pub window: Window,
}

impl Space {
    /// The sum over kinds.
    pub fn sum(by_kind: &ByKind) -> KindTotals {
        by_kind
            .values()
            .fold(KindTotals::default(), |sum, one| KindTotals {
                purchases: sum.purchases.saturating_add(one.purchases),
                usd_micros: sum.usd_micros.saturating_add(one.usd_micros),
            })
    }
}

/// A game.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Game {
    /// Transactions.
    pub rounds: u64,
    /// Sum of deltas.
    pub net: i64,
    /// APU minted.
    pub minted: u64,
    /// APU burned.
    pub burned: u64,
}

/// Talking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Talk {
    /// Sessions.
    pub sessions: u64,
    /// Billed rows.
    pub ticks: u64,
    /// Micro-dollars charged.
    pub charged_micros: i128,
    /// APU earned by it.
    pub apu_earned: u64,
}

fn gmv_kinds() -> impl Iterator<Item = AmenityKind> {
    AmenityKind::ALL
        .iter()
        .copied()
        .filter(|kind| kind.is_gmv())
}

/// Reads the totals by kind of one hash.
fn add_kinds(batch: &mut Batch, key: String) -> Slot {
    batch.add("HMGET", key, |command| {
        for kind in gmv_kinds() {
            command.arg(format!("n:{kind}")).arg(format!("u:{kind}"));
        }
    })
}

fn read_kinds(values: &[Option<i64>], into: &mut ByKind) {
    for (kind, pair) in gmv_kinds().zip(values.chunks(2)) {
        let count = pair[0].unwrap_or(0);
        if count <= 0 {
            continue;
        }
        let totals = into.entry(kind).or_default();
        totals.purchases = totals.purchases.saturating_add(count.unsigned_abs());
        let usd = i128::from(pair.get(1).copied().flatten().unwrap_or(0));
        totals.usd_micros = totals.usd_micros.saturating_add(usd);
    }
}

/// A total that is never negative.
fn positive(value: Option<i64>) -> u64 {
    u64::try_from(value.unwrap_or(0)).unwrap_or(0)
}

impl Scanner {
    /// A page of spaces, by volume descending, then id.
    pub async fn spaces(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SpacePage, QueryError> {
        let list = ListId::new(&["spaces"]);
        let after = cursor.map(|cursor| list.read(cursor)).transpose()?;
        let range = Range {
            order: Order::Ascending,
            ..Range::newest(limit + 1, after)
        };
        let mut found = self.page(self.keys().spaces_by_volume(), &range).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| has_more)
            .map(|(space, score)| list.cursor(*score, space));
        let mut batch = Batch::new();
        let slots: Vec<Slot> = found
            .iter()
            .map(|(space, _)| {
                batch.add("HMGET", self.keys().agg_space(space), |command| {
                    command.arg(&["#n", "#volume"]);
                })
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        let mut spaces = Vec::with_capacity(found.len());
        for ((space_id, _), slot) in found.into_iter().zip(slots) {
            let (txs, volume): (Option<i64>, Option<i64>) = answers.take(slot)?;
            spaces.push(SpaceRow {
                space_id,
                txs: positive(txs),
                volume_micros: i128::from(volume.unwrap_or(0)),
            });
        }
        Ok(SpacePage { spaces, next })
    }

    /// A space; none for one without transactions, and for names that stand for no space.
    pub async fn space(&self, space_id: &str) -> Result<Option<Space>, QueryError> {
        let Ok(space_id) = check_id(space_id) else {
            return Ok(None);
        };
        if is_sentinel(space_id) {
            return Ok(None);
        }
        let keys = self.keys();
        let window = Window::at(self.clock().now());
        let mut batch = Batch::new();
        let totals = batch.add("HMGET", keys.agg_space(space_id), |command| {
            command.arg(&["#n", "#volume"]);
        });
        let kinds = add_kinds(&mut batch, keys.agg_space(space_id));
        let hours: Vec<Slot> = window
            .hours()
            .map(|hour| add_kinds(&mut batch, keys.space_hour(hour, space_id)))
            .collect();
        let mut answers = self.store().send(batch).await?;
        let (txs, volume): (Option<i64>, Option<i64>) = answers.take(totals)?;
        let Some(txs) = txs else {
            return Ok(None);
        };
        let mut all_time = ByKind::new();
        read_kinds(&answers.take::<Vec<Option<i64>>>(kinds)?, &mut all_time);
        let mut in_window = ByKind::new();
        for slot in hours {
            read_kinds(&answers.take::<Vec<Option<i64>>>(slot)?, &mut in_window);
        }
        Ok(Some(Space {
            row: SpaceRow {
                space_id: space_id.to_owned(),
                txs: positive(Some(txs)),
                volume_micros: i128::from(volume.unwrap_or(0)),
            },
            all_time,
            in_window,
            window,
        }))
    }

    /// A game; zeros for an unknown one.
    pub async fn game(&self, game_id: &str) -> Result<Game, QueryError> {
        let Ok(game_id) = check_id(game_id) else {
            return Ok(Game::default());
        };
        let values = self.totals(
            self.keys().agg_game(game_id),
            &["#n", "#net", "#mint", "#burn"],
        );
        let [rounds, net, minted, burned] = values.await?;
        Ok(Game {
            rounds: positive(rounds),
            net: net.unwrap_or(0),
            minted: positive(minted),
            burned: positive(burned),
        })
    }

    /// Totals of talking.
    pub async fn talk(&self) -> Result<Talk, QueryError> {
        let fields = ["#sessions", "#ticks", "#charged", "#apu"];
        let values = self.totals(self.keys().agg_talk(), &fields);
        let [sessions, ticks, charged, apu] = values.await?;
        Ok(Talk {
            sessions: positive(sessions),
            ticks: positive(ticks),
            charged_micros: i128::from(charged.unwrap_or(0)),
            apu_earned: positive(apu),
        })
    }

    async fn totals(
        &self,
        key: String,
        fields: &[&str; 4],
    ) -> Result<[Option<i64>; 4], ScannerError> {
        let (a, b, c, d) = self
            .store()
            .one("HMGET", key, |command| {
                command.arg(fields);
            })
            .await?;
        Ok([a, b, c, d])
    }
}
