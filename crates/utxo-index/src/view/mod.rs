//! The frozen state that one request reads.
//!
//! A [`View`] is a header list, a snapshot of `txstore` and of `history`, and the unconfirmed transactions, all at one
//! tip. It is replaced by the next one and never changes. The modules below it are one kind of question each.

mod assets;
mod balance;
mod blocks;
mod bodies;
mod chain_order;
mod fold;
mod history;
mod merkle;
mod positions;
mod spends;
mod stats;
mod txs;
mod unconfirmed;
mod utxos;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::{AssetId, Family as ChainFamily, Header, Network};
use cairn_utxo_node::ChainSource;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use self::positions::BlockPositions;
use crate::engine::{Family, Snapshot, StoreError, Stores};
use crate::headers::{Chain, HeaderTree, NodeId};
use crate::index::IndexConfig;
use crate::mempool::MempoolView;
use crate::rows::{self, Features, RowError, RowKind};
use crate::types::{AssetStats, BlockRef, QueryError, ScriptHash, ScriptStats, Utxo};

pub use chain_order::HistoryRun;

type Result<T, E = QueryError> = std::result::Result<T, E>;

/// Default of [`IndexConfig::scan_rows_max`].
const SCAN_ROWS_DEFAULT: usize = 100_000;
/// How many rows a fold (statistics, UTXO set) may visit for each row a page may: it reads keys only and in order, and
/// looks nothing up. With the default that is 1,000,000 rows, about half a second of one core, so that the first
/// statistics of an address with 100,000 transactions are one request.
const FOLD_ROWS_FACTOR: usize = 10;
/// A fold that takes longer keeps what it has and gives up.
const FOLD_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of transaction id lists kept for proofs and block pages.
const TXIDS_CACHE_BYTES: u64 = 16 << 20;
/// Bytes of position lists kept for ordering histories: blocks with 2.8 million transactions.
const POSITIONS_CACHE_BYTES: u64 = 32 << 20;
/// Bytes of merkle trees kept.
const MERKLE_CACHE_BYTES: u64 = 8 << 20;
/// Bytes of ordered transaction lists of (script, block) pairs with many transactions.
const GROUPS_CACHE_BYTES: u64 = 8 << 20;
/// Answers about scripts kept for the current tip.
const STATS_CACHE_ITEMS: usize = 16_384;
const ASSET_STATS_CACHE_ITEMS: usize = 1_024;
const UTXOS_CACHE_ITEMS: usize = 2_048;
/// Balance series kept: 4 kB each.
const BALANCES_CACHE_ITEMS: usize = 2_048;
/// UTXO folds that are waiting to be continued.
const UNFINISHED_ITEMS: usize = 32;
/// Heights on mainnet whose coinbase was mined again higher up before BIP30 forbade that (the copies are at 91880 and
/// 91842). Only the later one exists for the UTXO set, so rows at these heights need the read-time rule.
const OVERWRITTEN_COINBASE_HEIGHTS: [u32; 2] = [91_722, 91_812];

/// Where light mode gets bodies from.
pub(crate) type Bodies = Arc<RwLock<Option<Arc<dyn ChainSource>>>>;

/// What all views of an index share.
pub(crate) struct Shared {
    network: Network,
    features: Features,
    utxos_limit: usize,
    scan_rows_max: usize,
    stores: Arc<Stores>,
    tree: Arc<RwLock<HeaderTree>>,
    bodies: Bodies,
    /// By block, so an entry is right for every view.
    block_txids: Cache<BlockHash, Arc<Vec<Txid>>, TxidsWeight>,
    /// By block: where its transactions are.
    positions: Cache<BlockHash, Arc<BlockPositions>, PositionsWeight>,
    /// By block: the levels of its merkle tree.
    merkle: Cache<BlockHash, Arc<merkle::MerkleTree>, MerkleWeight>,
    /// Transactions of one script or asset in one block, last one first.
    groups: Cache<GroupKey, Arc<Vec<Txid>>, TxidsWeight>,
    /// By script and tip. The cache also makes sure that nobody computes what somebody else is computing.
    stats: Cache<(ScriptHash, BlockHash), ScriptStats>,
    /// By asset and tip.
    asset_stats: Cache<(AssetId, BlockHash), AssetStats>,
    /// As above; `None`: more than the limit.
    utxos: Cache<(ScriptHash, BlockHash), Option<Arc<Vec<Utxo>>>>,
    unfinished: Cache<ScriptHash, Arc<utxos::Unfinished>>,
    /// By script: its balance over time up to a settled block.
    balances: Cache<ScriptHash, Arc<balance::Settled>>,
}

