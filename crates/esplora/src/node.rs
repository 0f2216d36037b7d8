//! What the API asks the node itself: to take transactions, to judge them, what fees are usual, what to mine.

use std::future::Future;
use std::pin::Pin;

use bitcoin::Txid;
use cairn_utxo_node::{Node, NodeError};

/// The targets, in blocks, for which fees are estimated.
const TARGETS: [u16; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 144,
    504, 1008,
];

/// Why the node gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeCallError {
    /// The node looked at it and refused. The text is the node's own, with its code, as clients parse it:
    /// `sendrawtransaction RPC error: {"code":-26,"message":"…"}`.
    #[error("{text}")]
    Rejected {
        /// The whole line.
        text: String,
        /// The node's code and message alone, a JSON object.
        failure: String,
    },
    /// The node did not look at it: unreachable, starting, busy, or it refuses us.
    #[error("{0}")]
    Unavailable(String),
}

impl From<NodeError> for NodeCallError {
    fn from(error: NodeError) -> Self {
        match error.rejection() {
            // A node that is still starting says so with a code of its own; that is no verdict.
            Some(failure) if !error.is_transient() => Self::Rejected {
                failure: failure.to_string(),
                text: error.to_string(),
            },
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// What the calls of [`NodeCalls`] return.
pub type NodeFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, NodeCallError>> + Send + 'a>>;

/// A node behind the API. Texts that are JSON are the node's own, as they stand.
pub trait NodeCalls: Send + Sync + 'static {
    /// Sends a transaction given as hexadecimal text to the network.
    fn broadcast<'a>(&'a self, tx_hex: &'a str) -> NodeFuture<'a, Txid>;

    /// Sends parents and their child. The limits are decimals in coins: per 1000 virtual bytes, and in all.
    fn submit_package<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
        max_burn_amount: Option<&'a str>,
    ) -> NodeFuture<'a, String>;

    /// Whether the node would take transactions.
    fn test_accept<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
    ) -> NodeFuture<'a, String>;

    /// Fee rates, satoshi per 1000 virtual bytes, by target in blocks, ascending; targets for which the node has no answer are
    /// left out. A node that has none at all on a test chain of one's own gives the rate it relays at for all.
    fn fee_estimates(&self) -> NodeFuture<'_, Vec<(u16, u64)>>;

    /// A template for a block.
    fn block_template(&self) -> NodeFuture<'_, String>;
}

impl NodeCalls for Node {
    fn broadcast<'a>(&'a self, tx_hex: &'a str) -> NodeFuture<'a, Txid> {
        Box::pin(async move { Ok(self.send_raw_transaction(tx_hex).await?) })
    }

    fn submit_package<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
        max_burn_amount: Option<&'a str>,
    ) -> NodeFuture<'a, String> {
        Box::pin(async move {
            let answer = Node::submit_package(self, txs, max_fee_rate, max_burn_amount).await?;
            Ok(answer.get().to_owned())
        })
    }

    fn test_accept<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
    ) -> NodeFuture<'a, String> {
        Box::pin(async move {
            let answer = self.test_mempool_accept(txs, max_fee_rate).await?;
            Ok(answer.get().to_owned())
        })
    }

    fn fee_estimates(&self) -> NodeFuture<'_, Vec<(u16, u64)>> {
        Box::pin(async move {
            let estimates = Node::fee_estimates(self, &TARGETS).await?;
            let known: Vec<(u16, u64)> = TARGETS
                .into_iter()
                .zip(estimates)
                .filter_map(|(target, rate)| Some((target, rate?.to_sat())))
                .collect();
            if !known.is_empty() || self.chain_info().await?.chain != "regtest" {
                return Ok(known);
            }
            let relay_fee = self.network_info().await?.relay_fee;
            Ok(relay_fee
                .map(|rate| TARGETS.map(|target| (target, rate.to_sat())).to_vec())
                .unwrap_or_default())
        })
    }

    fn block_template(&self) -> NodeFuture<'_, String> {
        Box::pin(async move {
            let is_signet = self.chain_info().await?.chain == "signet";
            let rules: &[&str] = if is_signet {
                &["segwit", "signet"]
            } else {
                &["segwit"]
            };
            Ok(Node::block_template(self, rules).await?.get().to_owned())
        })
    }
}
