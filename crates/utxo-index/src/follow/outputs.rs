//! Previous outputs: those of the blocks at hand from memory, all others by one sorted read.

use bitcoin::OutPoint;
use cairn_utxo_chain::Family as ChainFamily;
use cairn_utxo_chain::walk::OutputRef;
use hashbrown::HashMap;

use super::block::BlockData;
use crate::engine::{Family, Pinned, Snapshot, Store, StoreError};
use crate::index::IndexError;
use crate::rows;

/// Keys per read. Bounds what one call pins in the block cache.
const READ_KEYS: usize = 4096;

/// The key of an `O` row.
type OutKey = [u8; rows::OUT_KEY_LEN];

/// Outputs by outpoint: values of `O` rows.
pub(crate) struct OutputMap {
    family: ChainFamily,
    outputs: HashMap<OutPoint, Box<[u8]>>,
}

impl OutputMap {
    /// All outputs that the given blocks spend. Those that these blocks create are taken from them, the others are read
    /// from `txstore`. An output that is nowhere is simply not in the map.
    pub(crate) fn of_blocks(
        family: ChainFamily,
        blocks: &[BlockData],
        txstore: &Store,
    ) -> Result<Self, IndexError> {
        Self::collect(family, blocks, |keys| txstore.multi_get(Family::Outs, keys))
    }

    /// As [`OutputMap::of_blocks`], but from a frozen state.
    pub(crate) fn of_snapshot(
        family: ChainFamily,
        blocks: &[BlockData],
        txstore: &Snapshot,
    ) -> Result<Self, IndexError> {
        Self::collect(family, blocks, |keys| txstore.multi_get(Family::Outs, keys))
    }

    fn collect<'s>(
        family: ChainFamily,
        blocks: &[BlockData],
        read: impl Fn(&[OutKey]) -> Result<Vec<Option<Pinned<'s>>>, StoreError>,
    ) -> Result<Self, IndexError> {
        let mut wanted: Vec<OutPoint> = blocks
            .iter()
            .flat_map(|data| data.spends().map(|(_, _, outpoint)| outpoint))
            .collect();
        wanted.sort_unstable_by_key(|outpoint| rows::out_key(&outpoint.txid, outpoint.vout));
        wanted.dedup();
        let mut map = Self {
            family,
            outputs: HashMap::with_capacity(wanted.len()),
        };
        for outpoint in &wanted {
            map.outputs.insert(*outpoint, Box::default());
        }
        let mut value = Vec::new();
        for (txid, vout, output) in blocks.iter().flat_map(BlockData::outputs) {
            if let Some(slot) = map.outputs.get_mut(&OutPoint::new(*txid, vout)) {
                value.clear();
                rows::write_out_value(output.script, output.coin, &mut value);
                *slot = value.as_slice().into();
            }
        }
        wanted.retain(|outpoint| {
            map.outputs
                .get(outpoint)
                .is_some_and(|value| value.is_empty())
        });
        map.read(&wanted, read)?;
        map.outputs.retain(|_, value| !value.is_empty());
        Ok(map)
    }

    /// Reads outputs, which are sorted by key.
    fn read<'s>(
        &mut self,
        wanted: &[OutPoint],
        read: impl Fn(&[OutKey]) -> Result<Vec<Option<Pinned<'s>>>, StoreError>,
    ) -> Result<(), StoreError> {
        for chunk in wanted.chunks(READ_KEYS) {
            let keys: Vec<OutKey> = chunk
                .iter()
                .map(|outpoint| rows::out_key(&outpoint.txid, outpoint.vout))
                .collect();
            for (outpoint, value) in chunk.iter().zip(read(&keys)?) {
                if let Some(value) = value {
                    self.outputs.insert(*outpoint, value.as_ref().into());
                }
            }
        }
        Ok(())
    }

    /// The output at an outpoint, if it was found.
    pub(crate) fn get(&self, outpoint: &OutPoint) -> Result<Option<OutputRef<'_>>, IndexError> {
        let Some(value) = self.outputs.get(outpoint) else {
            return Ok(None);
        };
        Ok(Some(rows::decode_out_value(self.family, value)?))
    }
}
