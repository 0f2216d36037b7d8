//! Applying blocks on top of the chain.

use std::sync::PoisonError;

use bitcoin::{OutPoint, Txid};
use cairn_utxo_chain::walk::OutputRef;

use super::block::{BlockData, write_history_rows, write_txstore_rows};
use super::outputs::OutputMap;
use super::touched::TouchedScripts;
use super::{Followed, Follower, write_tip};
use crate::engine::{Durability, SortedRows, Stores};
use crate::headers::{NodeId, NodeMarks};
use crate::index::{IndexConfig, IndexError, Phase, SyncState};
use crate::view::block_ref;

/// Serialized blocks that one group should hold, bytes. Rows take about four times as much while they are written.
pub(super) const GROUP_BYTES: u64 = 8 << 20;
/// Blocks in a group: the first one, and the most.
const GROUP_BLOCKS_FIRST: usize = 8;
const GROUP_BLOCKS_MAX: usize = 256;

impl Follower<'_> {
    /// Applies `nodes`, ascending, on the tip. Readers see each group as it is done; after a reorganisation not before
    /// the new branch is as long as the old one was (`old_len`), or complete.
    pub(super) fn apply(
        &self,
        state: &mut SyncState,
        nodes: &[NodeId],
        old_len: usize,
        followed: &mut Followed,
    ) -> Result<(), IndexError> {
        self.progress.set_phase(Phase::Following, 0);
        let mut rest = nodes;
        let mut group_blocks = GROUP_BLOCKS_FIRST;
        while !rest.is_empty() {
            self.check_stop()?;
            let (group, later) = rest.split_at(group_blocks.min(rest.len()));
            let blocks = self.fetch(group)?;
            let bytes: u64 = blocks.iter().map(|data| data.size() as u64).sum();
            self.apply_group(state, group, &blocks)?;
            let txs: u64 = blocks.iter().map(|data| data.txids.len() as u64).sum();
            followed.blocks += blocks.len() as u64;
            followed.txs += txs;
            self.progress.add_done(bytes);
            self.progress.add_blocks(blocks.len() as u64);
            self.progress.add_txs(txs);
            rest = later;
            if state.loaded && (rest.is_empty() || state.chain.len() >= old_len) {
                (self.publish)(state);
            }
            // Aim at groups of the wanted size; sizes of neighbouring blocks are alike.
            if bytes * 2 < GROUP_BYTES {
                group_blocks = (group_blocks * 2).min(GROUP_BLOCKS_MAX);
            } else if bytes > GROUP_BYTES {
                group_blocks = (group_blocks / 2).max(1);
            }
        }
        Ok(())
    }

    fn apply_group(
        &self,
        state: &mut SyncState,
        nodes: &[NodeId],
        blocks: &[BlockData],
    ) -> Result<(), IndexError> {
        // What these blocks spend lies in older blocks or in themselves, so the second phase's rows can be made while those of
        // the first are written. They are written after them.
        let (rows, rows_touched) = std::thread::scope(|scope| {
            let (stores, config) = (self.stores, self.config);
            let second = scope.spawn(|| history_rows(stores, config, blocks));
            let first = self.add(nodes, blocks);
            let second = second
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            first.and(second)
        })?;
        let mut batch = self.stores.history.batch();
        rows.put_into(&mut batch);
        self.stores.history.write(batch, Durability::Synced)?;
        if state.loaded {
            let tree = self.tree();
            for (id, data) in nodes.iter().zip(blocks) {
                state.delta.connect(block_ref(&tree, *id));
                for (tx, txid) in data.txs() {
                    state.delta.confirm(*txid, tx.output.len());
                }
                for (txid, _, outpoint) in data.spends() {
                    state.delta.spend(outpoint, *txid);
                }
            }
            drop(tree);
            rows_touched.tell(&mut state.delta);
        }
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        for id in nodes {
            tree.set_marks(
                *id,
                NodeMarks {
                    added: true,
                    indexed: true,
                },
            );
            state.chain.push(*id);
        }
        drop(tree);
        state.stale.retain(|id| !nodes.contains(id));
        if let (true, Some(last)) = (state.loaded, blocks.last()) {
            write_tip(self.stores, last.hash)?;
        }
        Ok(())
    }

    /// Phase 1 of those blocks that do not have it: after a crash between the phases, or when a branch comes back,
    /// their rows are there already.
    fn add(&self, nodes: &[NodeId], blocks: &[BlockData]) -> Result<(), IndexError> {
        let features = self.config.features();
        let mut rows = SortedRows::default();
        for (id, data) in nodes.iter().zip(blocks) {
            if !self.tree().marks(*id).added {
                write_txstore_rows(data, features, &mut |family, key, value| {
                    rows.put(family, key, value)
                });
            }
        }
        let mut batch = self.stores.txstore.batch();
        rows.put_into(&mut batch);
        self.stores.txstore.write(batch, Durability::Synced)?;
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        for id in nodes {
            let marks = tree.marks(*id);
            tree.set_marks(
                *id,
                NodeMarks {
                    added: true,
                    ..marks
                },
            );
        }
        Ok(())
    }
}

/// Phase 2: the rows, and the scripts that they touch.
fn history_rows(
    stores: &Stores,
    config: &IndexConfig,
    blocks: &[BlockData],
) -> Result<(SortedRows, TouchedScripts), IndexError> {
    let outputs = OutputMap::of_blocks(config.network.family(), blocks, &stores.txstore)?;
    let features = config.features();
    let mut rows = SortedRows::default();
    let mut touched = TouchedScripts::default();
    for data in blocks {
        let prevout =
            |txid: &Txid, vin: u32, outpoint: &OutPoint| -> Result<OutputRef<'_>, IndexError> {
                outputs
                    .get(outpoint)?
                    .ok_or_else(|| missing_output(data, txid, vin, outpoint))
            };
        write_history_rows(
            data,
            features,
            config.network,
            prevout,
            &mut |family, key, value| {
                rows.put(family, key, value);
                touched.push(family, key);
            },
        )?;
    }
    Ok((rows, touched))
}

/// The error for an input whose previous output is not in `txstore`: damage, or blocks of another chain.
pub(super) fn missing_output(
    data: &BlockData,
    txid: &Txid,
    vin: u32,
    outpoint: &OutPoint,
) -> IndexError {
    IndexError::Corrupt(format!(
        "missing previous output: block {} at height {}, input {vin} of transaction {txid} spends {outpoint}, which is \
         not in txstore; run `cairn verify` on the heights below to find damaged blocks, or delete the index folder to \
         build it anew",
        data.hash, data.height
    ))
}
