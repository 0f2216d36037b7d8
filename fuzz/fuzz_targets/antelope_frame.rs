//! Any bytes as messages of a node: errors, or parts that can be read further.
#![no_main]

use std::sync::LazyLock;

use cairn_antelope_abi::Profile;
use cairn_antelope_ship::{Message, Protocol, ReplaySource};
use libfuzzer_sys::fuzz_target;

static PROTOCOL: LazyLock<Protocol> = LazyLock::new(|| {
    Protocol::from_abi_json(include_str!("../../crates/testkit/fixtures/antelope/ship-abi.json")).expect("a node's own ABI")
});

fn traces(bytes: &[u8]) {
    for trace in PROTOCOL.read_traces(bytes).unwrap_or_default() {
        for action in trace.actions {
            let _ = action.authorization.iter().count();
        }
    }
}

fn deltas(bytes: &[u8]) {
    for table in PROTOCOL.read_deltas(bytes).unwrap_or_default() {
        for row in table.rows {
            let _ = PROTOCOL.read_contract_row(row.data);
            let _ = PROTOCOL.read_account(row.data);
            let _ = PROTOCOL.native_key(table.name, row.data);
            let mut out = Vec::new();
            if PROTOCOL.native_json(table.name, row.data, Profile::Wharfkit, &mut out).is_ok() {
                serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("decoded text is JSON");
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(Message::Block(block)) = PROTOCOL.read(data) {
        block.block.map(|bytes| PROTOCOL.read_header(bytes));
        block.traces.map(traces);
        block.deltas.map(deltas);
    }
    traces(data);
    deltas(data);
    let _ = ReplaySource::from_gzip(data);
});
