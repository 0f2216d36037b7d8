//! `/scanner`: the head of the ledger, its last hours, its newest transactions, its most frequent events.

use askama::Template;
use cairn_scanner::{Head, HourFigures, Scanner};

use super::txs::TxRow;
use super::{Pages, paths};
use crate::error::PageError;
use crate::present::{Bars, Hash, Moment, count};
use crate::site::Shell;

/// Newest transactions shown.
const NEWEST: usize = 15;

/// The page.
#[derive(Template)]
#[template(path = "scanner/dashboard.html")]
pub(super) struct DashboardPage {
    shell: Shell,
    head: HeadView,
    hours: Hours,
    rows: Vec<TxRow>,
    tail: Option<String>,
    txs_href: String,
    analytics_href: String,
    top: Vec<(String, String)>,
}

/// The figures of the head.
pub(super) struct HeadView {
    block: Option<(String, String, Hash, String)>,
    txs: String,
    minted: String,
    burned: String,
    window: String,
    last_tx: Option<Moment>,
    state: &'static str,
    /// Whether a backfill is at work.
    is_busy: bool,
    platform: Option<[(&'static str, String); 4]>,
}

impl HeadView {
    /// Puts a head into words.
    fn new(head: &Head) -> Self {
        let state = head.migration.as_str();
        HeadView {
            block: head.block.as_ref().map(|block| {
                (
                    count(block.rev.unsigned_abs()),
                    paths::block(block.rev, None),
                    Hash::new(&block.root),
                    block
                        .leaf_count
                        .map(|leaves| count(leaves.unsigned_abs()))
                        .unwrap_or_default(),
                )
            }),
            txs: count(head.txs),
            minted: count(head.minted),
            burned: count(head.burned),
            window: format!("from {} to {}", head.window.from(), head.window.to()),
            last_tx: head.last_tx.map(|at| Moment(at.ms())),
            is_busy: state == "running",
            state,
            platform: head.platform.as_ref().map(|platform| {
                [
                    ("Genesis nodes", count(platform.genesis_nodes)),
                    ("People", count(platform.main_nodes)),
                    ("Agents", count(platform.agent_nodes)),
                    ("Agents in the world", count(platform.agents_in_world)),
                ]
            }),
        }
    }
}

/// The last hours as charts.
struct Hours {
    txs: Bars,
    minted: Bars,
    burned: Bars,
}

/// Bars of one figure.
pub(super) fn hour_bars(
    hours: &[HourFigures],
    what: &str,
    figure: impl Fn(&HourFigures) -> u64,
) -> Vec<(f64, String)> {
    hours
        .iter()
        .map(|hour| {
            let n = figure(hour);
            let start = hour.start.to_string();
            // The hour is enough: 2026-03-10T14:00.
            let start = start.get(..16).unwrap_or(&start).to_owned();
            (n as f64, format!("{start} UTC: {} {what}", count(n)))
        })
        .collect()
}

impl DashboardPage {
    /// Reads the page.
    pub(super) async fn read(pages: &Pages) -> Result<Self, PageError> {
        let scanner: &Scanner = pages.scanner();
        let place = scanner.newest_place().await?;
        let head = scanner.head().await?;
        let hours = scanner.hours().await?;
        let page = scanner
            .txs(&cairn_scanner::TxFilter::default(), None, NEWEST)
            .await?;
        let overview = scanner.overview(Scanner::OVERVIEW_TOP).await?;
        let bars = |label: &str, what: &str, figure: fn(&HourFigures) -> u64| {
            Bars::new(label, hour_bars(&hours, what, figure))
        };
        Ok(DashboardPage {
            shell: pages.frame("Ledger", "dashboard").live(),
            head: HeadView::new(&head),
            hours: Hours {
                txs: bars(
                    "Transactions by hour (UTC), last 24 hours",
                    "transactions",
                    |h| h.txs,
                ),
                minted: bars(
                    "APU minted by hour (UTC), last 24 hours",
                    "APU minted",
                    |h| h.minted,
                ),
                burned: bars(
                    "APU burned by hour (UTC), last 24 hours",
                    "APU burned",
                    |h| h.burned,
                ),
            },
            rows: page.txs.iter().map(TxRow::new).collect(),
            tail: Some(format!("{}/live?after={place}", paths::ROOT)),
            txs_href: paths::view("txs"),
            analytics_href: paths::view("analytics"),
            top: overview
                .top_in_window
                .iter()
                .map(|(name, n)| (name.clone(), count(*n)))
                .collect(),
        })
    }
}
