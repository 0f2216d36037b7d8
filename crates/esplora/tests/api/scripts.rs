//! Every script of a generated chain: totals, histories by every kind of page, unspent outputs, summaries, unions.

use std::collections::BTreeSet;

use bitcoin::Txid;
use bitcoin::hex::DisplayHex;
use cairn_esplora::objects::{AddressStats, ScriptHashStats, Stats, Transaction, TxSummary, Utxo};
use cairn_testkit::{Model, Rng, ScriptHash, TestChain};

use crate::expected;
use crate::support::{Api, SHORT, Setup};

/// The most unspent outputs that are listed in these tests.
const UTXOS_LIMIT: usize = 20;

fn chain() -> TestChain {
    let mut chain = TestChain::small(11, 125);
    chain.fork(4, 6);
    chain
}

fn indexed(model: &Model) -> Vec<ScriptHash> {
    model
        .scripts()
        .map(|(script, _)| *script)
        .filter(|script| model.is_indexed(script, false))
        .collect()
}

fn as_json(model: &Model, history: &[(Txid, cairn_testkit::Place)]) -> Vec<Transaction> {
    history
        .iter()
        .map(|(txid, _)| expected::tx(model, txid))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_and_unspent_outputs() {
    let chain = chain();
    let model = chain.model();
    let api = Api::with(
        model,
        Setup {
            utxos_limit: Some(UTXOS_LIMIT),
            ..Setup::default()
        },
    );
    let (mut listed, mut refused) = (0, 0);
    for (hash, script) in model.scripts() {
        let indexed = model.is_indexed(hash, false);
        let hex = hash.to_lower_hex_string();
        let none = Stats {
            funded_txo_sum: Some(0),
            spent_txo_sum: Some(0),
            ..Stats::default()
        };
        let chain_stats = if indexed {
            expected::stats(model, hash)
        } else {
            none
        };
        let got = api.get(&format!("/scripthash/{hex}")).await;
        got.assert_class(SHORT);
        let expected = ScriptHashStats {
            scripthash: hex.clone(),
            chain_stats,
            mempool_stats: none,
        };
        assert_eq!(got.ok_json::<ScriptHashStats>(), expected, "{script}");
        // The name comes back as it was written.
        let upper = hex.to_uppercase();
        let got: ScriptHashStats = api.get(&format!("/scripthash/{upper}")).await.ok_json();
        assert_eq!((got.scripthash, got.chain_stats), (upper, chain_stats));

        let address = expected::address(script);
        if let Some(address) = &address {
            let got = api.get(&format!("/address/{address}")).await;
            got.assert_class(SHORT);
            let expected = AddressStats {
                address: address.clone(),
                chain_stats,
                mempool_stats: none,
            };
            assert_eq!(got.ok_json::<AddressStats>(), expected);
        }
        let utxos = if indexed {
            expected::utxos(model, hash)
        } else {
            Vec::new()
        };
        let names = [
            Some(format!("/scripthash/{hex}/utxo")),
            address.map(|a| format!("/address/{a}/utxo")),
        ];
        for uri in names.iter().flatten() {
            let got = api.get(uri).await;
            if utxos.len() > UTXOS_LIMIT {
                refused += 1;
                got.assert_error(400, "Too many unspent outputs");
            } else {
                listed += usize::from(utxos.len() > 1);
                assert_eq!(got.ok_json::<Vec<Utxo>>(), utxos, "{uri}");
                got.assert_class(SHORT);
            }
        }
    }
    assert!(
        listed > 20,
        "scripts with several unspent outputs: {listed}"
    );
    assert!(refused > 0, "a script beyond the limit");
}

/// Walks by the last transaction seen until the page that ends the walk.
async fn walk(api: &Api, uri: impl Fn(Option<&str>) -> String, page: usize) -> Vec<Transaction> {
    let mut all: Vec<Transaction> = Vec::new();
    loop {
        let last = all.last().map(|tx| tx.txid.clone());
        let got = api.get(&uri(last.as_deref())).await;
        let part: Vec<Transaction> = got.ok_json();
        assert!(part.len() <= page);
        let done = part.len() < page;
        all.extend(part);
        if done {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_by_every_page() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    let mut long = 0;
    for script in indexed(model) {
        let hex = script.to_lower_hex_string();
        let expected = as_json(model, &expected::history(model, &[script]));
        long += usize::from(expected.len() > 25);
        let first: Vec<Transaction> = api.get(&format!("/scripthash/{hex}/txs")).await.ok_json();
        assert_eq!(first, expected[..expected.len().min(25)]);
        let by_path = walk(
            &api,
            |last| match last {
                Some(last) => format!("/scripthash/{hex}/txs/chain/{last}"),
                None => format!("/scripthash/{hex}/txs/chain"),
            },
            25,
        )
        .await;
        assert_eq!(by_path, expected);
        let by_query = walk(
            &api,
            |last| match last {
                Some(last) => format!("/scripthash/{hex}/txs?after_txid={last}&max_txs=7"),
                None => format!("/scripthash/{hex}/txs?max_txs=7"),
            },
            7,
        )
        .await;
        assert_eq!(by_query, expected);
        // After the last there is nothing, and that is no error.
        if let Some(last) = expected.last() {
            let got = api
                .get(&format!("/scripthash/{hex}/txs?after_txid={}", last.txid))
                .await;
            assert_eq!(got.text(), "[]");
            got.assert_class(SHORT);
        }
    }
    assert!(long >= 2, "scripts with several pages: {long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_capped() {
    let chain = TestChain::small(3, 270);
    let model = chain.model();
    let api = Api::of(model);
    let busiest = indexed(model)
        .into_iter()
        .max_by_key(|script| model.stats(script).tx_count)
        .expect("there are scripts");
    let expected = as_json(model, &expected::history(model, &[busiest]));
    assert!(expected.len() > 250, "{}", expected.len());
    let hex = busiest.to_lower_hex_string();
    for uri in [
        "txs?max_txs=100000",
        "txs/chain?max_txs=99999999999999999999",
    ] {
        let got: Vec<Transaction> = api.get(&format!("/scripthash/{hex}/{uri}")).await.ok_json();
        assert_eq!(got, expected[..250]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    for script in indexed(model) {
        let hex = script.to_lower_hex_string();
        let expected = expected::summary(model, &[script]);
        let got = api.get(&format!("/scripthash/{hex}/txs/summary")).await;
        assert_eq!(got.ok_json::<Vec<TxSummary>>(), expected);
        got.assert_class(SHORT);
        let stats = model.stats(&script);
        let balance: i64 = expected.iter().map(|entry| entry.value).sum();
        assert_eq!(
            balance,
            stats.funded_txo_sum as i64 - stats.spent_txo_sum as i64
        );
        if expected.len() > 3 {
            let uri = format!(
                "/scripthash/{hex}/txs/summary/{}?max_txs=2",
                expected[0].txid
            );
            assert_eq!(
                api.get(&uri).await.ok_json::<Vec<TxSummary>>(),
                expected[1..3]
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unions() {
    let chain = chain();
    let model = chain.model();
    let api = Api::of(model);
    let scripts = indexed(model);
    let mut rng = Rng::new(5);
    let busy: Vec<ScriptHash> = scripts
        .iter()
        .copied()
        .filter(|script| model.stats(script).tx_count > 10)
        .collect();
    assert!(busy.len() >= 3);
    for round in 0..12 {
        let mut set: BTreeSet<ScriptHash> = BTreeSet::new();
        for _ in 0..(2 + round * 3) {
            set.insert(scripts[rng.index(scripts.len())]);
        }
        set.insert(busy[round % busy.len()]);
        set.insert(busy[(round + 1) % busy.len()]);
        let set: Vec<ScriptHash> = set.into_iter().collect();
        let expected = as_json(model, &expected::history(model, &set));
        let mut names: Vec<String> = set
            .iter()
            .map(|script| format!("\"{}\"", script.to_lower_hex_string()))
            .collect();
        // What names no script is left out; what comes twice counts once.
        names.extend(["\"nonsense\"".to_owned(), "17".to_owned(), names[0].clone()]);
        let body = format!("[{}]", names.join(","));

        let mut all: Vec<Transaction> = Vec::new();
        loop {
            let uri = match all.last() {
                Some(last) => format!("/scripthashes/txs?after_txid={}", last.txid),
                None => "/scripthashes/txs".to_owned(),
            };
            let part: Vec<Transaction> = api.post(&uri, body.clone()).await.ok_json();
            let done = part.len() < 25;
            all.extend(part);
            if done {
                break;
            }
        }
        assert_eq!(all, expected, "round {round}");

        let got = api.post("/scripthashes/txs/summary", body.clone()).await;
        let summary = expected::summary(model, &set);
        assert_eq!(got.ok_json::<Vec<TxSummary>>(), summary);
        if summary.len() > 5 {
            let uri = format!("/scripthashes/txs/summary/{}?max_txs=3", summary[1].txid);
            assert_eq!(
                api.post(&uri, body).await.ok_json::<Vec<TxSummary>>(),
                summary[2..5]
            );
        }

        let with_address: Vec<(ScriptHash, String)> = set
            .iter()
            .filter_map(|script| {
                let text = model.scripts().find(|(hash, _)| *hash == script)?.1;
                Some((*script, expected::address(text)?))
            })
            .collect();
        let addressed: Vec<ScriptHash> = with_address.iter().map(|(script, _)| *script).collect();
        let addresses: Vec<&String> = with_address.iter().map(|(_, address)| address).collect();
        let body = serde_json::to_string(&addresses).expect("texts");
        let got: Vec<Transaction> = api.post("/addresses/txs?max_txs=250", body).await.ok_json();
        let expected = as_json(model, &expected::history(model, &addressed));
        assert_eq!(got, expected[..expected.len().min(250)]);
    }
    let got = api.post("/addresses/txs", "[]").await;
    assert_eq!((got.status, got.text()), (200, "[]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_by_prefix() {
    let chain = chain();
    let model = chain.model();
    let api = Api::with(
        model,
        Setup {
            address_search: true,
            ..Setup::default()
        },
    );
    let all: Vec<String> = model.addresses().into_iter().collect();
    let some = &all[all.len() / 2];
    for length in [1, 2, 5, 6, 8, some.len()] {
        let prefix = &some[..length];
        let got = api.get(&format!("/address-prefix/{prefix}")).await;
        let expected: Vec<&String> = all
            .iter()
            .filter(|a| a.starts_with(prefix))
            .take(10)
            .collect();
        assert_eq!(
            got.ok_json::<Vec<String>>(),
            expected.into_iter().cloned().collect::<Vec<_>>()
        );
        got.assert_class(SHORT);
    }
    assert_eq!(
        api.get("/address-prefix/BCRT1Q")
            .await
            .ok_json::<Vec<String>>()
            .len(),
        10,
        "upper case"
    );
    assert_eq!(
        api.get("/address-prefix/nothing%20begins%20so")
            .await
            .text(),
        "[]"
    );
    let without = Api::of(model);
    without
        .get("/address-prefix/bcrt1")
        .await
        .assert_error(400, "address search disabled");
}
