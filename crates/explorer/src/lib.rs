//! The explorer: one web application over every ledger, made on the server, usable without JavaScript and without any
//! resource from another host.
//!
//! | path | page |
//! | --- | --- |
//! | `/` | every ledger with its state, and the health of the process |
//! | `/search?q=`, `/search/suggest?q=` | search in all ledgers; suggestions while typing, as JSON |
//! | `/live?on=` | signals that pages are out of date, see `live` |
//! | `/{chain}/blocks[/{start}]`, `/{chain}/block/{hash or height}`, `/{chain}/tx/{txid}` | a UTXO chain |
//! | `/{chain}/address/{address}[/utxo]`, `/{chain}/scripthash/{hash}[/utxo]` | one script: totals, history, unspent outputs |
//! | `/{chain}/mempool`, `/{chain}/broadcast` | unconfirmed transactions and fees; sending one |
//! | `/{chain}/events`, `/{chain}/event/{id}`, `/{chain}/block/{number}`, … | an Antelope chain, see `pages::antelope` |
//! | `/scanner`, `/scanner/txs/{id}`, … | the application's ledger, see `pages::scanner` |
//!
//! With a single UTXO chain, or a single one of Bitcoin, its paths work without the chain's name, too: they redirect.
//!
//! The rooms: `pages` has one module per page and one folder per kind of ledger, `present` turns values into text,
//! `templates/` holds the markup, `assets/` style sheet and scripts. What a ledger must offer to the site is in `ledger`. `live`
//! pushes, `pulse` measures.
//!
//! This crate reads through query types alone: it sees no row and no key, and writes nothing but what a reader sends on
//! purpose (a transaction to the node).

mod assets;
mod error;
mod ledger;
mod live;
mod pages;
mod present;
mod pulse;
mod respond;
mod site;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use cairn_esplora::NodeCalls;
use cairn_http::{BlockingPool, QueryParams, Token};
use cairn_redis::Redis;
use cairn_scanner::Scanner;
use cairn_stream::ChainLabel;
use cairn_telemetry::Health;
use cairn_utxo_index::{Index, Network};
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;

use crate::error::PageError;
use crate::ledger::Ledger;
use crate::live::{Places, Signals};
use crate::pages::antelope::AntelopeLedger;
use crate::pages::scanner::ScannerLedger;
use crate::pages::utxo::UtxoLedger;
use crate::pages::utxo::chain::Chain;
use crate::pulse::Pulse;
use crate::site::Site;

/// Pages that may be live at once, over all readers.
const LIVE_PAGES_MAX: usize = 512;

/// What the explorer shows.
pub struct ExplorerState {
    /// The UTXO chains, in the order in which they are listed.
    pub chains: Vec<ChainEntry>,
    /// The Antelope chains.
    pub antelope: Vec<AntelopeEntry>,
    /// The application's ledger.
    pub scanner: Option<Scanner>,
    /// How everything is.
    pub health: Health,
    /// Where the blocking reads of pages run.
    pub pool: BlockingPool,
    /// Ends what is live.
    pub stop: CancellationToken,
}

/// One UTXO chain of the explorer.
pub struct ChainEntry {
    /// The chain id: first segment of the chain's paths (`[A-Za-z0-9._-]{1,64}`).
    pub id: String,
    /// Its index; while the first load runs, pages show how far it is.
    pub index: Arc<Index>,
    /// Its network: decides how addresses are written.
    pub network: Network,
    /// Where its Esplora API is served, for the links to raw data: `/bitcoin-regtest/api`.
    pub api_base: String,
    /// Its node, which takes transactions and estimates fees; none for a chain read from files.
    pub node: Option<Arc<dyn NodeCalls>>,
}

/// One Antelope chain of the explorer.
pub struct AntelopeEntry {
    /// The chain id: first segment of the chain's paths and name of its stream.
    pub chain: ChainLabel,
    /// Where its stream is.
    pub redis: Redis,
    /// Lets readers who have it give dead letters out again; without one nobody can.
    pub replay_token: Option<Token>,
}

/// What the handlers of the site share.
#[derive(Clone)]
pub(crate) struct SiteState {
    site: Arc<Site>,
    ledgers: Arc<[Arc<dyn Ledger>]>,
    pulse: Arc<Pulse>,
}

/// Work that goes on while the site is served.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The site: a router, and the work behind its live pages.
pub struct Explorer {
    router: Router,
    work: Vec<Work>,
    stop: CancellationToken,
}

/// Makes the pages of one ledger, once the site is there.
type LedgerRouter = Box<dyn FnOnce(&Arc<Site>) -> Router>;

