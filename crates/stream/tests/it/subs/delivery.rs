//! What is given out, in which order, and what an acknowledgement does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairn_stream::subscription::{Subscription, SubscriptionOptions};
use cairn_stream::{Filters, keys};

use super::{World, entry, next, options, take, within};
use crate::chain::plain_ids;
use crate::event_ids;

#[tokio::test]
async fn everything_comes_once_in_order_and_is_acknowledged() {
    let world = World::with_blocks("all", 40).await;
    let expected = plain_ids(&world.chain, 1, 60);
    let published = plain_ids(&world.chain, 1, 40).len();
    let mut subscription = world.start(options("s"));
    let mut got = take(&mut subscription, published).await;
    // What is published later wakes it.
    world.publish(41, 60).await;
    got.extend(take(&mut subscription, expected.len() - published).await);
    assert_eq!(got, expected);
    assert_eq!(got, event_ids(&world.server, &world.chain));
    subscription.close().await;
    assert_eq!(world.pending("s"), 0);
    let lock: Option<String> = world.server.run("GET parser2:sub:s:lock");
    assert_eq!(lock, None, "the lock is given back");
}

#[tokio::test]
async fn run_calls_the_handler_and_stops() {
    let world = World::with_blocks("run", 40).await;
    let expected = plain_ids(&world.chain, 1, 40);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (done, stop) = tokio::sync::oneshot::channel::<()>();
    let mut done = Some(done);
    let total = expected.len();
    let handled = Arc::clone(&seen);
    let handler = move |event: Arc<cairn_stream::subscription::Received>| {
        let mut seen = handled.lock().expect("nobody panicked");
        seen.push(event.id().to_owned());
        if seen.len() == total
            && let Some(done) = done.take()
        {
            let _ = done.send(());
        }
        async { Ok::<(), String>(()) }
    };
    let run = world.start(options("s")).run(handler, async {
        let _ = stop.await;
    });
    within("the run", run).await.expect("it ends well");
    assert_eq!(*seen.lock().expect("nobody panicked"), expected);
    assert_eq!(world.pending("s"), 0);
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_again_first() {
    let world = World::with_blocks("again", 40).await;
    let expected = plain_ids(&world.chain, 1, 40);
    let mut first = world.start(SubscriptionOptions {
        window: 5,
        batch_events: 8,
        ..options("s")
    });
    assert_eq!(take(&mut first, 3).await, expected[..3]);
    let held = [
        next(&mut first).await,
        next(&mut first).await,
        next(&mut first).await,
    ];
    // The middle one is handled, its neighbours are not.
    let [a, b, c] = held;
    assert!(entry(&a) < entry(&b) && entry(&b) < entry(&c));
    b.ack();
    a.release();
    c.release();
    first.close().await;
    let mut second = world.start(options("s"));
    let mut rest = vec![expected[3].clone(), expected[5].clone()];
    rest.extend_from_slice(&expected[6..]);
    assert_eq!(take(&mut second, rest.len()).await, rest);
    second.close().await;
    assert_eq!(world.pending("s"), 0);
}

#[tokio::test]
async fn the_window_bounds_what_is_out() {
    let world = World::with_blocks("window", 20).await;
    let mut subscription = world.start(SubscriptionOptions {
        window: 2,
        ..options("s")
    });
    let first = next(&mut subscription).await;
    let second = next(&mut subscription).await;
    let blocked = tokio::time::timeout(Duration::from_millis(100), subscription.next()).await;
    assert!(blocked.is_err(), "a third while two are out");
    second.ack();
    let third = next(&mut subscription).await;
    first.ack();
    third.ack();
    let batch = within("a batch", subscription.next_batch(10))
        .await
        .expect("events");
    assert!((1..=2).contains(&batch.len()));
    for delivery in batch {
        delivery.ack();
    }
}

#[tokio::test]
async fn one_that_is_released_comes_again_without_a_failure() {
    let world = World::with_blocks("release", 10).await;
    let mut subscription = world.start(options("s"));
    for _ in 0..5 {
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.attempt(), 1);
        assert_eq!(delivery.event().id(), plain_ids(&world.chain, 1, 1)[0]);
        delivery.release();
    }
    assert_eq!(subscription.stats().failures, 0);
    let counts: u64 = world.server.run("EXISTS parser2:sub:s:failures");
    assert_eq!(counts, 0);
}

#[tokio::test]
async fn filters_pass_over_the_rest_and_acknowledge_it() {
    let world = World::with_blocks("filters", 10).await;
    world.add_event("fork", "x:f:1");
    world.add_event("native-delta", "x:n:1");
    world.add_event("delta", "x:d:1");
    let filters = Filters::parse(r#"[{"kind":"delta"}]"#).expect("filters");
    let mut with_forks = world.start(SubscriptionOptions {
        filters: filters.clone(),
        ..options("a")
    });
    assert_eq!(take(&mut with_forks, 2).await, ["x:f:1", "x:d:1"]);
    let mut without = world.start(SubscriptionOptions {
        filters,
        forks: false,
        ..options("b")
    });
    assert_eq!(take(&mut without, 1).await, ["x:d:1"]);
    let passed = plain_ids(&world.chain, 1, 10).len();
    world
        .until("the rest is acknowledged", |world| {
            world.pending("a") == 0 && world.pending("b") == 0
        })
        .await;
    assert_eq!(with_forks.stats().filtered, passed as u64 + 1);
    assert_eq!(without.stats().filtered, passed as u64 + 2);
}

#[tokio::test]
async fn portions_are_bounded_by_bytes_and_large_events_pass() {
    let world = World::with_blocks("large", 0).await;
    let pad = "x".repeat(300_000);
    let mut expected = Vec::new();
    for at in 0..12 {
        let data =
            serde_json::json!({ "kind": "action", "event_id": format!("x:a:{at}"), "pad": pad });
        world.add(&[("data", &data.to_string())]);
        expected.push(format!("x:a:{at}"));
    }
    let mut subscription = world.start(SubscriptionOptions {
        batch_bytes: 1,
        batch_events: 1_000,
        ..options("s")
    });
    assert_eq!(take(&mut subscription, 12).await, expected);
}

#[tokio::test]
async fn a_removed_group_is_made_again_where_it_was() {
    let world = World::with_blocks("removed", 20).await;
    let expected = plain_ids(&world.chain, 1, 40);
    let published = plain_ids(&world.chain, 1, 20).len();
    let mut subscription = world.start(options("s"));
    let mut got = take(&mut subscription, published).await;
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    world
        .server
        .run::<u64>(&format!("XGROUP DESTROY {} s", keys::events(&world.chain)));
    world.publish(21, 40).await;
    got.extend(take(&mut subscription, expected.len() - published).await);
    assert_eq!(got, expected);
}

#[tokio::test]
async fn subscriptions_do_not_disturb_each_other() {
    let world = World::with_blocks("many", 30).await;
    let expected = plain_ids(&world.chain, 1, 30);
    let mut all: Vec<Subscription> = (0..5)
        .map(|at| world.start(options(&format!("s{at}"))))
        .collect();
    let held = next(&mut all[0]).await;
    for subscription in &mut all[1..] {
        assert_eq!(take(subscription, expected.len()).await, expected);
    }
    held.ack();
    assert_eq!(take(&mut all[0], expected.len() - 1).await, expected[1..]);
}
