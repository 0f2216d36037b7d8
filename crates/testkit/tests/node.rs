//! A real bitcoind judges what this crate makes: chains are valid, and the model says what the node says.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bitcoin::consensus::encode::deserialize_hex;
use bitcoin::{Amount, Block, OutPoint, TxOut};
use cairn_testkit::{
    Bitcoind, BlkOptions, Coin, Lock, Model, NodeOptions, OWN_NUMBERS, Params, TestChain, satoshi,
    spend, wide_transaction, write_blocks,
};
use serde_json::json;

fn submit(node: &Bitcoind, blocks: &[Arc<Block>]) -> Result<()> {
    for block in blocks {
        node.submit_block(block)?;
    }
    Ok(())
}

/// Compares the whole UTXO set, and every block with prevouts and fees, with the node's answers.
fn compare(node: &Bitcoind, model: &Model) -> Result<()> {
    ensure!(
        node.best_hash()? == model.tip().hash,
        "the node is on another tip"
    );
    let info = node.rpc("gettxoutsetinfo", json!(["none"]))?;
    assert_eq!(
        info["txouts"],
        model.utxo_set().count(),
        "size of the UTXO set"
    );
    let amount: u64 = model
        .utxo_set()
        .map(|utxo| utxo.output.value.to_sat())
        .sum();
    assert_eq!(
        satoshi(&info["total_amount"]),
        amount,
        "amount of the UTXO set"
    );

    for (i, utxo) in model.utxo_set().enumerate() {
        // All of them would take minutes.
        if i % 29 != 0 {
            continue;
        }
        let answer = node.rpc(
            "gettxout",
            json!([utxo.outpoint.txid, utxo.outpoint.vout, false]),
        )?;
        assert_eq!(satoshi(&answer["value"]), utxo.output.value.to_sat());
        assert_eq!(
            answer["scriptPubKey"]["hex"],
            utxo.output.script_pubkey.to_hex_string()
        );
        assert_eq!(answer["coinbase"], utxo.coinbase);
        assert_eq!(
            answer["confirmations"],
            model.height() - utxo.place.height + 1
        );
    }
    for block in model.chain() {
        let answer = node.rpc("getblock", json!([block.hash, 3]))?;
        assert_eq!(answer["height"], block.height);
        assert_eq!(answer["mediantime"], block.median_time);
        assert_eq!(answer["size"], block.size);
        assert_eq!(answer["weight"], block.weight);
        assert_eq!(answer["nTx"], block.txids.len());
        for (txid, tx) in block
            .txids
            .iter()
            .zip(answer["tx"].as_array().context("tx is a list")?)
        {
            let expected = model.tx(txid).context("on the best chain")?;
            assert_eq!(tx["txid"], txid.to_string());
            if expected.place.position > 0 {
                assert_eq!(satoshi(&tx["fee"]), expected.fee);
                for (input, prevout) in tx["vin"]
                    .as_array()
                    .context("vin is a list")?
                    .iter()
                    .zip(&expected.prevouts)
                {
                    let prevout = prevout.as_ref().context("only a coinbase has none")?;
                    assert_eq!(satoshi(&input["prevout"]["value"]), prevout.value.to_sat());
                    assert_eq!(
                        input["prevout"]["scriptPubKey"]["hex"],
                        prevout.script_pubkey.to_hex_string()
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn generated_chains_are_valid_and_the_model_is_right() -> Result<()> {
    let node = Bitcoind::start()?;
    let mut chain = TestChain::new(Params {
        txs_per_block: 25,
        ..Params::small(41)
    });
    submit(&node, &chain.grow(300))?;
    compare(&node, chain.model())?;

    // Reorganisations, a deep one among them; transactions are confirmed again at other heights.
    for (depth, new_len) in [(1, 2), (12, 13), (120, 125)] {
        let fork = chain.fork(depth, new_len);
        submit(&node, &fork.added)?;
        ensure!(
            node.best_hash()? == chain.model().tip().hash,
            "the node did not switch after {depth} blocks"
        );
    }
    compare(&node, chain.model())
}

#[test]
fn chains_for_measuring_are_valid() -> Result<()> {
    let node = Bitcoind::start()?;
    let mut chain = TestChain::new(Params {
        txs_per_block: 1_500,
        ..Params::bench(43)
    });
    submit(&node, &chain.grow(106))?;
    ensure!(node.best_hash()? == chain.model().tip().hash);
    ensure!(chain.model().transactions().count() > 5_000);
    Ok(())
}

#[test]
fn every_lock_is_spent() -> Result<()> {
    let node = Bitcoind::start()?;
    let mut chain = TestChain::small(47, 110);
    submit(&node, &chain.blocks())?;
    let n = OWN_NUMBERS;
    let locks = [
        Lock::Wsh(n),
        Lock::Sh(n),
        Lock::ShWsh(n),
        Lock::Bare(1),
        Lock::Anchor,
        Lock::Empty,
        Lock::FutureWitness(n),
        Lock::Pk(n),
        Lock::Pkh(n),
        Lock::Wpkh(n),
        Lock::ShWpkh(n),
        Lock::Tr(n),
        Lock::Multisig(n),
    ];
    let coin = chain.coins(1)[0];
    let share = coin.value / (locks.len() as u64 + 1);
    let outputs = locks
        .iter()
        .map(|lock| TxOut {
            value: Amount::from_sat(share),
            script_pubkey: lock.script_pubkey(),
        })
        .collect();
    let funding = spend(&[coin], outputs);
    let txid = funding.compute_txid();
    let coins: Vec<Coin> = (0..)
        .zip(locks)
        .map(|(vout, lock)| Coin {
            outpoint: OutPoint::new(txid, vout),
            value: share,
            lock,
        })
        .collect();
    let gather = spend(
        &coins,
        vec![TxOut {
            value: Amount::from_sat(share),
            script_pubkey: Lock::Wsh(n).script_pubkey(),
        }],
    );
    submit(
        &node,
        &[chain.mine(vec![funding]), chain.mine(vec![gather])],
    )?;
    compare(&node, chain.model())
}

#[test]
fn seventy_thousand_outputs() -> Result<()> {
    let node = Bitcoind::start()?;
    let mut chain = TestChain::small(53, 105);
    submit(&node, &chain.blocks())?;
    let coin = chain.coins(1)[0];
    let wide = wide_transaction(&coin, 70_000);
    let (txid, value) = (wide.compute_txid(), wide.output[0].value);
    let spender = |vout: u32| {
        let coin = Coin {
            outpoint: OutPoint::new(txid, vout),
            value: value.to_sat(),
            lock: Lock::Bare(vout + 1),
        };
        spend(
            &[coin],
            vec![TxOut {
                value,
                script_pubkey: Lock::Wsh(OWN_NUMBERS).script_pubkey(),
            }],
        )
    };
    submit(
        &node,
        &[
            chain.mine(vec![wide]),
            chain.mine(vec![spender(1), spender(65_537)]),
        ],
    )?;
    ensure!(node.best_hash()? == chain.model().tip().hash);
    for (vout, unspent) in [(1, false), (65_537, false), (65_538, true)] {
        ensure!(node.rpc("gettxout", json!([txid, vout]))?.is_null() != unspent);
    }
    Ok(())
}

#[test]
fn a_node_is_driven() -> Result<()> {
    let mut node = Bitcoind::start_with(NodeOptions {
        blocks_xor: false,
        ..NodeOptions::default()
    })?;
    let hashes = node.mine(103)?;
    ensure!(
        node.height()? == 103 && node.best_hash()? == hashes[102] && node.hash_at(1)? == hashes[0]
    );

    // A coin of the node's own first block, spent through the mempool and by a block of the test's making.
    let first = node.block(&hashes[0])?;
    let coinbase = &first.txdata[0];
    let coin = Coin {
        outpoint: OutPoint::new(coinbase.compute_txid(), 0),
        value: coinbase.output[0].value.to_sat(),
        lock: Lock::Wsh(0),
    };
    let pay = |fee: u64| {
        let value = Amount::from_sat(coin.value - fee);
        spend(
            &[coin],
            vec![TxOut {
                value,
                script_pubkey: Lock::Tr(1).script_pubkey(),
            }],
        )
    };
    let sent = node.send(&pay(1_000))?;
    assert_eq!(node.rpc("getrawmempool", json!([]))?, json!([sent]));
    let mined = node.mine_transactions(&Lock::Sh(7).script_pubkey(), &[pay(0)])?;
    assert_eq!(
        node.block(&mined)?.txdata[1].compute_txid(),
        pay(0).compute_txid()
    );
    assert_eq!(node.rpc("getrawmempool", json!([]))?, json!([]));

    // Back and forth.
    node.invalidate(&hashes[100])?;
    ensure!(node.height()? == 100);
    node.reconsider(&hashes[100])?;
    ensure!(node.best_hash()? == mined);

    let (status, body) = node.rest(&format!("/rest/block/{}.hex", hashes[0]))?;
    ensure!(status == 200);
    assert_eq!(
        deserialize_hex::<Block>(std::str::from_utf8(&body)?.trim())?,
        first
    );

    let cookie = node.credentials()?;
    node.restart()?;
    ensure!(
        node.credentials()? != cookie,
        "a restarted node has another cookie"
    );
    ensure!(node.best_hash()? == mined);
    let error = node
        .rpc("getblockhash", json!([1_000_000]))
        .err()
        .context("there is no such block")?;
    assert!(error.to_string().contains("-8"), "{error}");

    node.kill();
    ensure!(node.rpc("getblockcount", json!([])).is_err());
    node.restart_with(NodeOptions {
        user_password: Some(("user".into(), "secret".into())),
        blocks_xor: false,
        ..NodeOptions::default()
    })?;
    ensure!(node.height()? >= 100);
    ensure!(
        std::fs::read(node.blocks_dir().join("blk00000.dat"))?
            .starts_with(&cairn_testkit::REGTEST_MAGIC)
    );
    node.stop()?;
    Ok(())
}

/// The node itself reads what the writer of block files writes: plain and obfuscated.
#[test]
fn a_node_loads_written_files() -> Result<()> {
    let chain = TestChain::small(59, 130);
    for xor_key in [None, Some([1, 2, 3, 4, 5, 6, 7, 8])] {
        let folder = tempfile::tempdir()?;
        let mut blocks = chain
            .model()
            .chain()
            .iter()
            .map(|block| &*block.block)
            .collect::<Vec<_>>();
        // Out of order; genesis comes first in a node's first file.
        cairn_testkit::Rng::new(1).shuffle(&mut blocks[1..]);
        let file_limit = 40_000;
        write_blocks(
            folder.path(),
            BlkOptions {
                xor_key,
                file_limit,
                ..BlkOptions::default()
            },
            blocks,
        )?;

        let mut node = Bitcoind::start_with(NodeOptions {
            blocks_xor: xor_key.is_some(),
            ..NodeOptions::default()
        })?;
        node.stop()?;
        for old in std::fs::read_dir(node.blocks_dir())? {
            let old = old?.path();
            if old.is_file() {
                std::fs::remove_file(old)?;
            }
        }
        for file in std::fs::read_dir(folder.path())? {
            let file = file?;
            std::fs::copy(file.path(), node.blocks_dir().join(file.file_name()))?;
        }
        node.restart_with(NodeOptions {
            blocks_xor: xor_key.is_some(),
            extra_args: vec!["-reindex".into()],
            ..NodeOptions::default()
        })?;
        // The import runs beside the calls.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while node.best_hash()? != chain.model().tip().hash {
            ensure!(
                std::time::Instant::now() < deadline,
                "the node stays at height {}",
                node.height()?
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Nothing in the bundled sample but what a real node accepts.
#[test]
fn the_sample_chain_is_valid() -> Result<()> {
    let node = Bitcoind::start()?;
    let blocks = cairn_testkit::sample::blocks();
    for block in &blocks[1..] {
        node.submit_block(block)?;
    }
    ensure!(Some(node.best_hash()?) == blocks.last().map(Block::block_hash));
    let model = Model::of_blocks(
        bitcoin::Network::Regtest,
        blocks.into_iter().skip(1).map(Arc::new),
    );
    compare(&node, &model)
}
