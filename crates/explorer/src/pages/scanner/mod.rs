//! The pages of the application's ledger, at the addresses of the application's own scanner.
//!
//! | path | page |
//! | --- | --- |
//! | `/scanner` | the dashboard: head, hours, newest transactions, most frequent events |
//! | `/scanner?view=txs`, `view=apu` | transactions with filters, live |
//! | `/scanner?view=nodes`, `/scanner/nodes/{id}` | the directory; an account |
//! | `/scanner?view=blocks`, `/scanner/blocks/{rev}` | revisions of the world; one with its leaves |
//! | `/scanner?view=spaces`, `/scanner/spaces/{id}`, `/scanner/games/{id}` | spaces and games |
//! | `/scanner?view=talk`, `view=analytics` | talking; behaviour |
//! | `/scanner/txs/{id}` | every field of a transaction |
//! | `/scanner?search=` | what a text names |
//!
//! What may not be public is not shown here either: balances and details as the options say, events by their public properties.

mod analytics;
mod blocks;
mod card;
mod dashboard;
mod nodes;
mod paths;
mod search;
mod spaces;
mod tx;
mod txs;

use std::pin::Pin;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use cairn_http::{PathParams, QueryParams};
use cairn_scanner::{Scanner, StreamId, Tx};
use cairn_stream::EntryId;

use crate::error::PageError;
use crate::ledger::{Card, Findings, Ledger, LedgerFuture};
use crate::live::Places;
use crate::live::tail::{Entry, Source, SourceFuture, Tail};
use crate::pulse::{Measure, Pulse, Reading};
use crate::respond;
use crate::site::{LedgerLink, Section, Shell, Site};

/// Id of the ledger within the site.
const ID: &str = "scanner";
/// Rows on one page.
const ROWS_PER_PAGE: usize = 25;

/// The application's ledger as a ledger of the site.
pub(crate) struct ScannerLedger {
    scanner: Scanner,
    tail: Arc<Tail<TxSource>>,
    pulse: Arc<Pulse>,
}

/// The ledger's pages within the site: what their handlers share.
#[derive(Clone)]
struct Pages {
    ledger: Arc<ScannerLedger>,
    site: Arc<Site>,
}

/// Transactions for the live tail.
pub(crate) struct TxSource(Scanner);

/// A place in the stream as the tail takes it.
fn entry_id(place: StreamId) -> Result<EntryId, PageError> {
    place
        .to_string()
        .parse()
        .map_err(|error| PageError::Internal(format!("{error}")))
}

impl Source for TxSource {
    /// Entries that are no transaction are kept: they are places, too.
    type Item = Option<Arc<Tx>>;

    fn newest(&self) -> SourceFuture<'_, EntryId> {
        Box::pin(async { entry_id(self.0.newest_place().await?) })
    }

    fn after(&self, place: EntryId, count: usize) -> SourceFuture<'_, Vec<Entry<Self::Item>>> {
        Box::pin(async move {
            let place = StreamId::parse(&place.to_string())
                .ok_or_else(|| PageError::Internal(format!("{place} is no place")))?;
            let (entries, _) = self.0.feed_after(place, count).await?;
            entries
                .iter()
                .map(|entry| {
                    Ok(Entry {
                        id: entry_id(entry.id)?,
                        item: self.0.tx_of_feed(entry).map(Arc::new),
                    })
                })
                .collect()
        })
    }
}

impl ScannerLedger {
    /// A ledger over the application's ledger.
    pub(crate) fn new(scanner: Scanner, pulse: Arc<Pulse>, places: Places) -> Arc<Self> {
        Arc::new(Self {
            tail: Tail::new(TxSource(scanner.clone()), places),
            scanner,
            pulse,
        })
    }

    /// The transactions that come, to be followed.
    pub(crate) fn tail(&self) -> Arc<Tail<TxSource>> {
        Arc::clone(&self.tail)
    }

    /// The ledger's own pages, with their whole paths.
    pub(crate) fn pages(self: Arc<Self>, site: &Arc<Site>) -> Router {
        let at = |path: &str| format!("{}{path}", paths::ROOT);
        Router::new()
            .route(paths::ROOT, get(root))
            .route(&at("/live"), get(live))
            .route(&at("/txs/{id}"), get(one_tx))
            .route(&at("/nodes/{id}"), get(one_node))
            .route(&at("/blocks/{rev}"), get(one_block))
            .route(&at("/spaces/{id}"), get(one_space))
            .route(&at("/games/{id}"), get(one_game))
            .route(&at("/search"), get(search_here))
            .with_state(Pages {
                site: Arc::clone(site),
                ledger: self,
            })
    }
}

impl Ledger for ScannerLedger {
    fn id(&self) -> &str {
        ID
    }

