//! The live stream over a socket: order, resuming, gaps.

use std::time::Duration;

use cairn_http::{Listen, serve};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{World, record};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn listen(world: &World) -> String {
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen.bind(16).await.expect("a free port");
    let address = listener.address().expect("bound");
    tokio::spawn(serve(
        listener,
        world.surface.clone(),
        std::future::pending(),
    ));
    format!("http://{address}")
}

/// Blocks of the stream (event, id, data) until one fits.
async fn read_until(url: &str, after: Option<&str>, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut request = reqwest::Client::new().get(format!("{url}/api/scanner/stream"));
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert!(
        response.headers()["content-type"]
            .to_str()
            .expect("ascii")
            .starts_with("text/event-stream")
    );
    let mut chunks = response.bytes_stream();
    let mut text = String::new();
    let read = async {
        loop {
            let chunk = chunks
                .next()
                .await
                .expect("the stream goes on")
                .expect("a chunk");
            text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
            let whole: Vec<String> = text
                .split("\n\n")
                .filter(|block| block.contains("event:"))
                .map(str::to_owned)
                .collect();
            if text.ends_with("\n\n") && whole.iter().any(|block| wanted(block)) {
                return whole;
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("in time")
}

fn id_of(block: &str) -> String {
    let line = block.lines().find_map(|line| line.strip_prefix("id:"));
    line.expect("an id").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_is_told_and_a_client_goes_on_where_it_was() {
    let world = World::start().await;
    let url = listen(&world).await;
    let purchase = |id: &str| json!({ "record": record(id) });
    // The past, from the beginning.
    for id in ["a", "b", "c"] {
        world.ingest("executePurchase", &purchase(id)).await;
    }
    let has = |id: &'static str| move |block: &str| block.contains(&format!("\"id\":\"{id}\""));
    let past = read_until(&url, Some("0-0"), has("c")).await;
    let of = |id: &'static str| {
        past.iter()
            .find(|block| has(id)(block))
            .expect("told")
            .clone()
    };
    assert!(
        of("a").contains("event: tx") || of("a").contains("event:tx"),
        "{past:?}"
    );
    // After b comes c, and nothing before it.
    let rest = read_until(&url, Some(&id_of(&of("b"))), has("c")).await;
    assert!(
        !rest.iter().any(|block| has("a")(block) || has("b")(block)),
        "{rest:?}"
    );
    // Live: told while the client listens.
    let live = tokio::spawn({
        let url = url.clone();
        async move { read_until(&url, None, has("d")).await }
    });
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut number = 0;
    while !live.is_finished() {
        // Told again and again, since nobody knows when the client listens; the last one counts.
        number += 1;
        let mut d = purchase("d");
        d["record"]["id"] = json!(format!("d{number}"));
        d["record"]["itemRef"]["id"] = json!("d");
        world.ingest("executePurchase", &d).await;
        assert!(
            std::time::Instant::now() < deadline,
            "the client hears of it"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.await.expect("heard");
    // What is no longer held is a gap.
    world
        .server
        .run::<i64>("XTRIM ce:parser2:ledger-default:events MAXLEN 1");
    let gap = read_until(&url, Some("1-0"), |block| block.contains("gap")).await;
    assert!(gap[0].contains("gap"), "{gap:?}");
    let refused = world
        .get_with("/api/scanner/stream", &[("last-event-id", "x")])
        .await;
    assert_eq!(refused.status, 400);
}
