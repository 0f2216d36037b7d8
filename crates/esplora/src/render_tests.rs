//! The direct writer against three oracles: the worked example of the specification, the documented objects filled by
//! the `bitcoin` crate's own printers, and what a real node says about real blocks.

use std::collections::HashMap;

use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::{
    Address, Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, Transaction, TxOut,
};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::objects;
use cairn_utxo_index::Network as ChainNetwork;

const MAINNET: Style = Style {
    network: ChainNetwork::Bitcoin(Network::Bitcoin),
    mempool_line: false,
};

fn full_tx(record: &TxRecord, style: Style) -> String {
    let mut out = JsonBuf::default();
    tx(&mut out, &tx_body(record, style), record.block.as_ref());
    String::from_utf8(out.into_bytes()).expect("ascii")
}

fn text(write: impl FnOnce(&mut JsonBuf)) -> String {
    let mut out = JsonBuf::default();
    write(&mut out);
    String::from_utf8(out.into_bytes()).expect("ascii")
}

fn record(tx: Transaction, prevouts: Vec<Option<TxOut>>, block: Option<BlockRef>) -> TxRecord {
    let spent: u64 = prevouts
        .iter()
        .flatten()
        .map(|output| output.value.to_sat())
        .sum();
    let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
    TxRecord {
        txid: tx.compute_txid(),
        size: tx.total_size() as u32,
        weight: tx.weight().to_wu() as u32,
        fee: if tx.is_coinbase() {
            0
        } else {
            spent.saturating_sub(paid)
        },
        tx: tx.into(),
        block,
        prevouts: prevouts
            .into_iter()
            .map(|output| output.map(Into::into))
            .collect(),
    }
}

/// The worked example: raw form, and the object character by character.
const EXAMPLE_RAW: &str = concat!(
    "02000000000101aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0100000000fdffffff0260ea00000000000016",
    "00141415161718191a1b1c1d1e1f20212223242526275898000000000000160014000102030405060708090a0b0c0d0e0f101112130247304402",
    "201111111111111111111111111111111111111111111111111111111111111111022022222222222222222222222222222222222222222222",
    "222222222222222222220121023333333333333333333333333333333333333333333333333333333333333333",
    "40d10c00"
);

const EXAMPLE_JSON: &str = concat!(
    r#"{"txid":"5ad8d5e9aa56fc502bcc5e03e70d451d07bd8b1864e9d17b3f0732e8f18a5f2d","version":2,"locktime":840000,"#,
    r#""vin":[{"txid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","vout":1,"#,
    r#""prevout":{"scriptpubkey":"0014000102030405060708090a0b0c0d0e0f10111213","#,
    r#""scriptpubkey_asm":"OP_0 OP_PUSHBYTES_20 000102030405060708090a0b0c0d0e0f10111213","scriptpubkey_type":"v0_p2wpkh","#,
    r#""scriptpubkey_address":"bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345","value":100000},"#,
    r#""scriptsig":"","scriptsig_asm":"","#,
    r#""witness":["304402201111111111111111111111111111111111111111111111111111111111111111"#,
    r#"0220222222222222222222222222222222222222222222222222222222222222222201","#,
    r#""023333333333333333333333333333333333333333333333333333333333333333"],"is_coinbase":false,"sequence":4294967293}],"#,
    r#""vout":[{"scriptpubkey":"00141415161718191a1b1c1d1e1f2021222324252627","#,
    r#""scriptpubkey_asm":"OP_0 OP_PUSHBYTES_20 1415161718191a1b1c1d1e1f2021222324252627","scriptpubkey_type":"v0_p2wpkh","#,
    r#""scriptpubkey_address":"bc1qzs23v9ccrydpk8qarc0jqgfzyvjz2f38f65pqd","value":60000},"#,
    r#"{"scriptpubkey":"0014000102030405060708090a0b0c0d0e0f10111213","#,
    r#""scriptpubkey_asm":"OP_0 OP_PUSHBYTES_20 000102030405060708090a0b0c0d0e0f10111213","scriptpubkey_type":"v0_p2wpkh","#,
    r#""scriptpubkey_address":"bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345","value":39000}],"#,
    r#""size":222,"weight":561,"fee":1000,"status":{"confirmed":false}}"#
);

