//! Handing a transaction to the network, through whoever can.

use std::future::Future;
use std::pin::Pin;

use bitcoin::Txid;
use cairn_utxo_node::{Node, NodeError};

/// Why a transaction was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BroadcastError {
    /// The node looked at it and refused. The text is the node's own, with its code, as clients parse it:
    /// `sendrawtransaction RPC error: {"code":-26,"message":"…"}`.
    #[error("{0}")]
    Rejected(String),
    /// The node did not look at it: unreachable, starting, busy, or it refuses us.
    #[error("{0}")]
    Unavailable(String),
}

/// What [`Broadcast::broadcast`] returns.
pub type BroadcastFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Txid, BroadcastError>> + Send + 'a>>;

/// Somebody who can send a transaction to the network.
pub trait Broadcast: Send + Sync + 'static {
    /// Sends a transaction given as hexadecimal text.
    fn broadcast<'a>(&'a self, tx_hex: &'a str) -> BroadcastFuture<'a>;
}

impl Broadcast for Node {
    fn broadcast<'a>(&'a self, tx_hex: &'a str) -> BroadcastFuture<'a> {
        Box::pin(async move {
            self.send_raw_transaction(tx_hex)
                .await
                .map_err(|error| match &error {
                    // A node that is still starting says so with a code of its own; that is no verdict.
                    NodeError::Rejected { .. } if !error.is_transient() => {
                        BroadcastError::Rejected(error.to_string())
                    }
                    _ => BroadcastError::Unavailable(error.to_string()),
                })
        })
    }
}
