//! From a block in the node to the same block in the answers: a real `bitcoind`, a real `cairn start`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bitcoin::Block;
use cairn_testkit::{Bitcoind, ChainGenerator, Params};
use tokio::runtime::Runtime;

use crate::http::Server;
use crate::load::Connection;

const SEED: u64 = 3;
/// Blocks before the measured ones: enough of them are full that inputs spend old outputs.
const BEFORE: u32 = 160;
/// How long to wait for one block.
const PATIENCE: Duration = Duration::from_secs(30);

/// Gives the node `blocks` full blocks one by one and measures how long each takes to `/blocks/tip/height`. With `mempool`, the
/// node and Cairn have seen the transactions of a block before, as they mostly have.
pub(crate) fn bench(blocks: u32, mempool: bool) -> Result<()> {
    ensure!(blocks >= 1, "at least one block");
    let node = Arc::new(Bitcoind::start().context("the node of the tests, from BITCOIND_EXE")?);
    let mut generator = ChainGenerator::new(Params::bench(SEED));
    for _ in 0..BEFORE {
        node.submit_block(&generator.next_block())?;
    }
    let dir = tempfile::tempdir()?;
    let keys = format!(
        "rpc_url = \"{}\"\nrpc_cookie_file = {:?}\n",
        node.url(),
        node.cookie_file()
    );
    let server = Server::start_with(&dir.path().join("data"), &keys)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut tip = Tip {
        connection: runtime.block_on(Connection::open(&server.address))?,
        runtime,
    };
    tip.wait(BEFORE, "/blocks/tip/height")?;
    let (mut times, mut txs) = (Vec::new(), 0);
    for height in BEFORE + 1..=BEFORE + blocks {
        let block = generator.next_block();
        txs += block.txdata.len();
        if mempool {
            offer(&node, &mut tip, &block)?;
        }
        let node = Arc::clone(&node);
        let submitting = std::thread::spawn(move || {
            let submitted = node.submit_block(&block);
            (Instant::now(), submitted)
        });
        let seen = tip.wait(height, "/blocks/tip/height")?;
        let (submitted, result) = submitting.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        result?;
        // Cairn may hear of the block before the caller's answer is out.
        times.push(seen.saturating_duration_since(submitted));
    }
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("| blocks | transactions each | seen before | p50 ms | p90 ms | longest ms |");
    println!("| --- | --- | --- | --- | --- | --- |");
    println!(
        "| {blocks} | {} | {} | {:.1} | {:.1} | {:.1} |",
        txs / blocks as usize,
        if mempool { "yes" } else { "no" },
        ms(times.len() / 2),
        ms(times.len() * 9 / 10),
        ms(times.len() - 1)
    );
    Ok(())
}

/// Gives the node the transactions of a block, and waits until Cairn has them, too.
fn offer(node: &Bitcoind, tip: &mut Tip, block: &Block) -> Result<()> {
    let mut last = None;
    for tx in &block.txdata[1..] {
        // What the node's rules of relay refuse comes with the block alone, as it does on a real chain.
        if let Ok(txid) = node.send(tx) {
            last = Some(txid);
        }
    }
    let last = last.context("the node took none of the block's transactions")?;
    let name = last.to_string();
    let start = Instant::now();
    while !String::from_utf8_lossy(tip.ask("/mempool/txids")?).contains(&name) {
        ensure!(start.elapsed() < PATIENCE, "{last} did not appear");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The server, asked over one connection.
struct Tip {
    runtime: Runtime,
    connection: Connection,
}

impl Tip {
    fn ask(&mut self, path: &str) -> Result<&[u8]> {
        self.runtime.block_on(self.connection.get(path))
    }

    /// Asks again and again until the height is there; says when.
    fn wait(&mut self, height: u32, path: &str) -> Result<Instant> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.ask(path)? == height.to_string().as_bytes() {
                return Ok(Instant::now());
            }
            // Asking without a pause would take the processor from those who are measured.
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("height {height} did not appear within {PATIENCE:?}")
    }
}
