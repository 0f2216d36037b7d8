//! Nodes and data that are not what they should be.

use std::io::Write as _;

use cairn_antelope_parser::{ParserSettings, ParserSource, ParserState};
use cairn_antelope_ship::{Message, Protocol, ReplaySource};
use cairn_testkit::RedisServer;
use cairn_testkit::antelope::{FrameKind, Recording, SHIP_ABI};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{FORKS, MAIN, Running, connect, events, label, read_all, replay, settings};

/// A recording in which one message is another.
fn damaged(result: usize, damage: impl FnOnce(&mut Vec<u8>)) -> ReplaySource {
    let mut frames = Recording::Main.frames();
    let frame = frames
        .iter_mut()
        .filter(|frame| frame.kind == FrameKind::Result && frame.bytes.first() == Some(&1))
        .nth(result)
        .expect("a block");
    damage(&mut frame.bytes);
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    for frame in frames {
        let kind = match frame.kind {
            FrameKind::Abi => 0,
            FrameKind::Result => 1,
            FrameKind::Request => 2,
        };
        let length = u32::try_from(frame.bytes.len())
            .expect("small")
            .to_le_bytes();
        for bytes in [&[kind][..], &length, &frame.bytes] {
            zip.write_all(bytes).expect("into memory");
        }
    }
    replay(&zip.finish().expect("into memory"))
}

async fn failure(settings: ParserSettings, server: &RedisServer) -> (String, Option<u32>) {
    let redis = connect(&server.url()).await;
    let running = Running::start(settings, redis);
    let status = running
        .until("the failure", |status| {
            matches!(status.state, ParserState::Failed { .. })
        })
        .await;
    running.stop().await;
    let ParserState::Failed { reason } = status.state else {
        panic!("failed")
    };
    (reason, status.last.map(|block| block.num))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_cannot_be_read_is_not_passed_over() {
    let server = RedisServer::start();
    // The list of changed tables of block 60, at the end of its message, claims to be longer than it is.
    let source = damaged(59, |bytes| {
        let protocol = Protocol::from_abi_json(SHIP_ABI).expect("the node's own ABI");
        let Message::Block(block) = protocol.read(bytes).expect("readable") else {
            panic!("a block")
        };
        let at = bytes.len() - block.deltas.expect("was asked for").len();
        bytes[at] = 0x7f;
    });
    let (reason, last) = failure(settings(&source), &server).await;
    assert!(reason.contains("block 60"), "{reason}");
    assert_eq!(last, Some(59));
    let numbers: Vec<u64> = events(&mut server.connection())
        .iter()
        .filter_map(|event| event["block_num"].as_u64())
        .collect();
    assert_eq!(numbers.last(), Some(&59));
    // With a node that has the block whole, reading goes on where it stopped.
    let redis = connect(&server.url()).await;
    read_all(&replay(MAIN), &redis, 125).await;
    let mut numbers: Vec<u64> = events(&mut server.connection())
        .iter()
        .filter_map(|event| event["block_num"].as_u64())
        .collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers, (1..=125).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_chains_node() {
    let server = RedisServer::start();
    let mut wrong = settings(&replay(MAIN));
    wrong.expect_chain_id = Some([7; 32]);
    let (reason, last) = failure(wrong, &server).await;
    assert!(
        reason.contains("expect_chain_id") && reason.contains("0707"),
        "{reason}"
    );
    assert_eq!(last, None);

    // Without the setting, the chain of the first node is remembered.
    let redis = connect(&server.url()).await;
    read_all(&replay(MAIN), &redis, 125).await;
    let before = events(&mut server.connection()).len();
    let (reason, _) = failure(settings(&replay(FORKS)), &server).await;
    assert!(
        reason.contains("502b5dbd") || reason.contains("irreversible"),
        "{reason}"
    );
    assert_eq!(events(&mut server.connection()).len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_that_cannot_be_used() {
    let server = RedisServer::start();
    let settings = ParserSettings::new(label(), ParserSource::Node("http://localhost".to_owned()));
    let (reason, _) = failure(settings, &server).await;
    assert!(reason.contains("ws://"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_writer_ends_the_first() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(MAIN);
    source.control().hold_at(20);
    let parser = cairn_antelope_parser::Parser::new(
        settings(&source),
        redis.clone(),
        std::sync::Arc::new(cairn_antelope_parser::Quiet),
    );
    let status = parser.status();
    let first = tokio::spawn(parser.run(std::future::pending()));
    let deadline = std::time::Instant::now() + super::PATIENCE;
    while status.read().last.is_none_or(|block| block.num < 20) {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let other = replay(MAIN);
    other.control().hold_at(40);
    read_all(&other, &redis, 40).await;
    source.control().hold_at(60);
    let ended = tokio::time::timeout(super::PATIENCE, first)
        .await
        .expect("within a minute")
        .expect("no panic");
    let error = ended.expect_err("the stream has another writer");
    assert!(error.to_string().contains("another Cairn"), "{error}");
    let numbers: Vec<u64> = events(&mut server.connection())
        .iter()
        .filter_map(|event| event["block_num"].as_u64())
        .collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&40));
}
