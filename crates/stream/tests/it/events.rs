//! The JSON of events, read back by another JSON implementation.

use cairn_stream::{
    Action, BlockEvents, BlockTime, Delta, Event, EventHead, Json, NativeDelta, PermissionLevel,
    Receipt, Record,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chain::position;
use crate::label;

fn empty_block() -> BlockEvents {
    let time = BlockTime::from_unix_ms(1_777_939_200_500).expect("a time");
    BlockEvents::new(&label("eos"), position(7, 0), Some(position(6, 0).id), time)
}

fn values(block: &BlockEvents) -> Vec<Value> {
    block
        .texts()
        .map(|text| serde_json::from_slice(text).expect("valid JSON"))
        .collect()
}

fn action<'a>(authorization: &'a [PermissionLevel<'a>]) -> Action<'a> {
    Action {
        account: "eosio.token",
        name: "transfer",
        authorization,
        data: Json::made("{\"from\":\"alice\"}"),
        action_ordinal: 3,
        global_sequence: u64::MAX,
        receipt: Some(Receipt {
            receiver: "bob",
            act_digest: "ab",
            global_sequence: u64::MAX,
            recv_sequence: 1 << 63,
            code_sequence: 4,
            abi_sequence: 5,
        }),
        receiver: "bob",
        transaction_id: "cd",
        transaction_status: "executed",
        creator_action_ordinal: 1,
        context_free: false,
        hex: None,
        decode_error: None,
        trailing_bytes: None,
        return_value: None,
        console: None,
    }
}

#[test]
fn every_kind_has_the_fields_of_the_contract() {
    let mut block = empty_block();
    block.fork(position(9, 1));
    let levels = [
        PermissionLevel {
            actor: "alice",
            permission: "active",
        },
        PermissionLevel {
            actor: "",
            permission: "owner",
        },
    ];
    block.push(&Event::Action(action(&levels)));
    block.push(&Event::Action(Action {
        receipt: None,
        data: Json::EMPTY,
        hex: Some("00ff"),
        decode_error: Some("no \"such\" type"),
        trailing_bytes: Some(2),
        return_value: Some(Json::made("[1]")),
        console: Some("line\n\u{1}"),
        ..action(&[])
    }));
    block.push(&Event::Delta(Delta {
        code: "eosio.token",
        scope: "",
        table: "accounts",
        primary_key: u64::MAX,
        value: Json::made("{\"balance\":\"1.0000 EOS\"}"),
        present: true,
        payer: Some("alice"),
        hex: None,
        decode_error: None,
        trailing_bytes: None,
    }));
    block.push(&Event::NativeDelta(NativeDelta {
        table: "permission",
        lookup_key: "alice:active",
        data: Json::made("{}"),
        present: false,
        hex: None,
        decode_error: None,
    }));
    block.set_irreversible();
    block.push(&Event::Record(Record {
        kind: "transaction",
        letter: 't',
        key: "deadbeef",
        data: Json::made("{}"),
    }));
    let b16 = position(7, 0).id.short();
    let id = position(7, 0).id.to_string();
    let in_block = |kind: &str, event_id: String, rest: Value| {
        let mut event = json!({
            "kind": kind, "event_id": event_id, "chain_id": "eos", "block_num": 7,
            "block_time": "2026-05-05T00:00:00.500", "block_id": id,
        });
        let fields = event.as_object_mut().expect("an object");
        fields.extend(rest.as_object().expect("an object").clone());
        event
    };
    let action_id = format!("eos:a:7:{b16}:18446744073709551615");
    let expected = [
        json!({
            "kind": "fork", "event_id": format!("eos:f:6:{b16}"), "chain_id": "eos", "forked_from_block": 6,
            "new_head_block_id": id, "block_num": 7, "old_head_block_num": 9,
            "old_head_block_id": position(9, 1).id.to_string(), "undone_blocks": 3,
        }),
        in_block(
            "action",
            action_id.clone(),
            json!({
                "account": "eosio.token", "name": "transfer",
                "authorization": [{"actor": "alice", "permission": "active"}, {"actor": "", "permission": "owner"}],
                "data": {"from": "alice"}, "action_ordinal": 3, "global_sequence": "18446744073709551615",
                "receipt": {
                    "receiver": "bob", "actDigest": "ab", "globalSequence": "18446744073709551615",
                    "recvSequence": "9223372036854775808", "codeSequence": 4, "abiSequence": 5,
                },
                "receiver": "bob", "transaction_id": "cd", "transaction_status": "executed",
                "creator_action_ordinal": 1, "context_free": false,
            }),
        ),
        in_block(
            "action",
            action_id,
            json!({
                "account": "eosio.token", "name": "transfer", "authorization": [], "data": {}, "action_ordinal": 3,
                "global_sequence": "18446744073709551615", "receipt": null, "receiver": "bob", "transaction_id": "cd",
                "transaction_status": "executed", "creator_action_ordinal": 1, "context_free": false,
                "return_value": [1], "console": "line\n\u{1}", "hex": "00ff", "decode_error": "no \"such\" type",
                "trailing_bytes": 2,
            }),
        ),
        in_block(
            "delta",
            format!("eos:d:7:{b16}:eosio.token::accounts:18446744073709551615"),
            json!({
                "code": "eosio.token", "scope": "", "table": "accounts", "primary_key": "18446744073709551615",
                "value": {"balance": "1.0000 EOS"}, "present": true, "payer": "alice",
            }),
        ),
        in_block(
            "native-delta",
            format!("eos:n:7:{b16}:permission:alice:active"),
            json!({
                "table": "permission", "lookup_key": "alice:active", "data": {}, "present": false,
            }),
        ),
        in_block(
            "transaction",
            format!("eos:t:7:{b16}:deadbeef"),
            json!({ "data": {}, "irreversible": true }),
        ),
    ];
    let found = values(&block);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    let kinds: Vec<_> = block.kinds().collect();
    assert_eq!(
        kinds,
        [
            ("action", 2),
            ("delta", 1),
            ("fork", 1),
            ("native-delta", 1),
            ("transaction", 1)
        ]
    );
}

#[test]
#[should_panic(expected = "a fork is the first event")]
fn a_fork_comes_first() {
    let mut block = empty_block();
    block.push(&Event::Action(action(&[])));
    block.fork(position(9, 1));
}

#[test]
fn json_from_elsewhere_is_checked() {
    assert_eq!(
        Json::checked(" {\"a\":1} ").expect("JSON").as_str(),
        "{\"a\":1}"
    );
    for text in ["", "{", "{} {}", "nonsense"] {
        assert!(Json::checked(text).is_err(), "{text}");
    }
}

#[test]
fn heads_say_what_is_missing() {
    for (data, said) in [
        ("{}", "kind"),
        ("[]", "not a JSON object"),
        ("", "not a JSON object"),
        ("{\"kind\":\"action\"}", "event_id"),
        (
            "{\"kind\":\"fork\",\"event_id\":\"x\"}",
            "forked_from_block",
        ),
        (
            "{\"kind\":\"action\",\"event_id\":\"x\",\"block_num\":1,\"block_id\":\"zz\"}",
            "64 hexadecimal digits",
        ),
        ("{\"kind\":\"a\",\"event_id\":\"x\",\"block_num\":-1}", "-1"),
    ] {
        let error = EventHead::parse(data.as_bytes()).expect_err(data);
        assert!(error.contains(said), "{data}: {error}");
    }
    let ledger = EventHead::parse(b"{\"kind\":\"tx\",\"event_id\":\"l:t:1\",\"more\":[1]}")
        .expect("an event");
    assert_eq!((ledger.block, ledger.fork), (None, None));
}

proptest! {
    /// Whatever text an account, a scope or a console holds: the JSON is valid, and gives that text back.
    #[test]
    fn any_text_comes_back(text in any::<String>(), error in any::<String>()) {
        let mut block = empty_block();
        block.push(&Event::NativeDelta(NativeDelta {
            table: &text,
            lookup_key: &error,
            data: Json::EMPTY,
            present: true,
            hex: Some(&error),
            decode_error: Some(&text),
        }));
        let found = values(&block);
        prop_assert_eq!(&found[0]["table"], &Value::from(text.clone()));
        prop_assert_eq!(&found[0]["decode_error"], &Value::from(text.clone()));
        prop_assert_eq!(&found[0]["hex"], &Value::from(error.clone()));
        let bytes = block.texts().next().expect("one event");
        let head = EventHead::parse(bytes).expect("our own event");
        prop_assert_eq!(head.block, Some(position(7, 0)));
        prop_assert_eq!(
            head.event_id.as_ref(),
            cairn_stream::native_delta_id(&label("eos"), position(7, 0), &text, &error)
        );
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = EventHead::parse(&bytes);
    }
}
