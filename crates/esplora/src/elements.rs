//! What the API says of Elements beyond Bitcoin: assets, commitments, issuances, pegs, signed headers.

use bitcoin::Script;
use cairn_utxo_chain::elements::{BlockExt, DynafedParams, Issuance, Pegout, block_ext};
use cairn_utxo_chain::tx::{ElementsInput, ElementsOutput};
use cairn_utxo_chain::{ElementsChain, Field, address};
use cairn_utxo_index::Network;

use crate::json::JsonBuf;
use crate::render::write_asm_field;

/// Since blocks of this time, Unix seconds, Liquid's nodes price transactions by their discounted size.
const DISCOUNT_SINCE: u32 = 1_734_120_000;
/// Begins the discounted sizes, which end the body of a transaction.
const DISCOUNT_FIELD: &[u8] = b",\"discount_vsize\":";

/// The discounted sizes, to end the body of a transaction with.
pub(crate) fn write_discount(out: &mut JsonBuf, weight: usize) {
    let weight = weight as u64;
    out.raw(",\"discount_vsize\":").number(weight.div_ceil(4));
    out.raw(",\"discount_weight\":").number(weight);
}

/// The body of a transaction for a block of that time: the discounted sizes meant nothing before.
pub(crate) fn body_at(body: &[u8], block_time: u32) -> &[u8] {
    if block_time >= DISCOUNT_SINCE {
        return body;
    }
    let start = body
        .windows(DISCOUNT_FIELD.len())
        .rposition(|window| window == DISCOUNT_FIELD);
    start.map_or(body, |start| &body[..start])
}

/// A plain or blinded thing under the name of its form.
fn write_field(out: &mut JsonBuf, field: &Field, plain: &str, blinded: &str) {
    if let Some(amount) = field
        .explicit_value()
        .filter(|_| field.as_bytes().len() == 9)
    {
        out.raw(",\"").raw(plain).raw("\":").number(amount);
    } else if let Some(bytes) = field.commitment() {
        out.raw(",\"")
            .raw(blinded)
            .raw("\":\"")
            .hex(bytes)
            .raw("\"");
    }
}

/// Value and asset of an output.
pub(crate) fn write_worth(out: &mut JsonBuf, output: &ElementsOutput) {
    write_field(out, &output.value, "value", "valuecommitment");
    if let Some(asset) = output.asset.explicit_asset() {
        out.raw(",\"asset\":").reversed(asset.to_byte_array());
    } else {
        write_field(out, &output.asset, "asset", "assetcommitment");
    }
}

/// Where an output sends coins of the parent chain, if it does.
pub(crate) fn write_pegout(
    out: &mut JsonBuf,
    chain: &ElementsChain,
    script: &Script,
    output: &ElementsOutput,
) {
    let is_native = output.asset.explicit_asset() == Some(chain.native_asset);
    if !is_native || output.value.explicit_value().is_none() {
        return;
    }
    let Some(pegout) = Pegout::parse(script.as_bytes())
        .filter(|pegout| pegout.parent_genesis == chain.parent_genesis())
    else {
        return;
    };
    out.raw(",\"pegout\":{\"genesis_hash\":")
        .hash(pegout.parent_genesis);
    out.raw(",\"scriptpubkey\":\"")
        .hex(pegout.script_pubkey.as_bytes());
    out.raw("\",\"scriptpubkey_asm\":");
    write_asm_field(out, pegout.script_pubkey);
    let parent = Network::Bitcoin(chain.parent);
    if let Some(address) = address::address_of(pegout.script_pubkey, parent) {
        out.raw(",\"scriptpubkey_address\":\"")
            .raw(&address)
            .raw("\"");
    }
    out.raw("}");
}

/// What an input has beyond Bitcoin's.
pub(crate) fn write_input(out: &mut JsonBuf, input: &bitcoin::TxIn, elements: &ElementsInput) {
    out.raw(",\"is_pegin\":").boolean(elements.is_pegin);
    if let Some(issuance) = &elements.issuance {
        write_issuance(out, input, issuance);
    }
}

