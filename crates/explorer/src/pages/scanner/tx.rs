//! `/scanner/txs/{id}`: every field of a transaction.

use askama::Template;

use super::{Pages, paths};
use crate::error::PageError;
use crate::present::{Copy, Hash, Moment, signed, usd};
use crate::site::Shell;

/// The page.
#[derive(Template)]
#[template(path = "scanner/tx.html")]
pub(super) struct TxPage {
    shell: Shell,
    root: &'static str,
    id: Hash,
    copy: Copy,
    kind: &'static str,
    op: &'static str,
    at: Moment,
    indexed_at: Moment,
    price: Option<String>,
    delta: Option<(String, &'static str)>,
    earned: Option<String>,
    spent: Option<String>,
    is_apu: bool,
    player: (String, String),
    space: (String, String),
    counterparty: Option<(String, String)>,
    item_kind: &'static str,
    item: (String, Option<String>),
    debit: Option<String>,
    credit: Option<String>,
    detail: Option<String>,
    session: Option<String>,
    stamp: Option<(String, String, Hash)>,
    host: String,
    api_href: String,
}

impl TxPage {
    /// Reads a transaction.
    pub(super) async fn read(pages: &Pages, id: &str) -> Result<Self, PageError> {
        let scanner = pages.scanner();
        let tx = scanner.tx(id).await?.ok_or_else(|| {
            let id: String = id.chars().take(200).collect();
            PageError::not_found(format!(
                "The ledger has no transaction \u{201c}{id}\u{201d}."
            ))
        })?;
        let record = &tx.record;
        let number = |n: Option<i64>| n.map(|n| crate::present::count(n.unsigned_abs()));
        let item_href = (record.item_kind.as_str() == "game").then(|| paths::game(&record.item_id));
        Ok(TxPage {
            shell: pages.frame(&format!("Transaction {}", record.id), "txs"),
            root: paths::ROOT,
            id: Hash::new(&record.id),
            copy: Copy::new(&record.id),
            kind: record.amenity.as_str(),
            op: tx.op.as_str(),
            at: Moment(record.at_ms),
            indexed_at: Moment(tx.indexed_at.ms()),
            price: record.price_micros.map(|micros| usd(micros.into())),
            delta: record
                .delta
                .map(|delta| (signed(delta), if delta < 0 { "loss" } else { "gain" })),
            earned: number(record.earned),
            spent: number(record.spent),
            is_apu: record.is_apu,
            player: (record.player_id.clone(), paths::node(&record.player_id)),
            space: (record.space_id.clone(), paths::space(&record.space_id)),
            counterparty: record
                .counterparty
                .as_ref()
                .map(|id| (id.clone(), paths::node(id))),
            item_kind: record.item_kind.as_str(),
            item: (record.item_id.clone(), item_href),
            debit: record.debit_source.clone(),
            credit: record.credit_source.clone(),
            detail: record
                .detail
                .clone()
                .filter(|_| scanner.options().public_detail),
            session: record.session_ref.clone(),
            stamp: tx.stamp.as_ref().map(|stamp| {
                (
                    stamp.rev.to_string(),
                    paths::block(stamp.rev, None),
                    Hash::new(&stamp.root),
                )
            }),
            host: tx.host.to_string(),
            api_href: format!(
                "/api/scanner/txs/{}",
                crate::present::path_segment(&record.id)
            ),
        })
    }
}
