//! Decoded events against what abieos, wharfkit and the node say about the same blocks.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_antelope_abi::Profile;
use cairn_antelope_parser::{AbiVersion, DecodedBlock, Decoder, Step};
use cairn_antelope_ship::{Admission, Branch, Protocol, ReceivedBlock};
use cairn_testkit::antelope::{Recording, SHIP_ABI};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::label;

/// Decodes a whole recording without I/O.
pub(crate) fn decode(recording: Recording, profile: Profile) -> Vec<DecodedBlock> {
    let protocol = Arc::new(Protocol::from_abi_json(SHIP_ABI).expect("the node's own ABI"));
    let mut decoder = Decoder::new(&label(), profile, recording == Recording::ForksIrreversible);
    let mut branch = Branch::default();
    let mut blocks = Vec::new();
    for bytes in recording.block_frames() {
        let mut block = ReceivedBlock::from_message(&protocol, bytes)
            .expect("readable")
            .expect("a block");
        if let Admission::Fork(fork) = branch.judge(block.this, block.previous) {
            block.fork = Some(fork);
        }
        branch.push(block.this, block.last_irreversible.num);
        let decoded = loop {
            match decoder
                .decode(&block, 0)
                .expect("a recorded block is readable")
            {
                // The recording begins with the first block: a contract that is not known has never had an ABI.
                Step::Needs(contracts) => {
                    for contract in contracts {
                        decoder.know(contract, Vec::new(), None);
                    }
                }
                Step::Done(decoded) => break *decoded,
            }
        };
        blocks.push(decoded);
    }
    blocks
}

fn texts(block: &DecodedBlock) -> Vec<String> {
    block
        .events
        .texts()
        .map(|text| String::from_utf8(text.to_vec()).expect("UTF-8"))
        .collect()
}

#[derive(Deserialize)]
struct ActionEvent<'a> {
    kind: String,
    event_id: String,
    block_num: u32,
    #[serde(borrow)]
    data: &'a RawValue,
    global_sequence: String,
    #[serde(default)]
    hex: Option<String>,
    #[serde(default)]
    decode_error: Option<String>,
    #[serde(default)]
    trailing_bytes: Option<u32>,
}

#[derive(Deserialize)]
struct Line<'a> {
    f: usize,
    global_sequence: String,
    account: String,
    name: String,
    #[serde(default)]
    hex: Option<String>,
    #[serde(default, rename = "abi")]
    no_abi: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default, borrow)]
    abieos: Option<&'a RawValue>,
    #[serde(default)]
    abieos_error: Option<String>,
    #[serde(default, borrow)]
    wharfkit: Option<&'a RawValue>,
    #[serde(default)]
    wharfkit_error: Option<String>,
}

#[test]
fn every_action_as_abieos_decodes_it() {
    // The profile of abieos, because the recording has its text for nearly every action; the other profiles are compared type by
    // type in the crate of the decoder.
    for recording in [Recording::Main, Recording::Forks] {
        let blocks = decode(recording, Profile::Abieos);
        let lines = recording.action_lines();
        let mut expected: HashMap<(usize, String), Line<'_>> = lines
            .iter()
            .map(|raw| {
                let line: Line<'_> = serde_json::from_str(raw).expect("a line of the fixture");
                ((line.f, line.global_sequence.clone()), line)
            })
            .collect();
        let (mut compared, mut undecoded) = (0, 0);
        for (f, block) in blocks.iter().enumerate() {
            let mut last = 0u64;
            for text in texts(block)
                .iter()
                .filter(|text| text.starts_with("{\"kind\":\"action\""))
            {
                let event: ActionEvent<'_> = serde_json::from_str(text).expect("an action");
                let sequence: u64 = event.global_sequence.parse().expect("digits");
                assert!(
                    sequence > last,
                    "actions are in the order in which they ran"
                );
                last = sequence;
                assert_eq!(event.kind, "action");
                let line = expected
                    .remove(&(f, event.global_sequence.clone()))
                    .expect("the fixture has the action, once");
                assert!(
                    event
                        .event_id
                        .ends_with(&format!(":{}", event.global_sequence))
                );
                assert_eq!(event.block_num, block.events.position().num);
                if let Some(text) = line.abieos {
                    // abieos keeps four digits of a year.
                    assert_eq!(
                        event.data.get().replace("\"294247-", "\"4247-"),
                        text.get(),
                        "{}",
                        event.event_id
                    );
                    assert_eq!(event.decode_error, None);
                    compared += 1;
                } else if line.abieos_error.is_some()
                    && line.wharfkit_error.is_none()
                    && line.wharfkit.is_some()
                {
                    // An ABI that abieos refuses and nodes do not.
                    assert_eq!(event.decode_error, None, "{}", event.event_id);
                } else if line.no_abi.is_none()
                    && line.account != "eosio"
                    && (line.error.is_some() || line.abieos_error.is_some())
                {
                    assert_eq!(event.data.get(), "{}");
                    assert!(
                        event.decode_error.is_some(),
                        "{} {}",
                        line.account,
                        line.name
                    );
                    if let Some(hex) = line.hex {
                        assert_eq!(event.hex.as_deref(), Some(hex.as_str()));
                    }
                    undecoded += 1;
                }
                if let (Some(trailing), Some(hex)) = (event.trailing_bytes, event.hex) {
                    panic!("{trailing} bytes left over and yet raw: {hex}");
                }
            }
        }
        assert!(expected.is_empty(), "no action is left out");
        if recording == Recording::Main {
            assert!(compared > 5_500 && undecoded > 5, "{compared} {undecoded}");
        }
    }
}

