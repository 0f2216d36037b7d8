//! `/`: every ledger with its state and what is newest in it, and how the process is.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use futures_util::future::join_all;

use crate::SiteState;
use crate::error::PageError;
use crate::respond::{self, PROGRESS_REFRESH_SECONDS};
use crate::site::Shell;

/// The page.
#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    shell: Shell,
    cards: Vec<LedgerCard>,
    ready: bool,
    services: Vec<ServiceRow>,
}

/// A ledger's place on the page.
struct LedgerCard {
    id: String,
    html: String,
    /// Why there is no card.
    failure: Option<String>,
}

/// Something that the ledgers share, a Redis.
struct ServiceRow {
    name: String,
    place: String,
    is_ready: bool,
    reason: Option<String>,
}

/// Answers the request.
pub(crate) async fn show(State(state): State<SiteState>) -> Response {
    match make(&state).await {
        Ok(html) => respond::page(html, None),
        Err(error) => respond::error(&state.site, None, "", error),
    }
}

async fn make(state: &SiteState) -> Result<String, PageError> {
    let now = respond::now();
    let made = join_all(state.ledgers.iter().map(|ledger| ledger.card(now))).await;
    let mut is_busy = false;
    let mut cards = Vec::with_capacity(made.len());
    for (ledger, made) in state.ledgers.iter().zip(made) {
        let (html, failure) = match made {
            Ok(card) => {
                is_busy |= card.busy;
                (card.html, None)
            }
            Err(PageError::Internal(cause)) => return Err(PageError::Internal(cause)),
            // One ledger that cannot be read takes nothing away from the others.
            Err(error) => (String::new(), Some(error.to_string())),
        };
        cards.push(LedgerCard {
            id: ledger.id().to_owned(),
            html,
            failure,
        });
    }
    let mut shell = state.site.shell("Explorer");
    shell.search_in_header = false;
    shell.refresh_seconds = is_busy.then_some(PROGRESS_REFRESH_SECONDS);
    shell.watches = Some("*".to_owned());
    let (ready, services) = services(state);
    Ok(HomePage {
        shell,
        cards,
        ready,
        services,
    }
    .render()?)
}

/// Whether everything is ready, and each service with its reason.
fn services(state: &SiteState) -> (bool, Vec<ServiceRow>) {
    let (ready, body) = state.pulse.health().ready_json();
    let rows = body["services"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, service)| ServiceRow {
            name: name.clone(),
            place: service["place"].as_str().unwrap_or_default().to_owned(),
            is_ready: service["ready"].as_bool().unwrap_or(false),
            reason: service["reason"].as_str().map(str::to_owned),
        })
        .collect();
    (ready, rows)
}
