//! `/{chain}/subscriptions` and `/{chain}/dead-letters/{subscription}`: who reads the stream and how far it is, and what it could
//! not handle, with the error and a way to give it out again.

use askama::Template;
use cairn_http::QueryParams;
use cairn_stream::subscription::SubId;
use cairn_stream::subscription::admin::{self, SubscriptionInfo};
use cairn_stream::{EntryId, GroupState, StoredEvent};
use serde_json::Value;

use super::event::{EventLine, StreamEvent};
use super::{Pages, place};
use crate::error::PageError;
use crate::present::{Json, Moment, compact, count};
use crate::site::Shell;

/// Subscriptions that are shown.
const SUBSCRIPTIONS_MAX: usize = 200;
/// Dead letters on one page.
const LETTERS_PER_PAGE: usize = 25;

/// The page of all subscriptions.
#[derive(Template)]
#[template(path = "antelope/subscriptions.html")]
pub(super) struct SubscriptionsPage {
    shell: Shell,
    events_href: String,
    rows: Vec<Subscription>,
    more: usize,
    length: String,
}

/// One subscription.
struct Subscription {
    id: String,
    /// What it asked for when it registered.
    filters: String,
    start_from: String,
    /// The active instance.
    holder: Option<String>,
    /// `None`: it has not begun.
    state: Option<Reading>,
    letters: u64,
    letters_text: String,
    letters_href: String,
}

/// How far a subscription is.
struct Reading {
    lag: String,
    is_behind: bool,
    pending: String,
    last: Option<Moment>,
}

impl SubscriptionsPage {
    /// Reads the page.
    pub(super) async fn read(pages: &Pages) -> Result<Self, PageError> {
        let ledger = &pages.ledger;
        let length = ledger.events.state().await?.map_or(0, |state| state.length);
        // Without a stream there is nobody who reads it.
        let mut found = if length == 0 {
            Vec::new()
        } else {
            admin::list(&ledger.redis, &ledger.chain).await?
        };
        found.sort_by(|a, b| a.sub_id.cmp(&b.sub_id));
        let more = found.len().saturating_sub(SUBSCRIPTIONS_MAX);
        Ok(Self {
            shell: pages.frame("Subscriptions", "subscriptions").live(),
            events_href: pages.paths().events(),
            rows: found
                .iter()
                .take(SUBSCRIPTIONS_MAX)
                .map(|info| Subscription::new(pages, info))
                .collect(),
            more,
            length: count(length),
        })
    }
}

impl Subscription {
    fn new(pages: &Pages, info: &SubscriptionInfo) -> Self {
        let filters = match &info.filters {
            Value::Array(filters) if filters.is_empty() => "everything".to_owned(),
            Value::Null => "everything".to_owned(),
            filters => compact(&filters.to_string()),
        };
        let start_from = match &info.start_from {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Subscription {
            letters_href: pages.paths().dead_letters(&info.sub_id),
            id: info.sub_id.clone(),
            filters,
            start_from,
            holder: info.holder.clone(),
            state: info.group.as_ref().map(Reading::new),
            letters: info.dead_letters,
            letters_text: count(info.dead_letters),
        }
    }
}

impl Reading {
    fn new(group: &GroupState) -> Self {
        Reading {
            lag: group.lag.map_or_else(|| "not known".to_owned(), count),
            is_behind: group.lag != Some(0),
            pending: count(group.pending),
            last: (group.last_delivered != EntryId::ZERO).then(|| moment(group.last_delivered)),
        }
    }
}

/// When an entry was added.
fn moment(id: EntryId) -> Moment {
    Moment(i64::try_from(id.ms).unwrap_or(i64::MAX))
}

/// The page of a subscription's dead letters.
#[derive(Template)]
#[template(path = "antelope/dead_letters.html")]
pub(super) struct DeadLettersPage {
    shell: Shell,
    subscriptions_href: String,
    action: String,
    subscription: String,
    can_replay: bool,
    /// How many were just asked to be given out again.
    replayed: Option<String>,
    letters: Vec<Letter>,
    first: Option<String>,
    more: Option<String>,
}

/// One event that could not be handled.
struct Letter {
    entry: String,
    line: EventLine,
    failures: String,
    error: String,
    since: Moment,
    raw: Json,
}

impl DeadLettersPage {
    /// Reads the letters after a place, oldest first: the order in which they are given out again.
    pub(super) async fn read(
        pages: &Pages,
        subscription: &str,
        query: &QueryParams,
    ) -> Result<Self, PageError> {
        let sub_id =
            SubId::new(subscription).map_err(|error| PageError::BadRequest(error.to_string()))?;
        let after = place(query.get("after"))?;
        let ledger = &pages.ledger;
        let mut found = admin::dead_letters(
            &ledger.redis,
            &ledger.chain,
            &sub_id,
            after.unwrap_or(EntryId::ZERO),
            LETTERS_PER_PAGE + 1,
        )
        .await?;
        let has_more = found.len() > LETTERS_PER_PAGE;
        found.truncate(LETTERS_PER_PAGE);
        let href = pages.paths().dead_letters(subscription);
        let more = found
            .last()
            .filter(|_| has_more)
            .map(|letter| format!("{href}?after={}", letter.id));
        let letters = found
            .into_iter()
            .map(|letter| {
                let raw = Json::new(&letter.data);
                let event = StreamEvent::new(StoredEvent {
                    id: letter.id,
                    data: letter.data.into_bytes(),
                });
                Letter {
                    entry: letter.id.to_string(),
                    line: EventLine::new(pages.paths(), &event),
                    failures: count(letter.failures),
                    error: letter.last_error,
                    since: moment(letter.id),
                    raw,
                }
            })
            .collect();
        Ok(Self {
            shell: pages.frame(&format!("Dead letters of {subscription}"), "subscriptions"),
            subscriptions_href: pages.paths().subscriptions(),
            subscription: subscription.to_owned(),
            can_replay: pages.ledger.replay_token.is_some(),
            replayed: query
                .get("replayed")
                .and_then(|text| text.parse().ok())
                .map(count),
            letters,
            first: after.map(|_| href.clone()),
            action: href,
            more,
        })
    }
}