#[test]
fn rows_by_the_abi_they_were_written_under() {
    let blocks = decode(Recording::Main, Profile::Wharfkit);
    let mut lines: HashMap<(u64, String), Value> = HashMap::new();
    for line in Recording::Main.row_lines() {
        let line: Value = serde_json::from_str(&line).expect("a line of the fixture");
        let text = |field: &str| line[field].as_str().expect("a text").to_owned();
        let key = format!(
            "{}:{}:{}:{}",
            text("code"),
            text("scope"),
            text("table"),
            text("primary_key")
        );
        lines.insert((line["f"].as_u64().expect("a number"), key), line);
    }
    let (mut compared, mut repaired) = (0, 0);
    for (f, block) in blocks.iter().enumerate() {
        let mut keys = Vec::new();
        for text in texts(block) {
            let event: Value = serde_json::from_str(&text).expect("JSON");
            if event["kind"] != "delta" {
                continue;
            }
            let field = |name: &str| event[name].as_str().expect("a text").to_owned();
            let key = format!(
                "{}:{}:{}:{}",
                field("code"),
                field("scope"),
                field("table"),
                field("primary_key")
            );
            assert!(field("event_id").ends_with(&key));
            let line = lines
                .remove(&(f as u64, key.clone()))
                .expect("the fixture has the row, once");
            assert_eq!(
                event["present"].as_bool(),
                line["present"].as_u64().map(|present| present == 1)
            );
            assert_eq!(event["payer"], line["payer"]);
            let expected = if line["wharfkit"].is_null() {
                &line["abieos"]
            } else {
                &line["wharfkit"]
            };
            if line["error"] == "does not fit its type" {
                if event["decode_error"].is_null() {
                    // Written under an earlier ABI than the one at the end of the block: only the exact history knows.
                    assert_eq!(
                        event["value"],
                        serde_json::json!({ "id": 1, "note": "row under v1" }),
                        "{line}"
                    );
                    repaired += 1;
                } else {
                    assert_eq!(
                        (&event["value"], &event["hex"]),
                        (&serde_json::json!({}), &line["hex"])
                    );
                }
            } else if line["type"] == "everything" {
                // Compared text by text, with the repairs of the profile, in the crate of the decoder.
                assert!(event["decode_error"].is_null());
            } else if !expected.is_null() {
                assert_eq!(&event["value"], expected, "{line}");
                compared += 1;
            } else {
                assert!(
                    event["hex"].is_string() && event["decode_error"].is_string(),
                    "{line}"
                );
            }
            keys.push(key);
        }
        let codes: Vec<&str> = keys
            .iter()
            .map(|key| key.split(':').next().expect("a code"))
            .collect();
        assert!(codes.is_sorted(), "rows of one block are by contract");
    }
    assert!(lines.is_empty(), "no row is left out");
    assert!(compared > 250 && repaired >= 1, "{compared} {repaired}");
}

#[test]
fn native_rows_come_last_and_complete() {
    for recording in [Recording::Main, Recording::Forks] {
        let blocks = decode(recording, Profile::Abieos);
        let mut expected: HashMap<usize, usize> = HashMap::new();
        for line in recording.native_lines() {
            let line: Value = serde_json::from_str(&line).expect("a line of the fixture");
            *expected
                .entry(usize::try_from(line["f"].as_u64().expect("a number")).expect("small"))
                .or_default() += 1;
        }
        for (f, block) in blocks.iter().enumerate() {
            let kinds: Vec<u8> = texts(block)
                .iter()
                .map(|text| {
                    let event: Value = serde_json::from_str(text).expect("JSON");
                    if event["kind"] == "native-delta" {
                        assert!(
                            event["data"].is_object() && event["decode_error"].is_null(),
                            "{event}"
                        );
                        assert!(event["lookup_key"].is_string());
                    }
                    match event["kind"].as_str().expect("a kind") {
                        "fork" => 0,
                        "action" => 1,
                        "delta" => 2,
                        "native-delta" => 3,
                        other => panic!("{other}"),
                    }
                })
                .collect();
            assert!(kinds.is_sorted(), "fork, actions, rows, native rows");
            let natives = kinds.iter().filter(|kind| **kind == 3).count();
            assert_eq!(
                natives,
                expected.get(&f).copied().unwrap_or_default(),
                "block result {f}"
            );
        }
    }
}

