//! The pages of a UTXO chain. Every page is read from one [`View`]: one tip, one state, whatever the indexer does
//! meanwhile.

mod address;
mod block;
mod blocks;
pub(crate) mod chain;
mod progress;
#[cfg(test)]
mod samples;
mod search;
mod tx;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_http::{BlockingPool, CacheClass, Conditions, ETag, PathParams, QueryParams};
use cairn_utxo_index::{BlockRef, Index, View};

use self::address::{HistoryPage, Subject, UnspentPage};
use self::block::BlockPage;
use self::blocks::{BlockRow, BlocksPage};
use self::chain::Chain;
use self::progress::ProgressView;
use self::tx::{CoinSelection, TxPage};
use crate::error::PageError;
use crate::ledger::{Card, Findings, Ledger};
use crate::present::{Hash, Stamp, age, count};
use crate::respond;
use crate::site::{Shell, Site};

/// Newest blocks on the home page.
const CARD_BLOCKS: u32 = 8;
/// Seconds for which a page with ages may be called unchanged.
const AGE_STEP_SECONDS: u64 = 60;

/// One UTXO chain as a ledger of the site.
pub(crate) struct UtxoLedger {
    chain: Chain,
    index: Arc<Index>,
    site: Arc<Site>,
    pool: BlockingPool,
}

/// What a page is made from.
struct Scene<'a> {
    ledger: &'a UtxoLedger,
    view: &'a View,
    /// Unix seconds.
    now: u64,
}

/// What a request is answered with.
enum Answer<T> {
    /// A page.
    Page(T),
    /// The path of another page.
    Redirect(String),
}

impl Scene<'_> {
    fn chain(&self) -> &Chain {
        &self.ledger.chain
    }

    fn frame(&self, title: &str) -> Frame {
        let chain = self.ledger.chain.clone();
        let shell = self.ledger.site.ledger_shell(&chain.id, title);
        Frame {
            shell,
            chain,
            tip: self.view.tip(),
            now: self.now,
        }
    }
}

/// What a page needs besides the records that it shows.
struct Frame {
    shell: Shell,
    chain: Chain,
    /// The tip of the view.
    tip: BlockRef,
    /// Unix seconds.
    now: u64,
}

impl Frame {
    /// Confirmations of a block of the best chain.
    fn confirmations(&self, height: u32) -> String {
        count(u64::from(self.tip.height.saturating_sub(height)) + 1)
    }
}

/// The chain's card on the home page.
#[derive(Template)]
#[template(path = "utxo/card.html")]
struct ChainCard<'a> {
    chain: &'a Chain,
    tip: Option<CardTip>,
    rows: Vec<BlockRow>,
    state: String,
    busy: bool,
    progress: String,
}

/// The newest block.
struct CardTip {
    height: String,
    href: String,
    hash: Hash,
    time: Stamp,
    age: String,
}

impl UtxoLedger {
    /// A ledger over an index.
    pub(crate) fn new(
        chain: Chain,
        index: Arc<Index>,
        site: Arc<Site>,
        pool: BlockingPool,
    ) -> Self {
        UtxoLedger {
            chain,
            index,
            site,
            pool,
        }
    }

    /// The newest view, or the page that says how far the first load is.
    fn view(&self) -> Result<Arc<View>, PageError> {
        self.index.view().ok_or_else(
            || match ProgressView::new(&self.index.progress()).render() {
                Ok(progress) => PageError::Indexing {
                    ledger: self.chain.id.clone(),
                    progress,
                },
                Err(error) => error.into(),
            },
        )
    }

    /// Answers a request with a page made on the blocking pool from the newest view.
    async fn show<T, F>(self: Arc<Self>, known: Conditions, make: F) -> Response
    where
        T: Template,
        F: FnOnce(&Scene<'_>) -> Result<Answer<T>, PageError> + Send + 'static,
    {
        let site = Arc::clone(&self.site);
        let id = self.chain.id.clone();
        let fail = |error| respond::error(&site, Some(&id), "", error);
        let view = match self.view() {
            Ok(view) => view,
            Err(error) => return fail(error),
        };
        let now = respond::now();
        let tip = view.tip();
        let etag = ETag::of_state(&[&tip.hash[..], &(now / AGE_STEP_SECONDS).to_be_bytes()]);
        if known.name_tag(&etag) {
            return cairn_http::unchanged(&etag, CacheClass::Short);
        }
        let pool = self.pool.clone();
        let work = move || -> Result<Answer<String>, PageError> {
            Ok(
                match make(&Scene {
                    ledger: &self,
                    view: &view,
                    now,
                })? {
                    Answer::Page(page) => Answer::Page(page.render()?),
                    Answer::Redirect(path) => Answer::Redirect(path),
                },
            )
        };
        match pool.run(work).await {
            Ok(Ok(Answer::Page(html))) => respond::page(html, Some(etag)),
            Ok(Ok(Answer::Redirect(path))) => respond::redirect(&path),
            Ok(Err(error)) => fail(error),
            Err(error) => fail(error.into()),
        }
    }
}

impl Ledger for UtxoLedger {
    fn id(&self) -> &str {
        &self.chain.id
    }

