//! `/{chain}/events` and `/{chain}/account/{name}`: lists of events, newest first.

use askama::Template;
use cairn_stream::EntryId;

use super::Pages;
use super::event::{EventLine, StreamEvent, Wanted};
use super::paths::Paths;
use crate::error::PageError;
use crate::present::{count, path_segment};
use crate::site::Shell;

/// Events on one page.
pub(super) const EVENTS_PER_PAGE: usize = 50;
/// Entries read at once while looking for wanted ones.
const READ_AT_ONCE: usize = 1_000;
/// Entries looked at for one page.
const LOOK_MAX: usize = 20_000;
/// Longest account name that is looked for.
const NAME_CHARS_MAX: usize = 64;

/// The kinds that can be chosen.
const KINDS: [&str; 4] = ["action", "delta", "native-delta", "fork"];

/// One row of the list: also what live rows are.
#[derive(Template)]
#[template(path = "antelope/event_row.html")]
struct RowView<'a> {
    line: &'a EventLine,
}

/// A row's markup.
pub(super) fn row_markup(paths: &Paths, event: &StreamEvent) -> String {
    let line = EventLine::new(paths, event);
    let row = RowView { line: &line };
    row.render().unwrap_or_else(|error| {
        tracing::error!(%error, "a row of events cannot be made");
        String::new()
    })
}

/// The page.
#[derive(Template)]
#[template(path = "antelope/events.html")]
pub(super) struct ListPage {
    shell: Shell,
    /// The account whose page it is.
    account: Option<Account>,
    wanted: Wanted,
    kinds: [&'static str; 4],
    action: String,
    lines: Vec<EventLine>,
    /// Where new rows come from, on the newest page.
    tail: Option<String>,
    newest: Option<String>,
    older: Option<String>,
    /// How many events were looked at, when not all on the page come one after the other.
    looked_at: Option<String>,
    length: String,
}

/// What the page of an account says besides its events.
struct Account {
    name: String,
    abi_href: String,
}

/// Events that are wanted, newest first, and how far it was looked.
pub(super) struct Found {
    pub(super) events: Vec<StreamEvent>,
    /// Where to go on; `None` at the end of the stream.
    pub(super) next: Option<EntryId>,
    pub(super) looked_at: usize,
}

/// Looks for events before a place.
pub(super) async fn look(
    pages: &Pages,
    before: Option<EntryId>,
    limit: usize,
    mut takes: impl FnMut(&StreamEvent) -> bool,
) -> Result<Found, PageError> {
    let mut found = Found {
        events: Vec::new(),
        next: before,
        looked_at: 0,
    };
    let mut at_once = limit + 1;
    loop {
        let entries = pages.ledger.events.before(found.next, at_once).await?;
        let is_last = entries.len() < at_once;
        for stored in entries {
            let event = StreamEvent::new(stored);
            if takes(&event) {
                if found.events.len() == limit {
                    return Ok(found);
                }
                found.events.push(event);
            } else {
                found.looked_at += 1;
                found.next = Some(event.id);
                continue;
            }
            found.looked_at += 1;
            found.next = found.events.last().map(|event| event.id);
        }
        if is_last {
            found.next = None;
            return Ok(found);
        }
        if found.looked_at >= LOOK_MAX {
            return Ok(found);
        }
        at_once = READ_AT_ONCE;
    }
}

impl ListPage {
    /// The page of the newest events, or of those before a place.
    pub(super) async fn events(
        pages: &Pages,
        wanted: Wanted,
        before: Option<EntryId>,
    ) -> Result<Self, PageError> {
        let shell = pages.frame("Events", "events");
        Self::read(pages, shell, wanted, before, None).await
    }

    /// The page of an account.
    pub(super) async fn account(
        pages: &Pages,
        name: &str,
        before: Option<EntryId>,
    ) -> Result<Self, PageError> {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            return Err(PageError::BadRequest(format!(
                "\u{201c}{}\u{201d} is not the name of an account.",
                name.chars().take(NAME_CHARS_MAX).collect::<String>()
            )));
        }
        let shell = pages.frame(&format!("Account {name}"), "");
        let account = Account {
            abi_href: pages.paths().abi(name),
            name: name.to_owned(),
        };
        let wanted = Wanted {
            account: name.to_owned(),
            ..Wanted::default()
        };
        Self::read(pages, shell, wanted, before, Some(account)).await
    }

    async fn read(
        pages: &Pages,
        shell: Shell,
        wanted: Wanted,
        before: Option<EntryId>,
        account: Option<Account>,
    ) -> Result<Self, PageError> {
        let paths = pages.paths();
        let state = pages.ledger.events.state().await?;
        let found = look(pages, before, EVENTS_PER_PAGE, |event| wanted.takes(event)).await?;
        let newest = state.as_ref().map(|state| state.last.to_string());
        let page = |place: Option<&str>| match &account {
            None => paths.wanted(&wanted, place),
            Some(account) => {
                let path = format!("/{}/account/{}", paths.id(), path_segment(&account.name));
                place.map_or(path.clone(), |place| format!("{path}?before={place}"))
            }
        };
        Ok(ListPage {
            lines: found
                .events
                .iter()
                .map(|event| EventLine::new(paths, event))
                .collect(),
            tail: before
                .is_none()
                .then(|| paths.tail(&wanted, newest.as_deref())),
            newest: before.map(|_| page(None)),
            older: found.next.map(|next| page(Some(&next.to_string()))),
            looked_at: (!wanted.is_all()).then(|| count(found.looked_at as u64)),
            length: count(state.map_or(0, |state| state.length)),
            kinds: KINDS,
            action: paths.events(),
            account,
            wanted,
            shell,
        })
    }
}
