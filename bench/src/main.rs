//! Cairn's benchmarks: `make bench`, or `cairn-bench --help` for single ones.
//!
//! Every figure is taken beside a reference of the same run (the *floor*), because machines differ and are noisy.
//! `bench/RESULTS.md` holds results with machine and command.

mod antelope;
mod chain;
mod electrum;
mod explorer;
mod http;
mod index;
mod load;
mod local_redis;
mod measure;
mod scanner;
mod subscriptions;
mod tip;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(about = "Measures Cairn on a generated chain", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Folder for the generated chain and the indexes
    #[arg(long, env = "CAIRN_BENCH_DIR", default_value_os_t = default_dir())]
    dir: PathBuf,
    /// Transactions of the generated chain, about
    #[arg(long, default_value_t = 1_800_000)]
    txs: u64,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

#[derive(Subcommand)]
enum Command {
    /// First load of the whole chain against the floor: one pass that reads the files and computes every txid
    Index,
    /// Requests per second and latency of the Esplora API
    Http {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Requests per second and latency of the Electrum server, and what 100,000 subscriptions cost
    Electrum {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 3)]
        seconds: u64,
        /// Another Electrum server of the same chain, HOST:PORT, measured in the same run
        #[arg(long)]
        peer: Option<String>,
    },
    /// Antelope blocks to JSON and into a local Redis, against the floor: pipelined XADD of the same bytes
    Antelope {
        /// Length of the chain: the recorded blocks again and again
        #[arg(long, default_value_t = 2_500)]
        blocks: u32,
        /// About how many entries the stream may have; 0 for no limit
        #[arg(long, default_value_t = 0)]
        max_len: u64,
    },
    /// Operations told a second, and reads at several sizes of an application's ledger
    Scanner {
        /// Transactions at which reads are measured, ascending
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
        sizes: Vec<u64>,
        /// Seconds of each measurement of writing
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// From a block in the node to the same block in the answers
    Tip {
        /// Blocks that are measured
        #[arg(long, default_value_t = 20)]
        blocks: u32,
        /// Show the transactions to the node before the block, so that both have them in their mempools
        #[arg(long)]
        mempool: bool,
    },
    /// Events delivered and acknowledged a second, latency, and the time until a standby has taken over
    Subscriptions {
        /// Events of the stream
        #[arg(long, default_value_t = 300_000)]
        events: usize,
        /// Runs of each takeover
        #[arg(long, default_value_t = 3)]
        takeovers: usize,
    },
    /// The explorer's pages: home, a block with 4,000 transactions, an address with 100,000, and what they weigh
    Explorer {
        /// Seconds of each measurement
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
    /// Only makes the chain
    Chain,
    /// One instance of a subscription, until it is killed
    #[command(hide = true)]
    Subscriber { url: String },
    /// One run of the floor; prints its use as JSON
    #[command(hide = true)]
    Floor { blocks: PathBuf },
    /// One first load; prints its use as JSON
    #[command(hide = true)]
    Load { blocks: PathBuf, index: PathBuf },
}

fn default_dir() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("cairn").join("bench")
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Floor { blocks }) => index::floor(&blocks),
        Some(Command::Load { blocks, index }) => index::load(&blocks, &index),
        Some(Command::Antelope { blocks, max_len }) => antelope::bench(blocks, cli.runs, max_len),
        Some(Command::Scanner { sizes, seconds }) => scanner::bench(&sizes, seconds),
        Some(Command::Tip { blocks, mempool }) => tip::bench(blocks, mempool),
        Some(Command::Subscriptions { events, takeovers }) => {
            subscriptions::bench(events, takeovers)
        }
        Some(Command::Subscriber { url }) => subscriptions::instance(&url),
        Some(Command::Explorer { seconds }) => explorer::bench(seconds),
        Some(Command::Chain) => chain::ensure(&cli.dir, cli.txs).map(drop),
        Some(Command::Index) => index::bench(&cli.dir, cli.txs, cli.runs),
        Some(Command::Http { seconds }) => http::bench(&cli.dir, cli.txs, seconds),
        Some(Command::Electrum { seconds, peer }) => {
            electrum::bench(&cli.dir, cli.txs, seconds, peer.as_deref())
        }
        None => {
            index::bench(&cli.dir, cli.txs, cli.runs)?;
            const HTTP_SECONDS: u64 = 5;
            http::bench(&cli.dir, cli.txs, HTTP_SECONDS)?;
            const ELECTRUM_SECONDS: u64 = 3;
            electrum::bench(&cli.dir, cli.txs, ELECTRUM_SECONDS, None)?;
            const TIP_BLOCKS: u32 = 20;
            tip::bench(TIP_BLOCKS, true)?;
            const ANTELOPE_BLOCKS: u32 = 2_500;
            antelope::bench(ANTELOPE_BLOCKS, cli.runs, 0)?;
            const SCANNER_SECONDS: u64 = 5;
            scanner::bench(&[1_000, 100_000, 1_000_000], SCANNER_SECONDS)?;
            const SUBSCRIPTION_EVENTS: usize = 300_000;
            const TAKEOVERS: usize = 3;
            subscriptions::bench(SUBSCRIPTION_EVENTS, TAKEOVERS)
        }
    }
}
