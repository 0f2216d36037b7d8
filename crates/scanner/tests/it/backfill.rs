//! What the application wrote before: backfill beside live traffic, after a kill, twice; the sweep.

use cairn_scanner::{BackfillKind, KeyFollower, MigrationStatus, SweepCursor};
use cairn_testkit::{Call, CallGenerator, CallMix, CuttingProxy, LedgerModel, RedisServer};
use redis::Commands;

use crate::support::{NOW, World, compare, open_at, options, tell_all};

fn prefix(key: &str) -> String {
    format!("agent-play:default:{key}")
}

/// Writes what the application itself would have written: each player's list, newest first, and its wallet.
fn write_sources(server: &RedisServer, model: &LedgerModel) {
    let mut connection = server.connection();
    for id in model.tx_ids(None, None, None).iter().rev() {
        let records = model.records();
        let record = records
            .iter()
            .find(|record| record["id"] == id.as_str())
            .expect("it was told");
        let player = record["playerId"].as_str().expect("a player");
        let key = prefix(&format!("player:{player}:purchases"));
        let _: i64 = connection.lpush(key, record.to_string()).expect("written");
    }
    for wallet in model.wallet_bodies() {
        let player = wallet["playerId"].as_str().expect("a player");
        let key = prefix(&format!("player:{player}:wallet"));
        let _: () = connection.set(key, wallet.to_string()).expect("written");
    }
}

/// Calls of which nothing but records and wallets is left after a backfill.
fn calls(seed: u64, count: usize) -> Vec<Call> {
    let mut calls = CallGenerator::new(seed, NOW, CallMix::default()).take(count);
    calls.retain(|call| {
        matches!(
            call.hook,
            "executePurchase"
                | "appendPurchaseRecord"
                | "redeemWalletBundle"
                | "indexWalletBalance"
        )
    });
    calls
}

