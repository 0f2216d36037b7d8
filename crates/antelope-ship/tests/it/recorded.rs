//! Every message of the recorded sessions against what abieos and wharfkit read in it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use cairn_antelope_abi::{Profile, json};
use cairn_antelope_ship::{BlocksRequest, Message, Protocol, ReceivedBlock};
use cairn_testkit::antelope::{Recording, SHIP_ABI, protocol_cases};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) fn protocol() -> Arc<Protocol> {
    Arc::new(Protocol::from_abi_json(SHIP_ABI).expect("the node's own ABI"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    json::hex(&mut out, bytes);
    String::from_utf8(out).expect("hex digits")
}

fn received(recording: Recording) -> Vec<ReceivedBlock> {
    let protocol = protocol();
    recording
        .block_frames()
        .into_iter()
        .map(|bytes| {
            ReceivedBlock::from_message(&protocol, bytes)
                .expect("a recorded message")
                .expect("a block")
        })
        .collect()
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a number")).expect("small")
}

/// Long values are recorded by length and digest.
fn same_bytes(line: &Value, bytes: &[u8]) -> bool {
    match line["hex"].as_str() {
        Some(text) => text == hex(bytes),
        None => {
            line["hex_len"] == bytes.len() as u64
                && line["hex_sha256"] == sha256::Hash::hash(bytes).to_string().as_str()
        }
    }
}

#[test]
fn blocks_actions_and_rows() {
    for recording in [Recording::Main, Recording::Forks] {
        let blocks = received(recording);
        let mut actions: HashMap<(usize, String), Value> = HashMap::new();
        for line in recording.action_lines() {
            let line: Value = serde_json::from_str(&line).expect("a line of the fixture");
            let key = (
                index(&line["f"]),
                line["global_sequence"].as_str().expect("digits").to_owned(),
            );
            actions.insert(key, line);
        }
        let mut rows: BTreeMap<(usize, usize), Value> = BTreeMap::new();
        for line in recording.row_lines() {
            let line: Value = serde_json::from_str(&line).expect("a line of the fixture");
            rows.insert((index(&line["f"]), index(&line["i"])), line);
        }
        for (f, expected) in recording.blocks().iter().enumerate() {
            let block = &blocks[f];
            let result = block.result().expect("read before");
            assert_eq!(expected["block_num"], block.this.num, "{f}");
            assert_eq!(expected["block_id"], hex(&block.this.id).as_str());
            assert_eq!(
                expected["prev"].as_str(),
                block.previous.map(|p| hex(&p.id)).as_deref()
            );
            assert_eq!(expected["head"], block.head.num);
            assert_eq!(expected["lib"], block.last_irreversible.num);
            let header = block
                .protocol()
                .read_header(result.block.expect("was asked for"))
                .expect("a header");
            let mut time = Vec::new();
            header.timestamp.write_to(&mut time);
            assert_eq!(expected["time"], String::from_utf8_lossy(&time).as_ref());
            assert_eq!(expected["producer"], header.producer.to_string().as_str());

            let traces = result.traces.map_or(Vec::new(), |bytes| {
                block.protocol().read_traces(bytes).expect("traces")
            });
            assert_eq!(expected["traces"], traces.len() as u64);
            let mut count = 0u64;
            for trace in &traces {
                for action in &trace.actions {
                    let Some(receipt) = &action.receipt else {
                        continue;
                    };
                    count += 1;
                    let line = actions
                        .remove(&(f, receipt.global_sequence.to_string()))
                        .expect("the fixture has the action, once");
                    let authorization: Vec<String> = action
                        .authorization
                        .iter()
                        .map(|l| format!("{}@{}", l.actor, l.permission))
                        .collect();
                    for (field, ours) in [
                        ("trx_id", Value::from(hex(&trace.id))),
                        ("trx_status", trace.status.into()),
                        ("action_ordinal", action.ordinal.into()),
                        ("creator_action_ordinal", action.creator_ordinal.into()),
                        ("recv_sequence", receipt.recv_sequence.to_string().into()),
                        ("code_sequence", receipt.code_sequence.into()),
                        ("abi_sequence", receipt.abi_sequence.into()),
                        ("receiver", action.receiver.to_string().into()),
                        ("account", action.account.to_string().into()),
                        ("name", action.name.to_string().into()),
                        ("authorization", authorization.into()),
                        ("context_free", action.context_free.into()),
                        ("act_digest", hex(receipt.act_digest).into()),
                    ] {
                        assert_eq!(line[field], ours, "{field} of {line}");
                    }
                    assert_eq!(receipt.receiver, action.receiver);
                    assert!(same_bytes(&line, action.data), "{line}");
                    assert_eq!(
                        line["return_value_hex"].as_str().unwrap_or_default(),
                        hex(action.return_value)
                    );
                    assert_eq!(
                        line["console"].as_str().unwrap_or_default(),
                        String::from_utf8_lossy(action.console)
                    );
                }
            }
            assert_eq!(expected["actions"], count);

            let deltas = block
                .protocol()
                .read_deltas(result.deltas.expect("was asked for"))
                .expect("deltas");
            let counts: serde_json::Map<String, Value> = deltas
                .iter()
                .map(|d| (d.name.to_owned(), Value::from(d.rows.len() as u64)))
                .collect();
            assert_eq!(expected["rows"], Value::Object(counts));
            for delta in deltas.iter().filter(|delta| delta.name == "contract_row") {
                for (i, row) in delta.rows.iter().enumerate() {
                    let line = rows.remove(&(f, i)).expect("the fixture has the row, once");
                    let read = block.protocol().read_contract_row(row.data).expect("a row");
                    for (field, ours) in [
                        ("present", Value::from(u8::from(row.present))),
                        ("code", read.code.to_string().into()),
                        ("scope", read.scope.to_string().into()),
                        ("table", read.table.to_string().into()),
                        ("primary_key", read.primary_key.to_string().into()),
                        ("payer", read.payer.to_string().into()),
                    ] {
                        assert_eq!(line[field], ours, "{field} of {line}");
                    }
                    assert!(same_bytes(&line, read.value), "{line}");
                }
            }
        }
        assert!(
            actions.is_empty() && rows.is_empty(),
            "nothing of the fixture is left out"
        );
    }
}

#[test]
fn native_rows_and_their_keys() {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        f: usize,
        i: usize,
        table: String,
        #[serde(default, borrow)]
        data: Option<&'a RawValue>,
    }
    for (recording, at_least) in [(Recording::Main, 500), (Recording::Forks, 100)] {
        let blocks = received(recording);
        let mut compared = 0;
        for raw in recording.native_lines() {
            let line: Line<'_> = serde_json::from_str(&raw).expect("a line of the fixture");
            let block = &blocks[line.f];
            let result = block.result().expect("read before");
            let deltas = block
                .protocol()
                .read_deltas(result.deltas.expect("was asked for"))
                .expect("deltas");
            let delta = deltas
                .iter()
                .find(|delta| delta.name == line.table)
                .expect("the table is in the block");
            let bytes = delta.rows[line.i].data;
            let key = block
                .protocol()
                .native_key(&line.table, bytes)
                .expect("a key");
            let Some(data) = line.data else {
                continue;
            };
            let (_, expected): (String, &RawValue) =
                serde_json::from_str(data.get()).expect("a variant");
            let mut out = Vec::new();
            let decoded = block
                .protocol()
                .native_json(&line.table, bytes, Profile::Abieos, &mut out)
                .expect("a row");
            assert_eq!(decoded.trailing, 0);
            assert_eq!(String::from_utf8_lossy(&out), expected.get(), "{raw}");
            assert_eq!(
                key,
                key_of(
                    &line.table,
                    &serde_json::from_str(expected.get()).expect("JSON")
                ),
                "{raw}"
            );
            compared += 1;
        }
        assert!(compared > at_least, "{recording:?}: {compared}");
    }
}

/// The key by the published formulas, from the JSON of an independent decoder.
fn key_of(table: &str, row: &Value) -> String {
    let fields: &[&str] = match table {
        "account" | "account_metadata" => &["name"],
        "code" => &["code_hash"],
        "contract_table" => &["code", "scope", "table"],
        "generated_transaction" => &["sender", "sender_id"],
        "permission" => &["owner", "name"],
        "permission_link" => &["account", "code", "message_type"],
        "resource_limits" | "resource_usage" => &["owner"],
        index if index.starts_with("contract_index") => &["code", "scope", "table", "primary_key"],
        single => return single.to_owned(),
    };
    let parts: Vec<String> = fields
        .iter()
        .map(|field| {
            let text = row[field].as_str().expect("a text").to_owned();
            if *field == "code_hash" {
                text.to_lowercase()
            } else {
                text
            }
        })
        .collect();
    parts.join(":")
}

#[test]
fn requests_and_answers_of_the_protocol_cases() {
    let protocol = protocol();
    let mut seen = 0;
    for case in protocol_cases() {
        let request = |start: u32, end: u32, window: u32| {
            protocol.blocks_request(&BlocksRequest {
                start,
                end,
                window,
                ..BlocksRequest::default()
            })
        };
        match case.name.as_str() {
            "status" => assert_eq!(case.sent, [protocol.status_request()]),
            "range 10..13, all fetched" => assert_eq!(case.sent, [request(10, 13, u32::MAX)]),
            "window 0, then ack 2" => assert_eq!(case.sent[1], protocol.acknowledgement(2)),
            _ => {}
        }
        for message in &case.received {
            match protocol.read(message).expect("a node's own message") {
                Message::Status(status) => {
                    assert!(
                        status.chain_id.is_some()
                            && status.head.num >= status.last_irreversible.num
                    );
                    assert_eq!((status.trace_begin, status.state_begin), (2, 1));
                }
                Message::Block(block) => assert!(block.this.is_some()),
                Message::Other => panic!("{}: a message of an unknown kind", case.name),
            }
            seen += 1;
        }
    }
    assert!(seen > 20);
}
