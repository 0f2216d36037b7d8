//! Any bytes as an ABI, and any bytes decoded with it: errors or valid JSON, within the bounds.
#![no_main]

use cairn_antelope_abi::{Abi, Name, OUTPUT_BYTES_BASE, OUTPUT_BYTES_PER_INPUT_BYTE, Profile, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u64, &[u8])| {
    let (bytes, name, data) = input;
    let Ok(abi) = Abi::from_bytes(bytes) else {
        return;
    };
    let bound = OUTPUT_BYTES_BASE + data.len() * OUTPUT_BYTES_PER_INPUT_BYTE;
    let name = Name(name);
    for ty in [abi.action_type(name), abi.table_type(name), abi.result_type(name)].into_iter().flatten() {
        for profile in [Profile::Wharfkit, Profile::Nodeos, Profile::Abieos] {
            let mut out = Vec::new();
            if abi.decode(ty, data, profile, &mut out).is_ok() {
                serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("decoded text is JSON");
                // One structure may pass the bound before it is looked at again, by its field names.
                assert!(out.len() <= 2 * bound + 8 * bytes.len());
            } else {
                assert!(out.is_empty());
            }
        }
        let _ = abi.skip(ty, &mut Reader::new(data));
    }
});
