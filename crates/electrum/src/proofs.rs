//! Proofs that a header is one of those up to a checkpoint.
//!
//! The tree is the transactions' tree over block hashes: the last node of an odd level is its own sibling. Only its right
//! edge depends on the checkpoint; the nodes of complete subtrees from [`BASE`] levels up are kept, so that a proof costs
//! some two hundred hashes instead of one for each block of the chain.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use cairn_utxo_index::View;

/// A node, in the order of hashing.
pub(crate) type Node = [u8; 32];

/// Levels above the leaves at which kept nodes begin: each stands for 64 headers.
const BASE: u32 = 6;
const BASE_BLOCKS: u32 = 1 << BASE;
/// Base nodes that may be missing for a proof to count as quick.
const QUICK_BASES: usize = 32;

/// A branch from a leaf to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderProof {
    /// Siblings, deepest first.
    pub(crate) branch: Vec<Node>,
    /// The root.
    pub(crate) root: Node,
}

#[derive(Default)]
struct Kept {
    /// The last block of each base node: the node is right for every chain that has this block.
    last_blocks: Vec<BlockHash>,
    /// Complete subtrees; level `k` has those of `2^(BASE + k)` headers.
    levels: Vec<Vec<Node>>,
}

/// The kept part of the tree. Right for every view: what a view's chain does not have is not used, and replaced.
#[derive(Default)]
pub(crate) struct HeaderProofs(Mutex<Kept>);

impl HeaderProofs {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Levels are extended from the lowest up and checked by their lengths.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a proof up to a checkpoint needs little work.
    pub(crate) fn is_quick(&self, checkpoint: u32) -> bool {
        let wanted = (checkpoint as usize + 1) / BASE_BLOCKS as usize;
        wanted <= self.lock().last_blocks.len() + QUICK_BASES
    }

    /// Brings the kept part up to a view's tip, so that no request has to.
    pub(crate) fn extend(&self, view: &View) {
        let blocks = view.tip().height + 1;
        // In pieces, so that requests get in between.
        let mut reached = 0;
        while reached < blocks {
            reached = (reached + BASE_BLOCKS * 256).min(blocks);
            self.lock().extend(view, reached);
        }
    }

    /// The proof of the header at `height` among those up to `checkpoint`; `None` unless `height <= checkpoint <= tip`.
    pub(crate) fn proof(&self, view: &View, height: u32, checkpoint: u32) -> Option<HeaderProof> {
        if height > checkpoint || checkpoint > view.tip().height {
            return None;
        }
        let blocks = checkpoint + 1;
        let mut kept = self.lock();
        let usable = kept.extend(view, blocks);
        let tree = Tree {
            view,
            kept: &kept,
            usable,
            blocks,
        };
        let mut node = tree.leaf(height)?;
        let mut branch = Vec::new();
        let (mut at, mut level, mut width) = (height, 0, blocks);
        while width > 1 {
            let sibling = if at ^ 1 < width {
                tree.node(level, at ^ 1)?
            } else {
                node
            };
            branch.push(sibling);
            node = if at % 2 == 0 {
                parent(&node, &sibling)
            } else {
                parent(&sibling, &node)
            };
            at /= 2;
            level += 1;
            width = width.div_ceil(2);
        }
        Some(HeaderProof { branch, root: node })
    }
}

impl Kept {
    /// Extends the base up to `blocks` headers of the view's chain. Returns how many base nodes are right for the view.
    fn extend(&mut self, view: &View, blocks: u32) -> usize {
        let wanted = (blocks / BASE_BLOCKS) as usize;
        let known = self.last_blocks.len().min(wanted);
        let is_of_view = |at: usize, hash: &BlockHash| {
            view.block_at(at as u32 * BASE_BLOCKS + BASE_BLOCKS - 1)
                .is_some_and(|block| block.hash == *hash)
        };
        let mut usable = known;
        if known > 0 && !is_of_view(known - 1, &self.last_blocks[known - 1]) {
            // Blocks name their parents, so those that fit come before those that do not.
            let (mut low, mut high) = (0, known);
            while low < high {
                let middle = (low + high) / 2;
                if is_of_view(middle, &self.last_blocks[middle]) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            usable = low;
            self.truncate(usable);
        }
        while self.last_blocks.len() < wanted {
            let at = self.last_blocks.len() as u32;
            let hashes: Option<Vec<BlockHash>> = (at * BASE_BLOCKS..(at + 1) * BASE_BLOCKS)
                .map(|height| view.block_at(height).map(|block| block.hash))
                .collect();
            let Some(hashes) = hashes else {
                break;
            };
            self.push(&hashes);
            usable = self.last_blocks.len();
        }
        usable
    }

    fn push(&mut self, hashes: &[BlockHash]) {
        let mut nodes: Vec<Node> = hashes.iter().map(|hash| hash.to_byte_array()).collect();
        while nodes.len() > 1 {
            nodes = nodes
                .chunks_exact(2)
                .map(|pair| parent(&pair[0], &pair[1]))
                .collect();
        }
        self.last_blocks.extend(hashes.last());
        let mut carry = nodes.first().copied();
        let mut level = 0;
        while let Some(node) = carry {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let nodes = &mut self.levels[level];
            nodes.push(node);
            carry = match nodes.as_slice() {
                [.., left, right] if nodes.len().is_multiple_of(2) => Some(parent(left, right)),
                _ => None,
            };
            level += 1;
        }
    }

    fn truncate(&mut self, bases: usize) {
        self.last_blocks.truncate(bases);
        for (level, nodes) in self.levels.iter_mut().enumerate() {
            nodes.truncate(bases >> level);
        }
    }
}

/// The tree over the first `blocks` headers of a view.
struct Tree<'a> {
    view: &'a View,
    kept: &'a Kept,
    usable: usize,
    blocks: u32,
}

impl Tree<'_> {
    fn leaf(&self, height: u32) -> Option<Node> {
        Some(self.view.block_at(height)?.hash.to_byte_array())
    }

    /// The node at a level over the leaves from `index << level` on.
    fn node(&self, level: u32, index: u32) -> Option<Node> {
        if level == 0 {
            return self.leaf(index);
        }
        let end = (u64::from(index) + 1) << level;
        if level >= BASE && end <= u64::from(self.blocks) {
            let above = (level - BASE) as usize;
            let bases = (index as usize + 1) << above;
            if bases <= self.usable
                && let Some(node) = self
                    .kept
                    .levels
                    .get(above)
                    .and_then(|nodes| nodes.get(index as usize))
            {
                return Some(*node);
            }
        }
        let left = self.node(level - 1, index * 2)?;
        let right_leaf = (u64::from(index) * 2 + 1) << (level - 1);
        let right = if right_leaf < u64::from(self.blocks) {
            self.node(level - 1, index * 2 + 1)?
        } else {
            left
        };
        Some(parent(&left, &right))
    }
}

fn parent(left: &Node, right: &Node) -> Node {
    let mut engine = sha256d::Hash::engine();
    engine.input(left);
    engine.input(right);
    sha256d::Hash::from_engine(engine).to_byte_array()
}
