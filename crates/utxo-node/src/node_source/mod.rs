//! A chain from a node, with bodies from its block files where they can be read.
//!
//! The node says what the chain is; files and REST are only faster ways to the same bytes, and whatever they lack or have
//! damaged comes over RPC.

mod headers;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, Txid};
use cairn_utxo_chain::Network;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::blk::{BlockFiles, header_hash};
use crate::network;
use crate::node::Node;
use crate::rpc::{ChainInfo, NodeError};
use crate::source::{ChainSource, HeaderRun, RawUnit, SourceError, Tip, Unit};

/// Tries to read a header list while the node's tip moves.
const HEADER_TRIES: usize = 5;
/// Blocks asked for at once by one reader. The client bounds the sum over all readers.
const BLOCKS_AT_ONCE: usize = 4;
/// Assumed size of a block that is fetched from the node, to cut units: its real size is not known before.
const ASSUMED_BLOCK_BYTES: u64 = 1_000_000;
/// Bounds of the number of blocks in a unit fetched from the node.
const UNIT_BLOCKS: std::ops::RangeInclusive<u64> = 4..=64;
/// Fewer wanted blocks than this are fetched from the node at once: looking through the files would take longer.
const FILES_WORTH: usize = 16;
/// The same as long as the files have not been scanned, which reads the header of each block in them.
const SCAN_WORTH: usize = 500;
/// Time between two looks at the node's tip where it has no long poll.
const POLL: Duration = Duration::from_millis(500);
/// How long after the start of a long poll the tip is looked at once more.
const SECOND_LOOK: Duration = Duration::from_millis(20);
/// [`Unit::place`] of what is fetched from the node; files number theirs from 1.
const PLACE_NODE: u64 = 0;

/// Block files beside a node.
#[derive(Debug)]
pub struct NodeFiles {
    /// The files.
    pub files: BlockFiles,
    /// The operator named the folder: files that cannot be read are an error, and not a reason to do without them.
    pub required: bool,
    /// The magic is configured: what the node says about its signet does not count.
    pub magic_is_fixed: bool,
}

/// A [`ChainSource`] over a node.
///
/// Its calls block the thread on a runtime's handle: they must not be made on a worker thread of that runtime (use plain
/// threads or `spawn_blocking`), and the runtime must outlive the source.
#[derive(Debug)]
pub struct NodeSource {
    node: Node,
    network: Network,
    runtime: Handle,
    stop: CancellationToken,
    files: Option<NodeFiles>,
    /// The files turned out to be of no use.
    files_given_up: AtomicBool,
    /// The node's identity was checked and it has answered since.
    checked: AtomicBool,
    /// The first load of the node's own chain was over once.
    past_download: AtomicBool,
    pruned: AtomicBool,
    rest: OnceLock<bool>,
    no_long_poll: AtomicBool,
}

impl NodeSource {
    /// A source over a node and, if given, its block files. Connects with the first call.
    ///
    /// Calls return [`SourceError::Stopped`] soon after `stop` is cancelled.
    pub fn new(
        node: Node,
        network: impl Into<Network>,
        files: Option<NodeFiles>,
        runtime: Handle,
        stop: CancellationToken,
    ) -> Self {
        let network = network.into();
        Self {
            node: node.of_family(network.family()),
            network,
            runtime,
            stop,
            files,
            files_given_up: AtomicBool::new(false),
            checked: AtomicBool::new(false),
            past_download: AtomicBool::new(false),
            pruned: AtomicBool::new(false),
            rest: OnceLock::new(),
            no_long_poll: AtomicBool::new(false),
        }
    }

    /// The block files in use.
    pub fn files(&self) -> Option<&BlockFiles> {
        self.files
            .as_ref()
            .filter(|_| !self.files_given_up.load(Ordering::Relaxed))
            .map(|beside| &beside.files)
    }

    /// Whether blocks are fetched over REST; `None` before the node was asked.
    pub fn uses_rest(&self) -> Option<bool> {
        self.rest.get().copied()
    }

