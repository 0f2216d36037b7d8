//! Measures a large mempool: how long it takes to load, what it costs in memory, what a small change and a block cost then.
//!
//! ```console
//! cargo run --release -p cairn-utxo-index --example large_mempool -- 300000
//! ```
//!
//! Chain and mempool are in memory, so that what is measured is the index and not a node. Each transaction spends one confirmed output
//! and pays two scripts of its own, as most do.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bitcoin::{Amount, Network, Transaction, TxOut};
use cairn_testkit::{Coin, Lock, MemoryMempool, MemorySource, TestChain, spend, wide_transaction};
use cairn_utxo_index::{Index, IndexConfig, MempoolSync};

/// Outputs of one funding transaction: as many as fit into a block.
const FAN: u32 = 60_000;
/// Transactions of a full block.
const BLOCK_TXS: usize = 4_000;

fn main() -> Result<()> {
    let count: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse().context("the number of transactions")?,
        None => 300_000,
    };
    let mut chain = TestChain::small(1, 130);
    let mut coins = Vec::new();
    for coin in chain.coins(count.div_ceil(FAN) as usize) {
        let outputs = FAN.min(count - coins.len() as u32);
        let fan = wide_transaction(&coin, outputs);
        coins.extend((0..outputs).map(|vout| Coin {
            outpoint: bitcoin::OutPoint::new(fan.compute_txid(), vout),
            value: fan.output[vout as usize].value.to_sat(),
            lock: Lock::Bare(vout + 1),
        }));
        chain.mine(vec![fan]);
    }
    ensure!(coins.len() == count as usize, "enough coins");
    let txs: Vec<Transaction> = (0u32..)
        .zip(&coins)
        .map(|(n, coin)| pay(coin, n, 200 + u64::from(n % 997)))
        .collect();

    let dir = tempfile::tempdir()?;
    let mut config = IndexConfig::new(dir.path(), Network::Regtest);
    config.memory_bytes = 64 << 20;
    let index = Index::open(config)?;
    let source = MemorySource::default();
    let stop = AtomicBool::new(false);
    source.follow(chain.model());
    index.sync(&source, None, &stop)?;

    let mempool = MemoryMempool::default();
    let tip = chain.model().tip().hash;
    mempool.set(tip, txs.iter().cloned());
    let before = resident_bytes()?;
    let load = timed(|| compare(&index, &mempool))?;
    let after = resident_bytes()?;
    let bytes = after.saturating_sub(before);
    println!("{count} transactions");
    println!(
        "load: {:.2} s, {:.0} per second, {} MiB more memory ({} bytes for each)",
        load.as_secs_f64(),
        f64::from(count) / load.as_secs_f64(),
        bytes >> 20,
        bytes / u64::from(count)
    );

    let same = timed(|| compare(&index, &mempool))?;
    println!("comparison without a difference: {} ms", same.as_millis());
    let mut accepted = Duration::ZERO;
    for (n, coin) in (0u32..).zip(coins.iter().take(100)) {
        // A replacement: one goes, one comes.
        let tx = pay(coin, n, 5_000);
        accepted += timed(|| {
            ensure!(index.add_accepted(vec![tx.into()])? == 1, "it replaces");
            Ok(())
        })?;
    }
    println!("one replacement: {} µs", accepted.as_micros() / 100);
    let view = index.view().context("synced")?;
    let histogram = timed(|| {
        view.mempool().histogram();
        Ok(())
    })?;
    println!("fee histogram: {} ms", histogram.as_millis());

    chain.mine(txs[1_000..1_000 + BLOCK_TXS].to_vec());
    source.follow(chain.model());
    let sync = || -> Result<()> {
        index.sync(&source, None, &stop)?;
        Ok(())
    };
    let block = timed(sync)?;
    let left = index.view().context("synced")?.mempool().len();
    ensure!(left == count as usize - BLOCK_TXS, "the block's are gone");
    println!("a block of {BLOCK_TXS} of them: {} ms", block.as_millis());
    chain.mine(Vec::new());
    source.follow(chain.model());
    let empty = timed(sync)?;
    println!("an empty block: {} ms", empty.as_millis());
    Ok(())
}

/// Pays two scripts of the transaction's own.
fn pay(coin: &Coin, n: u32, fee: u64) -> Transaction {
    let each = Amount::from_sat((coin.value - fee) / 2);
    let outputs = [Lock::Wsh(2 * n), Lock::Wsh(2 * n + 1)]
        .map(|lock| TxOut {
            value: each,
            script_pubkey: lock.script_pubkey(),
        })
        .to_vec();
    spend(&[*coin], outputs)
}

fn compare(index: &Index, mempool: &MemoryMempool) -> Result<()> {
    let outcome = index.sync_mempool(mempool, &AtomicBool::new(false))?;
    ensure!(matches!(outcome, MempoolSync::Complete(round) if round.left_out == 0));
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

/// Memory of this process, from Linux' own account.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS")?;
    let kibibytes: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .context("a number of kB")?;
    Ok(kibibytes << 10)
}
