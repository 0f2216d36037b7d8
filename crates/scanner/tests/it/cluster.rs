//! The same on a Redis Cluster of six processes: no step touches two keys.

use cairn_scanner::BackfillKind;
use cairn_testkit::{CallGenerator, CallMix, LedgerModel, RedisCluster};

use crate::support::{NOW, compare, open_at, options, tell_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_holds_the_same_ledger() {
    let cluster = RedisCluster::start();
    let scanner = open_at(&cluster.url(), options()).await;
    let mut model = LedgerModel::new();
    let calls = CallGenerator::new(40, NOW, CallMix::default()).take(300);
    for batch in calls.chunks(60) {
        for (call, status) in batch.iter().zip(tell_all(&scanner, batch).await) {
            assert_eq!(status.as_str(), model.apply(call), "{call:?}");
        }
    }
    compare(&scanner, &model, "on a cluster").await;
    scanner.rebuild_caches().await.expect("rebuilt");
    assert!(
        scanner
            .run_backfill(BackfillKind::Full)
            .await
            .expect("nothing to read")
    );
    compare(&scanner, &model, "rebuilt on a cluster").await;
}
