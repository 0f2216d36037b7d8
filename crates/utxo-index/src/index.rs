//! The index of one chain: opening it, bringing it up to the tip, handing out views.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use cairn_utxo_chain::{Family as ChainFamily, Network};
use cairn_utxo_node::{ChainSource, SourceError, Tip};

use crate::bulk::{self, BulkJob, LoadTuning};
use crate::engine::{Family, StoreError, Stores, Tuning};
use crate::follow::{Followed, Follower};
use crate::headers::{self, Chain, HeaderTree, NodeId};
use crate::mempool::{ChainDelta, Changes};
use crate::progress::ProgressCell;
use crate::publish::Publisher;
use crate::rows::{Db, Features, RowError};
use crate::verify::{Verifier, VerifyReport};
use crate::version;
use crate::view::{Shared, View};

/// Deepest reorganisation followed on mainnet without the operator, blocks.
const MAINNET_REORG_DEPTH_MAX: u32 = 1_000;
/// Default of [`IndexConfig::utxos_limit`].
const UTXOS_LIMIT_DEFAULT: usize = 500;
/// Default of [`IndexConfig::memory_bytes`].
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// How an index is made and opened.
#[derive(Debug, Clone)]
pub struct IndexConfig {
    /// Folder of the three databases.
    pub dir: PathBuf,
    /// Which chain.
    pub network: Network,
    /// No `T`, `X`, `M` rows: bodies come from the node. Fixed at creation.
    pub light_mode: bool,
    /// `a` rows. Fixed at creation.
    pub address_search: bool,
    /// `H…F` rows for provably unspendable outputs too. Fixed at creation.
    pub index_unspendables: bool,
    /// Largest final UTXO set answered for one script.
    pub utxos_limit: usize,
    /// Rows one request may visit; 0 = the default of 100,000. Statistics and UTXO lists fold keys only and in order,
    /// which is cheap; they may visit ten times as many.
    pub scan_rows_max: usize,
    /// One memory budget, bytes: block cache, memtables, load buffers.
    pub memory_bytes: u64,
    /// Worker threads of the load; 0 = the machine's cores.
    pub threads: usize,
    /// Blocks a reorganisation may undo before the indexer stops and asks the operator.
    pub reorg_depth_max: u32,
    /// Use the bulk path for the first load. Without it the first load goes block by block, as following does: slow,
    /// and the same rows by other code, which is what tests compare.
    pub bulk: bool,
    /// Sizes used by the bulk path.
    pub load: LoadTuning,
}

impl IndexConfig {
    /// An index with all defaults.
    pub fn new(dir: impl Into<PathBuf>, network: impl Into<Network>) -> Self {
        let network = network.into();
        Self {
            dir: dir.into(),
            network,
            light_mode: false,
            address_search: false,
            index_unspendables: false,
            utxos_limit: UTXOS_LIMIT_DEFAULT,
            scan_rows_max: 0,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            threads: 0,
            reorg_depth_max: if network.is_main() {
                MAINNET_REORG_DEPTH_MAX
            } else {
                u32::MAX
            },
            bulk: true,
            load: LoadTuning::default(),
        }
    }

    /// What is fixed when the index is made.
    pub(crate) fn features(&self) -> Features {
        Features {
            light_mode: self.light_mode,
            address_search: self.address_search,
            index_unspendables: self.index_unspendables,
            elements: self.network.family() == ChainFamily::Elements,
        }
    }
}

/// What the indexer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the source's first answer.
    Waiting,
    /// Reading headers.
    Headers,
    /// First load, phase 1: blocks to `txstore`.
    Adding,
    /// First load, phase 2: `history`.
    Indexing,
    /// At the tip or catching up block by block.
    Following,
}

/// How far the indexer is. Counts work (bytes), not heights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Work done in this phase, bytes.
    pub done: u64,
    /// Work of this phase in all, bytes; 0 = unknown.
    pub total: u64,
    /// Bytes per second, smoothed.
    pub rate: f64,
    /// Estimated seconds until the chain is indexed.
    pub eta_seconds: Option<u64>,
    /// Blocks read so far in this load.
    pub blocks: u64,
    /// Transactions read so far in this load.
    pub txs: u64,
    /// The index's tip height, if there is one.
    pub tip: Option<u32>,
    /// The source's tip as last seen.
    pub source_tip: Option<u32>,
}

/// What one [`Index::sync`] did.
#[derive(Debug, Clone, Copy)]
pub struct SyncOutcome {
    /// Tip reached.
    pub tip: Tip,
    /// Blocks added.
    pub blocks: u64,
    /// Transactions added.
    pub txs: u64,
    /// Blocks undone by a reorganisation.
    pub undone: u32,
}

