//! Transactions: one, pages of them, and what is new since an instant.

use crate::ids::{check_id, check_tx_id};
use crate::record::{AmenityKind, Operation};
use crate::scanner::Scanner;
use crate::store::scripts::Step;
use crate::time::AtMs;
use crate::tx::Tx;

use super::page::{ListId, Position, Range};
use super::{QueryError, scored};

/// Rows of one millisecond in one page of a tail at most.
const SAME_MS_MAX: usize = 5_000;
/// Rows read for one page of a filtered list at most; beyond it the page is short and its cursor goes on.
const READ_MAX: usize = 2_000;

/// Rows of which currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Rows that say something about APU.
    Apu,
    /// Rows with a price.
    Usd,
}

impl Token {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apu => "APU",
            Self::Usd => "USD",
        }
    }
}

/// Which transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxFilter {
    /// Of a currency.
    pub token: Option<Token>,
    /// Of a space.
    pub space: Option<String>,
    /// Of a player.
    pub player: Option<String>,
    /// Of an operation.
    pub op: Option<Operation>,
    /// Of a kind of service.
    pub amenity: Option<AmenityKind>,
    /// Not before.
    pub from: Option<AtMs>,
    /// Before.
    pub to: Option<AtMs>,
}

impl TxFilter {
    /// The rows of a player.
    pub fn of_player(player: &str) -> Self {
        Self {
            player: Some(player.to_owned()),
            ..Self::default()
        }
    }

    fn list_id(&self) -> ListId {
        let text = |at: Option<AtMs>| at.map_or_else(String::new, |at| at.ms().to_string());
        ListId::new(&[
            "txs",
            self.token.map_or("", Token::as_str),
            self.space.as_deref().unwrap_or_default(),
            self.player.as_deref().unwrap_or_default(),
            self.op.map_or("", Operation::as_str),
            self.amenity.map_or("", AmenityKind::as_str),
            &text(self.from),
            &text(self.to),
        ])
    }

    /// Whether a transaction is one of these.
    pub fn takes(&self, tx: &Tx) -> bool {
        let record = &tx.record;
        self.token.is_none_or(|token| match token {
            Token::Apu => record.in_apu_list(),
            Token::Usd => record.in_usd_list(),
        }) && self
            .space
            .as_ref()
            .is_none_or(|space| *space == record.space_id)
            && self
                .player
                .as_ref()
                .is_none_or(|player| *player == record.player_id)
            && self.op.is_none_or(|op| op == tx.op)
            && self.amenity.is_none_or(|amenity| amenity == record.amenity)
            && self.from.is_none_or(|from| record.at_ms >= from.ms())
            && self.to.is_none_or(|to| record.at_ms < to.ms())
    }

    /// Whether a cursor fits this list. A bare number means: strictly older than this millisecond.
    fn position(&self, cursor: &str) -> Result<Position, QueryError> {
        match cursor.parse::<i64>() {
            Ok(score) => Ok(Position {
                score,
                member: None,
            }),
            Err(_) => self.list_id().read(cursor),
        }
    }
}

/// A page of transactions, newest first.
#[derive(Debug, Clone, Default)]
pub struct TxPage {
    /// The rows.
    pub txs: Vec<Tx>,
    /// Where the next page begins; none exactly when there is no older row.
    pub next: Option<String>,
}

/// What is new since an instant.
#[derive(Debug, Clone, Default)]
pub struct TxTail {
    /// The oldest matching rows, shown newest first.
    pub txs: Vec<Tx>,
    /// Later rows exist.
    pub has_more: bool,
    /// What to ask with next, milliseconds; none when the page is empty.
    pub next_since_ms: Option<i64>,
}

impl Scanner {
    /// A transaction. `None` for an unknown or impossible id; never a scan.
    pub async fn tx(&self, id: &str) -> Result<Option<Tx>, QueryError> {
        let Ok(id) = check_tx_id(id) else {
            return Ok(None);
        };
        let json: Option<String> = self.store().one("GET", self.keys().tx(id), |_| {}).await?;
        let Some(json) = json else {
            return Ok(None);
        };
        Tx::from_json(&json, self.keys().host())
            .map(Some)
            .map_err(|faults| {
                let why = faults.first().map_or_else(String::new, ToString::to_string);
                let key = self.keys().tx(id);
                crate::error::ScannerError::Corrupt { key, why }.into()
            })
    }

