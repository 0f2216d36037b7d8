//! Any bytes as a row: an error, or a row that encodes to the same bytes.
#![no_main]

use cairn_utxo_chain::Family;
use cairn_utxo_index::rows::{Db, Row};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (db, split, bytes) = input;
    let db = Db::ALL[usize::from(db) % Db::ALL.len()];
    let (key, value) = bytes.split_at(usize::from(split).min(bytes.len()));
    for family in [Family::Bitcoin, Family::Elements] {
        if let Ok(row) = Row::decode(family, db, key, value) {
            assert_eq!(row.encode(family), (key.to_vec(), value.to_vec()));
        }
    }
});
