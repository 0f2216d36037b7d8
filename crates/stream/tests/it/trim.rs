//! Trimming with entries whose times are chosen.

use std::time::Duration;

use cairn_redis::Redis;
use cairn_stream::{ChainLabel, EntryId, TrimPolicy, TrimSettings, Trimmer, keys};
use cairn_testkit::RedisServer;
use serde_json::Value;

use crate::chain::position;
use crate::{connect, entries, label};

/// "Now" of these tests, milliseconds.
const NOW: u64 = 1_000_000;
const SECOND: u64 = 1_000;

const SETTINGS: TrimSettings = TrimSettings {
    window: Duration::from_secs(100),
    policy: TrimPolicy::Window,
    max_len: 0,
    min_blocks: 0,
};

/// One entry for each block number, published that many seconds before now.
async fn fill(server: &RedisServer, chain: &ChainLabel, blocks: &[(u32, u64)]) {
    for (num, ago) in blocks {
        let data = serde_json::json!({
            "kind": "action", "event_id": format!("x:{num}"), "block_num": num,
            "block_id": position(*num, 0).id.to_string(),
        });
        redis::cmd("XADD")
            .arg(keys::events(chain))
            .arg(format!("{}-*", NOW - ago * SECOND))
            .arg("data")
            .arg(data.to_string())
            .query::<String>(&mut server.connection())
            .expect("added");
    }
    let newest = blocks.last().expect("some").0;
    server.run::<()>(&format!(
        "HSET {} block_num {newest} block_id {}",
        keys::sync(chain),
        position(newest, 0).id
    ));
}

fn left(server: &RedisServer, chain: &ChainLabel) -> Vec<u32> {
    entries(server, chain)
        .into_iter()
        .map(|(_, fields)| {
            let event: Value = serde_json::from_str(&fields[0].1).expect("JSON");
            event["block_num"]
                .as_u64()
                .and_then(|num| num.try_into().ok())
                .expect("a number")
        })
        .collect()
}

async fn start(name: &str, blocks: &[(u32, u64)]) -> (RedisServer, Redis, ChainLabel) {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label(name);
    fill(&server, &chain, blocks).await;
    (server, redis, chain)
}

fn trimmer(redis: &Redis, chain: &ChainLabel, settings: TrimSettings) -> Trimmer {
    Trimmer::new(redis.clone(), chain, settings)
}

#[tokio::test]
async fn what_is_older_than_the_window_goes() {
    let blocks = [(1, 300), (2, 101), (3, 100), (4, 99), (5, 0)];
    let (server, redis, chain) = start("window", &blocks).await;
    let report = trimmer(&redis, &chain, SETTINGS)
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!((report.removed, report.length), (2, 3));
    assert_eq!(left(&server, &chain), [3, 4, 5]);
    let report = trimmer(&redis, &chain, SETTINGS)
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!(report.removed, 0);
    // No stream, no trouble.
    let report = trimmer(&redis, &label("nothing"), SETTINGS)
        .run_once()
        .await
        .expect("nothing to do");
    assert_eq!(report.length, 0);
    // By the server's own clock all of it is old.
    let report = trimmer(&redis, &chain, SETTINGS)
        .run_once()
        .await
        .expect("trimmed");
    assert_eq!((report.removed, report.length), (3, 0));
}

#[tokio::test]
async fn the_newest_blocks_stay_whatever_their_age() {
    // Several entries a block, all in a few milliseconds, and blocks that are far apart.
    let blocks: Vec<(u32, u64)> = (1..=400_u32)
        .flat_map(|num| [(num, 900 - u64::from(num / 100)); 3])
        .collect();
    for min_blocks in [1, 2, 99, 100, 101, 399, 400, 1_000] {
        let (server, redis, chain) = start("newest", &blocks).await;
        let settings = TrimSettings {
            min_blocks,
            ..SETTINGS
        };
        trimmer(&redis, &chain, settings)
            .run_at(NOW)
            .await
            .expect("trimmed");
        let first = 401 - min_blocks.min(400);
        let expected: Vec<u32> = (first..=400).flat_map(|num| [num; 3]).collect();
        assert_eq!(left(&server, &chain), expected, "min_blocks {min_blocks}");
    }
}

