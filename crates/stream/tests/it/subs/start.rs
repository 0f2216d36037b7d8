//! Where subscriptions begin, and what the registry says of them.

use cairn_stream::subscription::{
    EventSource, StartFrom, Subscription, SubscriptionError, SubscriptionOptions,
};
use cairn_stream::{ChainLabel, Filters, keys};
use serde_json::Value;

use super::{World, next, next_error, options, take};
use crate::chain::{ids, plain_ids};
use crate::label;

fn from(sub: &str, start_from: StartFrom) -> SubscriptionOptions {
    SubscriptionOptions {
        start_from,
        ..options(sub)
    }
}

async fn first_id(world: &World, options: SubscriptionOptions) -> String {
    let mut subscription = world.start(options);
    let delivery = next(&mut subscription).await;
    let id = delivery.event().id().to_owned();
    delivery.ack();
    subscription.close().await;
    id
}

#[tokio::test]
async fn places_to_start_from() {
    let world = World::with_blocks("places", 60).await;
    let first_of = |num: u32| ids(&world.chain, num, 0, 1)[0].clone();
    for (sub, place, block) in [
        ("a", StartFrom::First, 1),
        ("b", StartFrom::Block(30), 30),
        // Block 32 has no event.
        ("c", StartFrom::Block(32), 33),
        ("d", StartFrom::Block(0), 1),
        ("e", StartFrom::HeadMinus(10), 50),
        ("f", StartFrom::HeadMinus(1_000), 1),
    ] {
        assert_eq!(
            first_id(&world, from(sub, place)).await,
            first_of(block),
            "{place:?}"
        );
    }
    // A position that is there wins over whatever is asked for.
    assert_eq!(
        first_id(&world, from("b", StartFrom::First)).await,
        ids(&world.chain, 30, 0, 2)[1]
    );
    // Without one: from now on.
    let mut late = world.start(from("g", StartFrom::LastKnown));
    super::within("it is active", async {
        while late.epoch().is_none() {
            late.changed().await;
        }
    })
    .await;
    world.publish(61, 63).await;
    assert_eq!(take(&mut late, 1).await, plain_ids(&world.chain, 61, 61));
}

#[tokio::test]
async fn places_that_are_not_there() {
    let world = World::with_blocks("not-there", 60).await;
    world
        .server
        .run::<u64>(&format!("XTRIM {} MAXLEN 20", keys::events(&world.chain)));
    let error = next_error(&mut world.start(from("a", StartFrom::Block(5)))).await;
    let SubscriptionError::Trimmed {
        wanted: 5,
        first_block,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert!((40..=60).contains(&first_block));
    let allowed = SubscriptionOptions {
        allow_gap: true,
        ..from("b", StartFrom::Block(5))
    };
    assert!(
        first_id(&world, allowed)
            .await
            .contains(&format!(":{first_block}:"))
    );
    let error = next_error(&mut world.start(from("c", StartFrom::Block(61)))).await;
    assert!(
        matches!(error, SubscriptionError::NotPublished { wanted: 61, .. }),
        "{error}"
    );
    let empty = World::with_blocks("no-head", 0).await;
    let error = next_error(&mut empty.start(from("d", StartFrom::HeadMinus(5)))).await;
    assert!(matches!(error, SubscriptionError::NoHead { .. }), "{error}");
}

#[tokio::test]
async fn the_place_is_found_in_a_few_looks() {
    let world = World::with_blocks("logarithmic", 3_000).await;
    let before = commands(&world);
    let at = first_id(&world, from("a", StartFrom::Block(1_501))).await;
    assert_eq!(at, ids(&world.chain, 1_501, 0, 1)[0]);
    let looks = commands(&world) - before;
    assert!(looks < 100, "{looks} ranges were read of 4,500 entries");
}

/// How often ranges were read.
fn commands(world: &World) -> u64 {
    let info: String = world.server.run("INFO commandstats");
    info.lines()
        .find_map(|line| line.strip_prefix("cmdstat_xrange:calls="))
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .unwrap_or_default()
}

fn registration(world: &World, sub: &str) -> Value {
    let text: String = world.server.run(&format!("HGET parser2:subs {sub}"));
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn the_registry_says_what_was_asked_for_and_keeps_the_first_date() {
    let world = World::with_blocks("registry", 4).await;
    first_id(&world, from("s", StartFrom::Block(1))).await;
    let first = registration(&world, "s");
    assert_eq!(first["subId"], "s");
    assert_eq!(first["filters"], serde_json::json!([]));
    assert_eq!(first["startFrom"], 1);
    assert_eq!(first["chainId"], "registry");
    let at = first["registeredAt"].as_str().expect("a date");
    assert!(at.ends_with('Z') && at.len() == 24, "{at}");
    let filters = serde_json::json!([{ "kind": "action", "account": "eosio.token" }]);
    first_id(
        &world,
        SubscriptionOptions {
            filters: Filters::from_json(&filters).expect("filters"),
            ..from("s", StartFrom::LastKnown)
        },
    )
    .await;
    let second = registration(&world, "s");
    assert_eq!(second["registeredAt"], first["registeredAt"]);
    assert_eq!(second["filters"], filters);
    assert_eq!(second["startFrom"], "last_known");
}

#[tokio::test]
async fn an_id_belongs_to_one_chain() {
    let world = World::with_blocks("first-chain", 4).await;
    first_id(&world, options("s")).await;
    let other: ChainLabel = label("other-chain");
    let mut subscription =
        Subscription::start(world.redis.clone(), EventSource::live(&other), options("s"));
    let error = next_error(&mut subscription).await;
    assert!(
        matches!(error, SubscriptionError::OtherChain { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn the_stream_of_a_reparse_job_is_read_the_same_way() {
    let world = World::with_blocks("jobs", 4).await;
    let source = EventSource::reparse(&world.chain, "0190-job").expect("an id");
    for at in 0..3 {
        let data = serde_json::json!({ "kind": "action", "event_id": format!("jobs:a:{at}") });
        redis::cmd("XADD")
            .arg(source.key())
            .arg("*")
            .arg("data")
            .arg(data.to_string())
            .query::<String>(&mut world.server.connection())
            .expect("added");
    }
    let mut subscription = Subscription::start(world.redis.clone(), source.clone(), options("s"));
    assert_eq!(
        take(&mut subscription, 3).await,
        ["jobs:a:0", "jobs:a:1", "jobs:a:2"]
    );
    assert_eq!(registration(&world, "s")["stream"], source.key());
}

#[tokio::test]
async fn a_loss_is_told() {
    let world = World::with_blocks("loss", 20).await;
    let mut subscription = world.start(SubscriptionOptions {
        batch_events: 4,
        ..options("s")
    });
    take(&mut subscription, 2).await;
    // Pending ones and unread ones are removed.
    subscription.close().await;
    world
        .server
        .run::<u64>(&format!("XTRIM {} MAXLEN 3", keys::events(&world.chain)));
    let mut subscription = world.start(options("s"));
    let left = plain_ids(&world.chain, 1, 20);
    assert_eq!(take(&mut subscription, 3).await, left[left.len() - 3..]);
    let lost = left.len() as u64 - 3 - 2;
    assert_eq!(subscription.stats().lost, lost);
    subscription.close().await;
    assert_eq!(world.pending("s"), 0);
}
