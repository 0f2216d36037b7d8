//! The connection is cut after each number of commands; after healing, the ledger is as if the call had run once.

use cairn_scanner::Status;
use cairn_testkit::{Call, CallGenerator, CallMix, CuttingProxy, LedgerModel, RedisServer};

use crate::support::{NOW, compare, open_at, options, options_of, tell_all};

/// A call of each kind, and some together.
fn units() -> Vec<Vec<Call>> {
    let mut generator = CallGenerator::new(
        7,
        NOW,
        CallMix {
            repeated: 0,
            ..CallMix::default()
        },
    );
    let calls = generator.take(400);
    let mut units: Vec<Vec<Call>> = Vec::new();
    for hook in [
        "executePurchase",
        "applyGameOutcome",
        "persistSnapshotReturningRev",
        "trackEvent",
        "indexWalletBalance",
        "upsertNode",
        "getPlayerWallet",
    ] {
        units.extend(
            calls
                .iter()
                .find(|call| call.hook == hook)
                .map(|call| vec![call.clone()]),
        );
    }
    units.push(
        calls
            .iter()
            .filter(|call| call.hook == "executePurchase")
            .take(6)
            .cloned()
            .collect(),
    );
    units
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_between_any_two_commands_loses_and_doubles_nothing() {
    let server = RedisServer::start();
    for (index, unit) in units().into_iter().enumerate() {
        let mut model = LedgerModel::new();
        for call in &unit {
            model.apply(call);
        }
        let mut commands = 0;
        loop {
            // A host of its own for each cut: nothing of the one before is left.
            let host = format!("cut-{index}-{commands}");
            let direct = open_at(&server.url(), options_of(&host)).await;
            let proxy = CuttingProxy::start(server.port());
            let scanner = open_at(&proxy.url(), options_of(&host)).await;
            proxy.cut_after(commands);
            let statuses = tell_all(&scanner, &unit).await;
            let acknowledged = statuses
                .iter()
                .all(|status| !matches!(status, Status::Failed(_)));
            let what = format!("unit {index} cut after {commands} commands");
            assert!(proxy.passed() <= commands, "{what}");
            direct.heal(0).await.expect("healed");
            let pending = server.run::<i64>(&format!("HLEN agent-play:{host}:scanner:pending"));
            assert_eq!(pending, 0, "{what}: nothing stays pending");
            if acknowledged || commands > 0 {
                // Written down, so it happens, acknowledged or not.
                compare(&direct, &model, &what).await;
            } else {
                compare(&direct, &LedgerModel::new(), &what).await;
            }
            // What the caller does: the same call again.
            tell_all(&direct, &unit).await;
            compare(&direct, &model, &format!("{what}, told again")).await;
            if !proxy.is_cut() {
                break;
            }
            commands += if unit.len() > 1 { 5 } else { 1 };
        }
        assert!(commands > 3, "unit {index} was cut at {commands} places");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_calls_are_applied_later() {
    let server = RedisServer::start();
    let scanner = open_at(&server.url(), options()).await;
    let calls = CallGenerator::new(8, NOW, CallMix::default()).take(30);
    let mut model = LedgerModel::new();
    let commands: Vec<_> = calls
        .iter()
        .map(|call| {
            model.apply(call);
            crate::support::read(&scanner, call)
        })
        .collect();
    let id = scanner.queue(&commands).await.expect("queued");
    let empty = scanner.head().await.expect("a head");
    assert_eq!(empty.txs, 0);
    scanner.apply_queued(&id).await.expect("applied");
    scanner.apply_queued(&id).await.expect("done already");
    compare(&scanner, &model, "queued").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_cannot_be_applied_ends_among_the_dead_letters() {
    let server = RedisServer::start();
    let scanner = open_at(&server.url(), options()).await;
    let call = CallGenerator::new(
        9,
        NOW,
        CallMix {
            only_txs: true,
            ..CallMix::default()
        },
    )
    .next_call();
    let player = call.body["record"]["playerId"].as_str().expect("a player");
    let key = format!("agent-play:default:scanner:agg:node:{player}");
    server.run::<String>(&format!("SET {key} another-program"));
    let status = tell_all(&scanner, std::slice::from_ref(&call)).await;
    let Some(Status::Failed(error)) = status.first() else {
        panic!("{status:?}");
    };
    assert!(error.to_string().contains(&key), "{error}");
    for _ in 0..5 {
        scanner.heal(0).await.expect("healed");
    }
    assert_eq!(
        server.run::<i64>("HLEN agent-play:default:scanner:pending"),
        0
    );
    let dead = "XLEN ce:parser2:ledger-default:dead:ledger-operations";
    assert_eq!(server.run::<i64>(dead), 1);
    // Once the key is free, the same call heals everything.
    server.run::<i64>(&format!("DEL {key}"));
    tell_all(&scanner, std::slice::from_ref(&call)).await;
    let mut model = LedgerModel::new();
    model.apply(&call);
    compare(&scanner, &model, "healed").await;
}
