//! The mempool of a real node, and the hints of its publisher.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, Transaction, TxOut, Txid};
use cairn_testkit::{Bitcoind, Coin, Lock, spend};
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_node::rpc::Credentials;
use cairn_utxo_node::{Hints, MempoolSource, Node, NodeMempool, SourceError};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use zeromq::{PubSocket, Socket as _, SocketSend as _, ZmqMessage};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

fn node_of(bitcoind: &Bitcoind) -> Result<Node> {
    let cookie = Credentials::Cookie(bitcoind.cookie_file());
    Ok(Node::new(&bitcoind.url(), cookie)?)
}

/// The coin of a mature coinbase.
fn coin(bitcoind: &Bitcoind, height: u32) -> Result<Coin> {
    let block = bitcoind.block(&bitcoind.hash_at(height)?)?;
    Ok(Coin {
        outpoint: OutPoint::new(block.txdata[0].compute_txid(), 0),
        value: block.txdata[0].output[0].value.to_sat(),
        lock: Lock::Wsh(0),
    })
}

/// A transaction with as many outputs as given.
fn pay(coin: Coin, outputs: u64) -> Transaction {
    let output = |n: u64| TxOut {
        value: Amount::from_sat((coin.value - 200_000) / outputs),
        script_pubkey: Lock::Wsh(1 + n as u32).script_pubkey(),
    };
    spend(&[coin], (0..outputs).map(output).collect())
}

#[test]
fn lists_bodies_and_glances() -> Result<()> {
    let bitcoind = Bitcoind::start()?;
    bitcoind.mine(103)?;
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    let mempool = NodeMempool::new(
        node_of(&bitcoind)?,
        None,
        runtime.handle().clone(),
        stop.clone(),
    );
    let empty = mempool.list()?;
    ensure!(empty.tip == bitcoind.best_hash()? && empty.txids.is_empty());
    let before = mempool.stamp()?;
    ensure!(before == mempool.stamp()?, "nothing happened in between");

    // More than one batch of transactions.
    let fan = pay(coin(&bitcoind, 1)?, 150);
    bitcoind.send(&fan)?;
    bitcoind.mine(1)?;
    let mut txs = Vec::new();
    for (vout, output) in (0u32..).zip(&fan.output) {
        let coin = Coin {
            outpoint: OutPoint::new(fan.compute_txid(), vout),
            value: output.value.to_sat(),
            lock: Lock::Wsh(1 + vout),
        };
        let tx = pay(coin, 1);
        bitcoind.send(&tx)?;
        txs.push(tx);
    }
    let listing = mempool.list()?;
    let mut expected: Vec<Txid> = txs.iter().map(Transaction::compute_txid).collect();
    let mut listed = listing.txids.clone();
    expected.sort_unstable();
    listed.sort_unstable();
    ensure!(listed == expected && listing.tip == bitcoind.best_hash()?);
    let after = mempool.stamp()?;
    ensure!(after != before && after.count == 150, "{after:?}");

    // Bodies come in the order asked, and what is not there is no failure.
    let mut asked: Vec<Txid> = txs.iter().map(Transaction::compute_txid).collect();
    asked.insert(7, Txid::all_zeros());
    let found = mempool.fetch(&asked)?;
    ensure!(found.len() == 151 && found[7].is_none());
    let found: Vec<WholeTx> = found.into_iter().flatten().collect();
    let expected: Vec<WholeTx> = txs.into_iter().map(WholeTx::from).collect();
    ensure!(found == expected);

    // A stop ends a wait and every later call.
    stop.cancel();
    mempool.wait(PATIENCE * 60);
    ensure!(matches!(mempool.list(), Err(SourceError::Stopped)));
    Ok(())
}

/// A publisher as the node has one: messages of a topic, a body and a number.
#[test]
fn the_publisher_wakes() -> Result<()> {
    let runtime = runtime()?;
    // It starts tasks of its own.
    let _context = runtime.enter();
    let mut publisher = PubSocket::new();
    let endpoint = runtime.block_on(publisher.bind("tcp://127.0.0.1:0"))?;
    let hints = Hints::subscribe(
        &endpoint.to_string(),
        runtime.handle(),
        CancellationToken::new(),
    );
    let other = hints.another();
    let is_woken = |hints: &Hints, patience: Duration| {
        runtime.block_on(async {
            tokio::time::timeout(patience, hints.wait(PATIENCE * 60))
                .await
                .is_ok()
        })
    };
    // The connection itself is a reason to look.
    ensure!(is_woken(&hints, PATIENCE), "the publisher is there");
    for topic in ["hashblock", "hashtx", "sequence"] {
        // What is published before the subscription has arrived there is not told, so it is tried more than once.
        let mut woken = false;
        for number in 0..60u32 {
            let mut message = ZmqMessage::from(topic);
            message.push_back(vec![7; 32].into());
            message.push_back(number.to_le_bytes().to_vec().into());
            runtime.block_on(publisher.send(message))?;
            woken = is_woken(&hints, Duration::from_secs(1));
            if woken {
                break;
            }
        }
        ensure!(woken, "{topic} wakes");
        ensure!(
            is_woken(&other, PATIENCE),
            "another waiter is woken on its own"
        );
    }
    Ok(())
}

/// Nobody publishes there: waiting is as without hints.
#[test]
fn a_publisher_that_is_not_there_does_no_harm() -> Result<()> {
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    let hints = Hints::subscribe("tcp://127.0.0.1:9", runtime.handle(), stop.clone());
    runtime
        .block_on(async {
            tokio::time::timeout(PATIENCE, hints.wait(Duration::from_millis(10))).await
        })
        .context("the timeout ends the wait")?;
    stop.cancel();
    // Without a listener the timeout remains, and does not spin.
    runtime
        .block_on(async {
            tokio::time::timeout(PATIENCE, hints.wait(Duration::from_millis(10))).await
        })
        .context("the timeout ends the wait")?;
    Ok(())
}
