//! `start`: health from the first second, clean stops at any moment.

use std::time::Duration;

use cairn_testkit::{Params, TestChain};

use crate::support::{Installation, Running, get, until_ready};

/// A chain whose first load takes some seconds: long enough to be stopped in its middle.
fn long_chain() -> TestChain {
    let mut chain = TestChain::new(Params {
        txs_per_block: 400,
        signed: 0,
        ..Params::small(11)
    });
    chain.grow(260);
    chain
}

#[test]
fn without_its_node_it_answers_and_stops() {
    let installation = Installation::without_node();
    let mut server = Running::start(&installation.path(), &["start"]);
    let address = server.address();
    assert_eq!(get(&address, "/health/live").status, 200);
    server.wait_for("the first failure", |log| {
        log.contains("trying again").then_some(())
    });
    let ready = get(&address, "/health/ready");
    assert_eq!(ready.status, 503);
    let body = ready.json();
    assert_eq!(body["chains"]["test"]["index"], "starting", "{body}");
    let reason = body["chains"]["test"]["reason"]
        .as_str()
        .unwrap_or_default();
    assert!(reason.contains("127.0.0.1:9"), "{body}");
    let tip = get(&address, "/api/blocks/tip/height");
    assert_eq!(tip.status, 503, "{tip:?}");
    assert!(tip.head.contains("retry-after: "), "{}", tip.head);
    assert_eq!(get(&address, "/").status, 200);
    // The state did not change, so the log did not repeat itself.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        server.log().matches("trying again").count(),
        1,
        "{}",
        server.log()
    );
    server.stop();
}

#[test]
fn stopped_in_the_middle_of_the_first_load_it_continues() {
    let chain = long_chain();
    let installation = Installation::of_chain(&chain);
    let reference = Installation::of_chain(&chain);
    let (code, _, err) = reference.run(&["index", "--chain", "test"]);
    assert_eq!(code, 0, "{err}");

    // Stopped a little later each time, and never later than the load itself.
    let mut interrupted = 0;
    for milliseconds in [0, 100, 300, 600] {
        let mut server = Running::start(&installation.path(), &["start"]);
        let address = server.address();
        std::thread::sleep(Duration::from_millis(milliseconds));
        interrupted += u32::from(get(&address, "/health/ready").status == 503);
        server.stop();
    }
    assert!(
        interrupted > 0,
        "every load was complete before it was stopped"
    );

    let mut server = Running::start(&installation.path(), &["start"]);
    let address = server.address();
    let ready = until_ready(&address);
    assert_eq!(ready["height"], chain.height(), "{ready}");
    server.stop();
    for db in ["txstore", "history"] {
        let rows = |installation: &Installation| {
            installation
                .run(&["dump-rows", "--chain", "test", "--db", db])
                .1
        };
        let (ours, expected) = (rows(&installation), rows(&reference));
        assert!(
            !expected.is_empty() && ours == expected,
            "{db} differs after interruptions"
        );
    }
}

#[test]
fn every_listener_answers_what_it_is_for() {
    let chain = TestChain::small(12, 110);
    let installation = Installation::of_chain(&chain);
    let socket = installation.path().join("esplora.sock");
    let mut server = Running::start(
        &installation.path(),
        &[
            "start",
            "--set",
            "telemetry.metrics_listen=127.0.0.1:0",
            "--set",
            "chain.test.esplora_listen=127.0.0.1:0",
            "--set",
            "http.cors=*",
        ],
    );
    let main = server.address();
    let all = server.wait_for("three listeners", |log| {
        let lines = log.lines().filter(|line| line.contains("\"listening\""));
        let addresses: Vec<String> = lines
            .filter_map(|line| {
                Some(
                    serde_json::from_str::<serde_json::Value>(line).ok()?["address"]
                        .as_str()?
                        .to_owned(),
                )
            })
            .collect();
        (addresses.len() == 3).then_some(addresses)
    });
    until_ready(&main);
    assert!(!socket.exists());
    let answers = |path: &str| {
        all.iter()
            .map(|address| get(address, path).status)
            .collect::<Vec<_>>()
    };
    // The order is main, esplora, metrics.
    assert_eq!(answers("/health/ready"), [200, 200, 200]);
    assert_eq!(answers("/metrics"), [404, 404, 200]);
    assert_eq!(answers("/blocks/tip/height"), [404, 200, 404]);
    assert_eq!(answers("/test/api/blocks/tip/height"), [200, 404, 404]);
    assert_eq!(get(&all[1], "/health/ready").json()["height"], 110);
    let refused = get(&all[1], "/tx/zz");
    assert_eq!(refused.status, 400);
    assert!(
        refused.head.contains("access-control-allow-origin: *"),
        "{}",
        refused.head
    );
    server.stop();
}

#[test]
fn a_unix_socket_serves_and_is_asked_for_the_status() {
    let installation = Installation::of_chain(&TestChain::small(13, 20));
    let socket = installation.path().join("cairn.sock");
    let listen = format!("unix:{}", socket.display());
    let mut server = Running::start(&installation.path(), &["start", "--listen", &listen]);
    server.wait_for("the tip", |log| log.contains("new tip").then_some(()));
    let (code, out, err) = installation.run(&["status", "--json", "--listen", &listen]);
    assert_eq!(code, 0, "{err}");
    let status: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&status["source"], &status["chains"][0]["height"]),
        (&"server".into(), &20.into()),
        "{status}"
    );
    // Nobody answers elsewhere, and the folder is in use: the status says by whom.
    let (code, _, err) = installation.run(&["status"]);
    assert_eq!(code, 1);
    assert!(err.contains("but does not answer at"), "{err}");
    server.stop();
    assert!(!socket.exists());
}
