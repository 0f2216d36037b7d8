//! Versions of the protocol that the recorded node does not speak: their ABIs, and messages put together by hand.

use std::sync::Arc;

use cairn_antelope_ship::{Message, Protocol, ReceivedBlock};
use cairn_testkit::antelope::{Packer, Recording, SHIP_ABI};
use serde_json::{Value, json};

use super::recorded::protocol;

fn abi_with(change: impl FnOnce(&mut Value)) -> String {
    let mut abi: Value = serde_json::from_str(SHIP_ABI).expect("JSON");
    change(&mut abi);
    abi.to_string()
}

fn list<'a>(abi: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    abi[name].as_array_mut().expect("a list")
}

fn variant<'a>(abi: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    list(abi, "variants")
        .iter_mut()
        .find(|v| v["name"] == name)
        .and_then(|v| v["types"].as_array_mut())
        .expect("a variant")
}

fn structure<'a>(abi: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    list(abi, "structs")
        .iter_mut()
        .find(|s| s["name"] == name)
        .and_then(|s| s["fields"].as_array_mut())
        .expect("a structure")
}

/// A recorded block with traces and rows, as the node of the recording sent it.
fn sample() -> Vec<u8> {
    Recording::Main.block_frames()[16].clone()
}

#[test]
fn spring_adds_requests_and_finality() {
    let text = abi_with(|abi| {
        let mut fields = structure(abi, "get_blocks_result_v0").clone();
        fields.push(json!({ "name": "finality_data", "type": "bytes?" }));
        list(abi, "structs").push(json!({ "name": "get_blocks_result_v1", "fields": fields }));
        let mut fields = structure(abi, "get_status_result_v0").clone();
        fields.last_mut().expect("a field")["type"] = json!("checksum256");
        fields.push(json!({ "name": "finality_data_begin_block", "type": "uint32" }));
        fields.push(json!({ "name": "finality_data_end_block", "type": "uint32" }));
        list(abi, "structs").push(json!({ "name": "get_status_result_v1", "fields": fields }));
        for name in ["get_blocks_request_v1", "get_status_request_v1"] {
            list(abi, "structs").push(json!({ "name": name, "fields": [] }));
            // In front, so that a client that knows the indices by heart goes wrong.
            variant(abi, "request").insert(0, json!(name));
        }
        variant(abi, "result")
            .extend([json!("get_blocks_result_v1"), json!("get_status_result_v1")]);
    });
    let spring = Arc::new(Protocol::from_abi_json(&text).expect("a known version"));
    assert_eq!(spring.status_request(), [2]);
    assert_eq!(spring.acknowledgement(7), [4, 7, 0, 0, 0]);

    let mut message = sample();
    message[0] = 2;
    message.extend_from_slice(&[1, 3, 9, 9, 9]);
    let ours = ReceivedBlock::from_message(&spring, message)
        .expect("readable")
        .expect("a block");
    let plain = ReceivedBlock::from_message(&protocol(), sample())
        .expect("readable")
        .expect("a block");
    assert_eq!((ours.this, ours.previous), (plain.this, plain.previous));
    assert_eq!(
        ours.result().expect("read before").traces.map(<[u8]>::len),
        plain.result().expect("read before").traces.map(<[u8]>::len)
    );

    let status = Packer::new()
        .u8(3)
        .u32(9)
        .raw(&[9; 32])
        .u32(8)
        .raw(&[8; 32])
        .u32(2)
        .u32(10)
        .u32(1)
        .u32(10)
        .raw(&[7; 32])
        .u32(0)
        .u32(0)
        .done();
    let Message::Status(status) = spring.read(&status).expect("readable") else {
        panic!("a status")
    };
    assert_eq!(
        (status.head.num, status.trace_end, status.chain_id),
        (9, 10, Some([7; 32]))
    );
}