fn example() -> TxRecord {
    let tx: Transaction = deserialize(&Vec::from_hex(EXAMPLE_RAW).expect("hex")).expect("example");
    let prevout = TxOut {
        value: Amount::from_sat(100_000),
        script_pubkey: ScriptBuf::from_hex("0014000102030405060708090a0b0c0d0e0f10111213")
            .expect("hex"),
    };
    record(tx, vec![Some(prevout)], None)
}

#[test]
fn example_of_the_specification() {
    assert_eq!(full_tx(&example(), MAINNET), EXAMPLE_JSON);
}

#[test]
fn mempool_line_adds_sigops_between_weight_and_fee() {
    let json = full_tx(
        &example(),
        Style {
            mempool_line: true,
            ..MAINNET
        },
    );
    let expected = EXAMPLE_JSON.replace(r#""weight":561,"#, r#""weight":561,"sigops":1,"#);
    assert_eq!(json, expected);
}

#[test]
fn small_objects() {
    let hash: BlockHash = "00000000000000000001bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
        .parse()
        .expect("hash");
    let block = BlockRef {
        hash,
        height: 840_001,
        time: 1_713_571_800,
    };
    let confirmed = concat!(
        r#"{"confirmed":true,"block_height":840001,"block_hash":"#,
        r#""00000000000000000001bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","block_time":1713571800}"#
    );
    assert_eq!(text(|out| status(out, Some(&block))), confirmed);
    let txid = Txid::from_byte_array([0x22; 32]);
    let hex = "22".repeat(32);
    let waiting = r#"{"confirmed":false}"#;
    let spender = |block| Spending {
        txid,
        vin: 3,
        block,
    };
    let list = [None, Some(spender(Some(block))), Some(spender(None))];
    assert_eq!(
        text(|out| spends(out, &list)),
        format!(
            r#"[{{"spent":false}},{{"spent":true,"txid":"{hex}","vin":3,"status":{confirmed}}},{{"spent":true,"txid":"{hex}","vin":3,"status":{waiting}}}]"#
        )
    );
    let utxo = |block| Unspent {
        outpoint: OutPoint { txid, vout: 70_000 },
        value: Some(Amount::from_sat(39_000)),
        block,
    };
    assert_eq!(
        text(|out| utxos(out, &[(utxo(Some(block)), None), (utxo(None), None)])),
        format!(
            r#"[{{"txid":"{hex}","vout":70000,"status":{confirmed},"value":39000}},{{"txid":"{hex}","vout":70000,"status":{waiting},"value":39000}}]"#
        )
    );
    assert_eq!(text(|out| utxos(out, &[])), "[]");
    let stats = ScriptStats {
        tx_count: 3,
        funded_txo_count: 3,
        funded_txo_sum: 250_000,
        spent_txo_count: 1,
        spent_txo_sum: 100_000,
    };
    let unconfirmed = ScriptStats {
        tx_count: 1,
        funded_txo_count: 1,
        funded_txo_sum: 39_000,
        spent_txo_count: 1,
        spent_txo_sum: 100_000,
    };
    assert_eq!(
        text(|out| script_stats(
            out,
            Family::Bitcoin,
            ("address", "bc1qx"),
            &stats,
            &unconfirmed
        )),
        concat!(
            r#"{"address":"bc1qx","chain_stats":{"funded_txo_count":3,"funded_txo_sum":250000,"#,
            r#""spent_txo_count":1,"spent_txo_sum":100000,"tx_count":3},"#,
            r#""mempool_stats":{"funded_txo_count":1,"funded_txo_sum":39000,"#,
            r#""spent_txo_count":1,"spent_txo_sum":100000,"tx_count":1}}"#
        )
    );
    let proof = MerkleProof {
        block,
        branch: vec![],
        pos: 0,
    };
    assert_eq!(
        text(|out| merkle_proof(out, &proof)),
        r#"{"block_height":840001,"merkle":[],"pos":0}"#
    );
}

#[test]
fn difficulties_as_the_node_computes_them() {
    for (bits, printed) in [
        (0x1d00_ffff, "1.0"),
        (0x1703_4219, "86388558925171.02"),
        (0x207f_ffff, "4.6565423739069247e-10"),
        (0x1b04_04cb, "16307.420938523983"),
        (0x0100_0000, "0.0"),
    ] {
        let difficulty = difficulty(CompactTarget::from_consensus(bits));
        assert_eq!(
            serde_json::Value::from(difficulty).to_string(),
            printed,
            "{bits:08x}"
        );
    }
}

/// The same transaction through the documented objects and the library's own printers.
fn slow(record: &TxRecord, style: Style) -> objects::Transaction {
    let output = |output: &bitcoin::TxOut| {
        let script = output.script_pubkey.as_script();
        objects::Output {
            scriptpubkey: script.to_hex_string(),
            scriptpubkey_asm: script.to_asm_string(),
            scriptpubkey_type: script_type(script, style.mempool_line).to_owned(),
            scriptpubkey_address: style
                .network
                .bitcoin()
                .and_then(|network| Address::from_script(script, network).ok())
                .map(|a| a.to_string()),
            value: Some(output.value.to_sat()),
            ..objects::Output::default()
        }
    };
    let asm = |script: &[u8]| Script::from_bytes(script).to_asm_string();
    let tx = &record.tx;
    objects::Transaction {
        txid: record.txid.to_string(),
        version: tx.version.0 as u32,
        locktime: tx.lock_time.to_consensus_u32(),
        vin: tx
            .input
            .iter()
            .zip(&record.prevouts)
            .map(|(input, prevout)| {
                let inner = prevout
                    .as_ref()
                    .map(|prevout| inner_scripts(input, prevout))
                    .unwrap_or_default();
                objects::Input {
                    txid: input.previous_output.txid.to_string(),
                    vout: input.previous_output.vout,
                    prevout: prevout.as_deref().map(output),
                    scriptsig: input.script_sig.to_hex_string(),
                    scriptsig_asm: input.script_sig.to_asm_string(),
                    witness: (!input.witness.is_empty()).then(|| {
                        input
                            .witness
                            .iter()
                            .map(|item| item.to_lower_hex_string())
                            .collect()
                    }),
                    is_coinbase: tx.is_coinbase(),
                    sequence: input.sequence.0,
                    inner_redeemscript_asm: inner.redeem.map(asm),
                    inner_witnessscript_asm: inner.witness.map(asm),
                    ..objects::Input::default()
                }
            })
            .collect(),
        vout: tx.output.iter().map(output).collect(),
        size: tx.total_size() as u32,
        weight: tx.weight().to_wu() as u32,
        sigops: style.mempool_line.then(|| sigops(tx, &record.prevouts)),
        fee: record.fee,
        status: match &record.block {
            Some(block) => objects::Status {
                confirmed: true,
                block_height: Some(block.height),
                block_hash: Some(block.hash.to_string()),
                block_time: Some(block.time),
            },
            None => objects::Status {
                confirmed: false,
                block_height: None,
                block_hash: None,
                block_time: None,
            },
        },
        ..objects::Transaction::default()
    }
}

fn assert_same(record: &TxRecord, style: Style) {
    let direct = full_tx(record, style);
    let documented = serde_json::to_string(&slow(record, style)).expect("plain data");
    assert_eq!(direct, documented);
    let read: objects::Transaction = serde_json::from_str(&direct).expect("documented fields only");
    assert_eq!(serde_json::to_string(&read).expect("plain data"), direct);
}

/// Every transaction of a full block of 2021, with the outputs it spends where the block holds them and scripts of
/// every kind in their place where it does not.
#[test]
fn full_block_through_the_documented_objects() {
    let block = cairn_testkit::fixtures::mainnet_block_2021();
    let at = BlockRef {
        hash: block.block_hash(),
        height: 700_000,
        time: block.header.time,
    };
    let p2sh = ScriptBuf::from_hex(&format!("a914{}87", "22".repeat(20))).expect("hex");
    let p2wsh = ScriptBuf::from_hex(&format!("0020{}", "33".repeat(32))).expect("hex");
    let p2tr = ScriptBuf::from_hex(&format!("5120{}", "44".repeat(32))).expect("hex");
    let stand_ins = [p2sh, p2wsh, p2tr];
    let outputs = outputs_of(std::slice::from_ref(&block));
    let mut inner = 0;
    for (index, tx) in block.txdata.iter().enumerate() {
        let prevouts = tx.input.iter().map(|input| {
            if tx.is_coinbase() {
                return None;
            }
            Some(
                outputs
                    .get(&input.previous_output)
                    .cloned()
                    .unwrap_or_else(|| TxOut {
                        value: Amount::from_sat(1_000_000),
                        script_pubkey: stand_ins[index % stand_ins.len()].clone(),
                    }),
            )
        });
        let record = record(tx.clone(), prevouts.collect(), Some(at));
        for mempool_line in [false, true] {
            assert_same(
                &record,
                Style {
                    mempool_line,
                    ..MAINNET
                },
            );
        }
        let shown = slow(&record, MAINNET);
        inner += shown
            .vin
            .iter()
            .filter(|input| input.inner_witnessscript_asm.is_some())
            .count();
    }
    assert!(inner > 50, "the block exercises inner scripts: {inner}");
}

fn outputs_of(blocks: &[Block]) -> HashMap<OutPoint, TxOut> {
    let mut outputs = HashMap::new();
    for tx in blocks.iter().flat_map(|block| &block.txdata) {
        let txid = tx.compute_txid();
        for (vout, output) in tx.output.iter().enumerate() {
            outputs.insert(
                OutPoint {
                    txid,
                    vout: vout as u32,
                },
                output.clone(),
            );
        }
    }
    outputs
}

/// The node prints amounts as decimals of whole coins.
fn satoshi(value: &Value) -> u64 {
    let text = value.to_string();
    let amount = Amount::from_str_in(&text, bitcoin::Denomination::Bitcoin);
    amount
        .or_else(|_| Amount::from_btc(value.as_f64().expect("a number")))
        .expect("an amount")
        .to_sat()
}

/// The node's names of the script kinds that the first blocks have.
fn node_type(kind: &str) -> &'static str {
    match kind {
        "pubkey" => "p2pk",
        "pubkeyhash" => "p2pkh",
        other => panic!("no early block has a {other} output"),
    }
}

