//! Where messages come from and go to: a node's socket or something that behaves like one.

use futures_util::future::BoxFuture;
use tokio_tungstenite::tungstenite::Bytes;

use crate::error::ShipError;

/// A message from the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Text: the ABI of the protocol, the first message of a connection.
    Text(String),
    /// Binary: everything else.
    Binary(Bytes),
}

/// A place to connect to, again and again.
pub trait Source: Send {
    /// What to call it in messages. Has no secrets.
    fn endpoint(&self) -> String;
    /// Opens a connection.
    fn connect(&mut self) -> BoxFuture<'_, Result<Box<dyn Transport>, ShipError>>;
}

/// An open connection.
pub trait Transport: Send {
    /// The next message. May be dropped before it is done without losing one.
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, ShipError>>;
    /// Sends a binary message.
    fn send(&mut self, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), ShipError>>;
}
