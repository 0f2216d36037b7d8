//! The first load against the floor.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bitcoin::Network;
use bitcoin_slices::{Visit, Visitor, bsl};
use cairn_utxo_index::{Index, IndexConfig};
use cairn_utxo_node::{SourceConfig, open_source};
use tokio_util::sync::CancellationToken;

use crate::chain;
use crate::measure::{Usage, median, run_self, usage_of_self};

/// Reads the block files and computes every txid, on one thread: what no index can be faster than by much.
pub(crate) fn floor(blocks: &Path) -> Result<()> {
    struct Txids {
        txs: u64,
        /// Keeps the hashes from being optimised away.
        mix: u8,
    }
    impl Visitor for Txids {
        fn visit_transaction(&mut self, tx: &bsl::Transaction) -> std::ops::ControlFlow<()> {
            self.txs += 1;
            self.mix ^= AsRef::<[u8; 32]>::as_ref(&tx.txid())[0];
            std::ops::ControlFlow::Continue(())
        }
    }
    let start = Instant::now();
    let mut txids = Txids { txs: 0, mix: 0 };
    let mut count = 0;
    for number in 0.. {
        let path = blocks.join(format!("blk{number:05}.dat"));
        if !path.exists() {
            break;
        }
        let bytes = fs::read(path)?;
        let mut rest = &bytes[..];
        while let Some((head, after)) = rest.split_first_chunk::<8>() {
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if length == 0 {
                break;
            }
            let block = after.get(..length).context("block file ends in a block")?;
            bsl::Block::visit(block, &mut txids)
                .map_err(|error| anyhow::anyhow!("block does not parse: {error:?}"))?;
            count += 1;
            rest = &after[length..];
        }
    }
    std::hint::black_box(txids.mix);
    print(usage_of_self(
        start.elapsed().as_secs_f64(),
        None,
        count,
        txids.txs,
    )?)
}

/// One first load from the block files alone.
pub(crate) fn load(blocks: &Path, folder: &Path) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let mut config = SourceConfig::new(Network::Regtest);
    config.blocks_dir = Some(blocks.to_owned());
    let start = Instant::now();
    let opened = open_source(&config, runtime.handle().clone(), CancellationToken::new())?;
    let index = Index::open(IndexConfig::new(folder, Network::Regtest))?;
    let outcome = index.sync(&*opened.source, None, &AtomicBool::new(false))?;
    ensure!(index.view().is_some(), "the load left no view");
    drop(index);
    let wall = start.elapsed().as_secs_f64();
    print(usage_of_self(
        wall,
        Some(folder),
        outcome.blocks,
        outcome.txs,
    )?)
}

fn print(usage: Usage) -> Result<()> {
    println!("{}", serde_json::to_string(&usage)?);
    Ok(())
}

/// Runs both alternately and prints a table.
pub(crate) fn bench(dir: &Path, txs: u64, runs: usize) -> Result<()> {
    let (blocks, facts) = chain::ensure(dir, txs)?;
    let index = dir.join("index");
    let (blocks_arg, index_arg) = (blocks.display().to_string(), index.display().to_string());
    let (mut floors, mut loads) = (Vec::new(), Vec::new());
    // One run each that does not count: it fills the page cache.
    run_self(&["floor", &blocks_arg])?;
    for _ in 0..runs.max(1) {
        floors.push(run_self(&["floor", &blocks_arg])?);
        if index.exists() {
            fs::remove_dir_all(&index)?;
        }
        fs::create_dir_all(&index)?;
        loads.push(run_self(&["load", &blocks_arg, &index_arg])?);
    }
    let (floor, load) = (median(floors), median(loads));
    ensure!(
        load.txs == facts.txs,
        "indexed {} of {} transactions",
        load.txs,
        facts.txs
    );
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "chain: {} blocks, {} transactions, {} inputs, {} outputs, {:.0} MB",
        facts.blocks,
        facts.txs,
        facts.inputs,
        facts.outputs,
        megabytes(facts.bytes)
    );
    println!("| | wall s | CPU s | peak MB | written MB | size MB | × floor |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, usage) in [("floor", floor), ("first load", load)] {
        println!(
            "| {name} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} |",
            usage.wall,
            usage.cpu,
            megabytes(usage.peak_bytes),
            megabytes(usage.written_bytes),
            megabytes(usage.size_bytes),
            usage.wall / floor.wall
        );
    }
    Ok(())
}
