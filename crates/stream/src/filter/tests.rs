//! Tables of filters and events.

use serde_json::{Value, json};

use super::*;

fn passes(filters: &Value, event: &Value) -> bool {
    let text = event.to_string();
    let view = EventView::parse(text.as_bytes()).expect("an event");
    Filters::from_json(filters).expect("filters").passes(&view)
}

fn action() -> Value {
    json!({
        "kind": "action", "event_id": "t:a:1:x:7", "block_num": 1, "account": "eosio.token", "name": "transfer",
        "receiver": "bob", "authorization": [{ "actor": "alice", "permission": "active" }],
        "data": { "from": "alice", "amount": "12", "n": 5, "deep": { "a": 1, "b": [1, "2"] }, "none": null },
    })
}

#[test]
fn actions() {
    for (filter, fits) in [
        (json!([]), true),
        (Value::Null, true),
        (json!([{}]), true),
        (json!([{ "kind": "*" }]), true),
        (json!([{ "kind": "action" }]), true),
        (json!([{ "kind": "act*" }]), true),
        (json!([{ "kind": "delta" }]), false),
        (
            json!([{ "kind": "action", "account": "eosio.token", "name": "transfer" }]),
            true,
        ),
        (
            json!([{ "kind": "action", "account": "eosio.token", "name": "issue" }]),
            false,
        ),
        (
            json!([{ "kind": "action", "account": "*", "name": "*" }]),
            true,
        ),
        (json!([{ "kind": "action", "account": "eosio*" }]), true),
        (
            json!([{ "kind": "action", "account": "eosio.tokens*" }]),
            false,
        ),
        (json!([{ "kind": "action", "account": "eosio" }]), false),
        (json!([{ "kind": "action", "account": null }]), true),
        (json!([{ "kind": "action", "receiver": "bob" }]), true),
        (json!([{ "kind": "action", "receiver": "alice" }]), false),
        (json!([{ "kind": "action", "actor": "al*" }]), true),
        (json!([{ "kind": "action", "actor": "bob" }]), false),
        (
            json!([{ "kind": "action", "data": { "from": "alice" } }]),
            true,
        ),
        (
            json!([{ "kind": "action", "data": { "from": "bob" } }]),
            false,
        ),
        (
            json!([{ "kind": "action", "data": { "amount": 12 } }]),
            true,
        ),
        (json!([{ "kind": "action", "data": { "n": "5" } }]), true),
        (json!([{ "kind": "action", "data": { "n": "5.0" } }]), false),
        (
            json!([{ "kind": "action", "data": { "deep": { "a": "1" } } }]),
            true,
        ),
        (
            json!([{ "kind": "action", "data": { "deep": { "b": ["1", 2] } } }]),
            true,
        ),
        (
            json!([{ "kind": "action", "data": { "deep": { "b": [1] } } }]),
            false,
        ),
        (
            json!([{ "kind": "action", "data": { "missing": null } }]),
            false,
        ),
        (
            json!([{ "kind": "action", "data": { "none": null } }]),
            true,
        ),
        (
            json!([{ "kind": "action", "name": "issue" }, { "kind": "action", "name": "transfer" }]),
            true,
        ),
    ] {
        assert_eq!(passes(&filter, &action()), fits, "{filter}");
    }
}

