//! Handlers that fail, entries that are none, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use cairn_stream::keys;
use cairn_stream::subscription::{Received, SubscriptionError, SubscriptionOptions};

use super::{World, next, next_error, options, take, within};
use crate::chain::plain_ids;

#[tokio::test]
async fn the_third_failure_goes_to_the_dead_letters_and_order_is_kept() {
    let world = World::with_blocks("dead", 12).await;
    let expected = plain_ids(&world.chain, 1, 12);
    let mut subscription = world.start(options("s"));
    assert_eq!(take(&mut subscription, 2).await, expected[..2]);
    for attempt in 1..=3 {
        let delivery = next(&mut subscription).await;
        assert_eq!(
            (delivery.event().id(), delivery.attempt()),
            (expected[2].as_str(), attempt)
        );
        if attempt == 2 {
            let count: u32 = world
                .server
                .run(&format!("HGET parser2:sub:s:failures {}", expected[2]));
            assert_eq!(count, 1);
            let ttl: u64 = world.server.run("TTL parser2:sub:s:failures");
            assert!((86_000..=86_400).contains(&ttl), "{ttl}");
        }
        delivery.nack(format!("no {attempt}"));
    }
    // One failure alone is forgotten by the success after it.
    let delivery = next(&mut subscription).await;
    assert_eq!(delivery.event().id(), expected[3]);
    delivery.nack("once");
    assert_eq!(
        take(&mut subscription, expected.len() - 3).await,
        expected[3..]
    );
    subscription.close().await;
    let dead = world.dead("s");
    assert_eq!(dead.len(), 1);
    let letter = &dead[0];
    assert_eq!(crate::event_id(&letter["data"]), expected[2]);
    assert_eq!(letter["failureCount"], "3");
    assert_eq!(letter["lastError"], "no 3");
    assert_eq!(letter["subId"], "s");
    let stream: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
        .arg(keys::events(&world.chain))
        .arg(&letter["entryId"])
        .arg(&letter["entryId"])
        .query(&mut world.server.connection())
        .expect("readable");
    assert_eq!(stream[0].1[0].1, letter["data"], "byte for byte");
    assert_eq!(world.pending("s"), 0);
    let counts: u64 = world.server.run("HLEN parser2:sub:s:failures");
    assert_eq!(counts, 0);
}

#[tokio::test]
async fn failures_are_counted_across_restarts() {
    let world = World::with_blocks("restarts", 8).await;
    let expected = plain_ids(&world.chain, 1, 8);
    for attempt in 1..=3 {
        let mut subscription = world.start(options("s"));
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.event().id(), expected[0]);
        delivery.nack(format!("attempt {attempt}"));
        if attempt < 3 {
            // The failure is counted when the next event is asked for.
            let again = next(&mut subscription).await;
            assert_eq!(again.attempt(), attempt + 1);
            again.release();
        } else {
            assert_eq!(take(&mut subscription, 1).await, expected[1..2]);
        }
        subscription.close().await;
    }
    assert_eq!(world.dead("s")[0]["lastError"], "attempt 3");
}

#[tokio::test]
async fn errors_panics_and_dropped_deliveries_are_failures() {
    let world = World::with_blocks("panics", 12).await;
    let expected = plain_ids(&world.chain, 1, 12);
    let last = expected.last().expect("some").clone();
    let poison = [expected[1].clone(), expected[4].clone()];
    let (done, stop) = tokio::sync::oneshot::channel::<()>();
    let mut done = Some(done);
    let chosen = poison.clone();
    let handler = move |event: Arc<Received>| {
        let does_panic = event.id() == chosen[0];
        let does_fail = event.id() == chosen[1];
        if event.id() == last
            && let Some(done) = done.take()
        {
            let _ = done.send(());
        }
        async move {
            assert!(!does_panic, "poison");
            if does_fail { Err("bitter") } else { Ok(()) }
        }
    };
    let run = world.start(options("s")).run(handler, async {
        let _ = stop.await;
    });
    within("the run", run).await.expect("it ends well");
    let dead = world.dead("s");
    let ids: Vec<String> = dead
        .iter()
        .map(|letter| crate::event_id(&letter["data"]))
        .collect();
    assert_eq!(ids, poison);
    assert_eq!(dead[0]["lastError"], "the handler panicked: poison");
    assert_eq!(dead[1]["lastError"], "bitter");

    let mut subscription = world.start(options("t"));
    drop(next(&mut subscription).await);
    let again = next(&mut subscription).await;
    assert_eq!(
        (again.event().id(), again.attempt()),
        (expected[0].as_str(), 2)
    );
    again.ack();
}

