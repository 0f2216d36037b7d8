//! The pages of a UTXO chain. Every page is read from one [`View`]: one tip, one state, whatever the indexer does
//! meanwhile.

mod address;
mod block;
mod blocks;
mod broadcast;
mod card;
pub(crate) mod chain;
mod mempool;
mod progress;
#[cfg(test)]
mod samples;
mod search;
mod tx;

use std::pin::Pin;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use cairn_esplora::NodeCalls;
use cairn_http::{BlockingPool, CacheClass, Conditions, ETag, PathParams, QueryParams};
use cairn_utxo_index::{BlockRef, Index, View};

use self::address::{HistoryPage, Subject, UnspentPage};
use self::block::BlockPage;
use self::blocks::BlocksPage;
use self::chain::Chain;
use self::mempool::MempoolPage;
use self::progress::ProgressView;
use self::tx::{CoinSelection, TxPage};
use crate::error::PageError;
use crate::ledger::{Card, Findings, Ledger, LedgerFuture};
use crate::present::count;
use crate::pulse::{Measure, Pulse, Reading};
use crate::respond;
use crate::site::{LedgerLink, Section, Shell, Site};

/// Seconds for which a page with ages may be called unchanged.
const AGE_STEP_SECONDS: u64 = 60;

/// One UTXO chain as a ledger of the site.
pub(crate) struct UtxoLedger {
    chain: Chain,
    index: Arc<Index>,
    node: Option<Arc<dyn NodeCalls>>,
    pulse: Arc<Pulse>,
    pool: BlockingPool,
    /// Tells the states of this process from those of another one.
    run: u64,
}

/// The ledger's pages within the site: what their handlers share.
#[derive(Clone)]
struct UtxoPages {
    ledger: Arc<UtxoLedger>,
    site: Arc<Site>,
}

