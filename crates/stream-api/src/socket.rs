//! Events by WebSocket, and the client's answers on the same connection.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;

use crate::client::Told;
use crate::consumer::{Consumer, members};
use crate::message::{Answers, MESSAGE_BYTES_MAX};
use crate::state::App;

/// A client that takes nothing for so long is cut.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that is silent for so many heartbeats, answers to them included, is gone.
const SILENT_HEARTBEATS_MAX: u32 = 3;
/// Longest reason of a close frame, bytes: RFC 6455 allows 123.
const REASON_BYTES_MAX: usize = 120;

/// Takes the connection over.
pub(crate) fn answer(upgrade: WebSocketUpgrade, app: App, consumer: Consumer) -> Response {
    upgrade
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(|socket| async move {
            if run(socket, &app, consumer).await.is_none() {
                tracing::debug!("a subscriber's connection broke");
            }
        })
}

/// Runs until either side ends; `None` if the connection broke.
async fn run(mut socket: WebSocket, app: &App, mut consumer: Consumer) -> Option<()> {
    let mut heartbeat = tokio::time::interval(app.hosts.options().heartbeat);
    let mut silent = 0;
    loop {
        tokio::select! {
            told = consumer.told.recv() => match told {
                Some(told) => {
                    let is_last = matches!(told, Told::Failed(_));
                    send(&mut socket, Message::text(text(&told))).await?;
                    if is_last {
                        return close(&mut socket, close_code::ERROR, "the subscription ended").await;
                    }
                }
                None => return close(&mut socket, close_code::AWAY, "the server is stopping").await,
            },
            message = socket.recv() => {
                silent = 0;
                match message?.ok()? {
                    Message::Text(text) => match Answers::parse_message(&text) {
                        Ok(answers) => {
                            let (source, sub_id) = (consumer.source.clone(), consumer.sub_id.clone());
                            // Ids that are out no more were given to somebody else: nothing to tell.
                            let _ = app.hosts.settle(source, sub_id, answers).await;
                        }
                        Err(error) => return close(&mut socket, close_code::POLICY, &error).await,
                    },
                    Message::Close(_) => return Some(()),
                    Message::Binary(_) => return close(&mut socket, close_code::UNSUPPORTED, "text is expected").await,
                    Message::Ping(_) | Message::Pong(_) => {}
                }
            },
            _ = heartbeat.tick() => {
                silent += 1;
                if silent > SILENT_HEARTBEATS_MAX {
                    return None;
                }
                send(&mut socket, Message::Ping(Bytes::new())).await?;
            }
        }
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> Option<()> {
    tokio::time::timeout(SEND_TIMEOUT, socket.send(message))
        .await
        .ok()?
        .ok()
}

async fn close(socket: &mut WebSocket, code: u16, reason: &str) -> Option<()> {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame {
        code,
        reason: reason[..end].into(),
    };
    send(socket, Message::Close(Some(frame))).await
}

fn text(told: &Told) -> String {
    match told {
        Told::Active { epoch } => format!("{{\"type\":\"active\",\"epoch\":{epoch}}}"),
        Told::Standby => "{\"type\":\"standby\"}".to_owned(),
        Told::Event(given) => {
            let mut out = String::with_capacity(given.event.text().len() + 100);
            out.push_str("{\"type\":\"event\",");
            members(given, &mut out);
            out.push('}');
            out
        }
        Told::Failed(error) => {
            let json = error.to_json();
            format!("{{\"type\":\"error\",{}", json.trim_start_matches('{'))
        }
    }
}
