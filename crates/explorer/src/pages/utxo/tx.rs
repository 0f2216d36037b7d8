//! `/{chain}/tx/{txid}`: one transaction, its inputs beside its outputs.

use std::str::FromStr;

use askama::Template;
use bitcoin::{TxIn, TxOut, Txid};
use cairn_utxo_index::{MerkleProof, Spending, TxRecord};

use super::block::{page_number, total_out};
use super::chain::{COINS_PER_PAGE, Chain, Owner};
use super::{Answer, Frame, Scene};
use crate::error::PageError;
use crate::present::{
    Amount, Clipped, Copy, Hash, LockTime, Sequence, Stamp, age, bytes, coinbase_text, count,
    data_text, fee_rate, inner_scripts,
};
use crate::site::Shell;

/// Witness items of one input that a page shows.
const WITNESS_ITEMS_MAX: usize = 24;

/// The page.
#[derive(Template)]
#[template(path = "utxo/tx.html")]
pub(super) struct TxPage {
    shell: Shell,
    chain: Chain,
    txid: Hash,
    copy: Copy,
    api_href: String,
    coinbase: bool,
    replaceable: bool,
    segwit: bool,
    block: Option<InBlock>,
    /// Whether it waits in the mempool for a block.
    waits: bool,
    total_in: Option<Amount>,
    total_out: Amount,
    fee: Option<Amount>,
    rate: String,
    size: String,
    vsize: String,
    weight: String,
    version: String,
    lock_time: LockTime,
    lock_time_ignored: bool,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    input_pages: CoinPages,
    output_pages: CoinPages,
    proof: Option<Proof>,
}

/// What ties the transaction to its block: position and sibling hashes, leaves first.
struct Proof {
    position: String,
    branch: Vec<Hash>,
}

impl Proof {
    fn new(proof: &MerkleProof) -> Self {
        Proof {
            position: count(proof.pos.into()),
            branch: proof.branch.iter().map(Hash::new).collect(),
        }
    }
}

/// The block that confirms the transaction.
struct InBlock {
    href: String,
    height: String,
    time: Stamp,
    age: String,
    confirmations: String,
}

/// One input.
struct Input {
    index: usize,
    /// `None`: the coinbase, which spends nothing.
    spent: Option<SpentOutput>,
    coinbase_text: Option<String>,
    script_sig: Option<(Clipped, Clipped)>,
    inner: Vec<(&'static str, Clipped)>,
    witness: Vec<Clipped>,
    witness_more: usize,
    sequence: Sequence,
}

/// The output that an input spends.
struct SpentOutput {
    href: String,
    txid: Hash,
    vout: u32,
    owner: Owner,
    value: Amount,
}

/// One output.
struct Output {
    index: usize,
    owner: Owner,
    value: Amount,
    text: Option<String>,
    asm: Clipped,
    hex: Clipped,
    fate: Fate,
}

/// What became of an output.
enum Fate {
    /// Nobody can spend it.
    Unspendable,
    /// Nobody has spent it yet.
    Unspent,
    /// Spent by an input.
    Spent {
        /// Where the input is.
        href: String,
        /// The spending transaction.
        txid: Hash,
        /// Height of the block that confirms it; `None`: unconfirmed.
        height: Option<String>,
    },
}

/// Which part of the inputs or outputs is shown, and where the rest is.
struct CoinPages {
    /// Number of all.
    total: String,
    /// Index of the first shown and of the one after the last, for people.
    range: Option<(String, String)>,
    previous: Option<String>,
    next: Option<String>,
}

/// Which pages of inputs and outputs are asked for, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoinSelection {
    inputs: usize,
    outputs: usize,
}

impl CoinSelection {
    /// Reads the two query parameters.
    pub(super) fn parse(inputs: Option<&str>, outputs: Option<&str>) -> Result<Self, PageError> {
        Ok(CoinSelection {
            inputs: page_number(inputs)?,
            outputs: page_number(outputs)?,
        })
    }
}

impl TxPage {
    /// Reads a transaction.
    pub(super) fn read(
        scene: &Scene<'_>,
        txid: &str,
        selection: CoinSelection,
    ) -> Result<Answer<Self>, PageError> {
        let txid = Txid::from_str(txid).map_err(|_| {
            PageError::BadRequest(format!("\u{201c}{txid}\u{201d} is not a transaction id."))
        })?;
        let missing = || PageError::not_found(format!("This index has no transaction {txid}."));
        let record = scene.view.tx(&txid)?.ok_or_else(missing)?;
        let spends = scene.view.spendings(&txid)?.ok_or_else(missing)?;
        let waits = scene.view.mempool().contains(&txid);
        let frame = scene.frame(&format!("Transaction {txid}"));
        let mut page = Self::new(frame, &record, &spends, waits, selection)?;
        if record.block.is_some() {
            page.proof = scene.view.merkle_proof(&txid)?.as_ref().map(Proof::new);
        }
        Ok(Answer::Page(page))
    }

