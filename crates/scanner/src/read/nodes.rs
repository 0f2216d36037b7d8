//! Accounts: the directory and the profile.

use serde_json::Value;

use crate::error::ScannerError;
use crate::event::Event;
use crate::ids::check_id;
use crate::node::NodeKind;
use crate::record::AmenityKind;
use crate::scanner::Scanner;
use crate::store::{Answers, Batch, Slot};
use crate::time::{AtMs, Window};
use crate::wallet::Wallet;

use super::events::EventRow;
use super::page::{LIMIT_DEFAULT, ListId, Position, Range};
use super::txs::{TxFilter, TxPage};
use super::{QueryError, scored};

/// Spaces of a profile's breakdown at most, those with the most transactions.
const SPACES_MAX: usize = 100;
/// Names of a profile's top events.
const TOP_EVENTS: usize = 10;
/// Accounts looked at for one page of a filtered directory.
const READ_MAX: usize = 2_000;

/// An account in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The account.
    pub node_id: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its wallet.
    pub wallet: Option<Wallet>,
}

/// A page of accounts.
#[derive(Debug, Clone, Default)]
pub struct NodePage {
    /// The accounts.
    pub nodes: Vec<NodeRow>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// The order of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSort {
    /// By id, in byte order.
    Id,
    /// By APU, most first: wallet owners alone.
    Apu,
    /// By dollars, most first: wallet owners alone.
    Usd,
}

/// A profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The account.
    pub node_id: String,
    /// What it is.
    pub kind: NodeKind,
    /// The main node of an agent.
    pub owner: Option<String>,
    /// When it was made.
    pub now: AtMs,
    /// The wallet.
    pub wallet: Option<Wallet>,
    /// Totals over the whole history.
    pub ledger: LedgerTotals,
    /// Transactions by kind of service.
    pub by_kind: Vec<(AmenityKind, u64)>,
    /// Transactions by space, most first.
    pub by_space: Vec<(String, u64)>,
    /// First page of transactions.
    pub txs: TxPage,
    /// First page of events.
    pub events: NodeEventPage,
    /// Events within the window.
    pub events_in_window: u64,
    /// Its own counts of events, most first.
    pub top_events: Vec<(String, u64)>,
    /// The public part of the application's word on its games, JSON.
    pub game_stats: Option<String>,
    /// What it registered as.
    pub trait_kind: Option<String>,
}

/// Totals of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    /// Transactions.
    pub txs: u64,
    /// Micro-dollars spent.
    pub spent_micros: i128,
    /// Micro-dollars received.
    pub credited_micros: i128,
    /// Micro-dollars of all rows.
    pub all_micros: i128,
    /// APU minted.
    pub minted: u64,
    /// APU burned.
    pub burned: u64,
    /// The latest transaction.
    pub last_tx: Option<AtMs>,
}

/// A page of an account's events.
#[derive(Debug, Clone, Default)]
pub struct NodeEventPage {
    /// The events, newest first.
    pub events: Vec<EventRow>,
    /// Where the next page begins.
    pub next: Option<String>,
}

fn events_list(node: &str) -> ListId {
    ListId::new(&["node-events", node])
}

