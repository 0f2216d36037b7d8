//! Other branches of the recorded chain: the same transactions, mined in other blocks.

use std::sync::Arc;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use bitcoin::hex::{DisplayHex, FromHex};
use elements::confidential::{Asset, Nonce, Value as Amount};
use elements::encode::{deserialize, serialize};
use elements::{
    AssetIssuance, Block, BlockExtData, BlockHeader, LockTime, OutPoint, Script, Sequence,
    Transaction, TxIn, TxInWitness, TxOut, TxOutWitness,
};
use serde_json::{Value, json};

/// A transaction as a node describes it.
#[derive(Debug)]
pub struct RecordedTx(pub Value);

impl RecordedTx {
    /// Its id, printed.
    pub fn txid(&self) -> &str {
        self.0["txid"].as_str().expect("a transaction has an id")
    }

    /// Serialized.
    pub fn raw(&self) -> Vec<u8> {
        Vec::from_hex(self.0["hex"].as_str().expect("a transaction has bytes")).expect("hex")
    }

    /// Whether it is the first of a block.
    pub fn is_coinbase(&self) -> bool {
        self.0["vin"][0].get("coinbase").is_some()
    }

    /// What its inputs spend: printed txid and index, with the number of the input. Not what a peg-in names.
    pub fn spends(&self) -> Vec<(u32, &str, u32)> {
        let inputs = self.0["vin"].as_array().expect("a transaction has inputs");
        (0u32..)
            .zip(inputs)
            .filter(|(_, input)| input.get("coinbase").is_none() && input["is_pegin"] != true)
            .map(|(vin, input)| {
                let txid = input["txid"]
                    .as_str()
                    .expect("an input names a transaction");
                let vout = input["vout"].as_u64().expect("an input names an output");
                (vin, txid, vout as u32)
            })
            .collect()
    }
}

/// A block with what a node says of its transactions.
#[derive(Debug)]
pub struct RecordedBlock {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Weight units.
    pub weight: u32,
    /// Bytes.
    pub size: u32,
    /// Serialized.
    pub raw: Vec<u8>,
    /// Its transactions.
    pub txs: Vec<Arc<RecordedTx>>,
}

/// Mines the blocks of `old` from index `fork` on anew, `more` blocks longer: each transaction comes between 0 and
/// `delay(…)` blocks later than it did. `salt` makes the branch another one. The blocks below are those of `old`.
///
/// Blocks are put together with the `elements` crate. Their signatures are not real: no index checks them.
pub fn moved_branch(
    old: &[Arc<RecordedBlock>],
    fork: usize,
    more: usize,
    salt: u32,
    mut delay: impl FnMut() -> usize,
) -> Vec<Arc<RecordedBlock>> {
    let mut chain = old[..fork].to_vec();
    let count = old.len() - fork + more;
    let mut planned: Vec<Vec<Arc<RecordedTx>>> = vec![Vec::new(); count];
    // No transaction comes before one that it may spend: places only grow.
    let mut least = 0;
    for (at, block) in old[fork..].iter().enumerate() {
        for tx in block.txs.iter().filter(|tx| !tx.is_coinbase()) {
            let place = (at + delay()).max(least);
            if let Some(txs) = planned.get_mut(place) {
                txs.push(Arc::clone(tx));
                least = place;
            } else {
                // What does not fit is mined never, and nothing after it that could need it.
                least = count;
            }
        }
    }
    for txs in planned {
        let block = mine(chain.last().expect("a branch leaves a block"), txs, salt);
        chain.push(Arc::new(block));
    }
    chain
}

fn mine(parent: &RecordedBlock, txs: Vec<Arc<RecordedTx>>, salt: u32) -> RecordedBlock {
    let height = parent.height + 1;
    let coinbase = coinbase(height, salt);
    let mut txdata = vec![coinbase.clone()];
    txdata
        .extend(txs.iter().map(|tx| {
            deserialize::<Transaction>(&tx.raw()).expect("the library reads the node's")
        }));
    let ids = txdata
        .iter()
        .map(|tx| bitcoin::Txid::from_byte_array(tx.txid().to_byte_array()).to_raw_hash());
    let root = bitcoin::merkle_tree::calculate_root(ids).expect("there is a coinbase");
    let block = Block {
        header: BlockHeader {
            version: 0x2000_0000,
            prev_blockhash: elements::BlockHash::from_byte_array(parent.hash.to_byte_array()),
            merkle_root: elements::TxMerkleNode::from_byte_array(root.to_byte_array()),
            time: 1_796_000_000 + height * 60 + salt,
            height,
            ext: BlockExtData::Proof {
                challenge: Script::from(vec![0x51]),
                solution: Script::from(vec![salt as u8; 3]),
            },
        },
        txdata,
    };
    let raw = serialize(&block);
    let hash = BlockHash::from_byte_array(block.block_hash().to_byte_array());
    let (weight, size) = (block.weight() as u32, block.size() as u32);
    let mut all = vec![Arc::new(RecordedTx(described(&coinbase)))];
    all.extend(txs);
    RecordedBlock {
        hash,
        height,
        weight,
        size,
        raw,
        txs: all,
    }
}

fn coinbase(height: u32, salt: u32) -> Transaction {
    let mut script_sig = height.to_le_bytes().to_vec();
    script_sig.extend_from_slice(&salt.to_le_bytes());
    Transaction {
        version: 2,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::default(),
            is_pegin: false,
            script_sig: Script::from(script_sig),
            sequence: Sequence::MAX,
            asset_issuance: AssetIssuance::default(),
            witness: TxInWitness::default(),
        }],
        output: vec![TxOut {
            asset: Asset::Explicit(super::elements_chain().native_asset),
            value: Amount::Explicit(0),
            nonce: Nonce::Null,
            script_pubkey: Script::from(vec![0x6a]),
            witness: TxOutWitness::default(),
        }],
    }
}

/// A coinbase in the words of a node.
fn described(tx: &Transaction) -> Value {
    let output = &tx.output[0];
    json!({
        "txid": tx.txid().to_string(),
        "hex": serialize(tx).to_lower_hex_string(),
        "vin": [{"coinbase": tx.input[0].script_sig.as_bytes().to_lower_hex_string()}],
        "vout": [{
            "value": 0.0,
            "asset": output.asset.explicit().expect("it is plain").to_string(),
            "commitmentnonce": "",
            "scriptPubKey": {"hex": "6a"},
        }],
    })
}
