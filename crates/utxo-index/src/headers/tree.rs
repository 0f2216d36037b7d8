//! Every known header, packed.

use std::hash::{BuildHasher, RandomState};

use bitcoin::block::Version;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, CompactTarget, TxMerkleNode};
use cairn_utxo_chain::{Header, Proof};
use hashbrown::HashTable;

/// Number of a header in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

/// Which phases of a block are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NodeMarks {
    /// `D` in `txstore`: its transactions can be read.
    pub(crate) added: bool,
    /// `D` in `history`.
    pub(crate) indexed: bool,
}

/// A header without its parent hash, which the parent's node has: 92 bytes a block.
struct Node {
    hash: [u8; 32],
    merkle_root: [u8; 32],
    version: i32,
    time: u32,
    /// [`SIGNED`] on Elements.
    bits: u32,
    nonce: u32,
    height: u32,
    parent: u32,
    marks: NodeMarks,
}

/// `bits` of a block that is signed and not worked for: no target is zero.
const SIGNED: u32 = 0;
/// `parent` of genesis.
const NO_PARENT: u32 = u32::MAX;
/// Block times the median is taken of.
const MEDIAN_BLOCKS: usize = 11;

/// A header that does not belong to the chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TreeError {
    /// Its parent is unknown.
    #[error("header {hash} names the parent {parent}, which is not known")]
    UnknownParent {
        /// The header.
        hash: BlockHash,
        /// Its parent.
        parent: BlockHash,
    },
    /// A second genesis block.
    #[error("block {hash} claims to be the first of the chain, but that is {genesis}")]
    OtherGenesis {
        /// The header.
        hash: BlockHash,
        /// The genesis of this tree.
        genesis: BlockHash,
    },
}

/// All headers, stale ones included. Grows only.
pub(crate) struct HeaderTree {
    genesis: BlockHash,
    nodes: Vec<Node>,
    by_hash: HashTable<u32>,
    hasher: RandomState,
}

impl HeaderTree {
    /// An empty tree of the chain that begins with `genesis`.
    pub(crate) fn new(genesis: BlockHash) -> Self {
        Self {
            genesis,
            nodes: Vec::new(),
            by_hash: HashTable::new(),
            hasher: RandomState::new(),
        }
    }

    /// Makes room for that many headers.
    pub(crate) fn reserve(&mut self, headers: usize) {
        self.nodes.reserve_exact(headers);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.by_hash
            .reserve(headers, |id| hasher.hash_one(nodes[*id as usize].hash));
    }

