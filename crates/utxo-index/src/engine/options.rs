//! RocksDB settings per family, and how one memory budget is divided.

use std::fs;

use rust_rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DataBlockIndexType, Options,
    SliceTransform, WriteBufferManager,
};

use super::Family;
use crate::rows::Db;

/// Share of the memory budget that the block cache gets; filters and indexes live in it too.
const BLOCK_CACHE_SHARE: u64 = 2;
/// Share of the memory budget that all memtables together get.
const MEMTABLES_SHARE: u64 = 8;
/// Size of an entry of the block cache that its table is laid out for, bytes; 0 = it grows as needed.
const CACHE_ENTRY_BYTES: usize = 0;
/// The block cache is never smaller, bytes.
const BLOCK_CACHE_MIN: u64 = 8 << 20;
/// One memtable, bytes: bounds. Small, so that a small chain stays small in memory; a family that fills it flushes.
const MEMTABLE_MIN: u64 = 2 << 20;
const MEMTABLE_MAX: u64 = 64 << 20;
/// Memtables take memory in pieces of this size, so that an idle family costs this much and no more.
const ARENA_BYTES: usize = 64 << 10;
/// Size of a file that compaction makes, bytes.
const FILE_BYTES: u64 = 64 << 20;
/// Bits per key (or per prefix) of the Bloom filters: about 1 % false positives.
const FILTER_BITS: f64 = 10.0;
/// Share of the process's open-file limit that one database may use.
const OPEN_FILES_SHARE: u64 = 4;
const OPEN_FILES_MIN: i32 = 64;
const OPEN_FILES_MAX: i32 = 8192;
/// Where the limit of open files is read, and what is assumed where that does not exist.
const LIMITS_FILE: &str = "/proc/self/limits";
const OPEN_FILES_ASSUMED: u64 = 1024;
/// The write-ahead log of one database is recycled beyond this many bytes.
const WAL_BYTES_MAX: u64 = 128 << 20;
/// How many old RocksDB info logs are kept, and how large one may be.
const INFO_LOGS_KEPT: usize = 2;
const INFO_LOG_BYTES: usize = 4 << 20;

/// What all families and databases share: the memory budget and its parts.
#[derive(Clone)]
pub(crate) struct Tuning {
    cache: Cache,
    memtables: WriteBufferManager,
    memtable_bytes: u64,
    jobs: i32,
    open_files: i32,
}

impl Tuning {
    /// Divides a budget of `memory_bytes`; `threads` bounds the background jobs.
    pub(crate) fn new(memory_bytes: u64, threads: usize) -> Self {
        let cache_bytes = (memory_bytes / BLOCK_CACHE_SHARE).max(BLOCK_CACHE_MIN);
        let memtables_bytes =
            (memory_bytes / MEMTABLES_SHARE).max(MEMTABLE_MIN * Family::ALL.len() as u64);
        Self {
            // Readers of a clock cache do not wait for each other, as those of an LRU cache do at each look-up.
            cache: Cache::new_hyper_clock_cache(
                usize::try_from(cache_bytes).unwrap_or(usize::MAX),
                CACHE_ENTRY_BYTES,
            ),
            memtables: WriteBufferManager::new_write_buffer_manager(
                usize::try_from(memtables_bytes).unwrap_or(usize::MAX),
                false,
            ),
            memtable_bytes: (memtables_bytes / 4).clamp(MEMTABLE_MIN, MEMTABLE_MAX),
            jobs: i32::try_from(threads.clamp(2, 8)).unwrap_or(2),
            open_files: open_files(),
        }
    }

    /// Bytes of the shared block cache in use.
    pub(crate) fn block_cache_usage(&self) -> u64 {
        self.cache.get_usage() as u64
    }
}

/// What one database may hold open: a share of what the system allows the process.
fn open_files() -> i32 {
    let limit = fs::read_to_string(LIMITS_FILE)
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find(|line| line.starts_with("Max open files"))?
                .to_owned();
            line.split_whitespace().nth(3)?.parse::<u64>().ok()
        })
        .unwrap_or(OPEN_FILES_ASSUMED);
    i32::try_from(limit / OPEN_FILES_SHARE)
        .unwrap_or(OPEN_FILES_MAX)
        .clamp(OPEN_FILES_MIN, OPEN_FILES_MAX)
}

