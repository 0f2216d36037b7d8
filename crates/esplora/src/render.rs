//! From the index's answers to the bytes of the API's objects. The shapes are those of [`crate::objects`].

use bitcoin::pow::CompactTarget;
use bitcoin::{Script, TxIn, Txid};
use cairn_utxo_chain::tx::ElementsOutput;
use cairn_utxo_index::{
    BlockRef, BlockSummary, Family, MempoolEntry, MerkleProof, Network, Output, Proof, ScriptStats,
    Spending, Tx, TxRecord, Unspent,
};

use crate::asm::write_asm;
use crate::elements;
use crate::json::JsonBuf;
use crate::script::{inner_scripts, script_type};
use cairn_utxo_chain::address::address_of;

/// What an answer depends on beside the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Whose addresses to print.
    pub(crate) network: Network,
    /// Whether to write what only the mempool line has: `sigops`, type `multisig`.
    pub(crate) mempool_line: bool,
}

/// JSON bytes of a transaction per byte of it, about; for reserving room.
const JSON_PER_BYTE: usize = 6;
/// JSON bytes of an empty transaction, about.
const JSON_BASE: usize = 256;

/// `{"confirmed":…}`
pub(crate) fn status(out: &mut JsonBuf, block: Option<&BlockRef>) {
    match block {
        Some(block) => {
            out.raw("{\"confirmed\":true,\"block_height\":")
                .number(block.height);
            out.raw(",\"block_hash\":").hash(block.hash);
            out.raw(",\"block_time\":").number(block.time).raw("}");
        }
        None => {
            out.raw("{\"confirmed\":false}");
        }
    }
}

/// A transaction up to, but without, its status and the closing brace: what never changes about it.
pub(crate) fn tx_body(record: &TxRecord, style: Style) -> Vec<u8> {
    let tx = &record.tx;
    let mut out = JsonBuf::with_capacity(JSON_BASE + JSON_PER_BYTE * record.size as usize);
    out.raw("{\"txid\":").hash(record.txid);
    out.raw(",\"version\":")
        .number(tx.version.0.cast_unsigned());
    out.raw(",\"locktime\":")
        .number(tx.lock_time.to_consensus_u32());
    let is_coinbase = tx.is_coinbase();
    out.raw(",\"vin\":")
        .array(tx.input.iter().enumerate(), |out, (index, input)| {
            let prevout = record.prevouts.get(index).and_then(Option::as_ref);
            write_input(out, input, prevout, is_coinbase, style);
            if let Some(more) = tx.elements_input(index) {
                elements::write_input(out, input, more);
            }
            out.raw("}");
        });
    out.raw(",\"vout\":")
        .array(tx.output.iter().enumerate(), |out, (vout, output)| {
            write_output(out, output, tx.elements_output(vout), style);
        });
    out.raw(",\"size\":").number(record.size);
    out.raw(",\"weight\":").number(record.weight);
    if style.mempool_line {
        out.raw(",\"sigops\":").number(sigops(tx, &record.prevouts));
    }
    out.raw(",\"fee\":").number(record.fee);
    if tx.elements().is_some() {
        elements::write_discount(&mut out, tx.discount_weight(record.weight as usize));
    }
    out.into_bytes()
}

/// A whole transaction from its body.
pub(crate) fn tx(out: &mut JsonBuf, body: &[u8], block: Option<&BlockRef>) {
    let body = block.map_or(body, |block| elements::body_at(body, block.time));
    out.json(body).raw(",\"status\":");
    status(out, block);
    out.raw("}");
}

/// An unconfirmed transaction.
pub(crate) fn unconfirmed_tx(out: &mut JsonBuf, entry: &MempoolEntry, style: Style) {
    tx(out, &tx_body(&entry.record(), style), None);
}

/// An unconfirmed transaction in short. `value` is what its inputs are worth.
pub(crate) fn recent(out: &mut JsonBuf, entry: &MempoolEntry) {
    out.raw("{\"txid\":").hash(entry.txid);
    out.raw(",\"fee\":").number(entry.fee);
    out.raw(",\"vsize\":").number(entry.vsize());
    match entry.input_value() {
        Some(value) => out.raw(",\"value\":").number(value),
        None => out
            .raw(",\"discount_vsize\":")
            .number(entry.discount_vsize()),
    };
    out.raw("}");
}

