//! What a change of the chain does to the mempool.

use bitcoin::{OutPoint, Txid};
use hashbrown::{HashMap, HashSet};

use super::MempoolView;
use super::changes::Journal;
use crate::types::{BlockRef, ScriptHash};

/// Transactions and spends remembered between two views. A catch-up with more forgets the mempool, which is then loaded
/// anew: it would be out of date by hours anyway.
const ITEMS_MAX: usize = 4 << 20;

/// The blocks that came and went since the last published view, as far as mempool and readers need to know.
#[derive(Debug, Default)]
pub(crate) struct ChainDelta {
    /// Ascending.
    connected: Vec<BlockRef>,
    /// Descending.
    disconnected: Vec<BlockRef>,
    /// Transactions of connected blocks.
    confirmed: HashSet<Txid>,
    /// Transactions of disconnected blocks that no connected one holds, with the number of their outputs.
    unconfirmed: HashMap<Txid, u32>,
    /// What connected blocks spend, and by which transaction.
    spent: HashMap<OutPoint, Txid>,
    touched: Journal,
    overflow: bool,
}

impl ChainDelta {
    /// A change of which nothing is known but that there was one.
    pub(crate) fn unknown() -> Self {
        let mut delta = Self::default();
        delta.set_overflow();
        delta
    }

    fn set_overflow(&mut self) {
        *self = Self {
            overflow: true,
            ..Self::default()
        };
        self.touched.set_all();
    }

    pub(crate) fn connect(&mut self, block: BlockRef) {
        if self.overflow {
            return;
        }
        if self.disconnected.last() == Some(&block) {
            self.disconnected.pop();
        } else {
            self.connected.push(block);
        }
    }

    pub(crate) fn disconnect(&mut self, block: BlockRef) {
        if self.overflow {
            return;
        }
        if self.connected.last() == Some(&block) {
            self.connected.pop();
        } else {
            self.disconnected.push(block);
        }
    }

    /// A transaction of a connected block.
    pub(crate) fn confirm(&mut self, txid: Txid, outputs: usize) {
        if self.overflow {
            return;
        }
        self.unconfirmed.remove(&txid);
        self.confirmed.insert(txid);
        self.touch_outputs(txid, outputs);
    }

    /// A transaction of a disconnected block.
    pub(crate) fn unconfirm(&mut self, txid: Txid, outputs: usize) {
        if self.overflow {
            return;
        }
        self.confirmed.remove(&txid);
        self.unconfirmed
            .insert(txid, u32::try_from(outputs).unwrap_or(u32::MAX));
        self.touch_outputs(txid, outputs);
    }

    fn touch_outputs(&mut self, txid: Txid, outputs: usize) {
        for vout in (0u32..).take(outputs) {
            self.touched.touch_outpoint(OutPoint::new(txid, vout));
        }
        self.check();
    }

    /// An output that a connected block spends.
    pub(crate) fn spend(&mut self, outpoint: OutPoint, by: Txid) {
        if self.overflow {
            return;
        }
        self.spent.insert(outpoint, by);
        self.touched.touch_outpoint(outpoint);
        self.check();
    }

    /// An output that a disconnected block had spent.
    pub(crate) fn unspend(&mut self, outpoint: OutPoint, by: Txid) {
        if self.overflow {
            return;
        }
        if self.spent.get(&outpoint) == Some(&by) {
            self.spent.remove(&outpoint);
        }
        self.touched.touch_outpoint(outpoint);
    }

    /// A script that one of the blocks funds or spends.
    pub(crate) fn touch_script(&mut self, script: ScriptHash) {
        self.touched.touch_script(script);
    }

    fn check(&mut self) {
        if self.confirmed.len() + self.unconfirmed.len() + self.spent.len() > ITEMS_MAX {
            self.set_overflow();
        }
    }

    /// Brings a state over to the new chain: without what is confirmed there, what contradicts it, and what spends
    /// outputs that are gone with the old one. Returns what is different.
    pub(crate) fn apply(self, mempool: &mut MempoolView) -> Journal {
        let mut journal = self.touched;
        journal.connected = self.connected;
        journal.disconnected = self.disconnected;
        if self.overflow {
            journal
                .removed
                .extend(mempool.entries().map(|entry| entry.txid));
            mempool.clear();
            return journal;
        }
        if mempool.is_empty() {
            return journal;
        }
        let mut children = Vec::new();
        for txid in &self.confirmed {
            if let Some(entry) = mempool.remove(txid) {
                let outputs = u32::try_from(entry.tx().output.len()).unwrap_or(u32::MAX);
                children.extend(mempool.spenders(txid, outputs).map(|(child, _)| child));
                journal.confirmed.push(*txid);
                // A block does not touch scripts that nobody can spend; the mempool's own entry may.
                journal.touch_entry(&entry);
            }
        }
        for (outpoint, by) in &self.spent {
            if let Some((other, _)) = mempool.spender(outpoint)
                && other != *by
            {
                for entry in mempool.remove_with_descendants(&other) {
                    journal.remove(&entry);
                }
            }
        }
        for (txid, outputs) in &self.unconfirmed {
            // Whether it comes back is the node's to say; until then what spends it has no input.
            let orphans: Vec<Txid> = mempool
                .spenders(txid, *outputs)
                .map(|(child, _)| child)
                .collect();
            for orphan in orphans {
                for entry in mempool.remove_with_descendants(&orphan) {
                    journal.remove(&entry);
                }
            }
        }
        // Their parent is confirmed now, which is part of what clients see of them.
        for child in children {
            if let Some(entry) = mempool.entry(&child) {
                journal.touch_entry(&entry);
            }
        }
        journal
    }
}
