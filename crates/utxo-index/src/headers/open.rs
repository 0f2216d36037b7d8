//! Rebuilding the header list from the rows, and the checks that are cheap enough for every start.

use std::collections::HashMap;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use cairn_utxo_chain::{Header, Network};

use super::{Chain, HeaderTree, NodeId, NodeMarks};
use crate::engine::{Family, Stores};
use crate::index::IndexError;
use crate::rows::{self, RowKind, TIP_KEY};

/// What the databases say about the chain.
pub(crate) struct Opened {
    /// All connected headers.
    pub(crate) tree: HeaderTree,
    /// The chain of blocks that are wholly indexed.
    pub(crate) chain: Chain,
    /// The block in `t`; `None` before the first load is complete.
    pub(crate) tip_row: Option<BlockHash>,
}

impl Opened {
    /// Blocks whose transactions are stored but which are not on the chain.
    pub(crate) fn stale(&self) -> Vec<NodeId> {
        let on_chain = |id| self.chain.get(self.tree.height(id)) == Some(id);
        self.tree
            .ids()
            .filter(|id| self.tree.marks(*id).added && !on_chain(*id))
            .collect()
    }
}

/// Reads `B`, `D` and `t`. Headers whose ancestors are unknown (a bulk load that was killed) are left out.
///
/// The tip is the last block of the chain of blocks with both `D` rows. Since undo removes a block's history `D` before
/// another block is applied, these blocks always form one chain from genesis; anything else is damage.
pub(crate) fn load(stores: &Stores, network: Network) -> Result<Opened, IndexError> {
    let mut tree = read_tree(stores, network)?;
    read_marks(stores, &mut tree)?;
    let tip_row = stores
        .txstore
        .get(Family::Blocks, &TIP_KEY)?
        .map(|value| rows::decode_tip_value(&value))
        .transpose()?;
    let chain = indexed_chain(&tree)?;
    if let Some(tip) = tip_row {
        if tree.find(&tip).is_none() {
            return Err(IndexError::Corrupt(format!(
                "row t of txstore names block {tip}, which has no header row; delete the index folder to build it anew"
            )));
        }
        if chain.len() == 0 {
            return Err(IndexError::Corrupt(format!(
                "row t of txstore names block {tip}, but no block is marked as indexed; delete the index folder to \
                 build it anew"
            )));
        }
    }
    Ok(Opened {
        tree,
        chain,
        tip_row,
    })
}

fn read_tree(stores: &Stores, network: Network) -> Result<HeaderTree, IndexError> {
    let genesis = network.genesis_hash();
    let snapshot = stores.txstore.snapshot();
    // Children by parent: rows come in the order of hashes, the tree wants parents first.
    let mut waiting: HashMap<BlockHash, Vec<Header>> = HashMap::new();
    let mut count = 0;
    let mut cursor = snapshot.range_cursor(
        Family::Blocks,
        vec![RowKind::Header.tag()],
        Some(vec![RowKind::Header.tag() + 1]),
    );
    cursor.seek(&[RowKind::Header.tag()]);
    while let Some((key, value)) = cursor.item()? {
        let header = rows::decode_header(network.family(), value)?;
        let hash = rows::decode_block_hash_key(RowKind::Header, key)?;
        if header.hash != hash {
            return Err(IndexError::Corrupt(format!(
                "the header in row B of block {hash} is that of {}; delete the index folder to build it anew",
                header.hash
            )));
        }
        waiting
            .entry(header.prev_blockhash)
            .or_default()
            .push(header);
        count += 1;
        cursor.next();
    }
    let mut tree = HeaderTree::new(genesis);
    tree.reserve(count);
    let mut ready: Vec<Header> = waiting.remove(&BlockHash::all_zeros()).unwrap_or_default();
    while let Some(header) = ready.pop() {
        tree.insert(&header).map_err(|error| {
            IndexError::Mismatch(format!(
                "the index in {} is of another chain than {network}: {error}",
                stores.txstore.path().display()
            ))
        })?;
        if let Some(children) = waiting.remove(&header.hash) {
            ready.extend(children);
        }
    }
    let unconnected: usize = waiting.values().map(Vec::len).sum();
    if unconnected > 0 {
        tracing::info!(
            unconnected,
            "headers without known ancestors are ignored; the load will write them again"
        );
    }
    Ok(tree)
}

fn read_marks(stores: &Stores, tree: &mut HeaderTree) -> Result<(), IndexError> {
    let mut each = |kind: RowKind| -> Result<(), IndexError> {
        let family = Family::of(kind);
        let snapshot = stores.of(kind.db()).snapshot();
        let mut cursor =
            snapshot.range_cursor(family, vec![kind.tag()], Some(vec![kind.tag() + 1]));
        cursor.seek(&[kind.tag()]);
        while let Some(key) = cursor.key()? {
            let hash = rows::decode_block_hash_key(kind, key)?;
            if let Some(id) = tree.find(&hash) {
                let marks = tree.marks(id);
                tree.set_marks(
                    id,
                    match kind {
                        RowKind::Added => NodeMarks {
                            added: true,
                            ..marks
                        },
                        _ => NodeMarks {
                            indexed: true,
                            ..marks
                        },
                    },
                );
            } else if kind == RowKind::Indexed {
                return Err(IndexError::Corrupt(format!(
                    "history marks block {hash} as indexed, but txstore has no header of it; delete the index folder to \
                     build it anew"
                )));
            }
            cursor.next();
        }
        Ok(())
    };
    each(RowKind::Added)?;
    each(RowKind::Indexed)
}

/// The chain of wholly indexed blocks from genesis on.
fn indexed_chain(tree: &HeaderTree) -> Result<Chain, IndexError> {
    let mut by_height: Vec<Option<NodeId>> = Vec::new();
    for id in tree.ids() {
        if !tree.marks(id).indexed {
            continue;
        }
        let height = tree.height(id) as usize;
        if by_height.len() <= height {
            by_height.resize(height + 1, None);
        }
        if let Some(other) = by_height[height].replace(id) {
            return Err(IndexError::Corrupt(format!(
                "two blocks of height {height} are marked as indexed: {} and {}; delete the index folder to build it \
                 anew",
                tree.hash(other),
                tree.hash(id)
            )));
        }
    }
    let mut chain = Chain::default();
    for (height, id) in by_height.into_iter().enumerate() {
        let damaged = |what: String| {
            IndexError::Corrupt(format!(
                "{what}; delete the index folder to build it anew, or restore a copy of it"
            ))
        };
        let id = id.ok_or_else(|| {
            damaged(format!(
                "blocks above height {height} are indexed, but none at it"
            ))
        })?;
        if tree.parent(id) != chain.tip() {
            return Err(damaged(format!(
                "indexed block {} at height {height} does not follow the indexed block below it",
                tree.hash(id)
            )));
        }
        if !tree.marks(id).added {
            return Err(damaged(format!(
                "block {} at height {height} is marked as indexed in history, but not as added in txstore",
                tree.hash(id)
            )));
        }
        chain.push(id);
    }
    Ok(chain)
}
