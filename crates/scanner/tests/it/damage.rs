//! Values of other programs under the ledger's keys: errors that name the key, and nothing else suffers.

use std::collections::BTreeMap;

use cairn_scanner::{BackfillKind, Status, TxFilter};
use cairn_testkit::{Call, CallGenerator, CallMix, LedgerModel, RedisServer};

use crate::support::{NOW, World, all_txs, compare, tell, tell_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_row_hides_no_other() {
    let world = World::start().await;
    let scanner = &world.scanner;
    let mix = CallMix {
        only_txs: true,
        repeated: 0,
        ..CallMix::default()
    };
    let calls = CallGenerator::new(20, NOW, mix).take(30);
    tell_all(scanner, &calls).await;
    let all = all_txs(scanner, &TxFilter::default(), 100).await;
    let key = |id: &str| format!("agent-play:default:scanner:tx:{id}");
    world
        .server
        .run::<String>(&format!("SET {} {{broken", key(&all[3])));
    world.server.run::<i64>(&format!("DEL {}", key(&all[5])));
    world.server.run::<i64>(&format!("DEL {}", key(&all[7])));
    world
        .server
        .run::<i64>(&format!("LPUSH {} x", key(&all[7])));
    let mut expected = all.clone();
    for index in [7, 5, 3] {
        expected.remove(index);
    }
    // Pages stay full, and all other rows are there.
    assert_eq!(all_txs(scanner, &TxFilter::default(), 4).await, expected);
    assert!(
        scanner
            .counts()
            .corrupt_rows
            .load(std::sync::atomic::Ordering::Relaxed)
            >= 3
    );
    let error = scanner.tx(&all[3]).await.expect_err("unreadable");
    assert!(error.to_string().contains(&key(&all[3])), "{error}");

    // Telling the broken one again is an error, not a new row.
    let broken = calls
        .iter()
        .find(|call| call.body["record"]["id"] == all[3].as_str())
        .expect("it was told");
    let Status::Failed(error) = tell(scanner, broken).await else {
        panic!("a row that cannot be read is not overwritten");
    };
    assert!(error.to_string().contains(&key(&all[3])), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_fails_only_who_needs_it() {
    let world = World::start().await;
    let scanner = &world.scanner;
    let mix = CallMix {
        only_txs: true,
        repeated: 0,
        ..CallMix::default()
    };
    let calls = CallGenerator::new(21, NOW, mix).take(20);
    let victim = calls[4].body["record"]["playerId"]
        .as_str()
        .expect("a player");
    let key = format!("agent-play:default:scanner:tx:by-player:{victim}");
    world.server.run::<String>(&format!("SET {key} x"));
    for (call, status) in calls.iter().zip(tell_all(scanner, &calls).await) {
        let is_victim = call.body["record"]["playerId"] == victim;
        match status {
            Status::Failed(error) if is_victim => {
                assert!(error.to_string().contains(&key), "{error}")
            }
            Status::Created if !is_victim => {}
            other => panic!("{call:?}: {other:?}"),
        }
    }
    // Behaviour that cannot be counted is no reason to refuse money.
    world
        .server
        .run::<String>("SET agent-play:default:analytics:by-user:nm-free x");
    let mut call = calls[0].clone();
    call.body["record"]["id"] = "free".into();
    call.body["record"]["playerId"] = "nm-free".into();
    assert!(matches!(tell(scanner, &call).await, Status::Created));
    assert_eq!(
        world
            .server
            .run::<i64>("HLEN agent-play:default:scanner:pending"),
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_the_scripts_gets_them_again() {
    let world = World::start().await;
    let calls = CallGenerator::new(22, NOW, CallMix::default()).take(40);
    world.server.run::<String>("SCRIPT FLUSH");
    let mut model = cairn_testkit::LedgerModel::new();
    let statuses = tell_all(&world.scanner, &calls).await;
    for (call, status) in calls.iter().zip(statuses) {
        assert_eq!(status.as_str(), model.apply(call), "{call:?}");
    }
    crate::support::compare(&world.scanner, &model, "after a script flush").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_blocks_is_converted_once() {
    let world = World::start().await;
    let block = |rev: i64| {
        format!(
            "{{\"rev\":{rev},\"merkleRootHex\":\"ab{rev:02}\",\"merkleLeafCount\":1,\"at\":\"2026-03-10T10:00:00Z\"}}"
        )
    };
    // Newest first; the application began again after revision 2.
    for rev in [1, 2, 1, 2, 3] {
        world.server.run::<i64>(&format!(
            "LPUSH agent-play:default:scanner:blocks {}",
            block(rev)
        ));
    }
    let scanner = crate::support::open_at(&world.server.url(), crate::support::options()).await;
    let page = scanner.blocks(None, None, 10).await.expect("a page");
    let places: Vec<(i64, i64)> = page
        .blocks
        .iter()
        .map(|row| (row.at.epoch, row.at.rev))
        .collect();
    assert_eq!(places, [(1, 3), (1, 2), (1, 1), (0, 2), (0, 1)]);
    assert_eq!(
        world
            .server
            .run::<i64>("LLEN agent-play:default:scanner:blocks:list-backup"),
        5
    );
}

/// A command whose arguments have spaces.
fn ask<T: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
        .query(&mut server.connection())
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_that_lack_events_are_completed_by_a_rebuild() {
    let world = World::start().await;
    let (server, scanner) = (&world.server, &world.scanner);
    let calls = CallGenerator::new(23, NOW, CallMix::default()).take(300);
    for batch in calls.chunks(50) {
        tell_all(scanner, batch).await;
    }
    let mut keys: Vec<String> = server.run("KEYS agent-play:default:analytics:agg:user:*");
    let users = keys.len();
    keys.extend(server.run::<Vec<String>>("KEYS agent-play:default:analytics:agg:prop:*"));
    assert!(users > 5 && keys.len() > users + 5, "{keys:?}");
    let counts = || {
        let read = |key: &String| ask::<BTreeMap<String, u64>>(server, &["HGETALL", key]);
        keys.iter().map(read).collect::<Vec<_>>()
    };
    let whole = counts();
    // What a teller leaves behind that was interrupted before it counted: one less here and there, and keys that never were.
    for (index, (key, fields)) in keys.iter().zip(&whole).enumerate() {
        if index % 3 == 0 {
            ask::<i64>(server, &["DEL", key]);
        } else if let Some(field) = fields.keys().next() {
            ask::<i64>(server, &["HINCRBY", key, field, "-1"]);
        }
    }
    let damaged = counts();
    assert_ne!(damaged, whole);

    // While an operation is under way nothing is taken over: it may be the one that still has to count.
    let pending = "agent-play:default:scanner:pending";
    ask::<i64>(server, &["HSET", pending, "of-another-instance", "{}"]);
    let run = || scanner.run_backfill(BackfillKind::Full);
    assert!(run().await.expect("a run"));
    assert_eq!(counts(), damaged);

    ask::<i64>(server, &["DEL", pending]);
    assert!(run().await.expect("a run"));
    assert_eq!(counts(), whole);
    // What is right stays.
    assert!(run().await.expect("a run"));
    assert_eq!(counts(), whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_counted_in_part_are_told_apart() {
    let world = World::start().await;
    let (server, scanner) = (&world.server, &world.scanner);
    let mix = CallMix {
        only_txs: true,
        repeated: 0,
        players: 2,
        spaces: 2,
        ..CallMix::default()
    };
    let calls = CallGenerator::new(24, NOW, mix).take(60);
    let (first, later) = calls.split_at(30);
    let mut model = LedgerModel::new();
    for call in &calls {
        model.apply(call);
    }
    tell_all(scanner, first).await;

    // Rows that are written now and have been counted already, among others that have not.
    for call in &first[..5] {
        let id = call.body["record"]["id"].as_str().expect("an id");
        server.run::<i64>(&format!("DEL agent-play:default:scanner:tx:{id}"));
    }
    let again: Vec<_> = first[..5].iter().chain(later).cloned().collect();
    for status in tell_all(scanner, &again).await {
        assert!(matches!(status, Status::Created), "{status:?}");
    }
    compare(scanner, &model, "new rows that were counted in part").await;

    // Rows that are known, and of which only some are counted.
    for key in server.run::<Vec<String>>("KEYS agent-play:default:scanner:agg:*") {
        server.run::<i64>(&format!("DEL {key}"));
    }
    tell_all(scanner, &calls[10..25]).await;
    for status in tell_all(scanner, &calls).await {
        assert!(matches!(status, Status::Duplicate), "{status:?}");
    }
    compare(scanner, &model, "known rows that were counted in part").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_that_would_overflow_fails_its_own_rows_alone() {
    let world = World::start().await;
    let (server, scanner) = (&world.server, &world.scanner);
    let row = |id: &str, player: &str, price: &str| Call {
        hook: "appendPurchaseRecord",
        body: serde_json::json!({ "record": {
            "id": id, "playerId": player, "spaceId": "space-1", "amenityKind": "shop", "priceUsd": price,
            "itemRef": {"kind": "shop", "id": "item-3"}, "at": "2026-03-10T14:00:00Z",
        } }),
    };
    let total = |player: &str| format!("agent-play:default:scanner:agg:node:{player}");
    // Beyond what numbers of a script hold exactly, and just below the end.
    server.run::<i64>(&format!("HSET {} #usdAll 9007199254740993", total("exact")));
    server.run::<i64>(&format!(
        "HSET {} #usdAll 9223372036854775000",
        total("full")
    ));
    let calls: Vec<Call> = (0..3)
        .flat_map(|index| {
            ["exact", "full", "other"].map(|player| {
                let price = if player == "full" {
                    "0.0005"
                } else {
                    "0.000001"
                };
                row(&format!("{player}-{index}"), player, price)
            })
        })
        .collect();
    for (call, status) in calls.iter().zip(tell_all(scanner, &calls).await) {
        let is_full = call.body["record"]["playerId"] == "full";
        match status {
            Status::Failed(error) if is_full => {
                assert_eq!(error.cause(), "overflow", "{error}");
                assert!(error.to_string().contains(&total("full")), "{error}");
            }
            Status::Created if !is_full => {}
            other => panic!("{call:?}: {other:?}"),
        }
    }
    let field = |player: &str, field: &str| {
        server.run::<Option<i64>>(&format!("HGET {} {field}", total(player)))
    };
    assert_eq!(field("exact", "#usdAll"), Some(9_007_199_254_740_996));
    assert_eq!(field("other", "#usdAll"), Some(3));
    // A row is counted in all totals of its account or in none.
    let markers = server
        .run::<Vec<String>>(&format!("HKEYS {}", total("full")))
        .into_iter()
        .filter(|field| field.starts_with("t:"))
        .count();
    assert_eq!(field("full", "#n"), i64::try_from(markers).ok());
    assert_eq!(
        field("full", "#usdAll"),
        i64::try_from(markers * 500)
            .ok()
            .map(|added| 9_223_372_036_854_775_000 + added)
    );
}