/// The kind of row, the script or asset, and the block.
type GroupKey = (RowKind, [u8; 32], BlockHash);

#[derive(Clone)]
struct TxidsWeight;

impl<K> Weighter<K, Arc<Vec<Txid>>> for TxidsWeight {
    fn weight(&self, _key: &K, txids: &Arc<Vec<Txid>>) -> u64 {
        txids.len() as u64 * 32 + 128
    }
}

#[derive(Clone)]
struct PositionsWeight;

impl Weighter<BlockHash, Arc<BlockPositions>> for PositionsWeight {
    fn weight(&self, _key: &BlockHash, positions: &Arc<BlockPositions>) -> u64 {
        positions.bytes() as u64 + 128
    }
}

#[derive(Clone)]
struct MerkleWeight;

impl Weighter<BlockHash, Arc<merkle::MerkleTree>> for MerkleWeight {
    fn weight(&self, _key: &BlockHash, tree: &Arc<merkle::MerkleTree>) -> u64 {
        tree.bytes() as u64 + 128
    }
}

impl Shared {
    pub(crate) fn new(
        config: &IndexConfig,
        stores: Arc<Stores>,
        tree: Arc<RwLock<HeaderTree>>,
        bodies: Bodies,
    ) -> Self {
        Self {
            network: config.network,
            features: config.features(),
            utxos_limit: config.utxos_limit,
            scan_rows_max: match config.scan_rows_max {
                0 => SCAN_ROWS_DEFAULT,
                rows => rows,
            },
            stores,
            tree,
            bodies,
            block_txids: Cache::with_weighter(512, TXIDS_CACHE_BYTES, TxidsWeight),
            positions: Cache::with_weighter(512, POSITIONS_CACHE_BYTES, PositionsWeight),
            merkle: Cache::with_weighter(64, MERKLE_CACHE_BYTES, MerkleWeight),
            groups: Cache::with_weighter(1024, GROUPS_CACHE_BYTES, TxidsWeight),
            stats: Cache::new(STATS_CACHE_ITEMS),
            asset_stats: Cache::new(ASSET_STATS_CACHE_ITEMS),
            utxos: Cache::new(UTXOS_CACHE_ITEMS),
            unfinished: Cache::new(UNFINISHED_ITEMS),
            balances: Cache::new(BALANCES_CACHE_ITEMS),
        }
    }

    fn fold_rows_max(&self) -> usize {
        self.scan_rows_max.saturating_mul(FOLD_ROWS_FACTOR)
    }
}

/// A consistent state of the index: header list, snapshots of the databases and mempool, all at one tip. Cheap to clone the
/// `Arc` around it; replaced, never changed. All calls block the thread (run them on a blocking pool).
pub struct View {
    shared: Arc<Shared>,
    chain: Arc<Chain>,
    tip: BlockRef,
    /// Heights at which a row of `history` may be of a block that is not on this chain, see [`View::row_counts`].
    contested: Arc<BTreeSet<u32>>,
    /// Whether blocks beside the chain are stored.
    has_stale: bool,
    txstore: Arc<Snapshot>,
    history: Arc<Snapshot>,
    mempool: MempoolView,
}

impl View {
    /// The state with the chain `chain`, which is not empty; `stale` are the stored blocks beside it. The databases must
    /// be at that tip now.
    pub(crate) fn new(shared: Arc<Shared>, chain: Chain, stale: &[NodeId]) -> Self {
        let tree = shared.tree.read().unwrap_or_else(PoisonError::into_inner);
        let tip = chain
            .tip()
            .expect("a view is made of a chain that has at least genesis");
        let tip = block_ref(&tree, tip);
        let mut contested: BTreeSet<u32> = stale.iter().map(|id| tree.height(*id)).collect();
        drop(tree);
        if shared.network == Network::Bitcoin(bitcoin::Network::Bitcoin) {
            contested.extend(OVERWRITTEN_COINBASE_HEIGHTS);
        }
        let (txstore, history) = (
            Arc::new(shared.stores.txstore.snapshot()),
            Arc::new(shared.stores.history.snapshot()),
        );
        Self {
            shared,
            chain: Arc::new(chain),
            tip,
            contested: Arc::new(contested),
            has_stale: !stale.is_empty(),
            txstore,
            history,
            mempool: MempoolView::empty(),
        }
    }

