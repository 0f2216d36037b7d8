//! Every transaction of a chain that a real node made.

use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use cairn_testkit::elements::{elements_answers, elements_blocks, elements_chain};
use cairn_utxo_chain::walk::{BlockVisitor, TxPlace, walk_block, whole_block};
use cairn_utxo_chain::{Decoded, Family, Header, Tx};
use proptest::prelude::*;
use serde_json::Value;

#[derive(Default)]
struct Places {
    spends: Vec<(u32, [u8; 36])>,
    txs: Vec<TxPlace>,
}

impl BlockVisitor for Places {
    fn spend(&mut self, vin: u32, outpoint: [u8; 36]) {
        self.spends.push((vin, outpoint));
    }

    fn tx(&mut self, tx: TxPlace) {
        self.txs.push(tx);
    }
}

/// Transactions of all blocks, serialized, with what the node says of them.
fn transactions() -> Vec<(Vec<u8>, Value)> {
    let answers = elements_answers();
    let txs = answers
        .iter()
        .flat_map(|block| block["tx"].as_array().expect("transactions"));
    txs.map(|tx| {
        let raw = Vec::from_hex(tx["hex"].as_str().expect("bytes")).expect("hexadecimal");
        (raw, tx.clone())
    })
    .collect()
}

fn decoded(raw: &[u8]) -> Decoded {
    Tx::decode_all(Family::Elements, raw).expect("a transaction of a real chain")
}

#[test]
fn headers_and_blocks_are_the_nodes() {
    let mut dynamic = 0;
    for (block, told) in elements_blocks().iter().zip(elements_answers()) {
        let (header, length) = Header::decode(Family::Elements, block).expect("a header");
        assert_eq!(told["hash"], header.hash.to_string());
        assert_eq!(told["merkleroot"], header.merkle_root.to_string());
        assert_eq!(
            header.claimed_height().map(Value::from),
            Some(told["height"].clone())
        );
        assert_eq!(told["version"], header.version.to_consensus());
        let library: elements::BlockHeader =
            elements::encode::deserialize(&block[..length]).expect("the library reads it");
        assert_eq!(library.block_hash().to_string(), header.hash.to_string());
        dynamic += usize::from(told.get("dynamic_parameters").is_some());
        let mut places = Places::default();
        let place = walk_block(Family::Elements, block, &mut places).expect("a block");
        assert_eq!((place.header_length, place.size), (length, block.len()));
        assert_eq!(
            (Value::from(place.size), Value::from(place.weight)),
            (told["size"].clone(), told["weight"].clone())
        );
        assert_eq!(whole_block(Family::Elements, block), Some(block.len()));
        let txs = told["tx"].as_array().expect("transactions");
        let spends: usize = txs
            .iter()
            .flat_map(|tx| tx["vin"].as_array().expect("inputs"))
            .filter(|input| input["txid"].is_string() && input["is_pegin"] != true)
            .count();
        let expected = if told["height"] == 0 { 0 } else { spends };
        assert_eq!(
            (places.txs.len(), places.spends.len()),
            (txs.len(), expected)
        );
        // A byte less, or another one, and it is not a whole block any more.
        assert_eq!(
            whole_block(Family::Elements, &block[..block.len() - 1]),
            None
        );
    }
    assert!(
        dynamic > 100,
        "the chain has headers of a dynamic federation: {dynamic}"
    );
}

