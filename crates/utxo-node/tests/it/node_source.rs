//! The source over a node that misbehaves, and the classes of its errors.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use bitcoin::consensus::encode::serialize;
use bitcoin::{Block, BlockHash, Network};
use cairn_utxo_node::{NodeError, SourceConfig, SourceError, Tip, open_source};
use secrecy::SecretString;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::common::{all_blocks, all_headers, branch, chain, hashes, records, write_file, xored};
use crate::fake_node::{FakeNode, Fault};

const SECRET: &str = "correct-horse-battery";

fn refused(result: Result<Tip, SourceError>) -> String {
    match result {
        Err(SourceError::Refused(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn known(blocks: &[Block]) -> impl Fn(&BlockHash) -> Option<u32> {
    let heights: HashMap<BlockHash, u32> = hashes(blocks).into_iter().zip(0..).collect();
    move |hash| heights.get(hash).copied()
}

fn with_password(node: &FakeNode, password: &str) -> SourceConfig {
    SourceConfig {
        rpc_user: "alice".to_owned(),
        rpc_password: Some(SecretString::from(password.to_owned())),
        ..node.config()
    }
}

#[test]
fn passing_faults_are_ridden_out() -> Result<()> {
    let blocks = chain(30);
    let node = FakeNode::start(&blocks)?;
    let source = node.source()?;
    for fault in [
        Fault::Status(503, "Work queue depth exceeded"),
        Fault::Rpc(-28, "Loading block index…"),
        Fault::Drop,
        Fault::CutBody,
    ] {
        node.fault(fault, 2);
        assert_eq!(source.tip()?.height, 30);
    }
    // In the middle of everything else.
    node.fault(Fault::Status(503, ""), 1);
    node.fault(Fault::Drop, 1);
    assert_eq!(
        all_blocks(&*source, 1000)?,
        blocks.iter().map(serialize).collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn lasting_faults_are_unavailable_and_pass() -> Result<()> {
    let node = FakeNode::start(&chain(3))?;
    let source = node.source()?;
    for (fault, part) in [
        (
            Fault::Status(503, "Work queue depth exceeded"),
            "Work queue depth exceeded",
        ),
        (
            Fault::Rpc(-28, "Verifying blocks"),
            "the node is starting: Verifying blocks",
        ),
        (Fault::Drop, "the connection broke"),
    ] {
        node.set(|state| state.always = Some(("getblockchaininfo", fault)));
        let error = source.tip().expect_err("the fault lasts");
        assert!(
            error.is_transient() && error.to_string().contains(part),
            "{error}"
        );
        node.set(|state| state.always = None);
        assert_eq!(source.tip()?.height, 3);
    }
    Ok(())
}

#[test]
fn nobody_listens() -> Result<()> {
    let node = FakeNode::start(&chain(1))?;
    let config = SourceConfig {
        rpc_url: "http://alice:hidden-word@127.0.0.1:1/".into(),
        ..SourceConfig::new(Network::Regtest)
    };
    let source = node.open(&config)?.source;
    let error = source.tip().expect_err("nobody listens at port 1");
    assert!(
        error.is_transient()
            && error
                .to_string()
                .contains("http://127.0.0.1:1: not reachable"),
        "{error}"
    );
    assert!(!format!("{error:?}{}", source.describe()).contains("hidden-word"));
    Ok(())
}

#[test]
fn damaged_answers() -> Result<()> {
    let node = FakeNode::start(&chain(3))?;
    let source = node.source()?;
    for bytes in [
        &b""[..],
        b"<html>welcome</html>",
        b"{\"result\":",
        b"[]",
        br#"{"result":{"chain":"regtest"},"error":null,"id":1}"#,
        br#"{"result":7,"error":null,"id":999999}"#,
    ] {
        node.fault(Fault::Bytes(bytes.to_vec()), 1);
        let error = source.tip().expect_err("not an answer");
        assert!(matches!(error, SourceError::Damaged(_)), "{error:?}");
        assert!(error.to_string().contains("getblockchaininfo"), "{error}");
        assert_eq!(source.tip()?.height, 3);
    }
    node.fault(Fault::Status(404, "no such page"), 1);
    assert!(
        source
            .tip()
            .expect_err("another server")
            .to_string()
            .contains("RPC port")
    );
    Ok(())
}

#[test]
fn a_wrong_block_is_not_taken() -> Result<()> {
    let blocks = chain(3);
    let node = FakeNode::start(&blocks)?;
    let source = node.source()?;
    source.tip()?;
    let other = bitcoin::consensus::encode::serialize_hex(&blocks[1]);
    node.fault(Fault::Result(json!(other)), 1);
    let wrong = source.block(&blocks[2].block_hash());
    assert!(
        matches!(wrong, Err(SourceError::Damaged(text)) if text.contains("something else than block"))
    );
    assert_eq!(
        source.block(&blocks[2].block_hash())?,
        serialize(&blocks[2])
    );
    Ok(())
}

#[test]
fn authentication() -> Result<()> {
    let node = FakeNode::start(&chain(2))?;
    node.set(|state| state.password = Some(format!("alice:{SECRET}")));
    let text = refused(node.source()?.tip());
    assert!(
        text.contains("authentication refused (no credentials are configured"),
        "{text}"
    );

    let text = refused(
        node.open(&with_password(&node, "another-word"))?
            .source
            .tip(),
    );
    assert!(
        text.contains("authentication refused (rpc_user and rpc_password)"),
        "{text}"
    );
    assert!(!text.contains("another-word"));

    assert_eq!(
        node.open(&with_password(&node, SECRET))?
            .source
            .tip()?
            .height,
        2
    );
    let in_url = SourceConfig {
        rpc_url: format!("http://alice:{SECRET}@{}", node.address),
        ..node.config()
    };
    let source = node.open(&in_url)?.source;
    assert_eq!(source.tip()?.height, 2);
    assert!(!source.describe().contains(SECRET));

    node.fault(Fault::Status(403, ""), 1);
    assert!(refused(source.tip()).contains("rpcallowip"));
    Ok(())
}

/// A node that restarts writes another cookie; both ways of noticing it.
#[test]
fn the_cookie_is_read_again() -> Result<()> {
    let folder = TempDir::new()?;
    let cookie = folder.path().join(".cookie");
    let node = FakeNode::start(&chain(2))?;
    let config = SourceConfig {
        rpc_cookie_file: Some(cookie.clone()),
        ..node.config()
    };
    let source = node.open(&config)?.source;
    let error = source.tip().expect_err("no cookie yet");
    assert!(
        error.is_transient() && error.to_string().contains(&cookie.display().to_string()),
        "{error}"
    );

    let enter = |password: &str| {
        std::fs::write(&cookie, password).expect("a file in the temporary folder");
        node.set(|state| state.password = Some(password.to_owned()));
    };
    enter("__cookie__:first");
    assert_eq!(source.tip()?.height, 2);
    enter("__cookie__:second");
    assert_eq!(source.tip()?.height, 2, "after a refusal");
    node.fault(Fault::Drop, 1);
    enter("__cookie__:third");
    let before = node.requests();
    assert_eq!(source.tip()?.height, 2, "after a broken connection");
    // The dropped request, the call and the check of the node's identity (genesis); no request was refused.
    assert!(node.requests() - before <= 4);

    node.set(|state| state.password = Some("__cookie__:fourth".to_owned()));
    let text = refused(source.tip());
    assert!(
        text.contains("authentication refused") && text.contains(&cookie.display().to_string()),
        "{text}"
    );
    assert!(!text.contains("third"));
    Ok(())
}

#[test]
fn another_network_is_refused_with_both_names() -> Result<()> {
    let node = FakeNode::start(&chain(2))?;
    node.set(|state| state.chain = "main".to_owned());
    let text = refused(node.source()?.tip());
    assert!(
        text.contains("\"main\"") && text.contains("\"regtest\""),
        "{text}"
    );
    // The same name, another genesis.
    let foreign = FakeNode::start(&chain(2)[1..])?;
    assert!(refused(foreign.source()?.tip()).contains("another chain of the same name"));
    Ok(())
}

/// A node that is replaced by one of another network while we run is noticed when it answers again.
#[test]
fn the_node_is_checked_again_after_it_was_away() -> Result<()> {
    let node = FakeNode::start(&chain(2))?;
    let source = node.source()?;
    source.tip()?;
    node.set(|state| state.always = Some(("getblockchaininfo", Fault::Drop)));
    assert!(source.tip().is_err());
    node.set(|state| {
        state.always = None;
        state.chain = "test".to_owned();
    });
    assert!(refused(source.tip()).contains("\"test\""));
    Ok(())
}

#[test]
fn a_node_in_its_own_first_load_is_waited_for_once() -> Result<()> {
    let node = FakeNode::start(&chain(2))?;
    let source = node.source()?;
    node.set(|state| state.info = json!({ "initialblockdownload": true, "headers": 900 }));
    let error = source.tip().expect_err("2 of 900 blocks");
    assert!(
        error.is_transient() && error.to_string().contains("2 of 900"),
        "{error}"
    );
    // A chain that rests for a day counts as "initial download" to a node although it has everything.
    node.set(|state| state.info = json!({ "initialblockdownload": true, "headers": 2 }));
    assert_eq!(source.tip()?.height, 2);
    Ok(())
}

fn check_headers(node: &FakeNode, blocks: &[Block]) -> Result<()> {
    let source = node.source()?;
    let height = blocks.len() - 1;
    let headers = |from: usize| {
        blocks[from..]
            .iter()
            .map(|block| block.header)
            .collect::<Vec<_>>()
    };
    for known_count in [
        0,
        1,
        2,
        height - 250,
        height - 101,
        height - 100,
        height - 99,
        height - 3,
        height,
        height + 1,
    ] {
        let run = source.headers(&known(&blocks[..known_count]), None)?;
        assert_eq!(
            run.start_height as usize, known_count,
            "{known_count} known"
        );
        assert!(run.headers == headers(known_count), "{known_count} known");
        assert_eq!(
            run.tip,
            Some(Tip {
                hash: blocks[height].block_hash(),
                height: height as u32
            })
        );
    }
    let run = source.headers(&known(&blocks[..10]), Some(200))?;
    assert!(run.headers == headers(10)[..191]);
    assert_eq!(run.tip.map(|tip| tip.height), Some(200));
    // The node went back (invalidateblock, a restored backup): nothing new, and the fork is told.
    let mut longer = blocks.to_vec();
    longer.extend(branch(&blocks[height], height as u32, 5, 1));
    let run = source.headers(&known(&longer), None)?;
    assert_eq!(
        (run.start_height as usize, run.headers.len()),
        (height + 1, 0)
    );
    assert_eq!(
        run.tip.map(|tip| tip.hash),
        Some(blocks[height].block_hash())
    );
    // A branch that leaves the best chain far below.
    let mut forked = blocks[..=height - 300].to_vec();
    forked.extend(branch(&blocks[height - 300], (height - 300) as u32, 310, 2));
    let run = source.headers(&known(&forked), None)?;
    assert_eq!(run.start_height as usize, height - 299);
    assert!(run.headers == headers(height - 299));
    Ok(())
}

#[test]
fn headers_over_rpc_and_rest() -> Result<()> {
    let blocks = chain(2500);
    let node = FakeNode::start(&blocks)?;
    check_headers(&node, &blocks)?;
    node.set(|state| state.rest = true);
    check_headers(&node, &blocks)
}

#[test]
fn blocks_over_rest_come_without_rpc() -> Result<()> {
    let blocks = chain(40);
    let node = FakeNode::start(&blocks)?;
    node.set(|state| {
        state.rest = true;
        state.always = Some(("getblock", Fault::Rpc(-1, "not to be called")));
    });
    let source = node.source()?;
    assert_eq!(
        all_blocks(&*source, 1000)?,
        blocks.iter().map(serialize).collect::<Vec<_>>()
    );
    Ok(())
}

/// The node's chain turns while its headers are read: the run that comes back links all the same.
#[test]
fn headers_of_a_chain_that_moves() -> Result<()> {
    let blocks = chain(2500);
    let other = {
        let mut other = blocks[..=400].to_vec();
        other.extend(branch(&blocks[400], 400, 2200, 7));
        other
    };
    let node = FakeNode::start(&blocks)?;
    let source = node.source()?;
    let begun = node.requests();
    let turned = std::thread::scope(|scope| {
        scope.spawn(|| {
            while node.requests() < begun + 5 {
                std::thread::sleep(Duration::from_micros(200));
            }
            node.set(|state| state.set_blocks(&other));
        });
        source.headers(&|_| None, None)
    })?;
    let tip = turned.tip.expect("a tip");
    let expected = if tip.hash == blocks[2500].block_hash() {
        &blocks
    } else {
        &other
    };
    assert_eq!(tip.height as usize, expected.len() - 1);
    assert!(
        turned.headers
            == expected
                .iter()
                .map(|block| block.header)
                .collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn a_block_that_the_long_poll_missed_is_noticed() -> Result<()> {
    let blocks = chain(3);
    let node = FakeNode::start(&blocks[..3])?;
    let source = node.source()?;
    node.set(|state| {
        state.long_poll = true;
        // The block comes when the node has the question, but before it has begun to wait.
        state.on_long_poll = Some(blocks.clone());
        state.always = Some(("waitfornewblock", Fault::Silence(Duration::from_secs(3600))));
    });
    let tip = blocks[2].block_hash();
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        source.wait(&tip, Duration::from_secs(3600));
        // Nobody listens any more when the test has failed.
        let _ = told.send(());
    });
    heard
        .recv_timeout(Duration::from_secs(60))
        .expect("an hour is not waited for");
    Ok(())
}

#[test]
fn the_work_queue_is_respected() -> Result<()> {
    let blocks = chain(200);
    let node = FakeNode::start(&blocks)?;
    let source = node.source()?;
    let units = source.plan(&hashes(&blocks), 1)?;
    std::thread::scope(|scope| {
        let source = &source;
        for part in units.chunks(units.len().div_ceil(10)) {
            scope.spawn(move || {
                for unit in part {
                    let raw = source.read(unit).expect("the fake node has all blocks");
                    assert_eq!(raw.blocks.len(), unit.blocks.len());
                }
            });
        }
    });
    let most = node.most_at_once.load(Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most} requests at once");
    Ok(())
}

#[test]
fn a_pruned_node() -> Result<()> {
    let blocks = chain(600);
    let node = FakeNode::start(&blocks)?;
    node.set(|state| state.info = json!({ "pruned": true, "pruneheight": 400 }));
    let source = node.source()?;
    match source.plan(&hashes(&blocks), 1000) {
        Err(SourceError::Refused(text)) => {
            assert!(
                text.contains("pruned") && text.contains("400") && text.contains("height 0"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(
        source.plan(&hashes(&blocks[400..]), 1000).is_ok(),
        "what is wanted is there"
    );
    // Asked for all the same, it is refused and not merely missing.
    node.set(|state| {
        state.always = Some((
            "getblock",
            Fault::Rpc(-1, "Block not available (pruned data)"),
        ))
    });
    assert!(
        matches!(source.block(&blocks[3].block_hash()), Err(SourceError::Refused(text)) if text.contains("pruned"))
    );

    // Its older blocks lie in files of our own.
    let folder = TempDir::new()?;
    write_file(folder.path(), 0, &records(&blocks[..500]));
    node.set(|state| state.always = None);
    let config = SourceConfig {
        blocks_dir: Some(folder.path().to_owned()),
        ..node.config()
    };
    let source = node.open(&config)?.source;
    assert_eq!(
        all_blocks(&*source, 4000)?,
        blocks.iter().map(serialize).collect::<Vec<_>>()
    );
    node.set(|state| {
        state.always = Some((
            "getblock",
            Fault::Rpc(-1, "Block not available (pruned data)"),
        ))
    });
    assert_eq!(
        source.block(&blocks[3].block_hash())?,
        serialize(&blocks[3])
    );
    Ok(())
}

/// Files give what they have; the node gives the rest, also where a file does not hold what its header promised.
#[test]
fn files_and_node_together() -> Result<()> {
    let blocks = chain(700);
    let node = FakeNode::start(&blocks)?;
    let folder = TempDir::new()?;
    let key = [7, 0, 1, 9, 3, 3, 3, 200];
    std::fs::write(folder.path().join("xor.dat"), key)?;
    write_file(folder.path(), 0, &xored(&records(&blocks[..300]), key));
    write_file(folder.path(), 1, &xored(&records(&blocks[350..600]), key));
    let config = SourceConfig {
        blocks_dir: Some(folder.path().to_owned()),
        ..node.config()
    };
    let source = node.open(&config)?.source;
    let expected: Vec<Vec<u8>> = blocks.iter().map(serialize).collect();

    all_headers(&*source)?;
    let before = node.requests();
    all_headers(&*source)?;
    let for_headers = node.requests() - before;
    assert_eq!(all_blocks(&*source, 10_000)?, expected);
    let for_blocks = node.requests() - before - 2 * for_headers;
    assert_eq!(
        for_blocks, 151,
        "one request for each block that the files lack"
    );

    // The second file is gone, and the first one holds something else, after the plan was made.
    let units = source.plan(&hashes(&blocks), 10_000)?;
    std::fs::remove_file(folder.path().join("blk00001.dat"))?;
    write_file(folder.path(), 0, &vec![0; records(&blocks[..300]).len()]);
    let mut found = HashMap::new();
    for unit in &units {
        let raw = source.read(unit)?;
        assert_eq!(raw.blocks.len(), unit.blocks.len());
        found.extend(
            raw.blocks
                .into_iter()
                .map(|(hash, range)| (hash, raw.bytes[range].to_vec())),
        );
    }
    for (block, bytes) in blocks.iter().zip(expected) {
        assert_eq!(found.get(&block.block_hash()), Some(&bytes));
    }
    Ok(())
}

#[test]
fn a_stop_ends_waiting_calls() -> Result<()> {
    let node = FakeNode::start(&chain(2))?;
    let stop = CancellationToken::new();
    let source = open_source(&node.config(), node.runtime.handle().clone(), stop.clone())?.source;
    let tip = source.tip()?;
    node.set(|state| {
        state.always = Some(("getblockchaininfo", Fault::Silence(Duration::from_secs(30))))
    });
    let began = Instant::now();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| source.tip());
        let waiting = scope.spawn(|| source.wait(&tip.hash, Duration::from_secs(30)));
        std::thread::sleep(Duration::from_millis(100));
        stop.cancel();
        assert!(matches!(
            asking.join().expect("no panic"),
            Err(SourceError::Stopped)
        ));
        waiting.join().expect("no panic");
    });
    assert!(began.elapsed() < Duration::from_secs(5));
    Ok(())
}

#[test]
fn waiting_ends_with_a_new_tip_and_with_the_time() -> Result<()> {
    let blocks = chain(3);
    let node = FakeNode::start(&blocks[..3])?;
    let source = node.source()?;
    let old = source.tip()?;
    // Without a long poll.
    let began = Instant::now();
    source.wait(&old.hash, Duration::from_millis(300));
    assert!((250..1500).contains(&began.elapsed().as_millis()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| source.wait(&old.hash, Duration::from_secs(20)));
        std::thread::sleep(Duration::from_millis(50));
        node.set(|state| state.set_blocks(&blocks));
        waiting.join().expect("no panic");
    });
    assert!(began.elapsed() < Duration::from_secs(10));
    // Away: the time is kept.
    let tip = source.tip()?;
    node.set(|state| state.always = Some(("getbestblockhash", Fault::Drop)));
    let began = Instant::now();
    source.wait(&tip.hash, Duration::from_millis(400));
    assert!(
        (350..2000).contains(&began.elapsed().as_millis()),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}

#[test]
fn a_rejected_broadcast_keeps_the_nodes_words() -> Result<()> {
    let node = FakeNode::start(&chain(1))?;
    let handle = node.open(&node.config())?.node.expect("there is a node");
    let error = node
        .runtime
        .block_on(handle.send_raw_transaction("00"))
        .expect_err("the fake refuses all");
    assert_eq!(
        error.to_string(),
        r#"sendrawtransaction RPC error: {"code":-26,"message":"min relay fee not met, 0 < 100"}"#
    );
    assert_eq!(error.rejection().map(|failure| failure.code), Some(-26));
    node.fault(Fault::Drop, 1);
    let error = node
        .runtime
        .block_on(handle.send_raw_transaction("00"))
        .expect_err("the connection ends");
    assert!(matches!(error, NodeError::Unavailable(_)) && error.rejection().is_none());
    Ok(())
}

#[test]
fn configurations_that_cannot_work() -> Result<()> {
    let node = FakeNode::start(&chain(1))?;
    let refusal = |config: &SourceConfig| match open_source(
        config,
        node.runtime.handle().clone(),
        CancellationToken::new(),
    ) {
        Err(SourceError::Refused(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("this configuration must not work"),
    };
    assert!(refusal(&SourceConfig::new(Network::Regtest)).contains("rpc_url"));
    for url in ["127.0.0.1:8332", "ftp://127.0.0.1", "http://", "bitcoin"] {
        let config = SourceConfig {
            rpc_url: url.to_owned(),
            ..SourceConfig::new(Network::Regtest)
        };
        assert!(refusal(&config).contains("rpc_url"), "{url}");
    }
    // A node behind a proxy that adds TLS: set up without a word, though here is none.
    let https = SourceConfig {
        rpc_url: "https://127.0.0.1:1".to_owned(),
        ..SourceConfig::new(Network::Regtest)
    };
    let opened = open_source(
        &https,
        node.runtime.handle().clone(),
        CancellationToken::new(),
    )
    .map_err(|error| anyhow::anyhow!("{error}"))?;
    assert!(matches!(
        opened.source.tip(),
        Err(SourceError::Unavailable(_))
    ));
    let absent = SourceConfig {
        blocks_dir: Some("/nonexistent/blocks".into()),
        ..node.config()
    };
    assert!(refusal(&absent).contains("/nonexistent/blocks"));
    // Derived and not there: the node alone will do. There but with a damaged key: not.
    let folder = TempDir::new()?;
    let derived = SourceConfig {
        node_dir: Some(folder.path().to_owned()),
        ..with_password(&node, "x")
    };
    assert!(node.open(&derived).is_ok());
    std::fs::create_dir_all(folder.path().join("regtest/blocks"))?;
    std::fs::write(folder.path().join("regtest/blocks/xor.dat"), [1; 7])?;
    assert!(refusal(&derived).contains("7 bytes"));
    Ok(())
}
