//! What is written for a block, who may write, and what stands in the way.

use std::collections::HashMap;

use cairn_redis::RedisError;
use cairn_stream::{
    BlockTime, Checkpoint, EventLog, Json, LedgerEvent, Publisher, PublisherOptions, StreamError,
    claim_database, keys, read_stream_state,
};
use cairn_testkit::RedisServer;

use crate::chain::{block, fork_block, ids, plain, plain_ids, position};
use crate::{connect, entries, event_ids, label, open, open_error};

#[tokio::test]
async fn stream_and_checkpoint_have_the_form_of_the_contract() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("form");
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, None);
    let mut blocks = plain(&chain, 1, 7);
    blocks.last_mut().expect("seven").set_lib(position(5, 0));
    let published = publisher.publish(&blocks).await.expect("published");
    assert_eq!((published.blocks, published.events), (7, 12));
    for (_, fields) in entries(&server, &chain) {
        assert_eq!(fields.len(), 1);
        assert_eq!(fields[0].0, "data");
    }
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 7));
    let checkpoint: HashMap<String, String> = server.run("HGETALL parser2:sync:form");
    assert_eq!(checkpoint["block_num"], "7");
    assert_eq!(checkpoint["block_id"], position(7, 0).id.to_string());
    assert_eq!(checkpoint["lib_num"], "5");
    assert_eq!(checkpoint["epoch"], "1");
    let updated = &checkpoint["last_updated"];
    assert!(
        updated.len() == 24 && updated.ends_with('Z') && &updated[10..11] == "T",
        "{updated}"
    );
    let mut reversible: Vec<&String> = checkpoint
        .keys()
        .filter(|name| name.starts_with("reversible:"))
        .collect();
    reversible.sort();
    assert_eq!(reversible, ["reversible:5", "reversible:6", "reversible:7"]);
    let (state, groups) = read_stream_state(&redis, &chain)
        .await
        .expect("told")
        .expect("there");
    assert_eq!((state.length, groups.len()), (12, 0));
    assert_eq!(
        Checkpoint::read(&redis, &chain)
            .await
            .expect("read")
            .position,
        Some(position(7, 0))
    );
}

#[tokio::test]
async fn of_two_writers_the_newer_writes() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("two");
    let (mut old, _) = open(&redis, &chain).await;
    old.publish(&plain(&chain, 1, 5)).await.expect("alone");
    let (mut new, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(5, 0)));
    // The old one may still bring a block in, once; the new one takes it as it is.
    let error = old
        .publish(&plain(&chain, 6, 6))
        .await
        .expect_err("replaced");
    assert!(
        matches!(
            error,
            StreamError::Fenced {
                ours: 1,
                newer: 2,
                ..
            }
        ),
        "{error}"
    );
    let published = new.publish(&plain(&chain, 6, 9)).await.expect("the newest");
    assert_eq!(published.blocks, 4);
    let error = old
        .publish(&plain(&chain, 7, 8))
        .await
        .expect_err("replaced");
    assert!(
        matches!(error, StreamError::Fenced { .. }) && !error.is_transient(),
        "{error}"
    );
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 9));
    // Where another one was faster by a block that was not given, reading begins there.
    let (mut third, _) = open(&redis, &chain).await;
    let mut sneaky = connect(&server.url()).await;
    let ahead = plain(&chain, 10, 11);
    for text in ahead.iter().flat_map(|block| block.texts()) {
        redis::cmd("XADD")
            .arg(keys::events(&chain))
            .arg("*")
            .arg("data")
            .arg(text)
            .query_async::<String>(&mut sneaky)
            .await
            .expect("added");
    }
    let error = third
        .publish(&plain(&chain, 10, 10))
        .await
        .expect_err("moved");
    assert!(
        matches!(&error, StreamError::Moved { now: Some(now), .. } if *now == position(11, 0)),
        "{error}"
    );
    third
        .publish(&plain(&chain, 12, 13))
        .await
        .expect("goes on");
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 13));
}

