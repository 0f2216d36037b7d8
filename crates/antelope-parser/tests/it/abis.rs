//! The ABI history in Redis: every version in its place, none of a lost branch, the chain API as the last resort.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_antelope_abi::Name;
use cairn_antelope_parser::{AbiFallback, AbiStore, ParserSettings, ParserSource, ParserState};
use cairn_antelope_ship::Start;
use cairn_stream::{Resume, keys};
use cairn_testkit::RedisServer;
use cairn_testkit::antelope::Recording;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{FORKS, MAIN, PATIENCE, Running, connect, events, label, read_all, replay, settings};

/// Block, global sequence and number of a version.
type Place = (u32, u64, u32);

/// Each version in the log of a contract.
fn log(server: &RedisServer, contract: &str) -> Vec<Place> {
    let members: Vec<String> = server.run(&format!("ZRANGE {} 0 -1", keys::abi_log(contract)));
    let mut log: Vec<Place> = members
        .iter()
        .map(|member| {
            let parts: Vec<&str> = member.split(':').collect();
            let number = |at: usize| parts[at].parse::<u64>().expect("digits");
            (
                u32::try_from(number(0)).expect("small"),
                number(1),
                u32::try_from(number(2)).expect("small"),
            )
        })
        .collect();
    log.sort_unstable();
    log
}

fn expected(recording: Recording, contract: &str) -> (Vec<Place>, BTreeSet<Vec<u8>>) {
    let abis = recording.abis();
    let of = abis.iter().filter(|line| line["account"] == contract);
    let number = |value: &Value| u32::try_from(value.as_u64().expect("a number")).expect("small");
    let mut log: Vec<Place> = of
        .clone()
        .map(|line| {
            let sequence = line["global_sequence"]
                .as_str()
                .expect("digits")
                .parse()
                .expect("digits");
            (
                number(&line["block_num"]),
                sequence,
                number(&line["abi_sequence"]),
            )
        })
        .collect();
    log.sort_unstable();
    let bytes = of
        .map(|line| {
            bitcoin::hex::FromHex::from_hex(line["abi_hex"].as_str().expect("hex")).expect("hex")
        })
        .collect();
    (log, bytes)
}

fn stored_bytes(server: &RedisServer, contract: &str) -> BTreeSet<Vec<u8>> {
    let members: Vec<String> = server.run(&format!("ZRANGE {} 0 -1", keys::abi(contract)));
    members
        .iter()
        .map(|member| STANDARD.decode(member).expect("base64"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_is_kept_in_its_place() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    read_all(&replay(MAIN), &redis, 125).await;
    // `shifter` returns to earlier ABIs, loses its ABI, and sets one that is none.
    for contract in ["shifter", "probe", "typebook", "eosio.token", "badabi"] {
        let (versions, bytes) = expected(Recording::Main, contract);
        assert!(!versions.is_empty(), "{contract}");
        assert_eq!(log(&server, contract), versions, "{contract}");
        assert_eq!(stored_bytes(&server, contract), bytes, "{contract}");
    }
    let store = AbiStore::open(redis, &label(), &Resume::default())
        .await
        .expect("it opens");
    let (versions, _) = expected(Recording::Main, "shifter");
    let read = store
        .versions(Name::parse("shifter").expect("a name"))
        .await
        .expect("readable");
    let read: Vec<_> = read
        .iter()
        .map(|v| (v.block_num, v.global_sequence, v.abi_sequence))
        .collect();
    assert_eq!(read, versions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_branch_leaves_no_abi() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(FORKS);
    // At the end of the first branch its ABIs are there.
    source.control().hold_at(104);
    read_all(&source, &redis, 104).await;
    let lost = Recording::Forks.lost_abis();
    let before = log(&server, "shifter");
    assert!(
        lost.iter()
            .any(|line| before.iter().any(|version| line["block_num"] == version.0))
    );
    let open: u64 = server.run(&format!("ZCARD {}", keys::abi_log_open(&label())));
    assert!(open > 0, "they may still be undone");

    source.control().hold_at(198);
    read_all(&source, &redis, 175).await;
    let (versions, bytes) = expected(Recording::Forks, "shifter");
    assert_eq!(log(&server, "shifter"), versions);
    assert_eq!(stored_bytes(&server, "shifter"), bytes);
}

/// A crash after the versions of a block were written and before the block was: the next start takes them out, unless the
/// block comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_a_block_that_was_never_published() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let source = replay(FORKS);
    source.control().hold_at(90);
    read_all(&source, &redis, 90).await;
    let before = log(&server, "shifter");
    let digest = "ab".repeat(32);
    let member = format!("91:99999:7:{digest}");
    let block = "0000005b".to_owned() + &"cd".repeat(28);
    let _: u64 = server.run(&format!(
        "ZADD {} 91 shifter:{digest}:{block}:{member}",
        keys::abi_log_open(&label())
    ));
    let _: u64 = server.run(&format!("ZADD {} 91 {member}", keys::abi_log("shifter")));
    assert_ne!(log(&server, "shifter"), before);
    read_all(&source, &redis, 90).await;
    assert_eq!(log(&server, "shifter"), before);
}

/// Histories of another program have no log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_without_a_log_is_read() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    for (block, abi) in [
        (10u32, Recording::Main.abi("shifter", 1)),
        (20, Recording::Main.abi("shifter", 2)),
    ] {
        let _: u64 = server.run(&format!(
            "ZADD {} {block} {}",
            keys::abi("shifter"),
            STANDARD.encode(abi)
        ));
    }
    let store = AbiStore::open(redis, &label(), &Resume::default())
        .await
        .expect("it opens");
    let read = store
        .versions(Name::parse("shifter").expect("a name"))
        .await
        .expect("readable");
    let read: Vec<_> = read
        .iter()
        .map(|v| (v.block_num, v.bytes.to_vec()))
        .collect();
    assert_eq!(
        read,
        [
            (10, Recording::Main.abi("shifter", 1)),
            (20, Recording::Main.abi("shifter", 2))
        ]
    );
}