#[test]
fn eosio_2_1_sends_the_block_itself() {
    let text = abi_with(|abi| {
        list(abi, "structs").push(json!({ "name": "get_blocks_result_v1", "fields": [
            { "name": "head", "type": "block_position" }, { "name": "last_irreversible", "type": "block_position" },
            { "name": "this_block", "type": "block_position?" }, { "name": "prev_block", "type": "block_position?" },
            { "name": "block", "type": "signed_block_variant?" }, { "name": "traces", "type": "bytes" },
            { "name": "deltas", "type": "bytes" },
        ] }));
        list(abi, "variants")
            .push(json!({ "name": "signed_block_variant", "types": ["signed_block"] }));
        variant(abi, "result").extend([json!("get_blocks_result_v1")]);
        // Rows say 0 removed, 1 changed, 2 created; actions have one more list.
        structure(abi, "row")[0]["type"] = json!("uint8");
        let fields = structure(abi, "action_trace_v1");
        let at = fields
            .iter()
            .position(|f| f["name"] == "except")
            .expect("a field");
        fields.insert(
            at,
            json!({ "name": "account_disk_deltas", "type": "account_delta[]" }),
        );
    });
    let eosio = Arc::new(Protocol::from_abi_json(&text).expect("a known version"));
    let plain = ReceivedBlock::from_message(&protocol(), sample())
        .expect("readable")
        .expect("a block");
    let parts = plain.result().expect("read before");
    let position =
        |p: cairn_antelope_ship::BlockPosition| Packer::new().u32(p.num).raw(&p.id).done();
    let message = Packer::new()
        .u8(2)
        .raw(&position(parts.head))
        .raw(&position(parts.last_irreversible))
        .u8(1)
        .raw(&position(plain.this))
        .u8(1)
        .raw(&position(plain.previous.expect("not the first")))
        .u8(1)
        .u8(0)
        .raw(parts.block.expect("was asked for"))
        .bytes(&[])
        .bytes(parts.deltas.expect("was asked for"))
        .done();
    let ours = ReceivedBlock::from_message(&eosio, message)
        .expect("readable")
        .expect("a block");
    let read = ours.result().expect("read before");
    assert_eq!(ours.this, plain.this);
    assert_eq!(read.block, parts.block);
    assert_eq!(
        eosio
            .read_deltas(read.deltas.expect("there"))
            .expect("rows")
            .len(),
        protocol()
            .read_deltas(parts.deltas.expect("there"))
            .expect("rows")
            .len()
    );
}

#[test]
fn old_nodes_do_not_tell_their_chain() {
    let frames = Recording::Main.frames();
    let status = frames
        .iter()
        .find(|f| f.bytes.first() == Some(&0) && f.bytes.len() > 100 && f.bytes.len() < 200);
    let mut bytes = status.expect("a status in the recording").bytes.clone();
    bytes.truncate(bytes.len() - 32);
    let protocol = protocol();
    let Message::Status(status) = protocol.read(&bytes).expect("readable") else {
        panic!("a status")
    };
    assert_eq!(status.chain_id, None);
}

#[test]
fn what_is_no_such_protocol_is_said() {
    for (text, word) in [
        ("{}".to_owned(), "ABI"),
        ("hello".to_owned(), "ABI"),
        (
            r#"{"version":"eosio::abi/1.1","structs":[]}"#.to_owned(),
            "block_position",
        ),
        (
            abi_with(|abi| variant(abi, "request").clear()),
            "get_status_request_v0",
        ),
        (abi_with(|abi| variant(abi, "result").clear()), "get_status"),
        (
            abi_with(|abi| structure(abi, "action")[3]["type"] = json!("string")),
            "action.data",
        ),
        (
            abi_with(|abi| drop(structure(abi, "contract_row_v0").pop())),
            "contract_row_v0.value",
        ),
    ] {
        let error = Protocol::from_abi_json(&text).expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    // Whatever single thing is missing: an answer, no panic.
    for list_name in ["structs", "variants", "types", "tables"] {
        let count = serde_json::from_str::<Value>(SHIP_ABI).expect("JSON")[list_name]
            .as_array()
            .map_or(0, Vec::len);
        for at in 0..count {
            let text = abi_with(|abi| drop(list(abi, list_name).remove(at)));
            let _ = Protocol::from_abi_json(&text);
        }
    }
}
