//! A chain of a real Elements node over the API, against the node's own words.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cairn_esplora::objects::{Asset, AssetTotals, Block, ScriptHashStats, Transaction, Utxo};
use cairn_esplora::{AssetRegistry, EsploraOptions, EsploraState, RegistryFolder, router};
use cairn_http::{Surface, SurfaceOptions};
use cairn_testkit::MemorySource;
use cairn_testkit::elements::{
    asset_totals, elements_answers, elements_chain, recorded_blocks, supply_txs,
};
use cairn_utxo_index::{Family, Index, IndexConfig, Network};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{Got, ask};

struct Liquid {
    surface: Surface,
    _dir: tempfile::TempDir,
}

impl Liquid {
    fn new(registry: AssetRegistry) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let network = Network::Elements(elements_chain());
        let mut config = IndexConfig::new(dir.path().join("index"), network);
        config.memory_bytes = 64 << 20;
        config.threads = 1;
        let index = Index::open(config).expect("a new index");
        let source = MemorySource::default();
        let blocks = recorded_blocks();
        source.follow_raw(Family::Elements, blocks.iter().map(|block| &*block.raw));
        index
            .sync(&source, None, &AtomicBool::new(false))
            .expect("synced");
        let state = EsploraState {
            index: Arc::clone(&index),
            network,
            node: None,
            options: EsploraOptions {
                registry,
                ..EsploraOptions::default()
            },
            stop: CancellationToken::new(),
        };
        Self {
            surface: Surface::new(router(state), SurfaceOptions::default()),
            _dir: dir,
        }
    }

    async fn get(&self, uri: &str) -> Got {
        ask(&self.surface, "GET", uri, &[], axum::body::Body::empty()).await
    }
}

/// Unix seconds from which on Liquid's nodes price transactions by their discounted size.
const DISCOUNT_SINCE: u32 = 1_734_120_000;