    fn new(
        frame: Frame,
        record: &TxRecord,
        spends: &[Option<Spending>],
        waits: bool,
        selection: CoinSelection,
    ) -> Result<Self, PageError> {
        let chain = &frame.chain;
        let tx = &record.tx;
        let coinbase = tx.is_coinbase();
        // Consensus compares versions as unsigned since BIP 68, and the API prints them so.
        let version = tx.version.0.cast_unsigned();
        let in_range = window(selection.inputs, tx.input.len(), "inputs")?;
        let out_range = window(selection.outputs, tx.output.len(), "outputs")?;
        let inputs = in_range
            .map(|i| {
                let prevout = record.prevouts.get(i).and_then(Option::as_deref);
                Input::new(chain, i, &tx.input[i], prevout, version)
            })
            .collect::<Vec<_>>();
        let outputs = out_range
            .map(|i| {
                Output::new(
                    chain,
                    i,
                    &tx.output[i],
                    spends.get(i).and_then(Option::as_ref),
                )
            })
            .collect();
        let page_href = |inputs: usize, outputs: usize| {
            format!(
                "{}?inputs={inputs}&outputs={outputs}",
                chain.tx_href(&record.txid)
            )
        };
        let total_in = record
            .prevouts
            .iter()
            .flatten()
            .fold(0u64, |sum, o| sum.saturating_add(o.value.to_sat()));
        Ok(TxPage {
            txid: Hash::new(record.txid),
            copy: Copy::new(record.txid),
            api_href: format!("{}/tx/{}", chain.api_base, record.txid),
            coinbase,
            replaceable: !coinbase && tx.is_explicitly_rbf(),
            segwit: tx.input.iter().any(|input| !input.witness.is_empty()),
            waits,
            block: record.block.map(|block| InBlock {
                href: chain.block_href(&block.hash),
                height: count(block.height.into()),
                time: Stamp(block.time),
                age: age(frame.now, block.time),
                confirmations: frame.confirmations(block.height),
            }),
            total_in: (!coinbase).then_some(Amount(total_in)),
            total_out: Amount(total_out(record)),
            fee: (!coinbase).then_some(Amount(record.fee)),
            rate: fee_rate(record.fee, record.weight),
            size: bytes(record.size.into()),
            vsize: count(u64::from(record.weight).div_ceil(4)),
            weight: count(record.weight.into()),
            version: count(version.into()),
            lock_time: LockTime::new(tx.lock_time.to_consensus_u32()),
            lock_time_ignored: tx.input.iter().all(|input| input.sequence.0 == u32::MAX),
            inputs,
            outputs,
            input_pages: CoinPages::new(tx.input.len(), selection.inputs, |n| {
                page_href(n, selection.outputs)
            }),
            proof: None,
            output_pages: CoinPages::new(tx.output.len(), selection.outputs, |n| {
                page_href(selection.inputs, n)
            }),
            shell: frame.shell.live(),
            chain: frame.chain,
        })
    }
}

/// Indexes on a page; a page beyond the end does not exist.
fn window(page: usize, len: usize, what: &str) -> Result<std::ops::Range<usize>, PageError> {
    let start = (page - 1).saturating_mul(COINS_PER_PAGE);
    if start >= len && page > 1 {
        return Err(PageError::not_found(format!(
            "This transaction has no page {page} of {what}."
        )));
    }
    Ok(start..len.min(start.saturating_add(COINS_PER_PAGE)))
}

impl CoinPages {
    fn new(len: usize, page: usize, href: impl Fn(usize) -> String) -> Self {
        let start = (page - 1) * COINS_PER_PAGE;
        let end = len.min(start + COINS_PER_PAGE);
        CoinPages {
            total: count(len as u64),
            range: (len > COINS_PER_PAGE)
                .then(|| (count(start as u64), count(end.saturating_sub(1) as u64))),
            previous: (page > 1).then(|| href(page - 1)),
            next: (end < len).then(|| href(page + 1)),
        }
    }
}

impl Input {
    fn new(
        chain: &Chain,
        index: usize,
        input: &TxIn,
        prevout: Option<&TxOut>,
        version: u32,
    ) -> Self {
        let outpoint = input.previous_output;
        let script_sig = &input.script_sig;
        Input {
            index,
            spent: prevout.map(|output| SpentOutput {
                href: chain.output_href(&outpoint),
                txid: Hash::new(outpoint.txid),
                vout: outpoint.vout,
                owner: chain.owner(&output.script_pubkey),
                value: Amount(output.value.to_sat()),
            }),
            coinbase_text: if outpoint.is_null() {
                coinbase_text(script_sig)
            } else {
                None
            },
            script_sig: (!script_sig.is_empty()).then(|| {
                (
                    Clipped::asm(script_sig),
                    Clipped::hex(script_sig.as_bytes()),
                )
            }),
            inner: prevout
                .map(|output| inner_scripts(input, output))
                .unwrap_or_default(),
            witness: input
                .witness
                .iter()
                .take(WITNESS_ITEMS_MAX)
                .map(Clipped::hex)
                .collect(),
            witness_more: input.witness.len().saturating_sub(WITNESS_ITEMS_MAX),
            sequence: Sequence::new(input.sequence.0, version),
        }
    }
}

impl Output {
    fn new(chain: &Chain, index: usize, output: &TxOut, spend: Option<&Spending>) -> Self {
        let script = &output.script_pubkey;
        let owner = chain.owner(script);
        let fate = match spend {
            Some(spend) => Fate::Spent {
                href: chain.input_href(&spend.txid, spend.vin),
                txid: Hash::new(spend.txid),
                height: spend.block.map(|block| count(block.height.into())),
            },
            None if owner.kind.unspendable => Fate::Unspendable,
            None => Fate::Unspent,
        };
        Output {
            index,
            owner,
            value: Amount(output.value.to_sat()),
            text: data_text(script),
            asm: Clipped::asm(script),
            hex: Clipped::hex(script.as_bytes()),
            fate,
        }
    }
}

#[cfg(test)]
#[path = "tx_tests.rs"]
mod tests;
