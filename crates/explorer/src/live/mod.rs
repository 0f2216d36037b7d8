//! Pages that stay up to date while somebody looks: server-sent events (the WHATWG HTML standard, "Server-sent events").
//!
//! Two kinds. *Signals* (`/live?on=…`) say that a ledger changed; the page then asks for itself again and replaces the regions
//! that are marked for it, so what the reader sees is always what the server would show. *Tails* ([`tail`]) carry new rows of a
//! list, as markup of the list's own template.

pub(crate) mod tail;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cairn_http::{CacheClass, HttpError, QueryParams};
use futures_util::{Stream, stream};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::pulse::Pulse;

/// Where the signals are.
pub(crate) const PATH: &str = "/live";
/// Who watches every ledger.
const ALL: &str = "*";
/// A comment line this often, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// When a browser that found no place may come back, seconds.
const FULL_RETRY_SECONDS: u32 = 10;

/// What streams of events share: their number is bounded, and they end with the process.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Places {
    /// So many streams at once, until `stop`.
    pub(crate) fn new(streams: usize, stop: CancellationToken) -> Self {
        Self {
            free: Arc::new(Semaphore::new(streams.clamp(1, Semaphore::MAX_PERMITS))),
            stop,
        }
    }

    fn take(&self) -> Result<Place, HttpError> {
        let free = Arc::clone(&self.free).try_acquire_owned();
        match free {
            Ok(permit) if !self.stop.is_cancelled() => Ok(Place {
                stop: self.stop.clone(),
                _permit: permit,
            }),
            _ => Err(HttpError::unavailable("too many listeners").retry_after(FULL_RETRY_SECONDS)),
        }
    }
}

/// The place of one stream.
struct Place {
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// An answer that is a stream of events.
fn event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = futures_util::StreamExt::map(events, Ok::<_, Infallible>);
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    // What stands between must not collect events into larger pieces.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What the handler of the signals needs.
#[derive(Clone)]
pub(crate) struct Signals {
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) places: Places,
    /// Tells one run of the program from the next: a page that was made by another one asks for itself again.
    pub(crate) run: Arc<str>,
}

/// One listener of signals.
struct Listener {
    place: Place,
    signals: Receiver<Arc<str>>,
    on: String,
    greeting: Option<Arc<str>>,
}

/// Signals of the ledgers that `on` names (ids with commas between, or `*`). Kinds: `hello` first, then `changed` with
/// the id of a ledger, empty for the state of the process.
pub(crate) async fn signals(State(state): State<Signals>, query: QueryParams) -> Response {
    let place = match state.places.take() {
        Ok(place) => place,
        Err(error) => return error.into_response(),
    };
    let listener = Listener {
        place,
        signals: state.pulse.listen(),
        on: query.get("on").unwrap_or(ALL).to_owned(),
        greeting: Some(state.run),
    };
    event_stream(stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((event, listener))
    }))
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        if let Some(run) = self.greeting.take() {
            return Some(Event::default().event("hello").data(run));
        }
        loop {
            let heard = tokio::select! {
                () = self.place.stop.cancelled() => return None,
                heard = self.signals.recv() => heard,
            };
            match heard {
                Ok(ledger) if self.wants(&ledger) => {
                    return Some(Event::default().event("changed").data(ledger));
                }
                Ok(_) => {}
                // Some were missed: whatever it watches may have changed.
                Err(RecvError::Lagged(_)) => {
                    return Some(Event::default().event("changed").data(&self.on));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn wants(&self, ledger: &str) -> bool {
        self.on == ALL || (!ledger.is_empty() && self.on.split(',').any(|id| id == ledger))
    }
}
