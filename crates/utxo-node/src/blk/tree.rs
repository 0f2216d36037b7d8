//! The best chain of a heap of headers, without a node.
//!
//! Headers come in any order. Those that link to genesis get a height and the work of their whole branch; the branch with
//! most work is the best chain, and of two with equal work the one whose tip was found first (as a node decides). Headers whose
//! parent is missing wait for it and are counted.
//!
//! A header costs 72 bytes here (the hash stands in [`Records`], the parent's hash with the parent).

use std::collections::HashMap;

use bitcoin::block::Version;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, CompactTarget, TxMerkleNode};

use cairn_utxo_chain::{Header, Proof};

use super::records::{RecordId, Records};
use crate::source::Tip;

/// No parent: genesis, or the end of a list of waiting headers.
const NONE: RecordId = RecordId::MAX;
/// Height of a header that does not link to genesis (yet).
const UNLINKED: u32 = u32::MAX;

/// Stands for "signed": no target of work is zero.
const SIGNED: u32 = 0;

/// A header without the parent's hash.
#[derive(Debug, Clone, Copy)]
struct Node {
    version: Version,
    merkle_root: TxMerkleNode,
    time: u32,
    bits: CompactTarget,
    nonce: u32,
    /// Linked: the parent. Waiting: the next header that waits for the same parent.
    parent: RecordId,
    height: u32,
    /// Work of the branch up to here, as two halves (an aligned u128 would cost 8 bytes more a header).
    work: [u64; 2],
}

/// Headers of all records, linked.
#[derive(Debug)]
pub(crate) struct HeaderTree {
    genesis: BlockHash,
    nodes: Vec<Node>,
    /// Missing parent to the first header that waits for it.
    waiting: HashMap<BlockHash, RecordId>,
    waiting_count: u64,
    best: Option<(u128, RecordId)>,
    /// Best chain by height; valid after [`Self::settle`].
    chain: Vec<RecordId>,
}

impl HeaderTree {
    pub(crate) fn new(genesis: BlockHash) -> Self {
        Self {
            genesis,
            nodes: Vec::new(),
            waiting: HashMap::new(),
            waiting_count: 0,
            best: None,
            chain: Vec::new(),
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.genesis);
    }

    /// Adds the header of the record that `records` has just numbered `id`.
    pub(crate) fn insert(&mut self, records: &Records, id: RecordId, header: &Header) {
        debug_assert_eq!(
            self.nodes.len(),
            id as usize,
            "records and headers are numbered together"
        );
        // A signed block needs neither: its height is that of the node, and all weigh the same.
        let (bits, nonce) = match header.proof {
            Proof::Work { bits, nonce } => (bits, nonce),
            Proof::Signed { .. } => (CompactTarget::from_consensus(SIGNED), 0),
        };
        self.nodes.push(Node {
            version: header.version,
            merkle_root: header.merkle_root,
            time: header.time,
            bits,
            nonce,
            parent: NONE,
            height: UNLINKED,
            work: [0; 2],
        });
        let hash = records.get(id).hash;
        if hash == self.genesis {
            self.link(records, id, None);
            return;
        }
        // A record can know its parent's number although the parent itself is still waiting.
        match records
            .find(&header.prev_blockhash)
            .filter(|parent| self.nodes[*parent as usize].height != UNLINKED)
        {
            Some(parent) => self.link(records, id, Some(parent)),
            None => {
                let next = self.waiting.insert(header.prev_blockhash, id);
                self.nodes[id as usize].parent = next.unwrap_or(NONE);
                self.waiting_count += 1;
            }
        }
    }

    /// Links a header to its parent, and all that waited for it (without recursion: a chain may wait in whole).
    fn link(&mut self, records: &Records, id: RecordId, parent: Option<RecordId>) {
        let mut ready = vec![(id, parent)];
        while let Some((id, parent)) = ready.pop() {
            let (height, base) = match parent {
                Some(parent) => {
                    let parent = &self.nodes[parent as usize];
                    (parent.height + 1, join(parent.work))
                }
                None => (0, 0),
            };
            let node = &mut self.nodes[id as usize];
            let work = base.saturating_add(work_of(node.bits));
            node.parent = parent.unwrap_or(NONE);
            node.height = height;
            node.work = split(work);
            if self
                .best
                .is_none_or(|(most, tip)| work > most || (work == most && id < tip))
            {
                self.best = Some((work, id));
            }
            let mut next = self.waiting.remove(&records.get(id).hash).unwrap_or(NONE);
            while next != NONE {
                let after = self.nodes[next as usize].parent;
                self.waiting_count -= 1;
                ready.push((next, Some(id)));
                next = after;
            }
        }
    }

    /// Makes the list by height fit the best tip. To be called after a run of inserts.
    pub(crate) fn settle(&mut self) {
        let Some((_, tip)) = self.best else { return };
        let height = self.nodes[tip as usize].height;
        self.chain.resize(height as usize + 1, NONE);
        let mut at = tip;
        while at != NONE {
            let node = &self.nodes[at as usize];
            let slot = &mut self.chain[node.height as usize];
            if *slot == at {
                break;
            }
            *slot = at;
            at = node.parent;
        }
    }

    /// The best tip, if genesis is there.
    pub(crate) fn tip(&self, records: &Records) -> Option<Tip> {
        let (_, id) = self.best?;
        Some(Tip {
            hash: records.get(id).hash,
            height: self.nodes[id as usize].height,
        })
    }

    /// Hash of the best chain's block at a height.
    pub(crate) fn hash_at(&self, records: &Records, height: u32) -> Option<BlockHash> {
        self.chain
            .get(height as usize)
            .map(|id| records.get(*id).hash)
    }

    /// Header of the best chain's block at a height.
    pub(crate) fn header_at(&self, records: &Records, height: u32) -> Option<Header> {
        let id = *self.chain.get(height as usize)?;
        let node = &self.nodes[id as usize];
        let prev_blockhash = if node.parent == NONE {
            BlockHash::all_zeros()
        } else {
            records.get(node.parent).hash
        };
        let proof = match node.bits.to_consensus() {
            SIGNED => Proof::Signed {
                height: node.height,
            },
            _ => Proof::Work {
                bits: node.bits,
                nonce: node.nonce,
            },
        };
        Some(Header {
            hash: records.get(id).hash,
            version: node.version,
            prev_blockhash,
            merkle_root: node.merkle_root,
            time: node.time,
            proof,
        })
    }

    /// Headers that do not link to genesis because a block between is missing.
    pub(crate) fn orphans(&self) -> u64 {
        self.waiting_count
    }

    /// Headers linked to genesis that are not on the best chain.
    pub(crate) fn stale(&self) -> u64 {
        self.nodes.len() as u64 - self.waiting_count - self.chain.len() as u64
    }
}

/// Work of one header. The sum over a whole chain fits 128 bits with much room (mainnet has 2^96).
fn work_of(bits: CompactTarget) -> u128 {
    // Of signed chains the longest is the best.
    if bits.to_consensus() == SIGNED {
        return 1;
    }
    let bytes = bitcoin::Target::from_compact(bits).to_work().to_be_bytes();
    let (high, low) = bytes.split_at(16);
    if high.iter().any(|byte| *byte != 0) {
        return u128::MAX;
    }
    low.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

fn split(work: u128) -> [u64; 2] {
    [(work >> 64) as u64, work as u64]
}

fn join([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}
