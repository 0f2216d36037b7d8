//! Unconfirmed transactions against a real node: what the API says of them is what the node says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Network, OutPoint, ScriptBuf, Transaction as Tx, TxOut, Txid};
use cairn_esplora::objects::{
    Mempool, MempoolRecent, ScriptHashStats, Spend, Stats, Transaction, Utxo,
};
use cairn_esplora::{EsploraOptions, NodeCalls};
use cairn_http::Surface;
use cairn_testkit::{Bitcoind, Coin, Lock, satoshi, script_hash, spend};
use cairn_utxo_index::{Index, IndexConfig, MempoolSync};
use cairn_utxo_node::rpc::Credentials;
use cairn_utxo_node::{ChainSource, Node, NodeMempool, NodeSource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::support::{Got, ask, surface_of};

/// Attempts at a comparison during which the node's tip stands still.
const SETTLE_TRIES: u32 = 100;

/// A node with the API over an index that follows it when told to.
pub(crate) struct Live {
    pub(crate) node: Bitcoind,
    pub(crate) index: Arc<Index>,
    pub(crate) surface: Surface,
    source: Arc<NodeSource>,
    mempool: Arc<NodeMempool>,
    _dir: TempDir,
}

impl Live {
    /// With a chain of so many empty blocks that pay [`Lock::Wsh`]`(0)`.
    pub(crate) async fn start(blocks: u32) -> Self {
        Self::with(blocks, EsploraOptions::default()).await
    }

    async fn with(blocks: u32, options: EsploraOptions) -> Self {
        let node = Bitcoind::start().expect("a node (its build is described in CONTRIBUTING.md)");
        node.mine(blocks).expect("blocks");
        let asked = Node::new(&node.url(), Credentials::Cookie(node.cookie_file())).expect("a URL");
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = IndexConfig::new(dir.path().join("index"), Network::Regtest);
        config.memory_bytes = 64 << 20;
        config.threads = 1;
        let index = Index::open(config).expect("a new index");
        let stop = CancellationToken::new();
        let source = Arc::new(NodeSource::new(
            asked.clone(),
            Network::Regtest,
            None,
            Handle::current(),
            stop.clone(),
        ));
        let mempool = Arc::new(NodeMempool::new(
            asked.clone(),
            None,
            Handle::current(),
            stop,
        ));
        let calls: Arc<dyn NodeCalls> = Arc::new(asked);
        let surface = surface_of(&index, Some(calls), options);
        let live = Self {
            node,
            index,
            surface,
            source,
            mempool,
            _dir: dir,
        };
        live.settle().await;
        live
    }

    /// Brings the index to the node's tip.
    pub(crate) async fn sync(&self) {
        let (index, source) = (Arc::clone(&self.index), Arc::clone(&self.source));
        let synced = tokio::task::spawn_blocking(move || {
            index.sync(&*source as &dyn ChainSource, None, &AtomicBool::new(false))
        });
        synced.await.expect("no panic").expect("synced");
    }

    /// Brings the index to the node's tip, and the mempool to its mempool.
    pub(crate) async fn settle(&self) {
        for _ in 0..SETTLE_TRIES {
            self.sync().await;
            let (index, mempool) = (Arc::clone(&self.index), Arc::clone(&self.mempool));
            let round = tokio::task::spawn_blocking(move || {
                index.sync_mempool(&*mempool, &AtomicBool::new(false))
            });
            if matches!(
                round.await.expect("no panic").expect("compared"),
                MempoolSync::Complete(_)
            ) {
                return;
            }
        }
        panic!("the node's tip does not stand still");
    }

    pub(crate) async fn get(&self, uri: &str) -> Got {
        ask(&self.surface, "GET", uri, &[], "".into()).await
    }

    pub(crate) async fn post(&self, uri: &str, body: String) -> Got {
        ask(&self.surface, "POST", uri, &[], body.into()).await
    }

    /// Coins of mature coinbases.
    pub(crate) fn coins(&self, count: u32) -> Vec<Coin> {
        (1..=count)
            .map(|height| {
                let hash = self.node.hash_at(height).expect("a block");
                let block = self.node.block(&hash).expect("a block");
                Coin {
                    outpoint: OutPoint::new(block.txdata[0].compute_txid(), 0),
                    value: block.txdata[0].output[0].value.to_sat(),
                    lock: Lock::Wsh(0),
                }
            })
            .collect()
    }

    fn rpc(&self, method: &str, params: Value) -> Value {
        self.node.rpc(method, params).expect(method)
    }

    /// Compares everything with the node.
    async fn check(&self) {
        let theirs = self.rpc("getrawmempool", json!([true]));
        let theirs = theirs.as_object().expect("entries by id");
        let ours: Vec<String> = self.get("/mempool/txids").await.ok_json();
        assert!(ours.is_sorted());
        let ids: BTreeSet<&String> = ours.iter().collect();
        assert_eq!(ids, theirs.keys().collect::<BTreeSet<_>>());
        let info = self.rpc("getmempoolinfo", json!([]));
        let shown: Mempool = self.get("/mempool").await.ok_json();
        assert_eq!(info["size"], shown.count);
        assert_eq!(info["bytes"], shown.vsize);
        assert_eq!(satoshi(&info["total_fee"]), shown.total_fee);
        assert_eq!(
            shown
                .fee_histogram
                .iter()
                .map(|(_, size)| size)
                .sum::<u64>(),
            shown.vsize
        );
        let mut scripts: BTreeMap<String, Vec<Transaction>> = BTreeMap::new();
        for (txid, entry) in theirs {
            let tx: Transaction = self.get(&format!("/tx/{txid}")).await.ok_json();
            assert_eq!(tx.fee, satoshi(&entry["fees"]["base"]), "{txid}");
            assert_eq!(entry["weight"], tx.weight, "{txid}");
            assert!(!tx.status.confirmed);
            let raw = self.rpc("getrawtransaction", json!([txid]));
            assert_eq!(raw, self.get(&format!("/tx/{txid}/hex")).await.ok_text());
            let status = self.get(&format!("/tx/{txid}/status")).await;
            assert_eq!(status.text(), r#"{"confirmed":false}"#);
            self.get(&format!("/tx/{txid}/merkle-proof"))
                .await
                .assert_error(404, "Transaction not found or is unconfirmed");
            let view = self.index.view().expect("synced");
            let id: Txid = txid.parse().expect("an id");
            let ours = view.mempool().entry(&id).expect("an entry");
            assert_eq!(entry["vsize"], ours.vsize());
            assert_eq!(
                !entry["depends"].as_array().expect("ids").is_empty(),
                view.mempool().has_unconfirmed_parents(&ours)
            );
            for (vin, input) in tx.vin.iter().enumerate() {
                let prevout = input.prevout.as_ref().expect("spends an output");
                let uri = format!("/tx/{}/outspend/{}", input.txid, input.vout);
                let spend: Spend = self.get(&uri).await.ok_json();
                assert_eq!(spend.txid.as_ref(), Some(txid));
                assert_eq!(spend.vin, Some(vin as u32));
                assert!(!spend.status.expect("spent").confirmed);
                touch(&mut scripts, &prevout.scriptpubkey, &tx);
            }
            let spends: Vec<Spend> = self.get(&format!("/tx/{txid}/outspends")).await.ok_json();
            assert_eq!(spends.len(), tx.vout.len());
            for (vout, (output, spend)) in tx.vout.iter().zip(&spends).enumerate() {
                let asked = json!([[{"txid": txid, "vout": vout}]]);
                let spender = &self.rpc("gettxspendingprevout", asked)[0]["spendingtxid"];
                assert_eq!(spender.as_str(), spend.txid.as_deref());
                touch(&mut scripts, &output.scriptpubkey, &tx);
            }
        }
        for (script, txs) in scripts {
            self.check_script(&script, txs).await;
        }
    }

    /// The unconfirmed part of a script: its transactions, totals and coins.
    async fn check_script(&self, script: &str, txs: Vec<Transaction>) {
        let bytes = ScriptBuf::from_hex(script).expect("hexadecimal");
        let hash = script_hash(&bytes).to_lower_hex_string();
        let listed: Vec<Transaction> = self
            .get(&format!("/scripthash/{hash}/txs/mempool?max_txs=500"))
            .await
            .ok_json();
        let ids = |txs: &[Transaction]| -> BTreeSet<String> {
            txs.iter().map(|tx| tx.txid.clone()).collect()
        };
        assert_eq!(listed.len(), txs.len());
        assert_eq!(ids(&listed), ids(&txs));
        let (mut funded, mut spent_sum) = (0, 0);
        let mut expected = Stats::default();
        for tx in &txs {
            expected.tx_count += 1;
            for output in tx.vout.iter().filter(|out| out.scriptpubkey == script) {
                expected.funded_txo_count += 1;
                funded += output.value.expect("plain");
            }
            let spent = tx.vin.iter().filter_map(|input| input.prevout.as_ref());
            for output in spent.filter(|out| out.scriptpubkey == script) {
                expected.spent_txo_count += 1;
                spent_sum += output.value.expect("plain");
            }
        }
        expected.funded_txo_sum = Some(funded);
        expected.spent_txo_sum = Some(spent_sum);
        let shown: ScriptHashStats = self.get(&format!("/scripthash/{hash}")).await.ok_json();
        assert_eq!(shown.mempool_stats, expected);
        // The node's own set of unspent outputs, without what its mempool spends, and with what it creates.
        let scan = self.rpc("scantxoutset", json!(["start", [format!("raw({script})")]]));
        let mut coins: BTreeSet<(String, u32, u64)> = BTreeSet::new();
        for coin in scan["unspents"].as_array().expect("coins") {
            let txid = coin["txid"].as_str().expect("an id").to_owned();
            let vout = coin["vout"].as_u64().expect("an index") as u32;
            let asked = json!([[{"txid": txid, "vout": vout}]]);
            let spender = self.rpc("gettxspendingprevout", asked);
            if spender[0].get("spendingtxid").is_none() {
                coins.insert((txid, vout, satoshi(&coin["amount"])));
            }
        }
        for tx in &txs {
            for (vout, output) in (0u32..).zip(&tx.vout) {
                let asked = json!([[{"txid": tx.txid, "vout": vout}]]);
                let spender = self.rpc("gettxspendingprevout", asked);
                if output.scriptpubkey == script && spender[0].get("spendingtxid").is_none() {
                    coins.insert((tx.txid.clone(), vout, output.value.expect("plain")));
                }
            }
        }
        let shown: Vec<Utxo> = self
            .get(&format!("/scripthash/{hash}/utxo"))
            .await
            .ok_json();
        let shown: BTreeSet<(String, u32, u64)> = shown
            .into_iter()
            .map(|utxo| (utxo.txid, utxo.vout, utxo.value.expect("plain")))
            .collect();
        assert_eq!(shown, coins);
    }
}

fn touch(scripts: &mut BTreeMap<String, Vec<Transaction>>, script: &str, tx: &Transaction) {
    let txs = scripts.entry(script.to_owned()).or_default();
    if txs.last().is_none_or(|last| last.txid != tx.txid) {
        txs.push(tx.clone());
    }
}

/// Pays a coin's value, less a fee, in equal parts to locks.
pub(crate) fn pay(coins: &[Coin], locks: &[Lock], fee: u64) -> Tx {
    let total: u64 = coins.iter().map(|coin| coin.value).sum();
    let each = (total - fee) / locks.len() as u64;
    let outputs = locks
        .iter()
        .map(|lock| TxOut {
            value: Amount::from_sat(each),
            script_pubkey: lock.script_pubkey(),
        })
        .collect();
    spend(coins, outputs)
}

/// An output as a coin.
pub(crate) fn coin(tx: &Tx, vout: u32, lock: Lock) -> Coin {
    Coin {
        outpoint: OutPoint::new(tx.compute_txid(), vout),
        value: tx.output[vout as usize].value.to_sat(),
        lock,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mempool_is_the_nodes() {
    let live = Live::start(112).await;
    let coins = live.coins(8);
    live.check().await;

    // A chain of three, two independent ones, and a script that all pay.
    let shared = Lock::Wsh(9);
    let a = pay(&coins[..1], &[Lock::Wsh(1), shared], 2_000);
    let b = pay(&[coin(&a, 0, Lock::Wsh(1))], &[Lock::Sh(2), shared], 3_000);
    let c = pay(
        &[coin(&b, 0, Lock::Sh(2)), coin(&a, 1, shared)],
        &[Lock::Wpkh(3)],
        4_000,
    );
    let d = pay(&coins[1..2], &[shared, shared], 5_000);
    let e = pay(&coins[2..4], &[Lock::Tr(4), Lock::Pkh(5)], 6_000);
    for tx in [&a, &b, &c, &d, &e] {
        live.node.send(tx).expect("accepted");
    }
    live.settle().await;
    live.check().await;
    let recent: Vec<MempoolRecent> = live.get("/mempool/recent").await.ok_json();
    assert_eq!(recent.len(), 5);
    let of_e = recent
        .iter()
        .find(|entry| entry.txid == e.compute_txid().to_string())
        .expect("recent");
    assert_eq!(
        (of_e.fee, of_e.vsize, of_e.value),
        (
            6_000,
            e.vsize() as u64,
            Some(coins[2].value + coins[3].value)
        )
    );

    // A replacement takes its descendants along.
    let a2 = pay(&coins[..1], &[Lock::Wsh(6)], 50_000);
    live.node.send(&a2).expect("a replacement");
    live.settle().await;
    live.check().await;
    live.get(&format!("/tx/{}", c.compute_txid()))
        .await
        .assert_error(404, "Transaction not found");

    // A block with some of them, and one that contradicts another.
    let d2 = pay(&coins[1..2], &[Lock::Wsh(7)], 100);
    let mined = live
        .node
        .mine_transactions(&Lock::Wsh(0).script_pubkey(), &[a2.clone(), d2])
        .expect("a block");
    // Before the mempool is looked at again, nothing of it contradicts the block.
    live.sync().await;
    let tx: Transaction = live
        .get(&format!("/tx/{}", a2.compute_txid()))
        .await
        .ok_json();
    assert_eq!(tx.status.block_hash, Some(mined.to_string()));
    live.get(&format!("/tx/{}", d.compute_txid()))
        .await
        .assert_error(404, "Transaction not found");
    let left: Vec<String> = live.get("/mempool/txids").await.ok_json();
    assert_eq!(left, [e.compute_txid().to_string()]);
    live.settle().await;
    live.check().await;

    // The block goes: what it held comes back as unconfirmed, as far as the node says so.
    let f = pay(&[coin(&a2, 0, Lock::Wsh(6))], &[Lock::Wsh(8)], 1_000);
    live.node.send(&f).expect("accepted");
    live.settle().await;
    live.check().await;
    live.node.invalidate(&mined).expect("known");
    live.sync().await;
    live.get(&format!("/tx/{}", f.compute_txid()))
        .await
        .assert_error(404, "Transaction not found");
    live.settle().await;
    live.check().await;
    let tx: Transaction = live
        .get(&format!("/tx/{}", a2.compute_txid()))
        .await
        .ok_json();
    assert!(!tx.status.confirmed);
    live.node.reconsider(&mined).expect("known");
    live.settle().await;
    live.check().await;
    live.node.mine(2).expect("blocks");
    live.settle().await;
    live.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_through_us_is_there_in_the_next_request() {
    let live = Live::start(105).await;
    let coins = live.coins(3);
    let tx = pay(&coins[..1], &[Lock::Wsh(1)], 2_000);
    let txid = tx.compute_txid().to_string();
    for _ in 0..2 {
        // The node says yes to what it has already, and so do we.
        let got = live.post("/tx", serialize_hex(&tx)).await;
        assert_eq!(got.ok_text(), txid);
        let shown: Transaction = live.get(&format!("/tx/{txid}")).await.ok_json();
        assert_eq!((shown.fee, shown.status.confirmed), (2_000, false));
    }
    let refused = live
        .post(
            "/tx",
            serialize_hex(&pay(&coins[..1], &[Lock::Wsh(2)], 2_001)),
        )
        .await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().starts_with(
            r#"sendrawtransaction RPC error: {"code":-26,"message":"insufficient fee"#
        ),
        "{}",
        refused.text()
    );

    // A parent that pays nothing, with a child that pays for both (BIP 431).
    let mut parent = pay(&coins[1..2], &[Lock::Wsh(3), Lock::Anchor], 0);
    parent.version = bitcoin::transaction::Version(3);
    parent.output[1].value = Amount::ZERO;
    parent.output[0].value = Amount::from_sat(coins[1].value);
    let mut child = pay(
        &[
            coin(&parent, 0, Lock::Wsh(3)),
            coin(&parent, 1, Lock::Anchor),
        ],
        &[Lock::Wsh(4)],
        3_000,
    );
    child.version = bitcoin::transaction::Version(3);
    let package = json!([serialize_hex(&parent), serialize_hex(&child)]).to_string();
    let verdicts: Value = live.post("/txs/test", package.clone()).await.ok_json();
    assert_eq!(
        verdicts,
        live.rpc(
            "testmempoolaccept",
            json!([serde_json::from_str::<Value>(&package).expect("json")])
        )
    );
    let answer: Value = live.post("/txs/package", package).await.ok_json();
    assert_eq!(answer["package_msg"], "success", "{answer}");
    let shown: Transaction = live
        .get(&format!("/tx/{}", parent.compute_txid()))
        .await
        .ok_json();
    assert_eq!((shown.fee, shown.status.confirmed), (0, false));
    let spends: Vec<Spend> = live
        .get(&format!("/tx/{}/outspends", parent.compute_txid()))
        .await
        .ok_json();
    assert!(
        spends
            .iter()
            .all(|spend| spend.txid == Some(child.compute_txid().to_string()))
    );
    live.check().await;
    live.settle().await;
    live.check().await;
    // A test chain has no estimates: the relay fee stands for all targets.
    let fees: BTreeMap<String, f64> = live.get("/fee-estimates").await.ok_json();
    let relay = live.rpc("getnetworkinfo", json!([]))["relayfee"]
        .as_f64()
        .expect("a fee");
    assert_eq!(fees.len(), 28);
    assert!(
        fees.values()
            .all(|fee| (fee - relay * 100_000.0).abs() < 1e-9),
        "{fees:?}"
    );
}

/// Every transaction of a script once, whatever the pages are and wherever the border of mempool and chain falls in them.
#[tokio::test(flavor = "multi_thread")]
async fn a_walk_across_the_border_has_no_gap_and_no_double() {
    let live = Live::start(104).await;
    let shared = Lock::Wsh(7);
    let mut fans = Vec::new();
    for coin in live.coins(3) {
        fans.push(pay(&[coin], &[Lock::Wsh(1); 40], 50_000));
    }
    for fan in &fans {
        live.node.send(fan).expect("accepted");
    }
    live.node.mine(1).expect("a block");
    let small: Vec<Coin> = fans
        .iter()
        .flat_map(|fan| (0..40).map(|vout| coin(fan, vout, Lock::Wsh(1))))
        .collect();
    let mut expected = BTreeSet::new();
    for (at, coin) in small.iter().enumerate() {
        let tx = pay(&[*coin], &[shared], 1_000);
        expected.insert(live.node.send(&tx).expect("accepted").to_string());
        if at == 30 || at == 59 {
            live.node.mine(1).expect("a block");
        }
    }
    live.settle().await;
    assert_eq!(expected.len(), 120);
    let hash = script_hash(&shared.script_pubkey()).to_lower_hex_string();
    // In pages of any length, from the first one on.
    for length in [1, 7, 25, 59, 60, 61, 250] {
        let mut walked: Vec<String> = Vec::new();
        loop {
            let uri = match walked.last() {
                None => format!("/scripthash/{hash}/txs?max_txs={length}"),
                Some(last) => {
                    format!("/scripthash/{hash}/txs?max_txs={length}&after_txid={last}")
                }
            };
            let page: Vec<Transaction> = live.get(&uri).await.ok_json();
            assert!(page.len() <= length);
            if page.is_empty() {
                break;
            }
            walked.extend(page.into_iter().map(|tx| tx.txid));
        }
        assert_eq!(walked.len(), 120, "pages of {length}");
        assert_eq!(walked.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    // As wallets do it: a first page with the newest unconfirmed ones, then the chain.
    let first: Vec<Transaction> = live.get(&format!("/scripthash/{hash}/txs")).await.ok_json();
    let unconfirmed = first.iter().filter(|tx| !tx.status.confirmed).count();
    assert_eq!((unconfirmed, first.len()), (50, 75));
    let mut confirmed: Vec<String> = first
        .into_iter()
        .filter(|tx| tx.status.confirmed)
        .map(|tx| tx.txid)
        .collect();
    loop {
        let last = confirmed.last().expect("the first page has some");
        let uri = format!("/scripthash/{hash}/txs/chain/{last}");
        let page: Vec<Transaction> = live.get(&uri).await.ok_json();
        let complete = page.len() < 25;
        confirmed.extend(page.into_iter().map(|tx| tx.txid));
        if complete {
            break;
        }
    }
    let rest: Vec<Transaction> = live
        .get(&format!("/scripthash/{hash}/txs/mempool?max_txs=100"))
        .await
        .ok_json();
    let mut all: BTreeSet<String> = confirmed.iter().cloned().collect();
    assert_eq!(all.len(), confirmed.len());
    all.extend(rest.into_iter().map(|tx| tx.txid));
    assert_eq!(all, expected);
    // The union of scripts is one list too; the fans paid the other one.
    let other = script_hash(&Lock::Wsh(1).script_pubkey()).to_lower_hex_string();
    let body = json!([hash, other]).to_string();
    let mut walked: Vec<String> = Vec::new();
    loop {
        let uri = match walked.last() {
            None => "/scripthashes/txs?max_txs=50".to_owned(),
            Some(last) => format!("/scripthashes/txs?max_txs=50&after_txid={last}"),
        };
        let page: Vec<Transaction> = live.post(&uri, body.clone()).await.ok_json();
        if page.is_empty() {
            break;
        }
        walked.extend(page.into_iter().map(|tx| tx.txid));
    }
    let distinct: BTreeSet<&String> = walked.iter().collect();
    assert_eq!((walked.len(), distinct.len()), (123, 123));
    live.get(&format!(
        "/scripthash/{hash}/txs?after_txid={}",
        "11".repeat(32)
    ))
    .await
    .assert_error(422, "after_txid not found");
}

/// The lists without bound, off unless asked for.
#[tokio::test(flavor = "multi_thread")]
async fn internal_lists() {
    let options = EsploraOptions {
        internal: true,
        ..EsploraOptions::default()
    };
    let live = Live::with(104, options).await;
    let coins = live.coins(3);
    let fan = pay(&coins[..1], &[Lock::Wsh(1); 20], 50_000);
    live.node.send(&fan).expect("accepted");
    let mined = live.node.mine(1).expect("a block")[0];
    let mut ids = BTreeSet::new();
    for vout in 0..20 {
        let tx = pay(&[coin(&fan, vout, Lock::Wsh(1))], &[Lock::Wsh(2)], 1_000);
        ids.insert(live.node.send(&tx).expect("accepted").to_string());
    }
    live.settle().await;
    let ids: Vec<String> = ids.into_iter().collect();
    let of = |txs: Vec<Transaction>| -> Vec<String> { txs.into_iter().map(|tx| tx.txid).collect() };
    for base in ["/internal/mempool", "/mempool"] {
        assert_eq!(
            of(live.get(&format!("{base}/txs/all")).await.ok_json()),
            ids
        );
        assert_eq!(of(live.get(&format!("{base}/txs")).await.ok_json()), ids);
        let three = live.get(&format!("{base}/txs?max_txs=3")).await.ok_json();
        assert_eq!(of(three), ids[..3]);
        let rest = live
            .get(&format!("{base}/txs/{}?max_txs=4", ids[2]))
            .await
            .ok_json();
        assert_eq!(of(rest), ids[3..7]);
        let body = json!([ids[5], fan.compute_txid(), ids[1]]).to_string();
        let some = live.post(&format!("{base}/txs"), body).await.ok_json();
        assert_eq!(of(some), [ids[5].clone(), ids[1].clone()]);
    }
    let pages: Vec<String> = live.get("/mempool/txids/page?max_txs=7").await.ok_json();
    assert_eq!(pages, ids[..7]);
    let pages: Vec<String> = live
        .get(&format!("/mempool/txids/page/{}", ids[6]))
        .await
        .ok_json();
    assert_eq!(pages, ids[7..]);
    let body = json!([ids[0], "22".repeat(32), fan.compute_txid()]).to_string();
    let some: Vec<Transaction> = live.post("/internal/txs", body.clone()).await.ok_json();
    assert_eq!(
        some.iter()
            .map(|tx| tx.status.confirmed)
            .collect::<Vec<_>>(),
        [false, true]
    );
    let spends: Vec<Vec<Spend>> = live
        .post("/internal/txs/outspends/by-txid", body)
        .await
        .ok_json();
    assert_eq!(spends.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 20]);
    assert!(spends[2].iter().all(|spend| spend.spent));
    let body = json!([
        format!("{}:3", fan.compute_txid()),
        "nonsense",
        format!("{}:0", ids[0])
    ]);
    let spends: Vec<Spend> = live
        .post("/internal/txs/outspends/by-outpoint", body.to_string())
        .await
        .ok_json();
    assert_eq!(
        spends.iter().map(|spend| spend.spent).collect::<Vec<_>>(),
        [true, false, false]
    );
    let block: Vec<Transaction> = live
        .get(&format!("/internal/block/{mined}/txs"))
        .await
        .ok_json();
    assert_eq!(block.len(), 2);
    live.get(&format!("/internal/block/{}/txs", "11".repeat(32)))
        .await
        .assert_error(404, "Block not found");
    let empty: Vec<Transaction> = live.post("/internal/txs", "[]".to_owned()).await.ok_json();
    assert!(empty.is_empty());
    let public = Live::start(1).await;
    let got = public.get("/internal/mempool/txs/all").await;
    got.assert_error(404, "endpoint does not exist \"/internal/mempool/txs/all\"");
}