#[test]
fn transactions_are_the_nodes_and_the_librarys() {
    let native = elements_chain().native_asset;
    let (mut issuances, mut pegins, mut blinded) = (0, 0, 0);
    for (raw, told) in transactions() {
        let Decoded {
            tx, txid, weight, ..
        } = decoded(&raw);
        assert_eq!(told["txid"], txid.to_string());
        assert_eq!(told["wtxid"], tx.wtxid(&raw).to_string());
        assert_eq!(told["weight"], weight);
        let library: elements::Transaction =
            elements::encode::deserialize(&raw).expect("the library reads it");
        assert_eq!(library.txid().to_byte_array(), txid.to_byte_array());
        assert_eq!(library.discount_weight(), tx.discount_weight(weight));
        assert_eq!(tx.fee_outputs(native), Some(library.fee_in(native)));
        for (vin, input) in library.input.iter().enumerate() {
            let ours = &tx.input[vin];
            assert_eq!(ours.previous_output.vout, input.previous_output.vout);
            assert_eq!(ours.script_sig.as_bytes(), input.script_sig.as_bytes());
            assert_eq!(ours.sequence.0, input.sequence.0);
            assert_eq!(ours.witness.to_vec(), input.witness.script_witness);
            let more = tx.elements_input(vin).expect("an input of Elements");
            assert_eq!(more.is_pegin, input.is_pegin);
            assert_eq!(more.issuance.is_some(), input.has_issuance());
            if let Some(issuance) = more.issuance {
                let kind = issuance.kind(&ours.previous_output);
                let (asset, token) = input.issuance_ids();
                assert_eq!(kind.asset, asset);
                assert!(kind.is_reissuance || kind.token == token);
                issuances += 1;
            }
            let pegin = tx.pegin(vin);
            assert_eq!(pegin.is_some(), input.is_pegin);
            if let (Some(ours), Some(theirs)) = (pegin, input.pegin_data()) {
                assert_eq!((ours.amount, ours.asset), (theirs.value, theirs.asset_id));
                pegins += 1;
            }
        }
        for (vout, output) in library.output.iter().enumerate() {
            let more = tx.elements_output(vout).expect("an output of Elements");
            assert_eq!(
                tx.output[vout].script_pubkey.as_bytes(),
                output.script_pubkey.as_bytes()
            );
            assert_eq!(more.value.explicit_value(), output.value.explicit());
            assert_eq!(more.asset.explicit_asset(), output.asset.explicit());
            assert_eq!(
                elements::encode::serialize(&output.value),
                more.value.as_bytes()
            );
            assert_eq!(
                elements::encode::serialize(&output.asset),
                more.asset.as_bytes()
            );
            assert_eq!(
                elements::encode::serialize(&output.nonce),
                more.nonce.as_bytes()
            );
            assert_eq!(
                more.is_fee(output.script_pubkey.as_bytes()),
                output.is_fee()
            );
            blinded += usize::from(more.value.commitment().is_some());
        }
    }
    assert!(
        issuances > 5 && pegins == 3 && blinded > 100,
        "{issuances} {pegins} {blinded}"
    );
}

#[test]
fn nonces_off_the_curve_are_read() {
    let (raw, _) = transactions()
        .into_iter()
        .find(|(_, told)| {
            told["vout"][0]["commitmentnonce"]
                .as_str()
                .is_some_and(|nonce| nonce.len() == 66)
        })
        .expect("a blinded output");
    let nonce = decoded(&raw)
        .tx
        .elements_output(0)
        .expect("an output")
        .nonce;
    let at = raw
        .windows(33)
        .position(|window| window == nonce.as_bytes())
        .expect("the nonce is in the bytes");
    let mut odd = raw;
    // No point has this coordinate: it is beyond the field.
    odd[at + 1..at + 33].fill(0xff);
    assert!(elements::encode::deserialize::<elements::Transaction>(&odd).is_err());
    let read = decoded(&odd).tx;
    let found = read.elements_output(0).expect("an output").nonce;
    assert_eq!(found.commitment(), Some(&odd[at..at + 33]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Damage anywhere is an error or another transaction, never a panic, and never read beyond the end.
    #[test]
    fn damaged_transactions_are_refused_or_read(which: usize, at: usize, with: u8, cut: usize) {
        let all = transactions();
        let (raw, _) = &all[which % all.len()];
        let mut damaged = raw.clone();
        let place = at % damaged.len();
        damaged[place] ^= with;
        if let Ok(found) = Tx::decode(Family::Elements, &damaged) {
            prop_assert!(found.length <= damaged.len());
        }
        let cut = cut % raw.len();
        prop_assert!(Tx::decode(Family::Elements, &raw[..cut]).is_err());
    }
}
