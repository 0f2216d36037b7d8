//! The rows of one block.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{OutPoint, Txid};

use super::{Fault, Verifier};
use crate::engine::{Family, Snapshot, after_prefix};
use cairn_utxo_chain::walk::OutputRef;

use crate::follow::{BlockData, OutputMap, write_history_rows, write_txstore_rows};
use crate::index::IndexError;
use crate::rows::{self, EdgeKey};

/// Keys read at once.
const READ_KEYS: usize = 4096;

impl Verifier<'_> {
    /// Compares one block.
    pub(super) fn block(&mut self, height: u32) -> Result<(), IndexError> {
        let Some(block) = self.view.block_at(height) else {
            return Ok(());
        };
        let bytes = self.source.block(&block.hash)?;
        let data = BlockData::parse(self.config.network.family(), &bytes, block.hash, height)
            .map_err(|error| {
                IndexError::Corrupt(format!(
                    "block {} from {} {error}",
                    block.hash,
                    self.source.describe()
                ))
            })?;
        self.txstore_rows(&data)?;
        self.history_rows(data)
    }

    fn txstore_rows(&mut self, data: &BlockData) -> Result<(), IndexError> {
        let mut wanted: BTreeMap<Family, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        write_txstore_rows(data, self.config.features(), &mut |family, key, value| {
            wanted
                .entry(family)
                .or_default()
                .insert(key.to_vec(), value.to_vec());
        });
        for (family, rows) in &wanted {
            self.compare(data.height, *family, rows)?;
        }
        for (tx, txid) in data.txs() {
            self.surplus_confirmations(data.height, txid)?;
            let beyond = rows::out_key(txid, u32::try_from(tx.output.len()).unwrap_or(u32::MAX));
            let end = after_prefix(&beyond[..rows::HASH_KEY_LEN]);
            self.surplus(data.height, Family::Outs, beyond.to_vec(), end, &|_| {
                Ok(false)
            })?;
        }
        Ok(())
    }

    /// `C` rows may name stale blocks, but only blocks that are stored.
    fn surplus_confirmations(&mut self, height: u32, txid: &Txid) -> Result<(), IndexError> {
        let view = self.view;
        let prefix = rows::conf_prefix(txid).to_vec();
        let end = after_prefix(&prefix);
        self.surplus(height, Family::Confs, prefix, end, &|key| {
            let (_, block) = rows::decode_conf_key(key)?;
            Ok(view.header(&block)?.is_some())
        })
    }

    fn history_rows(&mut self, data: BlockData) -> Result<(), IndexError> {
        let blocks = [data];
        let outputs =
            OutputMap::of_snapshot(self.config.network.family(), &blocks, self.view.txstore())?;
        let [data] = blocks;
        for (_, _, outpoint) in data.spends() {
            if outputs.get(&outpoint)?.is_none() {
                let key = rows::out_key(&outpoint.txid, outpoint.vout);
                self.report
                    .note(data.height, Family::Outs.db(), Fault::Missing, &key);
                return Ok(());
            }
        }
        let prevout =
            |_: &Txid, _: u32, outpoint: &OutPoint| -> Result<OutputRef<'_>, IndexError> {
                outputs.get(outpoint)?.ok_or_else(|| {
                    IndexError::Corrupt(format!("missing previous output {outpoint}"))
                })
            };
        let mut wanted: BTreeMap<Family, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        write_history_rows(
            &data,
            self.config.features(),
            self.config.network,
            prevout,
            &mut |family, key, value| {
                wanted
                    .entry(family)
                    .or_default()
                    .insert(key.to_vec(), value.to_vec());
            },
        )?;
        for (family, rows) in &wanted {
            self.compare(data.height, *family, rows)?;
        }
        self.surplus_history(data.height, Family::Hist, wanted.get(&Family::Hist))?;
        self.surplus_history(data.height, Family::Assets, wanted.get(&Family::Assets))?;
        self.surplus_edges(&data)
    }

    /// Around the rows of each touched script or asset at this height there is nothing else.
    fn surplus_history(
        &mut self,
        height: u32,
        family: Family,
        wanted: Option<&BTreeMap<Vec<u8>, Vec<u8>>>,
    ) -> Result<(), IndexError> {
        const SCRIPT_AND_HEIGHT: usize = 37;
        let Some(wanted) = wanted else { return Ok(()) };
        let prefixes: BTreeSet<&[u8]> = wanted
            .keys()
            .filter_map(|key| key.get(..SCRIPT_AND_HEIGHT))
            .collect();
        for prefix in prefixes {
            let end = after_prefix(prefix);
            self.surplus(height, family, prefix.to_vec(), end, &|key| {
                Ok(wanted.contains_key(key))
            })?;
        }
        Ok(())
    }

    /// An edge must be of a confirmed spender; that a confirmed spender has the edges it should is seen at its own block.
    fn surplus_edges(&mut self, data: &BlockData) -> Result<(), IndexError> {
        let view = self.view;
        for txid in &data.txids {
            let prefix = rows::edge_prefix(&OutPoint::new(*txid, 0))[..rows::HASH_KEY_LEN].to_vec();
            let end = after_prefix(&prefix);
            self.surplus(data.height, Family::Edges, prefix, end, &|key| {
                let edge = EdgeKey::decode(key)?;
                Ok(view.confirming_block(&edge.txid)?.is_some())
            })?;
        }
        Ok(())
    }

    /// Notes every row between two keys that `belongs` does not accept.
    fn surplus(
        &mut self,
        height: u32,
        family: Family,
        from: Vec<u8>,
        until: Option<Vec<u8>>,
        belongs: &dyn Fn(&[u8]) -> Result<bool, IndexError>,
    ) -> Result<(), IndexError> {
        let snapshot = store(self.view, family);
        let mut cursor = snapshot.range_cursor(family, from.clone(), until);
        cursor.seek(&from);
        while let Some(key) = cursor.key()? {
            // A row that does not even decode does not belong.
            let fine = match belongs(key) {
                Ok(fine) => fine,
                Err(IndexError::Corrupt(_)) => false,
                Err(other) => return Err(other),
            };
            if !fine {
                self.report.note(height, family.db(), Fault::Surplus, key);
            }
            cursor.next();
        }
        Ok(())
    }

    /// Notes every wanted row that is missing or different.
    fn compare(
        &mut self,
        height: u32,
        family: Family,
        wanted: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), IndexError> {
        let snapshot = store(self.view, family);
        let rows: Vec<(&Vec<u8>, &Vec<u8>)> = wanted.iter().collect();
        for chunk in rows.chunks(READ_KEYS) {
            let keys: Vec<&[u8]> = chunk.iter().map(|(key, _)| key.as_slice()).collect();
            for ((key, value), found) in chunk.iter().zip(snapshot.multi_get(family, &keys)?) {
                self.report.rows += 1;
                match found {
                    None => self.report.note(height, family.db(), Fault::Missing, key),
                    Some(found) if found.as_ref() != value.as_slice() => {
                        self.report.note(height, family.db(), Fault::Different, key);
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

fn store(view: &crate::view::View, family: Family) -> &Snapshot {
    match family.db() {
        rows::Db::Txstore => view.txstore(),
        _ => view.history_store(),
    }
}
