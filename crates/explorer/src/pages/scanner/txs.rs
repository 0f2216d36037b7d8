//! `/scanner?view=txs` and `view=apu`: transactions, newest first.

use askama::Template;
use cairn_http::QueryParams;
use cairn_scanner::{AmenityKind, Operation, Token, Tx, TxFilter};

use super::{Pages, ROWS_PER_PAGE, paths};
use crate::error::PageError;
use crate::present::{Moment, signed, usd};
use crate::site::Shell;

/// One row: also what live rows are.
#[derive(Template)]
#[template(path = "scanner/tx_row.html")]
struct RowView<'a> {
    row: &'a TxRow,
}

/// A row's markup.
pub(super) fn row_markup(tx: &Tx) -> String {
    let row = TxRow::new(tx);
    RowView { row: &row }.render().unwrap_or_else(|error| {
        tracing::error!(%error, "a row of transactions cannot be made");
        String::new()
    })
}

/// One transaction in a list.
pub(super) struct TxRow {
    pub(super) href: String,
    pub(super) id: String,
    pub(super) time: Moment,
    pub(super) kind: &'static str,
    pub(super) op: &'static str,
    pub(super) usd: String,
    pub(super) apu: String,
    pub(super) apu_class: &'static str,
    pub(super) node: String,
    pub(super) node_href: String,
    pub(super) way: String,
}

impl TxRow {
    /// Puts a transaction into a line.
    pub(super) fn new(tx: &Tx) -> Self {
        let record = &tx.record;
        let debit = record.debit_source.as_deref().unwrap_or("");
        let credit = record.credit_source.as_deref().unwrap_or("");
        TxRow {
            href: paths::tx(&record.id),
            id: record.id.clone(),
            time: Moment(record.at_ms),
            kind: record.amenity.as_str(),
            op: tx.op.as_str(),
            usd: record
                .price_micros
                .map(|micros| usd(micros.into()))
                .unwrap_or_default(),
            apu: record.delta.map(signed).unwrap_or_default(),
            apu_class: match record.delta {
                Some(1..) => "gain",
                Some(..=-1) => "loss",
                _ => "",
            },
            node: record.player_id.clone(),
            node_href: paths::node(&record.player_id),
            way: if debit.is_empty() && credit.is_empty() {
                String::new()
            } else {
                format!("{debit} \u{2192} {credit}")
            },
        }
    }
}

/// Which transactions a reader wants to see.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    filter: TxFilter,
    token: String,
    op: String,
    kind: String,
    space: String,
    player: String,
}

impl Wanted {
    /// What the query asks for.
    pub(super) fn of(query: &QueryParams, view: &str) -> Result<Self, PageError> {
        let text = |name: &str| query.get(name).unwrap_or_default().trim().to_owned();
        let wrong = |what: &str, word: &str| {
            let word: String = word.chars().take(64).collect();
            PageError::BadRequest(format!("There is no {what} \u{201c}{word}\u{201d}."))
        };
        let (op, kind, space, player) = (
            text("op"),
            text("amenityKind"),
            text("spaceId"),
            text("playerId"),
        );
        let token = if view == "apu" {
            "APU".to_owned()
        } else {
            text("token")
        };
        let filter = TxFilter {
            token: match token.as_str() {
                "" => None,
                "APU" => Some(Token::Apu),
                "USD" => Some(Token::Usd),
                other => return Err(wrong("token", other)),
            },
            op: match op.as_str() {
                "" => None,
                word => Some(Operation::parse(word).ok_or_else(|| wrong("operation", word))?),
            },
            amenity: match kind.as_str() {
                "" => None,
                word => Some(AmenityKind::parse(word).ok_or_else(|| wrong("kind", word))?),
            },
            space: (!space.is_empty()).then(|| space.clone()),
            player: (!player.is_empty()).then(|| player.clone()),
            ..TxFilter::default()
        };
        Ok(Self {
            filter,
            token,
            op,
            kind,
            space,
            player,
        })
    }

    /// Whether a transaction is wanted.
    pub(super) fn takes(&self, tx: &Tx) -> bool {
        self.filter.takes(tx)
    }

    fn pairs(&self, view: &str) -> Vec<(&'static str, &str)> {
        let token = if view == "apu" { "" } else { &self.token };
        vec![
            ("token", token),
            ("op", &self.op),
            ("amenityKind", &self.kind),
            ("spaceId", &self.space),
            ("playerId", &self.player),
        ]
    }

    fn is_all(&self, view: &str) -> bool {
        self.pairs(view).iter().all(|(_, value)| value.is_empty())
    }
}

/// The page.
#[derive(Template)]
#[template(path = "scanner/txs.html")]
pub(super) struct TxsPage {
    shell: Shell,
    view: &'static str,
    title: &'static str,
    wanted: Wanted,
    is_all: bool,
    ops: Vec<&'static str>,
    kinds: Vec<&'static str>,
    root: &'static str,
    all_href: String,
    csv_href: String,
    rows: Vec<TxRow>,
    tail: Option<String>,
    newest: Option<String>,
    older: Option<String>,
}

impl TxsPage {
    /// Reads a page; `view` is `txs` or `apu`.
    pub(super) async fn read(
        pages: &Pages,
        query: &QueryParams,
        view: &'static str,
    ) -> Result<Self, PageError> {
        let wanted = Wanted::of(query, view)?;
        let scanner = pages.scanner();
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        // The place first: a transaction that comes in between is shown twice rather than never.
        let place = scanner.newest_place().await?.to_string();
        let page = scanner.txs(&wanted.filter, cursor, ROWS_PER_PAGE).await?;
        let base = paths::with_query(&paths::view(view), &wanted.pairs(view));
        let tail = paths::with_query(
            &format!("{}/live?view={view}&after={place}", paths::ROOT),
            &wanted.pairs(view),
        );
        let mut csv_pairs = wanted.pairs(view);
        if view == "apu" {
            csv_pairs.push(("token", "APU"));
        }
        let title = if view == "apu" { "APU" } else { "Transactions" };
        Ok(TxsPage {
            shell: pages.frame(title, view),
            view,
            title,
            is_all: wanted.is_all(view),
            ops: Operation::ALL.iter().map(|op| op.as_str()).collect(),
            kinds: AmenityKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            root: paths::ROOT,
            all_href: paths::view(view),
            csv_href: paths::with_query("/api/scanner/txs.csv", &csv_pairs),
            rows: page.txs.iter().map(TxRow::new).collect(),
            tail: cursor.is_none().then_some(tail),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
            wanted,
        })
    }
}
