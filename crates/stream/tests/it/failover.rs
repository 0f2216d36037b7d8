//! A chain published to a Cluster and to a service behind Sentinels while their masters are killed.

use cairn_redis::Redis;
use cairn_stream::{BlockEvents, ChainLabel, Publisher, StreamError, keys};
use cairn_testkit::{RedisCluster, RedisSentinels};

use crate::chain::{plain, plain_ids, position};
use crate::{connect, event_ids, label, open};

/// Publishes up to the last block, whatever happens on the way.
async fn publish_all(publisher: &mut Publisher, blocks: &[BlockEvents]) {
    let last = blocks.last().expect("some").position();
    while publisher.position() != Some(last) {
        let done = publisher
            .position()
            .map_or(0, |position| position.num as usize);
        let to = (done + 5).min(blocks.len());
        match publisher.publish_patiently(&blocks[done..to], |_| {}).await {
            // A replica that takes over may miss what its master had answered.
            Ok(_) | Err(StreamError::Moved { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn start(redis: &Redis, chain: &ChainLabel) -> (Publisher, Vec<BlockEvents>) {
    let (publisher, _) = open(redis, chain).await;
    (publisher, plain(chain, 1, 60))
}

#[tokio::test]
async fn on_a_cluster_of_six_through_two_failovers() {
    let mut cluster = RedisCluster::start();
    let redis = connect(&cluster.url()).await;
    let chain = label("on-a-cluster");
    let (stream, sync) = (keys::events(&chain), keys::sync(&chain));
    let (mut publisher, blocks) = start(&redis, &chain).await;
    publish_all(&mut publisher, &blocks[..20]).await;
    // First the master of the stream, in the middle of nothing: what it had not passed on is gone.
    let old = cluster.fail_over(&stream);
    publish_all(&mut publisher, &blocks[..40]).await;
    cluster.node_mut(old).restart();
    cluster.settle(&stream);
    cluster.settle(&sync);
    // Then the master of the checkpoint.
    cluster.fail_over(&sync);
    publish_all(&mut publisher, &blocks).await;
    // A new writer finds the same end.
    let (publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(60, 0)));
    assert_eq!(publisher.position(), resume.position);
    let node = &cluster.nodes()[cluster.master_of(&stream)];
    assert_eq!(event_ids(node, &chain), plain_ids(&chain, 1, 60));
}

#[tokio::test]
async fn behind_sentinels_through_a_failover() {
    let mut service = RedisSentinels::start();
    let redis = connect(&service.url()).await;
    let chain = label("behind-sentinels");
    let (mut publisher, blocks) = start(&redis, &chain).await;
    publish_all(&mut publisher, &blocks[..30]).await;
    service.fail_over();
    publish_all(&mut publisher, &blocks).await;
    assert_eq!(
        event_ids(&service.servers()[1], &chain),
        plain_ids(&chain, 1, 60)
    );
}