impl Explorer {
    /// Makes the site. Reads nothing yet.
    pub fn new(state: ExplorerState) -> Self {
        let pulse = Pulse::new(state.health);
        let places = Places::new(LIVE_PAGES_MAX, state.stop.clone());
        let mut ledgers: Vec<Arc<dyn Ledger>> = Vec::new();
        let mut work: Vec<Work> = Vec::new();
        let mut routers: Vec<LedgerRouter> = Vec::new();
        let single = unnamed_chain(state.chains.iter().map(|entry| &entry.network))
            .and_then(|at| state.chains.get(at))
            .map(|only| Arc::from(only.id.as_str()));
        for entry in state.chains {
            let chain = Chain {
                id: entry.id,
                network: entry.network,
                api_base: entry.api_base,
            };
            let ledger = Arc::new(UtxoLedger::new(
                chain,
                entry.index,
                entry.node,
                Arc::clone(&pulse),
                state.pool.clone(),
            ));
            ledgers.push(Arc::clone(&ledger) as Arc<dyn Ledger>);
            routers.push(Box::new(move |site| ledger.pages(site)));
        }
        for entry in state.antelope {
            let ledger = AntelopeLedger::new(entry, Arc::clone(&pulse), places.clone());
            work.push(Box::pin(ledger.tail().run()));
            ledgers.push(Arc::clone(&ledger) as Arc<dyn Ledger>);
            routers.push(Box::new(move |site| ledger.pages(site)));
        }
        if let Some(scanner) = state.scanner {
            let ledger = ScannerLedger::new(scanner, Arc::clone(&pulse), places.clone());
            work.push(Box::pin(ledger.tail().run()));
            ledgers.push(Arc::clone(&ledger) as Arc<dyn Ledger>);
            routers.push(Box::new(move |site| ledger.pages(site)));
        }
        let site = Site::of(&ledgers);
        let mut pages = Router::new();
        for router in routers {
            pages = pages.merge(router(&site));
        }
        let ledgers: Arc<[Arc<dyn Ledger>]> = ledgers.into();
        work.push(Box::pin(Arc::clone(&pulse).run(Arc::clone(&ledgers))));
        let signals = Signals {
            pulse: Arc::clone(&pulse),
            places,
            run: run_mark().into(),
        };
        let state_of_site = SiteState {
            site,
            ledgers,
            pulse,
        };
        Self {
            router: assemble(state_of_site, signals, pages, single),
            work,
            stop: state.stop,
        }
    }

    /// The pages, to be merged with the routers of the APIs. There is a fallback: a page that says that there is no such
    /// page.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Keeps live pages live until the process is asked to stop. Without it the pages are served and do not change by
    /// themselves.
    pub async fn run(self) {
        let all = futures_util::future::join_all(self.work);
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = all => {}
        }
    }
}

/// Tells one run of the program from another.
fn run_mark() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("{:x}", since.as_nanos())
}

/// The chain whose name may be left out of paths: the only UTXO chain, or the only one of Bitcoin beside others. Its place
/// among the networks given.
pub fn unnamed_chain<'a>(networks: impl IntoIterator<Item = &'a Network>) -> Option<usize> {
    let networks: Vec<&Network> = networks.into_iter().collect();
    if networks.len() == 1 {
        return Some(0);
    }
    let mut bitcoin = networks
        .iter()
        .enumerate()
        .filter(|(_, network)| network.bitcoin().is_some());
    match (bitcoin.next(), bitcoin.next()) {
        (Some((at, _)), None) => Some(at),
        _ => None,
    }
}

/// The pages of the whole site around those of the ledgers.
fn assemble(state: SiteState, signals: Signals, pages: Router, single: Option<Arc<str>>) -> Router {
    let site = Arc::clone(&state.site);
    let mut router = Router::new()
        .route("/", get(pages::home::show))
        .route("/search", get(search_everywhere))
        .route("/search/suggest", get(suggest))
        .fallback(no_such_page)
        .with_state(state)
        .merge(
            Router::new()
                .route(live::PATH, get(live::signals))
                .with_state(signals),
        );
    if let Some(only) = single {
        tracing::debug!(chain = %only, "paths without a chain lead to the only one");
        router = router.merge(short_paths(only));
    }
    router
        .merge(assets::routes())
        .merge(pages)
        .layer(CompressionLayer::new().gzip(true))
        .layer(middleware::from_fn_with_state(site, respond::finish))
}

/// The paths that work without a chain's name.
fn short_paths(only: Arc<str>) -> Router {
    let mut router = Router::new();
    for path in [
        "/blocks",
        "/blocks/{start}",
        "/block/{name}",
        "/tx/{txid}",
        "/mempool",
        "/address/{address}",
        "/address/{address}/utxo",
        "/scripthash/{hash}",
        "/scripthash/{hash}/utxo",
    ] {
        router = router.route(path, get(to_the_only_chain));
    }
    router.with_state(only)
}

async fn search_everywhere(State(state): State<SiteState>, query: QueryParams) -> Response {
    pages::search::answer(state.site, state.ledgers.to_vec(), None, query.get("q")).await
}

async fn suggest(State(state): State<SiteState>, query: QueryParams) -> Response {
    pages::search::suggest(state.ledgers.to_vec(), query.get("q")).await
}

async fn to_the_only_chain(State(id): State<Arc<str>>, OriginalUri(uri): OriginalUri) -> Response {
    let query = uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    respond::redirect(&format!("/{id}{}{query}", uri.path()))
}

/// Where no route matched: the bare name of a ledger leads to its first page (as a route of its own it could collide with
/// another page, whatever the operator calls the chain); anything else is no page.
async fn no_such_page(State(state): State<SiteState>, OriginalUri(uri): OriginalUri) -> Response {
    let name = uri.path().trim_start_matches('/');
    if let Some(link) = state.site.ledgers.iter().find(|link| link.id == name) {
        return respond::redirect(&link.href);
    }
    let text = format!("There is no page \u{201c}{}\u{201d}.", uri.path());
    respond::error(&state.site, None, "", PageError::not_found(text))
}
