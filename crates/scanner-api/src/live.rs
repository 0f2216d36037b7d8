//! The live stream: what arrives, in the order of arrival, as server-sent events. An event's id is its place in the shared
//! event stream, so a client that comes back goes on where it was as long as the stream holds it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cairn_scanner::{FeedEntry, FeedTail, Scanner, StreamId, TX_EVENT};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::objects::ErrorAnswer;
use crate::params::Asked;
use crate::state::App;

/// Entries that a slow client may be behind before it is cut off.
const BEHIND_MAX: usize = 1_024;
/// Entries of one reading of the past.
const PAST_AT_ONCE: usize = 500;
/// How often the head is sent at most.
const HEAD_INTERVAL: Duration = Duration::from_secs(1);
/// A comment line, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pause after the store was away.
const RETRY: Duration = Duration::from_secs(1);

/// What clients are told.
#[derive(Debug, Clone)]
enum Told {
    Entry(Arc<FeedEntry>),
    Head(Arc<str>),
}

/// One reader of the event stream for all clients.
#[derive(Clone)]
pub struct LiveFeed {
    /// `None` when the reader has ended: clients are sent away.
    sender: Arc<Mutex<Option<broadcast::Sender<Told>>>>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for LiveFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveFeed")
    }
}

impl LiveFeed {
    /// A feed for so many clients at once. It tells nothing until [`LiveFeed::run`] reads.
    pub fn new(clients: usize) -> Self {
        let (sender, _) = broadcast::channel(BEHIND_MAX);
        Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            places: Arc::new(Semaphore::new(clients.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Reads the event stream until `stop` is ready, then ends all clients' streams.
    pub async fn run(self, scanner: Scanner, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.follow(&scanner) => {}
        }
        if let Ok(mut sender) = self.sender.lock() {
            *sender = None;
        }
    }

    async fn follow(&self, scanner: &Scanner) {
        loop {
            if let Err(error) = self.follow_once(scanner).await {
                tracing::warn!(%error, "the live stream waits for the store");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn follow_once(&self, scanner: &Scanner) -> Result<(), cairn_scanner::ScannerError> {
        let mut tail = FeedTail::open(scanner).await?;
        let mut head_at = Instant::now();
        let mut fingerprint = String::new();
        loop {
            for entry in tail.next().await? {
                self.tell(Told::Entry(Arc::new(entry)));
            }
            if head_at.elapsed() >= HEAD_INTERVAL && self.has_clients() {
                head_at = Instant::now();
                if let Ok(head) = scanner.head().await {
                    let now = head.fingerprint();
                    if now != fingerprint {
                        fingerprint = now;
                        let json = crate::head::live_head_json(scanner, &head);
                        self.tell(Told::Head(json.into()));
                    }
                }
            }
        }
    }

    fn has_clients(&self) -> bool {
        self.sender.lock().is_ok_and(|sender| {
            sender
                .as_ref()
                .is_some_and(|sender| sender.receiver_count() > 0)
        })
    }

    fn tell(&self, told: Told) {
        if let Ok(sender) = self.sender.lock()
            && let Some(sender) = sender.as_ref()
        {
            // Without clients there is nobody to tell.
            let _ = sender.send(told);
        }
    }

    fn subscribe(&self) -> Option<broadcast::Receiver<Told>> {
        let sender = self.sender.lock().ok()?;
        sender.as_ref().map(broadcast::Sender::subscribe)
    }
}

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(live))
}

/// Server-sent events in order of arrival: `tx`, `block`, `head` (at most one a second), and `gap` first when what came after
/// `Last-Event-ID` is no longer held.
#[utoipa::path(get, path = "/api/scanner/stream", tag = "scanner",
    params(("Last-Event-ID" = Option<String>, Header, description = "go on after this entry")),
    responses(
        (status = 200, description = "the stream", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Last-Event-ID is not an id", body = ErrorAnswer),
        (status = 503, description = "as many clients as there may be", body = ErrorAnswer),
    ))]
async fn live(
    State(app): State<App>,
    asked: Asked,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    asked.reading(&app)?;
    let after = match headers.get("last-event-id").map(HeaderValue::to_str) {
        None => None,
        Some(text) => Some(text.ok().and_then(StreamId::parse).ok_or_else(|| {
            ApiError::bad_request(
                "invalid_last_event_id",
                "Last-Event-ID is not an id of the stream",
            )
        })?),
    };
    let place = Arc::clone(&app.live.places).try_acquire_owned();
    let (Ok(place), Some(receiver)) = (place, app.live.subscribe()) else {
        return Err(ApiError::unavailable("Live stream"));
    };
    let (sender, events) = mpsc::channel(PAST_AT_ONCE);
    let client = Client {
        sender,
        _place: place,
    };
    tokio::spawn(client.run(app.scanner.clone(), receiver, after));
    let events = stream::unfold(events, |mut events| async move {
        let event: Event = events.recv().await?;
        Some((Ok::<_, Infallible>(event), events))
    });
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let mut response = sse.into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Client {
    sender: mpsc::Sender<Event>,
    _place: OwnedSemaphorePermit,
}

/// The client has gone, or is too slow.
struct Gone;

impl Client {
    async fn run(
        self,
        scanner: Scanner,
        mut told: broadcast::Receiver<Told>,
        after: Option<StreamId>,
    ) {
        let mut last = after.unwrap_or_default();
        if after.is_some() && self.past(&scanner, &mut last).await.is_err() {
            return;
        }
        // Ends with the reader, with the client, or when the client is too far behind.
        loop {
            let told = tokio::select! {
                told = told.recv() => told,
                () = self.sender.closed() => return,
            };
            let sent = match told {
                // What the past has shown already.
                Ok(Told::Entry(entry)) if entry.id <= last => Ok(()),
                Ok(Told::Entry(entry)) => {
                    last = entry.id;
                    self.send(entry_event(&entry)).await
                }
                Ok(Told::Head(json)) => self.send(Event::default().event("head").data(json)).await,
                Err(_) => Err(Gone),
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// What came after a place, up to now.
    async fn past(&self, scanner: &Scanner, last: &mut StreamId) -> Result<(), Gone> {
        let mut is_first = true;
        loop {
            let (entries, gap) = scanner
                .feed_after(*last, PAST_AT_ONCE)
                .await
                .map_err(|_| Gone)?;
            if is_first && gap {
                self.send(Event::default().event("gap").data("{}")).await?;
            }
            is_first = false;
            let is_end = entries.len() < PAST_AT_ONCE;
            for entry in entries {
                *last = entry.id;
                self.send(entry_event(&entry)).await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn send(&self, event: Event) -> Result<(), Gone> {
        self.sender.send(event).await.map_err(|_| Gone)
    }
}

fn entry_event(entry: &FeedEntry) -> Event {
    let kind = if entry.kind == TX_EVENT {
        "tx"
    } else {
        "block"
    };
    Event::default()
        .id(entry.id.to_string())
        .event(kind)
        .data(&entry.json)
}
