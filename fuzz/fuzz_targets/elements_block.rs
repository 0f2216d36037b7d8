//! Any bytes as a block and as a transaction of Elements: an error, or both readers say the same.
#![no_main]

use cairn_utxo_chain::walk::{BlockVisitor, TxPlace, walk_block, whole_block};
use cairn_utxo_chain::{Family, Header, Tx};
use libfuzzer_sys::fuzz_target;

#[derive(Default)]
struct Places(Vec<TxPlace>);

impl BlockVisitor for Places {
    fn spend(&mut self, _vin: u32, _outpoint: [u8; 36]) {}

    fn tx(&mut self, tx: TxPlace) {
        self.0.push(tx);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Header::decode_all(Family::Elements, bytes);
    if let Ok(decoded) = Tx::decode(Family::Elements, bytes) {
        assert!(decoded.length <= bytes.len());
        for (vin, input) in decoded.tx.input.iter().enumerate() {
            let _ = decoded.tx.pegin(vin);
            if let Some(issuance) = decoded.tx.elements_input(vin).and_then(|more| more.issuance) {
                let _ = issuance.kind(&input.previous_output);
            }
        }
        assert!(decoded.tx.discount_weight(decoded.weight) <= decoded.weight);
    }
    let mut places = Places::default();
    if let Ok(block) = walk_block(Family::Elements, bytes, &mut places) {
        let mut at = block.first_tx;
        for place in places.0 {
            let raw = &bytes[at..at + place.length];
            let decoded = Tx::decode_all(Family::Elements, raw).expect("the walk was here");
            assert_eq!(decoded.weight, place.weight);
            at += place.length;
        }
        assert_eq!(at, block.size);
    }
    let _ = whole_block(Family::Elements, bytes);
});
