//! Push: what changes, as it changes, by server-sent events and by WebSocket.
//!
//! | module | what |
//! | --- | --- |
//! | `hub` | the last changes, kept once for all who listen |
//! | `place` | the id of an event: how far a client is |
//! | `interest` | what a client wants to hear of |
//! | `listener` | from changes to one client's events |
//! | `write` | their JSON |
//! | `sse`, `socket` | the two ways to the client |
//!
//! A client that is slow, or comes back after too long, is not fed from an endless queue: it is told to look at everything
//! again. So memory is bounded by the hub, however many listen.

mod hub;
mod interest;
mod listener;
mod place;
mod socket;
mod sse;
mod write;

pub(crate) use hub::Hub;

use std::sync::Arc;

use axum::http::HeaderMap;
use cairn_http::{HttpError, QueryParams};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::App;
use interest::Interest;
use listener::Listener;
use place::Place;

/// How often a client that hears nothing else hears that the connection lives.
const HEARTBEAT: std::time::Duration = std::time::Duration::from_secs(15);
/// When a client may come back that found no place, seconds.
const FULL_RETRY_SECONDS: u32 = 10;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(sse::events))
        .routes(routes!(socket::events_socket))
}

/// A listener as a request wants it.
fn listen(app: &App, query: &QueryParams, headers: &HeaderMap) -> Result<Listener, HttpError> {
    let interest = Interest::of_query(app, query)?;
    // A browser that comes back by itself says so in the header; the query is for the first time.
    let last = match headers.get("last-event-id") {
        Some(value) => Some(value.to_str().unwrap_or("")),
        None => query.get("last_event_id"),
    };
    let last = last
        .filter(|text| !text.is_empty())
        .map(Place::read)
        .transpose()?;
    let hub = app.hub();
    let place = Arc::clone(&hub.places).try_acquire_owned().map_err(|_| {
        HttpError::unavailable("too many listeners").retry_after(FULL_RETRY_SECONDS)
    })?;
    let view = app.view()?;
    Ok(Listener::new(app.clone(), interest, &view, last, place))
}
