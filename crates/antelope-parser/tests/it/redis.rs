//! The whole way into a real Redis.

use cairn_antelope_abi::Profile;
use cairn_antelope_parser::ParserState;
use cairn_stream::keys;
use cairn_testkit::antelope::Recording;
use cairn_testkit::{RedisCluster, RedisServer};
use serde_json::Value;

use super::decoded::decode;
use super::{
    FORKS, IRREVERSIBLE, MAIN, Running, connect, events, ids, label, read_all, replay, settings,
};

/// The ids that decoding alone gives.
fn decoded_ids(recording: Recording) -> Vec<String> {
    decode(recording, Profile::Wharfkit)
        .iter()
        .flat_map(|block| {
            block
                .events
                .texts()
                .map(|text| {
                    serde_json::from_slice::<Value>(text).expect("JSON")["event_id"]
                        .as_str()
                        .expect("an id")
                        .to_owned()
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_chain() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    read_all(&replay(MAIN), &redis, 125).await;
    let published = ids(&events(&mut server.connection()));
    assert_eq!(published, decoded_ids(Recording::Main));
    assert_eq!(published.len(), 5_918 + 363 + 853);
    let sync: std::collections::HashMap<String, String> =
        server.run(&format!("HGETALL {}", keys::sync(&label())));
    assert_eq!(sync["block_num"], "125");
    assert_eq!(
        sync["block_id"],
        Recording::Main.blocks()[124]["block_id"]
            .as_str()
            .expect("an id")
    );
    assert_eq!(
        sync["chain_hash"],
        "502b5dbd568f5911cde1962fb939cf071a6b0a33d072c10ced20bfae0393372d"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_with_forks_stopped_and_started() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(FORKS);
    let control = source.control();
    // Stops before, between and within the branches; the first fork happens while the parser is down.
    for (hold, last) in [
        (50, 50),
        (104, 104),
        (120, 108),
        (163, 151),
        (180, 157),
        (198, 175),
    ] {
        control.hold_at(hold);
        if hold == 120 {
            control.happened(120);
        }
        let running = Running::start(settings(&source), redis.clone());
        running
            .until("the held block", |status| {
                status.last.is_some_and(|block| block.num == last)
            })
            .await;
        running.stop().await;
    }
    assert_eq!(
        ids(&events(&mut server.connection())),
        decoded_ids(Recording::Forks)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_tells() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(FORKS);
    let running = Running::start(settings(&source), redis);
    let status = running
        .until("the last block", |status| {
            status.last.is_some_and(|block| block.num == 175) && status.blocks == 198
        })
        .await;
    assert_eq!(
        (status.blocks, status.forks, status.disconnects),
        (198, 2, 0)
    );
    assert_eq!(status.events, decoded_ids(Recording::Forks).len() as u64);
    assert_eq!(status.state, ParserState::Following);
    assert_eq!(status.blocks_behind(), Some(0));
    assert!(
        status.undecoded > 0
            && status.abis.misses > 0
            && status.lag_ms(i64::MAX).is_some_and(|lag| lag > 0)
    );
    assert_eq!(
        status.chain_id.as_deref(),
        Some("73abb8f8f8db94750dd53ac04ec4063c1db7a80000dc695690b1d00c6bfff3fc")
    );
    let handle = running.status.clone();
    running.stop().await;
    assert_eq!(handle.read().state, ParserState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn irreversible_blocks_only() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(IRREVERSIBLE);
    let blocks = source.len() as u64;
    let mut settings = settings(&source);
    settings.irreversible_only = true;
    let running = Running::start(settings, redis);
    running
        .until("all blocks", |status| status.blocks == blocks)
        .await;
    running.stop().await;
    let events = events(&mut server.connection());
    assert!(
        events
            .iter()
            .all(|event| event["irreversible"] == true && event["kind"] != "fork")
    );
    assert_eq!(ids(&events), decoded_ids(Recording::ForksIrreversible));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster() {
    let cluster = RedisCluster::start();
    let redis = connect(&cluster.url()).await;
    let source = replay(FORKS);
    read_all(&source, &redis, 175).await;
    let stream = keys::events(&label());
    let published = events(&mut cluster.nodes()[cluster.master_of(&stream)].connection());
    assert_eq!(ids(&published), decoded_ids(Recording::Forks));
}
