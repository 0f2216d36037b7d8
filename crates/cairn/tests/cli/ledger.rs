//! An application's ledger alone, in a private Redis: told over HTTP, asked, filled from a shell, stopped and started.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use cairn_testkit::RedisServer;

use crate::support::{PATIENCE, Running, cairn, get, outcome, until_ready};

const RECORD: &str = r#"{"id":"ID","playerId":"nm-1","spaceId":"space-9","amenityKind":"shop",
    "itemRef":{"kind":"shop","id":"item-3"},"priceUsd":3.5,"at":"2026-03-10T14:05:17.123Z","powerUpsEarned":9}"#;

fn configure(dir: &Path, more: &str) {
    std::fs::write(dir.join("token"), "secret-of-the-application\n").expect("writable");
    let text = format!(
        "data_dir = \"data\"\n[http]\nlisten = \"127.0.0.1:0\"\n[scanner]\nenabled = true\n\
         ingest_token_file = \"token\"\nadmin_token_file = \"token\"\n{more}\n"
    );
    std::fs::write(dir.join("cairn.toml"), text).expect("writable");
}

/// Status and body of a call.
fn tell(address: &str, id: &str) -> (u16, String) {
    let body = format!("{{\"record\":{}}}", RECORD.replace("ID", id));
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        stream,
        "POST /api/ingest/executePurchase HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Authorization: Bearer secret-of-the-application\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), text)
}

#[test]
fn a_ledger_survives_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    configure(dir.path(), "");
    for (round, expected) in [(1, 201), (2, 200)] {
        let mut running = Running::start(dir.path(), &["start"]);
        let address = running.address();
        let ready = until_ready(&address);
        assert_eq!(ready["services"]["scanner"]["ready"], true, "{ready}");
        let (status, text) = tell(&address, "pur-1");
        assert_eq!(status, expected, "round {round}: {text}");
        let tx = get(&address, "/api/scanner/txs/pur-1");
        assert_eq!(
            (tx.status, tx.json()["tx"]["priceUsdMicros"].as_str()),
            (200, Some("3500000"))
        );
        let metrics = get(&address, "/metrics").body;
        let result = if round == 1 { "created" } else { "duplicate" };
        let line = format!("cairn_scanner_txs_total{{host=\"default\",result=\"{result}\"}} 1");
        assert!(metrics.contains(&line), "{line} is missing in\n{metrics}");
        assert!(
            !running.log().contains("secret-of-the-application"),
            "{}",
            running.log()
        );
        running.stop();
    }
}

#[test]
fn a_backfill_from_a_shell() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let redis = RedisServer::start();
    configure(dir.path(), &format!("[redis]\nurl = \"{}\"", redis.url()));
    for id in ["old-1", "old-2"] {
        let row = RECORD.replace("ID", id).replace([' ', '\n'], "");
        redis.run::<i64>(&format!(
            "LPUSH agent-play:default:player:nm-1:purchases {row}"
        ));
    }
    let (code, out, err) = outcome(cairn(dir.path()).args(["scanner-backfill", "--json"]));
    assert_eq!(code, 0, "{out}{err}");
    let state: serde_json::Value = serde_json::from_str(&out).expect("JSON alone on stdout");
    assert_eq!(
        (&state["status"], &state["newlyIndexed"]),
        (&"completed".into(), &2.into())
    );
    let (code, out, err) = outcome(cairn(dir.path()).arg("scanner-backfill"));
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("completed") && out.contains("0 rows new, 2 known"),
        "{out}"
    );
}

#[test]
fn without_a_ledger_there_is_nothing_to_fill() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("cairn.toml"), "data_dir = \"data\"\n").expect("writable");
    let (code, _, err) = outcome(cairn(dir.path()).arg("scanner-backfill"));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("scanner.enabled"), "{err}");
}