#[tokio::test]
async fn events_sent_again_and_foreign_entries_change_nothing() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("again");
    let key = keys::events(&chain);
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 6))
        .await
        .expect("published");
    publisher
        .publish(&[fork_block(
            &chain,
            position(6, 1),
            Some(position(5, 0)),
            position(6, 0),
            1,
        )])
        .await
        .expect("published");
    // A dead letter goes back into the stream, the fork too; somebody tries out XADD by hand.
    let all = entries(&server, &chain);
    let mut connection = server.connection();
    for at in [0, 9] {
        redis::cmd("XADD")
            .arg(&key)
            .arg("*")
            .arg("data")
            .arg(&all[at].1[0].1)
            .query::<String>(&mut connection)
            .expect("added");
    }
    server.run::<String>(&format!("XADD {key} * data hello"));
    server.run::<String>(&format!("XADD {key} * other x"));
    let next = |num, branch| {
        block(
            &chain,
            position(num, branch),
            Some(position(num - 1, branch)),
            2,
        )
    };
    publisher
        .publish(&[next(7, 1)])
        .await
        .expect("not disturbed");
    // The same at a start.
    server.run::<String>(&format!("XADD {key} * data [1]"));
    drop(publisher);
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(7, 1)));
    publisher.publish(&[next(8, 1)]).await.expect("goes on");
    let found: Vec<String> = entries(&server, &chain)
        .into_iter()
        .filter_map(|(_, fields)| serde_json::from_str::<serde_json::Value>(&fields[0].1).ok())
        .filter_map(|event| event["event_id"].as_str().map(str::to_owned))
        .collect();
    let mut expected = plain_ids(&chain, 1, 6);
    expected.push(format!("{chain}:f:5:{}", position(6, 1).id.short()));
    expected.extend(ids(&chain, 6, 1, 1));
    let again = [expected[0].clone(), expected[9].clone()];
    expected.extend(again);
    expected.extend(ids(&chain, 7, 1, 2));
    expected.extend(ids(&chain, 8, 1, 2));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_lost_checkpoint_is_made_again_from_the_stream() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("lost");
    let sync = keys::sync(&chain);
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 9))
        .await
        .expect("published");
    publisher
        .publish(&[fork_block(
            &chain,
            position(7, 1),
            Some(position(6, 0)),
            position(9, 0),
            1,
        )])
        .await
        .expect("published");
    server.run::<()>(&format!("DEL {sync}"));
    let (_, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(7, 1)));
    let known: Vec<(u32, bool)> = resume
        .reversible
        .iter()
        .map(|known| (known.num, *known == position(known.num, 0)))
        .collect();
    assert_eq!(
        known,
        [
            (1, true),
            (2, true),
            (3, true),
            (5, true),
            (6, true),
            (7, false)
        ]
    );
    // The checkpoint of another program: three fields, and it lags.
    server.run::<()>(&format!("DEL {sync}"));
    server.run::<()>(&format!(
        "HSET {sync} block_num 5 block_id {}",
        position(5, 0).id
    ));
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(7, 1)));
    // The stream is gone and the checkpoint is not: what was published is not published again.
    server.run::<()>(&format!("DEL {}", keys::events(&chain)));
    publisher
        .publish(&[block(&chain, position(8, 1), Some(position(7, 1)), 1)])
        .await
        .expect("goes on");
    server.run::<()>(&format!("DEL {}", keys::events(&chain)));
    let (_, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(8, 1)));
}

#[tokio::test]
async fn a_gap_or_a_wrong_branch_is_refused() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("gap");
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 5))
        .await
        .expect("published");
    let before = event_ids(&server, &chain);
    for (given, why) in [
        (
            block(&chain, position(7, 0), Some(position(6, 0)), 1),
            "the number is not the next one",
        ),
        (
            block(&chain, position(5, 1), Some(position(4, 0)), 1),
            "the number is not the next one",
        ),
        (
            block(&chain, position(6, 1), Some(position(5, 1)), 1),
            "another block before it",
        ),
        (
            fork_block(
                &chain,
                position(6, 1),
                Some(position(5, 0)),
                position(5, 0),
                1,
            ),
            "not below the last one",
        ),
        (
            fork_block(
                &chain,
                position(4, 1),
                Some(position(3, 1)),
                position(5, 0),
                1,
            ),
            "was not published",
        ),
    ] {
        let error = publisher.publish(&[given]).await.expect_err(why);
        assert!(
            matches!(error, StreamError::NotNext { .. }) && !error.is_transient(),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(why) && text.contains(&keys::events(&chain)),
            "{text}"
        );
    }
    assert_eq!(event_ids(&server, &chain), before);
}