/// The signature operation cost.
fn sigops(tx: &Tx, prevouts: &[Option<Output>]) -> u64 {
    let cost = tx.total_sigop_cost(|outpoint| {
        let index = tx
            .input
            .iter()
            .position(|input| input.previous_output == *outpoint)?;
        prevouts.get(index)?.as_deref().cloned()
    });
    cost as u64
}

pub(crate) fn write_asm_field(out: &mut JsonBuf, script: &Script) {
    out.raw("\"");
    write_asm(out, script.as_bytes());
    out.raw("\"");
}

fn write_input(
    out: &mut JsonBuf,
    input: &TxIn,
    prevout: Option<&Output>,
    is_coinbase: bool,
    style: Style,
) {
    out.raw("{\"txid\":").hash(input.previous_output.txid);
    out.raw(",\"vout\":").number(input.previous_output.vout);
    out.raw(",\"prevout\":");
    match prevout {
        Some(output) => write_output(out, output, output.elements(), style),
        None => {
            out.raw("null");
        }
    }
    out.raw(",\"scriptsig\":\"")
        .hex(input.script_sig.as_bytes());
    out.raw("\",\"scriptsig_asm\":");
    write_asm_field(out, &input.script_sig);
    if !input.witness.is_empty() {
        out.raw(",\"witness\":")
            .array(input.witness.iter(), |out, item| {
                out.raw("\"").hex(item).raw("\"");
            });
    }
    out.raw(",\"is_coinbase\":").boolean(is_coinbase);
    out.raw(",\"sequence\":").number(input.sequence.0);
    if let Some(prevout) = prevout {
        let inner = inner_scripts(input, prevout);
        if let Some(script) = inner.redeem {
            out.raw(",\"inner_redeemscript_asm\":");
            write_asm_field(out, Script::from_bytes(script));
        }
        if let Some(script) = inner.witness {
            out.raw(",\"inner_witnessscript_asm\":");
            write_asm_field(out, Script::from_bytes(script));
        }
    }
}

fn write_output(
    out: &mut JsonBuf,
    output: &bitcoin::TxOut,
    elements: Option<&ElementsOutput>,
    style: Style,
) {
    let script = output.script_pubkey.as_script();
    out.raw("{\"scriptpubkey\":\"").hex(script.as_bytes());
    out.raw("\",\"scriptpubkey_asm\":");
    write_asm_field(out, script);
    out.raw(",\"scriptpubkey_type\":\"").raw(match elements {
        Some(more) if more.is_fee(script.as_bytes()) => "fee",
        _ => script_type(script, style.mempool_line),
    });
    if let Some(address) = address_of(script, style.network) {
        // An address has nothing that JSON escapes.
        out.raw("\",\"scriptpubkey_address\":\"").raw(&address);
    }
    out.raw("\"");
    match (elements, style.network) {
        (Some(more), Network::Elements(chain)) => {
            elements::write_worth(out, more);
            elements::write_pegout(out, chain, script, more);
        }
        _ => {
            out.raw(",\"value\":").number(output.value.to_sat());
        }
    }
    out.raw("}");
}

/// A block. `header` is its serialized header, where what it has instead of proof of work is wanted.
pub(crate) fn block(out: &mut JsonBuf, block: &BlockSummary, header_bytes: Option<&[u8]>) {
    let header = &block.header;
    out.raw("{\"id\":").hash(block.hash);
    out.raw(",\"height\":").number(block.height);
    out.raw(",\"version\":")
        .number(header.version.to_consensus().cast_unsigned());
    out.raw(",\"timestamp\":").number(header.time);
    out.raw(",\"tx_count\":").number(block.tx_count);
    out.raw(",\"size\":").number(block.size);
    out.raw(",\"weight\":").number(block.weight);
    out.raw(",\"merkle_root\":").hash(header.merkle_root);
    out.raw(",\"previousblockhash\":");
    if block.height == 0 {
        out.raw("null");
    } else {
        out.hash(header.prev_blockhash);
    }
    out.raw(",\"mediantime\":").number(block.median_time);
    match header.proof {
        Proof::Work { bits, nonce } => {
            out.raw(",\"nonce\":").number(nonce);
            out.raw(",\"bits\":").number(bits.to_consensus());
            out.raw(",\"difficulty\":").float(difficulty(bits));
        }
        Proof::Signed { .. } => {
            if let Some(bytes) = header_bytes {
                elements::write_ext(out, bytes);
            }
        }
    }
    out.raw("}");
}