fn model_of(calls: &[Call]) -> LedgerModel {
    let mut model = LedgerModel::new();
    for call in calls {
        model.apply(call);
    }
    model
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_is_the_ledger_and_a_second_one_changes_nothing() {
    let world = World::start().await;
    let model = model_of(&calls(30, 500));
    write_sources(&world.server, &model);
    let mut connection = world.server.connection();
    let bad: Vec<(&str, &str)> = vec![
        ("player:nm-1:purchases", "{not json"),
        ("player:nm-1:purchases", "{\"id\":\"x\"}"),
        ("player:nm-bad:wallet", "[]"),
    ];
    for (key, value) in &bad {
        if key.ends_with("wallet") {
            let _: () = connection.set(prefix(key), *value).expect("written");
        } else {
            let _: i64 = connection.rpush(prefix(key), *value).expect("written");
        }
    }
    let _: i64 = connection
        .sadd(prefix("player:nm-odd:purchases"), "x")
        .expect("written");
    for run in 1..=2 {
        assert!(
            world
                .scanner
                .run_backfill(BackfillKind::Full)
                .await
                .expect("done")
        );
        let state = world.scanner.backfill_state().await.expect("a state");
        let rows = model.tx_ids(None, None, None).len() as u64;
        assert_eq!(state.status, MigrationStatus::Completed, "{state:?}");
        assert_eq!(
            (state.total_indexed, state.invalid),
            (rows, 4),
            "run {run}: {state:?}"
        );
        assert_eq!(state.newly_indexed, if run == 1 { rows } else { 0 });
        assert_eq!(state.faults.len(), 4);
        compare(&world.scanner, &model, &format!("backfill {run}")).await;
    }
    let row = world
        .scanner
        .tx(&model.tx_ids(None, None, None)[0])
        .await
        .expect("readable")
        .expect("there");
    assert_eq!(row.stamp, None, "rows of an archive have no stamp");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_traffic_and_two_backfills_at_once_count_once() {
    let world = World::start().await;
    let all = calls(31, 500);
    let model = model_of(&all);
    write_sources(&world.server, &model);
    let other = open_at(&world.server.url(), options()).await;
    let (first, second, ()) = tokio::join!(
        world.scanner.run_backfill(BackfillKind::Full),
        other.run_backfill(BackfillKind::Full),
        async {
            for batch in all.chunks(25) {
                tell_all(&world.scanner, batch).await;
            }
        }
    );
    let ran = [first.expect("no error"), second.expect("no error")];
    assert!(
        ran.contains(&true),
        "one of them ran, the other joined or came after"
    );
    compare(&world.scanner, &model, "both ways at once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_backfill_is_gone_on_with() {
    let server = RedisServer::start();
    let model = model_of(&calls(32, 300));
    write_sources(&server, &model);
    for cut in [5, 60, 200, 700] {
        let proxy = CuttingProxy::start(server.port());
        let dying = open_at(&proxy.url(), options()).await;
        proxy.cut_after(cut);
        assert!(
            dying.run_backfill(BackfillKind::Full).await.is_err(),
            "cut after {cut} commands"
        );
        // The lease of a dead process runs out; the test does not wait for it.
        server.run::<i64>(&format!("DEL {}", prefix("scanner:migration:lock")));
    }
    let scanner = open_at(&server.url(), options()).await;
    scanner.heal(0).await.expect("healed");
    assert!(
        scanner
            .run_backfill(BackfillKind::Full)
            .await
            .expect("done")
    );
    let state = scanner.backfill_state().await.expect("a state");
    assert_eq!(state.status, MigrationStatus::Completed);
    compare(&scanner, &model, "after four kills").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sweep_finds_what_nobody_told() {
    let world = World::start().await;
    let model = model_of(&calls(33, 200));
    write_sources(&world.server, &model);
    let mut connection = world.server.connection();
    let fields = [("kind", "root"), ("passwHash", "MARKER-secret")];
    let _: () = connection
        .hset_multiple(prefix("node:nm-0:auth"), &fields)
        .expect("written");
    let session = [
        ("snapshotRev", "7"),
        ("merkleRootHex", "AB"),
        ("merkleLeafCount", "3"),
        ("sid", "MARKER-sid"),
    ];
    let _: () = connection
        .hset_multiple(prefix("session"), &session)
        .expect("written");
    let mut cursor = SweepCursor::default();
    let mut found = 0;
    loop {
        let report = world.scanner.sweep(&mut cursor).await.expect("swept");
        found += report.new_rows;
        if report.wrapped {
            break;
        }
    }
    assert!(found > 0);
    let head = world.scanner.head().await.expect("a head");
    assert_eq!(
        head.block.map(|block| (block.rev, block.root)),
        Some((7, "ab".to_owned()))
    );
    assert_eq!(head.txs, model.head(NOW).0);
    let profile = world
        .scanner
        .profile("nm-0")
        .await
        .expect("readable")
        .expect("there");
    assert_eq!(profile.kind, cairn_scanner::NodeKind::Main);
    for key in world
        .server
        .run::<Vec<String>>("KEYS agent-play:default:scanner:*")
    {
        let dump: Option<Vec<u8>> = redis::cmd("DUMP")
            .arg(&key)
            .query(&mut connection)
            .expect("dumped");
        let text = String::from_utf8_lossy(&dump.unwrap_or_default()).into_owned();
        assert!(!text.contains("MARKER"), "{key} holds a credential");
    }
    // A lower revision begins a new epoch.
    let _: i64 = connection
        .hset(prefix("session"), "snapshotRev", "2")
        .expect("written");
    let _: i64 = connection
        .hset(prefix("session"), "merkleRootHex", "cd")
        .expect("written");
    assert!(world.scanner.sync_session().await.expect("read"));
    let head = world.scanner.head().await.expect("a head");
    assert_eq!(
        (head.epoch, head.block.map(|block| block.rev)),
        (1, Some(2))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_can_be_asked_to_stop() {
    let world = World::start().await;
    let model = model_of(&calls(34, 60));
    write_sources(&world.server, &model);
    let mut slow = options();
    slow.backfill_rows_per_second = 5;
    let scanner = open_at(&world.server.url(), slow).await;
    let running = {
        let scanner = scanner.clone();
        tokio::spawn(async move { scanner.run_backfill(BackfillKind::Lazy).await })
    };
    while scanner.backfill_state().await.expect("a state").status != MigrationStatus::Running {
        tokio::task::yield_now().await;
    }
    scanner.stop_backfill().await.expect("asked");
    let ended = running.await.expect("no panic");
    assert!(ended.is_err(), "{ended:?}");
    let state = scanner.backfill_state().await.expect("a state");
    assert_eq!(state.status, MigrationStatus::Failed);
    assert!(state.error.is_some_and(|error| error.contains("request")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_application_writes_is_followed() {
    let world = World::start().await;
    let client = redis::Client::open(world.server.url()).expect("a valid URL");
    let none = KeyFollower::open(&world.scanner, &client)
        .await
        .expect("asked");
    assert!(none.is_none(), "a server that does not notify");
    world.server.config_set("notify-keyspace-events", "Kl$h");
    let follower = KeyFollower::open(&world.scanner, &client)
        .await
        .expect("asked");
    let mut follower = follower.expect("it notifies now");
    let model = model_of(&calls(35, 60));
    write_sources(&world.server, &model);
    let mut connection = world.server.connection();
    let _: i64 = connection
        .hset(prefix("session"), "merkleRootHex", "ab")
        .expect("written");
    let _: i64 = connection
        .hset(prefix("session"), "snapshotRev", "9")
        .expect("written");
    // Every write is told, and the ledger's own writes are none of the application's.
    loop {
        follower.next().await.expect("indexed").expect("connected");
        let head = world.scanner.head().await.expect("a head");
        if head.block.is_some_and(|block| block.rev == 9) {
            break;
        }
    }
    let head = world.scanner.head().await.expect("a head");
    assert_eq!(
        (head.txs, head.minted as i64),
        (model.head(NOW).0, model.head(NOW).1)
    );
}
