//! Sending transactions through the node.

use std::sync::Arc;

use bitcoin::Txid;
use bitcoin::hex::FromHex;
use cairn_utxo_index::WholeTx;
use cairn_utxo_node::{Node, NodeError};
use serde_json::json;

use crate::server::Server;

/// Coins per 1000 virtual bytes beyond which a fee must be a mistake.
const FEE_RATE_MAX: &str = "0.10";
/// As much as there can be: a transaction that burns coins is the sender's affair.
const BURN_MAX: &str = "21000000";
/// A node that does not know the limit of burnt coins answers a third argument with its help text, under this code.
const CODE_MISC: i64 = -1;

impl Server {
    /// Sends a transaction given in hex digits.
    pub(crate) async fn send(&self, hex: &str) -> Result<Txid, NodeError> {
        let Some(node) = &self.node else {
            return Err(NodeError::Unavailable("this server has no node".to_owned()));
        };
        let txid = send_through(node, hex).await?;
        self.sent(&[hex]).await;
        Ok(txid)
    }

    /// The node took these transactions: they are in the mempool of the next request, not of the next comparison.
    pub(crate) async fn sent(&self, txs: &[impl AsRef<str>]) {
        let index = Arc::clone(&self.index);
        let family = index.network().family();
        let txs: Vec<WholeTx> = txs
            .iter()
            .filter_map(|hex| WholeTx::parse(family, Vec::from_hex(hex.as_ref()).ok()?).ok())
            .collect();
        match tokio::task::spawn_blocking(move || index.add_accepted(txs)).await {
            Ok(Ok(_)) => {}
            // The next comparison with the node's mempool brings them.
            Ok(Err(error)) => {
                tracing::warn!(chain = self.chain, %error, "a sent transaction cannot be added")
            }
            Err(failure) => {
                tracing::error!(chain = self.chain, %failure, "adding a sent transaction panicked")
            }
        }
    }
}

async fn send_through(node: &Node, hex: &str) -> Result<Txid, NodeError> {
    const METHOD: &str = "sendrawtransaction";
    let full = [json!(hex), json!(FEE_RATE_MAX), json!(BURN_MAX)];
    let answer = match node.rpc().call_sending(METHOD, &full).await {
        Err(NodeError::Rejected { failure, .. })
            if failure.code == CODE_MISC && failure.message.starts_with(METHOD) =>
        {
            node.rpc().call_sending(METHOD, &full[..1]).await?
        }
        other => other?,
    };
    serde_json::from_str(answer.get()).map_err(|_| {
        NodeError::Answer(format!(
            "{METHOD} gave something else than a transaction's id"
        ))
    })
}
