//! The stream against real Redis servers.

mod chain;
mod crash;
mod events;
mod failover;
mod model;
mod proxy;
mod publish;
mod subs;
mod trim;

use std::time::{Duration, Instant};

use cairn_redis::{Redis, Target};
use cairn_stream::{ChainLabel, EntryId, Publisher, PublisherOptions, Resume, StreamError, keys};
use cairn_testkit::RedisServer;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn label(text: &str) -> ChainLabel {
    ChainLabel::new(text).expect("a plain label")
}

async fn connect(url: &str) -> Redis {
    let target = Target::parse(url).expect("a valid URL");
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Redis::connect(&target).await {
            Ok(redis) => return redis,
            Err(error) => assert!(error.is_transient() && Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn open(redis: &Redis, chain: &ChainLabel) -> (Publisher, Resume) {
    Publisher::open(redis.clone(), chain, PublisherOptions::default())
        .await
        .expect("it opens")
}

async fn open_error(redis: &Redis, chain: &ChainLabel) -> StreamError {
    Publisher::open(redis.clone(), chain, PublisherOptions::default())
        .await
        .expect_err("it does not open")
}

/// All entries of a chain's stream as Redis has them: id, and the fields as names and values.
fn entries(server: &RedisServer, chain: &ChainLabel) -> Vec<(EntryId, Vec<(String, String)>)> {
    let raw: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
        .arg(keys::events(chain))
        .arg("-")
        .arg("+")
        .query(&mut server.connection())
        .expect("readable");
    raw.into_iter()
        .map(|(id, fields)| (id.parse().expect("an id"), fields))
        .collect()
}

/// The event ids of a chain's stream, in order.
fn event_ids(server: &RedisServer, chain: &ChainLabel) -> Vec<String> {
    entries(server, chain)
        .into_iter()
        .map(|(_, fields)| {
            assert_eq!(fields.len(), 1, "an entry has one field");
            assert_eq!(fields[0].0, "data");
            event_id(&fields[0].1)
        })
        .collect()
}

fn event_id(data: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(data).expect("an event is JSON");
    event["event_id"].as_str().expect("it has an id").to_owned()
}