/// What a page is made from.
struct Scene<'a> {
    pages: &'a UtxoPages,
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
        &self.pages.ledger.chain
    }

    fn frame(&self, title: &str) -> Frame {
        let chain = self.chain().clone();
        let shell = self.pages.site.ledger_shell(&chain.id, title);
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

impl UtxoLedger {
    /// A ledger over an index.
    pub(crate) fn new(
        chain: Chain,
        index: Arc<Index>,
        node: Option<Arc<dyn NodeCalls>>,
        pulse: Arc<Pulse>,
        pool: BlockingPool,
    ) -> Self {
        UtxoLedger {
            chain,
            index,
            node,
            pulse,
            pool,
            run: respond::now(),
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

    /// The ledger's own pages, with their whole paths (`/{id}/...`).
    pub(crate) fn pages(self: Arc<Self>, site: &Arc<Site>) -> Router {
        let at = |path: &str| format!("/{}{path}", self.chain.id);
        Router::new()
            .route(&at("/blocks"), get(blocks_newest))
            .route(&at("/blocks/{start}"), get(blocks_from))
            .route(&at("/block/{name}"), get(one_block))
            .route(&at("/tx/{txid}"), get(one_tx))
            .route(&at("/mempool"), get(unconfirmed))
            .route(&at("/broadcast"), get(broadcast_form).post(broadcast_tx))
            .route(&at("/address/{address}"), get(one_address))
            .route(&at("/address/{address}/utxo"), get(address_utxo))
            .route(&at("/scripthash/{hash}"), get(one_script))
            .route(&at("/scripthash/{hash}/utxo"), get(script_utxo))
            .route(&at("/search"), get(search_here))
            .with_state(UtxoPages {
                site: Arc::clone(site),
                ledger: self,
            })
    }
}

impl UtxoPages {
    /// Answers a request with a page made on the blocking pool from the newest view.
    async fn show<T, F>(self, known: Conditions, make: F) -> Response
    where
        T: Template,
        F: FnOnce(&Scene<'_>) -> Result<Answer<T>, PageError> + Send + 'static,
    {
        let site = Arc::clone(&self.site);
        let id = self.ledger.chain.id.clone();
        let fail = |error| respond::error(&site, Some(&id), "", error);
        let view = match self.ledger.view() {
            Ok(view) => view,
            Err(error) => return fail(error),
        };
        let now = respond::now();
        let etag = ETag::of_state(&[
            &view.tip().hash[..],
            &view.sequence().to_be_bytes(),
            &self.ledger.run.to_be_bytes(),
            &(now / AGE_STEP_SECONDS).to_be_bytes(),
        ]);
        if known.name_tag(&etag) {
            return cairn_http::unchanged(&etag, CacheClass::Short);
        }
        let pool = self.ledger.pool.clone();
        let work = move || -> Result<Answer<String>, PageError> {
            Ok(
                match make(&Scene {
                    pages: &self,
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

    fn link(&self) -> LedgerLink {
        LedgerLink {
            id: self.chain.id.clone(),
            href: self.chain.blocks_href(),
            sections: vec![
                Section::new("blocks", "Blocks", self.chain.blocks_href()),
                Section::new("mempool", "Mempool", self.chain.mempool_href()),
                Section::new("broadcast", "Broadcast", self.chain.broadcast_href()),
            ],
        }
    }

    fn card(&self, now: u64) -> LedgerFuture<'_, Card> {
        Box::pin(async move {
            let (chain, index) = (self.chain.clone(), Arc::clone(&self.index));
            let pulse = Arc::clone(&self.pulse);
            self.pool
                .run(move || card::make(&chain, &index, &pulse, now))
                .await?
        })
    }

    fn search<'a>(&'a self, query: &'a str, _quick: bool) -> LedgerFuture<'a, Findings> {
        Box::pin(async move {
            let view = self.view()?;
            let (chain, query) = (self.chain.clone(), query.to_owned());
            self.pool
                .run(move || search::find(&chain, &view, &query))
                .await?
        })
    }

    fn read_pulse(&self) -> Pin<Box<dyn Future<Output = Reading> + Send + '_>> {
        Box::pin(async {
            let progress = self.index.progress();
            let mut values = vec![("rate", Measure::Level(progress.rate))];
            let mut mark = format!("{:?} {:?}", progress.phase, progress.source_tip);
            if let Some(view) = self.index.view() {
                let mempool = view.mempool();
                values.push(("mempool", Measure::Level(mempool.vsize() as f64)));
                mark = format!("{mark} {} {}", view.tip().hash, view.sequence());
            } else {
                mark = format!("{mark} {}", progress.done);
            }
            Reading { mark, values }
        })
    }
}

type Chosen = State<UtxoPages>;

async fn blocks_newest(State(pages): Chosen, known: Conditions) -> Response {
    pages
        .show(known, |scene| BlocksPage::read(scene, None))
        .await
}

async fn blocks_from(State(pages): Chosen, path: PathParams, known: Conditions) -> Response {
    pages
        .show(known, move |scene| {
            BlocksPage::read(scene, Some(path.get(0)))
        })
        .await
}

async fn one_block(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            BlockPage::read(scene, path.get(0), query.get("page"))
        })
        .await
}

async fn one_tx(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            let selection = CoinSelection::parse(query.get("inputs"), query.get("outputs"))?;
            TxPage::read(scene, path.get(0), selection)
        })
        .await
}

async fn one_address(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            let subject = Subject::address(scene.chain(), path.get(0))?;
            HistoryPage::read(scene, &subject, query.get("after"))
        })
        .await
}

async fn address_utxo(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            let subject = Subject::address(scene.chain(), path.get(0))?;
            UnspentPage::read(scene, &subject, query.get("page"))
        })
        .await
}

async fn one_script(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            HistoryPage::read(scene, &Subject::script(path.get(0))?, query.get("after"))
        })
        .await
}

async fn script_utxo(
    State(pages): Chosen,
    path: PathParams,
    query: QueryParams,
    known: Conditions,
) -> Response {
    pages
        .show(known, move |scene| {
            UnspentPage::read(scene, &Subject::script(path.get(0))?, query.get("page"))
        })
        .await
}

async fn unconfirmed(State(pages): Chosen, known: Conditions) -> Response {
    let estimates = mempool::estimates(pages.ledger.node.as_deref()).await;
    pages
        .show(known, move |scene| MempoolPage::read(scene, estimates))
        .await
}

async fn broadcast_form(State(pages): Chosen) -> Response {
    broadcast::form(&pages)
}

async fn broadcast_tx(State(pages): Chosen, request: Request) -> Response {
    broadcast::send(&pages, request).await
}

async fn search_here(State(pages): Chosen, query: QueryParams) -> Response {
    let id = pages.ledger.chain.id.clone();
    crate::pages::search::answer(pages.site, vec![pages.ledger], Some(id), query.get("q")).await
}
