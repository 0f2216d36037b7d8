//! From an accepted socket to a stream of message bytes: PROXY headers, TLS, WebSocket, lines.
//!
//! Nothing here knows JSON-RPC. All of them give the session the same thing: bytes in which a line is a message.

mod lines;
mod proxy;
mod tls;
mod websocket;

pub(crate) use lines::{Line, LineBuffer};
pub(crate) use proxy::read_proxy_header;
pub use tls::{TlsError, TlsIdentity};
pub(crate) use websocket::{WebSocketLimits, serve_websocket};
