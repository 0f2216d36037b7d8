//! Taking blocks off the chain.
//!
//! The rows to delete are computed again from the block and its previous outputs, both of which `txstore` still has:
//! no undo log, so no depth limit. Deleting a row that is not there is no error, so an undo that was interrupted is
//! simply done again. Rows of `txstore` stay (a stale block keeps answering, and coming back is free), and so do `a`
//! rows.

use std::sync::PoisonError;

use bitcoin::{OutPoint, Txid};
use cairn_utxo_chain::walk::OutputRef;

use super::apply::missing_output;
use super::block::{BlockData, write_history_rows};
use super::outputs::OutputMap;
use super::touched::TouchedScripts;
use super::{Followed, Follower, write_tip};
use crate::engine::{Durability, Family};
use crate::headers::{NodeId, NodeMarks};
use crate::index::{IndexError, SyncState};
use crate::rows::{self, Features, RowKind};
use crate::view::block_ref;

impl Follower<'_> {
    /// Undoes `nodes`, from the tip down; one batch per block, so memory does not depend on the depth.
    pub(super) fn undo(
        &self,
        state: &mut SyncState,
        nodes: &[NodeId],
        followed: &mut Followed,
    ) -> Result<(), IndexError> {
        let Some(first) = nodes.first() else {
            return Ok(());
        };
        {
            let tree = self.tree();
            tracing::info!(
                tip = %tree.hash(*first),
                height = tree.height(*first),
                depth = nodes.len(),
                "reorganisation: taking blocks off the chain"
            );
        }
        for id in nodes {
            self.check_stop()?;
            self.undo_block(state, *id)?;
            let popped = state.chain.pop();
            debug_assert_eq!(popped, Some(*id), "undo goes from the tip down");
            state.stale.push(*id);
            followed.undone += 1;
        }
        // The tip row follows at once: the chain may end here, when the source merely lost blocks.
        if let (true, Some(tip)) = (state.loaded, state.chain.tip()) {
            let hash = self.tree().hash(tip);
            write_tip(self.stores, hash)?;
        }
        Ok(())
    }

    fn undo_block(&self, state: &mut SyncState, id: NodeId) -> Result<(), IndexError> {
        let data = self.stored_block(id)?;
        let blocks = [data];
        let outputs =
            OutputMap::of_blocks(self.config.network.family(), &blocks, &self.stores.txstore)?;
        let [data] = blocks;
        let mut batch = self.stores.history.batch();
        let mut touched = TouchedScripts::default();
        let prevout =
            |txid: &Txid, vin: u32, outpoint: &OutPoint| -> Result<OutputRef<'_>, IndexError> {
                outputs
                    .get(outpoint)?
                    .ok_or_else(|| missing_output(&data, txid, vin, outpoint))
            };
        let features = Features {
            address_search: false,
            ..self.config.features()
        };
        write_history_rows(
            &data,
            features,
            self.config.network,
            prevout,
            // An `i` row goes too. It is this block's: an asset's id follows from the output that its issuance spends, and one
            // chain spends that once; what another branch wrote comes only after this undo is done.
            &mut |family, key, _| {
                batch.delete(family, key);
                touched.push(family, key);
            },
        )?;
        self.stores.history.write(batch, Durability::Synced)?;
        if state.loaded {
            state.delta.disconnect(block_ref(&self.tree(), id));
            for (tx, txid) in data.txs() {
                state.delta.unconfirm(*txid, tx.output.len());
            }
            for (txid, _, outpoint) in data.spends() {
                state.delta.unspend(outpoint, *txid);
            }
            touched.tell(&mut state.delta);
        }
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let marks = tree.marks(id);
        tree.set_marks(
            id,
            NodeMarks {
                indexed: false,
                ..marks
            },
        );
        Ok(())
    }

    /// A stored block: from its rows, in light mode from the source.
    fn stored_block(&self, id: NodeId) -> Result<BlockData, IndexError> {
        let (hash, height) = {
            let tree = self.tree();
            (tree.hash(id), tree.height(id))
        };
        if self.config.light_mode {
            return self.fetch_one(hash, height);
        }
        let missing = |what: String| {
            IndexError::Corrupt(format!(
                "undoing block {hash} at height {height}: {what}; run `cairn verify`, or delete the index folder to build \
                 it anew"
            ))
        };
        let txstore = &self.stores.txstore;
        let value = txstore
            .get(Family::Blocks, &rows::block_key(RowKind::Txids, &hash))?
            .ok_or_else(|| missing("its row X is missing".into()))?;
        let txids = rows::decode_txids(&value)?;
        let mut order: Vec<usize> = (0..txids.len()).collect();
        order.sort_unstable_by_key(|at| rows::tx_key(&txids[*at]));
        let keys: Vec<_> = order.iter().map(|at| rows::tx_key(&txids[*at])).collect();
        let mut found = vec![None; txids.len()];
        for (at, raw) in order
            .into_iter()
            .zip(txstore.multi_get(Family::Txs, &keys)?)
        {
            let txid = txids[at];
            let lacking = || missing(format!("the row T of transaction {txid} is missing"));
            found[at] = Some(raw.ok_or_else(lacking)?.to_vec());
        }
        let txs = found.iter().flatten().map(Vec::as_slice);
        let data = BlockData::from_stored(self.config.network.family(), hash, height, txs)
            .map_err(|error| missing(format!("a row T of its transactions {error}")))?;
        if data.txids != txids {
            return Err(missing("its rows T are of other transactions".into()));
        }
        Ok(data)
    }
}