fn write_issuance(out: &mut JsonBuf, input: &bitcoin::TxIn, issuance: &Issuance) {
    let kind = issuance.kind(&input.previous_output);
    out.raw(",\"issuance\":{\"asset_id\":")
        .reversed(kind.asset.to_byte_array());
    out.raw(",\"is_reissuance\":").boolean(kind.is_reissuance);
    if kind.is_reissuance {
        out.raw(",\"asset_blinding_nonce\":")
            .reversed(issuance.blinding_nonce);
    }
    if let Some(contract) = issuance.contract_hash() {
        out.raw(",\"contract_hash\":").reversed(contract);
    }
    out.raw(",\"asset_entropy\":").reversed(kind.entropy);
    write_field(
        out,
        &issuance.amount,
        "assetamount",
        "assetamountcommitment",
    );
    write_field(
        out,
        &issuance.tokens,
        "tokenamount",
        "tokenamountcommitment",
    );
    out.raw("}");
}

/// An unspent output beyond place and status. `output` is that of its transaction, with proofs.
pub(crate) fn write_unspent(out: &mut JsonBuf, output: &ElementsOutput) {
    write_worth(out, output);
    if let Some(nonce) = output.nonce.explicit_bytes() {
        out.raw(",\"nonce\":\"").hex(nonce).raw("\"");
    } else {
        write_field(out, &output.nonce, "nonce", "noncecommitment");
    }
    for (name, proof) in [
        ("surjection_proof", &output.surjection_proof),
        ("range_proof", &output.range_proof),
    ] {
        if !proof.is_empty() {
            out.raw(",\"").raw(name).raw("\":\"").hex(proof).raw("\"");
        }
    }
}

/// What a block has instead of proof of work. Nothing for bytes that are not its header.
pub(crate) fn write_ext(out: &mut JsonBuf, header: &[u8]) {
    let Ok(ext) = block_ext(header) else { return };
    out.raw(",\"ext\":{");
    match ext {
        BlockExt::Proof {
            challenge,
            solution,
        } => {
            out.raw("\"challenge\":\"").hex(challenge);
            out.raw("\",\"solution\":\"").hex(solution).raw("\"");
        }
        BlockExt::Dynafed {
            current,
            proposed,
            signblock_witness,
        } => {
            out.raw("\"current\":");
            write_params(out, &current);
            out.raw(",\"proposed\":");
            write_params(out, &proposed);
            out.raw(",\"signblock_witness\":");
            write_items(out, &signblock_witness);
        }
    }
    out.raw("}");
}

fn write_params(out: &mut JsonBuf, params: &DynafedParams<'_>) {
    out.raw("{");
    match params {
        DynafedParams::Null => {}
        DynafedParams::Compact {
            signblockscript,
            signblock_witness_limit,
            elided_root,
        } => {
            out.raw("\"signblockscript\":\"").hex(signblockscript);
            out.raw("\",\"signblock_witness_limit\":")
                .number(*signblock_witness_limit);
            out.raw(",\"elided_root\":").reversed(**elided_root);
        }
        DynafedParams::Full {
            signblockscript,
            signblock_witness_limit,
            fedpeg_program,
            fedpegscript,
            extension_space,
        } => {
            out.raw("\"signblockscript\":\"").hex(signblockscript);
            out.raw("\",\"signblock_witness_limit\":")
                .number(*signblock_witness_limit);
            out.raw(",\"fedpeg_program\":\"").hex(fedpeg_program);
            out.raw("\",\"fedpegscript\":\"").hex(fedpegscript);
            out.raw("\",\"extension_space\":");
            write_items(out, extension_space);
        }
    }
    out.raw("}");
}

fn write_items(out: &mut JsonBuf, items: &[&[u8]]) {
    out.array(items, |out, item| {
        out.raw("\"").hex(item).raw("\"");
    });
}