#[tokio::test]
async fn keys_of_another_type_or_with_other_content_are_named() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("typed");
    let (stream, sync) = (keys::events(&chain), keys::sync(&chain));
    let wrong_type = |error: &StreamError, key: &str| {
        assert!(
            matches!(error, StreamError::Redis(RedisError::WrongType { what, .. }) if what == key),
            "{error:?}"
        );
        assert!(!error.is_transient());
    };
    server.run::<()>(&format!("SET {sync} x"));
    wrong_type(&open_error(&redis, &chain).await, &sync);
    server.run::<()>(&format!("DEL {sync}"));
    server.run::<()>(&format!("SET {stream} x"));
    wrong_type(&open_error(&redis, &chain).await, &stream);
    server.run::<()>(&format!("DEL {stream}"));
    // The same under a running writer.
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 3))
        .await
        .expect("published");
    server.run::<()>(&format!("RENAME {stream} aside"));
    server.run::<()>(&format!("SET {stream} x"));
    let error = publisher
        .publish(&plain(&chain, 4, 6))
        .await
        .expect_err("no stream");
    wrong_type(&error, &stream);
    server.run::<()>(&format!("RENAME aside {stream}"));
    publisher
        .publish(&plain(&chain, 4, 6))
        .await
        .expect("the same blocks again");
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 6));
    for (field, value) in [
        ("block_num", "x"),
        ("block_id", "00"),
        ("entry_id", "7"),
        ("epoch", "new"),
    ] {
        let kept: Option<String> = server.run(&format!("HGET {sync} {field}"));
        server.run::<()>(&format!("HSET {sync} {field} {value}"));
        let text = open_error(&redis, &chain).await.to_string();
        assert!(text.contains(&sync) && text.contains(field), "{text}");
        server.run::<()>(&format!(
            "HSET {sync} {field} {}",
            kept.expect("it was there")
        ));
    }
}

#[tokio::test]
async fn keys_belong_to_one_network_and_one_chain() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("pinned");
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.chain_hash, None);
    publisher.pin_network("aa11").await.expect("the first one");
    publisher.pin_network("aa11").await.expect("the same one");
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.chain_hash.as_deref(), Some("aa11"));
    let text = publisher
        .pin_network("bb22")
        .await
        .expect_err("another")
        .to_string();
    assert!(text.contains("aa11") && text.contains("bb22"), "{text}");
    claim_database(&redis, &chain).await.expect("free");
    claim_database(&redis, &chain).await.expect("ours");
    let text = claim_database(&redis, &label("second"))
        .await
        .expect_err("taken")
        .to_string();
    assert!(
        text.contains("pinned") && text.contains("a database of its own"),
        "{text}"
    );
}

#[tokio::test]
async fn the_cap_holds_while_much_is_published() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("capped");
    let options = PublisherOptions { max_len: 200 };
    let (mut publisher, _) = Publisher::open(redis.clone(), &chain, options)
        .await
        .expect("it opens");
    for chunk in plain(&chain, 1, 2_000).chunks(100) {
        publisher.publish(chunk).await.expect("published");
        // `~` leaves up to one node of the stream more.
        let length: u64 = server.run(&format!("XLEN {}", keys::events(&chain)));
        assert!(length <= 300, "{length}");
    }
    assert_eq!(publisher.position(), Some(position(2_000, 0)));
    // Only the newest are there, and a new writer needs no more.
    let (_, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(2_000, 0)));
}

#[tokio::test]
async fn a_ledger_without_blocks_appends() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let chain = label("ledger-default");
    let log = EventLog::new(redis.clone(), &chain, 0);
    let event = |key| LedgerEvent {
        kind: "tx",
        letter: 't',
        key,
        time: BlockTime::from_unix_ms(1_500).expect("a time"),
        data: Json::made("{\"amount\":\"5\"}"),
    };
    let ids = log
        .append(&[event("one"), event("tw\"o")])
        .await
        .expect("appended");
    let found = entries(&server, &chain);
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    let second: serde_json::Value = serde_json::from_str(&found[1].1[0].1).expect("JSON");
    assert_eq!(
        second,
        serde_json::json!({
            "kind": "tx", "event_id": "ledger-default:t:tw\"o", "chain_id": "ledger-default",
            "time": "1970-01-01T00:00:01.500", "data": { "amount": "5" },
        })
    );
    assert_eq!(log.append(&[]).await.expect("nothing to do"), []);
}
