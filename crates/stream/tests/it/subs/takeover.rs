//! Several instances: who is active, and what a replaced one can still do.

use std::time::Duration;

use cairn_stream::keys;
use cairn_stream::subscription::{Role, SubscriptionError, SubscriptionOptions};

use super::{World, entry, next, next_error, options, take, within};
use crate::chain::plain_ids;

#[tokio::test]
async fn a_standby_takes_over_when_the_active_one_closes() {
    let world = World::with_blocks("handover", 30).await;
    let expected = plain_ids(&world.chain, 1, 30);
    let mut first = world.start(options("s"));
    let mut got = take(&mut first, 10).await;
    let mut second = world.start(options("s"));
    within("it stands by", async {
        while second.role() != Role::Standby {
            second.changed().await;
        }
    })
    .await;
    let none = tokio::time::timeout(Duration::from_millis(200), second.next()).await;
    assert!(none.is_err(), "a standby gives nothing out");
    let epoch = first.epoch().expect("active");
    first.close().await;
    got.extend(take(&mut second, expected.len() - 10).await);
    assert_eq!(got, expected);
    assert!(second.epoch().expect("active") > epoch);
}

#[tokio::test]
async fn waiting_for_the_lock_can_have_an_end() {
    let world = World::with_blocks("timeout", 4).await;
    let mut first = world.start(options("s"));
    take(&mut first, 1).await;
    let mut second = world.start(SubscriptionOptions {
        acquire_lock_timeout: Some(Duration::from_millis(300)),
        ..options("s")
    });
    let error = next_error(&mut second).await;
    assert!(
        matches!(error, SubscriptionError::LockTimeout { .. }),
        "{error}"
    );
}

/// The lock goes to another while the holder knows nothing of it: what it does on the group has no effect.
#[tokio::test]
async fn a_replaced_holder_changes_nothing() {
    let world = World::with_blocks("fenced", 30).await;
    let expected = plain_ids(&world.chain, 1, 30);
    let mut old = world.start(SubscriptionOptions {
        batch_events: 4,
        ..options("s")
    });
    let held = next(&mut old).await;
    // As after a failover that forgot the lock: it is free, and the old holder's heartbeat is still to come.
    world.server.run::<u64>("DEL parser2:sub:s:lock");
    let mut new = world.start(options("s"));
    let first = next(&mut new).await;
    assert_eq!(
        first.event().id(),
        expected[0],
        "what was pending comes again"
    );
    assert!(first.epoch() > held.epoch());
    // The old one acknowledges late. The entry stays pending for the new one.
    let entry = entry(&held);
    held.ack();
    within("the old one notices", async {
        while old.role() == Role::Active {
            old.changed().await;
        }
    })
    .await;
    let pending: Vec<(String, String, u64, u64)> = redis::cmd("XPENDING")
        .arg(keys::events(&world.chain))
        .arg("s")
        .arg(entry.to_string())
        .arg(entry.to_string())
        .arg(1)
        .query(&mut world.server.connection())
        .expect("readable");
    assert_eq!(pending.len(), 1, "not acknowledged by the old one");
    first.ack();
    assert_eq!(take(&mut new, expected.len() - 1).await, expected[1..]);
}

/// A client that knows nothing of marks has taken over by the rules of the lock alone.
#[tokio::test]
async fn plain_clients_take_over_and_are_relieved() {
    let world = World::with_blocks("plain", 30).await;
    let key = keys::events(&world.chain);
    let expected = plain_ids(&world.chain, 1, 30);
    let mut ours = world.start(options("s"));
    take(&mut ours, 5).await;
    ours.close().await;
    world
        .server
        .run::<String>("SET parser2:sub:s:lock plain NX PX 10000");
    type Entry = (String, Vec<(String, String)>);
    let read: Vec<(String, Vec<Entry>)> = redis::cmd("XREADGROUP")
        .arg("GROUP")
        .arg("s")
        .arg("primary")
        .arg("COUNT")
        .arg(4)
        .arg("STREAMS")
        .arg(&key)
        .arg("0")
        .query(&mut world.server.connection())
        .expect("what is pending");
    // Ours had read ahead: the plain client finds that pending, handles two, and dies.
    let pending = &read[0].1;
    for (id, fields) in &pending[..2] {
        assert!(expected[5..7].contains(&crate::event_id(&fields[0].1)));
        world.server.run::<u64>(&format!("XACK {key} s {id}"));
    }
    world.server.run::<u64>("DEL parser2:sub:s:lock");
    let mut ours = world.start(options("s"));
    assert_eq!(take(&mut ours, expected.len() - 7).await, expected[7..]);
}

/// Something else reads in the same group: what it was given is found and handled.
#[tokio::test]
async fn what_others_read_is_found_again() {
    let world = World::with_blocks("strays", 8).await;
    let key = keys::events(&world.chain);
    let all = plain_ids(&world.chain, 1, 8);
    let mut ours = world.start(options("s"));
    take(&mut ours, all.len()).await;
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    // A replaced plain client wakes up and reads as `primary`.
    let stolen = world.add_event("action", "x:a:stolen");
    let mut command = redis::cmd("XCLAIM");
    command
        .arg(&key)
        .arg("s")
        .arg("primary")
        .arg(0)
        .arg(stolen.to_string())
        .arg("FORCE")
        .arg("JUSTID");
    let _: Vec<String> = command
        .query(&mut world.server.connection())
        .expect("claimed");
    assert_eq!(take(&mut ours, 1).await, ["x:a:stolen"]);
    // An older deployment read under a name of its own and is gone.
    let left = world.add_event("action", "x:a:left");
    let mut command = redis::cmd("XCLAIM");
    command
        .arg(&key)
        .arg("s")
        .arg("worker-7")
        .arg(0)
        .arg(left.to_string())
        .arg("IDLE")
        .arg(60_000)
        .arg("FORCE")
        .arg("JUSTID");
    let _: Vec<String> = command
        .query(&mut world.server.connection())
        .expect("claimed");
    loop {
        // The entry may have been read by us before it was claimed away: then it comes twice.
        let ids = take(&mut ours, 1).await;
        assert!(ids[0] == "x:a:left" || ids[0] == "x:a:stolen", "{ids:?}");
        if ids[0] == "x:a:left" {
            break;
        }
    }
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
}

#[tokio::test]
async fn marks_are_left_and_removed() {
    let world = World::with_blocks("marks", 4).await;
    for life in 1..=3u64 {
        let mut subscription = world.start(options("s"));
        take(&mut subscription, 1).await;
        assert_eq!(subscription.epoch(), Some(life));
        subscription.close().await;
        let consumers: Vec<std::collections::HashMap<String, redis::Value>> = redis::cmd("XINFO")
            .arg("CONSUMERS")
            .arg(keys::events(&world.chain))
            .arg("s")
            .query(&mut world.server.connection())
            .expect("a group");
        let mut names: Vec<String> = consumers
            .into_iter()
            .map(|mut fields| {
                redis::from_redis_value(fields.remove("name").expect("a name")).expect("text")
            })
            .collect();
        names.sort();
        assert_eq!(names, [format!("epoch:{life}"), "primary".to_owned()]);
    }
    // The counter is lost, the mark is not.
    world.server.run::<u64>("DEL parser2:sub:s:epoch");
    let mut subscription = world.start(options("s"));
    take(&mut subscription, 1).await;
    assert_eq!(subscription.epoch(), Some(4));
}
