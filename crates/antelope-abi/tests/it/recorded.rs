//! Every recorded action and row, in every profile, against abieos, wharfkit and the node itself.

use std::collections::{BTreeMap, HashMap};

use cairn_antelope_abi::{Abi, Name, Profile, TypeId};
use cairn_testkit::antelope::{Recording, SHIP_ABI};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    account: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    table: String,
    #[serde(default)]
    hex: Option<String>,
    #[serde(default)]
    abi_set_at: Option<String>,
    #[serde(default)]
    block_num: u32,
    #[serde(default)]
    error: Option<String>,
    #[serde(default, borrow)]
    abieos: Option<&'a RawValue>,
    #[serde(default, borrow)]
    wharfkit: Option<&'a RawValue>,
    #[serde(default)]
    wharfkit_error: Option<String>,
    #[serde(default, borrow)]
    nodeos: Option<&'a RawValue>,
    #[serde(default)]
    nodeos_same: Option<serde_json::Value>,
}

fn unhex(hex: &str) -> Vec<u8> {
    bitcoin::hex::FromHex::from_hex(hex).expect("hex digits in the fixture")
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name in the fixture")
}

/// ABIs by the global sequence at which they were set; `None` where the bytes are no ABI.
fn abis(recording: Recording) -> HashMap<(String, String), Option<Abi>> {
    let mut all = recording.abis();
    all.extend(recording.lost_abis());
    all.iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().expect("a text").to_owned();
            let key = (text("account"), text("global_sequence"));
            (key, Abi::from_bytes(&unhex(&text("abi_hex"))).ok())
        })
        .collect()
}

fn decode(abi: &Abi, ty: TypeId, bytes: &[u8], profile: Profile) -> Result<String, String> {
    let mut out = Vec::new();
    abi.decode(ty, bytes, profile, &mut out)
        .map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).expect("decoded text is UTF-8"))
}

/// Whether our text says what wharfkit says, but for the repairs: `float32` in its shortest form and exact times.
fn same_but_for_repairs(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_but_for_repairs(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| {
                    b.get(key).is_some_and(|b| match key.as_str() {
                        "f32" => {
                            let value: f32 = text(a).parse().expect("a number");
                            let theirs = text(b);
                            theirs == format!("{value:.7}").trim_start_matches('-')
                                || theirs == format!("{value:.7}")
                                || theirs.parse::<f32>().is_ok_and(|t| {
                                    t.to_bits() == value.to_bits() || (t.is_nan() && value.is_nan())
                                })
                        }
                        // A byte of 2 is false there, and true to the chain itself.
                        "b" => a == b || (*a == Value::Bool(true) && *b == Value::Bool(false)),
                        "tp" => a == b || text(b) == rounded(text(a)),
                        _ => same_but_for_repairs(a, b),
                    })
                })
        }
        _ => ours == theirs,
    }
}

/// A time with microseconds as wharfkit prints it: rounded to the nearest millisecond.
fn rounded(exact: &str) -> String {
    let (seconds, micros) = exact.split_once('.').expect("a fraction");
    let millis = (micros.parse::<u32>().expect("six digits") + 500) / 1000;
    match millis {
        0..1000 => format!("{seconds}.{millis:03}"),
        // The one time in the recording that rounds up into the next second.
        _ => "1970-01-01T00:00:00.000".to_owned(),
    }
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().expect("a text")
}

struct Seen {
    abieos: usize,
    wharfkit: usize,
    nodeos: usize,
}

fn compare(line: &Line<'_>, raw: &str, abi: &Abi, ty: TypeId, bytes: &[u8], seen: &mut Seen) {
    if let Some(expected) = line.abieos {
        // abieos keeps four digits of a year.
        let ours = decode(abi, ty, bytes, Profile::Abieos)
            .map(|text| text.replace("\"294247-", "\"4247-"));
        assert_eq!(ours.as_deref(), Ok(expected.get()), "abieos: {raw}");
        seen.abieos += 1;
    }
    let wharfkit = match (line.wharfkit, &line.wharfkit_error) {
        (Some(text), _) => Some(text),
        (None, None) => line.abieos,
        (None, Some(_)) => None,
    };
    if let Some(expected) = wharfkit {
        let ours = decode(abi, ty, bytes, Profile::Wharfkit)
            .unwrap_or_else(|e| panic!("wharfkit: {e}: {raw}"));
        if ours != expected.get() {
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
            assert!(
                same_but_for_repairs(&parse(&ours), &parse(expected.get())),
                "wharfkit: {raw}\nours: {ours}"
            );
        }
        seen.wharfkit += 1;
    }
    let nodeos = match &line.nodeos_same {
        Some(serde_json::Value::String(_)) => line.wharfkit,
        Some(_) => line.abieos,
        None => line.nodeos,
    };
    if let Some(expected) = nodeos {
        assert_eq!(
            decode(abi, ty, bytes, Profile::Nodeos).as_deref(),
            Ok(expected.get()),
            "nodeos: {raw}"
        );
        seen.nodeos += 1;
    }
    if line.error.as_deref() == Some("does not fit its type") {
        assert!(decode(abi, ty, bytes, Profile::Wharfkit).is_err(), "{raw}");
    }
}

