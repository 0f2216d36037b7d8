//! Random calls, in several orders, one by one, together, from several writers at once: the same ledger as the model's.

use cairn_scanner::Status;
use cairn_testkit::{Call, CallGenerator, CallMix, LedgerModel, Rng};

use crate::support::{NOW, World, compare, tell, tell_all};

fn calls(seed: u64, count: usize) -> Vec<Call> {
    CallGenerator::new(seed, NOW, CallMix::default()).take(count)
}

fn model_of(calls: &[Call]) -> LedgerModel {
    let mut model = LedgerModel::new();
    for call in calls {
        model.apply(call);
    }
    model
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_by_one_every_answer_is_the_models() {
    let world = World::start().await;
    let mut model = LedgerModel::new();
    for (index, call) in calls(1, 300).iter().enumerate() {
        let status = tell(&world.scanner, call).await;
        assert_eq!(status.as_str(), model.apply(call), "call {index}: {call:?}");
    }
    compare(&world.scanner, &model, "one by one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_answer_each_item_as_alone() {
    let world = World::start().await;
    let mut model = LedgerModel::new();
    let all = calls(2, 900);
    for batch in all.chunks(100) {
        let statuses = tell_all(&world.scanner, batch).await;
        for (call, status) in batch.iter().zip(statuses) {
            assert_eq!(status.as_str(), model.apply(call), "{call:?}");
        }
    }
    compare(&world.scanner, &model, "batches").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_gives_the_same_ledger() {
    let world = World::start().await;
    let mut all = calls(3, 500);
    let model = model_of(&all);
    // Registrations and first words on a wallet's seed depend on order by what they mean.
    all.retain(|call| !matches!(call.hook, "upsertNode" | "getPlayerWallet"));
    let model = {
        let kept = model_of(&all);
        assert_ne!(
            kept.node_ids().len(),
            0,
            "of {} nodes",
            model.node_ids().len()
        );
        kept
    };
    Rng::new(33).shuffle(&mut all);
    for batch in all.chunks(64) {
        tell_all(&world.scanner, batch).await;
    }
    compare(&world.scanner, &model, "shuffled").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_once_count_everything_once() {
    let world = World::start().await;
    let mut all = calls(4, 500);
    all.retain(|call| !matches!(call.hook, "upsertNode" | "getPlayerWallet"));
    let model = model_of(&all);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4u64 {
        // Another instance, with connections of its own, that tells everything in its own order.
        let scanner = crate::support::open_at(&world.server.url(), crate::support::options()).await;
        let mut mine = all.clone();
        Rng::new(writer).shuffle(&mut mine);
        tasks.spawn(async move {
            let mut created = 0;
            for batch in mine.chunks(20) {
                for (call, status) in batch.iter().zip(tell_all(&scanner, batch).await) {
                    let is_tx = call.body["record"].is_object();
                    created += u64::from(is_tx && matches!(status, Status::Created));
                }
            }
            created
        });
    }
    let mut created = 0;
    while let Some(done) = tasks.join_next().await {
        created += done.expect("no panic");
    }
    let rows = model.tx_ids(None, None, None).len() as u64;
    assert_eq!(created, rows, "each row was created by one writer");
    compare(&world.scanner, &model, "four writers").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_window_moves_with_the_clock() {
    let world = World::start().await;
    let all = calls(5, 300);
    let model = model_of(&all);
    tell_all(&world.scanner, &all).await;
    let mut fingerprints = std::collections::BTreeSet::new();
    // To the edge of the hour, over it, a few hours on, and to an empty window.
    let hour = 3_600_000;
    let edge = NOW - NOW.rem_euclid(hour) + hour;
    for now in [NOW, edge - 1, edge, edge + 5 * hour, edge + 30 * hour] {
        world.scanner.clock().set(now);
        compare(&world.scanner, &model, &format!("at {now}")).await;
        fingerprints.insert(world.scanner.head().await.expect("a head").fingerprint());
    }
    assert_eq!(
        fingerprints.len(),
        4,
        "the figures of one hour are told apart from those of another"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_caches_give_the_same_numbers_and_heal() {
    let world = World::start().await;
    let all = calls(6, 300);
    let model = model_of(&all);
    tell_all(&world.scanner, &all).await;
    for key in world
        .server
        .run::<Vec<String>>("KEYS agent-play:default:scanner:cache:*")
    {
        world.server.run::<i64>(&format!("DEL {key}"));
    }
    for key in world
        .server
        .run::<Vec<String>>("KEYS agent-play:default:analytics:cache:*")
    {
        world.server.run::<i64>(&format!("DEL {key}"));
    }
    // Without the caches, from the index.
    let head = world.scanner.head().await.expect("a head");
    assert_eq!(
        (head.txs, head.minted as i64),
        (model.head(NOW).0, model.head(NOW).1)
    );
    world.scanner.rebuild_caches().await.expect("rebuilt");
    compare(&world.scanner, &model, "rebuilt").await;
    world.scanner.rebuild_caches().await.expect("rebuilt again");
    compare(&world.scanner, &model, "rebuilt twice").await;
    // What comes later is counted on top.
    let mut generator = CallGenerator::new(66, NOW, CallMix::default());
    let more: Vec<Call> = generator
        .take(40)
        .into_iter()
        .filter(|c| c.hook == "executePurchase")
        .collect();
    let mut model = model;
    for call in &more {
        let mut call = call.clone();
        call.body["record"]["id"] = format!("later-{}", call.body["record"]["id"]).into();
        model.apply(&call);
        tell(&world.scanner, &call).await;
    }
    compare(&world.scanner, &model, "after a rebuild").await;
}
