//! The rows of a chain of Elements and the totals of its assets, from a node's words: a slow and obvious model.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::FromHex;
use serde_json::Value;

use super::branch::{RecordedBlock, RecordedTx};
use crate::model::{Database, Rows};

/// A hash as rows have it: printed ones are backwards.
fn internal(printed: &str) -> Vec<u8> {
    let mut bytes = hex(printed);
    bytes.reverse();
    bytes
}

fn hex(text: &str) -> Vec<u8> {
    Vec::from_hex(text).expect("hexadecimal")
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// Coins as base units. The amounts of the recording are exact in floating point.
fn units(value: &Value) -> u64 {
    (value.as_f64().expect("an amount") * 1e8).round() as u64
}

fn field(prefix: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![prefix];
    field.extend_from_slice(bytes);
    field
}

/// An output as the node tells of it.
struct Output<'a>(&'a Value);

impl Output<'_> {
    fn script(&self) -> Vec<u8> {
        hex(self.0["scriptPubKey"]["hex"].as_str().expect("a script"))
    }

    fn amount(&self) -> Option<u64> {
        self.0.get("value").map(units)
    }

    fn value(&self) -> Vec<u8> {
        match self.amount() {
            Some(amount) => field(1, &amount.to_be_bytes()),
            None => hex(text(self.0, "valuecommitment").expect("a commitment")),
        }
    }

    fn asset(&self) -> Option<&str> {
        text(self.0, "asset")
    }

    fn asset_field(&self) -> Vec<u8> {
        match self.asset() {
            Some(asset) => field(1, &internal(asset)),
            None => hex(text(self.0, "assetcommitment").expect("a commitment")),
        }
    }

    fn nonce(&self) -> Vec<u8> {
        text(self.0, "commitmentnonce").map_or(vec![0], hex)
    }

    fn is_fee(&self) -> bool {
        self.script().is_empty() && self.amount().is_some() && self.asset().is_some()
    }

    fn is_unspendable(&self) -> bool {
        let script = self.script();
        script.is_empty() || script[0] == 0x6a || script.len() > 10_000
    }

    /// The node's words for "back to the parent chain".
    fn is_pegout(&self) -> bool {
        self.0["scriptPubKey"].get("pegout_chain").is_some()
    }
}

fn outputs(tx: &RecordedTx) -> Vec<Output<'_>> {
    let outputs = tx.0["vout"].as_array().expect("outputs");
    outputs.iter().map(Output).collect()
}

/// What one transaction does with one asset: letter, index, the rest of the key behind it.
type Event = (String, u8, u32, Vec<u8>);

/// The outputs that transactions of a chain may spend.
type Outputs<'a> = HashMap<(&'a str, u32), Output<'a>>;

fn events(tx: &RecordedTx, known: &Outputs<'_>, native: &str, genesis: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for (vout, output) in (0u32..).zip(outputs(tx)) {
        let Some(asset) = output.asset() else {
            continue;
        };
        let amount = output.amount().unwrap_or(0).to_be_bytes();
        let mut add = |letter: u8, rest: &[u8]| {
            events.push((asset.to_owned(), letter, vout, rest.to_vec()));
        };
        if !output.is_unspendable() {
            if asset != native {
                add(b'F', &output.value());
            }
        } else if !output.is_fee() && output.amount().unwrap_or(0) > 0 {
            match output.is_pegout() && asset == native {
                true => add(b'O', &amount),
                false => add(b'B', &amount),
            }
        }
    }
    for (vin, txid, vout) in tx.spends().into_iter().filter(|_| !genesis) {
        let spent = &known[&(txid, vout)];
        if let Some(asset) = spent.asset().filter(|asset| *asset != native) {
            let mut rest = internal(txid);
            rest.extend_from_slice(&vout.to_be_bytes());
            rest.extend_from_slice(&spent.value());
            events.push((asset.to_owned(), b'S', vin, rest));
        }
    }
    for (vin, input) in (0u32..).zip(tx.0["vin"].as_array().expect("inputs")) {
        if input["is_pegin"] == true {
            let witness = input["pegin_witness"].as_array().expect("a witness");
            let item = |at: usize| hex(witness[at].as_str().expect("an item"));
            let mut amount = item(0);
            amount.reverse();
            if item(1) == internal(native) {
                events.push((native.to_owned(), b'N', vin, amount));
            }
        }
        let Some(issuance) = input.get("issuance") else {
            continue;
        };
        let asset = text(issuance, "asset").expect("an asset");
        if asset == native {
            continue;
        }
        let mut rest = vec![u8::from(issuance["isreissuance"] == true)];
        for name in ["assetamount", "tokenamount"] {
            let blinded = text(issuance, &format!("{name}commitment")).is_some();
            let plain = issuance.get(name).map_or(0, units);
            match blinded {
                true => rest.push(0),
                false => rest.extend(field(1, &plain.to_be_bytes())),
            }
        }
        events.push((asset.to_owned(), b'I', vin, rest));
    }
    events
}

