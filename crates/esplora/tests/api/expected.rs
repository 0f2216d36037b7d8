//! The API's objects as they must be, made from the model with the `bitcoin` crate's own printers.

use bitcoin::hex::DisplayHex;
use bitcoin::{Address, Network, Script, ScriptBuf, TxIn, TxOut, Txid};
use cairn_esplora::objects::{
    Block, Input, Output, Spend, Stats, Status, Transaction, TxSummary, Utxo,
};
use cairn_testkit::ScriptHash;
use cairn_testkit::{Model, ModelBlock, ModelTx, Place, TouchKind};

pub(crate) fn unconfirmed() -> Status {
    Status {
        confirmed: false,
        block_height: None,
        block_hash: None,
        block_time: None,
    }
}

pub(crate) fn status(model: &Model, height: u32) -> Status {
    let block = model.block_at(height).expect("a height of the model");
    Status {
        confirmed: true,
        block_height: Some(height),
        block_hash: Some(block.hash.to_string()),
        block_time: Some(block.block.header.time),
    }
}

pub(crate) fn block(block: &ModelBlock) -> Block {
    let header = &block.block.header;
    Block {
        id: block.hash.to_string(),
        height: block.height,
        version: header.version.to_consensus() as u32,
        timestamp: header.time,
        tx_count: block.txids.len() as u32,
        size: block.size,
        weight: block.weight,
        merkle_root: header.merkle_root.to_string(),
        previousblockhash: (block.height > 0).then(|| header.prev_blockhash.to_string()),
        mediantime: block.median_time,
        nonce: Some(header.nonce),
        bits: Some(header.bits.to_consensus()),
        difficulty: Some(4.6565423739069247e-10),
        ext: None,
    }
}

