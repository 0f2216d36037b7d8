//! Dead letters that are given out again.

use cairn_stream::EntryId;
use cairn_stream::subscription::admin::{Which, dead_letters, replay};
use cairn_stream::subscription::{Origin, Subscription};

use super::{World, next, options, sub_id, take};
use crate::chain::plain_ids;

/// Lets so many events fail until they are dead letters; gives their ids.
async fn bury(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        for _ in 0..3 {
            let delivery = next(subscription).await;
            if delivery.attempt() == 1 {
                ids.push(delivery.event().id().to_owned());
            }
            delivery.nack("no");
        }
    }
    ids
}

async fn ask(world: &World, which: &Which, broadcast: bool, dry_run: bool) -> u64 {
    replay(
        &world.redis,
        &world.chain,
        &sub_id("s"),
        which,
        broadcast,
        dry_run,
        |_| {},
    )
    .await
    .expect("asked")
}

#[tokio::test]
async fn to_the_subscription_alone_in_their_order() {
    let world = World::with_blocks("replay", 12).await;
    let all = plain_ids(&world.chain, 1, 12);
    let mut ours = world.start(options("s"));
    let mut other = world.start(options("other"));
    take(&mut other, all.len()).await;
    let dead = bury(&mut ours, 4).await;
    assert_eq!(dead, all[..4]);
    assert_eq!(take(&mut ours, all.len() - 4).await, all[4..]);
    assert_eq!(ask(&world, &Which::All, false, true).await, 4);
    assert_eq!(ask(&world, &Which::All, false, false).await, 4);
    // The second fails again: it stays a dead letter, with the new reason, and the next ones come.
    let mut got = Vec::new();
    while got.len() < 3 {
        let delivery = next(&mut ours).await;
        assert!(matches!(
            delivery.event().origin(),
            Origin::DeadLetter { .. }
        ));
        if delivery.event().id() == dead[1] {
            delivery.nack("still no");
        } else {
            got.push(delivery.event().id().to_owned());
            delivery.ack();
        }
    }
    assert_eq!(got, [dead[0].clone(), dead[2].clone(), dead[3].clone()]);
    world
        .until("the handled ones are removed", |world| {
            world.dead("s").len() == 1
        })
        .await;
    let left = &world.dead("s")[0];
    assert_eq!(crate::event_id(&left["data"]), dead[1]);
    assert_eq!(
        (left["lastError"].as_str(), left["failureCount"].as_str()),
        ("still no", "3")
    );
    world
        .until("no request is left", |world| {
            world.server.run::<u64>("XLEN parser2:sub:s:replay") == 0
        })
        .await;
    // Nobody else heard of it.
    world.add_event("action", "x:a:last");
    assert_eq!(take(&mut other, 1).await, ["x:a:last"]);
    assert_eq!(take(&mut ours, 1).await, ["x:a:last"]);
    let length: usize = world.server.run("XLEN ce:parser2:replay:events");
    assert_eq!(length, all.len() + 1);
}

