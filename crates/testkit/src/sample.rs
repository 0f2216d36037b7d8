//! The recipe of the sample chain that `cairn demo` shows.
//!
//! The chain is bundled as a file (`samples/regtest.blk.gz`) so that a first start needs nothing else, and it is made from a seed
//! so that nobody has to trust that file: a test makes it again and compares every byte, another gives it to a real node.

use std::fmt::Write;
use std::sync::Arc;

use bitcoin::blockdata::constants::genesis_block;
use bitcoin::consensus::Encodable;
use bitcoin::{Address, Block, Network, ScriptBuf, Txid};

use crate::blkfile::REGTEST_MAGIC;
use crate::generator::{BlockPlan, ChainGenerator, Params, Shapes};
use crate::model::{Model, ModelTx};

/// Blocks after genesis. The first hundred hold only a coinbase.
pub const SAMPLE_HEIGHT: u32 = 320;
/// The block with the most transactions.
pub const CROWDED_HEIGHT: u32 = 240;
/// How many it has, coinbase not counted.
pub const CROWDED_TXS: u32 = 1_500;
/// The block that holds a long chain of spends.
pub const CHAIN_HEIGHT: u32 = 260;
/// How long that chain is.
pub const CHAIN_LENGTH: u32 = 300;

fn params() -> Params {
    Params {
        seed: 0x0063_6169_726e,
        txs_per_block: 50,
        // 2025-06-01, a block every ten minutes.
        start_time: 1_748_736_000,
        interval: 600,
        shapes: Shapes {
            pay: 500,
            batch: 60,
            chain: 20,
            consolidation: 25,
            fan_out: 14,
            data: 70,
            exotic: 50,
        },
        fresh_scripts: 550,
        popular: 130,
        signed: 800,
        consolidation_inputs: (5, 25),
        fan_out_outputs: (10, 40),
        chain_length: (2, 8),
    }
}

/// The blocks of the sample chain, genesis first.
pub fn blocks() -> Vec<Block> {
    let mut generator = ChainGenerator::new(params());
    let mut blocks = vec![genesis_block(Network::Regtest)];
    for height in 1..=SAMPLE_HEIGHT {
        let plan = match height {
            CROWDED_HEIGHT => BlockPlan {
                txs: Some(CROWDED_TXS),
                chain: 0,
            },
            CHAIN_HEIGHT => BlockPlan {
                txs: Some(CHAIN_LENGTH + 40),
                chain: CHAIN_LENGTH,
            },
            _ => BlockPlan::default(),
        };
        blocks.push(generator.next_block_with(&plan));
    }
    blocks
}

/// The sample chain as a block file: magic, size, block, and again; not obfuscated.
pub fn block_file() -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in blocks() {
        bytes.extend_from_slice(&REGTEST_MAGIC);
        bytes.extend_from_slice(&(block.total_size() as u32).to_le_bytes());
        block
            .consensus_encode(&mut bytes)
            .expect("writing to memory does not fail");
    }
    bytes
}

/// The page about the sample chain: what is in it and where to look first.
pub fn describe(blocks: &[Block]) -> String {
    let model = Model::of_blocks(
        Network::Regtest,
        blocks.iter().skip(1).cloned().map(Arc::new),
    );
    let bytes: usize = blocks.iter().map(Block::total_size).sum();
    let mut page = String::new();
    let _ = write!(
        page,
        "# The sample chain\n\n\
         `regtest.blk.gz` is what `make run` shows: a chain of {} blocks with {} transactions ({:.1} MB), as one block file of a \
         node\n(records of magic `fabfb5da`, length, block, in height order; not obfuscated), packed with gzip. Its network is regtest, \
         so\nits coins are worth nothing.\n\n\
         The file is made, not collected: `cargo run --release -p cairn-testkit --example make_sample -- samples` writes it and this\n\
         page again, byte for byte, from a seed. One test compares them with the repository, another hands every block to a real\n\
         `bitcoind`, which accepts them all.\n\n\
         Blocks 1 to 100 hold only a coinbase, since no coin can be spent before it is a hundred blocks old. From then on all kinds of\n\
         outputs occur (P2PK, P2PKH, P2SH, P2WPKH, P2WSH, P2TR, bare multisig, anchors, data, empty and unknown scripts), payments,\n\
         batches, consolidations, fan-outs and chains of spends within one block.\n\n\
         ## Worth a look\n\n| what | where |\n| --- | --- |\n",
        model.height(),
        model.transactions().count(),
        bytes as f64 / 1e6,
    );
    for (what, place) in sights(&model) {
        let _ = writeln!(page, "| {what} | `{place}` |");
    }
    page
}