#[tokio::test]
async fn what_is_no_event_is_kept_in_the_dead_letters() {
    let world = World::with_blocks("malformed", 0).await;
    let bad = ["{\"kind\":\"action\"", "[]", "", "{\"kind\":\"action\"}"];
    for data in bad {
        world.add(&[("data", data)]);
    }
    world.add(&[("other", "field")]);
    world.add_event("action", "x:a:1");
    let mut subscription = world.start(options("s"));
    assert_eq!(take(&mut subscription, 1).await, ["x:a:1"]);
    subscription.close().await;
    let dead = world.dead("s");
    let data: Vec<&str> = dead.iter().map(|letter| letter["data"].as_str()).collect();
    assert_eq!(data, [bad[0], bad[1], bad[2], bad[3], ""]);
    assert!(dead.iter().all(|letter| letter["lastError"] == "malformed entry" && letter["failureCount"] == "0"));
    assert_eq!(world.pending("s"), 0);
}

#[tokio::test]
async fn a_fork_is_never_left_out() {
    let world = World::with_blocks("fork", 0).await;
    let fork = world.add_event("fork", "x:f:1");
    world.add_event("action", "x:a:2");
    let mut subscription = world.start(options("s"));
    for _ in 0..3 {
        next(&mut subscription).await.nack("cannot undo");
    }
    let error = next_error(&mut subscription).await;
    assert!(
        matches!(&error, SubscriptionError::ForkFailed { event_id, failures: 3, .. } if event_id == "x:f:1"),
        "{error}"
    );
    assert!(error.to_string().contains("cannot undo"));
    subscription.close().await;
    assert!(world.dead("s").is_empty());
    assert_eq!(world.pending("s"), 2);
    // The corrected consumer gets it first.
    let mut subscription = world.start(options("s"));
    let delivery = next(&mut subscription).await;
    assert_eq!(super::entry(&delivery), fork);
    delivery.ack();
    assert_eq!(take(&mut subscription, 1).await, ["x:a:2"]);
}

#[tokio::test]
async fn a_process_that_dies_in_its_handler_is_a_failure_of_the_event() {
    let world = World::with_blocks("poison", 4).await;
    let expected = plain_ids(&world.chain, 1, 4);
    // As often as it takes: the instance is dropped while the event is with its handler.
    let mut lives = 0;
    loop {
        let mut subscription = world.start(options("s"));
        let delivery = next(&mut subscription).await;
        if delivery.event().id() != expected[0] {
            assert_eq!(delivery.event().id(), expected[1]);
            delivery.ack();
            break;
        }
        lives += 1;
        assert!(lives <= 6, "it is given out for ever");
        std::mem::forget(delivery);
        subscription.close().await;
    }
    assert_eq!(lives, 5, "two that are not counted yet, and three that are");
    let dead = world.dead("s");
    assert_eq!(crate::event_id(&dead[0]["data"]), expected[0]);
    assert_eq!(
        dead[0]["lastError"],
        "the process ended while the event was handled"
    );
    assert_eq!(dead[0]["failureCount"], "3");
    assert_eq!(
        dead.len(),
        1,
        "events that were only read ahead are not suspected"
    );
}

#[tokio::test]
async fn pauses_grow_and_hold_later_events_back() {
    let world = World::with_blocks("pauses", 4).await;
    let expected = plain_ids(&world.chain, 1, 4);
    let mut subscription = world.start(SubscriptionOptions {
        retry_pauses: vec![Duration::from_millis(300)],
        window: 10,
        ..options("s")
    });
    next(&mut subscription).await.nack("later");
    let early = tokio::time::timeout(Duration::from_millis(100), subscription.next()).await;
    assert!(
        early.is_err(),
        "nothing is given out before the one that failed"
    );
    let again = next(&mut subscription).await;
    assert_eq!(
        (again.event().id(), again.attempt()),
        (expected[0].as_str(), 2)
    );
    again.ack();
}