    /// Waits for an answer on this thread.
    fn wait_for<T>(
        &self,
        answer: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, SourceError> {
        let result = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => None,
                result = answer => Some(result),
            }
        });
        let result = result.ok_or(SourceError::Stopped)?;
        if result.as_ref().is_err_and(NodeError::is_transient) {
            // What answers next time may be another node.
            self.checked.store(false, Ordering::Relaxed);
        }
        result.map_err(SourceError::from)
    }

    /// Makes sure that the node is one of our network and ready; says where its chain stands.
    fn info(&self) -> Result<ChainInfo, SourceError> {
        let info = self.wait_for(self.node.chain_info())?;
        if !self.checked.load(Ordering::Relaxed) {
            self.check(&info)?;
            self.checked.store(true, Ordering::Relaxed);
        }
        Ok(info)
    }

    fn ensure_checked(&self) -> Result<(), SourceError> {
        if self.checked.load(Ordering::Relaxed) {
            Ok(())
        } else {
            self.info().map(|_| ())
        }
    }

    fn check(&self, info: &ChainInfo) -> Result<(), SourceError> {
        let wanted = network::core_name(self.network);
        let label = self.node.label();
        if let Some(wanted) = wanted
            && info.chain != wanted
        {
            return Err(SourceError::Refused(format!(
                "node {label} is on network \"{}\", but the configured network is \"{}\" (\"{wanted}\" to a node): set \
                 network or rpc_url",
                info.chain,
                self.network.name()
            )));
        }
        let genesis = self.wait_for(self.node.block_hash(0))?;
        let ours = self.network.genesis_hash();
        if genesis != ours {
            return Err(SourceError::Refused(format!(
                "node {label} has the genesis block {genesis}, but {} begins with {ours}: it is another chain of the same name",
                self.network.name()
            )));
        }
        if !self.past_download.load(Ordering::Relaxed) {
            if info.initial_block_download && info.blocks < info.headers {
                return Err(SourceError::Unavailable(format!(
                    "node {label} is loading the chain itself: {} of {} blocks",
                    info.blocks, info.headers
                )));
            }
            self.past_download.store(true, Ordering::Relaxed);
        }
        self.pruned.store(info.pruned, Ordering::Relaxed);
        if let (Some(beside), Some(challenge)) = (&self.files, &info.signet_challenge)
            && !beside.magic_is_fixed
        {
            let challenge = Vec::from_hex(challenge).map_err(|error| {
                SourceError::Damaged(format!(
                    "node {label}: signet_challenge is not hex: {error}"
                ))
            })?;
            beside.files.set_magic(network::signet_magic(&challenge));
        }
        if self.rest.get().is_none() {
            let rest = self.wait_for(self.node.has_rest(&info.chain))?;
            if self.rest.set(rest).is_ok() {
                tracing::info!(
                    node = label,
                    blocks_over = if rest { "REST" } else { "RPC" },
                    block_files = self
                        .files()
                        .map(|files| files.folder().display().to_string()),
                    pruned = info.pruned,
                    "node found"
                );
            }
        }
        Ok(())
    }

    fn has_rest(&self) -> bool {
        self.rest.get().copied().unwrap_or(false)
    }

    /// The bytes of a block by the best way the node has.
    async fn fetch(&self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        if self.has_rest()
            && let Some(bytes) = self.node.rest_block(hash).await?
        {
            return Ok(bytes);
        }
        self.node.block(hash).await
    }

    /// Adds what the node lacks to the message, where pruning is the reason.
    fn explain(&self, error: SourceError) -> SourceError {
        match error {
            SourceError::Missing(text) if self.pruned.load(Ordering::Relaxed) => {
                SourceError::Refused(format!(
                    "node {} is pruned and no longer has a wanted block: {text}; use a node that is not pruned, or one whose \
                 remaining blocks reach back to the index's tip",
                    self.node.label()
                ))
            }
            other => other,
        }
    }

    /// Refuses early, before anything is written, if a pruned node cannot have the first of the wanted blocks.
    fn check_pruned(&self, first: &BlockHash) -> Result<(), SourceError> {
        if !self.pruned.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (info, header) = self.wait_for(async {
            Ok((
                self.node.chain_info().await?,
                self.node.header_info(first).await?,
            ))
        })?;
        match info.prune_height {
            Some(lowest) if header.height < lowest => Err(SourceError::Refused(format!(
                "node {} is pruned: it has blocks from height {lowest} on, but block {first} at height {} is wanted; use a \
                 node that is not pruned, or give its older block files as blocks_dir",
                self.node.label(),
                header.height
            ))),
            _ => Ok(()),
        }
    }

    /// The files, scanned to the end, if they are worth a look for so many blocks.
    fn files_for(&self, wanted: usize) -> Result<Option<&BlockFiles>, SourceError> {
        let Some(files) = self.files() else {
            return Ok(None);
        };
        let worth = if files.is_scanned() {
            FILES_WORTH
        } else {
            SCAN_WORTH
        };
        if wanted < worth && !self.pruned.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match files.refresh(&|| self.stop.is_cancelled()) {
            Ok(()) => Ok(Some(files)),
            Err(SourceError::Refused(reason))
                if !self.files.as_ref().is_some_and(|beside| beside.required) =>
            {
                tracing::warn!(%reason, "block files are of no use; blocks come over RPC");
                self.files_given_up.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends blocks from the node to a unit.
    fn append(&self, raw: &mut RawUnit, hashes: &[BlockHash]) -> Result<(), SourceError> {
        let fetched = self.wait_for(
            stream::iter(hashes.iter().copied())
                .map(|hash| async move { Ok::<_, NodeError>((hash, self.fetch(&hash).await?)) })
                .buffered(BLOCKS_AT_ONCE)
                .try_collect::<Vec<_>>(),
        );
        let fetched = fetched.map_err(|error| self.explain(error))?;
        raw.bytes
            .reserve_exact(fetched.iter().map(|(_, bytes)| bytes.len()).sum());
        for (hash, bytes) in fetched {
            let start = raw.bytes.len();
            raw.bytes.extend_from_slice(&bytes);
            raw.blocks.push((hash, start..raw.bytes.len()));
        }
        Ok(())
    }
}

impl ChainSource for NodeSource {
    fn describe(&self) -> String {
        format!("node {}", self.node.label())
    }

    fn tip(&self) -> Result<Tip, SourceError> {
        let info = self.info()?;
        Ok(Tip {
            hash: info.best_block_hash,
            height: info.blocks,
        })
    }

    fn headers(
        &self,
        known: &dyn Fn(&BlockHash) -> Option<u32>,
        until: Option<u32>,
    ) -> Result<HeaderRun, SourceError> {
        for _ in 0..HEADER_TRIES {
            if let Some(run) = self.try_headers(known, until)? {
                return Ok(run);
            }
            tracing::debug!(
                "the node's chain moved while its headers were read; reading them again"
            );
        }
        Err(SourceError::Unavailable(format!(
            "the chain of node {} moved {HEADER_TRIES} times while its headers were read",
            self.node.label()
        )))
    }

    fn plan(&self, wanted: &[BlockHash], unit_bytes: u64) -> Result<Vec<Unit>, SourceError> {
        self.ensure_checked()?;
        let (mut units, rest) = match self.files_for(wanted.len())? {
            Some(files) => files.plan(wanted, unit_bytes),
            None => (Vec::new(), wanted.to_vec()),
        };
        if let Some(first) = rest.first() {
            self.check_pruned(first)?;
        }
        let count = (unit_bytes / ASSUMED_BLOCK_BYTES)
            .clamp(*UNIT_BLOCKS.start(), *UNIT_BLOCKS.end()) as usize;
        units.extend(rest.chunks(count).map(|blocks| Unit {
            blocks: blocks.to_vec(),
            bytes: 0,
            place: PLACE_NODE,
        }));
        Ok(units)
    }

    fn read(&self, unit: &Unit) -> Result<RawUnit, SourceError> {
        if self.stop.is_cancelled() {
            return Err(SourceError::Stopped);
        }
        let from_node = || (RawUnit::default(), unit.blocks.clone());
        let (mut raw, lacking) = match self.files() {
            Some(files) if unit.place != PLACE_NODE => files.read(&unit.blocks).unwrap_or_else(|error| {
                tracing::warn!(%error, blocks = unit.blocks.len(), "fetching blocks from the node instead");
                from_node()
            }),
            _ => from_node(),
        };
        if !lacking.is_empty() {
            self.ensure_checked()?;
            self.append(&mut raw, &lacking)?;
        }
        Ok(raw)
    }

    fn block(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let from_node = self
            .ensure_checked()
            .and_then(|()| self.wait_for(self.fetch(hash)));
        match (from_node, self.files()) {
            (Err(SourceError::Missing(text)), Some(files)) => {
                match files.read(std::slice::from_ref(hash)) {
                    Ok((raw, lacking))
                        if lacking.is_empty()
                            && header_hash(self.network.family(), &raw.bytes) == Some(*hash) =>
                    {
                        Ok(raw.bytes)
                    }
                    _ => Err(self.explain(SourceError::Missing(text))),
                }
            }
            (result, _) => result.map_err(|error| self.explain(error)),
        }
    }

    fn transaction(&self, txid: &Txid, block: &BlockHash) -> Result<Vec<u8>, SourceError> {
        self.ensure_checked()?;
        self.wait_for(self.node.raw_transaction(txid, Some(block)))
            .map_err(|error| self.explain(error))
    }

    fn wait(&self, tip: &BlockHash, timeout: Duration) {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.is_cancelled() {
                return;
            }
            let poll_only = self.no_long_poll.load(Ordering::Relaxed);
            let changed = self.wait_for(async {
                // The tip may have moved before the long poll begins; it tells of later changes only.
                let now = self.node.best_block_hash();
                let now = tokio::time::timeout(left, now).await.unwrap_or(Ok(*tip))?;
                if now != *tip {
                    return Ok(true);
                }
                let left = end.saturating_duration_since(Instant::now());
                if poll_only || left.is_zero() {
                    tokio::time::sleep(POLL.min(left)).await;
                    return Ok(false);
                }
                // Nor does it tell of a block that came after that answer and before the node has understood the long poll.
                let told = async { Ok(self.node.wait_for_new_block(left).await?.hash != *tip) };
                let missed = async {
                    tokio::time::sleep(SECOND_LOOK).await;
                    Ok(self.node.best_block_hash().await? != *tip)
                };
                tokio::pin!(told);
                tokio::select! {
                    told = &mut told => told,
                    missed = missed => match missed {
                        Ok(false) => told.await,
                        moved => moved,
                    },
                }
            });
            match changed {
                Ok(true) | Err(SourceError::Stopped) => return,
                Ok(false) => {}
                Err(SourceError::Refused(_)) if !poll_only => {
                    self.no_long_poll.store(true, Ordering::Relaxed)
                }
                // The caller's next question shows what is wrong; until then nothing is gained by asking again at once.
                Err(_) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let pause = async {
                        tokio::time::sleep(left).await;
                        Ok(())
                    };
                    // Cut short by a stop at most.
                    let _ = self.wait_for(pause);
                    return;
                }
            }
        }
    }
}
