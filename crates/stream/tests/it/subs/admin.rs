//! Listing and moving subscriptions from outside.

use cairn_stream::keys;
use cairn_stream::subscription::SubscriptionError;
use cairn_stream::subscription::admin::{ResetOptions, ResetTo, list, reset, with_dead_letters};

use super::{World, options, sub_id, take};
use crate::chain::{ids, plain_ids};

const FORCE: ResetOptions = ResetOptions {
    dry_run: false,
    clear_pending: false,
    force: true,
};

#[tokio::test]
async fn subscriptions_are_listed_with_what_they_lack() {
    let world = World::with_blocks("list", 20).await;
    assert_eq!(list(&world.redis, &world.chain).await.expect("listed"), []);
    let total = plain_ids(&world.chain, 1, 20).len() as u64;
    let mut first = world.start(options("a"));
    take(&mut first, 5).await;
    world.server.run::<u64>(
        "HSET parser2:subs b {\"subId\":\"b\",\"filters\":[],\"startFrom\":7,\"chainId\":\"list\"}",
    );
    world
        .server
        .run::<u64>("HSET parser2:subs c {\"subId\":\"c\",\"chainId\":\"another\"}");
    world
        .until("five are acknowledged", |world| {
            world.pending("a") == total - 5
        })
        .await;
    let listed = list(&world.redis, &world.chain).await.expect("listed");
    let names: Vec<&str> = listed.iter().map(|info| info.sub_id.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let group = listed[0].group.as_ref().expect("started");
    assert_eq!((group.lag, group.pending), (Some(0), total - 5));
    assert!(listed[0].holder.is_some());
    assert_eq!(listed[1].group, None);
    assert_eq!(listed[1].start_from, 7);
}

#[tokio::test]
async fn a_subscription_is_moved_to_a_block_the_beginning_and_the_end() {
    let world = World::with_blocks("move", 40).await;
    let all = plain_ids(&world.chain, 1, 40);
    let source = world.source();
    let mut subscription = world.start(options("s"));
    take(&mut subscription, 5).await;
    let active = reset(
        &world.redis,
        &source,
        &sub_id("s"),
        ResetTo::Earliest,
        ResetOptions::default(),
    )
    .await;
    assert!(
        matches!(active, Err(SubscriptionError::Active { .. })),
        "{active:?}"
    );
    subscription.close().await;
    for (to, first) in [
        (ResetTo::Block(21), ids(&world.chain, 21, 0, 1)[0].clone()),
        (ResetTo::Earliest, all[0].clone()),
        (
            ResetTo::Block(40),
            ids(&world.chain, 40, 0, 1)
                .first()
                .cloned()
                .unwrap_or_default(),
        ),
    ] {
        let done = reset(
            &world.redis,
            &source,
            &sub_id("s"),
            to,
            ResetOptions {
                clear_pending: true,
                ..ResetOptions::default()
            },
        )
        .await;
        if to == ResetTo::Block(40) {
            // Block 40 has no events, and nothing comes after it.
            assert!(
                matches!(done, Err(SubscriptionError::NotPublished { .. })),
                "{done:?}"
            );
            continue;
        }
        assert_eq!(
            done.expect("moved").is_pending_cleared,
            to == ResetTo::Block(21) || to == ResetTo::Earliest
        );
        let mut subscription = world.start(options("s"));
        assert_eq!(take(&mut subscription, 1).await, [first]);
        subscription.close().await;
    }
    let dry = ResetOptions {
        dry_run: true,
        ..ResetOptions::default()
    };
    let said = reset(&world.redis, &source, &sub_id("s"), ResetTo::Latest, dry)
        .await
        .expect("said");
    assert!(said.pending > 0 && !said.is_pending_cleared && said.after > said.before.previous());
    reset(
        &world.redis,
        &source,
        &sub_id("s"),
        ResetTo::Latest,
        ResetOptions {
            clear_pending: true,
            ..ResetOptions::default()
        },
    )
    .await
    .expect("moved");
    world.add_event("action", "x:a:new");
    let mut subscription = world.start(options("s"));
    assert_eq!(take(&mut subscription, 1).await, ["x:a:new"]);
}

#[tokio::test]
async fn an_active_instance_follows_a_forced_move() {
    let world = World::with_blocks("forced", 20).await;
    let all = plain_ids(&world.chain, 1, 20);
    let mut subscription = world.start(options("s"));
    assert_eq!(take(&mut subscription, all.len()).await, all);
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    reset(
        &world.redis,
        &world.source(),
        &sub_id("s"),
        ResetTo::Block(15),
        FORCE,
    )
    .await
    .expect("moved");
    let again = plain_ids(&world.chain, 15, 20);
    assert_eq!(take(&mut subscription, again.len()).await, again);
    // Forward, past what is there: nothing of it comes, and nothing spins.
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    world.publish(21, 21).await;
    assert_eq!(
        take(&mut subscription, 1).await,
        plain_ids(&world.chain, 21, 21)
    );
}

#[tokio::test]
async fn mistakes_are_told() {
    let world = World::with_blocks("mistakes", 20).await;
    let none = reset(
        &world.redis,
        &world.source(),
        &sub_id("none"),
        ResetTo::Latest,
        FORCE,
    )
    .await;
    assert!(
        matches!(none, Err(SubscriptionError::NoGroup { .. })),
        "{none:?}"
    );
    let mut subscription = world.start(options("s"));
    take(&mut subscription, 1).await;
    subscription.close().await;
    world
        .server
        .run::<u64>(&format!("XTRIM {} MAXLEN 5", keys::events(&world.chain)));
    let trimmed = reset(
        &world.redis,
        &world.source(),
        &sub_id("s"),
        ResetTo::Block(2),
        FORCE,
    )
    .await;
    assert!(
        matches!(trimmed, Err(SubscriptionError::Trimmed { .. })),
        "{trimmed:?}"
    );
}

#[tokio::test]
async fn subscriptions_with_dead_letters_are_found() {
    let world = World::with_blocks("found", 0).await;
    for key in [
        "ce:parser2:found:dead:b",
        "ce:parser2:found:dead:a",
        "ce:parser2:found2:dead:c",
        "ce:parser2:found:events",
    ] {
        world.server.run::<String>(&format!("XADD {key} * data x"));
    }
    let found = with_dead_letters(&world.redis, &world.chain)
        .await
        .expect("found");
    let names: Vec<&str> = found.iter().map(|sub| sub.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}