/// Why the index could not be opened or brought forward.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The folder holds an index of another layout, chain or feature set. The text names both and the way out.
    #[error("{0}")]
    Mismatch(String),
    /// The store failed; says where.
    #[error("{0}")]
    Store(String),
    /// Rows contradict each other or the source. Says block, transaction, output, and the command that helps.
    #[error("{0}")]
    Corrupt(String),
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Asked to stop; everything finished is kept.
    #[error("stopped")]
    Stopped,
}

impl From<StoreError> for IndexError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<RowError> for IndexError {
    fn from(error: RowError) -> Self {
        Self::Corrupt(format!(
            "{error}; run `cairn verify` to see which blocks are affected, or delete the index folder to build it anew"
        ))
    }
}

impl From<std::io::Error> for IndexError {
    fn from(error: std::io::Error) -> Self {
        let hint = match error.kind() {
            std::io::ErrorKind::StorageFull => {
                "; free some space and start again: nothing finished is lost"
            }
            _ => "",
        };
        Self::Store(format!("files of the index: {error}{hint}"))
    }
}

/// The indexer's own knowledge; one thread at a time.
pub(crate) struct SyncState {
    /// The chain of indexed blocks.
    pub(crate) chain: Chain,
    /// Blocks whose transactions are stored but which are not on the chain.
    pub(crate) stale: Vec<NodeId>,
    /// Whether the first load is complete (`t` is there).
    pub(crate) loaded: bool,
    /// Blocks that came and went since the last published view.
    pub(crate) delta: ChainDelta,
}

/// The index of one chain. Shared by reference between the indexing thread and readers.
pub struct Index {
    config: IndexConfig,
    stores: Arc<Stores>,
    tree: Arc<RwLock<HeaderTree>>,
    state: Mutex<SyncState>,
    publisher: Publisher,
    bodies: Arc<RwLock<Option<Arc<dyn ChainSource>>>>,
    progress: ProgressCell,
}

impl Index {
    /// Opens or creates the databases. Fails with [`IndexError::Mismatch`] when the folder holds an index of another
    /// chain or made with other options.
    pub fn open(config: IndexConfig) -> Result<Arc<Index>, IndexError> {
        let tuning = Tuning::new(config.memory_bytes, worker_count(config.threads));
        let stores = Arc::new(open_stores(&config, tuning)?);
        let opened = headers::load(&stores, config.network)?;
        let index = Self {
            tree: Arc::new(RwLock::new(HeaderTree::new(config.network.genesis_hash()))),
            state: Mutex::new(SyncState {
                chain: Chain::default(),
                stale: Vec::new(),
                loaded: false,
                delta: ChainDelta::default(),
            }),
            stores,
            publisher: Publisher::new(),
            bodies: Arc::new(RwLock::new(None)),
            progress: ProgressCell::new(),
            config,
        };
        let mut state = index.state();
        index.adopt(&mut state, opened)?;
        drop(state);
        Ok(Arc::new(index))
    }

    /// The newest view; `None` until the first load is complete.
    pub fn view(&self) -> Option<Arc<View>> {
        self.publisher.view()
    }

    /// A feed of every view published from now on and what is different in it. Subscribe before taking a view to begin
    /// from, so that none is missed between the two.
    pub fn changes(&self) -> Changes {
        self.publisher.changes()
    }

    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Where the indexer is.
    pub fn progress(&self) -> Progress {
        self.progress.read()
    }

    /// Which chain.
    pub fn network(&self) -> Network {
        self.config.network
    }

    /// The options it was opened with.
    pub fn config(&self) -> &IndexConfig {
        &self.config
    }

    /// The source that readers ask for transactions and blocks in light mode. Without one such questions end with
    /// [`crate::QueryError::Node`].
    pub fn set_body_source(&self, source: Arc<dyn ChainSource>) {
        *self.bodies.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// One catch-up: first load or following, reorganisations included, up to the source's tip as it is when the call
    /// is made (or `until`). Returns early with [`IndexError::Stopped`] soon after `stop` is set.
    ///
    /// A second call while one runs waits for it.
    pub fn sync(
        &self,
        source: &dyn ChainSource,
        until: Option<u32>,
        stop: &AtomicBool,
    ) -> Result<SyncOutcome, IndexError> {
        let mut state = self.state();
        let mut loaded = None;
        if !state.loaded && self.config.bulk {
            loaded = Some(self.load(&mut state, source, until, stop)?);
        }
        let outcome = self.follow(&mut state, source, until, stop)?;
        let (blocks, txs) = loaded.unwrap_or((0, 0));
        Ok(SyncOutcome {
            blocks: outcome.blocks + blocks,
            txs: outcome.txs + txs,
            ..outcome
        })
    }

    /// Writes every row of a database, one line `key value` in lower-case hex, in key order over all families.
    pub fn dump_rows(&self, db: Db, out: &mut dyn Write) -> Result<(), IndexError> {
        crate::dump::dump_rows(self.stores.of(db), out)
    }

    /// Derives the rows of the best-chain blocks in `heights` anew from `source` and compares them with the stored
    /// ones, both ways. `progress` is called after each block. Nothing is written.
    pub fn verify(
        &self,
        source: &dyn ChainSource,
        heights: RangeInclusive<u32>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u32),
    ) -> Result<VerifyReport, IndexError> {
        let view = self.view().ok_or_else(|| {
            IndexError::Mismatch(
                "there is nothing to verify: the first load is not complete".into(),
            )
        })?;
        Verifier::new(&view, &self.config, source).run(heights, stop, progress)
    }