    /// Number of headers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a hash.
    pub(crate) fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        let bytes = hash.to_byte_array();
        self.by_hash
            .find(self.hasher.hash_one(bytes), |id| {
                self.nodes[*id as usize].hash == bytes
            })
            .map(|id| NodeId(*id))
    }

    /// Adds a header whose parent is known; a known one is left as it is.
    pub(crate) fn insert(&mut self, header: &Header) -> Result<NodeId, TreeError> {
        let hash = header.hash;
        if let Some(known) = self.find(&hash) {
            return Ok(known);
        }
        let (parent, height) = if hash == self.genesis {
            (NO_PARENT, 0)
        } else if header.prev_blockhash == BlockHash::all_zeros() {
            return Err(TreeError::OtherGenesis {
                hash,
                genesis: self.genesis,
            });
        } else {
            let parent = self
                .find(&header.prev_blockhash)
                .ok_or(TreeError::UnknownParent {
                    hash,
                    parent: header.prev_blockhash,
                })?;
            (parent.0, self.nodes[parent.0 as usize].height + 1)
        };
        let id = u32::try_from(self.nodes.len()).expect("a chain has fewer than 2^32 blocks");
        let (bits, nonce) = match header.proof {
            Proof::Work { bits, nonce } => (bits.to_consensus(), nonce),
            Proof::Signed { .. } => (SIGNED, 0),
        };
        self.nodes.push(Node {
            hash: hash.to_byte_array(),
            merkle_root: header.merkle_root.to_byte_array(),
            version: header.version.to_consensus(),
            time: header.time,
            bits,
            nonce,
            height,
            parent,
            marks: NodeMarks::default(),
        });
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.by_hash
            .insert_unique(hasher.hash_one(hash.to_byte_array()), id, |id| {
                hasher.hash_one(nodes[*id as usize].hash)
            });
        Ok(NodeId(id))
    }

    /// The block hash of a node.
    pub(crate) fn hash(&self, id: NodeId) -> BlockHash {
        BlockHash::from_byte_array(self.node(id).hash)
    }

    /// The height of a node.
    pub(crate) fn height(&self, id: NodeId) -> u32 {
        self.node(id).height
    }

    /// The time of a node's header.
    pub(crate) fn time(&self, id: NodeId) -> u32 {
        self.node(id).time
    }

    /// The parent; `None` for genesis.
    pub(crate) fn parent(&self, id: NodeId) -> Option<NodeId> {
        Some(self.node(id).parent)
            .filter(|parent| *parent != NO_PARENT)
            .map(NodeId)
    }

    /// The header, put together again.
    pub(crate) fn header(&self, id: NodeId) -> Header {
        let node = self.node(id);
        let prev_blockhash = self
            .parent(id)
            .map_or_else(BlockHash::all_zeros, |parent| self.hash(parent));
        let proof = match node.bits {
            SIGNED => Proof::Signed {
                height: node.height,
            },
            bits => Proof::Work {
                bits: CompactTarget::from_consensus(bits),
                nonce: node.nonce,
            },
        };
        Header {
            hash: self.hash(id),
            version: Version::from_consensus(node.version),
            prev_blockhash,
            merkle_root: TxMerkleNode::from_byte_array(node.merkle_root),
            time: node.time,
            proof,
        }
    }

    /// What is done for a block.
    pub(crate) fn marks(&self, id: NodeId) -> NodeMarks {
        self.node(id).marks
    }

    /// Changes what is done for a block.
    pub(crate) fn set_marks(&mut self, id: NodeId, marks: NodeMarks) {
        self.nodes[id.0 as usize].marks = marks;
    }

    /// Median of the times of a block and its up to ten predecessors, as the node computes it.
    pub(crate) fn median_time(&self, id: NodeId) -> u32 {
        let mut times = [0u32; MEDIAN_BLOCKS];
        let mut count = 0;
        let mut at = Some(id);
        while let Some(node) = at.filter(|_| count < MEDIAN_BLOCKS) {
            times[count] = self.time(node);
            count += 1;
            at = self.parent(node);
        }
        times[..count].sort_unstable();
        times[count / 2]
    }

    /// The youngest block that is an ancestor of both (or one of them).
    pub(crate) fn fork_point(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let (mut a, mut b) = (a, b);
        while a != b {
            if self.height(a) >= self.height(b) {
                a = self.parent(a)?;
            } else {
                b = self.parent(b)?;
            }
        }
        Some(a)
    }

    /// All nodes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::Network;
    use bitcoin::constants::genesis_block;

    fn child(parent: &Header, nonce: u32) -> Header {
        let parent = parent.to_bitcoin().expect("a header of Bitcoin");
        Header::from(bitcoin::block::Header {
            prev_blockhash: parent.block_hash(),
            nonce,
            time: parent.time + 600 - nonce,
            ..parent
        })
    }

    #[test]
    fn headers_come_back_and_branches_meet() {
        let genesis = Header::from(genesis_block(Network::Regtest).header);
        let mut tree = HeaderTree::new(genesis.hash);
        let root = tree.insert(&genesis).expect("genesis");
        let a1 = child(&genesis, 1);
        let a2 = child(&a1, 2);
        let b1 = child(&genesis, 3);
        let ids: Vec<NodeId> = [a1, a2, b1]
            .iter()
            .map(|header| tree.insert(header).expect("parent known"))
            .collect();
        assert_eq!(tree.insert(&a2).expect("again"), ids[1]);
        assert_eq!(tree.len(), 4);
        assert_eq!(tree.header(ids[1]), a2);
        assert_eq!(tree.header(root), genesis);
        assert_eq!(tree.find(&b1.hash), Some(ids[2]));
        assert_eq!(tree.fork_point(ids[1], ids[2]), Some(root));
        assert_eq!(tree.fork_point(ids[0], ids[1]), Some(ids[0]));
        assert_eq!((tree.height(ids[1]), tree.parent(root)), (2, None));
        let mut times = [genesis.time, a1.time, a2.time];
        times.sort_unstable();
        assert_eq!(tree.median_time(ids[1]), times[1]);
    }

    #[test]
    fn strangers_are_refused() {
        let genesis = Header::from(genesis_block(Network::Regtest).header);
        let mut tree = HeaderTree::new(genesis.hash);
        let orphan = child(&child(&genesis, 1), 2);
        assert!(matches!(
            tree.insert(&orphan),
            Err(TreeError::UnknownParent { .. })
        ));
        let other = Header::from(genesis_block(Network::Bitcoin).header);
        assert!(matches!(
            tree.insert(&other),
            Err(TreeError::OtherGenesis { .. })
        ));
    }
}
