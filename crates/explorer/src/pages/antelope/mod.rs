//! The pages of an Antelope chain, read from its event stream and from the ABI history, both in Redis.
//!
//! | path below `/{chain}` | page |
//! | --- | --- |
//! | `/events?kind=&account=&name=` | the newest events, live; `before` goes back |
//! | `/event/{event id}` | one event with its decoded data; of a row, what changed |
//! | `/block/{number}[?tx=]` | the events of a block, or of one of its transactions |
//! | `/account/{name}` | what has lately to do with an account |
//! | `/row?code=&scope=&table=&key=` | the changes of a row, each against the one before |
//! | `/abi[/{contract}]` | the versions of a contract's ABI |
//! | `/subscriptions`, `/dead-letters/{subscription}` | who reads the stream, and what could not be handled |
//!
//! A stream has no index by account: such a list looks at a bounded number of events, says how far it looked, and goes on from
//! there.

mod abi;
mod block;
mod card;
mod event;
mod list;
mod one;
mod paths;
mod replay;
mod row;
mod search;
mod subscriptions;

use std::pin::Pin;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use cairn_http::{PathParams, QueryParams, Token};
use cairn_redis::Redis;
use cairn_stream::{ChainLabel, EntryId, EventReader};

use self::event::{StreamEvent, Wanted};
use self::list::ListPage;
use self::paths::Paths;
use crate::AntelopeEntry;
use crate::error::PageError;
use crate::ledger::{Card, Findings, Ledger, LedgerFuture};
use crate::live::Places;
use crate::live::tail::{Entry, Source, SourceFuture, Tail};
use crate::pulse::{Measure, Pulse, Reading};
use crate::respond;
use crate::site::{LedgerLink, Section, Shell, Site};

/// One Antelope chain as a ledger of the site.
pub(crate) struct AntelopeLedger {
    chain: ChainLabel,
    paths: Paths,
    redis: Redis,
    /// Lets dead letters be given out again.
    replay_token: Option<Token>,
    events: EventReader,
    tail: Arc<Tail<EventSource>>,
    pulse: Arc<Pulse>,
}

/// The ledger's pages within the site: what their handlers share.
#[derive(Clone)]
struct Pages {
    ledger: Arc<AntelopeLedger>,
    site: Arc<Site>,
}

/// Entries for the live tail.
pub(crate) struct EventSource(EventReader);

impl Source for EventSource {
    type Item = Arc<StreamEvent>;

    fn newest(&self) -> SourceFuture<'_, EntryId> {
        Box::pin(async {
            let state = self.0.state().await?;
            Ok(state.map_or(EntryId::ZERO, |state| state.last))
        })
    }

    fn after(&self, place: EntryId, count: usize) -> SourceFuture<'_, Vec<Entry<Self::Item>>> {
        Box::pin(async move {
            let entries = self.0.after(place, count).await?;
            Ok(entries
                .into_iter()
                .map(|stored| Entry {
                    id: stored.id,
                    item: Arc::new(StreamEvent::new(stored)),
                })
                .collect())
        })
    }
}

impl AntelopeLedger {
    /// A ledger over a chain's stream.
    pub(crate) fn new(entry: AntelopeEntry, pulse: Arc<Pulse>, places: Places) -> Arc<Self> {
        let events = EventReader::new(&entry.redis, &entry.chain);
        Arc::new(Self {
            paths: Paths::new(entry.chain.as_str()),
            tail: Tail::new(EventSource(events.clone()), places),
            events,
            redis: entry.redis,
            replay_token: entry.replay_token,
            chain: entry.chain,
            pulse,
        })
    }

    /// The end of the stream, to be followed.
    pub(crate) fn tail(&self) -> Arc<Tail<EventSource>> {
        Arc::clone(&self.tail)
    }

    /// The ledger's own pages, with their whole paths (`/{id}/...`).
    pub(crate) fn pages(self: Arc<Self>, site: &Arc<Site>) -> Router {
        let at = |path: &str| format!("/{}{path}", self.chain);
        Router::new()
            .route(&at("/events"), get(events))
            .route(&at("/events/live"), get(events_live))
            .route(&at("/event/{id}"), get(one_event))
            .route(&at("/block/{num}"), get(one_block))
            .route(&at("/account/{name}"), get(one_account))
            .route(&at("/row"), get(one_row))
            .route(&at("/abi"), get(abi_form))
            .route(&at("/abi/{contract}"), get(abi_of))
            .route(&at("/subscriptions"), get(all_subscriptions))
            .route(
                &at("/dead-letters/{subscription}"),
                get(dead_letters).post(replay_letters),
            )
            .route(&at("/search"), get(search_here))
            .with_state(Pages {
                site: Arc::clone(site),
                ledger: self,
            })
    }
}

impl Ledger for AntelopeLedger {
    fn id(&self) -> &str {
        self.chain.as_str()
    }

    fn link(&self) -> LedgerLink {
        LedgerLink {
            id: self.chain.to_string(),
            href: self.paths.events(),
            sections: vec![
                Section::new("events", "Events", self.paths.events()),
                Section::new("abi", "ABIs", format!("/{}/abi", self.chain)),
                Section::new("subscriptions", "Subscriptions", self.paths.subscriptions()),
            ],
        }
    }