    /// The list that has all rows of a filter and the fewest others.
    fn tx_list(&self, filter: &TxFilter) -> Option<String> {
        let keys = self.keys();
        Some(match filter {
            TxFilter {
                player: Some(player),
                ..
            } => keys.by_player(check_id(player).ok()?),
            TxFilter {
                space: Some(space), ..
            } => keys.by_space(check_id(space).ok()?),
            TxFilter {
                token: Some(token), ..
            } => keys.by_token(token.as_str()),
            _ => keys.txs(),
        })
    }

    /// A page of transactions after a cursor.
    ///
    /// With a combination of filters that no list has, a page may be short although its cursor is given: then as many
    /// rows as one request may cost were looked at.
    pub async fn txs(
        &self,
        filter: &TxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<TxPage, QueryError> {
        let after = cursor.map(|cursor| filter.position(cursor)).transpose()?;
        let Some(list) = self.tx_list(filter) else {
            return Ok(TxPage::default());
        };
        let list_id = filter.list_id();
        let mut range = Range {
            from: filter.from.map(AtMs::ms),
            to: filter.to.map(AtMs::ms),
            ..Range::newest(limit + 1, after)
        };
        let mut txs: Vec<Tx> = Vec::with_capacity(limit + 1);
        let mut read = 0;
        loop {
            let found = self.page(list.clone(), &range).await?;
            let is_last = found.len() < range.count;
            let Some((last, last_score)) = found.last().cloned() else {
                break;
            };
            read += found.len();
            let ids: Vec<String> = found.into_iter().map(|(id, _)| id).collect();
            let rows = self.rows(&ids).await?;
            txs.extend(rows.into_iter().flatten().filter(|tx| filter.takes(tx)));
            if txs.len() > limit {
                txs.truncate(limit);
                let next = txs
                    .last()
                    .map(|tx| list_id.cursor(tx.record.at_ms, &tx.record.id));
                return Ok(TxPage { txs, next });
            }
            if is_last {
                break;
            }
            if read >= READ_MAX {
                let next = Some(list_id.cursor(last_score, &last));
                return Ok(TxPage { txs, next });
            }
            range.after = Some(Position {
                score: last_score,
                member: Some(last),
            });
            range.count = (range.count * 2).min(500);
        }
        Ok(TxPage { txs, next: None })
    }

    /// The oldest rows from an instant on, so that nothing is skipped: `limit` rows in ascending order, then every
    /// further row of the last millisecond. Shown newest first.
    pub async fn tx_tail(
        &self,
        filter: &TxFilter,
        since_ms: i64,
        limit: usize,
    ) -> Result<TxTail, QueryError> {
        let Some(list) = self.tx_list(filter) else {
            return Ok(TxTail::default());
        };
        let mut since_ms = since_ms.max(filter.from.map_or(0, AtMs::ms));
        let mut tail = TxTail::default();
        let mut read = 0;
        loop {
            let flat: Vec<String> = self
                .store()
                .one_step(Step::Tail, list.clone(), |command| {
                    command.arg(since_ms).arg(limit).arg(SAME_MS_MAX);
                })
                .await?;
            let mut flat = flat.into_iter();
            tail.has_more = flat.next().is_some_and(|flag| flag == "1");
            let found = scored(flat.collect());
            let Some(&(_, last)) = found.last() else {
                break;
            };
            read += found.len();
            let ids: Vec<String> = found.into_iter().map(|(id, _)| id).collect();
            let rows = self.rows(&ids).await?;
            tail.txs
                .extend(rows.into_iter().flatten().filter(|tx| filter.takes(tx)));
            tail.next_since_ms = Some(if tail.has_more { last + 1 } else { last });
            if !tail.has_more || !tail.txs.is_empty() || read >= READ_MAX {
                break;
            }
            since_ms = last + 1;
        }
        tail.txs.reverse();
        Ok(tail)
    }
}