    fn card(&self, now: u64) -> Result<Card, PageError> {
        let progress = ProgressView::new(&self.index.progress());
        let busy = progress.busy;
        let (tip, rows) = match self.index.view() {
            None => (None, Vec::new()),
            Some(view) => {
                let tip = view.tip();
                let rows = blocks::rows(&self.chain, &view, tip.height, CARD_BLOCKS, now)?;
                let tip = CardTip {
                    height: count(tip.height.into()),
                    href: self.chain.block_href(&tip.hash),
                    hash: Hash::new(tip.hash),
                    time: Stamp(tip.time),
                    age: age(now, tip.time),
                };
                (Some(tip), rows)
            }
        };
        let state = progress.stage.clone();
        let progress = progress.render()?;
        let card = ChainCard {
            chain: &self.chain,
            tip,
            rows,
            state,
            busy,
            progress,
        };
        Ok(Card {
            html: card.render()?,
            busy,
        })
    }

    fn search(&self, query: &str) -> Result<Findings, PageError> {
        let view = self.view()?;
        search::find(&self.chain, &view, query)
    }

    fn pages(self: Arc<Self>) -> Router {
        let at = |path: &str| format!("/{}{path}", self.chain.id);
        Router::new()
            .route(&at("/blocks"), get(blocks_newest))
            .route(&at("/blocks/{start}"), get(blocks_from))
            .route(&at("/block/{name}"), get(one_block))
            .route(&at("/tx/{txid}"), get(one_tx))
            .route(&at("/address/{address}"), get(one_address))
            .route(&at("/address/{address}/utxo"), get(address_utxo))
            .route(&at("/scripthash/{hash}"), get(one_script))
            .route(&at("/scripthash/{hash}/utxo"), get(script_utxo))
            .route(&at("/search"), get(search_here))
            .with_state(self)
    }
}

type Chosen = State<Arc<UtxoLedger>>;

async fn blocks_newest(State(ledger): Chosen, known: Conditions) -> Response {
    ledger
        .show(known, |scene| BlocksPage::read(scene, None))
        .await
}

async fn blocks_from(State(ledger): Chosen, path: PathParams, known: Conditions) -> Response {
    ledger
        .show(known, move |scene| {
            BlocksPage::read(scene, Some(path.get(0)))
        })
        .await
}

async fn one_block(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            BlockPage::read(scene, path.get(0), query.get("page"))
        })
        .await
}

async fn one_tx(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            let selection = CoinSelection::parse(query.get("inputs"), query.get("outputs"))?;
            TxPage::read(scene, path.get(0), selection)
        })
        .await
}

async fn one_address(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            let subject = Subject::address(scene.chain(), path.get(0))?;
            HistoryPage::read(scene, &subject, query.get("after"))
        })
        .await
}

async fn address_utxo(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            let subject = Subject::address(scene.chain(), path.get(0))?;
            UnspentPage::read(scene, &subject, query.get("page"))
        })
        .await
}

async fn one_script(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            HistoryPage::read(scene, &Subject::script(path.get(0))?, query.get("after"))
        })
        .await
}

async fn script_utxo(
    State(ledger): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    ledger
        .show(known, move |scene| {
            UnspentPage::read(scene, &Subject::script(path.get(0))?, query.get("page"))
        })
        .await
}

async fn search_here(State(ledger): Chosen, query: QueryParams) -> Response {
    let site = Arc::clone(&ledger.site);
    let pool = ledger.pool.clone();
    let id = ledger.chain.id.clone();
    crate::pages::search::answer(site, pool, vec![ledger], Some(id), query.get("q")).await
}
