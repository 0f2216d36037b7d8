//! A chain of a real Elements node, with the node's own answers; branches made of its transactions; and the rows that an
//! index must have of them, told by the node's answers alone. Where the chain comes from: `fixtures/elements/README.md`.

mod branch;
mod rows;

use std::io::Read;
use std::sync::Arc;

use bitcoin::BlockHash;
use cairn_utxo_chain::network::{ElementsChain, ElementsKind};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::blkfile::split_plain;

pub use branch::{RecordedBlock, RecordedTx, moved_branch};
pub use rows::{AssetTotals, asset_totals, recorded_rows, supply_txs};

const BLK: &[u8] = include_bytes!("../../../../samples/elementsregtest.blk.gz");
/// What stands before each record.
pub const ELEMENTS_MAGIC: [u8; 4] = [0x53, 0x19, 0xf2, 0x0e];

const GETBLOCK2: &[u8] = include_bytes!("../../fixtures/elements/getblock2.jsonl.gz");
const FACTS: &str = include_str!("../../fixtures/elements/facts.json");
const INTACT: &str = "the fixture in this crate is intact";

/// The chain as a block file: records in height order, not obfuscated.
pub fn elements_blk() -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(BLK).read_to_end(&mut bytes).expect(INTACT);
    bytes
}

/// The blocks, serialized, by height.
pub fn elements_blocks() -> Vec<Vec<u8>> {
    split_plain(&elements_blk(), ELEMENTS_MAGIC).expect(INTACT)
}

/// The node's answer to `getblock` at verbosity 2, by height.
pub fn elements_answers() -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(GETBLOCK2)
        .read_to_string(&mut text)
        .expect(INTACT);
    text.lines()
        .map(|line| serde_json::from_str(line).expect(INTACT))
        .collect()
}

/// What the node says of its chain and its wallet of issuances.
pub fn elements_facts() -> Value {
    serde_json::from_str(FACTS).expect(INTACT)
}

/// The chain, as its genesis block tells.
pub fn elements_chain() -> &'static ElementsChain {
    let kind = ElementsKind::Regtest;
    let blocks = elements_blocks();
    let genesis = blocks.first().expect(INTACT);
    ElementsChain::of_genesis(kind, genesis, kind.parent(), kind.addresses())
        .expect(INTACT)
        .keep()
}

/// The blocks with what the node says of them.
pub fn recorded_blocks() -> Vec<Arc<RecordedBlock>> {
    elements_blocks()
        .into_iter()
        .zip(elements_answers())
        .map(|(raw, answer)| {
            let number = |name: &str| answer[name].as_u64().expect(INTACT) as u32;
            let hash: BlockHash = answer["hash"]
                .as_str()
                .expect(INTACT)
                .parse()
                .expect(INTACT);
            let txs = answer["tx"].as_array().expect(INTACT);
            Arc::new(RecordedBlock {
                hash,
                height: number("height"),
                weight: number("weight"),
                size: number("size"),
                raw,
                txs: txs
                    .iter()
                    .map(|tx| Arc::new(RecordedTx(tx.clone())))
                    .collect(),
            })
        })
        .collect()
}

/// The confidential form of a plain address, with a blinding key made for it.
pub fn confidential_address(plain: &str) -> String {
    use elements::secp256k1_zkp::{PublicKey, Secp256k1, SecretKey};
    let address: elements::Address = plain.parse().expect("an address of Elements");
    let key = SecretKey::from_slice(&[7; 32]).expect("a key");
    let blinder = PublicKey::from_secret_key(&Secp256k1::new(), &key);
    address.to_confidential(blinder).to_string()
}