#[test]
fn actions_as_three_programs_print_them() {
    for (recording, at_least) in [(Recording::Main, 5_600), (Recording::Forks, 200)] {
        let abis = abis(recording);
        let mut seen = Seen {
            abieos: 0,
            wharfkit: 0,
            nodeos: 0,
        };
        for raw in recording.action_lines() {
            let line: Line<'_> = serde_json::from_str(&raw).expect("a line of the fixture");
            let (Some(hex), Some(set_at)) = (&line.hex, &line.abi_set_at) else {
                continue;
            };
            let abi = abis
                .get(&(line.account.clone(), set_at.clone()))
                .unwrap_or_else(|| panic!("the fixture has the ABI: {raw}"));
            let Some(abi) = abi else {
                assert!(
                    line.error.is_some(),
                    "no other program could use this ABI: {raw}"
                );
                continue;
            };
            match abi.action_type(name(&line.name)) {
                Some(ty) => compare(&line, &raw, abi, ty, &unhex(hex), &mut seen),
                None => assert_eq!(line.error.as_deref(), Some("action not in abi"), "{raw}"),
            }
        }
        assert!(
            seen.abieos > at_least && seen.wharfkit > at_least && seen.nodeos > at_least - 200,
            "{recording:?}"
        );
    }
}

#[test]
fn rows_as_two_programs_print_them() {
    for recording in [Recording::Main, Recording::Forks] {
        let mut versions: HashMap<String, BTreeMap<u64, Vec<u8>>> = HashMap::new();
        for line in recording.abis() {
            let block = line["block_num"].as_u64().expect("a number");
            // Several in one block are in their order: the last counts at the end of the block.
            versions
                .entry(text(&line["account"]).to_owned())
                .or_default()
                .insert(block, unhex(text(&line["abi_hex"])));
        }
        let mut seen = Seen {
            abieos: 0,
            wharfkit: 0,
            nodeos: 0,
        };
        for raw in recording.row_lines() {
            let line: Line<'_> = serde_json::from_str(&raw).expect("a line of the fixture");
            let abi = versions
                .get(&line.code)
                .and_then(|versions| versions.range(..=u64::from(line.block_num)).next_back())
                .and_then(|(_, bytes)| Abi::from_bytes(bytes).ok());
            let (Some(abi), Some(hex)) = (abi, &line.hex) else {
                continue;
            };
            if let Some(ty) = abi.table_type(name(&line.table)) {
                // Rows of lost blocks are decoded by the ABIs of those; the actions above cover these.
                if recording == Recording::Main {
                    compare(&line, &raw, &abi, ty, &unhex(hex), &mut seen);
                }
            }
        }
        if recording == Recording::Main {
            assert!(
                seen.abieos > 250 && seen.wharfkit > 300,
                "{} {}",
                seen.abieos,
                seen.wharfkit
            );
        }
    }
}

#[test]
fn native_rows_as_abieos_prints_them() {
    // The rows themselves are in the frames, which the State History crate reads; here the ABI alone is checked.
    let abi = Abi::from_json(SHIP_ABI).expect("the node's own ABI");
    for table in [
        "account",
        "permission",
        "contract_row",
        "global_property",
        "resource_limits_config",
    ] {
        assert!(abi.type_id(table).is_some(), "{table}");
    }
    for ty in [
        "request",
        "result",
        "transaction_trace",
        "table_delta",
        "signed_block",
    ] {
        assert!(abi.type_id(ty).is_some(), "{ty}");
    }
}
