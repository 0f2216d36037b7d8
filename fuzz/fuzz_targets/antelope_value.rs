//! Any bytes as values of a real contract's types, which use everything that there is.
#![no_main]

use std::sync::LazyLock;

use cairn_antelope_abi::{Abi, Profile};
use libfuzzer_sys::fuzz_target;

/// Every built-in type, nested and repeated.
const ABI: &str = r#"{"version":"eosio::abi/1.2","types":[{"new_type_name":"names","type":"name[]"}],"structs":[
    {"name":"all","fields":[{"name":"a","type":"bool"},{"name":"b","type":"int64"},{"name":"c","type":"uint128"},
        {"name":"d","type":"varint32"},{"name":"e","type":"varuint32"},{"name":"f","type":"float32"},{"name":"g","type":"float64"},
        {"name":"h","type":"float128"},{"name":"i","type":"time_point"},{"name":"j","type":"time_point_sec"},
        {"name":"k","type":"block_timestamp_type"},{"name":"l","type":"names?"},{"name":"m","type":"bytes"},
        {"name":"n","type":"string"},{"name":"o","type":"checksum160"},{"name":"p","type":"public_key"},
        {"name":"q","type":"signature"},{"name":"r","type":"symbol"},{"name":"s","type":"asset"},
        {"name":"t","type":"extended_asset"},{"name":"u","type":"bitset"},{"name":"v","type":"any[]"},
        {"name":"w","type":"uint8[3]"},{"name":"x","type":"all?$"}]},
    {"name":"empty","fields":[]}],
    "variants":[{"name":"any","types":["string","empty","all","any","public_key","signature","float64"]}]}"#;

static COMPILED: LazyLock<Abi> = LazyLock::new(|| Abi::from_json(ABI).expect("well-formed"));

fuzz_target!(|data: &[u8]| {
    for name in ["any", "any[]", "all"] {
        let ty = COMPILED.type_id(name).expect("defined");
        for profile in [Profile::Wharfkit, Profile::Nodeos, Profile::Abieos] {
            let mut out = Vec::new();
            if COMPILED.decode(ty, data, profile, &mut out).is_ok() {
                serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("decoded text is JSON");
            }
        }
    }
});
