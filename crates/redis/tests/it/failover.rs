//! A Cluster and a service behind Sentinels, with their masters killed.

use std::collections::BTreeMap;

use cairn_redis::TargetKind;
use cairn_testkit::{RedisCluster, RedisSentinels};

use crate::{connect, get, set, until_ok};

#[tokio::test]
async fn a_cluster_serves_through_the_loss_of_a_master() {
    let mut cluster = RedisCluster::start();
    let redis = connect(&cluster.url()).await;
    assert!(redis.is_cluster());
    let mut written = BTreeMap::new();
    for at in 0..60 {
        let (key, value) = (format!("key:{at}"), format!("value {at}"));
        set(&redis, &key, &value).await.expect("written");
        written.insert(key, value);
    }
    // Scripts reach the node of their key, and are loaded there when they are missing.
    let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
    let mut counted = redis.clone();
    assert_eq!(
        script
            .key("n1")
            .invoke_async::<u32>(&mut counted)
            .await
            .expect("counted"),
        1
    );
    for key in written.keys() {
        cluster.settle(key);
    }
    cluster.settle("n1");
    let lost = cluster.fail_over("n1");
    let count = until_ok("the script after the failover", || {
        let (script, redis) = (&script, redis.clone());
        async move {
            script
                .key("n1")
                .invoke_async::<u32>(&mut redis.clone())
                .await
                .map_err(|error| redis.explain("n1", &error))
        }
    })
    .await;
    // A try whose answer was lost may have counted too.
    assert!(count >= 2, "{count}");
    for (key, value) in &written {
        let found = until_ok("after the failover", || get(&redis, key)).await;
        assert_eq!(found.as_ref(), Some(value), "{key}");
    }
    assert!(redis.facts().await.expect("told").version.is_some());
    // The killed node comes back as a replica.
    cluster.node_mut(lost).restart();
    until_ok("with the old master back", || set(&redis, "n2", "x")).await;
}

#[tokio::test]
async fn sentinels_lead_to_the_new_master() {
    let mut service = RedisSentinels::start();
    let redis = connect(&service.url()).await;
    assert_eq!(redis.target().kind(), TargetKind::Sentinel);
    set(&redis, "key", "value").await.expect("written");
    assert_eq!(service.servers()[0].run::<String>("GET key"), "value");
    let replicas: u32 = service.servers()[0].run("WAIT 1 60000");
    assert_eq!(replicas, 1);
    service.fail_over();
    let found = until_ok("after the failover", || get(&redis, "key")).await;
    assert_eq!(found.as_deref(), Some("value"));
    until_ok("writing after the failover", || set(&redis, "key", "new")).await;
    assert_eq!(service.servers()[1].run::<String>("GET key"), "new");
}