#[test]
fn times_come_from_the_blocks() {
    for (block, told) in decode(Recording::Main, Profile::Wharfkit)
        .iter()
        .zip(Recording::Main.blocks())
    {
        assert_eq!(told["time"], block.events.time().to_string().as_str());
        for text in texts(block) {
            let event: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(event["block_time"], told["time"]);
            assert_eq!(event["block_id"], told["block_id"]);
            assert_eq!(event["chain_id"], "test-chain");
        }
    }
}

#[test]
fn forks_are_events_and_undo_abis() {
    let blocks = decode(Recording::Forks, Profile::Wharfkit);
    let forks: Vec<(u32, u32, u32)> = blocks
        .iter()
        .filter_map(|block| {
            Some((
                block.events.position().num,
                block.forked_from?,
                block.undone_blocks,
            ))
        })
        .collect();
    assert_eq!(forks, [(93, 92, 12), (141, 140, 11)]);
    for block in blocks.iter().filter(|block| block.forked_from.is_some()) {
        let first: Value = serde_json::from_str(&texts(block)[0]).expect("JSON");
        assert_eq!(
            (&first["kind"], &first["forked_from_block"]),
            (&Value::from("fork"), &Value::from(block.forked_from))
        );
        assert_eq!(
            first["new_head_block_id"],
            block.events.position().id.to_string().as_str()
        );
        assert_eq!(first["undone_blocks"], block.undone_blocks);
    }
    // The recorded session that shows irreversible blocks only has the same events, block by block, but no fork.
    let settled = decode(Recording::ForksIrreversible, Profile::Wharfkit);
    assert!(settled.iter().all(|block| block.forked_from.is_none()));
    let by_id: HashMap<String, Vec<String>> = blocks
        .iter()
        .map(|block| (block.events.position().id.to_string(), texts(block)))
        .collect();
    for block in &settled {
        let live = &by_id[&block.events.position().id.to_string()];
        let settled: Vec<String> = texts(block)
            .iter()
            .map(|text| text.replace(",\"irreversible\":true}", "}"))
            .collect();
        let live: Vec<&String> = live
            .iter()
            .filter(|text| !text.starts_with("{\"kind\":\"fork\""))
            .collect();
        assert_eq!(settled.iter().collect::<Vec<_>>(), live);
    }
}

/// Account, block, global sequence, number and digest of a version.
fn told(version: &AbiVersion) -> (String, u32, u64, u32, usize) {
    (
        version.contract.to_string(),
        version.block_num,
        version.global_sequence,
        version.abi_sequence,
        version.bytes.len(),
    )
}

#[test]
fn every_abi_is_found_with_its_place() {
    for recording in [Recording::Main, Recording::Forks] {
        let mut expected: Vec<_> = recording
            .abis()
            .iter()
            .chain(&recording.lost_abis())
            .map(|line| {
                let number = |field: &str| line[field].as_u64().expect("a number");
                (
                    line["account"].as_str().expect("a name").to_owned(),
                    u32::try_from(number("block_num")).expect("small"),
                    line["global_sequence"]
                        .as_str()
                        .expect("digits")
                        .parse::<u64>()
                        .expect("digits"),
                    u32::try_from(number("abi_sequence")).expect("small"),
                    line["abi_hex"].as_str().expect("hex").len() / 2,
                )
            })
            .collect();
        let mut found: Vec<_> = decode(recording, Profile::Wharfkit)
            .iter()
            .flat_map(|block| block.abis.iter().map(|version| told(version)))
            // The state of the first block has the system account's ABI, which no action set.
            .filter(|version| version.1 > 1)
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{recording:?}");
    }
}

#[test]
fn the_node_prints_the_same() {
    #[derive(Deserialize)]
    struct Told<'a> {
        f: usize,
        global_sequence: String,
        #[serde(default, borrow)]
        abieos: Option<&'a RawValue>,
        #[serde(default, borrow)]
        wharfkit: Option<&'a RawValue>,
        #[serde(default, borrow)]
        nodeos: Option<&'a RawValue>,
        #[serde(default)]
        nodeos_same: Option<Value>,
    }
    let lines = Recording::Main.action_lines();
    let mut expected: HashMap<(usize, String), &str> = HashMap::new();
    for raw in &lines {
        let line: Told<'_> = serde_json::from_str(raw).expect("a line of the fixture");
        let text = match &line.nodeos_same {
            Some(Value::String(_)) => line.wharfkit,
            Some(_) => line.abieos,
            None => line.nodeos,
        };
        if let Some(text) = text {
            expected.insert((line.f, line.global_sequence), text.get());
        }
    }
    let mut compared = 0;
    for (f, block) in decode(Recording::Main, Profile::Nodeos).iter().enumerate() {
        for text in texts(block)
            .iter()
            .filter(|text| text.starts_with("{\"kind\":\"action\""))
        {
            let event: ActionEvent<'_> = serde_json::from_str(text).expect("an action");
            if let Some(expected) = expected.get(&(f, event.global_sequence)) {
                assert_eq!(event.data.get(), *expected, "{}", event.event_id);
                compared += 1;
            }
        }
    }
    assert!(compared > 5_500, "{compared}");
}
