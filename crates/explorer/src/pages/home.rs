//! `/`: every ledger with its state and its newest entries.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::SiteState;
use crate::error::PageError;
use crate::respond::{self, PROGRESS_REFRESH_SECONDS};
use crate::site::Shell;

/// The page.
#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    shell: Shell,
    cards: Vec<String>,
}

/// Answers the request.
pub(crate) async fn show(State(state): State<SiteState>) -> Response {
    let reading = state.clone();
    let made = state.pool.run(move || make(&reading)).await;
    match made {
        Ok(Ok(html)) => respond::page(html, None),
        Ok(Err(error)) => respond::error(&state.site, None, "", error),
        Err(error) => respond::error(&state.site, None, "", error.into()),
    }
}

fn make(state: &SiteState) -> Result<String, PageError> {
    let now = respond::now();
    let cards = state
        .ledgers
        .iter()
        .map(|ledger| ledger.card(now))
        .collect::<Result<Vec<_>, _>>()?;
    let mut shell = state.site.shell("Explorer");
    shell.search_in_header = false;
    shell.refresh_seconds = cards
        .iter()
        .any(|card| card.busy)
        .then_some(PROGRESS_REFRESH_SECONDS);
    Ok(HomePage {
        shell,
        cards: cards.into_iter().map(|card| card.html).collect(),
    }
    .render()?)
}
