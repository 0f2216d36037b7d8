//! Bodies that light mode does not store: they come from the node.

use std::sync::{Arc, PoisonError};

use bitcoin::{BlockHash, Txid};
use cairn_utxo_node::{ChainSource, SourceError};

use super::{Result, View};
use crate::follow::BlockData;
use crate::types::QueryError;

impl View {
    /// A whole block from the node, parsed and checked.
    pub(super) fn fetched_block(&self, hash: &BlockHash, height: u32) -> Result<BlockData> {
        let bytes = self.fetched_block_raw(hash)?;
        BlockData::parse(self.shared.network.family(), &bytes, *hash, height)
            .map_err(|error| QueryError::Node(format!("block {hash} from the node {error}")))
    }

    /// The bytes of a block from the node.
    pub(super) fn fetched_block_raw(&self, hash: &BlockHash) -> Result<Vec<u8>> {
        self.node()?.block(hash).map_err(node_error)
    }

    /// The bytes of a transaction from the node, which needs to know a block that holds it.
    pub(super) fn fetched_tx(&self, txid: &Txid, block: &BlockHash) -> Result<Vec<u8>> {
        self.node()?.transaction(txid, block).map_err(node_error)
    }

    fn node(&self) -> Result<Arc<dyn ChainSource>> {
        let bodies = self
            .shared
            .bodies
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        bodies.clone().ok_or_else(|| {
            QueryError::Node(
                "this index is in light mode and needs its node for the answer; none is connected"
                    .into(),
            )
        })
    }
}

/// A failing node is a reason to ask again later, never "there is no such thing": the rows say that there is.
fn node_error(error: SourceError) -> QueryError {
    QueryError::Node(format!(
        "the node did not give what the answer needs: {error}"
    ))
}
