//! Values of other programs under the ledger's keys: errors that name the key, and nothing else suffers.

use cairn_scanner::{Status, TxFilter};
use cairn_testkit::{CallGenerator, CallMix};

use crate::support::{NOW, World, all_txs, tell, tell_all};

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
