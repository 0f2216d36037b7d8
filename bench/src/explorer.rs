//! The explorer's pages: time to the whole answer of home, of a block with 4,000 transactions and of an address with 100,000, and
//! what a page weighs on the wire.
//!
//! The chain is made for this and held in memory: every second block has 4,000 transactions, all of which pay one address. The floor is
//! an asset of the same server: what a request costs that has nothing to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use bitcoin::absolute::LockTime;
use bitcoin::transaction::Version;
use bitcoin::{
    Address, Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn,
    TxOut, Txid, Witness,
};
use cairn_explorer::{ChainEntry, Explorer, ExplorerState};
use cairn_http::{BlockingPool, Listen, Surface, SurfaceOptions};
use cairn_telemetry::Health;
use cairn_testkit::{BlockRecipe, MemorySource, Model};
use cairn_utxo_index::{Index, IndexConfig};
use tokio_util::sync::CancellationToken;

use crate::load;

/// Transactions of a full block, without the coinbase.
const BLOCK_TXS: u32 = 4_000;
/// Full blocks.
const FULL_BLOCKS: u32 = 25;
/// Satoshi of each output that a full block spends.
const COIN: u64 = 100_000;
/// Fee of each transaction, satoshi.
const FEE: u64 = 1_000;
/// Time of the first block, Unix seconds.
const START: u32 = 1_600_000_000;
/// Requests at once.
const CONNECTIONS: [usize; 2] = [1, 8];
/// Largest body that is weighed.
const BODY_MAX: usize = 8 << 20;

/// Measures all pages for so many seconds each.
pub(crate) fn bench(seconds: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let dir = tempfile::tempdir()?;
    let (index, busy, full) = make_index(dir.path())?;
    runtime.block_on(measure(index, &busy, full, seconds))
}

async fn measure(index: Arc<Index>, busy: &ScriptBuf, full: BlockHash, seconds: u64) -> Result<()> {
    let stop = CancellationToken::new();
    let explorer = Explorer::new(ExplorerState {
        chains: vec![ChainEntry {
            id: "bench".to_owned(),
            index,
            network: Network::Regtest.into(),
            api_base: "/bench/api".to_owned(),
            node: None,
        }],
        antelope: Vec::new(),
        scanner: None,
        health: Health::new("bench"),
        pool: BlockingPool::new(16, Duration::from_secs(30)),
        stop: stop.clone(),
    });
    let surface = Surface::new(explorer.router(), SurfaceOptions::default());
    let listener = "127.0.0.1:0".parse::<Listen>()?.bind(1_024).await?;
    let address = listener.address()?.to_string();
    let served = tokio::spawn(cairn_http::serve(
        listener,
        surface.clone(),
        stop.clone().cancelled_owned(),
    ));
    let work = tokio::spawn(explorer.run());

    let home = page(&surface, "/").await?;
    let assets = assets(&surface, &home).await?;
    let stylesheet = assets
        .iter()
        .find(|path| path.ends_with(".css"))
        .context("the home page has no style sheet")?;
    let address_path = format!(
        "/bench/address/{}",
        Address::from_script(busy, Network::Regtest)?
    );
    let pages = [
        ("floor: an asset", stylesheet.clone()),
        ("home", "/".to_owned()),
        (
            "block with 4,000 transactions",
            format!("/bench/block/{full}"),
        ),
        ("address with 100,000 transactions", address_path),
    ];
    let mut asset_bytes = 0;
    for path in &assets {
        asset_bytes += weight(&surface, path).await?;
    }
    println!(
        "| page | connections | answers/s | p50 ms | p99 ms | first ms | bytes with all files, gzip |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, path) in pages {
        // With nothing kept from before.
        let asked = Instant::now();
        page(&surface, &path).await?;
        let first = asked.elapsed();
        let bytes = weight(&surface, &path).await? + asset_bytes;
        for connections in CONNECTIONS {
            let paths = Arc::new(vec![path.clone()]);
            let time = Duration::from_secs(seconds);
            let seen = load::run(&address, paths, connections, time, usize::MAX).await?;
            println!(
                "| {name} | {connections} | {:.0} | {:.2} | {:.2} | {:.2} | {bytes} |",
                seen.per_second,
                seen.p50.as_secs_f64() * 1e3,
                seen.p99.as_secs_f64() * 1e3,
                first.as_secs_f64() * 1e3,
            );
        }
    }
    stop.cancel();
    served.await?;
    work.await?;
    Ok(())
}