/// Options of a whole database.
pub(super) fn db_options(db: Db, tuning: &Tuning) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(tuning.jobs);
    options.set_max_open_files(tuning.open_files);
    options.set_write_buffer_manager(&tuning.memtables);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    options.set_keep_log_file_num(INFO_LOGS_KEPT);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_stats_dump_period_sec(0);
    options.set_bytes_per_sync(1 << 20);
    if matches!(db, Db::Cache) {
        // Nothing in the cache is worth a log of more than a moment.
        options.set_max_total_wal_size(8 << 20);
    }
    options
}

/// How a family is read, which decides its filters.
enum Lookup {
    /// By whole key.
    Point,
    /// By a prefix of this many bytes.
    Prefix(usize),
    /// In order, with short prefixes.
    Ordered,
}

fn lookup(family: Family) -> Lookup {
    match family {
        Family::Blocks | Family::Txs | Family::Outs | Family::Marks | Family::Cache => {
            Lookup::Point
        }
        Family::Confs | Family::Hist | Family::Assets => Lookup::Prefix(33),
        Family::Edges => Lookup::Prefix(37),
        Family::Addrs => Lookup::Ordered,
    }
}

/// Options of a family: the same for the open database and for files that are written to be ingested.
pub(crate) fn family_options(family: Family, tuning: &Tuning) -> Options {
    build(family, tuning, true)
}

/// Options of files that the bulk load writes for the bottom level. As [`family_options`], but without a filter where
/// every read finds its row: nine tenths of that filter would be for nothing.
pub(crate) fn bulk_file_options(family: Family, tuning: &Tuning) -> Options {
    build(family, tuning, family != Family::Outs)
}

fn build(family: Family, tuning: &Tuning, filter: bool) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&tuning.cache);
    table.set_format_version(6);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_pin_top_level_index_and_filter(true);
    table.set_block_size(block_bytes(family));
    if is_large(family) {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(4096);
    }

    let mut options = Options::default();
    match lookup(family) {
        Lookup::Point => {
            if filter {
                table.set_bloom_filter(FILTER_BITS, false);
            }
            table.set_whole_key_filtering(true);
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        }
        Lookup::Prefix(length) => {
            if filter {
                table.set_bloom_filter(FILTER_BITS, false);
            }
            table.set_whole_key_filtering(false);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
        }
        Lookup::Ordered => {}
    }
    if family == Family::Outs {
        // Phase 2 and prevouts always find their row, so the last level needs no filter.
        options.set_optimize_filters_for_hits(true);
    }
    options.set_block_based_table_factory(&table);
    options.set_compression_type(compression(family));
    options.set_bottommost_compression_type(compression(family));
    options.set_write_buffer_size(usize::try_from(tuning.memtable_bytes).unwrap_or(usize::MAX));
    options.set_arena_block_size(ARENA_BYTES);
    options.set_target_file_size_base(FILE_BYTES);
    options.set_level_compaction_dynamic_level_bytes(true);
    options
}

/// Families that grow with every transaction.
fn is_large(family: Family) -> bool {
    matches!(
        family,
        Family::Txs | Family::Confs | Family::Outs | Family::Hist | Family::Edges | Family::Assets
    )
}

fn block_bytes(family: Family) -> usize {
    match family {
        // Large values, read one by one: a larger block only means more to decompress.
        Family::Txs | Family::Blocks => 16 << 10,
        Family::Outs | Family::Confs | Family::Edges | Family::Cache | Family::Marks => 4 << 10,
        Family::Hist | Family::Addrs | Family::Assets => 16 << 10,
    }
}

/// Rows are hashes, keys and signatures for the most part: LZ4 takes a tenth off a block of real transactions, and the
/// store keeps a compressed block only when an eighth is saved. Addresses alone, which share prefixes, are worth it.
fn compression(family: Family) -> DBCompressionType {
    match family {
        Family::Addrs => DBCompressionType::Lz4,
        _ => DBCompressionType::None,
    }
}
