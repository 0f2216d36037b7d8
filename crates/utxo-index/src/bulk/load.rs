//! Drives the stages of a first load and keeps its resume point.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bitcoin::BlockHash;
use cairn_utxo_node::{ChainSource, Tip, Unit};
use hashbrown::HashMap;

use super::add::{AddStage, Partitioned};
use super::collected::{self, SortedRuns};
use super::files::FileFactory;
use super::finish;
use super::history::HistorySorter;
use super::join::{Collected, JoinStage, Joiner};
use super::manifest::{Heights, Manifest, Stage};
use super::spill::{Partitioning, Spill};
use super::workers::Workers;
use crate::engine::{Family, Stores};
use crate::index::{IndexConfig, IndexError, Phase};
use crate::progress::ProgressCell;
use crate::version;

/// What a first load needs.
pub(crate) struct BulkJob<'a> {
    pub(crate) stores: &'a Stores,
    pub(crate) source: &'a dyn ChainSource,
    /// Last height wanted; `None` means the source's tip.
    pub(crate) until: Option<u32>,
    pub(crate) config: &'a IndexConfig,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a ProgressCell,
}

/// What a first load did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BulkOutcome {
    pub(crate) tip: Tip,
    pub(crate) blocks: u64,
    pub(crate) txs: u64,
}

/// Bytes of spill per byte of block, about, in the stages after the first; for progress and partition sizes only.
const JOIN_WORK: u64 = 2;
const HISTORY_WORK: u64 = 2;
/// Size of a block whose size the source does not tell, and the fewest partitions in that case.
const UNKNOWN_BLOCK_BYTES: u64 = 256 << 10;
/// Ranges of partitions each worker gets per round, so that all end at about the same time.
const RANGES_PER_WORKER: usize = 16;

fn scratch_dir(index_dir: &Path) -> PathBuf {
    index_dir.join("load")
}

/// Loads every block from genesis to the target into empty databases (or goes on with an interrupted load) and writes
/// the tip row last.
pub(crate) fn load(job: BulkJob<'_>) -> Result<BulkOutcome, IndexError> {
    let scratch = scratch_dir(&job.config.dir);
    job.progress.set_phase(Phase::Headers, 0);
    let run = job.source.headers(&|_| None, job.until)?;
    let chain: Vec<BlockHash> = run.headers.iter().map(|header| header.hash).collect();
    let Some(&tip) = chain.last() else {
        return Err(IndexError::Source(cairn_utxo_node::SourceError::Missing(
            format!("{} has no blocks", job.source.describe()),
        )));
    };
    let mut load = Load::open(&job, scratch, chain, tip)?;
    load.add()?;
    load.join()?;
    load.history()?;
    load.finish()
}

struct Spills {
    blocks: Partitioned,
    txs: Partitioned,
    edges: Partitioned,
    history: Partitioned,
}

struct Load<'a> {
    job: &'a BulkJob<'a>,
    scratch: PathBuf,
    chain: Vec<BlockHash>,
    units: Vec<Unit>,
    manifest: Manifest,
    spills: Spills,
    workers: Workers<'a>,
    factory: FileFactory,
    /// Whether a resume point of this load is on disk.
    checkpointed: bool,
}

impl<'a> Load<'a> {
    fn open(
        job: &'a BulkJob<'a>,
        scratch: PathBuf,
        mut chain: Vec<BlockHash>,
        tip: BlockHash,
    ) -> Result<Self, IndexError> {
        let resumed = Manifest::read(&scratch).filter(|manifest| {
            let height = manifest.target_height as usize;
            let same = chain.get(height) == Some(&manifest.target);
            if !same {
                tracing::warn!(target = %manifest.target, "the interrupted load's target left the best chain: starting again");
            }
            same
        });
        let workers = Workers::new(job.config.threads, job.stop);
        let factory = FileFactory::new(&scratch, &job.stores.tuning)?;
        let tuning = &job.config.load;
        if let Some(manifest) = resumed {
            chain.truncate(manifest.target_height as usize + 1);
            let done = Heights::from_ranges(chain.len() as u32, &manifest.added);
            let wanted: Vec<BlockHash> = (0u32..)
                .zip(&chain)
                .filter(|(height, _)| !done.contains(*height))
                .map(|(_, hash)| *hash)
                .collect();
            let units = job.source.plan(&wanted, tuning.unit_bytes)?;
            let spills = Spills::resume(&scratch, &manifest)?;
            tracing::info!(stage = ?manifest.stage, blocks = manifest.blocks, "going on with the interrupted load");
            return Ok(Self {
                job,
                scratch,
                chain,
                units,
                manifest,
                spills,
                workers,
                factory,
                checkpointed: true,
            });
        }
        // Rows of a load that cannot go on: its branch may no longer be the best one, so none of them may stay.
        version::discard_rows(job.stores, job.config)?;
        let units = job.source.plan(&chain, tuning.unit_bytes)?;
        let known: u64 = units.iter().map(|unit| unit.bytes).sum();
        let bytes = match known {
            0 => UNKNOWN_BLOCK_BYTES * chain.len() as u64,
            known => known,
        };
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        let mut manifest = Manifest::new(tip, chain.len() as u32 - 1);
        let bits = |bytes| Partitioning::for_bytes(bytes, tuning.partition_bytes).bits();
        manifest.tx_bits = bits(bytes * JOIN_WORK);
        manifest.script_bits = bits(bytes * HISTORY_WORK);
        manifest.block_bits = bits(bytes / 8);
        let spills = Spills::create(&scratch, &manifest)?;
        Ok(Self {
            job,
            scratch,
            chain,
            units,
            manifest,
            spills,
            workers,
            factory,
            checkpointed: false,
        })
    }

