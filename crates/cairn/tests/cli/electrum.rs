//! The Electrum server of the program: its listeners, its certificate, and its end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use cairn_testkit::TestChain;
use serde_json::{Value, json};

use crate::support::{Installation, PATIENCE, Running, get, until_ready};

#[test]
fn wallets_are_served_beside_the_rest() {
    let chain = TestChain::small(91, 130);
    let installation = Installation::of_chain(&chain);
    installation.configure(
        "blocks_dir = \"blocks\"\n\
         electrum_listen = [\"unix:electrum.sock\"]\n\
         electrum_tls_listen = [\"127.0.0.1:0\"]\n\
         electrum_ws_listen = [\"127.0.0.1:0\"]\n\
         electrum_server_name = \"test (electrumx)\"\n\
         electrum_donation_address = \"bcrt1qdonate\"",
    );
    let mut server = Running::start(&installation.path(), &["start"]);
    let address = server.address();
    until_ready(&address);
    let stream =
        UnixStream::connect(installation.path().join("electrum.sock")).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket takes a timeout");
    let mut reader = BufReader::new(stream.try_clone().expect("a socket has two ends"));
    let mut ask = |method: &str, params: Value| -> Value {
        let request = json!({"id": method, "method": method, "params": params});
        writeln!(&stream, "{request}").expect("open");
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer in time");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], method, "{answer}");
        answer["result"].clone()
    };
    assert_eq!(
        ask("server.version", json!(["x", "1.6"])),
        json!(["test (electrumx)", "1.6"])
    );
    assert_eq!(
        ask("blockchain.headers.subscribe", json!([]))["height"],
        130
    );
    assert_eq!(ask("server.donation_address", json!([])), "bcrt1qdonate");
    let txid = chain.model().tip().txids[0];
    let expected =
        bitcoin::consensus::encode::serialize_hex(&chain.model().tx(&txid).expect("confirmed").tx);
    assert_eq!(ask("blockchain.transaction.get", json!([txid])), expected);
    // The pair made at the first start is for nobody else to read.
    let tls = installation.path().join("data/tls/test");
    let mode = std::fs::metadata(tls.join("electrum.key"))
        .expect("made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(tls.join("electrum.crt").exists());
    let metrics = get(&address, "/metrics").body;
    for line in [
        "cairn_electrum_sessions{chain=\"test\",listener=\"tcp\"} 1",
        "cairn_electrum_requests_total{chain=\"test\",method=\"blockchain.transaction.get\",outcome=\"ok\"} 1",
    ] {
        assert!(
            metrics.lines().any(|got| got == line),
            "{line} is missing in\n{metrics}"
        );
    }
    // Stopping does not wait for wallets.
    server.stop();
    let mut rest = String::new();
    assert_eq!(
        reader.read_line(&mut rest).expect("closed in good order"),
        0
    );
}

#[test]
fn a_bad_certificate_or_banner_fails_the_start() {
    let chain = TestChain::small(91, 10);
    for (keys, named) in [
        (
            "electrum_tls_listen = [\"127.0.0.1:0\"]\ntls_cert_file = \"nothing.pem\"\ntls_key_file = \"nothing.key\"",
            "nothing.pem",
        ),
        (
            "electrum_listen = [\"127.0.0.1:0\"]\nelectrum_banner_file = \"nothing.txt\"",
            "nothing.txt",
        ),
    ] {
        let installation = Installation::of_chain(&chain);
        installation.configure(&format!("blocks_dir = \"blocks\"\n{keys}"));
        let (code, _, err) = installation.run(&["start"]);
        assert_ne!(code, 0);
        assert!(err.contains(named), "{err}");
    }
}

/// The chain is being indexed by the time the listener fails: it is stopped in good order, whatever fails later.
#[test]
fn a_taken_address_fails_the_start_in_good_order() {
    let chain = TestChain::small(91, 130);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    for key in [
        "electrum_listen = [\"ADDRESS\"]",
        "esplora_listen = \"ADDRESS\"",
    ] {
        let installation = Installation::of_chain(&chain);
        let keys = key.replace("ADDRESS", &address);
        installation.configure(&format!("blocks_dir = \"blocks\"\n{keys}"));
        let (code, _, err) = installation.run(&["start"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(&address), "{err}");
        // Nothing is half done: the next start works.
        installation.configure("blocks_dir = \"blocks\"");
        let mut server = Running::start(&installation.path(), &["start"]);
        until_ready(&server.address());
        server.stop();
    }
}
