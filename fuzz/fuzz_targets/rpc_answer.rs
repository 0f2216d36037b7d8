//! What a node, or something in its place, answers to a call: an error at worst.
#![no_main]

use cairn_utxo_node::rpc::{
    BlockNotice, ChainInfo, HeaderInfo, NetworkInfo, TxOutSetInfo, decode, decode_header, decode_hex, parse_answer,
    parse_batch,
};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fn decode_all(result: &RawValue) {
    let _ = decode::<ChainInfo>("fuzz", result);
    let _ = decode::<NetworkInfo>("fuzz", result);
    let _ = decode::<HeaderInfo>("fuzz", result);
    let _ = decode::<TxOutSetInfo>("fuzz", result);
    let _ = decode::<BlockNotice>("fuzz", result);
    let _ = decode_hex("fuzz", result);
    let _ = decode_header("fuzz", cairn_utxo_chain::Family::Bitcoin, result);
    let _ = decode_header("fuzz", cairn_utxo_chain::Family::Elements, result);
}

fuzz_target!(|body: &[u8]| {
    match parse_answer(body, "fuzz", 1) {
        Ok(result) => decode_all(&result),
        // Every error has a text, whatever the bytes were.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(answers) = parse_batch(body, "fuzz", 1, 3) {
        assert_eq!(answers.len(), 3);
        answers.iter().flatten().for_each(|result| decode_all(result));
    }
});
