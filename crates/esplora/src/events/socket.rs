//! The same events by WebSocket, and messages of the client that say what else it watches.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use cairn_http::{HttpError, QueryParams};

use super::listener::Listener;
use super::write::Event;
use super::{HEARTBEAT, listen};
use crate::json::JsonBuf;
use crate::state::App;

/// Bytes of a client's message: a thousand addresses and their punctuation.
const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// A client that takes nothing for so long is cut.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that is silent for so many heartbeats, answers to them included, is gone.
const SILENT_HEARTBEATS_MAX: u32 = 3;

/// What changes, as it changes: a WebSocket with messages `{"id","event","data"}`.
///
/// The client can send `{"watch":{"addresses":[],"scripthashes":[],"txs":[]}}`, and the same under `unwatch`.
#[utoipa::path(get, path = "/events/ws", tag = "events",
    params(
        ("blocks" = Option<bool>, Query, description = "blocks and reorganisations; yes unless false"),
        ("mempool" = Option<bool>, Query, description = "every transaction that enters or leaves the mempool; no unless true"),
        ("address" = Option<String>, Query, description = "addresses to watch, with commas between"),
        ("scripthash" = Option<String>, Query, description = "scripthashes to watch, with commas between"),
        ("tx" = Option<String>, Query, description = "transactions to watch, with commas between"),
        ("last_event_id" = Option<String>, Query, description = "go on after this event"),
    ),
    responses(
        (status = 101, description = "the connection is a WebSocket now"),
        (status = 400, description = "not an address, hash, or event id", body = String, content_type = "text/plain"),
        (status = 422, description = "too many to watch", body = String, content_type = "text/plain"),
        (status = 426, description = "the request is not one for a WebSocket", body = String, content_type = "text/plain"),
        (status = 503, description = "no place for another listener", body = String, content_type = "text/plain"),
    ))]
pub(super) async fn events_socket(
    State(app): State<App>,
    query: QueryParams,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, HttpError> {
    let upgrade = upgrade.map_err(|_| {
        HttpError::new(
            StatusCode::UPGRADE_REQUIRED,
            "this is for WebSockets; /events has the same as server-sent events",
        )
    })?;
    let listener = listen(&app, &query, &headers)?;
    Ok(upgrade
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(|socket| async move {
            if run(socket, listener).await.is_none() {
                tracing::debug!("a listener's connection broke");
            }
        }))
}

/// Runs until either side ends; `None` if the connection broke.
async fn run(mut socket: WebSocket, mut listener: Listener) -> Option<()> {
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let mut silent = 0;
    loop {
        let events = tokio::select! {
            events = listener.next() => match events {
                Some(events) => events,
                None => {
                    return send(&mut socket, Message::Close(None)).await;
                }
            },
            message = socket.recv() => {
                silent = 0;
                match message?.ok()? {
                    Message::Text(text) => match listener.take(&text).await {
                        Ok(events) => events,
                        Err(error) => vec![refusal(&error)],
                    },
                    Message::Close(_) => return Some(()),
                    Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
                }
            },
            _ = heartbeat.tick() => {
                silent += 1;
                if silent > SILENT_HEARTBEATS_MAX {
                    return None;
                }
                send(&mut socket, Message::Ping(Bytes::new())).await?;
                continue;
            }
        };
        for event in events {
            send(&mut socket, Message::text(text(&event))).await?;
        }
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> Option<()> {
    tokio::time::timeout(SEND_TIMEOUT, socket.send(message))
        .await
        .ok()?
        .ok()
}

/// An event that says why a message was not understood.
fn refusal(error: &HttpError) -> Event {
    Event {
        name: "error",
        data: serde_json::json!({ "error": error.text() })
            .to_string()
            .into_bytes(),
        id: None,
    }
}

fn text(event: &Event) -> String {
    let mut out = JsonBuf::with_capacity(event.data.len() + 160);
    out.raw("{");
    if let Some(id) = &event.id {
        out.raw("\"id\":\"").raw(id).raw("\",");
    }
    out.raw("\"event\":\"")
        .raw(event.name)
        .raw("\",\"data\":")
        .json(&event.data)
        .raw("}");
    String::from_utf8_lossy(&out.into_bytes()).into_owned()
}
