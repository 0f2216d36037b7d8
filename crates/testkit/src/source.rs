//! A chain in memory that the index reads like any other: for tests of the index that want neither files nor a node.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::walk::{BlockVisitor, TxPlace, walk_block};
use cairn_utxo_chain::{Family, Header};
use cairn_utxo_node::{ChainSource, HeaderRun, RawUnit, SourceError, Tip, Unit};

use crate::model::Model;

#[derive(Debug, Default)]
struct State {
    /// The best chain from genesis.
    chain: Vec<(BlockHash, Header)>,
    /// Every block ever on it, serialized.
    blocks: HashMap<BlockHash, Arc<Vec<u8>>>,
    failing: bool,
    family: Family,
}

/// A source whose chain the test sets.
#[derive(Debug, Default)]
pub struct MemorySource {
    state: Mutex<State>,
    changed: Condvar,
}

impl MemorySource {
    /// The best chain of a model, genesis included.
    pub fn new(model: &Model) -> Self {
        let source = MemorySource::default();
        source.follow(model);
        source
    }

    /// Moves to the model's best chain. Blocks of earlier ones stay readable.
    pub fn follow(&self, model: &Model) {
        let mut state = self.lock();
        state.chain.clear();
        for block in model.chain() {
            state.chain.push((block.hash, block.block.header.into()));
            state
                .blocks
                .entry(block.hash)
                .or_insert_with(|| Arc::new(serialize(&*block.block)));
        }
        self.changed.notify_all();
    }

    /// Moves to a chain of serialized blocks, genesis first. Blocks of earlier ones stay readable.
    pub fn follow_raw<'a>(&self, family: Family, blocks: impl Iterator<Item = &'a [u8]>) {
        let mut state = self.lock();
        state.family = family;
        state.chain.clear();
        for raw in blocks {
            let (header, _) = Header::decode(family, raw).expect("a test's own block");
            state.chain.push((header.hash, header));
            state
                .blocks
                .entry(header.hash)
                .or_insert_with(|| Arc::new(raw.to_vec()));
        }
        self.changed.notify_all();
    }

    /// While `failing`, every call is refused like by a node that is not there.
    pub fn set_failing(&self, failing: bool) {
        self.lock().failing = failing;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock left nothing half-done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self) -> Result<MutexGuard<'_, State>, SourceError> {
        let state = self.lock();
        if state.failing {
            return Err(SourceError::Unavailable(
                "the test says that the source is not there".into(),
            ));
        }
        Ok(state)
    }

    fn bytes(&self, hash: &BlockHash) -> Result<Arc<Vec<u8>>, SourceError> {
        self.ready()?
            .blocks
            .get(hash)
            .cloned()
            .ok_or_else(|| SourceError::Missing(format!("no block {hash}")))
    }
}

impl ChainSource for MemorySource {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn tip(&self) -> Result<Tip, SourceError> {
        let state = self.ready()?;
        let (hash, _) = state
            .chain
            .last()
            .ok_or_else(|| SourceError::Unavailable("the chain in memory is empty".into()))?;
        Ok(Tip {
            hash: *hash,
            height: state.chain.len() as u32 - 1,
        })
    }

    fn headers(
        &self,
        known: &dyn Fn(&BlockHash) -> Option<u32>,
        until: Option<u32>,
    ) -> Result<HeaderRun, SourceError> {
        let state = self.ready()?;
        let end = until.map_or(state.chain.len(), |until| {
            state.chain.len().min(until as usize + 1)
        });
        let chain = &state.chain[..end];
        let start = chain
            .iter()
            .rposition(|(hash, _)| known(hash).is_some())
            .map_or(0, |last| last + 1);
        Ok(HeaderRun {
            start_height: start as u32,
            headers: chain[start..].iter().map(|(_, header)| *header).collect(),
            tip: chain.last().map(|(hash, _)| Tip {
                hash: *hash,
                height: end as u32 - 1,
            }),
        })
    }

    fn plan(&self, wanted: &[BlockHash], unit_bytes: u64) -> Result<Vec<Unit>, SourceError> {
        let mut units: Vec<Unit> = Vec::new();
        for hash in wanted {
            let size = self.bytes(hash)?.len() as u64;
            match units.last_mut() {
                Some(unit) if unit.bytes + size <= unit_bytes => {
                    unit.blocks.push(*hash);
                    unit.bytes += size;
                }
                _ => units.push(Unit {
                    blocks: vec![*hash],
                    bytes: size,
                    place: units.len() as u64,
                }),
            }
        }
        Ok(units)
    }

    fn read(&self, unit: &Unit) -> Result<RawUnit, SourceError> {
        let mut raw = RawUnit::default();
        for hash in &unit.blocks {
            let block = self.bytes(hash)?;
            let range: Range<usize> = raw.bytes.len()..raw.bytes.len() + block.len();
            raw.bytes.extend_from_slice(&block);
            raw.blocks.push((*hash, range));
        }
        Ok(raw)
    }

    fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        Ok(self.bytes(hash)?.to_vec())
    }

    fn transaction(&self, txid: &Txid, block: &BlockHash) -> Result<Vec<u8>, SourceError> {
        /// Where each transaction ends, and its id.
        #[derive(Default)]
        struct Ends(Vec<([u8; 32], usize)>);
        impl BlockVisitor for Ends {
            fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}
            fn tx(&mut self, tx: TxPlace) {
                let start = self.0.last().map_or(0, |(_, end)| *end);
                self.0.push((tx.txid, start + tx.length));
            }
        }
        let (bytes, family) = (self.bytes(block)?, self.lock().family);
        let mut ends = Ends::default();
        let place = walk_block(family, &bytes, &mut ends)
            .map_err(|error| SourceError::Damaged(format!("block {block}: {error}")))?;
        let mut start = place.first_tx;
        for (id, end) in ends.0 {
            let end = place.first_tx + end;
            if id == txid.to_byte_array() {
                return Ok(bytes[start..end].to_vec());
            }
            start = end;
        }
        let text = format!("no transaction {txid} in block {block}");
        Err(SourceError::Missing(text))
    }

    fn wait(&self, tip: &BlockHash, timeout: Duration) {
        let unchanged = |state: &mut State| state.chain.last().is_some_and(|(hash, _)| hash == tip);
        drop(
            self.changed
                .wait_timeout_while(self.lock(), timeout, unchanged)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}