    fn card(&self, now: u64) -> LedgerFuture<'_, Card> {
        Box::pin(card::make(self, now))
    }

    fn search<'a>(&'a self, query: &'a str, quick: bool) -> LedgerFuture<'a, Findings> {
        Box::pin(search::find(self, query, quick))
    }

    fn read_pulse(&self) -> Pin<Box<dyn Future<Output = Reading> + Send + '_>> {
        Box::pin(async {
            let Ok(Some(state)) = self.events.state().await else {
                return Reading::default();
            };
            Reading {
                mark: state.last.to_string(),
                values: vec![
                    ("events", Measure::Total(state.added as f64)),
                    ("length", Measure::Level(state.length as f64)),
                ],
            }
        })
    }
}

impl Pages {
    fn paths(&self) -> &Paths {
        &self.ledger.paths
    }

    fn frame(&self, title: &str, section: &'static str) -> Shell {
        self.site
            .ledger_shell(self.ledger.chain.as_str(), title)
            .at(section)
    }

    /// The answer with a page, or with what went wrong.
    fn answer<T: Template>(&self, made: Result<T, PageError>) -> Response {
        match made.and_then(|page| Ok(page.render()?)) {
            Ok(html) => respond::page(html, None),
            Err(error) => respond::error(&self.site, Some(self.ledger.chain.as_str()), "", error),
        }
    }
}

type Chosen = State<Pages>;

/// What the query asks to see.
fn wanted(query: &QueryParams) -> Wanted {
    let word = |name: &str| query.get(name).unwrap_or_default().trim().to_owned();
    Wanted {
        kind: word("kind"),
        account: word("account"),
        name: word("name"),
    }
}

/// A place in the stream.
fn place(text: Option<&str>) -> Result<Option<EntryId>, PageError> {
    text.filter(|text| !text.is_empty())
        .map(|text| {
            text.parse().map_err(|_| {
                PageError::BadRequest(format!("\u{201c}{text}\u{201d} is no place in the stream."))
            })
        })
        .transpose()
}

async fn events(State(pages): Chosen, query: QueryParams) -> Response {
    let made = match place(query.get("before")) {
        Ok(before) => ListPage::events(&pages, wanted(&query), before).await,
        Err(error) => Err(error),
    };
    pages.answer(made)
}

async fn events_live(
    State(pages): Chosen,
    query: QueryParams,
    headers: axum::http::HeaderMap,
) -> Response {
    // A browser that comes back by itself says so in the header; the query is for the first time.
    let after = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .or_else(|| query.get("after"));
    let after = match place(after) {
        Ok(after) => after,
        Err(error) => return respond::error(&pages.site, None, "", error),
    };
    let wanted = wanted(&query);
    let paths = pages.paths().clone();
    pages.ledger.tail.listen(
        after,
        move |event| wanted.takes(event),
        move |entry| list::row_markup(&paths, &entry.item),
    )
}

async fn one_account(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    let made = match place(query.get("before")) {
        Ok(before) => ListPage::account(&pages, path.get(0), before).await,
        Err(error) => Err(error),
    };
    pages.answer(made)
}

async fn one_event(State(pages): Chosen, path: PathParams) -> Response {
    let made = one::EventPage::read(&pages, path.get(0)).await;
    pages.answer(made)
}

async fn one_block(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    let made = match place(query.get("after")) {
        Ok(after) => block::BlockPage::read(&pages, path.get(0), query.get("tx"), after).await,
        Err(error) => Err(error),
    };
    pages.answer(made)
}

async fn one_row(State(pages): Chosen, query: QueryParams) -> Response {
    let made = match place(query.get("before")) {
        Ok(before) => row::RowPage::read(&pages, &query, before).await,
        Err(error) => Err(error),
    };
    pages.answer(made)
}

async fn abi_form(State(pages): Chosen, query: QueryParams) -> Response {
    let contract = query.get("contract").unwrap_or_default().trim();
    if contract.is_empty() {
        return pages.answer(abi::FormPage::new(&pages));
    }
    respond::redirect(&pages.paths().abi(contract))
}

async fn abi_of(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    let made = abi::AbiPage::read(&pages, path.get(0), query.get("version")).await;
    pages.answer(made)
}

async fn all_subscriptions(State(pages): Chosen) -> Response {
    let made = subscriptions::SubscriptionsPage::read(&pages).await;
    pages.answer(made)
}

async fn dead_letters(State(pages): Chosen, path: PathParams, query: QueryParams) -> Response {
    let made = subscriptions::DeadLettersPage::read(&pages, path.get(0), &query).await;
    pages.answer(made)
}

async fn replay_letters(State(pages): Chosen, path: PathParams, request: Request) -> Response {
    replay::answer(&pages, path.get(0), request).await
}

async fn search_here(State(pages): Chosen, query: QueryParams) -> Response {
    let id = pages.ledger.chain.to_string();
    crate::pages::search::answer(pages.site, vec![pages.ledger], Some(id), query.get("q")).await
}
