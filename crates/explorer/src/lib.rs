//! The explorer: web pages over the indexes, made on the server, usable without JavaScript and without any resource
//! from another host.
//!
//! | path | page |
//! | --- | --- |
//! | `/` | every ledger: tip, state of the index, newest blocks, search |
//! | `/search?q=` | search in all ledgers |
//! | `/{chain}/blocks[/{start}]` | the best chain from a height downward |
//! | `/{chain}/block/{hash or height}` | one block, 25 transactions a page |
//! | `/{chain}/tx/{txid}` | one transaction |
//! | `/{chain}/address/{address}[/utxo]`, `/{chain}/scripthash/{hash}[/utxo]` | one script: totals, history, unspent outputs |
//! | `/{chain}/search?q=` | search in one chain |
//!
//! With a single chain the same paths work without the chain's name: they redirect.
//!
//! The rooms: `pages` has one module per page and one folder per kind of ledger, `present` turns values into text,
//! `templates/` holds the markup, `assets/` the style sheet. What a ledger must offer to the site is in `ledger`.
//!
//! This crate reads through query types alone: it sees no row and no key, writes nothing, and keeps no state between
//! requests.

mod assets;
mod error;
mod ledger;
mod pages;
mod present;
mod respond;
mod site;

use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use cairn_http::{BlockingPool, QueryParams};
use cairn_utxo_index::{Index, Network};

use crate::error::PageError;
use crate::ledger::Ledger;
use crate::pages::utxo::UtxoLedger;
use crate::pages::utxo::chain::Chain;
use crate::site::Site;

/// What the explorer shows.
pub struct ExplorerState {
    /// The UTXO chains, in the order in which they are listed.
    pub chains: Vec<ChainEntry>,
    /// Where the reads of pages run.
    pub pool: BlockingPool,
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
}

/// What the handlers of the site share.
#[derive(Clone)]
pub(crate) struct SiteState {
    site: Arc<Site>,
    ledgers: Arc<[Arc<dyn Ledger>]>,
    pool: BlockingPool,
}

/// The pages as a router, to be merged with those of the APIs. It has a fallback of its own: a page that says that
/// there is no such page.
pub fn router(state: ExplorerState) -> Router {
    let site = Site::new(state.chains.iter().map(|chain| chain.id.clone()).collect());
    let mut pages = Router::new();
    let mut ledgers: Vec<Arc<dyn Ledger>> = Vec::new();
    for entry in state.chains {
        let chain = Chain {
            id: entry.id,
            network: entry.network,
            api_base: entry.api_base,
        };
        let ledger = Arc::new(UtxoLedger::new(
            chain,
            entry.index,
            Arc::clone(&site),
            state.pool.clone(),
        ));
        pages = pages.merge(Arc::clone(&ledger).pages());
        ledgers.push(ledger);
    }
    assemble(
        SiteState {
            site,
            ledgers: ledgers.into(),
            pool: state.pool,
        },
        pages,
    )
}

/// The pages of the whole site around those of the ledgers.
fn assemble(state: SiteState, pages: Router) -> Router {
    let site = Arc::clone(&state.site);
    let mut router = Router::new()
        .route("/", get(pages::home::show))
        .route("/search", get(search_everywhere));
    if let [only] = state.site.ledgers.as_slice() {
        for path in ["/blocks", "/blocks/{start}", "/block/{name}", "/tx/{txid}"] {
            router = router.route(path, get(to_the_only_ledger));
        }
        for kind in ["/address/{address}", "/scripthash/{hash}"] {
            router = router
                .route(kind, get(to_the_only_ledger))
                .route(&format!("{kind}/utxo"), get(to_the_only_ledger));
        }
        tracing::debug!(ledger = only, "paths without a ledger lead to the only one");
    }
    router
        .fallback(no_such_page)
        .with_state(state)
        .merge(assets::routes())
        .merge(pages)
        .layer(middleware::from_fn_with_state(site, respond::finish))
}

async fn search_everywhere(State(state): State<SiteState>, query: QueryParams) -> Response {
    pages::search::answer(
        state.site,
        state.pool,
        state.ledgers.to_vec(),
        None,
        query.get("q"),
    )
    .await
}

/// With a single ledger, its name may be left out.
async fn to_the_only_ledger(
    State(state): State<SiteState>,
    OriginalUri(uri): OriginalUri,
) -> Response {
    let id = state.site.ledgers.first().map_or("", String::as_str);
    let query = uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    respond::redirect(&format!("/{id}{}{query}", uri.path()))
}

/// Where no route matched: the bare name of a ledger leads to its blocks (as a route of its own it could collide with
/// another page, whatever the operator calls the chain); anything else is no page.
async fn no_such_page(State(state): State<SiteState>, OriginalUri(uri): OriginalUri) -> Response {
    let name = uri.path().trim_start_matches('/');
    if state.site.ledgers.iter().any(|id| id == name) {
        return respond::redirect(&format!("/{name}/blocks"));
    }
    let text = format!("There is no page \u{201c}{}\u{201d}.", uri.path());
    respond::error(&state.site, None, "", PageError::not_found(text))
}
