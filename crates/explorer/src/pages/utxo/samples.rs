//! Records for the tests of the pages, made by hand.

use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version as BlockVersion};
use bitcoin::hashes::Hash as _;
use bitcoin::hex::FromHex;
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn,
    TxMerkleNode, TxOut, Txid, Witness,
};
use cairn_utxo_index::{BlockRef, BlockSummary, TxRecord};

use super::Frame;
use super::chain::Chain;
use crate::site::{LedgerLink, Site};

/// Unix seconds at which the pages of the tests are made.
const NOW: u64 = 1_713_572_400;

/// A chain for the tests of all pages.
pub(super) fn regtest() -> Chain {
    Chain {
        id: "bitcoin-regtest".into(),
        network: Network::Regtest.into(),
        api_base: "/bitcoin-regtest/api".into(),
    }
}

/// The frame of a page of that chain, read at tip 840,003.
pub(super) fn frame() -> Frame {
    let chain = regtest();
    let link = LedgerLink {
        id: chain.id.clone(),
        href: chain.blocks_href(),
        sections: Vec::new(),
    };
    let shell = Site::new(vec![link]).ledger_shell(&chain.id, "Test");
    Frame {
        shell,
        chain,
        tip: block_ref(840_003),
        now: NOW,
    }
}

/// A script from hex.
pub(super) fn script(hex: &str) -> ScriptBuf {
    ScriptBuf::from_bytes(Vec::from_hex(hex).expect("the test's own hex"))
}

/// `0014` and twenty bytes.
pub(super) fn wpkh(byte: u8) -> ScriptBuf {
    let mut bytes = vec![0x00, 0x14];
    bytes.extend([byte; 20]);
    ScriptBuf::from_bytes(bytes)
}

/// A txid of equal bytes.
pub(super) fn txid(byte: u8) -> Txid {
    Txid::from_byte_array([byte; 32])
}

/// An output.
pub(super) fn pays(script_pubkey: ScriptBuf, sats: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(sats),
        script_pubkey,
    }
}

/// An input without scripts.
pub(super) fn spends(txid: Txid, vout: u32) -> TxIn {
    TxIn {
        previous_output: OutPoint { txid, vout },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    }
}

/// A block of the best chain.
pub(super) fn block_ref(height: u32) -> BlockRef {
    BlockRef {
        hash: BlockHash::from_byte_array([0xbb; 32]),
        height,
        time: 1_713_571_800,
    }
}

/// A record around inputs, the outputs they spend, and outputs.
pub(super) fn record(
    inputs: Vec<TxIn>,
    prevouts: Vec<Option<TxOut>>,
    outputs: Vec<TxOut>,
) -> TxRecord {
    let tx = Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: inputs,
        output: outputs,
    };
    let spent: u64 = prevouts
        .iter()
        .flatten()
        .map(|output| output.value.to_sat())
        .sum();
    let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
    TxRecord {
        txid: tx.compute_txid(),
        size: u32::try_from(tx.total_size()).expect("a small transaction"),
        weight: u32::try_from(tx.weight().to_wu()).expect("a small transaction"),
        block: Some(block_ref(840_001)),
        prevouts: prevouts
            .into_iter()
            .map(|output| output.map(Into::into))
            .collect(),
        fee: spent.saturating_sub(paid),
        tx: tx.into(),
    }
}

/// A stored block.
pub(super) fn summary(height: u32, tx_count: u32) -> BlockSummary {
    BlockSummary {
        hash: BlockHash::from_byte_array([0xbb; 32]),
        height,
        header: cairn_utxo_index::Header {
            hash: BlockHash::from_byte_array([0xbb; 32]),
            ..Header {
                version: BlockVersion::from_consensus(0x2000_0000),
                prev_blockhash: BlockHash::from_byte_array([0xaa; 32]),
                merkle_root: TxMerkleNode::from_byte_array([0x12; 32]),
                time: 1_713_571_800,
                bits: CompactTarget::from_consensus(0x207f_ffff),
                nonce: 7,
            }
            .into()
        },
        weight: 3_993_000,
        size: 1_790_000,
        tx_count,
        median_time: 1_713_569_100,
        in_best_chain: true,
    }
}

/// What a reader sees: tags taken away, white space reduced, entities kept.
pub(super) fn text(html: &str) -> String {
    let mut out = String::new();
    let mut inside_tag = false;
    for c in html.chars() {
        match c {
            '<' => {
                inside_tag = true;
                out.push(' ');
            }
            '>' => inside_tag = false,
            c if !inside_tag => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}