    /// Stage 1.
    fn add(&mut self) -> Result<(), IndexError> {
        let units = std::mem::take(&mut self.units);
        let weight = |unit: &Unit| match unit.bytes {
            0 => UNKNOWN_BLOCK_BYTES * unit.blocks.len() as u64,
            bytes => bytes,
        };
        let bytes: u64 = units.iter().map(weight).sum::<u64>() + self.manifest.bytes;
        self.job
            .progress
            .set_phase(Phase::Adding, bytes * (1 + JOIN_WORK));
        self.job.progress.add_done(self.manifest.bytes);
        self.job.progress.add_blocks(self.manifest.blocks);
        self.job.progress.add_txs(self.manifest.txs);
        if self.manifest.stage > Stage::Add {
            return Ok(());
        }
        let heights: HashMap<BlockHash, u32> = self.chain.iter().copied().zip(0..).collect();
        let count = self.chain.len() as u32;
        let done = Mutex::new(Heights::from_ranges(count, &self.manifest.added));
        let mut rest = &units[..];
        while !rest.is_empty() {
            let mut round = 0;
            let mut bytes = 0;
            while round < rest.len() && bytes < self.job.config.load.checkpoint_bytes {
                bytes += weight(&rest[round]);
                round += 1;
            }
            let stage = AddStage {
                family: self.job.config.network.family(),
                source: self.job.source,
                heights: &heights,
                blocks: &self.spills.blocks,
                txs: &self.spills.txs,
                edges: &self.spills.edges,
                buffer_bytes: self.job.config.load.buffer_bytes,
                progress: self.job.progress,
            };
            let added = stage.run(&self.workers, &rest[..round], &done)?;
            self.manifest.blocks += added.blocks;
            self.manifest.txs += added.txs;
            self.manifest.bytes += added.bytes;
            rest = &rest[round..];
            if !rest.is_empty() {
                self.manifest.added = done.lock().expect("all workers have ended").ranges();
                self.checkpoint()?;
            }
        }
        let done = done.into_inner().expect("all workers have ended");
        if let Some(height) = (0..count).find(|&height| !done.contains(height)) {
            return Err(IndexError::Source(cairn_utxo_node::SourceError::Missing(
                format!(
                    "{} did not give block {} at height {height}",
                    self.job.source.describe(),
                    self.chain[height as usize]
                ),
            )));
        }
        self.manifest.added = done.ranges();
        self.manifest.stage = Stage::Join;
        self.manifest.partitions_done = 0;
        self.checkpoint_if_large()
    }

