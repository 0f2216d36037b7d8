//! Getting blocks from the source, checked.

use std::collections::HashMap;
use std::ops::Range;

use bitcoin::BlockHash;
use cairn_utxo_node::{RawUnit, SourceError};

use super::Follower;
use super::block::BlockData;
use crate::headers::NodeId;
use crate::index::IndexError;

impl Follower<'_> {
    /// The blocks of `nodes`, in that order.
    pub(super) fn fetch(&self, nodes: &[NodeId]) -> Result<Vec<BlockData>, IndexError> {
        let wanted: Vec<(BlockHash, u32)> = {
            let tree = self.tree();
            nodes
                .iter()
                .map(|id| (tree.hash(*id), tree.height(*id)))
                .collect()
        };
        let raw = self.read_units(&wanted)?;
        wanted
            .into_iter()
            .map(|(hash, height)| self.parse(&raw, hash, height))
            .collect()
    }

    /// The bytes of several blocks, in the source's own order.
    fn read_units(&self, wanted: &[(BlockHash, u32)]) -> Result<RawBlocks, IndexError> {
        let mut raw = RawBlocks::default();
        if wanted.len() < 2 {
            return Ok(raw);
        }
        let hashes: Vec<BlockHash> = wanted.iter().map(|(hash, _)| *hash).collect();
        for unit in self.source.plan(&hashes, super::apply::GROUP_BYTES)? {
            self.check_stop()?;
            raw.add(self.source.read(&unit)?);
        }
        Ok(raw)
    }

    /// One block from what was read, or else by the surest way there is.
    fn parse(
        &self,
        raw: &RawBlocks,
        hash: BlockHash,
        height: u32,
    ) -> Result<BlockData, IndexError> {
        if let Some(bytes) = raw.get(&hash) {
            match BlockData::parse(self.config.network.family(), bytes, hash, height) {
                Ok(data) => return Ok(data),
                Err(error) => {
                    tracing::warn!(%hash, height, %error, "damaged block, asking for it again")
                }
            }
        }
        self.fetch_one(hash, height)
    }

    /// One block by the surest way. Damage here is final.
    pub(super) fn fetch_one(&self, hash: BlockHash, height: u32) -> Result<BlockData, IndexError> {
        let bytes = self.source.block(&hash)?;
        BlockData::parse(self.config.network.family(), &bytes, hash, height).map_err(|error| {
            IndexError::Source(SourceError::Damaged(format!(
                "block {hash} at height {height} from {} {error}",
                self.source.describe()
            )))
        })
    }
}

/// The bytes of several units and where each block lies in them.
#[derive(Default)]
struct RawBlocks {
    units: Vec<Vec<u8>>,
    places: HashMap<BlockHash, (usize, Range<usize>)>,
}

impl RawBlocks {
    fn add(&mut self, unit: RawUnit) {
        let at = self.units.len();
        self.units.push(unit.bytes);
        for (hash, range) in unit.blocks {
            self.places.entry(hash).or_insert((at, range));
        }
    }

    fn get(&self, hash: &BlockHash) -> Option<&[u8]> {
        let (unit, range) = self.places.get(hash)?;
        self.units.get(*unit)?.get(range.clone())
    }
}