/// What a visitor of the chain may want to see, with the text to search for.
fn sights(model: &Model) -> Vec<(String, String)> {
    let mut sights = Vec::new();
    for height in [CROWDED_HEIGHT, CHAIN_HEIGHT] {
        if let Some(block) = model.block_at(height) {
            let what = if height == CROWDED_HEIGHT {
                "the fullest block"
            } else {
                "a block with a long chain of spends"
            };
            let text = format!(
                "{what}: height {height}, {} transactions",
                block.txids.len()
            );
            sights.push((text, block.hash.to_string()));
        }
    }
    if let Some(first) = model
        .block_at(CHAIN_HEIGHT)
        .and_then(|block| block.txids.get(1))
    {
        sights.push((
            format!("the first of {CHAIN_LENGTH} transactions, each spending the one before"),
            first.to_string(),
        ));
    }

    let mut busy: Vec<(usize, String, &ScriptBuf)> = model
        .scripts()
        .filter_map(|(hash, script)| {
            let address = Address::from_script(script, model.network()).ok()?;
            Some((model.history(hash).len(), address.to_string(), script))
        })
        .collect();
    busy.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    for (i, (txs, address, _)) in busy.iter().take(3).enumerate() {
        let what = if i == 0 {
            "the busiest address"
        } else {
            "another busy address"
        };
        sights.push((format!("{what}: {txs} transactions"), address.clone()));
    }
    /// Tells whether a script is of one kind.
    type IsKind = fn(&ScriptBuf) -> bool;
    let kinds: [(&str, IsKind); 4] = [
        ("a taproot address", |script| script.is_p2tr()),
        ("a P2WPKH address", |script| script.is_p2wpkh()),
        ("a P2PKH address", |script| script.is_p2pkh()),
        ("a pay-to-anchor address", |script| {
            script.as_bytes() == [0x51, 0x02, 0x4e, 0x73]
        }),
    ];
    for (what, is_kind) in kinds {
        if let Some((txs, address, _)) = busy.iter().find(|(_, _, script)| is_kind(script)) {
            sights.push((format!("{what}: {txs} transactions"), address.clone()));
        }
    }

    let txs: Vec<(Txid, ModelTx)> = model
        .transactions()
        .filter_map(|(txid, _)| Some((txid, model.tx(&txid)?)))
        .collect();
    let mut most = |what: &str, unit: &str, measure: fn(&ModelTx) -> usize| {
        if let Some((txid, tx)) = txs.iter().max_by_key(|(txid, tx)| (measure(tx), *txid)) {
            sights.push((format!("{what}: {} {unit}", measure(tx)), txid.to_string()));
        }
    };
    most("a consolidation", "inputs", |tx| tx.tx.input.len());
    most("a payment to many", "outputs", |tx| tx.tx.output.len());
    most("outputs without an address", "of them", |tx| {
        let nameless = |script: &ScriptBuf| Address::from_script(script, Network::Regtest).is_err();
        tx.tx
            .output
            .iter()
            .filter(|output| nameless(&output.script_pubkey))
            .count()
    });
    most("a note on chain", "bytes", |tx| {
        let texts = tx
            .tx
            .output
            .iter()
            .filter(|output| output.script_pubkey.is_op_return() && tx.place.position > 0);
        texts
            .map(|output| output.script_pubkey.len().saturating_sub(2))
            .max()
            .unwrap_or(0)
    });
    sights
}
