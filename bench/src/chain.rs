//! The chain everything is measured on: made once from a fixed seed and kept.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{Address, Network, Script, ScriptBuf};
use cairn_testkit::{BlkOptions, BlkWriter, ChainGenerator, Params};
use serde::{Deserialize, Serialize};

const SEED: u64 = 1;
/// How many blocks give samples, how many transactions each, and how many busy addresses are kept.
const SAMPLES: u64 = 300;
const SAMPLES_PER_BLOCK: usize = 20;
const BUSIEST: usize = 60;
/// FNV-1a: only tells scripts apart.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0100_0000_01b3;

/// What is in the chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ChainFacts {
    pub(crate) blocks: u64,
    pub(crate) txs: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) bytes: u64,
    /// The addresses with the most outputs, with their number, descending.
    pub(crate) busiest: Vec<(String, u32)>,
    /// Some addresses and transactions, spread evenly over the chain.
    pub(crate) addresses: Vec<String>,
    pub(crate) txids: Vec<String>,
}

/// A chain of about `txs` transactions as block files below `dir`; made when it is not there yet.
pub(crate) fn ensure(dir: &Path, txs: u64) -> Result<(PathBuf, ChainFacts)> {
    let folder = dir.join(format!("chain-{SEED}-{txs}"));
    let facts_file = folder.join("facts.json");
    if let Ok(text) = fs::read(&facts_file) {
        let facts = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged: remove its folder", facts_file.display()))?;
        return Ok((folder, facts));
    }
    eprintln!(
        "making a chain of about {txs} transactions in {}",
        folder.display()
    );
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let start = Instant::now();
    let mut writer = BlkWriter::create(&folder, BlkOptions::default())?;
    let mut generator = ChainGenerator::new(Params::bench(SEED));
    let mut facts = ChainFacts::default();
    let mut next = genesis_block(Network::Regtest);
    let mut payments: HashMap<u64, (u32, ScriptBuf)> = HashMap::new();
    loop {
        writer.block(&next)?;
        facts.blocks += 1;
        facts.txs += next.txdata.len() as u64;
        facts.bytes += next.total_size() as u64;
        for tx in &next.txdata {
            facts.inputs += tx
                .input
                .iter()
                .filter(|i| !i.previous_output.is_null())
                .count() as u64;
            facts.outputs += tx.output.len() as u64;
            for output in &tx.output {
                let script = &output.script_pubkey;
                let hash = script.as_bytes().iter().fold(HASH_START, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(HASH_FACTOR)
                });
                payments
                    .entry(hash)
                    .or_insert_with(|| (0, script.clone()))
                    .0 += 1;
            }
        }
        let step = (txs / SAMPLES).max(1);
        if facts.txs / step != (facts.txs - next.txdata.len() as u64) / step {
            let pick = |i: usize| &next.txdata[i % next.txdata.len()];
            for i in 0..SAMPLES_PER_BLOCK {
                let tx = pick(1 + i * 37);
                facts.txids.push(tx.compute_txid().to_string());
                facts
                    .addresses
                    .extend(tx.output.iter().filter_map(|o| address(&o.script_pubkey)));
            }
        }
        if facts.txs >= txs {
            break;
        }
        next = generator.next_block();
    }
    writer.finish()?;
    let mut busiest: Vec<(u32, ScriptBuf)> = payments.into_values().collect();
    busiest.sort_unstable_by(|a, b| b.cmp(a));
    facts.busiest = busiest
        .iter()
        .filter_map(|(count, script)| Some((address(script)?, *count)))
        .take(BUSIEST)
        .collect();
    fs::write(&facts_file, serde_json::to_vec(&facts)?)?;
    let ChainFacts {
        blocks,
        txs,
        inputs,
        outputs,
        bytes,
        ..
    } = &facts;
    eprintln!(
        "{blocks} blocks, {txs} transactions, {inputs} inputs, {outputs} outputs, {bytes} bytes in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok((folder, facts))
}

fn address(script: &Script) -> Option<String> {
    Some(
        Address::from_script(script, Network::Regtest)
            .ok()?
            .to_string(),
    )
}