    /// Numbers of the store for metrics: (name, value).
    pub fn store_metrics(&self) -> Vec<(String, u64)> {
        let mut metrics = vec![(
            "block_cache_bytes".to_owned(),
            self.stores.tuning.block_cache_usage(),
        )];
        for family in Family::ALL {
            for (property, name) in [
                ("rocksdb.estimate-num-keys", "rows"),
                ("rocksdb.total-sst-files-size", "bytes"),
                (
                    "rocksdb.estimate-pending-compaction-bytes",
                    "pending_compaction_bytes",
                ),
            ] {
                if let Some(value) = self.stores.of(family.db()).property(family, property) {
                    metrics.push((
                        format!("{}_{family:?}_{name}", family.db()).to_lowercase(),
                        value,
                    ));
                }
            }
        }
        metrics
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        // A sync that panicked left the databases as its last whole batch did, but perhaps not the lists in memory.
        // `adopt` rebuilds those at the next open; until then the old view keeps answering.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the databases say: header tree, chain, tip, and publishes the view.
    fn adopt(&self, state: &mut SyncState, opened: headers::Opened) -> Result<(), IndexError> {
        state.loaded = opened.tip_row.is_some();
        state.stale = opened.stale();
        state.delta = ChainDelta::unknown();
        state.chain = opened.chain;
        *self.tree.write().unwrap_or_else(PoisonError::into_inner) = opened.tree;
        if let (Some(row), Some(tip)) = (opened.tip_row, state.chain.tip()) {
            let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
            let (hash, height) = (tree.hash(tip), tree.height(tip));
            drop(tree);
            if row != hash {
                tracing::info!(%hash, height, row = %row, "the tip row is corrected after an interruption");
                crate::follow::write_tip(&self.stores, hash)?;
            }
            self.publish(state);
        }
        Ok(())
    }

    /// The first load through the bulk path.
    fn load(
        &self,
        state: &mut SyncState,
        source: &dyn ChainSource,
        until: Option<u32>,
        stop: &AtomicBool,
    ) -> Result<(u64, u64), IndexError> {
        let outcome = bulk::load(BulkJob {
            stores: &self.stores,
            source,
            until,
            config: &self.config,
            stop,
            progress: &self.progress,
        })?;
        tracing::info!(tip = %outcome.tip.hash, height = outcome.tip.height, blocks = outcome.blocks, "first load complete");
        let opened = headers::load(&self.stores, self.config.network)?;
        self.adopt(state, opened)?;
        Ok((outcome.blocks, outcome.txs))
    }

    fn follow(
        &self,
        state: &mut SyncState,
        source: &dyn ChainSource,
        until: Option<u32>,
        stop: &AtomicBool,
    ) -> Result<SyncOutcome, IndexError> {
        let follower = Follower {
            stores: &self.stores,
            config: &self.config,
            tree: &self.tree,
            progress: &self.progress,
            source,
            stop,
            publish: &|state| self.publish(state),
        };
        let Followed {
            tip,
            blocks,
            txs,
            undone,
        } = follower.catch_up(state, until)?;
        Ok(SyncOutcome {
            tip,
            blocks,
            txs,
            undone,
        })
    }

    /// Makes the state visible to readers.
    fn publish(&self, state: &mut SyncState) {
        let shared = match self.view() {
            Some(view) => view.shared(),
            None => Arc::new(Shared::new(
                &self.config,
                Arc::clone(&self.stores),
                Arc::clone(&self.tree),
                Arc::clone(&self.bodies),
            )),
        };
        let view = View::new(shared, state.chain.clone(), &state.stale);
        let height = view.tip().height;
        self.publisher
            .publish_chain(view, std::mem::take(&mut state.delta));
        self.progress.set_tip(Some(height));
    }
}

fn worker_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// Opens the databases and checks, or for new ones writes, the version rows.
fn open_stores(config: &IndexConfig, tuning: Tuning) -> Result<Stores, IndexError> {
    let stores = Stores::open(&config.dir, tuning)?;
    version::check(&stores, config)?;
    Ok(stores)
}
