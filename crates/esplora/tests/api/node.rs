//! The same chain in a real node: what the API says is what the node says.

use bitcoin::Txid;
use bitcoin::hex::DisplayHex;
use cairn_esplora::objects::{Block, Output, Transaction, Utxo};
use cairn_testkit::{Bitcoind, TestChain};
use serde_json::{Value, json};

use crate::support::Api;

fn node_of(chain: &TestChain) -> Bitcoind {
    let node = Bitcoind::start().expect("a node (its build is described in CONTRIBUTING.md)");
    let blocks = chain.blocks();
    node.submit_blocks(blocks.iter().map(|block| &**block))
        .expect("valid blocks");
    assert_eq!(node.best_hash().expect("a tip"), chain.model().tip().hash);
    node
}

/// The node prints amounts as decimals of whole coins.
fn satoshi(value: &Value) -> u64 {
    bitcoin::Amount::from_btc(value.as_f64().expect("a number"))
        .expect("an amount")
        .to_sat()
}

/// The node's name of a script kind in the API's words.
fn kind(theirs: &Value, hex: &str) -> &'static str {
    match theirs["type"].as_str().expect("a type") {
        "pubkey" => "p2pk",
        "pubkeyhash" => "p2pkh",
        "scripthash" => "p2sh",
        "witness_v0_keyhash" => "v0_p2wpkh",
        "witness_v0_scripthash" => "v0_p2wsh",
        "witness_v1_taproot" => "v1_p2tr",
        "nulldata" => "op_return",
        "nonstandard" if hex.is_empty() => "empty",
        "nonstandard" if hex.starts_with("6a") => "op_return",
        // The node has no word for it: OP_RESERVED, OP_VERIF and OP_CAT end every execution.
        "nonstandard" if ["50", "65", "7e"].contains(&&hex[..2]) => "provably_unspendable",
        "anchor" | "multisig" | "nonstandard" | "witness_unknown" => "unknown",
        other => panic!("unexpected script type {other}"),
    }
}

fn assert_output(ours: &Output, theirs: &Value) {
    let script = &theirs["scriptPubKey"];
    assert_eq!(ours.value, Some(satoshi(&theirs["value"])));
    assert_eq!(script["hex"], ours.scriptpubkey.as_str());
    assert_eq!(
        ours.scriptpubkey_type,
        kind(script, &ours.scriptpubkey),
        "{script}"
    );
    assert_eq!(
        script.get("address").and_then(Value::as_str),
        ours.scriptpubkey_address.as_deref()
    );
}