fn assert_output(ours: &objects::Output, theirs: &Value) {
    let script = &theirs["scriptPubKey"];
    assert_eq!(ours.value, Some(satoshi(&theirs["value"])));
    assert_eq!(script["hex"], ours.scriptpubkey.as_str());
    assert_eq!(
        ours.scriptpubkey_type,
        node_type(script["type"].as_str().expect("text"))
    );
    assert_eq!(
        script.get("address").and_then(Value::as_str),
        ours.scriptpubkey_address.as_deref()
    );
    // The node's notation has the data without the push opcodes.
    let words = ours
        .scriptpubkey_asm
        .split(' ')
        .filter(|word| !word.starts_with("OP_PUSHBYTES_"));
    let without_pushes: Vec<&str> = words.collect();
    assert_eq!(script["asm"], without_pushes.join(" "));
}

#[test]
fn real_blocks_as_the_node_describes_them() {
    let blocks = cairn_testkit::fixtures::mainnet_blocks();
    let answers = cairn_testkit::fixtures::mainnet_getblock3();
    assert_eq!((blocks.len(), answers.len()), (256, 256));
    let outputs = outputs_of(&blocks);
    let mut spending = 0;
    for (height, (block, answer)) in blocks.iter().zip(&answers).enumerate() {
        let at = BlockRef {
            hash: block.block_hash(),
            height: height as u32,
            time: block.header.time,
        };
        let summary = BlockSummary {
            hash: at.hash,
            height: at.height,
            header: block.header.into(),
            weight: block.weight().to_wu() as u32,
            size: block.total_size() as u32,
            tx_count: block.txdata.len() as u32,
            median_time: answer["mediantime"].as_u64().expect("a time") as u32,
            in_best_chain: true,
        };
        let ours = text(|out| super::block(out, &summary, None));
        let shown: objects::Block = serde_json::from_str(&ours).expect("documented fields only");
        assert_eq!(serde_json::to_string(&shown).expect("plain data"), ours);
        assert_eq!(answer["hash"], shown.id.as_str());
        assert_eq!(answer["height"], shown.height);
        assert_eq!(answer["version"], shown.version);
        assert_eq!(answer["time"], shown.timestamp);
        assert_eq!(answer["nTx"], shown.tx_count);
        assert_eq!(answer["size"], shown.size);
        assert_eq!(answer["weight"], shown.weight);
        assert_eq!(answer["merkleroot"], shown.merkle_root.as_str());
        assert_eq!(
            answer.get("previousblockhash").and_then(Value::as_str),
            shown.previousblockhash.as_deref()
        );
        assert_eq!(answer["nonce"], shown.nonce.expect("work"));
        assert_eq!(answer["bits"], format!("{:08x}", shown.bits.expect("work")));
        assert_eq!(
            answer["difficulty"].as_f64(),
            Some(shown.difficulty.expect("work"))
        );
        for (tx, theirs) in block
            .txdata
            .iter()
            .zip(answer["tx"].as_array().expect("transactions"))
        {
            let prevouts = tx
                .input
                .iter()
                .map(|input| outputs.get(&input.previous_output).cloned())
                .collect();
            let record = record(tx.clone(), prevouts, Some(at));
            assert_same(&record, MAINNET);
            let shown: objects::Transaction =
                serde_json::from_str(&full_tx(&record, MAINNET)).expect("documented fields only");
            assert_eq!(theirs["txid"], shown.txid.as_str());
            assert_eq!(theirs["version"], shown.version);
            assert_eq!(theirs["locktime"], shown.locktime);
            assert_eq!(theirs["size"], shown.size);
            assert_eq!(theirs["weight"], shown.weight);
            assert_eq!(shown.fee, theirs.get("fee").map_or(0, satoshi));
            for (input, theirs) in shown
                .vin
                .iter()
                .zip(theirs["vin"].as_array().expect("inputs"))
            {
                assert_eq!(theirs["sequence"], input.sequence);
                if let Some(script) = theirs.get("coinbase") {
                    assert!(input.is_coinbase && input.prevout.is_none());
                    assert_eq!(*script, input.scriptsig.as_str());
                    assert_eq!(
                        (input.txid.as_str(), input.vout),
                        (&*"0".repeat(64), u32::MAX)
                    );
                    continue;
                }
                spending += 1;
                assert_eq!(theirs["txid"], input.txid.as_str());
                assert_eq!(theirs["vout"], input.vout);
                assert_eq!(theirs["scriptSig"]["hex"], input.scriptsig.as_str());
                let prevout = input
                    .prevout
                    .as_ref()
                    .expect("all outputs are in these blocks");
                assert_output(prevout, &theirs["prevout"]);
            }
            for (output, theirs) in shown
                .vout
                .iter()
                .zip(theirs["vout"].as_array().expect("outputs"))
            {
                assert_output(output, theirs);
            }
        }
    }
    assert!(spending >= 5, "the blocks hold spends: {spending}");
}