/// The outputs of some blocks by place.
fn known_outputs(blocks: &[Arc<RecordedBlock>]) -> Outputs<'_> {
    let txs = blocks.iter().flat_map(|block| &block.txs);
    txs.flat_map(|tx| {
        (0u32..)
            .zip(outputs(tx))
            .map(move |(vout, output)| ((tx.txid(), vout), output))
    })
    .collect()
}

/// Every row of a chain but `V`, `F` and the headers' values. `stale` are blocks beside it whose `txstore` rows stay.
pub fn recorded_rows(
    chain: &[Arc<RecordedBlock>],
    stale: &[Arc<RecordedBlock>],
    native: &str,
) -> Rows {
    let mut rows = Rows::new();
    for block in chain.iter().chain(stale) {
        txstore_rows(&mut rows, block);
    }
    let tip = chain.last().expect("a chain has a tip");
    rows.insert(
        (Database::Txstore, b"t".to_vec()),
        tip.hash.to_byte_array().to_vec(),
    );
    let known = known_outputs(chain);
    for block in chain {
        history_rows(&mut rows, block, &known, native);
    }
    rows
}

fn key(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![tag];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn txstore_rows(rows: &mut Rows, block: &RecordedBlock) {
    let hash = block.hash.to_byte_array();
    let mut put = |key: Vec<u8>, value: Vec<u8>| {
        rows.insert((Database::Txstore, key), value);
    };
    let ids: Vec<u8> = block
        .txs
        .iter()
        .flat_map(|tx| internal(tx.txid()))
        .collect();
    let mut meta = block.weight.to_be_bytes().to_vec();
    meta.extend_from_slice(&block.size.to_be_bytes());
    meta.extend_from_slice(&(block.txs.len() as u32).to_be_bytes());
    put(key(b'X', &[&hash]), ids);
    put(key(b'M', &[&hash]), meta);
    put(key(b'D', &[&hash]), Vec::new());
    for tx in &block.txs {
        let txid = internal(tx.txid());
        put(key(b'T', &[&txid]), tx.raw());
        put(key(b'C', &[&txid, &hash]), Vec::new());
        for (vout, output) in (0u32..).zip(outputs(tx)) {
            let script = output.script();
            let mut value = (script.len() as u32).to_be_bytes().to_vec();
            value.extend(script);
            value.extend(output.value());
            value.extend(output.asset_field());
            value.extend(output.nonce());
            put(key(b'O', &[&txid, &vout.to_be_bytes()]), value);
        }
    }
}

fn history_rows(rows: &mut Rows, block: &RecordedBlock, known: &Outputs<'_>, native: &str) {
    let height = block.height.to_be_bytes();
    let is_genesis = block.height == 0;
    let mut put = |key: Vec<u8>, value: Vec<u8>| {
        rows.insert((Database::History, key), value);
    };
    let script_hash = |output: &Output<'_>| sha256::Hash::hash(&output.script()).to_byte_array();
    put(key(b'D', &[&block.hash.to_byte_array()]), Vec::new());
    for tx in &block.txs {
        let txid = internal(tx.txid());
        for (vout, output) in (0u32..).zip(outputs(tx)) {
            if !output.is_unspendable() {
                let (script, value) = (script_hash(&output), output.value());
                let parts: [&[u8]; 6] =
                    [&script, &height, b"F", &txid, &vout.to_be_bytes(), &value];
                put(key(b'H', &parts), Vec::new());
            }
        }
        for (vin, from, vout) in tx.spends().into_iter().filter(|_| !is_genesis) {
            let (spent, from_id) = (&known[&(from, vout)], internal(from));
            let (vin, vout) = (vin.to_be_bytes(), vout.to_be_bytes());
            let (script, value) = (script_hash(spent), spent.value());
            let parts: [&[u8]; 8] = [&script, &height, b"S", &txid, &vin, &from_id, &vout, &value];
            put(key(b'H', &parts), Vec::new());
            put(key(b'S', &[&from_id, &vout, &txid, &vin]), Vec::new());
        }
        for (asset, letter, index, rest) in events(tx, known, native, is_genesis) {
            let id = internal(&asset);
            let parts: [&[u8]; 6] = [&id, &height, &[letter], &txid, &index.to_be_bytes(), &rest];
            put(key(b'I', &parts), Vec::new());
            if !matches!(letter, b'F' | b'S') {
                put(key(b'J', &[&id, &height, &txid]), Vec::new());
            }
        }
        for (vin, input) in (0u32..).zip(tx.0["vin"].as_array().expect("inputs")) {
            let Some(issuance) = input.get("issuance") else {
                continue;
            };
            let asset = text(issuance, "asset").expect("an asset");
            if asset == native || issuance["isreissuance"] == true {
                continue;
            }
            let mut value = txid.clone();
            value.extend_from_slice(&vin.to_be_bytes());
            value.extend(internal(text(input, "txid").expect("it spends")));
            value.extend_from_slice(
                &(input["vout"].as_u64().expect("an index") as u32).to_be_bytes(),
            );
            let mut bytes = internal(text(issuance, "assetBlindingNonce").expect("a nonce"));
            // The node prints the entropy; what the input holds is the contract, which its wallet leaves empty.
            bytes.extend_from_slice(&[0; 32]);
            for name in ["assetamount", "tokenamount"] {
                bytes.extend(
                    match (
                        text(issuance, &format!("{name}commitment")),
                        issuance.get(name),
                    ) {
                        (Some(commitment), _) => hex(commitment),
                        (None, Some(amount)) => field(1, &units(amount).to_be_bytes()),
                        (None, None) => vec![0],
                    },
                );
            }
            value.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            value.extend(bytes);
            value.extend(internal(text(issuance, "token").expect("a token")));
            put(key(b'i', &[&internal(asset)]), value);
        }
    }
}

/// Totals of one asset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssetTotals {
    /// Transactions with any row.
    pub txs: BTreeSet<String>,
    /// Issuances, burns, peg-ins, peg-outs: count and sum.
    pub issued: (u64, u64),
    /// Burns.
    pub burned: (u64, u64),
    /// Peg-ins.
    pub pegged_in: (u64, u64),
    /// Peg-outs.
    pub pegged_out: (u64, u64),
    /// Whether an issued amount is blinded.
    pub blinded: bool,
}