/// Difficulty from the compact target, in the same floating point steps as the node: a quotient of mantissas, then
/// whole bytes of exponent. 0 for a target of zero, which no block has.
pub(crate) fn difficulty(bits: CompactTarget) -> f64 {
    /// Mantissa and exponent of the easiest target of the main network.
    const EASIEST_MANTISSA: f64 = 65535.0;
    const EASIEST_EXPONENT: u32 = 29;
    let bits = bits.to_consensus();
    let mantissa = bits & 0x00ff_ffff;
    if mantissa == 0 {
        return 0.0;
    }
    let mut difficulty = EASIEST_MANTISSA / f64::from(mantissa);
    let exponent = bits >> 24;
    for _ in exponent..EASIEST_EXPONENT {
        difficulty *= 256.0;
    }
    for _ in EASIEST_EXPONENT..exponent {
        difficulty /= 256.0;
    }
    difficulty
}

/// Who spends an output.
pub(crate) fn spend(out: &mut JsonBuf, spend: Option<&Spending>) {
    match spend {
        Some(spend) => {
            out.raw("{\"spent\":true,\"txid\":").hash(spend.txid);
            out.raw(",\"vin\":").number(spend.vin).raw(",\"status\":");
            status(out, spend.block.as_ref());
            out.raw("}");
        }
        None => {
            out.raw("{\"spent\":false}");
        }
    }
}

/// The spends of all outputs of a transaction.
pub(crate) fn spends(out: &mut JsonBuf, spends: &[Option<Spending>]) {
    out.array(spends, |out, entry| spend(out, entry.as_ref()));
}

/// Unspent outputs; on Elements each with the output itself.
pub(crate) fn utxos(out: &mut JsonBuf, utxos: &[(Unspent, Option<ElementsOutput>)]) {
    out.array(utxos, |out, (utxo, elements)| {
        out.raw("{\"txid\":").hash(utxo.outpoint.txid);
        out.raw(",\"vout\":")
            .number(utxo.outpoint.vout)
            .raw(",\"status\":");
        status(out, utxo.block.as_ref());
        match (elements, utxo.value) {
            (Some(output), _) => elements::write_unspent(out, output),
            (None, Some(value)) => {
                out.raw(",\"value\":").number(value.to_sat());
            }
            (None, None) => {}
        }
        out.raw("}");
    });
}

/// Transaction ids or block hashes.
pub(crate) fn txids(out: &mut JsonBuf, txids: &[Txid]) {
    out.array(txids, |out, txid| {
        out.hash(*txid);
    });
}

/// A merkle proof.
pub(crate) fn merkle_proof(out: &mut JsonBuf, proof: &MerkleProof) {
    out.raw("{\"block_height\":").number(proof.block.height);
    out.raw(",\"merkle\":").array(&proof.branch, |out, node| {
        out.hash(*node);
    });
    out.raw(",\"pos\":").number(proof.pos).raw("}");
}

/// The totals of a script; `field` and `asked` name it as the client did.
pub(crate) fn script_stats(
    out: &mut JsonBuf,
    family: Family,
    (field, asked): (&str, &str),
    chain: &ScriptStats,
    mempool: &ScriptStats,
) {
    out.raw("{\"")
        .raw(field)
        .raw("\":\"")
        .raw(asked)
        .raw("\",\"chain_stats\":");
    stats(out, family, chain);
    out.raw(",\"mempool_stats\":");
    stats(out, family, mempool);
    out.raw("}");
}

/// Without sums on Elements, where amounts may be blinded.
fn stats(out: &mut JsonBuf, family: Family, stats: &ScriptStats) {
    let has_sums = family == Family::Bitcoin;
    out.raw("{\"funded_txo_count\":")
        .number(stats.funded_txo_count);
    if has_sums {
        out.raw(",\"funded_txo_sum\":").number(stats.funded_txo_sum);
    }
    out.raw(",\"spent_txo_count\":")
        .number(stats.spent_txo_count);
    if has_sums {
        out.raw(",\"spent_txo_sum\":").number(stats.spent_txo_sum);
    }
    out.raw(",\"tx_count\":").number(stats.tx_count).raw("}");
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