#[test]
fn rows() {
    let delta = json!({
        "kind": "delta", "event_id": "d", "code": "eosio.token", "scope": "", "table": "accounts", "primary_key": "42",
        "value": { "balance": "1.0000 EOS" }, "present": true,
    });
    let native = json!({
        "kind": "native-delta", "event_id": "n", "table": "account", "lookup_key": "alice", "data": { "name": "alice" },
        "present": false,
    });
    for (filter, event, fits) in [
        (
            json!([{ "kind": "delta", "code": "eosio.token", "table": "acc*" }]),
            &delta,
            true,
        ),
        (json!([{ "kind": "delta", "scope": "" }]), &delta, true),
        (json!([{ "kind": "delta", "scope": "x" }]), &delta, false),
        (
            json!([{ "kind": "delta", "primary_key": 42 }]),
            &delta,
            true,
        ),
        (
            json!([{ "kind": "delta", "primary_key": "43" }]),
            &delta,
            false,
        ),
        (
            json!([{ "kind": "delta", "present": false }]),
            &delta,
            false,
        ),
        (
            json!([{ "kind": "delta", "value": { "balance": "1.0000 EOS" } }]),
            &delta,
            true,
        ),
        (json!([{ "kind": "native-delta" }]), &delta, false),
        (
            json!([{ "kind": "native-delta", "table": "account", "lookup_key": "al*" }]),
            &native,
            true,
        ),
        (
            json!([{ "kind": "native-delta", "present": false, "data": { "name": "alice" } }]),
            &native,
            true,
        ),
        (
            json!([{ "kind": "native-delta", "present": true }]),
            &native,
            false,
        ),
    ] {
        assert_eq!(passes(&filter, event), fits, "{filter} on {event}");
    }
}

#[test]
fn other_ledgers() {
    let event = json!({
        "kind": "tx", "event_id": "l:t:1", "name": 7, "account": { "odd": true }, "present": "maybe",
        "data": { "hook": "buy" },
    });
    for (filter, fits) in [
        (json!([{ "kind": "tx" }]), true),
        (json!([{ "kind": "tx", "data": { "hook": "buy" } }]), true),
        (json!([{ "kind": "t*", "data": { "hook": "sell" } }]), false),
        (json!([{ "kind": "fork" }]), false),
        (json!([{ "kind": "action" }]), false),
    ] {
        assert_eq!(passes(&filter, &event), fits, "{filter}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, said) in [
        ("{}", "filters: a list of objects is expected"),
        ("[", "filters: EOF"),
        ("[7]", "filters[0]: an object is expected"),
        (
            r#"[{}, {"kind": 7}]"#,
            "filters[1].kind: a text is expected",
        ),
        (
            r#"[{"kind": "action", "acount": "x"}]"#,
            "filters[0].acount: filters of this kind have no such field",
        ),
        (
            r#"[{"kind": "fork", "data": {}}]"#,
            "filters[0].data: filters of this kind have no such field",
        ),
        (
            r#"[{"kind": "delta", "present": 1}]"#,
            "filters[0].present: true or false is expected",
        ),
        (
            r#"[{"kind": "action", "data": []}]"#,
            "filters[0].data: an object is expected",
        ),
        (
            r#"[{"kind": "action", "name": {}}]"#,
            "filters[0].name: a text or a number is expected",
        ),
    ] {
        let error = Filters::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(said), "{error}");
    }
    let many = Value::Array(vec![json!({}); FILTERS_MAX + 1]);
    assert!(Filters::from_json(&many).is_err());
    assert!(Filters::parse(&" ".repeat(FILTERS_BYTES_MAX + 1)).is_err());
}

#[test]
fn they_are_told_as_they_were_given() {
    let given = json!([{ "kind": "action", "data": { "n": 1 } }, { "kind": "*" }]);
    let filters = Filters::from_json(&given).expect("filters");
    assert_eq!(filters.to_json(), given);
    assert!(!filters.is_everything());
    assert_eq!(Filters::everything().to_json(), json!([]));
}

#[test]
fn what_is_no_event() {
    for (data, said) in [
        (&b""[..], "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"{}", "missing field"),
        (b"{\"kind\":\"a\"}", "missing field"),
        (b"{\"kind\":\"a\",\"event_id\":\"b\"} x", "trailing"),
        (
            b"{\"kind\":\"a\",\"event_id\":\"b\",\"data\":{]}",
            "key must be",
        ),
    ] {
        let error = EventView::parse(data).expect_err("no event");
        assert!(error.contains(said), "{error}");
    }
    let fork = EventView::parse(br#"{"kind":"fork","event_id":"f","forked_from_block":9}"#)
        .expect("a fork");
    assert_eq!(fork.block_num, Some(10));
    let odd =
        EventView::parse(br#"{"kind":"\u0061","event_id":"b","name":"x\"y"}"#).expect("an event");
    assert_eq!(
        (odd.kind.as_ref(), odd.name.as_deref()),
        ("a", Some("x\"y"))
    );
}