    /// Stage 2.
    fn join(&mut self) -> Result<(), IndexError> {
        while self.manifest.stage == Stage::Join {
            let from = self.manifest.partitions_done;
            let sizes = [&self.spills.txs.spill, &self.spills.edges.spill];
            let to = self.round_end(from, &sizes, self.spills.txs.partitions.count());
            let ranges = self.ranges(from, to);
            let stage = JoinStage {
                factory: &self.factory,
                txs: &self.spills.txs,
                edges: &self.spills.edges,
                history: &self.spills.history,
                chain: &self.chain,
                network: self.job.config.network,
                light_mode: self.job.config.light_mode,
                index_unspendables: self.job.config.index_unspendables,
            };
            let buffer = self.job.config.load.buffer_bytes / self.workers.count();
            let next = AtomicUsize::new(0);
            let finished = Mutex::new((Vec::new(), Vec::new(), Vec::new()));
            self.workers.run(|| {
                let mut joiner = Joiner::new(&stage, buffer);
                while let Some(&(start, end)) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let label = format!("{start:05}");
                    let runs = |what| SortedRuns::new(&self.scratch, what, &label);
                    let config = self.job.config;
                    let collected = Collected {
                        addresses: config.address_search.then(|| runs("addresses")),
                        assets: config.network.elements().map(|_| runs("assets")),
                    };
                    let before = |partition| {
                        for spill in sizes {
                            self.job.progress.add_done(spill.partition_bytes(partition));
                        }
                        self.workers.check()
                    };
                    let (files, runs) = joiner.range(start..end, &label, collected, before)?;
                    let mut finished = finished.lock().expect("no worker panics while it adds");
                    finished.0.extend(files);
                    finished.1.extend(runs.addresses);
                    finished.2.extend(runs.assets);
                }
                joiner.finish()
            })?;
            let (files, addresses, assets) = finished.into_inner().expect("all workers have ended");
            ingest(self.job.stores, files)?;
            self.manifest.address_runs.extend(addresses);
            self.manifest.asset_runs.extend(assets);
            self.end_round(to, self.spills.txs.partitions.count(), Stage::History)?;
            for partition in from..to {
                self.spills.txs.spill.release(partition);
                self.spills.edges.spill.release(partition);
            }
        }
        Ok(())
    }

    /// Stage 3.
    fn history(&mut self) -> Result<(), IndexError> {
        let history = &self.spills.history;
        self.job
            .progress
            .set_phase(Phase::Indexing, history.spill.length());
        let count = history.partitions.count();
        while self.manifest.stage == Stage::History {
            let from = self.manifest.partitions_done;
            let history = &self.spills.history;
            let to = self.round_end(from, &[&history.spill], count);
            let ranges = self.ranges(from, to);
            let next = AtomicUsize::new(0);
            let finished = Mutex::new(Vec::new());
            self.workers.run(|| {
                let mut sorter = HistorySorter::new(
                    self.job.config.network.family(),
                    &self.factory,
                    history,
                    &self.scratch,
                );
                while let Some(&(start, end)) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let before = |partition| {
                        let bytes = history.spill.partition_bytes(partition);
                        self.job.progress.add_done(bytes);
                        self.workers.check()
                    };
                    let files = sorter.range(start..end, &format!("{start:05}"), before)?;
                    finished
                        .lock()
                        .expect("no worker panics while it adds")
                        .push(files);
                }
                Ok(())
            })?;
            ingest(
                self.job.stores,
                finished.into_inner().expect("all workers have ended"),
            )?;
            self.end_round(to, count, Stage::Finish)?;
            for partition in from..to {
                self.spills.history.spill.release(partition);
            }
        }
        Ok(())
    }

    /// The small rows, the marks, and at the very end the tip.
    fn finish(self) -> Result<BulkOutcome, IndexError> {
        let stores = self.job.stores;
        if !self.manifest.address_runs.is_empty() {
            let mut files = self.factory.files(Family::Addrs, "all");
            collected::write_address_rows(&self.manifest.address_runs, &self.scratch, &mut files)?;
            ingest(stores, vec![files.finish()?])?;
        }
        if !self.manifest.asset_runs.is_empty() {
            let mut files = self.factory.files(Family::Assets, "all");
            collected::write_asset_rows(&self.manifest.asset_runs, &self.scratch, &mut files)?;
            ingest(stores, vec![files.finish()?])?;
        }
        let files = finish::block_files(
            &self.factory,
            &self.spills.blocks,
            self.job.config.light_mode,
        )?;
        ingest(stores, files)?;
        let tip = Tip {
            hash: self.manifest.target,
            height: self.manifest.target_height,
        };
        finish::marks(stores, &self.chain, tip.hash)?;
        let outcome = BulkOutcome {
            tip,
            blocks: self.manifest.blocks,
            txs: self.manifest.txs,
        };
        let scratch = self.scratch.clone();
        drop(self);
        fs::remove_dir_all(&scratch)?;
        Ok(outcome)
    }

    /// The first partition after `from` that no longer belongs to the round.
    fn round_end(&self, from: usize, spills: &[&Spill], count: usize) -> usize {
        let mut bytes = 0;
        let mut to = from;
        while to < count && bytes < self.job.config.load.checkpoint_bytes {
            bytes += spills
                .iter()
                .map(|spill| spill.partition_bytes(to))
                .sum::<u64>();
            to += 1;
        }
        to
    }

    /// Cuts partitions into ranges for the workers.
    fn ranges(&self, from: usize, to: usize) -> Vec<(usize, usize)> {
        let step = (to - from)
            .div_ceil(self.workers.count() * RANGES_PER_WORKER)
            .max(1);
        (from..to)
            .step_by(step)
            .map(|start| (start, to.min(start + step)))
            .collect()
    }

    /// Notes that the partitions before `to` are in the databases. Their spilled records may go afterwards: no resume
    /// point refers to them any more.
    fn end_round(&mut self, to: usize, count: usize, following: Stage) -> Result<(), IndexError> {
        self.manifest.partitions_done = to;
        if to == count {
            self.manifest.stage = following;
            self.manifest.partitions_done = 0;
        } else {
            return self.checkpoint();
        }
        self.checkpoint_if_large()
    }

    /// At the end of a stage. Small loads have no resume points; but where there is one, it must not fall behind.
    fn checkpoint_if_large(&mut self) -> Result<(), IndexError> {
        let large = self.manifest.bytes >= self.job.config.load.checkpoint_bytes;
        if large || self.checkpointed {
            self.checkpoint()
        } else {
            Ok(())
        }
    }

    /// Makes everything done so far durable and the point to resume from. No worker runs meanwhile.
    fn checkpoint(&mut self) -> Result<(), IndexError> {
        let Spills {
            blocks,
            txs,
            edges,
            history,
        } = &self.spills;
        for part in [blocks, txs, edges, history] {
            part.spill.sync()?;
        }
        self.manifest.lengths.blocks = blocks.spill.length();
        self.manifest.lengths.txs = txs.spill.length();
        self.manifest.lengths.edges = edges.spill.length();
        self.manifest.lengths.history = history.spill.length();
        self.manifest.write(&self.scratch)?;
        self.checkpointed = true;
        tracing::info!(
            stage = ?self.manifest.stage,
            blocks = self.manifest.blocks,
            partitions = self.manifest.partitions_done,
            "resume point of the first load written"
        );
        Ok(())
    }
}

