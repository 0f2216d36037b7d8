//! `cairn demo`, from nothing to a served chain and back.

use std::net::TcpListener;
use std::time::Instant;

use serde_json::Value;

use crate::support::{PATIENCE, Running, cairn, get, outcome};

/// The address behind the URL of a line of the welcome.
fn address_of(welcome: &str, name: &str) -> String {
    let line = welcome
        .lines()
        .find(|line| line.trim_start().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name} is missing in\n{welcome}"));
    let url = line.split("http://").nth(1).expect("a URL");
    url.split('/').next().expect("a host").to_owned()
}

#[test]
fn the_demo_serves_what_it_prints() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut demo = Running::start(
        dir.path(),
        &["demo", "--data-dir", "data", "--listen", "127.0.0.1:0"],
    );
    let welcome = demo.read_until("Ctrl-C stops it");
    let address = address_of(&welcome, "explorer");
    let height = get(&address, "/api/blocks/tip/height");
    assert_eq!(height.status, 200, "{height:?}");
    let tip: u64 = height.body.parse().expect("a number");
    assert!(tip > 100, "{tip}");
    assert!(
        welcome.contains(&format!("{} blocks", tip + 1)),
        "{welcome}"
    );
    assert_eq!(
        get(&address, "/bitcoin-regtest/api/blocks/tip/height").body,
        height.body
    );

    // Every URL that is printed answers.
    let mut printed = 0;
    for url in welcome
        .split_whitespace()
        .filter(|word| word.starts_with("http://"))
    {
        let path = url
            .trim_start_matches("http://")
            .trim_start_matches(&address);
        if path.ends_with("-regtest/api") {
            // The root of an API, which has endpoints below it.
            continue;
        }
        let answer = get(&address, path);
        assert_eq!(answer.status, 200, "{url}: {answer:?}");
        printed += 1;
    }
    assert!(printed >= 8, "{welcome}");

    let ready = get(&address, "/health/ready");
    assert!(
        ready.head.contains("cache-control: no-store"),
        "{}",
        ready.head
    );
    let ready = ready.json();
    let chain = &ready["chains"]["bitcoin-regtest"];
    assert_eq!(
        (&ready["ready"], &chain["index"]),
        (&true.into(), &"synced".into()),
        "{ready}"
    );
    assert_eq!(chain["height"], tip);
    assert_eq!(ready["services"]["redis"]["ready"], true, "{ready}");
    let liquid = &ready["chains"]["liquid-regtest"];
    assert_eq!(
        (&liquid["index"], &liquid["height"]),
        (&"synced".into(), &134.into())
    );
    let antelope = &ready["chains"]["antelope-sample"];
    assert_eq!(antelope["index"], "synced", "{ready}");
    assert_eq!(ready["chains"]["bitcoin-regtest"]["node_height"], tip);
    assert_eq!(get(&address, "/health/live").status, 200);
    assert_eq!(
        get(&address, "/openapi.json").json()["servers"][0]["url"],
        "/bitcoin-regtest/api"
    );
    let metrics = get(&address, "/metrics").body;
    for line in [
        format!("cairn_index_tip_height{{chain=\"bitcoin-regtest\"}} {tip}"),
        "cairn_index_ready{chain=\"bitcoin-regtest\"} 1".to_owned(),
        "cairn_http_connections{surface=\"main\"} 1".to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(
            metrics.lines().any(|got| got == line),
            "{line} is missing in\n{metrics}"
        );
    }
    assert!(
        metrics.contains("cairn_store_rows{chain=\"bitcoin-regtest\",family=\"txstore_"),
        "{metrics}"
    );
    assert!(
        metrics.contains("endpoint=\"/api/blocks/tip/height\""),
        "{metrics}"
    );
    assert_eq!(get(&address, "/api/tx/zz").status, 400);
    assert_eq!(get(&address, "/nothing-here").status, 404);

    // Another process may not touch the folder, and can ask this one.
    let (code, out, err) =
        outcome(cairn(dir.path()).args(["demo", "--data-dir", "data", "--listen", "127.0.0.1:0"]));
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        err.contains("the data folder data is in use by process "),
        "{err}"
    );
    let show = || -> Value {
        let (code, out, err) =
            outcome(cairn(dir.path()).args(["status", "--json", "--listen", &address]));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).expect("JSON alone")
    };
    let of = |status: &Value, id: &str| -> Value {
        let chains = status["chains"].as_array().expect("a list");
        chains
            .iter()
            .find(|chain| chain["id"] == id)
            .expect("it is shown")
            .clone()
    };
    // The length of a stream is looked at now and then.
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let status = show();
        if of(&status, "antelope-sample")["stream_length"].as_u64() > Some(0) {
            break status;
        }
        assert!(Instant::now() < deadline, "no events: {status}");
    };
    assert_eq!(
        (&status["source"], &status["ready"]),
        (&"server".into(), &true.into())
    );
    let bitcoin = of(&status, "bitcoin-regtest");
    assert_eq!(
        (&bitcoin["lag"], &bitcoin["height"]),
        (&0.into(), &tip.into())
    );
    let (code, out, _) = outcome(cairn(dir.path()).args(["status", "--listen", &address]));
    assert_eq!(code, 0);
    assert!(
        out.contains("bitcoin-regtest") && out.contains("synced"),
        "{out}"
    );

    demo.stop();

    // Started again it has nothing to do, and serves the same.
    let mut again = Running::start(
        dir.path(),
        &["demo", "--data-dir", "data", "--listen", "127.0.0.1:0"],
    );
    let address = address_of(&again.read_until("Ctrl-C stops it"), "explorer");
    assert_eq!(get(&address, "/api/blocks/tip/height").body, height.body);
    again.stop();
}

#[test]
fn a_taken_port_is_replaced_and_the_folder_removed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).expect("writable");
    let listen = format!("127.0.0.1:{port}");
    // TMPDIR is read by the program itself.
    let mut demo = Running::start_with(
        dir.path(),
        &["demo", "--listen", &listen],
        &[("TMPDIR", &temporary)],
    );
    let welcome = demo.read_until("Ctrl-C stops it");
    assert!(
        welcome.contains(&format!("port {port} is taken; using "))
            || welcome.contains("any free one"),
        "{welcome}"
    );
    let address = address_of(&welcome, "explorer");
    assert_ne!(address, listen);
    assert_eq!(get(&address, "/").status, 200);
    assert_eq!(std::fs::read_dir(&temporary).expect("readable").count(), 1);
    demo.stop();
    assert_eq!(std::fs::read_dir(&temporary).expect("readable").count(), 0);
}