/// Answers every question for an ABI with one of `eosio.token`, until nobody asks any more.
async fn chain_api(listener: TcpListener, chain_id: &'static str) {
    loop {
        let Ok((mut socket, _)) = listener.accept().await else {
            return;
        };
        tokio::spawn(async move {
            let mut text = Vec::new();
            let mut chunk = [0; 4096];
            loop {
                let Ok(read @ 1..) = socket.read(&mut chunk).await else {
                    return;
                };
                text.extend_from_slice(&chunk[..read]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = whole.split_once("\r\n\r\n") else {
                    continue;
                };
                let length: usize = head
                    .lines()
                    .find_map(|line| {
                        line.to_ascii_lowercase()
                            .strip_prefix("content-length: ")
                            .map(str::to_owned)
                    })
                    .map_or(0, |digits| digits.parse().expect("digits"));
                if body.len() < length {
                    continue;
                }
                let answer = if head.contains("get_info") {
                    serde_json::json!({ "chain_id": chain_id, "head_block_num": 125 })
                } else {
                    let abi = if body.contains("eosio.token") {
                        Recording::Main.abi("eosio.token", 1)
                    } else {
                        Vec::new()
                    };
                    serde_json::json!({ "abi": STANDARD.encode(abi) })
                };
                let answer = answer.to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                if socket.write_all((head + &answer).as_bytes()).await.is_err() {
                    return;
                }
                text.clear();
            }
        });
    }
}

/// Settings that begin in the middle of the chain, where the history of ABIs is not known.
fn from_the_middle(fallback: AbiFallback) -> ParserSettings {
    let source = replay(MAIN);
    // The node is at the end of the chain already.
    source.control().happened(source.len());
    let mut settings = ParserSettings::new(label(), ParserSource::Recorded(source));
    settings.start = Start::Block(60);
    settings.abi_fallback = fallback;
    settings
}

const MAIN_CHAIN: &str = "502b5dbd568f5911cde1962fb939cf071a6b0a33d072c10ced20bfae0393372d";

async fn transfers_from_the_middle(fallback: AbiFallback) -> (usize, usize) {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let running = Running::start(from_the_middle(fallback), redis);
    running
        .until("the last block", |status| {
            status.last.is_some_and(|block| block.num == 125)
        })
        .await;
    running.stop().await;
    let events = events(&mut server.connection());
    let transfers = events
        .iter()
        .filter(|event| event["account"] == "eosio.token" && event["name"] == "transfer");
    let decoded = transfers
        .clone()
        .filter(|event| event["data"]["quantity"].is_string())
        .count();
    let raw = transfers
        .filter(|event| event["decode_error"].is_string() && event["hex"].is_string())
        .count();
    (decoded, raw)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_history_the_chain_api_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let chain_url = format!("http://{}/", listener.local_addr().expect("bound"));
    tokio::spawn(chain_api(listener, MAIN_CHAIN));
    let (decoded, raw) = transfers_from_the_middle(AbiFallback::RpcCurrent { chain_url }).await;
    assert!(decoded > 1_000 && raw == 0, "{decoded} {raw}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_api_of_another_chain_is_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let chain_url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(chain_api(listener, "00ff"));
    let (decoded, raw) = transfers_from_the_middle(AbiFallback::RpcCurrent { chain_url }).await;
    assert!(decoded == 0 && raw > 1_000, "{decoded} {raw}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_history_nothing_is_lost() {
    let (decoded, raw) = transfers_from_the_middle(AbiFallback::Hex).await;
    assert!(decoded == 0 && raw > 1_000, "{decoded} {raw}");
    // Where it is to be an error, the contract is named and nothing is published.
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let running = Running::start(from_the_middle(AbiFallback::Fail), redis);
    let status = tokio::time::timeout(
        PATIENCE,
        running.until("the failure", |status| {
            matches!(status.state, ParserState::Failed { .. })
        }),
    )
    .await
    .expect("within a minute");
    let ParserState::Failed { reason } = status.state else {
        panic!("failed")
    };
    assert!(reason.contains("abi_fallback"), "{reason}");
    running.stop().await;
    let first = events(&mut server.connection());
    assert!(
        first
            .iter()
            .all(|event| event["decode_error"].is_null() || event["account"] == "eosio")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_another_type_stop_the_chain_until_they_are_gone() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let key = keys::abi_log("probe");
    let _: String = server.run(&format!("SET {key} something"));
    let running = Running::start(settings(&replay(MAIN)), redis);
    let status = running
        .until("the failure", |status| {
            matches!(status.state, ParserState::Failed { .. })
        })
        .await;
    let ParserState::Failed { reason } = status.state else {
        panic!("failed")
    };
    assert!(reason.contains(&key), "{reason}");
    let _: u64 = server.run(&format!("DEL {key}"));
    running
        .until("the last block", |status| {
            status.last.is_some_and(|block| block.num == 125)
        })
        .await;
    running.stop().await;
    assert_eq!(log(&server, "probe"), expected(Recording::Main, "probe").0);
}