    /// A view of the same chain, with a mempool to be set.
    pub(crate) fn on_same_chain(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            chain: Arc::clone(&self.chain),
            tip: self.tip,
            contested: Arc::clone(&self.contested),
            has_stale: self.has_stale,
            txstore: Arc::clone(&self.txstore),
            history: Arc::clone(&self.history),
            mempool: MempoolView::empty(),
        }
    }

    pub(crate) fn set_mempool(&mut self, mempool: MempoolView) {
        self.mempool = mempool;
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The snapshot of `txstore`.
    pub(crate) fn txstore(&self) -> &Snapshot {
        &self.txstore
    }

    /// The snapshot of `history`.
    pub(crate) fn history_store(&self) -> &Snapshot {
        &self.history
    }

    /// The tip of this view.
    pub fn tip(&self) -> BlockRef {
        self.tip
    }

    /// The unconfirmed transactions that belong to this tip. Answers of the other calls are about the chain alone, unless
    /// they say otherwise.
    pub fn mempool(&self) -> &MempoolView {
        &self.mempool
    }

    /// Number of this view: grows with each published one, be it the chain or the mempool that changed. Starts anew with
    /// the process.
    pub fn sequence(&self) -> u64 {
        self.mempool.sequence()
    }

    /// Best-chain block at a height.
    pub fn block_at(&self, height: u32) -> Option<BlockRef> {
        let id = self.chain.get(height)?;
        Some(block_ref(&self.tree(), id))
    }

    /// Best-chain header at a height.
    pub fn header_at(&self, height: u32) -> Option<Header> {
        let id = self.chain.get(height)?;
        Some(self.tree().header(id))
    }

    /// Best-chain header at a height, serialized.
    pub fn header_bytes_at(&self, height: u32) -> Result<Option<Vec<u8>>> {
        let Some(id) = self.chain.get(height) else {
            return Ok(None);
        };
        let header = self.tree().header(id);
        self.header_bytes_of(&header).map(Some)
    }

    /// The serialized form of a header of a stored block: Bitcoin's is made from it, that of Elements is in its row.
    fn header_bytes_of(&self, header: &Header) -> Result<Vec<u8>> {
        if let Some(header) = header.to_bitcoin() {
            return Ok(bitcoin::consensus::serialize(&header));
        }
        let key = rows::block_key(RowKind::Header, &header.hash);
        let row = self.txstore.get(Family::Blocks, &key)?;
        row.map(|row| row.to_vec()).ok_or_else(|| {
            QueryError::Store(format!(
                "block {} has no row B; run `cairn verify`",
                header.hash
            ))
        })
    }

    /// The reference of a best-chain block; `None` for unknown and stale ones.
    pub fn best_chain_block(&self, hash: &BlockHash) -> Option<BlockRef> {
        self.on_chain(&self.tree(), hash)
    }

    /// The way from a block that was a tip once to the tip of this view: the blocks that left the chain since, from that one
    /// down, and those that came, ascending. `None` for an unknown block, or if the way has more than `most` blocks.
    pub fn path_from(
        &self,
        tip: &BlockHash,
        most: usize,
    ) -> Option<(Vec<BlockRef>, Vec<BlockRef>)> {
        let tree = self.tree();
        let mut at = tree.find(tip)?;
        let mut left = Vec::new();
        while self.chain.get(tree.height(at)) != Some(at) {
            if left.len() == most {
                return None;
            }
            left.push(block_ref(&tree, at));
            at = tree.parent(at)?;
        }
        let above = tree.height(at) + 1..=self.tip.height;
        if left.len() + above.clone().count() > most {
            return None;
        }
        let came = above
            .filter_map(|height| self.chain.get(height))
            .map(|id| block_ref(&tree, id))
            .collect();
        Some((left, came))
    }

    /// The family of the chain.
    pub fn family(&self) -> ChainFamily {
        self.shared.network.family()
    }

    /// The network.
    pub fn network(&self) -> Network {
        self.shared.network
    }

    /// The best-chain block that confirms the transaction.
    pub fn confirming_block(&self, txid: &Txid) -> Result<Option<BlockRef>> {
        let mut cursor = self
            .txstore
            .prefix_cursor(Family::Confs, &rows::conf_prefix(txid));
        cursor.seek(&rows::conf_prefix(txid));
        let mut best: Option<BlockRef> = None;
        while let Some(key) = cursor.key()? {
            let (_, hash) = rows::decode_conf_key(key)?;
            // Several only for the coinbases mined twice before BIP30, where the later block counts.
            if let Some(block) = self.best_chain_block(&hash)
                && best.is_none_or(|other| other.height < block.height)
            {
                best = Some(block);
            }
            cursor.next();
        }
        Ok(best)
    }

    /// Up to `limit` addresses that begin with `prefix`, ascending.
    pub fn addresses(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        if !self.shared.features.address_search {
            return Err(QueryError::AddressSearchDisabled);
        }
        let folded = self.fold_bech32(prefix);
        let mut from = Vec::with_capacity(1 + folded.len());
        rows::addr_key(&folded, &mut from);
        let until = crate::engine::after_prefix(&from);
        let mut cursor = self
            .history
            .range_cursor(Family::Addrs, from.clone(), until);
        cursor.seek(&from);
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(key) = cursor.key()?
        {
            found.push(rows::decode_addr_key(key)?);
            cursor.next();
        }
        Ok(found)
    }

    /// Rows hold bech32 in lower case; a prefix typed (or scanned from a QR code) wholly in upper case means the same.
    fn fold_bech32(&self, prefix: &str) -> String {
        let lower = prefix.to_ascii_lowercase();
        let all_upper = !prefix.bytes().any(|byte| byte.is_ascii_lowercase());
        if all_upper && lower.starts_with(&self.shared.network.bech32_prefix()) {
            lower
        } else {
            prefix.to_owned()
        }
    }

    /// Whether a row of `history` for `txid` at `height` counts: the transaction's confirming block exists and has this
    /// height.
    ///
    /// Rows of a stale block are deleted before any row of its successor is written, in the batch that removes its `D`
    /// row, so a snapshot normally holds none. But correctness must not rest on hygiene: wherever `txstore` knows a
    /// stale block, a leftover is conceivable, and at those heights (and those of overwritten coinbases) every row is
    /// checked. At all other heights no block but the best-chain one was ever stored, so no other block can have left a
    /// row there, and the check would cost a read per row for nothing.
    fn row_counts(&self, txid: &Txid, height: u32) -> Result<bool> {
        if !self.contested.contains(&height) {
            return Ok(true);
        }
        Ok(self
            .confirming_block(txid)?
            .is_some_and(|block| block.height == height))
    }

    fn tree(&self) -> RwLockReadGuard<'_, HeaderTree> {
        self.shared
            .tree
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn on_chain(&self, tree: &HeaderTree, hash: &BlockHash) -> Option<BlockRef> {
        let id = tree.find(hash)?;
        (self.chain.get(tree.height(id)) == Some(id)).then(|| block_ref(tree, id))
    }

    /// The block at a height that the caller knows to be on the chain; anything else is damage.
    fn expect_block_at(&self, height: u32) -> Result<BlockRef> {
        self.block_at(height).ok_or_else(|| {
            QueryError::Store(format!(
                "history has a row at height {height}, above the tip {} of the index; run `cairn verify`",
                self.tip.height
            ))
        })
    }
}

pub(crate) fn block_ref(tree: &HeaderTree, id: NodeId) -> BlockRef {
    BlockRef {
        hash: tree.hash(id),
        height: tree.height(id),
        time: tree.time(id),
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<RowError> for QueryError {
    fn from(error: RowError) -> Self {
        Self::Store(error.to_string())
    }
}
