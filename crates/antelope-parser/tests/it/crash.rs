//! A parser that ends anywhere, and a Redis that does.

use std::time::Duration;

use cairn_testkit::{RedisServer, Rng};
use serde_json::Value;

use super::{FORKS, MAIN, Running, connect, events, ids, replay, settings, undisturbed};

/// What a consumer has that undoes what it is told to undo: the ids of the events of the chain that is left.
fn left(events: &[Value]) -> Vec<String> {
    let mut chain: Vec<(u64, String)> = Vec::new();
    for event in events {
        if event["kind"] == "fork" {
            let common = event["forked_from_block"].as_u64().expect("a number");
            chain.retain(|(num, _)| *num <= common);
            continue;
        }
        let num = event["block_num"].as_u64().expect("a number");
        assert!(
            chain
                .last()
                .is_none_or(|(last, _)| *last == num || last + 1 == num),
            "no block is left out or repeated"
        );
        chain.push((num, event["event_id"].as_str().expect("an id").to_owned()));
    }
    chain.into_iter().map(|(_, id)| id).collect()
}

async fn crash_until_done(recording: &[u8], last: u32, seed: u64) -> Vec<Value> {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(recording);
    let mut rng = Rng::new(seed);
    let mut crashes = 0u64;
    loop {
        let running = Running::start(settings(&source), redis.clone());
        // How long it lives is drawn, not waited for: the point is that it ends at some moment, in a different place each time.
        // On a slow machine a short life does nothing, so lives grow.
        let life = Duration::from_micros(2_000 + rng.below(60_000) + 500 * crashes);
        let _ = tokio::time::timeout(life, std::future::pending::<()>()).await;
        let is_done = running
            .status
            .read()
            .last
            .is_some_and(|block| block.num == last);
        if is_done {
            running.stop().await;
            return events(&mut server.connection());
        }
        running.crash().await;
        crashes += 1;
        assert!(crashes < 2_000, "it gets on");
        // Whatever is there is a chain, however far it goes.
        left(&events(&mut server.connection()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_anywhere_lose_and_repeat_nothing() {
    let expected = undisturbed(MAIN, 125).await;
    for seed in 1..4 {
        assert_eq!(
            ids(&crash_until_done(MAIN, 125, seed).await),
            expected,
            "seed {seed}"
        );
    }
}

/// A fork that the node took while the parser was down is told as one, though blocks of the lost branch may never be heard of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_across_forks_end_on_the_same_chain() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    super::read_all(&replay(FORKS), &redis, 175).await;
    let expected = left(&events(&mut server.connection()));
    for seed in 4..7 {
        assert_eq!(
            left(&crash_until_done(FORKS, 175, seed).await),
            expected,
            "seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_dies_and_comes_back() {
    let expected = undisturbed(MAIN, 125).await;
    let mut server = RedisServer::start_with(cairn_testkit::RedisOptions {
        extra_args: vec!["--appendfsync".to_owned(), "always".to_owned()],
        ..cairn_testkit::RedisOptions::default()
    });
    let redis = connect(&server.url()).await;
    let source = replay(MAIN);
    let control = source.control();
    let running = Running::start(settings(&source), redis);
    for hold in [30, 60, 90] {
        control.hold_at(hold);
        running
            .until("some blocks", |status| {
                status.last.is_some_and(|block| block.num as usize >= hold)
            })
            .await;
        server.kill();
        control.hold_at(hold + 10);
        server.restart();
    }
    control.hold_at(125);
    running
        .until("the last block", |status| {
            status.last.is_some_and(|block| block.num == 125)
        })
        .await;
    running.stop().await;
    assert_eq!(ids(&events(&mut server.connection())), expected);
}