impl Spills {
    fn parts(manifest: &Manifest) -> [(&'static str, u32, u64); 4] {
        let lengths = &manifest.lengths;
        [
            ("blocks.spill", manifest.block_bits, lengths.blocks),
            ("txs.spill", manifest.tx_bits, lengths.txs),
            ("edges.spill", manifest.tx_bits, lengths.edges),
            ("history.spill", manifest.script_bits, lengths.history),
        ]
    }

    fn open(
        manifest: &Manifest,
        open: impl Fn(&str, Partitioning, u64) -> std::io::Result<Spill>,
    ) -> Result<Self, IndexError> {
        let part = |(name, bits, length)| {
            let partitions = Partitioning::from_bits(bits).ok_or_else(|| {
                IndexError::Corrupt(
                    "the interrupted load's manifest is damaged: remove the index folder".into(),
                )
            })?;
            Ok::<_, IndexError>(Partitioned {
                spill: open(name, partitions, length)?,
                partitions,
            })
        };
        let [blocks, txs, edges, history] = Self::parts(manifest);
        Ok(Self {
            blocks: part(blocks)?,
            txs: part(txs)?,
            edges: part(edges)?,
            history: part(history)?,
        })
    }

    fn create(dir: &Path, manifest: &Manifest) -> Result<Self, IndexError> {
        Self::open(manifest, |name, partitions, _| {
            Spill::create(&dir.join(name), partitions)
        })
    }

    fn resume(dir: &Path, manifest: &Manifest) -> Result<Self, IndexError> {
        Self::open(manifest, |name, partitions, length| {
            Spill::resume(&dir.join(name), partitions, length)
        })
    }
}

/// Hands files to the databases, all files of a family in one step.
fn ingest(stores: &Stores, files: Vec<(Family, Vec<PathBuf>)>) -> Result<(), IndexError> {
    let mut by_family: HashMap<Family, Vec<PathBuf>> = HashMap::new();
    for (family, paths) in files {
        by_family.entry(family).or_default().extend(paths);
    }
    for (family, paths) in by_family {
        if !paths.is_empty() {
            stores.ingest(family, paths)?;
        }
    }
    Ok(())
}
