//! The writer dies, or its wire breaks, at every single command; Redis dies while it writes.

use std::time::Instant;

use cairn_redis::Redis;
use cairn_stream::{BlockEvents, ChainLabel, Publisher, PublisherOptions, StreamError, keys};
use cairn_testkit::{RedisOptions, RedisServer};

use crate::chain::{block, fork_block, ids, plain, plain_ids, position};
use crate::proxy::{Break, Proxy};
use crate::{PATIENCE, connect, entries, event_ids, label, open};

/// A short life: two blocks, one without events, a fork of two blocks, one more.
fn life(chain: &ChainLabel) -> Vec<BlockEvents> {
    let mut blocks = plain(chain, 1, 6);
    blocks.push(fork_block(
        chain,
        position(5, 1),
        Some(position(4, 0)),
        position(6, 0),
        2,
    ));
    blocks.push(block(chain, position(6, 1), Some(position(5, 1)), 0));
    blocks.push(block(chain, position(7, 1), Some(position(6, 1)), 3));
    for block in &mut blocks {
        block.set_lib(position(1, 0));
    }
    blocks
}

fn life_ids(chain: &ChainLabel) -> Vec<String> {
    let mut expected = plain_ids(chain, 1, 6);
    expected.push(format!("{chain}:f:4:{}", position(5, 1).id.short()));
    expected.extend(ids(chain, 5, 1, 2));
    expected.extend(ids(chain, 7, 1, 3));
    expected
}

/// Publishes what is missing of a life, as a parser does: it goes on after where the stream ends.
async fn live_on(publisher: &mut Publisher, blocks: &[BlockEvents]) -> Result<(), StreamError> {
    loop {
        let done = match publisher.position() {
            None => 0,
            Some(position) => {
                let at = blocks.iter().position(|block| block.position() == position);
                at.expect("a block of this life") + 1
            }
        };
        if done == blocks.len() {
            return Ok(());
        }
        let to = (done + 2).min(blocks.len());
        publisher.publish(&blocks[done..to]).await?;
    }
}

