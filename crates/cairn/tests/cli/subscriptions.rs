//! The commands for subscriptions, and subscriptions over HTTP, against a Redis of the test's own.

use std::path::Path;

use cairn_testkit::RedisServer;
use serde_json::{Value, json};

use crate::support::{Running, cairn, get, get_with, outcome};

fn installation(redis_url: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Port 9 (discard) is closed on any machine that runs tests.
    let text = format!(
        "data_dir = \"data\"\n[http]\nlisten = \"127.0.0.1:0\"\n[redis]\nurl = \"{redis_url}\"\n[stream]\ntoken = \"${{STREAM_TOKEN}}\"\n\
         [[chain]]\nid = \"eos-test\"\nkind = \"antelope\"\nship_url = \"ws://127.0.0.1:9\"\n"
    );
    std::fs::write(dir.path().join("cairn.toml"), text).expect("the folder is writable");
    dir
}

fn run(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(cairn(dir).env("STREAM_TOKEN", "geheim").args(arguments))
}

fn run_json(dir: &Path, arguments: &[&str]) -> Value {
    let (code, out, err) = run(dir, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Ten blocks with an event each, a registered subscription that was given four and acknowledged two, and three dead letters.
fn fill(server: &RedisServer) {
    for block in 1..=10u32 {
        let id = format!("{block:08x}{}", "0".repeat(56));
        let data = json!({
            "kind": "action", "event_id": format!("eos-test:a:{block}:{}:{block}", &id[..16]), "chain_id": "eos-test",
            "block_num": block, "block_id": id,
        });
        add(
            server,
            "ce:parser2:eos-test:events",
            &format!("{block}000-0"),
            &[("data", &data.to_string())],
        );
    }
    server.run::<String>("XGROUP CREATE ce:parser2:eos-test:events wallet 0");
    let registration = json!({
        "subId": "wallet", "filters": [{ "kind": "action" }], "startFrom": "first",
        "registeredAt": "2026-05-05T00:00:00.000Z", "chainId": "eos-test",
    });
    redis::cmd("HSET")
        .arg("parser2:subs")
        .arg("wallet")
        .arg(registration.to_string())
        .query::<u64>(&mut server.connection())
        .expect("set");
    server.run::<redis::Value>(
        "XREADGROUP GROUP wallet primary COUNT 4 STREAMS ce:parser2:eos-test:events >",
    );
    server.run::<u64>("XACK ce:parser2:eos-test:events wallet 1000-0 2000-0");
    for at in 1..=3u32 {
        let data =
            json!({ "kind": "action", "event_id": format!("eos-test:a:0:x:{at}") }).to_string();
        add(
            server,
            "ce:parser2:eos-test:dead:wallet",
            &format!("{at}-0"),
            &[
                ("data", &data),
                ("failureCount", "3"),
                ("lastError", "no\nway"),
                ("subId", "wallet"),
            ],
        );
    }
}

fn add(server: &RedisServer, key: &str, id: &str, fields: &[(&str, &str)]) {
    let mut command = redis::cmd("XADD");
    command.arg(key).arg(id);
    for (name, value) in fields {
        command.arg(name).arg(value);
    }
    command
        .query::<String>(&mut server.connection())
        .expect("added");
}

#[test]
fn subscriptions_are_listed_and_moved() {
    let server = RedisServer::start();
    let dir = installation(&server.url());
    let (code, out, _) = run(dir.path(), &["list-subscriptions"]);
    assert_eq!((code, out.as_str()), (0, "No subscriptions registered.\n"));
    assert_eq!(
        run_json(dir.path(), &["list-subscriptions", "--json"]),
        json!([])
    );
    fill(&server);
    let list = run_json(
        dir.path(),
        &["list-subscriptions", "--chain-id", "eos-test", "--json"],
    );
    assert_eq!(
        list,
        json!([{
            "subId": "wallet", "filters": [{ "kind": "action" }], "startFrom": "first",
            "registeredAt": "2026-05-05T00:00:00.000Z", "pending": 2, "lag": 6, "lastDeliveredId": "4000-0",
            "holder": null, "deadLetters": 3, "trimmedPast": null,
        }])
    );
    let (_, out, _) = run(dir.path(), &["list-subscriptions"]);
    for part in ["SUB ID", "LAST DELIVERED", "wallet", "4000-0"] {
        assert!(out.contains(part), "{out}");
    }
    // The status of a chain without a server names it, too.
    let status = run_json(dir.path(), &["status", "--json"]);
    assert_eq!(status["chains"][0]["subscriptions"][0]["lag"], 6);

    let reset = ["reset-subscription", "--sub-id", "wallet", "--to-block"];
    let with = |more: &[&str]| -> Vec<String> {
        reset
            .iter()
            .chain(more)
            .map(|text| (*text).to_owned())
            .collect()
    };
    let go = |more: &[&str]| {
        let arguments = with(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(dir.path(), &arguments)
    };
    let (code, out, err) = go(&["8", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("wallet would go on at block 8 (after entry 7999-"),
        "{out}"
    );
    assert!(
        err.contains("2 events that were given out and not acknowledged come first"),
        "{err}"
    );
    let (_, out, _) = go(&["8", "--clear-pending"]);
    assert!(
        out.contains("goes on at block 8") && out.contains("2 pending events were acknowledged"),
        "{out}"
    );
    let list = run_json(dir.path(), &["list-subscriptions", "--json"]);
    assert_eq!(list[0]["pending"], 0);
    let (_, out, _) = go(&["0"]);
    assert!(out.contains("the END of the stream"), "{out}");
    server.run::<String>("SET parser2:sub:wallet:lock somebody:1:x PX 60000");
    let (code, _, err) = go(&["earliest"]);
    assert_eq!(code, 1);
    assert!(err.contains("wallet is active in somebody:1:x"), "{err}");
    let (code, out, _) = go(&["earliest", "--force"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("goes on at the beginning of the stream (after entry 0-0"),
        "{out}"
    );
    for (more, code, said) in [
        (
            &["yesterday"][..],
            2,
            "neither a block's number nor latest nor earliest",
        ),
        (&["77", "--force"], 1, "none of it is published yet"),
        (
            &["1", "--chain", "other"],
            2,
            "there is no stream of \"other\"",
        ),
    ] {
        let (got, _, err) = go(more);
        assert!(got == code && err.contains(said), "{more:?}: {got} {err}");
    }
}

#[test]
fn dead_letters_are_listed_and_replayed() {
    let server = RedisServer::start();
    let dir = installation(&server.url());
    let (code, out, _) = run(dir.path(), &["list-dead-letters", "--all"]);
    assert_eq!((code, out.as_str()), (0, "No dead letters.\n"));
    fill(&server);
    let all = run_json(dir.path(), &["list-dead-letters", "--all", "--json"]);
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    assert_eq!(
        all[0],
        json!({
            "entryId": "1-0", "eventId": "eos-test:a:0:x:1", "kind": "action", "failureCount": 3, "lastError": "no\nway",
            "deadLetteredAt": "1970-01-01T00:00:00.001Z", "subId": "wallet",
            "originalPayload": { "kind": "action", "event_id": "eos-test:a:0:x:1" },
        })
    );
    let (_, out, _) = run(
        dir.path(),
        &[
            "list-dead-letters",
            "--sub-id",
            "wallet",
            "--from",
            "1-0",
            "--limit",
            "1",
        ],
    );
    assert!(
        out.contains("eos-test:a:0:x:2") && !out.contains("x:1") && !out.contains("x:3"),
        "{out}"
    );
    assert!(
        out.contains("no way") && out.contains("--from 2-0"),
        "{out}"
    );

    let replay = |more: &[&str]| {
        let mut arguments = vec!["replay-dead-letter", "--sub-id", "wallet"];
        arguments.extend(more);
        run(dir.path(), &arguments)
    };
    let requests = || server.run::<u64>("XLEN parser2:sub:wallet:replay");
    let (code, out, err) = replay(&["--all", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.ends_with("would replay 3 dead letters to wallet alone; each leaves the dead letters when it was handled\n"), "{out}");
    assert_eq!(requests(), 0);
    let (_, out, _) = replay(&["--event-id", "eos-test:a:0:x:2"]);
    assert!(
        out.starts_with("replayed 2-0 eos-test:a:0:x:2\nreplayed 1 dead letters"),
        "{out}"
    );
    assert_eq!(requests(), 1);
    let (_, out, _) = replay(&["--dl-id", "3-0", "--broadcast"]);
    assert!(
        out.contains("into the shared stream, to all subscriptions"),
        "{out}"
    );
    assert_eq!(server.run::<u64>("XLEN ce:parser2:eos-test:dead:wallet"), 2);
    assert_eq!(server.run::<u64>("XLEN ce:parser2:eos-test:events"), 11);
    for (more, code, said) in [
        (
            &["--event-id", "nothing"][..],
            1,
            "there is no such dead letter",
        ),
        (&[], 2, "required"),
        (&["--entry-id", "x"], 2, "not the id of a stream entry"),
    ] {
        let (got, _, err) = replay(more);
        assert!(got == code && err.contains(said), "{more:?}: {got} {err}");
    }
}

#[test]
fn a_running_server_serves_subscriptions_with_the_token_of_the_configuration() {
    let server = RedisServer::start();
    let dir = installation(&server.url());
    fill(&server);
    let mut running = Running::start_with(
        dir.path(),
        &["start"],
        &[("STREAM_TOKEN", Path::new("geheim"))],
    );
    let address = running.address();
    let refused = get(&address, "/api/streams/eos-test/subscriptions");
    assert_eq!(refused.status, 401);
    let description = get(&address, "/api/streams/openapi.json").json();
    assert!(description["paths"].is_object());
    let path = "/api/streams/eos-test/subscriptions/wallet/batch?limit=3&waitMs=8000";
    let batch = get_with(&address, path, "Authorization: Bearer geheim\r\n").json();
    let ids: Vec<&str> = batch["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|given| given["id"].as_str())
        .collect();
    assert_eq!(
        ids,
        ["3000-0", "4000-0", "5000-0"],
        "what was pending first"
    );
    let metrics = get(&address, "/metrics").body;
    assert!(
        metrics.contains(
            "parser2_client_messages_consumed_total{chain=\"eos-test\",sub_id=\"wallet\"}"
        ),
        "{metrics}"
    );
    assert!(!running.log().contains("geheim"));
}
