//! The program beside a real node: unconfirmed transactions appear, survive a restart of ours, and count for readiness.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, OutPoint, Transaction, TxOut};
use cairn_testkit::{Bitcoind, Coin, Lock, spend};
use serde_json::Value;

use crate::support::{Installation, PATIENCE, Running, get, until_ready};

fn coin(node: &Bitcoind, height: u32) -> Coin {
    let hash = node.hash_at(height).expect("a block");
    let block = node.block(&hash).expect("a block");
    Coin {
        outpoint: OutPoint::new(block.txdata[0].compute_txid(), 0),
        value: block.txdata[0].output[0].value.to_sat(),
        lock: Lock::Wsh(0),
    }
}

fn pay(coin: Coin) -> Transaction {
    let output = TxOut {
        value: Amount::from_sat(coin.value - 1_000),
        script_pubkey: Lock::Wsh(1).script_pubkey(),
    };
    spend(&[coin], vec![output])
}

/// Asks until an answer is as it should be.
fn until(address: &str, path: &str, good: impl Fn(u16, &str) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = get(address, path);
        if good(answer.status, &answer.body) {
            return;
        }
        assert!(Instant::now() < end, "{path}: {answer:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn post(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

#[test]
fn unconfirmed_transactions_come_stay_and_are_confirmed() {
    let node = Bitcoind::start().expect("a node (its build is described in CONTRIBUTING.md)");
    node.mine(105).expect("blocks");
    let installation = Installation::without_node();
    installation.configure(&format!(
        "rpc_url = \"{}\"\nrpc_cookie_file = \"{}\"",
        node.url(),
        node.cookie_file().display()
    ));
    let mut running = Running::start(&installation.path(), &["start"]);
    let address = running.address();
    let ready = until_ready(&address);
    assert_eq!(ready["mempool"], "loaded");

    // Sent to the node by somebody else.
    let first = node.send(&pay(coin(&node, 1))).expect("accepted");
    until(&address, &format!("/api/tx/{first}"), |status, _| {
        status == 200
    });
    // Sent through us: there in the next request.
    let second = pay(coin(&node, 2));
    let answer = post(&address, "/api/tx", &serialize_hex(&second));
    assert!(
        answer.contains(&second.compute_txid().to_string()),
        "{answer}"
    );
    let uri = format!("/api/tx/{}", second.compute_txid());
    assert_eq!(get(&address, &uri).status, 200);
    let page = get(&address, &format!("/test/tx/{first}"));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("waits in the mempool"));
    let metrics = get(&address, "/metrics").body;
    assert!(
        metrics.contains("cairn_mempool_transactions{chain=\"test\"}"),
        "{metrics}"
    );
    running.stop();

    // After a start it is read anew.
    let mut running = Running::start(&installation.path(), &["start"]);
    let address = running.address();
    until_ready(&address);
    let mempool: Value = get(&address, "/api/mempool").json();
    assert_eq!(mempool["count"], 2);
    node.mine(1).expect("a block");
    until(&address, "/api/mempool", |_, body| {
        body.starts_with("{\"count\":0,")
    });
    let tip = get(&address, "/api/blocks/tip/height").body;
    assert_eq!(tip, "106");
    running.stop();
}
