//! Events as server-sent events (the WHATWG HTML standard); answers come by `POST …/acks`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use cairn_http::{CacheClass, PathParams, QueryParams};
use futures_util::stream;
use tokio::sync::mpsc;

use crate::client::Told;
use crate::consumer::Consumer;
use crate::error::ApiError;
use crate::objects::ErrorAnswer;
use crate::socket;
use crate::state::App;

/// When a client that lost the connection should come back, milliseconds.
const RETRY_MILLIS: u32 = 1_000;
/// A piece of the answer is not made larger than this by one more event, bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The events of a subscription, each until it is acknowledged: server-sent events, or a WebSocket if the request asks for
/// one.
///
/// Server-sent events: those without a name are events of the stream, with the id to acknowledge. `active` (with the fencing
/// value `epoch`), `standby` and `error` tell how the subscription is. No more than `window` events come without an
/// acknowledgement.
///
/// WebSocket: messages `{"type":"event","id","attempt","epoch","event"}`, `{"type":"active","epoch"}`, `{"type":"standby"}`,
/// `{"type":"error","error","code"}`; the client sends `{"type":"ack","ids":[…]}`, `{"type":"ack","upTo":"…"}` or
/// `{"type":"nack","id","error"}`.
#[utoipa::path(get, path = "/api/streams/{chain}/subscriptions/{sub}/events", tag = "subscriptions",
    params(
        ("chain" = String, Path, description = "the chain's id"),
        ("sub" = String, Path, description = "the subscription's id"),
        ("filters" = Option<String>, Query, description = "which events, a JSON list; everything unless given"),
        ("startFrom" = Option<String>, Query, description = "where a new subscription begins: last_known, first, head-minus-K, or a block's number"),
        ("window" = Option<u64>, Query, description = "events without an acknowledgement at once; 100 unless given, at most 10000"),
        ("forks" = Option<bool>, Query, description = "whether forks come whatever the filters say; yes unless false"),
        ("allowGap" = Option<bool>, Query, description = "begin at the oldest event when startFrom was trimmed away"),
        ("job" = Option<String>, Query, description = "read the stream of this reparse job instead of the live one"),
    ),
    responses(
        (status = 200, description = "the events", body = String, content_type = "text/event-stream"),
        (status = 101, description = "the connection is a WebSocket now"),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
        (status = 401, description = "not the token", body = ErrorAnswer),
        (status = 404, description = "no such chain", body = ErrorAnswer),
        (status = 409, description = "in use with other filters", body = ErrorAnswer),
        (status = 429, description = "too many connections of this subscription", body = ErrorAnswer),
        (status = 503, description = "off, stopping, or full", body = ErrorAnswer),
    ))]
pub(crate) async fn events(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let consumer = Consumer::connect(&app, &path, &query, &headers, "window").await?;
    if let Ok(upgrade) = upgrade {
        return Ok(socket::answer(upgrade, app, consumer));
    }
    let heartbeat = app.hosts.options().heartbeat;
    let begin = Some((consumer.told, true));
    let pieces = stream::unfold(begin, move |state| async move {
        let (mut told, is_first) = state?;
        let mut out = String::with_capacity(1_024);
        if is_first {
            out.push_str(&format!("retry: {RETRY_MILLIS}\n\n"));
        }
        let is_open = match tokio::time::timeout(heartbeat, told.recv()).await {
            Ok(Some(first)) => write_all(first, &mut told, &mut out),
            Ok(None) => false,
            Err(_) => {
                out.push_str(":\n\n");
                true
            }
        };
        let piece = Ok::<_, std::convert::Infallible>(Bytes::from(out));
        Some((piece, is_open.then_some((told, false))))
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

/// Writes what is there; false when nothing can follow.
fn write_all(first: Told, told: &mut mpsc::Receiver<Told>, out: &mut String) -> bool {
    let mut next = Some(first);
    while let Some(told_now) = next {
        if !write(&told_now, out) {
            return false;
        }
        next = if out.len() < PIECE_BYTES {
            told.try_recv().ok()
        } else {
            None
        };
    }
    true
}

fn write(told: &Told, out: &mut String) -> bool {
    match told {
        Told::Active { epoch } => {
            out.push_str(&format!("event: active\ndata: {{\"epoch\":{epoch}}}\n\n"))
        }
        Told::Standby => out.push_str("event: standby\ndata: {}\n\n"),
        Told::Event(given) => {
            out.push_str("id: ");
            out.push_str(&given.id);
            // A line break can only stand between two parts of the JSON, where a new line of data means the same.
            for line in given.event.text().split(['\n', '\r']) {
                out.push_str("\ndata: ");
                out.push_str(line);
            }
            out.push_str("\n\n");
        }
        Told::Failed(error) => {
            out.push_str(&format!("event: error\ndata: {}\n\n", error.to_json()));
            return false;
        }
    }
    true
}
