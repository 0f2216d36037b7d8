//! With a real node behind the server: what it is asked for, and what it says of transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, BlockHash, Network, ScriptBuf, Transaction, TxOut, Txid};
use cairn_electrum::{
    ElectrumOptions, ElectrumServer, ElectrumState, Endpoint, TlsIdentity, Transport, method_names,
};
use cairn_http::Listen;
use cairn_telemetry::{ElectrumMetricsSet, MetricsRegistry};
use cairn_testkit::{Bitcoind, COINBASE_MATURITY, Coin, Lock, NodeOptions, script_hash, spend};
use cairn_utxo_index::{Index, IndexConfig};
use cairn_utxo_node::{NodeMempool, OpenedSource, SourceConfig, open_source};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::fixture::{free_port, until};
use crate::model::printed;

/// A node, the index that follows it, and the server: plain TCP first, then TLS.
pub(crate) struct NodeFixture {
    pub(crate) node: Bitcoind,
    pub(crate) index: Arc<Index>,
    pub(crate) addresses: Vec<Listen>,
    stop: CancellationToken,
    stopped: Arc<AtomicBool>,
    follower: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl NodeFixture {
    /// A fresh chain of `blocks` blocks that pay [`Lock::Wsh`]`(0)`.
    pub(crate) async fn start(blocks: u32) -> Self {
        let node = tokio::task::spawn_blocking(move || {
            let options = NodeOptions {
                extra_args: vec!["-acceptnonstdtxn=1".to_owned()],
                ..NodeOptions::default()
            };
            let node = Bitcoind::start_with(options).expect("a node");
            node.mine(blocks).expect("mined");
            node
        })
        .await
        .expect("no panic");
        let dir = tempfile::tempdir().expect("a folder");
        let (stop, stopped) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let mut config = SourceConfig::new(Network::Regtest);
        config.rpc_url = node.url();
        config.rpc_cookie_file = Some(node.cookie_file());
        let opened = open_source(&config, Handle::current(), stop.clone()).expect("a source");
        let mut config = IndexConfig::new(dir.path().join("index"), Network::Regtest);
        config.memory_bytes = 64 << 20;
        config.threads = 1;
        let index = Index::open(config).expect("a new index");
        let follower = follow(Arc::clone(&index), opened.clone(), &stop, &stopped);
        let registry = MetricsRegistry::new();
        let server = ElectrumServer::new(ElectrumState {
            chain: "test".to_owned(),
            index: Arc::clone(&index),
            node: opened.node,
            options: ElectrumOptions {
                banner: "$DAEMON_SUBVERSION".to_owned(),
                ..ElectrumOptions::default()
            },
            metrics: ElectrumMetricsSet::register(&registry).chain("test", &method_names()),
        });
        let identity = TlsIdentity::self_signed(&dir.path().join("tls"), &["127.0.0.1".to_owned()])
            .expect("made");
        let mut endpoints = Vec::new();
        for transport in [Transport::Tcp, Transport::Tls(Arc::new(identity))] {
            let listener = free_port().bind(1024).await.expect("a free port");
            endpoints.push(Endpoint {
                listener,
                transport,
                proxies: Vec::new(),
            });
        }
        let addresses = endpoints
            .iter()
            .map(|endpoint| endpoint.listener.address().expect("bound"))
            .collect();
        tokio::spawn(server.serve(endpoints, stop.clone()));
        let fixture = Self {
            node,
            index,
            addresses,
            stop,
            stopped,
            follower: Some(follower),
            _dir: dir,
        };
        fixture.caught_up().await;
        fixture
    }

    /// Waits until the index has the node's tip and mempool.
    pub(crate) async fn caught_up(&self) {
        let best = self.node.best_hash().expect("a tip");
        let listed = self
            .node
            .rpc("getrawmempool", json!([]))
            .expect("an answer");
        let listed: Vec<Txid> = serde_json::from_value(listed).expect("ids");
        until("the index is where the node is", async || {
            self.index.view().is_some_and(|view| {
                let mempool = view.mempool();
                view.tip().hash == best
                    && mempool.is_loaded()
                    && mempool.len() == listed.len()
                    && listed.iter().all(|txid| mempool.contains(txid))
            })
        })
        .await;
    }

    /// Mines blocks to a script and waits for the index.
    pub(crate) async fn mine_to(&self, script: &ScriptBuf, count: u32) -> Vec<BlockHash> {
        let hashes = self.node.mine_to(script, count).expect("mined");
        self.caught_up().await;
        hashes
    }

    /// A coin of the node's own chain: the coinbase of a block.
    pub(crate) fn coin(&self, height: u32) -> Coin {
        let hash = self.node.hash_at(height).expect("there");
        let coinbase = self.node.block(&hash).expect("there").txdata.remove(0);
        Coin {
            outpoint: bitcoin::OutPoint::new(coinbase.compute_txid(), 0),
            value: coinbase.output[0].value.to_sat(),
            lock: Lock::Wsh(0),
        }
    }

    pub(crate) async fn client(&self, version: &str) -> Client {
        Client::connect(&self.addresses[0].to_string(), version).await
    }
}

impl Drop for NodeFixture {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.stop.cancel();
        if let Some(follower) = self.follower.take() {
            // A panic in it has failed the test already.
            let _ = follower.join();
        }
    }
}

