//! Who spends an output.

use bitcoin::{OutPoint, Txid};

use super::{Result, View};
use crate::engine::Family;
use crate::rows::{self, EdgeKey};
use crate::types::{BlockRef, Spend};

impl View {
    /// Who spends an output on the best chain.
    pub fn spend(&self, outpoint: &OutPoint) -> Result<Option<Spend>> {
        let prefix = rows::edge_prefix(outpoint);
        let mut cursor = self.history.prefix_cursor(Family::Edges, &prefix);
        cursor.seek(&prefix);
        while let Some(key) = cursor.key()? {
            let edge = EdgeKey::decode(key)?;
            // An edge carries no height; at most one spender is confirmed.
            if let Some(block) = self.confirming_block(&edge.txid)? {
                return Ok(Some(Spend {
                    txid: edge.txid,
                    vin: edge.vin,
                    block,
                }));
            }
            cursor.next();
        }
        Ok(None)
    }

    /// One entry per output of the transaction; `None` for an unknown transaction. One scan, however many outputs.
    pub fn spends_of(&self, txid: &Txid) -> Result<Option<Vec<Option<Spend>>>> {
        let Some(count) = self.output_count(txid)? else {
            return Ok(None);
        };
        let mut spends: Vec<Option<Spend>> = vec![None; count];
        // The edges of all outputs of a transaction follow each other, but they do not share the whole prefix that the
        // family's filters are made of.
        let from = rows::edge_prefix(&OutPoint::new(*txid, 0)).to_vec();
        let until = crate::engine::after_prefix(&from[..rows::HASH_KEY_LEN]);
        let mut cursor = self
            .history
            .range_cursor(Family::Edges, from.clone(), until);
        cursor.seek(&from);
        let mut last: Option<(Txid, Option<BlockRef>)> = None;
        while let Some(key) = cursor.key()? {
            let edge = EdgeKey::decode(key)?;
            let block = match last {
                Some((txid, block)) if txid == edge.txid => block,
                _ => self.confirming_block(&edge.txid)?,
            };
            last = Some((edge.txid, block));
            if let (Some(block), Some(slot)) = (block, spends.get_mut(edge.funding.vout as usize)) {
                *slot = Some(Spend {
                    txid: edge.txid,
                    vin: edge.vin,
                    block,
                });
            }
            cursor.next();
        }
        Ok(Some(spends))
    }
}