fn assert_tx(ours: &Transaction, theirs: &Value) {
    assert_eq!(theirs["txid"], ours.txid.as_str());
    assert_eq!(theirs["version"], ours.version);
    assert_eq!(theirs["locktime"], ours.locktime);
    assert_eq!(theirs["size"], ours.size);
    assert_eq!(theirs["weight"], ours.weight);
    assert_eq!(
        ours.fee,
        theirs.get("fee").map_or(0, satoshi),
        "{}",
        ours.txid
    );
    let inputs = theirs["vin"].as_array().expect("inputs");
    assert_eq!(inputs.len(), ours.vin.len());
    for (input, theirs) in ours.vin.iter().zip(inputs) {
        assert_eq!(theirs["sequence"], input.sequence);
        let witness = theirs.get("txinwitness").map(|items| {
            let items = items.as_array().expect("items").iter();
            items
                .map(|item| item.as_str().expect("hexadecimal").to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(input.witness, witness);
        match theirs.get("coinbase") {
            Some(script) => {
                assert!(input.is_coinbase);
                assert_eq!(*script, input.scriptsig.as_str());
                assert!(input.prevout.is_none());
            }
            None => {
                assert!(!input.is_coinbase);
                assert_eq!(theirs["txid"], input.txid.as_str());
                assert_eq!(theirs["vout"], input.vout);
                assert_eq!(theirs["scriptSig"]["hex"], input.scriptsig.as_str());
                assert_output(
                    input.prevout.as_ref().expect("spends an output"),
                    &theirs["prevout"],
                );
            }
        }
    }
    let outputs = theirs["vout"].as_array().expect("outputs");
    assert_eq!(outputs.len(), ours.vout.len());
    for (output, theirs) in ours.vout.iter().zip(outputs) {
        assert_output(output, theirs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_transactions_as_the_node_tells_them() {
    let chain = TestChain::small(31, 120);
    let api = Api::of(chain.model());
    let node = node_of(&chain);
    for block in chain.model().chain() {
        let theirs = node
            .rpc("getblock", json!([block.hash.to_string(), 3]))
            .expect("a block");
        let ours: Block = api.get(&format!("/block/{}", block.hash)).await.ok_json();
        assert_eq!(theirs["height"], ours.height);
        assert_eq!(theirs["version"], ours.version);
        assert_eq!(theirs["time"], ours.timestamp);
        assert_eq!(theirs["mediantime"], ours.mediantime);
        assert_eq!(theirs["nTx"], ours.tx_count);
        assert_eq!(theirs["size"], ours.size);
        assert_eq!(theirs["weight"], ours.weight);
        assert_eq!(theirs["merkleroot"], ours.merkle_root.as_str());
        assert_eq!(
            theirs.get("previousblockhash").and_then(Value::as_str),
            ours.previousblockhash.as_deref()
        );
        assert_eq!(theirs["nonce"], ours.nonce.expect("work"));
        assert_eq!(theirs["bits"], format!("{:08x}", ours.bits.expect("work")));
        // The node prints sixteen digits, one less than a float may need.
        let difficulty = theirs["difficulty"].as_f64().expect("a number");
        assert!(
            (difficulty / ours.difficulty.expect("work") - 1.0).abs() < 1e-15,
            "{difficulty}"
        );
        let raw = node
            .rpc("getblock", json!([block.hash.to_string(), 0]))
            .expect("a block");
        let got = api.get(&format!("/block/{}/raw", block.hash)).await;
        assert_eq!(raw, got.ok_bytes().to_lower_hex_string());

        let theirs = theirs["tx"].as_array().expect("transactions");
        let mut ours: Vec<Transaction> = Vec::new();
        while ours.len() < theirs.len() {
            let uri = format!("/block/{}/txs/{}", block.hash, ours.len());
            ours.extend(api.get(&uri).await.ok_json::<Vec<Transaction>>());
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_tx(ours, theirs);
        }
        // The node does not give the coinbase of genesis.
        for txid in block.txids.iter().filter(|_| block.height > 0) {
            let params = json!([txid.to_string(), false, block.hash.to_string()]);
            let raw = node
                .rpc("getrawtransaction", params)
                .expect("a transaction");
            assert_eq!(raw, api.get(&format!("/tx/{txid}/hex")).await.ok_text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_as_the_node_makes_them() {
    let chain = TestChain::small(32, 110);
    let api = Api::of(chain.model());
    let node = node_of(&chain);
    for block in chain.model().chain().iter().skip(1) {
        for txid in &block.txids {
            let params = json!([[txid.to_string()], block.hash.to_string()]);
            let theirs = node.rpc("gettxoutproof", params).expect("a proof");
            assert_eq!(
                theirs,
                api.get(&format!("/tx/{txid}/merkleblock-proof"))
                    .await
                    .ok_text()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unspent_outputs_as_the_node_has_them() {
    let mut chain = TestChain::small(33, 109);
    chain.fork(3, 5);
    let model = chain.model();
    let api = Api::of(model);
    let node = node_of(&chain);
    let (mut unspent, mut spent) = (0, 0);
    for (txid, place) in model.transactions().filter(|(_, place)| place.height > 0) {
        let tx: Transaction = api.get(&format!("/tx/{txid}")).await.ok_json();
        for (vout, output) in tx.vout.iter().enumerate() {
            let theirs = node
                .rpc("gettxout", json!([txid.to_string(), vout, false]))
                .expect("an answer");
            let got = api.get(&format!("/tx/{txid}/outspend/{vout}")).await;
            if output.scriptpubkey_type == "op_return" {
                assert!(theirs.is_null());
                assert_eq!(got.text(), r#"{"spent":false}"#);
                continue;
            }
            let spend: cairn_esplora::objects::Spend = got.ok_json();
            assert_eq!(theirs.is_null(), spend.spent, "{txid}:{vout}");
            if spend.spent {
                spent += 1;
                continue;
            }
            unspent += 1;
            assert_eq!(Some(satoshi(&theirs["value"])), output.value);
            assert_eq!(theirs["confirmations"], model.height() - place.height + 1);
            let script = bitcoin::ScriptBuf::from_hex(&output.scriptpubkey).expect("hexadecimal");
            let hash = cairn_testkit::script_hash(&script).to_lower_hex_string();
            let got = api.get(&format!("/scripthash/{hash}/utxo")).await;
            if got.status == 200 {
                let listed: Vec<Utxo> = got.ok_json();
                let here = |utxo: &&Utxo| utxo.txid == tx.txid && utxo.vout as usize == vout;
                assert_eq!(listed.iter().filter(here).count(), 1, "{txid}:{vout}");
            } else {
                got.assert_error(400, "Too many unspent outputs");
            }
        }
    }
    assert!(
        unspent > 50 && spent > 20,
        "{unspent} unspent, {spent} spent"
    );
    // The node counts the same set.
    let info = node
        .rpc("gettxoutsetinfo", json!(["none"]))
        .expect("an answer");
    assert_eq!(info["txouts"], model.utxo_set().count());
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_beyond_sixteen_bits() {
    let mut chain = TestChain::small(34, 112);
    let coin = chain.coins(1)[0];
    let wide = cairn_testkit::wide_transaction(&coin, 70_000);
    let wide_id: Txid = wide.compute_txid();
    let coin_at = |vout: u32| cairn_testkit::Coin {
        outpoint: bitcoin::OutPoint {
            txid: wide_id,
            vout,
        },
        value: wide.output[vout as usize].value.to_sat(),
        lock: cairn_testkit::Lock::Bare(vout + 1),
    };
    let burn = |coin| {
        let script_pubkey = cairn_testkit::Lock::Wsh(cairn_testkit::OWN_NUMBERS).script_pubkey();
        let paid = bitcoin::TxOut {
            value: bitcoin::Amount::ZERO,
            script_pubkey,
        };
        cairn_testkit::spend(&[coin], vec![paid])
    };
    let (first, second) = (burn(coin_at(1)), burn(coin_at(65_537)));
    chain.mine(vec![wide.clone()]);
    chain.mine(vec![first.clone(), second.clone()]);
    let api = Api::of(chain.model());
    let node = node_of(&chain);
    for (vout, spender) in [(1, Some(&first)), (65_537, Some(&second)), (65_538, None)] {
        let got: cairn_esplora::objects::Spend = api
            .get(&format!("/tx/{wide_id}/outspend/{vout}"))
            .await
            .ok_json();
        assert_eq!(got.txid, spender.map(|tx| tx.compute_txid().to_string()));
        let theirs = node
            .rpc("gettxout", json!([wide_id.to_string(), vout, false]))
            .expect("an answer");
        assert_eq!(theirs.is_null(), spender.is_some());
        let hash =
            cairn_testkit::script_hash(&wide.output[vout].script_pubkey).to_lower_hex_string();
        let txs: Vec<Transaction> = api.get(&format!("/scripthash/{hash}/txs")).await.ok_json();
        let txids: Vec<String> = txs.into_iter().map(|tx| tx.txid).collect();
        // The generator may have used the same small script before: the newest are ours.
        let ours: Vec<String> = spender
            .iter()
            .map(|tx| tx.compute_txid().to_string())
            .chain([wide_id.to_string()])
            .collect();
        assert_eq!(txids[..ours.len()], ours, "its own");
        let others = [&first, &second]
            .into_iter()
            .filter(|tx| spender != Some(tx));
        for other in others.map(|tx| tx.compute_txid().to_string()) {
            assert!(!txids.contains(&other), "and no other's");
        }
    }
    let all: Vec<cairn_esplora::objects::Spend> =
        api.get(&format!("/tx/{wide_id}/outspends")).await.ok_json();
    assert_eq!(
        (all.len(), all.iter().filter(|spend| spend.spent).count()),
        (70_000, 2)
    );
}
