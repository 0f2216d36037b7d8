//! A chain from block files alone.
//!
//! Without a node, "the best chain" is the branch with most work among the complete blocks in the files. A block that a node
//! would find invalid, or that an operator invalidated, cannot be recognised from files.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::Network;
use cairn_utxo_chain::walk::{BlockVisitor, TxPlace, walk_block};
use tokio_util::sync::CancellationToken;

use crate::blk::{BlockFiles, Event, HeaderTree};
use crate::source::{ChainSource, HeaderRun, RawUnit, SourceError, Tip, Unit};

/// How often a waiting caller's stop and the newest file are looked at.
const WAIT_STEP: Duration = Duration::from_millis(250);

/// A [`ChainSource`] over a folder of block files.
#[derive(Debug)]
pub struct FilesSource {
    files: BlockFiles,
    network: Network,
    tree: Mutex<HeaderTree>,
    stop: CancellationToken,
}

impl FilesSource {
    /// A source over files that were opened already. Calls return [`SourceError::Stopped`] after `stop` is cancelled.
    pub fn new(files: BlockFiles, network: impl Into<Network>, stop: CancellationToken) -> Self {
        let network = network.into();
        Self {
            files,
            network,
            tree: Mutex::new(HeaderTree::new(network.genesis_hash())),
            stop,
        }
    }

    /// The files.
    pub fn files(&self) -> &BlockFiles {
        &self.files
    }

    /// Blocks in the files that do not link to genesis because a block between them is missing.
    pub fn orphans(&self) -> u64 {
        self.tree().orphans()
    }

    /// Blocks in the files that link to genesis and are not on the best chain.
    pub fn stale(&self) -> u64 {
        self.tree().stale()
    }

    /// Takes in what is new in the files and says which tip is best.
    fn refresh(&self) -> Result<Tip, SourceError> {
        let mut tree = self.tree();
        let first = !self.files.is_scanned();
        self.files
            .refresh_with(&|| self.stop.is_cancelled(), &mut |event| match event {
                Event::Reset => tree.clear(),
                Event::Record(records, id, header) => tree.insert(records, id, header),
            })?;
        tree.settle();
        let summary = self.files.summary();
        if first {
            tracing::info!(
                files = summary.files,
                blocks = summary.blocks,
                repeated = summary.repeated,
                damaged = summary.damaged,
                stale = tree.stale(),
                orphans = tree.orphans(),
                "block files scanned"
            );
        }
        self.files.with_records(|records| tree.tip(records)).ok_or_else(|| {
            let folder = self.files.folder().display();
            let network = self.network.name();
            SourceError::Refused(if summary.files == 0 {
                format!("{folder} holds no blk*.dat file: check blocks_dir, or set rpc_url")
            } else {
                format!(
                    "the {} blocks in {folder} do not begin with the genesis block of {network}: the files from blk00000.dat \
                     on are needed to index without a node (or set rpc_url)",
                    summary.blocks
                )
            })
        })
    }

    fn tree(&self) -> MutexGuard<'_, HeaderTree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lacking(&self, hashes: &[BlockHash]) -> SourceError {
        SourceError::Missing(format!(
            "{} of the wanted blocks are not in {} (the first is {}); set rpc_url to fetch them from a node",
            hashes.len(),
            self.files.folder().display(),
            hashes.first().map(ToString::to_string).unwrap_or_default()
        ))
    }
}

/// Looks for a transaction in a block.
struct Search {
    txid: [u8; 32],
    /// Bytes of the transactions so far.
    passed: usize,
    /// Where it begins behind the start of the first one, and its length.
    found: Option<(usize, usize)>,
}

impl BlockVisitor for Search {
    fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}

    fn tx(&mut self, tx: TxPlace) {
        if tx.txid == self.txid {
            self.found.get_or_insert((self.passed, tx.length));
        }
        self.passed += tx.length;
    }
}

impl ChainSource for FilesSource {
    fn describe(&self) -> String {
        format!("files {}", self.files.folder().display())
    }

    fn tip(&self) -> Result<Tip, SourceError> {
        self.refresh()
    }

    fn headers(
        &self,
        known: &dyn Fn(&BlockHash) -> Option<u32>,
        until: Option<u32>,
    ) -> Result<HeaderRun, SourceError> {
        let best = self.refresh()?;
        let tree = self.tree();
        self.files.with_records(|records| {
            let top = until.map_or(best.height, |until| until.min(best.height));
            let damaged =
                || SourceError::Damaged("the header list of the block files has a gap".to_owned());
            let mut start = top + 1;
            while start > 0 {
                let hash = tree.hash_at(records, start - 1).ok_or_else(damaged)?;
                if known(&hash).is_some() {
                    break;
                }
                start -= 1;
            }
            let headers = (start..=top)
                .map(|height| tree.header_at(records, height))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(damaged)?;
            let hash = tree.hash_at(records, top).ok_or_else(damaged)?;
            Ok(HeaderRun {
                start_height: start,
                headers,
                tip: Some(Tip { hash, height: top }),
            })
        })
    }

    fn plan(&self, wanted: &[BlockHash], unit_bytes: u64) -> Result<Vec<Unit>, SourceError> {
        let (units, lacking) = self.files.plan(wanted, unit_bytes);
        if lacking.is_empty() {
            Ok(units)
        } else {
            Err(self.lacking(&lacking))
        }
    }

    fn read(&self, unit: &Unit) -> Result<RawUnit, SourceError> {
        if self.stop.is_cancelled() {
            return Err(SourceError::Stopped);
        }
        let (raw, lacking) = self.files.read(&unit.blocks)?;
        if lacking.is_empty() {
            Ok(raw)
        } else {
            Err(self.lacking(&lacking))
        }
    }

    fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let (raw, lacking) = self.files.read(std::slice::from_ref(hash))?;
        if lacking.is_empty() {
            Ok(raw.bytes)
        } else {
            Err(self.lacking(&lacking))
        }
    }

    fn transaction(&self, txid: &Txid, block: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let bytes = self.block(block)?;
        let mut search = Search {
            txid: txid.to_byte_array(),
            passed: 0,
            found: None,
        };
        let place = walk_block(self.network.family(), &bytes, &mut search).map_err(|error| {
            SourceError::Damaged(format!(
                "block {block} in {} does not decode: {error}",
                self.files.folder().display()
            ))
        })?;
        let found = search.found.and_then(|(start, length)| {
            let start = place.first_tx + start;
            bytes.get(start..start + length)
        });
        found.map(<[u8]>::to_vec).ok_or_else(|| {
            SourceError::Missing(format!("transaction {txid} is not in block {block}"))
        })
    }

    fn wait(&self, _tip: &BlockHash, timeout: Duration) {
        let end = Instant::now() + timeout;
        while !self.stop.is_cancelled() && !self.files.looks_changed() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(WAIT_STEP));
        }
    }
}