/// Follows chain and mempool on a thread, as the program does on two.
fn follow(
    index: Arc<Index>,
    opened: OpenedSource,
    stop: &CancellationToken,
    stopped: &Arc<AtomicBool>,
) -> JoinHandle<()> {
    let node = opened.node.expect("a node is configured");
    let mempool = NodeMempool::new(node, None, Handle::current(), stop.clone());
    let stopped = Arc::clone(stopped);
    std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // Both fail now and then while the node moves; the next round is there soon.
            let _ = index.sync(&*opened.source, None, &stopped);
            let _ = index.sync_mempool(&mempool, &stopped);
            std::thread::sleep(Duration::from_millis(30));
        }
    })
}

pub(crate) fn to(lock: Lock, value: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: lock.script_pubkey(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sending_and_what_the_node_says() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 10).await;
    let mut client = fixture.client("1.7").await;
    let mut other = fixture.client("1.4").await;
    let wallet = Lock::Wpkh(7);
    let name = printed(&script_hash(&wallet.script_pubkey()));
    assert_eq!(
        other
            .ok("blockchain.scripthash.subscribe", json!([name]))
            .await,
        Value::Null
    );
    let coin = fixture.coin(1);
    let tx = spend(&[coin], vec![to(wallet, coin.value - 10_000)]);
    let (hex, txid) = (serialize_hex(&tx), tx.compute_txid());
    let tested = client
        .ok("blockchain.transaction.testmempoolaccept", json!([[hex]]))
        .await;
    assert_eq!(
        tested,
        json!([{"txid": txid, "wtxid": tx.compute_wtxid(), "allowed": true}])
    );
    assert_eq!(
        client
            .ok("blockchain.transaction.broadcast", json!([hex]))
            .await,
        json!(txid)
    );
    // The very next request knows it, and so does whoever watches.
    let history = client
        .ok("blockchain.scripthash.get_history", json!([name]))
        .await;
    assert_eq!(
        history,
        json!([{"tx_hash": txid, "height": 0, "fee": 10_000}])
    );
    assert_eq!(other.notification().await.1[0], json!(name));
    assert_eq!(
        client.ok("blockchain.transaction.get", json!([txid])).await,
        hex
    );
    // In the node's own words, before and after the block.
    let words = client
        .ok("blockchain.transaction.get", json!([txid, true]))
        .await;
    assert_eq!(
        words,
        fixture
            .node
            .rpc("getrawtransaction", json!([txid, true]))
            .expect("the node knows it")
    );
    let [block] = fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await[..] else {
        panic!("one block")
    };
    let words = client
        .ok("blockchain.transaction.get", json!([txid, true]))
        .await;
    let mut expected = fixture
        .node
        .rpc("getrawtransaction", json!([txid, true, block]))
        .expect("the node knows it");
    expected
        .as_object_mut()
        .expect("an object")
        .remove("in_active_chain");
    assert_eq!(words, expected);
    // Refusals carry the node's reason behind the text that wallets look for.
    let conflict = spend(&[coin], vec![to(wallet, coin.value - 50_000)]);
    let text = client
        .refused(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&conflict)]),
            1,
        )
        .await;
    assert_eq!(
        text,
        "the transaction was rejected by network rules.\n\nbad-txns-inputs-missingorspent"
    );
    let free = spend(&[fixture.coin(2)], vec![to(wallet, fixture.coin(2).value)]);
    let text = client
        .refused(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&free)]),
            1,
        )
        .await;
    assert!(text.contains("min relay fee not met"), "{text}");
    client
        .refused("blockchain.transaction.broadcast", json!(["00"]), 1)
        .await;
    let tested = client
        .ok(
            "blockchain.transaction.testmempoolaccept",
            json!([[serialize_hex(&free)]]),
        )
        .await;
    assert_eq!(tested[0]["allowed"], false);
    assert!(tested[0]["reason"].is_string(), "{tested}");
    // Coins may be burnt; that is the sender's affair.
    let burn = TxOut {
        value: Amount::from_sat(5_000),
        script_pubkey: ScriptBuf::new_op_return([1, 2, 3]),
    };
    let burning = spend(&[fixture.coin(3)], vec![burn, to(wallet, 100_000_000)]);
    let too_much = client
        .refused(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&burning)]),
            1,
        )
        .await;
    assert!(
        too_much.contains("Fee exceeds maximum") || too_much.contains("max-fee"),
        "{too_much}"
    );
    let coin = fixture.coin(4);
    let burn = TxOut {
        value: Amount::from_sat(5_000),
        script_pubkey: ScriptBuf::new_op_return([1, 2, 3]),
    };
    let burning = spend(&[coin], vec![burn, to(wallet, coin.value - 15_000)]);
    client
        .ok(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&burning)]),
        )
        .await;
    // A package whose parent pays nothing by itself.
    let coin = fixture.coin(5);
    let mut parent = spend(&[coin], vec![to(Lock::Wsh(5), coin.value)]);
    parent.version = bitcoin::transaction::Version(3);
    let child_coin = Coin {
        outpoint: bitcoin::OutPoint::new(parent.compute_txid(), 0),
        value: coin.value,
        lock: Lock::Wsh(5),
    };
    let mut child = spend(&[child_coin], vec![to(wallet, coin.value - 20_000)]);
    child.version = bitcoin::transaction::Version(3);
    let package = json!([serialize_hex(&parent), serialize_hex(&child)]);
    let answer = client
        .ok("blockchain.transaction.broadcast_package", json!([package]))
        .await;
    assert_eq!(answer, json!({"success": true}));
    let recent = client.ok("mempool.recent", json!([])).await;
    let recent: Vec<&Value> = recent
        .as_array()
        .expect("a list")
        .iter()
        .map(|tx| &tx["txid"])
        .collect();
    assert!(recent.contains(&&json!(child.compute_txid())), "{recent:?}");
    let verbose = client
        .ok(
            "blockchain.transaction.broadcast_package",
            json!([package, true]),
        )
        .await;
    assert!(verbose["tx-results"].is_object(), "{verbose}");
    let wrong_order = json!([[serialize_hex(&child), serialize_hex(&parent)]]);
    client
        .refused("blockchain.transaction.broadcast_package", wrong_order, 1)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fees_and_the_nodes_name() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 5).await;
    let mut client = fixture.client("1.4").await;
    let info = fixture
        .node
        .rpc("getmempoolinfo", json!([]))
        .expect("an answer");
    assert_eq!(
        client.ok("blockchain.relayfee", json!([])).await,
        info["minrelaytxfee"]
    );
    let expected = json!({"mempoolminfee": info["mempoolminfee"], "minrelaytxfee": info["minrelaytxfee"], "incrementalrelayfee": info["incrementalrelayfee"]});
    assert_eq!(client.ok("mempool.get_info", json!([])).await, expected);
    // A fresh chain has no estimates.
    for target in [1, 2, 144, 1008, 100_000] {
        assert_eq!(
            client.ok("blockchain.estimatefee", json!([target])).await,
            -1,
            "{target}"
        );
        assert_eq!(
            client
                .ok("blockchain.estimatefee", json!([target, "Economical"]))
                .await,
            -1
        );
    }
    let name = fixture
        .node
        .rpc("getnetworkinfo", json!([]))
        .expect("an answer")["subversion"]
        .clone();
    assert_eq!(client.ok("server.banner", json!([])).await, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_agrees_across_replacements_and_reorganisations() {
    let fixture = NodeFixture::start(COINBASE_MATURITY + 10).await;
    let mut client = fixture.client("1.6").await;
    let wallet = Lock::Wpkh(9);
    let name = printed(&script_hash(&wallet.script_pubkey()));
    client.ok("blockchain.headers.subscribe", json!([])).await;
    client
        .ok("blockchain.scripthash.subscribe", json!([name]))
        .await;
    let coin = fixture.coin(1);
    let first = spend(&[coin], vec![to(wallet, coin.value - 1_000)]);
    let better = spend(&[coin], vec![to(wallet, coin.value - 5_000)]);
    let entries = async |client: &mut Client, expected: Vec<(&Transaction, i64)>| {
        let expected: Vec<(Value, i64)> = expected
            .into_iter()
            .map(|(tx, height)| (json!(tx.compute_txid()), height))
            .collect();
        until("the history is as expected", async || {
            let history = client
                .ok("blockchain.scripthash.get_history", json!([name]))
                .await;
            let got: Vec<(Value, i64)> = history
                .as_array()
                .expect("a list")
                .iter()
                .map(|entry| {
                    (
                        entry["tx_hash"].clone(),
                        entry["height"].as_i64().expect("whole"),
                    )
                })
                .collect();
            got == expected
        })
        .await;
    };
    client
        .ok(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&first)]),
        )
        .await;
    entries(&mut client, vec![(&first, 0)]).await;
    client
        .ok(
            "blockchain.transaction.broadcast",
            json!([serialize_hex(&better)]),
        )
        .await;
    entries(&mut client, vec![(&better, 0)]).await;
    let height = i64::from(fixture.node.height().expect("a height"));
    let [block] = fixture.mine_to(&Lock::Wsh(1).script_pubkey(), 1).await[..] else {
        panic!("one block")
    };
    entries(&mut client, vec![(&better, height + 1)]).await;
    // The node takes the block back: the transaction is unconfirmed again, the tip is lower.
    fixture.node.invalidate(&block).expect("done");
    fixture.caught_up().await;
    entries(&mut client, vec![(&better, 0)]).await;
    assert_eq!(
        client.ok("blockchain.headers.get_tip", json!([])).await["height"],
        height
    );
    // Another branch without it, and then with it.
    fixture
        .node
        .mine_transactions(&Lock::Wsh(2).script_pubkey(), &[])
        .expect("mined");
    fixture.caught_up().await;
    entries(&mut client, vec![(&better, 0)]).await;
    fixture.mine_to(&Lock::Wsh(2).script_pubkey(), 1).await;
    entries(&mut client, vec![(&better, height + 2)]).await;
    // In the end what was told last is what is.
    let status = client
        .ok("blockchain.scripthash.get_status", json!([name]))
        .await;
    let mut told = None;
    client.ok("server.ping", json!([])).await;
    while told.as_ref() != Some(&status) {
        let (method, params) = client.notification().await;
        if method == "blockchain.scripthash.subscribe" {
            told = Some(params[1].clone());
        }
    }
}