/// Totals of every asset of a chain, by printed id.
pub fn asset_totals(chain: &[Arc<RecordedBlock>], native: &str) -> BTreeMap<String, AssetTotals> {
    let known = known_outputs(chain);
    let mut totals: BTreeMap<String, AssetTotals> = BTreeMap::new();
    for block in chain {
        for tx in &block.txs {
            for (asset, letter, _, rest) in events(tx, &known, native, block.height == 0) {
                let of = totals.entry(asset).or_default();
                of.txs.insert(tx.txid().to_owned());
                let amount =
                    |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().expect("8 bytes"));
                let (slot, amount) = match letter {
                    b'I' => {
                        of.blinded |= rest[1] == 0;
                        let issued = if rest[1] == 0 { 0 } else { amount(&rest[2..]) };
                        (&mut of.issued, issued)
                    }
                    b'B' => (&mut of.burned, amount(&rest)),
                    b'N' => (&mut of.pegged_in, amount(&rest)),
                    b'O' => (&mut of.pegged_out, amount(&rest)),
                    _ => continue,
                };
                slot.0 += 1;
                slot.1 += amount;
            }
        }
    }
    totals
}

/// The transactions that change an asset's supply, newest first.
pub fn supply_txs(chain: &[Arc<RecordedBlock>], native: &str, asset: &str) -> Vec<String> {
    let known = known_outputs(chain);
    let mut found = Vec::new();
    for block in chain.iter().rev() {
        for tx in block.txs.iter().rev() {
            let is_supply = events(tx, &known, native, block.height == 0)
                .iter()
                .any(|(of, letter, ..)| of == asset && !matches!(letter, b'F' | b'S'));
            if is_supply {
                found.push(tx.txid().to_owned());
            }
        }
    }
    found
}