#[tokio::test]
async fn a_writer_killed_between_any_two_commands_loses_and_repeats_nothing() {
    let server = RedisServer::start();
    let direct = connect(&server.url()).await;
    for mode in [Break::Before, Break::After] {
        let mut pass = 0;
        loop {
            let chain = label(&format!("kill-{mode:?}-{pass}"));
            let blocks = life(&chain);
            let proxy = Proxy::start(server.port(), pass, mode, false);
            let wire = connect(&proxy.url()).await;
            // The writer's whole life; it ends at the break.
            let opened = Publisher::open(wire, &chain, PublisherOptions::default()).await;
            if let Ok((mut publisher, _)) = opened {
                let _ = live_on(&mut publisher, &blocks).await;
            }
            let (mut next, resume) = open(&direct, &chain).await;
            assert_eq!(resume.position, next.position());
            live_on(&mut next, &blocks)
                .await
                .expect("nothing is in the way");
            assert_eq!(event_ids(&server, &chain), life_ids(&chain), "{chain}");
            assert_eq!(
                next.resume().reversible.first(),
                Some(&position(1, 0)),
                "{chain}"
            );
            if !proxy.has_broken() {
                break;
            }
            pass += 1;
        }
        // Opening takes some commands, each step two: the loop has been through all of them.
        assert!(pass > 12, "{pass}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_not_a_lost_block() {
    let server = RedisServer::start();
    for mode in [Break::Before, Break::After] {
        let mut pass = 0;
        loop {
            let chain = label(&format!("wire-{mode:?}-{pass}"));
            let blocks = life(&chain);
            let direct = connect(&server.url()).await;
            open(&direct, &chain).await;
            let proxy = Proxy::start(server.port(), pass, mode, true);
            let wire = connect(&proxy.url()).await;
            let opened = Publisher::open(wire.clone(), &chain, PublisherOptions::default()).await;
            let mut publisher = match opened {
                Ok((publisher, _)) => publisher,
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    open(&wire, &chain).await.0
                }
            };
            let mut heard = Vec::new();
            for pair in blocks.chunks(2) {
                let published = publisher
                    .publish_patiently(pair, |told| heard.push(told.map(ToString::to_string)))
                    .await
                    .expect("the wire heals");
                assert_eq!(published.blocks, pair.len() as u64);
            }
            assert_eq!(event_ids(&server, &chain), life_ids(&chain), "{chain}");
            // Trouble is told, and so is its end.
            assert!(heard.is_empty() || heard.last() == Some(&None), "{heard:?}");
            if !proxy.has_broken() {
                break;
            }
            pass += 1;
        }
        assert!(pass > 12, "{pass}");
    }
}

/// Blocks so large that each is a step of its own, one of them with nothing in it: all are sent in one row.
#[tokio::test]
async fn a_row_of_steps_is_cut_at_any_of_them() {
    const COUNTS: [u64; 5] = [700, 600, 0, 800, 700];
    let server = RedisServer::start();
    for mode in [Break::Before, Break::After] {
        let mut pass = 0;
        loop {
            let chain = label(&format!("row-{mode:?}-{pass}"));
            let mut previous = None;
            let mut expected = Vec::new();
            let mut blocks = Vec::new();
            for (num, count) in (1..).zip(COUNTS) {
                blocks.push(block(&chain, position(num, 0), previous, count));
                previous = Some(position(num, 0));
                expected.extend(ids(&chain, num, 0, count));
            }
            // No script is known to the server at first, as after its restart.
            let _: String = server.run("SCRIPT FLUSH");
            let proxy = Proxy::start(server.port(), pass, mode, true);
            let wire = connect(&proxy.url()).await;
            let mut publisher = loop {
                let opened =
                    Publisher::open(wire.clone(), &chain, PublisherOptions::default()).await;
                match opened {
                    Ok((publisher, _)) => break publisher,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            };
            let published = publisher
                .publish_patiently(&blocks, |_| {})
                .await
                .expect("the wire heals");
            assert_eq!(published.blocks, COUNTS.len() as u64);
            assert_eq!(event_ids(&server, &chain), expected, "{chain}");
            assert_eq!(publisher.position(), previous, "{chain}");
            // Another writer in between is noticed by a row, too.
            let foreign: String = server.run(&format!(
                "XADD {} * data {{\"kind\":\"note\"}}",
                keys::events(&chain)
            ));
            assert!(!foreign.is_empty());
            let (next, more) = (position(6, 0), position(7, 0));
            let row = [
                block(&chain, next, previous, 900),
                block(&chain, more, Some(next), 900),
            ];
            publisher
                .publish_patiently(&row, |_| {})
                .await
                .expect("it is only a note");
            assert_eq!(event_ids_of_blocks(&server, &chain), {
                expected.extend(ids(&chain, 6, 0, 900));
                expected.extend(ids(&chain, 7, 0, 900));
                expected
            });
            if !proxy.has_broken() {
                break;
            }
            pass += 1;
        }
        assert!(pass > 8, "{pass}");
    }
}

/// The ids of all events that have one.
fn event_ids_of_blocks(server: &RedisServer, chain: &ChainLabel) -> Vec<String> {
    let texts = entries(server, chain)
        .into_iter()
        .map(|(_, mut fields)| fields.remove(0).1);
    texts
        .filter_map(|text| {
            let event: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some(event["event_id"].as_str()?.to_owned())
        })
        .collect()
}

#[tokio::test]
async fn redis_killed_while_it_is_written_to() {
    let mut server = RedisServer::start();
    let chain = label("redis-kill");
    let redis = connect(&server.url()).await;
    const LAST: u32 = 400;
    let writer = tokio::spawn({
        let (redis, chain) = (redis.clone(), chain.clone());
        async move {
            let (mut publisher, _) = open(&redis, &chain).await;
            let blocks = plain(&chain, 1, LAST);
            while publisher.position() != Some(position(LAST, 0)) {
                let done = publisher
                    .position()
                    .map_or(0, |position| position.num as usize);
                let to = (done + 3).min(blocks.len());
                match publisher.publish_patiently(&blocks[done..to], |_| {}).await {
                    // The append-only file may miss what was answered in the last moment.
                    Ok(_) | Err(StreamError::Moved { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    for reached in [60, 150, 260] {
        wait_for_block(&redis, &chain, reached).await;
        server.kill();
        server.restart();
    }
    writer.await.expect("no panic");
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, LAST));
}

async fn wait_for_block(redis: &Redis, chain: &ChainLabel, num: u32) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reached: Result<Option<u32>, _> = redis
            .query(
                "sync",
                redis::cmd("HGET").arg(keys::sync(chain)).arg("block_num"),
            )
            .await;
        if reached.is_ok_and(|reached| reached >= Some(num)) {
            return;
        }
        assert!(Instant::now() < deadline, "block {num} is published");
        tokio::task::yield_now().await;
    }
}

/// A Redis that comes back with an older state: what was answered and lost is published again, in its place.
#[tokio::test]
async fn a_stream_that_lost_its_newest_entries_is_completed() {
    let mut server = RedisServer::start_with(RedisOptions {
        append_only: false,
        ..RedisOptions::default()
    });
    let chain = label("lost-tail");
    let redis = connect(&server.url()).await;
    let (mut publisher, _) = open(&redis, &chain).await;
    let mut blocks = plain(&chain, 1, 30);
    for block in &mut blocks {
        block.set_lib(position(2, 0));
    }
    publisher.publish(&blocks[..10]).await.expect("published");
    server.run::<()>("SAVE");
    publisher.publish(&blocks[10..20]).await.expect("published");
    server.restart();
    let error = loop {
        match publisher.publish(&blocks[20..]).await {
            Err(error) if error.is_transient() => {}
            Err(error) => break error,
            Ok(_) => panic!("a gap"),
        }
    };
    assert!(
        matches!(&error, StreamError::Moved { now: Some(now), .. } if *now == position(10, 0)),
        "{error}"
    );
    let resume = publisher.resume();
    assert_eq!(resume.position, Some(position(10, 0)));
    // Blocks 4 and 8 have no events, so the stream cannot know them.
    let known: Vec<u32> = resume
        .reversible
        .iter()
        .map(|position| position.num)
        .collect();
    assert_eq!(known, [2, 3, 5, 6, 7, 9, 10]);
    publisher
        .publish(&blocks[10..])
        .await
        .expect("published again");
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 30));

    // The same while nobody writes: the checkpoint is gone with it, or says more than the stream has.
    server.run::<()>("SAVE");
    let more = plain(&chain, 31, 33);
    publisher.publish(&more).await.expect("published");
    let checkpoint: Vec<String> = server.run(&format!("HGETALL {}", keys::sync(&chain)));
    server.restart();
    for pair in checkpoint.chunks(2) {
        server.run::<()>(&format!(
            "HSET {} {} {}",
            keys::sync(&chain),
            pair[0],
            pair[1]
        ));
    }
    drop(publisher);
    let redis = connect(&server.url()).await;
    let (mut publisher, resume) = open(&redis, &chain).await;
    assert_eq!(resume.position, Some(position(30, 0)));
    publisher.publish(&more).await.expect("published again");
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 33));
}

#[tokio::test]
async fn a_full_redis_holds_the_writer_back_and_loses_nothing() {
    let server = RedisServer::start();
    let chain = label("full");
    let redis = connect(&server.url()).await;
    let (mut publisher, _) = open(&redis, &chain).await;
    publisher
        .publish(&plain(&chain, 1, 10))
        .await
        .expect("published");
    server.config_set("maxmemory", "1");
    let blocks = plain(&chain, 11, 20);
    let error = publisher.publish(&blocks).await.expect_err("no memory");
    assert!(
        matches!(&error, StreamError::Redis(redis) if redis.is_full()) && error.is_transient(),
        "{error}"
    );
    assert!(error.to_string().contains("stream.max_len"), "{error}");
    assert_eq!(
        event_ids(&server, &chain),
        plain_ids(&chain, 1, 10),
        "not half a block"
    );
    let mut waits = 0;
    let published = publisher
        .publish_patiently(&blocks, |told| {
            if told.is_some() {
                waits += 1;
                if waits == 2 {
                    server.config_set("maxmemory", "0");
                }
            }
        })
        .await
        .expect("there is room again");
    assert!(waits >= 2);
    assert_eq!(published.blocks, 10);
    assert_eq!(event_ids(&server, &chain), plain_ids(&chain, 1, 20));
}