#[tokio::test]
async fn a_hold_waits_for_the_slowest_subscription_but_not_for_ever() {
    let blocks: Vec<(u32, u64)> = (1..=10)
        .map(|num| (num, 1_000 - u64::from(num) * 100))
        .collect();
    let (server, redis, chain) = start("hold", &blocks).await;
    let key = keys::events(&chain);
    let id = |ago: u64| EntryId::at(NOW - ago * SECOND);
    // One read everything, one read up to block 6 and has 5 and 6 unacknowledged, one stands at block 8.
    server.run::<()>(&format!("XGROUP CREATE {key} fast $"));
    server.run::<()>(&format!("XGROUP CREATE {key} pending {}", id(600)));
    server.run::<Answer>(&format!(
        "XREADGROUP GROUP pending primary COUNT 2 STREAMS {key} >"
    ));
    server.run::<()>(&format!("XGROUP CREATE {key} idle {}", id(200)));
    let hold = |at_most: u64| TrimSettings {
        policy: TrimPolicy::Hold {
            at_most: Duration::from_secs(at_most),
        },
        ..SETTINGS
    };
    let report = trimmer(&redis, &chain, hold(5_000))
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!(report.held_for.as_deref(), Some("pending"));
    assert_eq!(report.losses, []);
    assert_eq!(left(&server, &chain), [5, 6, 7, 8, 9, 10]);
    server.run::<u32>(&format!("XACK {key} pending {} {}", id(500), id(400)));
    let report = trimmer(&redis, &chain, hold(5_000))
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!(report.held_for.as_deref(), Some("pending"));
    assert_eq!(left(&server, &chain), [7, 8, 9, 10]);
    // The hold has an end.
    let report = trimmer(&redis, &chain, hold(150))
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!(left(&server, &chain), [9, 10]);
    assert_eq!(report.losses.len(), 1);
    assert_eq!(report.losses[0].sub_id, "pending");
    assert_eq!(report.losses[0].left, id(100));
}

/// An answer that is not looked at.
type Answer = redis::Value;

#[tokio::test]
async fn a_subscription_that_loses_entries_is_told_once() {
    let blocks: Vec<(u32, u64)> = (1..=10)
        .map(|num| (num, 1_000 - u64::from(num) * 100))
        .collect();
    let (server, redis, chain) = start("told", &blocks).await;
    let key = keys::events(&chain);
    let id = |ago: u64| EntryId::at(NOW - ago * SECOND);
    for (name, at) in [
        ("slow", id(800).to_string()),
        ("unregistered", id(700).to_string()),
        ("fast", "$".to_owned()),
    ] {
        server.run::<()>(&format!("XGROUP CREATE {key} {name} {at}"));
    }
    let registration =
        r#"{"subId":"slow","filters":[],"startFrom":12345678901234567890,"registeredAt":"2026"}"#;
    server.run::<()>(&format!("HSET {} slow {registration}", keys::SUBSCRIPTIONS));
    let report = trimmer(&redis, &chain, SETTINGS)
        .run_at(NOW)
        .await
        .expect("trimmed");
    let told: Vec<&str> = report
        .losses
        .iter()
        .map(|loss| loss.sub_id.as_str())
        .collect();
    assert_eq!(told, ["slow", "unregistered"]);
    let stored: String = server.run(&format!("HGET {} slow", keys::SUBSCRIPTIONS));
    let stored: Value = serde_json::from_str(&stored).expect("JSON");
    assert_eq!(stored["trimmed_past"], Value::from(id(100).to_string()));
    // Nothing else of it has changed.
    assert_eq!(stored["filters"], Value::Array(Vec::new()));
    assert_eq!(stored["startFrom"].to_string(), "12345678901234567890");
    let again = trimmer(&redis, &chain, SETTINGS)
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert!(
        again.losses.iter().all(|loss| loss.sub_id != "slow"),
        "{again:?}"
    );
    // One that begins at the beginning later never needed what had gone.
    server.run::<()>(&format!("XGROUP CREATE {key} new 0"));
    let again = trimmer(&redis, &chain, SETTINGS)
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert!(
        again.losses.iter().all(|loss| loss.sub_id != "new"),
        "{again:?}"
    );
}

#[tokio::test]
async fn the_hard_cap_applies_to_everything() {
    let blocks: Vec<(u32, u64)> = (1..=10).map(|num| (num, 10)).collect();
    let (server, redis, chain) = start("cap", &blocks).await;
    let key = keys::events(&chain);
    server.run::<()>(&format!(
        "XGROUP CREATE {key} slow {}",
        EntryId::at(NOW - 11 * SECOND)
    ));
    let settings = TrimSettings {
        max_len: 4,
        min_blocks: 1_000,
        policy: TrimPolicy::Hold {
            at_most: Duration::from_secs(1_000),
        },
        ..SETTINGS
    };
    let report = trimmer(&redis, &chain, settings)
        .run_at(NOW)
        .await
        .expect("trimmed");
    assert_eq!((report.removed, report.length), (6, 4));
    assert_eq!(left(&server, &chain), [7, 8, 9, 10]);
    assert_eq!(report.losses.len(), 1);
}

#[tokio::test]
async fn times_are_compared_as_numbers() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("numbers");
    // As text 99… comes after 100….
    let data = |num: u32| {
        format!(
            r#"{{"kind":"a","event_id":"x","block_num":{num},"block_id":"{}"}}"#,
            position(num, 0).id
        )
    };
    let key = keys::events(&chain);
    for (at, num) in [("99999-9", 1), ("99999-10", 2), ("100001-0", 3)] {
        server.run::<String>(&format!("XADD {key} {at} data {}", data(num)));
    }
    trimmer(&redis, &chain, SETTINGS)
        .run_at(200_000)
        .await
        .expect("trimmed");
    assert_eq!(left(&server, &chain), [3]);
}