fn units(value: &Value) -> Option<u64> {
    value.as_f64().map(|amount| (amount * 1e8).round() as u64)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn assert_tx(ours: &Transaction, theirs: &Value) {
    assert_eq!(theirs["txid"], ours.txid.as_str());
    assert_eq!(theirs["size"], ours.size);
    assert_eq!(theirs["weight"], ours.weight);
    assert_eq!(theirs["version"], ours.version);
    assert_eq!(theirs["locktime"], ours.locktime);
    let fee: u64 = theirs["fee"]
        .as_object()
        .map_or(0, |fees| fees.values().filter_map(units).sum());
    assert_eq!(ours.fee, fee);
    // Blocks of before the nodes knew a discount have none.
    let discounted = ours
        .status
        .block_time
        .is_some_and(|time| time >= DISCOUNT_SINCE);
    assert_eq!(ours.discount_weight.is_some(), discounted);
    assert!(
        ours.discount_weight
            .is_none_or(|weight| weight <= u64::from(ours.weight))
    );
    let inputs = theirs["vin"].as_array().expect("inputs");
    assert_eq!(ours.vin.len(), inputs.len());
    for (ours, theirs) in ours.vin.iter().zip(inputs) {
        assert_eq!(ours.is_coinbase, theirs.get("coinbase").is_some());
        assert_eq!(ours.is_pegin, Some(theirs["is_pegin"] == true));
        if !ours.is_coinbase {
            assert_eq!(theirs["txid"], ours.txid.as_str());
            assert_eq!(theirs["vout"], ours.vout);
        }
        let issuance = theirs.get("issuance");
        assert_eq!(ours.issuance.is_some(), issuance.is_some());
        let (Some(ours), Some(theirs)) = (&ours.issuance, issuance) else {
            continue;
        };
        assert_eq!(theirs["asset"], ours.asset_id.as_str());
        assert_eq!(theirs["assetEntropy"], ours.asset_entropy.as_str());
        assert_eq!(theirs["isreissuance"], ours.is_reissuance);
        assert_eq!(theirs.get("assetamount").and_then(units), ours.assetamount);
        assert_eq!(
            text(theirs, "assetamountcommitment"),
            ours.assetamountcommitment.as_deref()
        );
        assert_eq!(
            text(theirs, "tokenamountcommitment"),
            ours.tokenamountcommitment.as_deref()
        );
        let nonce = ours.asset_blinding_nonce.as_deref();
        assert_eq!(nonce.is_some(), ours.is_reissuance);
        assert!(nonce.is_none_or(|nonce| theirs["assetBlindingNonce"] == nonce));
    }
    let outputs = theirs["vout"].as_array().expect("outputs");
    assert_eq!(ours.vout.len(), outputs.len());
    for (ours, theirs) in ours.vout.iter().zip(outputs) {
        let script = &theirs["scriptPubKey"];
        assert_eq!(script["hex"], ours.scriptpubkey.as_str());
        assert_eq!(theirs.get("value").and_then(units), ours.value);
        for (name, ours) in [
            ("valuecommitment", &ours.valuecommitment),
            ("asset", &ours.asset),
            ("assetcommitment", &ours.assetcommitment),
        ] {
            assert_eq!(text(theirs, name), ours.as_deref(), "{name}");
        }
        assert_eq!(
            text(script, "address"),
            ours.scriptpubkey_address.as_deref()
        );
        assert_eq!(script["type"] == "fee", ours.scriptpubkey_type == "fee");
        let pegout = ours.pegout.as_ref();
        assert_eq!(
            text(script, "pegout_chain"),
            pegout.map(|pegout| pegout.genesis_hash.as_str())
        );
        assert_eq!(
            text(script, "pegout_hex"),
            pegout.map(|pegout| pegout.scriptpubkey.as_str())
        );
        assert_eq!(
            text(script, "pegout_address"),
            pegout.and_then(|pegout| pegout.scriptpubkey_address.as_deref())
        );
    }
}

#[tokio::test]
async fn every_block_and_transaction_as_the_node_tells_it() {
    let liquid = Liquid::new(AssetRegistry::default());
    for theirs in elements_answers() {
        let hash = theirs["hash"].as_str().expect("a hash");
        let got = liquid.get(&format!("/block/{hash}")).await;
        let ours: Block = got.ok_json();
        for (name, ours) in [
            ("height", ours.height),
            ("version", ours.version),
            ("time", ours.timestamp),
            ("mediantime", ours.mediantime),
            ("nTx", ours.tx_count),
            ("size", ours.size),
            ("weight", ours.weight),
        ] {
            assert_eq!(theirs[name], ours, "{name} of {hash}");
        }
        assert_eq!(theirs["merkleroot"], ours.merkle_root.as_str());
        assert!(ours.nonce.is_none() && ours.bits.is_none() && ours.difficulty.is_none());
        let ext = ours.ext.expect("what a signed block has");
        match theirs.get("dynamic_parameters") {
            None => assert_eq!(ext["challenge"], theirs["signblock_challenge"]),
            Some(parameters) => {
                let current = &parameters["current"];
                assert_eq!(
                    ext["current"]["signblockscript"],
                    current["signblockscript"]
                );
                assert_eq!(ext["signblock_witness"], theirs["signblock_witness_hex"]);
                if current["type"] == "full" {
                    for name in ["fedpeg_program", "fedpegscript", "extension_space"] {
                        assert_eq!(ext["current"][name], current[name], "{name}");
                    }
                }
            }
        }
        let header = liquid.get(&format!("/block/{hash}/header")).await;
        assert_eq!(header.status, 200);
        let mut shown = Vec::new();
        let txs = theirs["tx"].as_array().expect("transactions");
        for start in (0..txs.len()).step_by(25) {
            let page = liquid.get(&format!("/block/{hash}/txs/{start}")).await;
            shown.extend(page.ok_json::<Vec<Transaction>>());
        }
        assert_eq!(shown.len(), txs.len());
        for (ours, theirs) in shown.iter().zip(txs) {
            assert_tx(ours, theirs);
            let raw = liquid.get(&format!("/tx/{}/hex", ours.txid)).await;
            assert_eq!(theirs["hex"], raw.text());
        }
    }
}

#[tokio::test]
async fn unspent_outputs_show_commitments_and_proofs() {
    let liquid = Liquid::new(AssetRegistry::default());
    let mut unspent: BTreeMap<(String, u64), Value> = BTreeMap::new();
    let answers = elements_answers();
    for tx in answers
        .iter()
        .flat_map(|block| block["tx"].as_array().expect("transactions"))
    {
        for input in tx["vin"].as_array().expect("inputs") {
            if let (Some(txid), Some(vout)) = (text(input, "txid"), input["vout"].as_u64()) {
                unspent.remove(&(txid.to_owned(), vout));
            }
        }
        let txid = tx["txid"].as_str().expect("an id").to_owned();
        for output in tx["vout"].as_array().expect("outputs") {
            let vout = output["n"].as_u64().expect("an index");
            unspent.insert((txid.clone(), vout), output.clone());
        }
    }
    let (mut blinded, mut plain) = (0, 0);
    for ((txid, vout), theirs) in &unspent {
        let Some(address) = text(&theirs["scriptPubKey"], "address") else {
            continue;
        };
        let coins: Vec<Utxo> = liquid
            .get(&format!("/address/{address}/utxo"))
            .await
            .ok_json();
        let mut coins = coins.iter();
        let ours = coins.find(|coin| coin.txid == *txid && u64::from(coin.vout) == *vout);
        let ours = ours.expect("an unspent output");
        assert_eq!(theirs.get("value").and_then(units), ours.value);
        assert_eq!(text(theirs, "asset"), ours.asset.as_deref());
        for (name, ours) in [
            ("valuecommitment", &ours.valuecommitment),
            ("assetcommitment", &ours.assetcommitment),
            ("commitmentnonce", &ours.noncecommitment),
            ("surjectionproof", &ours.surjection_proof),
        ] {
            assert_eq!(text(theirs, name), ours.as_deref(), "{name}");
        }
        assert_eq!(ours.range_proof.is_some(), ours.valuecommitment.is_some());
        match ours.valuecommitment {
            Some(_) => blinded += 1,
            None => plain += 1,
        }
        let stats = liquid.get(&format!("/address/{address}")).await;
        let stats: Value = stats.ok_json();
        assert!(stats["chain_stats"]["funded_txo_count"].as_u64() > Some(0));
        assert_eq!(stats["chain_stats"].get("funded_txo_sum"), None);
    }
    assert!(blinded > 5 && plain > 0, "{blinded} blinded, {plain} plain");
}

#[tokio::test]
async fn assets_with_totals_lists_and_registry() {
    let chain = recorded_blocks();
    let native = elements_chain().native_asset.to_string();
    let totals = asset_totals(&chain, &native);
    let issued: Vec<&String> = totals
        .iter()
        .filter(|(_, of)| of.issued.0 > 0)
        .map(|(id, _)| id)
        .collect();
    assert!(issued.len() >= 5);
    let dir = tempfile::tempdir().expect("a folder");
    for (number, id) in issued.iter().enumerate() {
        let folder = dir.path().join(&id[..2]);
        std::fs::create_dir_all(&folder).expect("created");
        let entry = format!(
            r#"{{"contract":{{"version":0}},"entity":{{"domain":"{number}.example"}},"precision":2,"name":"Coin {number}","ticker":"C{number}"}}"#
        );
        std::fs::write(folder.join(format!("{id}.json")), entry).expect("written");
    }
    let registry = AssetRegistry::default();
    RegistryFolder::default()
        .reload(dir.path(), &registry)
        .expect("a registry");
    let liquid = Liquid::new(registry);
    for (number, id) in issued.iter().enumerate() {
        let of = &totals[*id];
        let asset: Asset = liquid.get(&format!("/asset/{id}")).await.ok_json();
        assert_eq!(asset.ticker.as_deref(), Some(&*format!("C{number}")));
        assert!(asset.status.is_some_and(|status| status.confirmed));
        let AssetTotals::Issued(stats) = asset.chain_stats else {
            panic!("{id} is issued")
        };
        assert_eq!((stats.issuance_count, stats.issued_amount), of.issued);
        assert_eq!(stats.burned_amount, of.burned.1);
        assert_eq!(stats.tx_count, of.txs.len() as u64);
        let wanted = supply_txs(&chain, &native, id);
        assert_eq!(stats.supply_tx_count, wanted.len() as u64);
        let ids =
            |txs: Vec<Transaction>| -> Vec<String> { txs.into_iter().map(|tx| tx.txid).collect() };
        let listed = liquid.get(&format!("/asset/{id}/txs")).await;
        assert_eq!(ids(listed.ok_json()), wanted);
        let rest = liquid
            .get(&format!("/asset/{id}/txs/chain/{}", wanted[0]))
            .await;
        assert_eq!(ids(rest.ok_json()), wanted[1..]);
        let all = liquid.get(&format!("/asset/{id}/txs?transfers=true")).await;
        assert_eq!(ids(all.ok_json()).len(), of.txs.len());
        let none = liquid.get(&format!("/asset/{id}/txs/mempool")).await;
        assert_eq!(none.ok_json::<Vec<Transaction>>(), []);
        let supply = liquid.get(&format!("/asset/{id}/supply")).await;
        if of.blinded {
            assert_eq!(
                (supply.status, supply.text()),
                (400, "Asset supply is blinded")
            );
        } else {
            let units = of.issued.1 - of.burned.1;
            assert_eq!(supply.text(), units.to_string());
            let decimal = liquid.get(&format!("/asset/{id}/supply/decimal")).await;
            let decimal: f64 = decimal.text().parse().expect("a number");
            assert_eq!((decimal * 100.0).round() as u64, units);
        }
    }
    let asset: Asset = liquid.get(&format!("/asset/{native}")).await.ok_json();
    assert!(asset.issuance_txin.is_none());
    let AssetTotals::Native(stats) = asset.chain_stats else {
        panic!("the native asset")
    };
    let of = &totals[&native];
    assert_eq!((stats.peg_in_count, stats.peg_in_amount), of.pegged_in);
    assert_eq!((stats.peg_out_count, stats.peg_out_amount), of.pegged_out);
    assert_eq!((stats.burn_count, stats.burned_amount), of.burned);
    // The registry, in order, in pages, and searched.
    let page = liquid.get("/assets/registry?limit=2&sort_dir=desc").await;
    assert_eq!(
        page.header("x-total-results"),
        Some(&*issued.len().to_string())
    );
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let tickers: Vec<Option<String>> = page
        .ok_json::<Vec<Asset>>()
        .into_iter()
        .map(|asset| asset.ticker)
        .collect();
    let last = issued.len() - 1;
    assert_eq!(
        tickers,
        [Some(format!("C{last}")), Some(format!("C{}", last - 1))]
    );
    let found = liquid.get("/assets/registry?search=COIN%201").await;
    let found: Vec<Asset> = found.ok_json();
    assert_eq!(found.len(), 1);
    for (uri, status, text) in [
        ("/assets/registry?sort_field=age", 400, "invalid sort field"),
        (
            "/assets/registry?sort_dir=up",
            400,
            "invalid sort direction",
        ),
        ("/asset/xx", 400, "Invalid hex string"),
        (
            "/asset/1111111111111111111111111111111111111111111111111111111111111111",
            404,
            "Asset id not found",
        ),
    ] {
        let got = liquid.get(uri).await;
        assert_eq!((got.status, got.text()), (status, text), "{uri}");
    }
}

#[tokio::test]
async fn confidential_addresses_mean_their_script() {
    let liquid = Liquid::new(AssetRegistry::default());
    let plain = "ert1qk5dnkyqm4d92xmqhrwtszgjtzqsutsmll3fysw";
    let script = "0014b51b3b101bab4aa36c171b9701224b1021c5c37f";
    let confidential = cairn_testkit::elements::confidential_address(plain);
    assert!(confidential.starts_with("el1"));
    let of = |got: Value| (got["chain_stats"].clone(), got["address"].clone());
    let (expected, _) = of(liquid.get(&format!("/address/{plain}")).await.ok_json());
    let (found, named) = of(liquid
        .get(&format!("/address/{confidential}"))
        .await
        .ok_json());
    assert_eq!(found, expected);
    assert_eq!(named, confidential.as_str());
    let script = bitcoin::ScriptBuf::from_hex(script).expect("hexadecimal");
    use bitcoin::hex::DisplayHex;
    let hash = cairn_testkit::script_hash(&script).to_lower_hex_string();
    let by_hash: ScriptHashStats = liquid.get(&format!("/scripthash/{hash}")).await.ok_json();
    assert_eq!(
        serde_json::to_value(by_hash.chain_stats).expect("plain data"),
        expected
    );
    let got = liquid
        .get("/address/bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345")
        .await;
    assert_eq!(
        (got.status, got.text()),
        (400, "Address on invalid network")
    );
}
