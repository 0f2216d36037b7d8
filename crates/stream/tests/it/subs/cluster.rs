//! Subscriptions on a Cluster, where no step spans two keys, through a failover of the stream's master.

use std::time::Duration;

use cairn_stream::keys;
use cairn_stream::subscription::admin::{Which, list, replay};
use cairn_stream::subscription::{EventSource, Origin, Subscription};
use cairn_testkit::RedisCluster;

use super::{dead_at, next, options, sub_id, take, within};
use crate::chain::{plain, plain_ids};
use crate::{connect, label, open};

#[tokio::test]
async fn on_a_cluster_through_a_failover() {
    let mut cluster = RedisCluster::start();
    let redis = connect(&cluster.url()).await;
    let chain = label("cluster");
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 20))
        .await
        .expect("published");
    let all = plain_ids(&chain, 1, 40);
    let published = plain_ids(&chain, 1, 20).len();
    let source = EventSource::live(&chain);
    let mut subscription = Subscription::start(redis.clone(), source.clone(), options("s"));
    let mut standby = Subscription::start(redis.clone(), source, options("s"));
    // Dead letters in their three steps.
    for attempt in 1..=3 {
        let delivery = next(&mut subscription).await;
        assert_eq!(
            (delivery.event().id(), delivery.attempt()),
            (all[0].as_str(), attempt)
        );
        delivery.nack("no");
    }
    assert_eq!(
        take(&mut subscription, published - 1).await,
        all[1..published]
    );
    let letters = keys::dead_letters(&chain, "s");
    let dead = dead_at(&cluster.nodes()[cluster.master_of(&letters)], &chain, "s");
    assert_eq!(dead.len(), 1);
    assert_eq!(crate::event_id(&dead[0]["data"]), all[0]);
    // The counter goes last, after the acknowledgement.
    let counts = &cluster.nodes()[cluster.master_of(&keys::failures("s"))];
    within("the counter is forgotten", async {
        while counts.run::<u64>("HLEN parser2:sub:s:failures") > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    // And back.
    let asked = replay(
        &redis,
        &chain,
        &sub_id("s"),
        &Which::All,
        false,
        false,
        |_| {},
    )
    .await;
    assert_eq!(asked.expect("asked"), 1);
    let delivery = next(&mut subscription).await;
    assert!(matches!(
        delivery.event().origin(),
        Origin::DeadLetter { .. }
    ));
    assert_eq!(delivery.event().id(), all[0]);
    delivery.ack();
    // The stream's master is killed. What the new one does not know is given out again; nothing is left out.
    cluster.settle(&keys::events(&chain));
    cluster.fail_over(&keys::events(&chain));
    let blocks = plain(&chain, 21, 40);
    while publisher.position().map(|position| position.num) != Some(40) {
        match publisher.publish_patiently(&blocks, |_| {}).await {
            Ok(_) | Err(cairn_stream::StreamError::Moved { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut wanted = all[published..].iter();
    let mut waiting_for = wanted.next();
    while let Some(id) = waiting_for {
        // The lock may have been the killed master's, too: then either of the two has it now.
        let either = async {
            tokio::select! {
                delivery = subscription.next() => delivery,
                delivery = standby.next() => delivery,
            }
        };
        let delivery = within("an event", either)
            .await
            .expect("the subscription goes on");
        if delivery.event().id() == id {
            waiting_for = wanted.next();
        } else {
            assert!(all.iter().any(|known| known == delivery.event().id()));
        }
        delivery.ack();
    }
    let listed = list(&redis, &chain).await.expect("listed");
    assert_eq!(listed[0].sub_id, "s");
    subscription.close().await;
    standby.close().await;
}
