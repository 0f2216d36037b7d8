//! Server-sent events (the WHATWG HTML standard, "Server-sent events").

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use cairn_http::{CacheClass, HttpError, QueryParams};
use futures_util::stream;

use super::listener::Listener;
use super::write::Event;
use super::{HEARTBEAT, listen};
use crate::state::App;

/// When a browser that lost the connection should come back, milliseconds.
const RETRY_MILLIS: u32 = 2_000;

/// What changes, as it changes: server-sent events.
///
/// Kinds: `state` (first), `block`, `reorg`, `mempool`, `script`, `tx`, `resync` (some were missed: look at everything again).
#[utoipa::path(get, path = "/events", tag = "events",
    params(
        ("blocks" = Option<bool>, Query, description = "blocks and reorganisations; yes unless false"),
        ("mempool" = Option<bool>, Query, description = "every transaction that enters or leaves the mempool; no unless true"),
        ("address" = Option<String>, Query, description = "addresses to watch, with commas between"),
        ("scripthash" = Option<String>, Query, description = "scripthashes to watch, with commas between"),
        ("tx" = Option<String>, Query, description = "transactions to watch, with commas between"),
        ("last_event_id" = Option<String>, Query, description = "go on after this event; the header Last-Event-ID goes before it"),
    ),
    responses(
        (status = 200, description = "events", body = String, content_type = "text/event-stream"),
        (status = 400, description = "not an address, hash, or event id", body = String, content_type = "text/plain"),
        (status = 422, description = "too many to watch", body = String, content_type = "text/plain"),
        (status = 503, description = "no place for another listener", body = String, content_type = "text/plain"),
    ))]
pub(super) async fn events(
    State(app): State<App>,
    query: QueryParams,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let listener = listen(&app, &query, &headers)?;
    let begin = Some((listener, true));
    let pieces = stream::unfold(begin, |state| async {
        let (mut listener, is_first) = state?;
        let mut out = Vec::with_capacity(512);
        if is_first {
            out.extend_from_slice(format!("retry: {RETRY_MILLIS}\n\n").as_bytes());
        }
        let is_open = write_next(&mut listener, &mut out).await;
        let piece = Ok::<_, std::convert::Infallible>(Bytes::from(out));
        Some((piece, is_open.then_some((listener, false))))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        // What stands between must not collect events into larger pieces.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    Ok(response)
}

/// Writes the next events, or a sign of life; false at the end.
async fn write_next(listener: &mut Listener, out: &mut Vec<u8>) -> bool {
    match tokio::time::timeout(HEARTBEAT, listener.next()).await {
        Ok(Some(events)) => {
            events.iter().for_each(|event| write(event, out));
            true
        }
        Ok(None) => false,
        Err(_) => {
            out.extend_from_slice(b":\n\n");
            true
        }
    }
}

fn write(event: &Event, out: &mut Vec<u8>) {
    if let Some(id) = &event.id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event.name.as_bytes());
    // The data is JSON without line breaks.
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(&event.data);
    out.extend_from_slice(b"\n\n");
}