fn any_script() -> impl Strategy<Value = ScriptBuf> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60).prop_map(ScriptBuf::from_bytes),
        any::<[u8; 32]>()
            .prop_map(|hash| ScriptBuf::from_bytes([&[0x00, 0x20][..], &hash].concat())),
        any::<[u8; 32]>()
            .prop_map(|hash| ScriptBuf::from_bytes([&[0x51, 0x20][..], &hash].concat())),
        any::<[u8; 20]>()
            .prop_map(|hash| ScriptBuf::from_bytes([&[0xa9, 0x14][..], &hash, &[0x87]].concat())),
        any::<[u8; 2]>()
            .prop_map(|data| ScriptBuf::from_bytes([&[0x60, 0x02][..], &data].concat())),
    ]
}

prop_compose! {
    fn any_output()(script_pubkey in any_script(), value in 0u64..=21_000_000 * 100_000_000) -> TxOut {
        TxOut { value: Amount::from_sat(value), script_pubkey }
    }
}

prop_compose! {
    fn any_input()(
        txid: [u8; 32], vout: u32, script_sig in any_script(), sequence: u32,
        witness in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
    ) -> TxIn {
        TxIn {
            previous_output: OutPoint { txid: Txid::from_byte_array(txid), vout },
            script_sig,
            sequence: bitcoin::Sequence(sequence),
            witness: bitcoin::Witness::from_slice(&witness),
        }
    }
}

proptest! {
    #[test]
    fn any_transaction_is_written_as_documented(
        version: i32,
        locktime: u32,
        inputs in prop::collection::vec((any_input(), any_output()), 1..4),
        output in prop::collection::vec(any_output(), 0..4),
        network in prop::sample::select(vec![Network::Bitcoin, Network::Testnet4, Network::Regtest]),
    ) {
        let (input, prevouts): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        let tx = Transaction {
            version: bitcoin::transaction::Version(version),
            lock_time: bitcoin::absolute::LockTime::from_consensus(locktime),
            input,
            output,
        };
        let record = record(tx, prevouts.into_iter().map(Some).collect(), None);
        assert_same(&record, Style { network: network.into(), mempool_line: false });
    }
}