/// A page as a browser gets it, unpacked.
async fn page(surface: &Surface, path: &str) -> Result<String> {
    let request = Request::get(path).body(Body::empty())?;
    let response = surface.handle(request).await;
    ensure!(response.status() == 200, "{path}: {}", response.status());
    let body = to_bytes(response.into_body(), BODY_MAX).await?;
    Ok(String::from_utf8(body.to_vec())?)
}

/// Bytes of a body on the wire.
async fn weight(surface: &Surface, path: &str) -> Result<usize> {
    let request = Request::get(path)
        .header("accept-encoding", "gzip")
        .body(Body::empty())?;
    let response = surface.handle(request).await;
    Ok(to_bytes(response.into_body(), BODY_MAX).await?.len())
}

/// Every file that a page loads, and the modules that those import.
async fn assets(surface: &Surface, html: &str) -> Result<BTreeSet<String>> {
    let mut found: BTreeSet<String> = quoted(html)
        .filter(|text| text.starts_with("/assets/"))
        .map(str::to_owned)
        .collect();
    let page_module = found
        .iter()
        .find(|path| path.ends_with("/page.js"))
        .cloned()
        .context("the page has no module")?;
    let folder = page_module.trim_end_matches("page.js").to_owned();
    let text = page(surface, &page_module).await?;
    found.extend(
        quoted(&text)
            .filter_map(|text| text.strip_prefix("./"))
            .map(|name| format!("{folder}{name}")),
    );
    Ok(found)
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn script(byte: u8) -> ScriptBuf {
    let mut bytes = vec![0x00, 0x14];
    bytes.extend([byte; 20]);
    ScriptBuf::from_bytes(bytes)
}

/// An index, the script that every payment goes to, and a full block.
fn make_index(dir: &std::path::Path) -> Result<(Arc<Index>, ScriptBuf, BlockHash)> {
    let busy = script(0x42);
    let blocks = chain(&busy);
    let full = blocks.last().context("there are blocks")?.block_hash();
    let model = Model::of_blocks(Network::Regtest, blocks.into_iter().map(Arc::new));
    let index = Index::open(IndexConfig {
        utxos_limit: 1_000,
        ..IndexConfig::new(dir, Network::Regtest)
    })?;
    index.sync(&MemorySource::new(&model), None, &AtomicBool::new(false))?;
    Ok((index, busy, full))
}

/// Pairs of blocks: one makes coins, the next spends each of them with a transaction of its own.
fn chain(busy: &ScriptBuf) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut prev = bitcoin::constants::genesis_block(Network::Regtest).block_hash();
    let mut push = |txs: Vec<Transaction>, fees: u64, blocks: &mut Vec<Block>| {
        let height = u32::try_from(blocks.len()).unwrap_or(u32::MAX) + 1;
        let block = BlockRecipe {
            height,
            prev,
            time: START + height * 600,
            payee: script(0x01),
            fees,
            extra_nonce: 0,
            txs,
        }
        .mine();
        prev = block.block_hash();
        let coinbase = block.txdata[0].compute_txid();
        blocks.push(block);
        coinbase
    };
    let mut coinbase = push(Vec::new(), 0, &mut blocks);
    for _ in 0..FULL_BLOCKS {
        let split = transaction(
            OutPoint::new(coinbase, 0),
            (0..BLOCK_TXS).map(|_| pays(script(0x02), COIN)).collect(),
        );
        let split_id = split.compute_txid();
        // What the coinbase had beyond the coins is fee.
        push(vec![split], 0, &mut blocks);
        let spends = (0..BLOCK_TXS)
            .map(|vout| spend(split_id, vout, busy))
            .collect();
        coinbase = push(spends, 0, &mut blocks);
    }
    blocks
}

fn spend(split: Txid, vout: u32, busy: &ScriptBuf) -> Transaction {
    transaction(
        OutPoint::new(split, vout),
        vec![pays(busy.clone(), COIN - FEE)],
    )
}

fn pays(script_pubkey: ScriptBuf, sats: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(sats),
        script_pubkey,
    }
}

fn transaction(previous_output: OutPoint, output: Vec<TxOut>) -> Transaction {
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output,
    }
}
