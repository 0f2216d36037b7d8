//! The ledger's card on the home page.

use askama::Template;

use super::dashboard::hour_bars;
use super::txs::TxRow;
use super::{ID, ScannerLedger, paths};
use crate::error::PageError;
use crate::ledger::Card;
use crate::pages::card::{CardView, Gauge};
use crate::present::{age_ms, count};

/// Newest transactions on the card.
const CARD_TXS: usize = 6;

/// The newest transactions.
#[derive(Template)]
#[template(path = "scanner/card_body.html")]
struct CardBody {
    rows: Vec<TxRow>,
    /// The card is replaced as a whole.
    tail: Option<String>,
    txs_href: String,
}

/// Makes the card.
pub(super) async fn make(ledger: &ScannerLedger, now: u64) -> Result<Card, PageError> {
    let scanner = &ledger.scanner;
    let head = scanner.head().await?;
    let hours = scanner.hours().await?;
    let page = scanner
        .txs(&cairn_scanner::TxFilter::default(), None, CARD_TXS)
        .await?;
    let last = head.last_tx.map_or_else(
        || "none yet".to_owned(),
        |at| format!("last {}", age_ms(now, at.ms())),
    );
    let mut gauges = vec![
        Gauge::new("Transactions, 24 h", count(head.txs), last)
            .link(paths::view("txs"))
            .bars(
                "Transactions by hour",
                hour_bars(&hours, "transactions", |hour| hour.txs),
            ),
        Gauge::new(
            "APU minted, 24 h",
            count(head.minted),
            "in whole hours, UTC",
        )
        .link(paths::view("apu"))
        .bars(
            "APU minted by hour",
            hour_bars(&hours, "APU minted", |hour| hour.minted),
        ),
        Gauge::new(
            "APU burned, 24 h",
            count(head.burned),
            "in whole hours, UTC",
        )
        .link(paths::view("apu"))
        .bars(
            "APU burned by hour",
            hour_bars(&hours, "APU burned", |hour| hour.burned),
        ),
    ];
    gauges.push(match &head.block {
        Some(block) => Gauge::new(
            "Revision",
            count(block.rev.unsigned_abs()),
            format!(
                "{} leaves",
                count(block.leaf_count.unwrap_or(0).unsigned_abs())
            ),
        )
        .link(paths::block(block.rev, None)),
        None => Gauge::new("Revision", "none", "none published yet"),
    });
    let (_, health) = ledger.pulse.health().ready_json();
    let services = &health["services"];
    let state = head.migration.as_str();
    let is_busy = state == "running";
    let body = CardBody {
        rows: page.txs.iter().map(TxRow::new).collect(),
        tail: None,
        txs_href: paths::view("txs"),
    };
    CardView {
        id: ID.to_owned(),
        href: paths::ROOT.to_owned(),
        what: format!("Application ledger {}", scanner.options().host),
        state: if is_busy {
            "taking in what was before".to_owned()
        } else {
            "up to date".to_owned()
        },
        tone: if is_busy { "warn" } else { "good" },
        reason: services["scanner"]["reason"].as_str().map(str::to_owned),
        raw: Some(("/api/scanner/head".to_owned(), "Scanner API")),
        progress: None,
        gauges,
        body: body.render()?,
    }
    .finish(is_busy)
}
