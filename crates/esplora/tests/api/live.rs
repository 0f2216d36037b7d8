//! Answers while blocks arrive and leave: every one is of one state, walks have no gap and no double, and nothing a
//! client can send brings the server down.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, OutPoint, TxOut};
use cairn_esplora::objects::{ScriptHashStats, Transaction, Utxo};
use cairn_testkit::{
    Coin, Lock, MemoryMempool, MempoolModel, OWN_NUMBERS, Rng, ScriptHash, TestChain, script_hash,
    spend,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::expected;
use crate::support::{Api, Got, Setup};

/// Blocks arrive while clients walk.
const ARRIVALS: u32 = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn walks_while_blocks_arrive() {
    let mut chain = TestChain::small(21, 180);
    let api = Arc::new(Api::of(chain.model()));
    let before = chain.model().clone();
    let mut scripts: Vec<ScriptHash> = before
        .scripts()
        .map(|(script, _)| *script)
        .filter(|script| before.is_indexed(script, false))
        .collect();
    scripts.sort_by_key(|script| std::cmp::Reverse(before.stats(script).tx_count));
    scripts.truncate(6);
    assert!(before.stats(&scripts[5]).tx_count > 30, "busy scripts");

    let done = Arc::new(AtomicBool::new(false));
    let walks = Arc::new(AtomicU32::new(0));
    let walkers: Vec<_> = scripts
        .into_iter()
        .map(|script| {
            let (api, done, walks) = (api.clone(), done.clone(), walks.clone());
            // What was confirmed at the start stays confirmed and must be seen whole in every walk.
            let known: Vec<String> = expected::history(&before, &[script])
                .into_iter()
                .map(|(txid, _)| txid.to_string())
                .collect();
            tokio::spawn(async move {
                let hex = script.to_lower_hex_string();
                while !done.load(Ordering::Relaxed) {
                    let mut seen: Vec<String> = Vec::new();
                    loop {
                        let uri = match seen.last() {
                            Some(last) => format!("/scripthash/{hex}/txs/chain/{last}"),
                            None => format!("/scripthash/{hex}/txs"),
                        };
                        let page: Vec<Transaction> = api.get(&uri).await.ok_json();
                        let complete = page.len() < 25;
                        seen.extend(page.into_iter().map(|tx| tx.txid));
                        if complete {
                            break;
                        }
                    }
                    let distinct: HashSet<&String> = seen.iter().collect();
                    assert_eq!(distinct.len(), seen.len(), "a double");
                    assert!(seen.ends_with(&known), "a gap");
                    walks.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let writer = api.clone();
    tokio::task::spawn_blocking(move || {
        for _ in 0..ARRIVALS {
            chain.grow(1);
            writer.sync(chain.model());
        }
    })
    .await
    .expect("synced");
    done.store(true, Ordering::Relaxed);
    for walker in walkers {
        walker.await.expect("no gap, no double, no error");
    }
    assert!(walks.load(Ordering::Relaxed) >= 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn one_state_per_answer_across_reorganisations() {
    let mut chain = TestChain::small(22, 130);
    let api = Arc::new(Api::of(chain.model()));
    let done = Arc::new(AtomicBool::new(false));
    let compared = Arc::new(AtomicU32::new(0));
    // Transactions near the tip, which reorganisations move.
    let recent: Vec<String> = chain
        .model()
        .transactions()
        .filter(|(_, place)| place.height > 120)
        .map(|(txid, _)| txid.to_string())
        .collect();
    let readers: Vec<_> = (0..3)
        .map(|seed| {
            let (api, done, compared, recent) =
                (api.clone(), done.clone(), compared.clone(), recent.clone());
            tokio::spawn(async move {
                let mut rng = Rng::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let txid = &recent[rng.index(recent.len())];
                    let first = api.get(&format!("/tx/{txid}")).await;
                    let shown: Transaction = first.ok_json();
                    let Some(height) = shown.status.block_height else {
                        continue;
                    };
                    let second = api.get(&format!("/block-height/{height}")).await;
                    // The same tag is the same state; another state may say otherwise.
                    if second.status != 200 || first.header("etag") != second.header("etag") {
                        continue;
                    }
                    assert_eq!(shown.status.block_hash.as_deref(), Some(second.text()));
                    for input in shown.vin.iter().filter(|input| !input.is_coinbase) {
                        assert!(input.prevout.is_some(), "a prevout is missing");
                    }
                    compared.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let writer = api.clone();
    let chain = tokio::task::spawn_blocking(move || {
        for round in 0..12 {
            chain.fork(1 + round % 4, 2 + round % 4);
            writer.sync(chain.model());
        }
        chain
    })
    .await
    .expect("synced");
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("one state per answer");
    }
    assert!(compared.load(Ordering::Relaxed) > 10);
    // And at the end all is as the model says.
    let model = chain.model();
    for (script, _) in model
        .scripts()
        .filter(|(script, _)| model.is_indexed(script, false))
    {
        let hex = script.to_lower_hex_string();
        let got = api.get(&format!("/scripthash/{hex}/utxo")).await;
        if got.status == 200 {
            assert_eq!(got.ok_json::<Vec<Utxo>>(), expected::utxos(model, script));
        } else {
            got.assert_error(400, "Too many unspent outputs");
        }
    }
}

/// Totals, coins and transactions of a script are of one moment, while transactions come, are replaced, confirmed, and taken
/// back by reorganisations.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn totals_coins_and_lists_agree_while_everything_moves() {
    let mut chain = TestChain::small(24, 125);
    let mut coins = chain.coins(10);
    let api = Arc::new(Api::of(chain.model()));
    let lock = Lock::Wsh(OWN_NUMBERS);
    let script = script_hash(&lock.script_pubkey());
    let hex = script.to_lower_hex_string();
    let done = Arc::new(AtomicBool::new(false));
    let compared = Arc::new(AtomicU32::new(0));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (api, done, compared) = (api.clone(), done.clone(), compared.clone());
            let base = format!("/scripthash/{hex}");
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let totals = api.get(&base).await;
                    let coins = api.get(&format!("{base}/utxo")).await;
                    let txs = api.get(&format!("{base}/txs?max_txs=250")).await;
                    let tag = |got: &Got| got.header("etag").map(str::to_owned);
                    if tag(&totals) != tag(&coins) || tag(&totals) != tag(&txs) {
                        continue;
                    }
                    let totals: ScriptHashStats = totals.ok_json();
                    let coins: Vec<Utxo> = coins.ok_json();
                    let txs: Vec<Transaction> = txs.ok_json();
                    let (chain, mempool) = (totals.chain_stats, totals.mempool_stats);
                    assert_eq!(
                        chain.funded_txo_sum.expect("a sum")
                            + mempool.funded_txo_sum.expect("a sum"),
                        chain.spent_txo_sum.expect("a sum")
                            + mempool.spent_txo_sum.expect("a sum")
                            + coins.iter().filter_map(|coin| coin.value).sum::<u64>()
                    );
                    let unconfirmed = txs.iter().filter(|tx| !tx.status.confirmed).count();
                    assert_eq!(unconfirmed as u64, mempool.tx_count);
                    assert_eq!((txs.len() - unconfirmed) as u64, chain.tx_count);
                    let distinct: HashSet<&String> = txs.iter().map(|tx| &tx.txid).collect();
                    assert_eq!(distinct.len(), txs.len(), "a double");
                    compared.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (writer, seen) = (api.clone(), compared.clone());
    tokio::task::spawn_blocking(move || {
        let mut rng = Rng::new(24);
        let (mut pool, source) = (MempoolModel::default(), MemoryMempool::default());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut rounds = 0;
        while rounds < 40 || (seen.load(Ordering::Relaxed) < 20 && Instant::now() < deadline) {
            rounds += 1;
            // No more than one page of the list holds.
            let new = if rounds <= 60 { 3 } else { 0 };
            for _ in 0..new {
                let coin = coins[rng.index(coins.len())];
                let each = Amount::from_sat((coin.value - 1_000 - rng.below(5_000)) / 2);
                let output = TxOut {
                    value: each,
                    script_pubkey: lock.script_pubkey(),
                };
                let tx = spend(&[coin], vec![output.clone(), output]);
                let txid = tx.compute_txid();
                // What is spent already makes it a replacement.
                if pool.add(chain.model(), tx) && coin.value > 1_000_000 {
                    coins.extend((0..2).map(|vout| Coin {
                        outpoint: OutPoint::new(txid, vout),
                        value: each.to_sat(),
                        lock,
                    }));
                }
            }
            let mut returning = Vec::new();
            if rng.chance(300) {
                let blocks = chain.rewind(1 + rng.below(2) as u32);
                returning = blocks
                    .iter()
                    .flat_map(|block| block.txdata.iter().skip(1).cloned())
                    .collect();
                pool.follow(chain.model(), std::mem::take(&mut returning));
            }
            let mined = if rng.chance(400) {
                pool.txs().to_vec()
            } else {
                Vec::new()
            };
            chain.mine(mined);
            pool.follow(chain.model(), returning);
            writer.sync(chain.model());
            source.set(chain.model().tip().hash, pool.txs().to_vec());
            writer
                .index
                .sync_mempool(&source, &AtomicBool::new(false))
                .expect("compared");
        }
    })
    .await
    .expect("written");
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("one moment");
    }
    assert!(compared.load(Ordering::Relaxed) >= 20);
}

/// Segments that get past the first checks now and then.
fn segments(known: Vec<String>) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "blocks", "tip", "height", "hash", "block-height", "block", "status", "txs", "txids", "txid", "header",
            "raw", "tx", "hex", "merkle-proof", "merkleblock-proof", "outspend", "outspends", "broadcast", "address",
            "scripthash", "chain", "utxo", "summary", "address-prefix", "addresses", "scripthashes", "mempool",
            "recent", "page", "package", "test", "fee-estimates", "block-template",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(known),
        1 => "[0-9]{1,24}",
        1 => "[0-9a-fA-F]{0,66}",
        1 => "(%[0-9a-fA-F]{2}|[a-z]){0,8}",
        1 => prop::sample::select(vec!["", "%", "..", "%2e%2e", "%00", "%FF", "-1", "+1", "%F0%9F%98%80"]).prop_map(str::to_owned),
    ]
}

#[test]
fn no_request_breaks_anything() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let chain = TestChain::small(23, 106);
    let model = chain.model();
    let api = Api::with(
        model,
        Setup {
            address_search: true,
            ..Setup::default()
        },
    );
    let mut known: Vec<String> = vec![
        model.tip().hash.to_string(),
        "0".to_owned(),
        "25".to_owned(),
    ];
    known.extend(
        model
            .transactions()
            .map(|(txid, _)| txid.to_string())
            .take(5),
    );
    known.extend(
        model
            .scripts()
            .map(|(script, _)| script.to_lower_hex_string())
            .take(5),
    );
    known.extend(model.addresses().into_iter().take(5));

    let request = (
        prop::sample::select(vec!["GET", "GET", "GET", "POST", "HEAD", "PUT", "OPTIONS"]),
        prop::collection::vec(segments(known.clone()), 0..5),
        prop::option::of(
            "(after_txid|max_txs|txids|tx|x)=[0-9a-f%,]{0,70}(&(max_txs|x)=[^ #\u{0}-\u{1f}\u{7f}-\u{10ffff}]{0,10})?",
        ),
        any::<bool>(),
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(segments(known), 0..6)
                .prop_map(|texts| serde_json::to_vec(&texts).expect("texts")),
        ],
    );
    let mut runner = TestRunner::new(Config {
        cases: 1500,
        ..Config::default()
    });
    let statuses = std::cell::RefCell::new(HashSet::new());
    let outcome = runner.run(&request, |(method, segments, query, slash, body)| {
        let mut uri = format!("/{}{}", segments.join("/"), if slash { "/" } else { "" });
        if let Some(query) = query {
            uri = format!("{uri}?{query}");
        }
        if axum::http::Uri::try_from(uri.as_str()).is_err() {
            return Ok(());
        }
        let started = Instant::now();
        let got = runtime.block_on(api.ask(method, &uri, &[], Body::from(body)));
        prop_assert!(
            started.elapsed() < Duration::from_secs(5),
            "{} {} hangs",
            method,
            uri
        );
        // What needs a node is the only thing that cannot be done.
        let no_node =
            got.status == 503 && (method == "HEAD" || got.text().starts_with("this needs a node"));
        prop_assert!(
            got.status < 500 || no_node,
            "{} {}: {} {}",
            method,
            uri,
            got.status,
            got.text()
        );
        prop_assert_eq!(got.header("access-control-allow-origin"), Some("*"));
        if got.status >= 400 {
            prop_assert!(
                !got.text().contains('\n'),
                "{} {}: {:?}",
                method,
                uri,
                got.text()
            );
        }
        statuses.borrow_mut().insert(got.status);
        Ok(())
    });
    outcome.expect("no request breaks anything");
    // The requests do reach the answers of every kind.
    let statuses = statuses.into_inner();
    assert!(
        [200, 204, 400, 404, 405]
            .iter()
            .all(|status| statuses.contains(status)),
        "{statuses:?}"
    );
}
