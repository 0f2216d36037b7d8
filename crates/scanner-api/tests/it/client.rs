//! The Rust client of the examples: it tells everything, waits for nobody, and survives a server that is away.

#[expect(
    unreachable_pub,
    reason = "the file is made to be copied, into a library too"
)]
#[path = "../../../../examples/scanner-client-rust/scanner_client.rs"]
mod scanner_client;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_http::{Listen, serve};
use scanner_client::{ScannerClient, Settings};
use serde_json::json;

use crate::support::{INGEST, World, record};

fn settings(url: &str, queue_max: usize) -> Settings {
    Settings {
        url: url.to_owned(),
        token: INGEST.to_owned(),
        queue_max,
        timeout: Duration::from_secs(20),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_once_the_server_is_there() {
    let world = World::start().await;
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen.bind(16).await.expect("a free port");
    let url = format!("http://{}", listener.address().expect("bound"));
    let client = ScannerClient::start(settings(&url, 1_000));
    for index in 0..300 {
        client.tell(
            "executePurchase",
            json!({ "record": record(&format!("p{index}")) }),
        );
    }
    let mut bad = record("bad");
    bad["priceUsd"] = json!(-1);
    client.tell("executePurchase", json!({ "record": bad }));
    // Only now does anybody answer.
    tokio::spawn(serve(
        listener,
        world.surface.clone(),
        std::future::pending(),
    ));
    assert_eq!(client.drain(Duration::from_secs(60)).await, 0);
    let losses = client.losses();
    assert_eq!(
        (
            losses.dropped.load(Ordering::SeqCst),
            losses.refused.load(Ordering::SeqCst)
        ),
        (0, 1)
    );
    let head = world.get("/api/scanner/head").await.json();
    assert_eq!(head["head"]["txsLast24h"], 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_costs_the_application_nothing() {
    // A port on which nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("bound")
        .port();
    let client = ScannerClient::start(settings(&format!("http://127.0.0.1:{port}"), 50));
    for index in 0..5_000 {
        client.tell(
            "executePurchase",
            json!({ "record": record(&format!("p{index}")) }),
        );
    }
    let dropped = client.losses().dropped.load(Ordering::SeqCst);
    assert!(
        dropped >= 5_000 - 50 - 200,
        "{dropped} of 5000 were dropped: the queue is bounded"
    );
}
