//! Pages and tails while rows arrive, bursts in one millisecond, search, leaves.

use cairn_scanner::{FoundKind, QueryError, Status, TxFilter, merkle};
use cairn_testkit::{Call, CallGenerator, CallMix};
use serde_json::json;

use crate::support::{NOW, World, all_txs, tell, tell_all};

fn purchase(id: &str, at: i64) -> Call {
    let mut call = CallGenerator::new(
        1,
        NOW,
        CallMix {
            only_txs: true,
            ..CallMix::default()
        },
    )
    .next_call();
    call.hook = "appendPurchaseRecord";
    call.body["record"]["id"] = json!(id);
    call.body["record"]["spaceId"] = json!("space-9");
    call.body["record"]["at"] = json!(cairn_scanner::AtMs::clamped(at).to_string());
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_arrive_between_pages_move_no_older_row() {
    let world = World::start().await;
    let scanner = &world.scanner;
    // Three rows of each millisecond, so that every page ends inside one.
    let first: Vec<Call> = (0..60)
        .map(|i| purchase(&format!("a{i:02}"), NOW - i / 3))
        .collect();
    tell_all(scanner, &first).await;
    let before = all_txs(scanner, &TxFilter::default(), 100).await;
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    for turn in 0.. {
        let page = scanner
            .txs(&TxFilter::default(), cursor.as_deref(), 7)
            .await
            .expect("a page");
        seen.extend(page.txs.iter().map(|tx| tx.record.id.clone()));
        // New rows: newer than all, and in the very millisecond of the page's end, on both sides of its last id.
        let last = page.txs.last().expect("a page has rows").record.clone();
        let late = [
            purchase(&format!("b{turn}"), NOW),
            purchase(&format!("zz{turn}"), last.at_ms),
        ];
        tell_all(scanner, &late).await;
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    seen.retain(|id| id.starts_with('a'));
    assert_eq!(seen, before, "nothing is skipped and nothing comes twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_skips_no_burst() {
    let world = World::start().await;
    let scanner = &world.scanner;
    let rows: Vec<Call> = (0..50)
        .map(|i| {
            purchase(
                &format!("a{i:02}"),
                if (10..45).contains(&i) {
                    NOW - 500
                } else {
                    NOW - 1000 + i
                },
            )
        })
        .collect();
    tell_all(scanner, &rows).await;
    let mut since = 0;
    let mut seen = Vec::new();
    loop {
        let tail = scanner
            .tx_tail(&TxFilter::default(), since, 5)
            .await
            .expect("a tail");
        let mut page: Vec<String> = tail.txs.iter().map(|tx| tx.record.id.clone()).collect();
        page.reverse();
        seen.extend(page);
        if !tail.has_more {
            // The next call repeats the last millisecond, so that a latecomer in it is seen.
            assert_eq!(
                tail.next_since_ms,
                tail.txs.first().map(|tx| tx.record.at_ms)
            );
            break;
        }
        since = tail.next_since_ms.expect("there are rows");
    }
    seen.sort();
    let expected: Vec<String> = (0..50).map(|i| format!("a{i:02}")).collect();
    assert_eq!(seen, expected);
    let empty = scanner
        .tx_tail(&TxFilter::default(), NOW + 1, 5)
        .await
        .expect("a tail");
    assert_eq!(
        (empty.txs.len(), empty.next_since_ms, empty.has_more),
        (0, None, false)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_of_other_lists_and_bare_milliseconds() {
    let world = World::start().await;
    let scanner = &world.scanner;
    let rows: Vec<Call> = (0..9)
        .map(|i| purchase(&format!("a{i}"), NOW - i))
        .collect();
    tell_all(scanner, &rows).await;
    let page = scanner
        .txs(&TxFilter::default(), None, 3)
        .await
        .expect("a page");
    let cursor = page.next.expect("more rows");
    let other = TxFilter {
        op: Some(cairn_scanner::Operation::TalkTick),
        ..TxFilter::default()
    };
    for (filter, cursor) in [
        (&other, cursor.as_str()),
        (&TxFilter::default(), "nonsense"),
    ] {
        let refused = scanner
            .txs(filter, Some(cursor), 3)
            .await
            .expect_err("refused");
        assert!(
            matches!(
                refused,
                QueryError::Invalid {
                    code: "invalid_cursor",
                    ..
                }
            ),
            "{refused}"
        );
    }
    let older = scanner
        .txs(&TxFilter::default(), Some(&(NOW - 3).to_string()), 100)
        .await
        .expect("a page");
    let ids: Vec<&str> = older.txs.iter().map(|tx| tx.record.id.as_str()).collect();
    assert_eq!(ids, ["a4", "a5", "a6", "a7", "a8"], "strictly older");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stamps_come_from_the_newest_revision() {
    let world = World::start().await;
    let scanner = &world.scanner;
    tell(scanner, &purchase("before", NOW - 9)).await;
    let digests = [
        merkle::leaf_digest("x"),
        merkle::leaf_digest("y"),
        merkle::leaf_digest("z"),
    ];
    let root = merkle::root(&digests);
    let leaves: Vec<_> = ["__genesis__", "human:1", "space:s"]
        .iter()
        .zip(&digests)
        .collect();
    let block = Call {
        hook: "persistSnapshotReturningRev",
        body: json!({
            "block": {"rev": 57, "merkleRootHex": root, "merkleLeafCount": 3, "at": "2026-03-10T14:00:00Z"},
            "leaves": leaves,
        }),
    };
    // In one batch: what follows the block carries its stamp.
    let statuses = tell_all(scanner, &[block.clone(), purchase("after", NOW - 8)]).await;
    assert!(
        statuses
            .iter()
            .all(|status| matches!(status, Status::Created)),
        "{statuses:?}"
    );
    let stamp = |id: &'static str| async move {
        let tx = scanner.tx(id).await.expect("readable").expect("known");
        tx.stamp.map(|stamp| (stamp.rev, stamp.root))
    };
    assert_eq!(stamp("before").await, None);
    assert_eq!(stamp("after").await, Some((57, root.clone())));
    let mut other = block.clone();
    other.body["block"]["merkleRootHex"] = json!("ff");
    other
        .body
        .as_object_mut()
        .expect("an object")
        .remove("leaves");
    assert!(matches!(
        tell(scanner, &other).await,
        Status::Conflict { .. }
    ));

    let leaf = scanner.leaf("human:1", true).await.expect("readable");
    let (index, digest) = leaf.leaf.expect("there is such a leaf");
    assert_eq!((index, leaf.root.as_ref()), (1, Some(&root)));
    assert_eq!(merkle::fold(&digest, &leaf.proof.expect("asked for")), root);
    assert_eq!(
        scanner.leaf("human:2", true).await.expect("readable").leaf,
        None
    );
    let recomputed = scanner.recompute_root().await.expect("readable");
    assert_eq!(
        (recomputed.root, recomputed.reason),
        (Some(root.clone()), None)
    );

    for (text, kind, id) in [
        ("after", FoundKind::Tx, "after"),
        ("57", FoundKind::Block, "57"),
        (root.as_str(), FoundKind::Block, "57"),
        ("purchase:after", FoundKind::Analytics, "purchase:after"),
    ] {
        let found = scanner.search(text).await.expect("an answer");
        assert_eq!(
            found.results.first(),
            Some(&(kind, id.to_owned())),
            "{text}"
        );
    }
    let by_prefix = scanner.search("space").await.expect("an answer");
    assert!(
        by_prefix
            .results
            .iter()
            .any(|(kind, _)| *kind == FoundKind::Space),
        "{by_prefix:?}"
    );
    assert_eq!(
        scanner
            .search("unknown-thing")
            .await
            .expect("an answer")
            .results,
        []
    );
    let tail = scanner.block_tail(None, 0, 10).await.expect("a tail");
    assert_eq!(
        (tail.blocks.len(), tail.next_since_rev, tail.has_more),
        (1, Some(57), false)
    );
}