impl Scanner {
    /// A page of the directory.
    pub async fn nodes(
        &self,
        kind: Option<NodeKind>,
        sort: NodeSort,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<NodePage, QueryError> {
        let sorted = match sort {
            NodeSort::Id => "id",
            NodeSort::Apu => "apu",
            NodeSort::Usd => "usd",
        };
        let list = ListId::new(&["nodes", sorted, kind.map_or("", NodeKind::as_str)]);
        let mut after = cursor.map(|cursor| list.read(cursor)).transpose()?;
        let mut nodes: Vec<(NodeRow, i64)> = Vec::with_capacity(limit + 1);
        let mut read = 0;
        let mut count = limit + 1;
        loop {
            let found = self.node_ids(kind, sort, after.clone(), count).await?;
            let is_last = found.len() < count;
            let Some((last, last_score)) = found.last().cloned() else {
                break;
            };
            read += found.len();
            let rows = self.node_rows(&found).await?;
            // The directory of a kind may still name an account that has become another.
            nodes.extend(
                rows.into_iter()
                    .filter(|(row, _)| kind.is_none_or(|kind| kind == row.kind)),
            );
            if nodes.len() > limit {
                nodes.truncate(limit);
                let next = nodes
                    .last()
                    .map(|(row, score)| list.cursor(*score, &row.node_id));
                let nodes = nodes.into_iter().map(|(row, _)| row).collect();
                return Ok(NodePage { nodes, next });
            }
            if is_last {
                break;
            }
            if read >= READ_MAX {
                let next = Some(list.cursor(last_score, &last));
                let nodes = nodes.into_iter().map(|(row, _)| row).collect();
                return Ok(NodePage { nodes, next });
            }
            after = Some(Position {
                score: last_score,
                member: Some(last),
            });
            count = (count * 2).min(500);
        }
        Ok(NodePage {
            nodes: nodes.into_iter().map(|(row, _)| row).collect(),
            next: None,
        })
    }

    async fn node_ids(
        &self,
        kind: Option<NodeKind>,
        sort: NodeSort,
        after: Option<Position>,
        count: usize,
    ) -> Result<Vec<(String, i64)>, ScannerError> {
        let keys = self.keys();
        let key = match sort {
            NodeSort::Apu => keys.wallets(),
            NodeSort::Usd => keys.wallets_by_usd(),
            NodeSort::Id => {
                let key = match kind {
                    Some(kind @ (NodeKind::Main | NodeKind::Agent)) => {
                        keys.nodes_by_kind(kind.as_str())
                    }
                    _ => keys.nodes(),
                };
                let from = after
                    .and_then(|after| after.member)
                    .map_or("-".to_owned(), |member| format!("({member}"));
                let ids: Vec<String> = self
                    .store()
                    .one("ZRANGEBYLEX", key, |command| {
                        command.arg(from).arg("+").arg("LIMIT").arg(0).arg(count);
                    })
                    .await?;
                return Ok(ids.into_iter().map(|id| (id, 0)).collect());
            }
        };
        self.page(key, &Range::newest(count, after)).await
    }

    async fn node_rows(
        &self,
        found: &[(String, i64)],
    ) -> Result<Vec<(NodeRow, i64)>, ScannerError> {
        let keys = self.keys();
        let mut batch = Batch::new();
        let slots: Vec<(Slot, Slot)> = found
            .iter()
            .map(|(id, _)| {
                let kind = batch.add("HGET", keys.node(id), |command| {
                    command.arg("kind");
                });
                (kind, batch.add("GET", keys.wallet(id), |_| {}))
            })
            .collect();
        let mut answers = self.store().send(batch).await?;
        Ok(found
            .iter()
            .zip(slots)
            .map(|((node_id, score), (kind, wallet))| {
                let kind = answers.take::<Option<String>>(kind).unwrap_or(None);
                let row = NodeRow {
                    node_id: node_id.clone(),
                    kind: kind
                        .as_deref()
                        .and_then(NodeKind::parse)
                        .unwrap_or(NodeKind::Unknown),
                    wallet: self.wallet_of(node_id, &mut answers, wallet),
                };
                (row, *score)
            })
            .collect())
    }

    /// A wallet that was read; one that cannot be read is counted and shown as none.
    fn wallet_of(&self, node: &str, answers: &mut Answers, slot: Slot) -> Option<Wallet> {
        let read = answers
            .take::<Option<String>>(slot)
            .map_err(|error| error.to_string())
            .and_then(|json| {
                json.map(|json| {
                    Wallet::from_json(&json).map_err(|faults| {
                        faults.first().map_or_else(String::new, ToString::to_string)
                    })
                })
                .transpose()
            });
        read.unwrap_or_else(|why| {
            crate::scanner::Counts::add(&self.counts().corrupt_rows, 1);
            tracing::warn!(key = %self.keys().wallet(node), why, "a wallet cannot be read; it is left out");
            None
        })
    }

    /// A profile. `None` for an account that is not registered and has no wallet, no transaction and no event.
    pub async fn profile(&self, node_id: &str) -> Result<Option<Profile>, QueryError> {
        let Ok(node_id) = check_id(node_id) else {
            return Ok(None);
        };
        let keys = self.keys();
        let now = self.clock().now();
        let window = Window::at(now);
        let mut batch = Batch::new();
        let known = batch.add("ZSCORE", keys.nodes(), |command| {
            command.arg(node_id);
        });
        let node = batch.add("HMGET", keys.node(node_id), |command| {
            command.arg(&["kind", "ownerNodeId"]);
        });
        let wallet = batch.add("GET", keys.wallet(node_id), |_| {});
        let totals = batch.add("HMGET", keys.agg_node(node_id), |command| {
            command.arg(&[
                "#n",
                "#usdSpent",
                "#usdCredited",
                "#usdAll",
                "#mint",
                "#burn",
                "#lastAt",
            ]);
            for kind in AmenityKind::ALL {
                command.arg(format!("k:{kind}"));
            }
        });
        let spaces = batch.add("ZREVRANGE", keys.node_spaces(node_id), |command| {
            command.arg(0).arg(SPACES_MAX - 1).arg("WITHSCORES");
        });
        let counts = batch.add("HGETALL", keys.agg_user(node_id), |_| {});
        let in_window = batch.add("ZCOUNT", keys.by_user(node_id), |command| {
            command
                .arg(window.from().ms())
                .arg(format!("({}", window.to().ms()));
        });
        let trait_kind = batch.add("HGET", keys.traits(node_id), |command| {
            command.arg("nodeKind");
        });
        let games = batch.add("GET", keys.app_game_state(node_id), |_| {});
        let player = TxFilter::of_player(node_id);
        // None of the three needs another one's answer.
        let (mut answers, txs, events) = tokio::try_join!(
            async { Ok(self.store().send(batch).await?) },
            self.txs(&player, None, LIMIT_DEFAULT),
            self.node_events(node_id, None, LIMIT_DEFAULT)
        )?;
        let is_known = answers.take::<Option<String>>(known)?.is_some();
        if !is_known && events.events.is_empty() && txs.txs.is_empty() {
            return Ok(None);
        }
        let (kind, owner): (Option<String>, Option<String>) = answers.take(node)?;
        let (ledger, by_kind) = read_totals(answers.take(totals)?);
        let by_space = scored(answers.take(spaces)?)
            .into_iter()
            .map(|(space, count)| (space, count.unsigned_abs()))
            .collect();
        let counts: std::collections::HashMap<String, u64> = answers.take(counts)?;
        let mut top_events: Vec<(String, u64)> = counts.into_iter().collect();
        top_events.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        top_events.truncate(TOP_EVENTS);
        let games: Option<String> = answers.take(games).unwrap_or(None);
        Ok(Some(Profile {
            node_id: node_id.to_owned(),
            kind: kind
                .as_deref()
                .and_then(NodeKind::parse)
                .unwrap_or(NodeKind::Unknown),
            owner,
            now,
            wallet: self.wallet_of(node_id, &mut answers, wallet),
            ledger,
            by_kind,
            by_space,
            txs,
            events,
            events_in_window: answers.take(in_window)?,
            top_events,
            game_stats: games.as_deref().and_then(game_stats),
            trait_kind: answers.take(trait_kind)?,
        }))
    }

    /// A page of an account's events.
    pub async fn node_events(
        &self,
        node_id: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<NodeEventPage, QueryError> {
        let list = events_list(node_id);
        let after = cursor.map(|cursor| list.read(cursor)).transpose()?;
        let Ok(node_id) = check_id(node_id) else {
            return Ok(NodeEventPage::default());
        };
        let range = Range::newest(limit + 1, after);
        let mut found = self.page(self.keys().by_user(node_id), &range).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| has_more)
            .map(|(id, score)| list.cursor(*score, id));
        let rows: Vec<EventRow> = found
            .into_iter()
            .map(|(message_id, at_ms)| EventRow {
                message_id,
                event: None,
                distinct_id: Some(node_id.to_owned()),
                at: AtMs::clamped(at_ms),
                body: None,
            })
            .collect();
        let events = self.with_bodies(rows).await?;
        Ok(NodeEventPage { events, next })
    }

    /// Fills in the bodies of events.
    pub(crate) async fn with_bodies(
        &self,
        mut rows: Vec<EventRow>,
    ) -> Result<Vec<EventRow>, ScannerError> {
        let keys = rows
            .iter()
            .map(|row| self.keys().event_body(&row.message_id))
            .collect();
        let bodies = self.store().values(keys).await?;
        for (row, body) in rows.iter_mut().zip(bodies) {
            row.body = body.and_then(|json| Event::from_json(&json).ok());
        }
        Ok(rows)
    }

    /// Whether an account's page of transactions is of something that exists is not asked here: an empty page.
    pub async fn node_txs(
        &self,
        node_id: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<TxPage, QueryError> {
        self.txs(&TxFilter::of_player(node_id), cursor, limit).await
    }

    /// A wallet.
    pub async fn wallet(&self, player_id: &str) -> Result<Option<Wallet>, QueryError> {
        let Ok(id) = check_id(player_id) else {
            return Ok(None);
        };
        let mut batch = Batch::new();
        let slot = batch.add("GET", self.keys().wallet(id), |_| {});
        let mut answers = self.store().send(batch).await?;
        Ok(self.wallet_of(id, &mut answers, slot))
    }
}

fn read_totals(values: Vec<Option<i64>>) -> (LedgerTotals, Vec<(AmenityKind, u64)>) {
    const PLAIN: usize = 7;
    let at = |index: usize| values.get(index).copied().flatten();
    let count = |index: usize| u64::try_from(at(index).unwrap_or(0)).unwrap_or(0);
    let micros = |index: usize| i128::from(at(index).unwrap_or(0));
    let ledger = LedgerTotals {
        txs: count(0),
        spent_micros: micros(1),
        credited_micros: micros(2),
        all_micros: micros(3),
        minted: count(4),
        burned: count(5),
        last_tx: at(6).map(AtMs::clamped),
    };
    let by_kind = AmenityKind::ALL
        .iter()
        .enumerate()
        .map(|(index, &kind)| (kind, count(PLAIN + index)))
        .filter(|(_, count)| *count > 0)
        .collect();
    (ledger, by_kind)
}

/// The public part of the application's word on a player's games; none when it cannot be read.
fn game_stats(json: &str) -> Option<String> {
    const NUMBERS: &[&str] = &[
        "dayStreak",
        "bestStreak",
        "puEarnedToday",
        "puCapRemaining",
        "gamesPlayedToday",
    ];
    let state: Value = serde_json::from_str(json).ok()?;
    let stats = state.get("stats")?.as_object()?;
    let mut public = serde_json::Map::new();
    for &name in NUMBERS {
        let value = stats.get(name).filter(|value| value.is_number()).cloned();
        public.insert(name.to_owned(), value.unwrap_or(Value::Null));
    }
    let featured = stats
        .get("featuredGameId")
        .filter(|value| value.is_string())
        .cloned();
    public.insert("featuredGameId".to_owned(), featured.unwrap_or(Value::Null));
    let first = stats
        .get("firstGamePlayed")
        .filter(|value| value.is_boolean() || value.is_string())
        .cloned();
    public.insert("firstGamePlayed".to_owned(), first.unwrap_or(Value::Null));
    let mut games = serde_json::Map::new();
    for (id, game) in stats
        .get("perGame")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .take(100)
    {
        let number = |name: &str| {
            let value = game.get(name).filter(|value| value.is_number()).cloned();
            value.unwrap_or(Value::Null)
        };
        let entry =
            serde_json::json!({ "plays": number("plays"), "bestNetPu": number("bestNetPu") });
        games.insert(id.clone(), entry);
    }
    public.insert("perGame".to_owned(), Value::Object(games));
    Some(Value::Object(public).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_fields_of_game_stats_are_public() {
        let public = game_stats(
            r#"{"secret":"x","stats":{"dayStreak":3,"passwHash":"no","perGame":{"g":{"plays":2,"bestNetPu":-1,"sid":"no"}}}}"#,
        )
        .expect("readable");
        assert!(
            !public.contains("no") && !public.contains("secret"),
            "{public}"
        );
        let value: Value = serde_json::from_str(&public).expect("JSON");
        assert_eq!(
            (&value["dayStreak"], &value["perGame"]["g"]["plays"]),
            (&3.into(), &2.into())
        );
        assert_eq!(game_stats("{}"), None);
        assert_eq!(game_stats("["), None);
    }
}