#[tokio::test]
async fn one_by_its_event_or_its_own_id_and_more_than_a_page() {
    let world = World::with_blocks("some", 0).await;
    let count = 1_203;
    let key = cairn_stream::keys::dead_letters(&world.chain, "s");
    let mut pipe = redis::pipe();
    for at in 0..count {
        let data =
            serde_json::json!({ "kind": "action", "event_id": format!("x:a:{at}") }).to_string();
        pipe.cmd("XADD")
            .arg(&key)
            .arg(format!("{}-0", at + 1))
            .arg("data")
            .arg(data)
            .arg("failureCount")
            .arg(3)
            .arg("lastError")
            .arg("e")
            .arg("subId")
            .arg("s")
            .ignore();
    }
    pipe.query::<()>(&mut world.server.connection())
        .expect("added");
    assert_eq!(
        ask(&world, &Which::Event("x:a:7".to_owned()), false, false).await,
        1
    );
    assert_eq!(
        ask(&world, &Which::Event("x:a:none".to_owned()), false, false).await,
        0
    );
    assert_eq!(
        ask(
            &world,
            &Which::Letter(EntryId { ms: 10, seq: 0 }),
            false,
            false
        )
        .await,
        1
    );
    assert_eq!(
        ask(
            &world,
            &Which::Letter(EntryId { ms: 9_999, seq: 0 }),
            false,
            false
        )
        .await,
        0
    );
    let mut ours = world.start(options("s"));
    assert_eq!(take(&mut ours, 2).await, ["x:a:7", "x:a:9"]);
    world
        .until("they are removed", |world| {
            world.dead("s").len() == count - 2
        })
        .await;
    assert_eq!(
        ask(&world, &Which::All, false, false).await,
        count as u64 - 2
    );
    let expected: Vec<String> = (0..count)
        .filter(|at| *at != 7 && *at != 9)
        .map(|at| format!("x:a:{at}"))
        .collect();
    assert_eq!(take(&mut ours, count - 2).await, expected);
    world
        .until("all are removed", |world| world.dead("s").is_empty())
        .await;
}

#[tokio::test]
async fn a_replay_survives_the_instance_that_began_it() {
    let world = World::with_blocks("survives", 4).await;
    let mut ours = world.start(options("s"));
    let dead = bury(&mut ours, 2).await;
    // What was given back is decided on when the next one is asked for.
    take(&mut ours, 1).await;
    assert_eq!(ask(&world, &Which::All, false, false).await, 2);
    // It is given out, and not answered before the instance ends.
    loop {
        let delivery = next(&mut ours).await;
        if matches!(delivery.event().origin(), Origin::DeadLetter { .. }) {
            delivery.release();
            break;
        }
        delivery.ack();
    }
    ours.close().await;
    assert_eq!(world.dead("s").len(), 2);
    let mut ours = world.start(options("s"));
    let mut got = Vec::new();
    while got.len() < 2 {
        let delivery = next(&mut ours).await;
        if matches!(delivery.event().origin(), Origin::DeadLetter { .. }) {
            got.push(delivery.event().id().to_owned());
        }
        delivery.ack();
    }
    assert_eq!(got, dead);
    world
        .until("they are removed", |world| world.dead("s").is_empty())
        .await;
}

#[tokio::test]
async fn a_broadcast_goes_to_everybody() {
    let world = World::with_blocks("broadcast", 4).await;
    let all = plain_ids(&world.chain, 1, 4);
    let mut ours = world.start(options("s"));
    let mut other = world.start(options("other"));
    take(&mut other, all.len()).await;
    let dead = bury(&mut ours, 2).await;
    take(&mut ours, all.len() - 2).await;
    assert_eq!(ask(&world, &Which::All, true, false).await, 2);
    assert_eq!(take(&mut other, 2).await, dead);
    assert_eq!(take(&mut ours, 2).await, dead);
    assert!(world.dead("s").is_empty());
}

#[tokio::test]
async fn dead_letters_are_read_in_pages() {
    let world = World::with_blocks("pages", 8).await;
    let mut ours = world.start(options("s"));
    let dead = bury(&mut ours, 3).await;
    take(&mut ours, 1).await;
    let read = |after, count| {
        let (redis, chain) = (world.redis.clone(), world.chain.clone());
        async move {
            dead_letters(&redis, &chain, &sub_id("s"), after, count)
                .await
                .expect("read")
        }
    };
    let first = read(EntryId::ZERO, 2).await;
    let ids: Vec<&str> = first
        .iter()
        .map(|letter| letter.event_id.as_str())
        .collect();
    assert_eq!(ids, [dead[0].as_str(), dead[1].as_str()]);
    assert_eq!(
        (
            first[0].kind.as_str(),
            first[0].failures,
            first[0].last_error.as_str()
        ),
        ("action", 3, "no")
    );
    let rest = read(first[1].id, 2).await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].event_id, dead[2]);
    assert!(rest[0].at().ends_with('Z'));
}