    fn link(&self) -> LedgerLink {
        LedgerLink {
            id: ID.to_owned(),
            href: paths::ROOT.to_owned(),
            sections: vec![
                Section::new("dashboard", "Dashboard", paths::ROOT.to_owned()),
                Section::new("txs", "Transactions", paths::view("txs")),
                Section::new("apu", "APU", paths::view("apu")),
                Section::new("nodes", "Nodes", paths::view("nodes")),
                Section::new("blocks", "Blocks", paths::view("blocks")),
                Section::new("spaces", "Spaces", paths::view("spaces")),
                Section::new("talk", "Talk", paths::view("talk")),
                Section::new("analytics", "Analytics", paths::view("analytics")),
            ],
        }
    }

    fn card(&self, now: u64) -> LedgerFuture<'_, Card> {
        Box::pin(card::make(self, now))
    }

    fn search<'a>(&'a self, query: &'a str, _quick: bool) -> LedgerFuture<'a, Findings> {
        Box::pin(search::find(&self.scanner, query))
    }

    fn read_pulse(&self) -> Pin<Box<dyn Future<Output = Reading> + Send + '_>> {
        Box::pin(async {
            let Ok(head) = self.scanner.head().await else {
                return Reading::default();
            };
            Reading {
                mark: head.fingerprint(),
                values: vec![("txs", Measure::Level(head.txs as f64))],
            }
        })
    }
}

impl Pages {
    fn scanner(&self) -> &Scanner {
        &self.ledger.scanner
    }

    fn frame(&self, title: &str, section: &'static str) -> Shell {
        self.site.ledger_shell(ID, title).at(section)
    }

    /// The answer with a page, or with what went wrong.
    fn answer<T: Template>(&self, made: Result<T, PageError>) -> Response {
        match made.and_then(|page| Ok(page.render()?)) {
            Ok(html) => respond::page(html, None),
            Err(error) => respond::error(&self.site, Some(ID), "", error),
        }
    }
}

type Chosen = State<Pages>;

async fn root(State(pages): Chosen, query: QueryParams) -> Response {
    if let Some(text) = query.get("search") {
        return find(pages, Some(text)).await;
    }
    match query.get("view").unwrap_or("dashboard") {
        "dashboard" => pages.answer(dashboard::DashboardPage::read(&pages).await),
        "txs" => pages.answer(txs::TxsPage::read(&pages, &query, "txs").await),
        "apu" => pages.answer(txs::TxsPage::read(&pages, &query, "apu").await),
        "nodes" => pages.answer(nodes::NodesPage::read(&pages, &query).await),
        "blocks" => pages.answer(blocks::BlocksPage::read(&pages, &query).await),
        "spaces" => pages.answer(spaces::SpacesPage::read(&pages, &query).await),
        "talk" => pages.answer(spaces::TalkPage::read(&pages).await),
        "analytics" => pages.answer(analytics::AnalyticsPage::read(&pages, &query).await),
        other => {
            let other: String = other.chars().take(64).collect();
            let error =
                PageError::not_found(format!("The ledger has no view \u{201c}{other}\u{201d}."));
            respond::error(&pages.site, Some(ID), "", error)
        }
    }
}

async fn live(State(pages): Chosen, query: QueryParams, headers: HeaderMap) -> Response {
    let after = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .or_else(|| query.get("after"))
        .filter(|text| !text.is_empty());
    let after = match after.map(str::parse::<EntryId>).transpose() {
        Ok(after) => after,
        Err(error) => {
            let error = PageError::BadRequest(error.to_string());
            return respond::error(&pages.site, Some(ID), "", error);
        }
    };
    let wanted = match txs::Wanted::of(&query, query.get("view").unwrap_or("txs")) {
        Ok(wanted) => wanted,
        Err(error) => return respond::error(&pages.site, Some(ID), "", error),
    };
    pages.ledger.tail.listen(
        after,
        move |item| item.as_ref().is_some_and(|tx| wanted.takes(tx)),
        |entry| {
            entry
                .item
                .as_ref()
                .map_or_else(String::new, |tx| txs::row_markup(tx))
        },
    )
}

async fn one_tx(State(pages): Chosen, path: PathParams) -> Response {
    pages.answer(tx::TxPage::read(&pages, path.get(0)).await)
}

async fn one_node(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    pages.answer(nodes::ProfilePage::read(&pages, path.get(0), &query).await)
}

async fn one_block(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    pages.answer(blocks::BlockPage::read(&pages, path.get(0), &query).await)
}

async fn one_space(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    pages.answer(spaces::SpacePage::read(&pages, path.get(0), &query).await)
}

async fn one_game(State(pages): Chosen, path: PathParams) -> Response {
    pages.answer(spaces::GamePage::read(&pages, path.get(0)).await)
}

async fn search_here(State(pages): Chosen, query: QueryParams) -> Response {
    find(pages, query.get("q")).await
}

async fn find(pages: Pages, text: Option<&str>) -> Response {
    let site = Arc::clone(&pages.site);
    crate::pages::search::answer(site, vec![pages.ledger], Some(ID.to_owned()), text).await
}