/// The kind of a script by its bytes.
fn kind(script: &Script) -> &'static str {
    match script.as_bytes() {
        [] => "empty",
        [0x6a, ..] => "op_return",
        [0x21, key @ .., 0xac] if key.len() == 33 => "p2pk",
        [0x41, key @ .., 0xac] if key.len() == 65 => "p2pk",
        [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => "p2pkh",
        [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => "p2sh",
        [0x00, 0x14, hash @ ..] if hash.len() == 20 => "v0_p2wpkh",
        [0x00, 0x20, hash @ ..] if hash.len() == 32 => "v0_p2wsh",
        [0x51, 0x20, key @ ..] if key.len() == 32 => "v1_p2tr",
        [
            0x50
            | 0x65
            | 0x66
            | 0x7e..=0x81
            | 0x83..=0x86
            | 0x89
            | 0x8a
            | 0x8d
            | 0x8e
            | 0x95..=0x99,
            ..,
        ] => "provably_unspendable",
        [0xba..=0xff, ..] => "provably_unspendable",
        _ => "unknown",
    }
}

fn output(output: &TxOut) -> Output {
    let script = output.script_pubkey.as_script();
    Output {
        scriptpubkey: script.to_hex_string(),
        scriptpubkey_asm: script.to_asm_string(),
        scriptpubkey_type: kind(script).to_owned(),
        scriptpubkey_address: address(script),
        value: Some(output.value.to_sat()),
        ..Default::default()
    }
}

pub(crate) fn address(script: &Script) -> Option<String> {
    Address::from_script(script, Network::Regtest)
        .ok()
        .map(|address| address.to_string())
}

fn input(input: &TxIn, prevout: Option<&TxOut>) -> Input {
    let kind = prevout.map_or("", |prevout| kind(&prevout.script_pubkey));
    // Every scriptSig of a generated chain is pushes only, so the last push is at its end.
    let redeem: Option<ScriptBuf> = (kind == "p2sh").then(|| {
        input
            .script_sig
            .redeem_script()
            .expect("pushes only")
            .to_owned()
    });
    let is_wsh = kind == "v0_p2wsh"
        || redeem
            .as_ref()
            .is_some_and(|script| self::kind(script) == "v0_p2wsh");
    let witness =
        is_wsh.then(|| ScriptBuf::from_bytes(input.witness.last().expect("a script").to_vec()));
    Input {
        txid: input.previous_output.txid.to_string(),
        vout: input.previous_output.vout,
        prevout: prevout.map(output),
        scriptsig: input.script_sig.to_hex_string(),
        scriptsig_asm: input.script_sig.to_asm_string(),
        witness: (!input.witness.is_empty()).then(|| {
            input
                .witness
                .iter()
                .map(|item| item.to_lower_hex_string())
                .collect()
        }),
        is_coinbase: prevout.is_none(),
        sequence: input.sequence.0,
        inner_redeemscript_asm: redeem.map(|script| script.to_asm_string()),
        inner_witnessscript_asm: witness.map(|script| script.to_asm_string()),
        ..Default::default()
    }
}

pub(crate) fn tx_of(tx: &ModelTx, status: Status) -> Transaction {
    Transaction {
        txid: tx.tx.compute_txid().to_string(),
        version: tx.tx.version.0 as u32,
        locktime: tx.tx.lock_time.to_consensus_u32(),
        vin: tx
            .tx
            .input
            .iter()
            .zip(&tx.prevouts)
            .map(|(i, prevout)| input(i, prevout.as_ref()))
            .collect(),
        vout: tx.tx.output.iter().map(output).collect(),
        size: tx.tx.total_size() as u32,
        weight: tx.tx.weight().to_wu() as u32,
        sigops: None,
        fee: tx.fee,
        status,
        ..Default::default()
    }
}

pub(crate) fn tx(model: &Model, txid: &Txid) -> Transaction {
    let tx = model.tx(txid).expect("a transaction of the model");
    tx_of(&tx, status(model, tx.place.height))
}

pub(crate) fn spend(model: &Model, spend: Option<(Txid, u32, Place)>) -> Spend {
    match spend {
        Some((txid, vin, place)) => Spend {
            spent: true,
            txid: Some(txid.to_string()),
            vin: Some(vin),
            status: Some(status(model, place.height)),
        },
        None => Spend {
            spent: false,
            txid: None,
            vin: None,
            status: None,
        },
    }
}

pub(crate) fn stats(model: &Model, script: &ScriptHash) -> Stats {
    let stats = model.stats(script);
    Stats {
        funded_txo_count: stats.funded_txo_count,
        funded_txo_sum: Some(stats.funded_txo_sum),
        spent_txo_count: stats.spent_txo_count,
        spent_txo_sum: Some(stats.spent_txo_sum),
        tx_count: stats.tx_count,
    }
}

pub(crate) fn utxos(model: &Model, script: &ScriptHash) -> Vec<Utxo> {
    let utxos = model.utxos(script).into_iter().map(|utxo| Utxo {
        txid: utxo.outpoint.txid.to_string(),
        vout: utxo.outpoint.vout,
        status: status(model, utxo.place.height),
        value: Some(utxo.output.value.to_sat()),
        ..Default::default()
    });
    utxos.collect()
}

/// The union of the scripts' histories, newest first.
pub(crate) fn history(model: &Model, scripts: &[ScriptHash]) -> Vec<(Txid, Place)> {
    let mut all: Vec<(Place, Txid)> = scripts
        .iter()
        .flat_map(|script| model.history(script))
        .map(|(txid, place)| (place, txid))
        .collect();
    all.sort();
    all.dedup();
    all.into_iter()
        .rev()
        .map(|(place, txid)| (txid, place))
        .collect()
}

pub(crate) fn summary(model: &Model, scripts: &[ScriptHash]) -> Vec<TxSummary> {
    history(model, scripts)
        .into_iter()
        .map(|(txid, place)| {
            let touches = scripts.iter().flat_map(|script| model.touches(script));
            let of_tx = touches.filter(|touch| touch.txid == txid && touch.place == place);
            let change = of_tx.map(|touch| match touch.kind {
                TouchKind::Fund { .. } => touch.value as i64,
                TouchKind::Spend { .. } => -(touch.value as i64),
            });
            let block = model.block_at(place.height).expect("a height of the model");
            TxSummary {
                txid: txid.to_string(),
                height: place.height,
                value: change.sum(),
                time: block.block.header.time,
                tx_position: place.position,
            }
        })
        .collect()
}
