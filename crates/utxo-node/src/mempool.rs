//! A node's mempool, as the index reads it.

use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::tx::WholeTx;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::hints::Hints;
use crate::node::Node;
use crate::rpc::NodeError;
use crate::source::SourceError;

/// Transactions asked for in one request. Even if each is as large as a node relays, the answer is one that we take.
const BATCH_TXS: usize = 100;
/// Requests for transactions at once.
const BATCHES_AT_ONCE: usize = 4;
/// Attempts at a list during which the node's tip stands still.
const LIST_TRIES: u32 = 10;

/// The ids of all unconfirmed transactions at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MempoolListing {
    /// The node's tip at that moment.
    pub tip: BlockHash,
    /// The ids. Nodes give parents before children; nothing relies on it.
    pub txids: Vec<Txid>,
}

/// What a node tells of its mempool in passing. If two are equal, it is very likely that nothing changed between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolStamp {
    /// The node's tip.
    pub tip: BlockHash,
    /// Number of transactions.
    pub count: u64,
    /// Virtual bytes of all of them.
    pub bytes: u64,
    /// Memory they take at the node, bytes.
    pub usage: u64,
}

/// Somebody whose unconfirmed transactions the index follows. Calls block the thread.
pub trait MempoolSource: Send + Sync {
    /// The list, taken while the node's tip stood still.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn list(&self) -> Result<MempoolListing, SourceError>;

    /// Transactions by their ids, in that order; `None` for one that is not there any more.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn fetch(&self, txids: &[Txid]) -> Result<Vec<Option<WholeTx>>, SourceError>;

    /// A glance that costs the node next to nothing.
    ///
    /// # Errors
    /// See [`SourceError`].
    fn stamp(&self) -> Result<MempoolStamp, SourceError>;

    /// Returns when there may be something new, or after `timeout`. A hint, not a promise.
    fn wait(&self, timeout: Duration);
}

/// The mempool of a node.
///
/// Its calls block the thread on a runtime's handle: they must not be made on a worker thread of that runtime, and the
/// runtime must outlive it. They end with [`SourceError::Stopped`] soon after the token is cancelled.
#[derive(Debug, Clone)]
pub struct NodeMempool {
    node: Node,
    hints: Option<Hints>,
    runtime: Handle,
    stop: CancellationToken,
}

impl NodeMempool {
    /// The mempool of `node`. `hints` shorten the waiting.
    pub fn new(node: Node, hints: Option<Hints>, runtime: Handle, stop: CancellationToken) -> Self {
        Self {
            node,
            hints,
            runtime,
            stop,
        }
    }

    fn wait_for<T>(
        &self,
        answer: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, SourceError> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(SourceError::Stopped),
                result = answer => result.map_err(SourceError::from),
            }
        })
    }
}

impl MempoolSource for NodeMempool {
    fn list(&self) -> Result<MempoolListing, SourceError> {
        let listing = self.wait_for(async {
            let mut tip = self.node.best_block_hash().await?;
            for _ in 0..LIST_TRIES {
                let txids = self.node.mempool().await?;
                let after = self.node.best_block_hash().await?;
                if after == tip {
                    return Ok(Some(MempoolListing { tip, txids }));
                }
                tip = after;
            }
            Ok(None)
        })?;
        listing.ok_or_else(|| {
            SourceError::Unavailable(format!(
                "the chain of node {} moved {LIST_TRIES} times while its mempool was listed",
                self.node.label()
            ))
        })
    }

    fn fetch(&self, txids: &[Txid]) -> Result<Vec<Option<WholeTx>>, SourceError> {
        self.wait_for(async {
            let parts: Vec<Vec<Option<WholeTx>>> = stream::iter(txids.chunks(BATCH_TXS))
                .map(|part| self.node.mempool_transactions(part))
                .buffered(BATCHES_AT_ONCE)
                .try_collect()
                .await?;
            Ok(parts.into_iter().flatten().collect())
        })
    }

    fn stamp(&self) -> Result<MempoolStamp, SourceError> {
        self.wait_for(async {
            let info = self.node.mempool_info().await?;
            let tip = self.node.best_block_hash().await?;
            Ok(MempoolStamp {
                tip,
                count: info.size,
                bytes: info.bytes,
                usage: info.usage,
            })
        })
    }

    fn wait(&self, timeout: Duration) {
        // Only a stop can end it early with an error.
        let _ = self.wait_for(async {
            match &self.hints {
                Some(hints) => hints.wait(timeout).await,
                None => tokio::time::sleep(timeout).await,
            }
            Ok(())
        });
    }
}
