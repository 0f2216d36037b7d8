//! Where a chain is after some entries of its stream.
//!
//! The entries alone tell it, because every event names its block and a fork is an event. Entries that are there a second time
//! (a dead letter that was sent into the stream again) change nothing: they belong to blocks that have passed. What cannot be told
//! apart is an event of a branch that was left that names a block above the newest one that the entries name, at the very end: it
//! counts, and the reader of the chain leaves that branch by a fork, as whoever consumed it needs to be told anyway.

use std::collections::BTreeMap;

use crate::parse::EventHead;
use crate::position::{BlockId, Position};

/// Most reversible positions that are remembered; the oldest are forgotten beyond.
const REVERSIBLE_MAX: usize = 4_096;

/// The newest published block, and the blocks before it that could still be undone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Walk {
    pub(crate) position: Option<Position>,
    /// The last irreversible block.
    pub(crate) lib: Option<Position>,
    /// Published blocks from the last irreversible one on, by number.
    pub(crate) reversible: BTreeMap<u32, BlockId>,
}

impl Walk {
    /// Takes the next entry.
    pub(crate) fn entry(&mut self, head: &EventHead<'_>) {
        match (head.fork, head.block) {
            (Some((from, new_head)), _) => self.fork(from, new_head, head.old_head),
            (None, Some(block)) => {
                if self
                    .position
                    .is_none_or(|position| block.num > position.num)
                {
                    self.block(block);
                }
            }
            (None, None) => {}
        }
    }

    /// The chain goes on with this block.
    pub(crate) fn block(&mut self, block: Position) {
        // What was at this number and above belongs to a branch that was left.
        drop(self.reversible.split_off(&block.num));
        self.reversible.insert(block.num, block.id);
        self.position = Some(block);
        while self.reversible.len() > REVERSIBLE_MAX {
            self.reversible.pop_first();
        }
    }

    /// The last irreversible block moved.
    pub(crate) fn irreversible(&mut self, lib: Position) {
        if self.lib.is_none_or(|known| lib.num >= known.num) {
            self.lib = Some(lib);
        }
        if let Some(lib) = self.lib {
            self.reversible = self.reversible.split_off(&lib.num);
        }
        // The newest block is needed whatever the network calls irreversible.
        if let Some(position) = self.position {
            self.reversible.insert(position.num, position.id);
        }
    }

    fn fork(&mut self, from: u32, new_head: BlockId, old_head: Option<Position>) {
        let Some(first) = from.checked_add(1) else {
            return;
        };
        let is_new = match (self.position, old_head) {
            (None, _) => true,
            (Some(position), _) if first > position.num => false,
            // It leaves the block we are on.
            (position, Some(_)) if position == old_head => true,
            // Of a fork that happened already, the new branch is the one we are on.
            _ if self.reversible.get(&first) == Some(&new_head) => false,
            // The newest blocks may have had no events; a head below ours is one of the past.
            (Some(position), Some(old_head)) => old_head.num > position.num,
            // Streams of other writers do not say what was left.
            (Some(_), None) => self
                .reversible
                .first_key_value()
                .is_some_and(|(lowest, _)| *lowest <= first),
        };
        if is_new {
            self.block(Position {
                num: first,
                id: new_head,
            });
        }
    }

    /// All remembered positions, ascending.
    pub(crate) fn positions(&self) -> Vec<Position> {
        self.reversible
            .iter()
            .map(|(num, id)| Position { num: *num, id: *id })
            .collect()
    }
}
