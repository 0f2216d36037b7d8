//! The pages of ledgers that live in Redis: an Antelope chain's stream and the application's ledger, written by the test or by the
//! crates they belong to, and read as a strict browser would.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use cairn_explorer::{AntelopeEntry, Explorer, ExplorerState};
use cairn_http::{BlockingPool, Surface, SurfaceOptions, Token};
use cairn_redis::{Redis, Target};
use cairn_scanner::sample::SampleTown;
use cairn_scanner::{AtMs, Clock, HostId, Options, Scanner, Status};
use cairn_stream::ChainLabel;
use cairn_telemetry::Health;
use cairn_testkit::RedisServer;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::crawl::check;
use crate::site::{follow, get};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const CHAIN: &str = "eos-test";
const STREAM: &str = "ce:parser2:eos-test:events";
const HOSTILE: &str = "\"><script>alert(1)</script>&'";

/// A site over an Antelope chain, and over a ledger if there is one. Its work goes on until the test ends.
async fn site(server: &RedisServer, scanner: Option<Scanner>) -> Surface {
    let explorer = Explorer::new(ExplorerState {
        chains: Vec::new(),
        antelope: vec![AntelopeEntry {
            chain: ChainLabel::new(CHAIN).expect("a label"),
            redis: connect(server).await,
            replay_token: Token::new("geheim"),
        }],
        scanner,
        health: Health::new("test"),
        pool: BlockingPool::new(4, PATIENCE),
        stop: CancellationToken::new(),
    });
    let surface = Surface::new(explorer.router(), SurfaceOptions::default());
    tokio::spawn(explorer.run());
    surface
}

async fn connect(server: &RedisServer) -> Redis {
    let target = Target::parse(&server.url()).expect("the server's own URL");
    Redis::connect(&target).await.expect("the server answers")
}

/// Adds an entry with this data; gives its id.
fn add(server: &RedisServer, data: &str) -> String {
    redis::cmd("XADD")
        .arg(STREAM)
        .arg("*")
        .arg("data")
        .arg(data)
        .query(&mut server.connection())
        .expect("the entry is added")
}

fn block_id(num: u32, branch: &str) -> String {
    format!("{num:08x}{branch:0<56}")
}

/// An action of a block.
fn action(num: u32, sequence: u32, account: &str, name: &str, memo: &str) -> String {
    let id = block_id(num, "a");
    serde_json::json!({
        "kind": "action", "event_id": format!("{CHAIN}:a:{num}:{}:{sequence}", &id[..16]), "chain_id": CHAIN,
        "block_num": num, "block_time": "2026-05-05T00:00:00.500", "block_id": id, "account": account, "name": name,
        "authorization": [{ "actor": "alice", "permission": "active" }], "data": { "memo": memo, "n": sequence },
        "action_ordinal": 1, "global_sequence": sequence.to_string(), "receiver": account,
        "transaction_id": "cd".repeat(32), "transaction_status": "executed",
    })
    .to_string()
}

/// A change of the one row of the test.
fn delta(num: u32, balance: &str, present: bool) -> String {
    let id = block_id(num, "a");
    serde_json::json!({
        "kind": "delta", "event_id": format!("{CHAIN}:d:{num}:{}:eosio.token:alice:accounts:1", &id[..16]),
        "chain_id": CHAIN, "block_num": num, "block_time": "2026-05-05T00:00:00.500", "block_id": id,
        "code": "eosio.token", "scope": "alice", "table": "accounts", "primary_key": "1",
        "value": { "balance": balance }, "present": present, "payer": "alice",
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_found_filtered_and_compared() {
    let server = RedisServer::start();
    for num in 1..=300 {
        add(
            &server,
            &action(num, num, "eosio.token", "transfer", "hello"),
        );
    }
    add(&server, &delta(301, "1.0000 SYS", true));
    add(&server, &delta(302, "2.0000 SYS", true));
    add(&server, &action(303, 303, HOSTILE, HOSTILE, HOSTILE));
    add(&server, "no event at all <b>");
    let site = site(&server, None).await;

    let page = get(&site, &format!("/{CHAIN}/events")).await;
    let (document, links) = check("events", &page.body);
    assert!(document.text.contains(HOSTILE), "{}", document.text);
    assert!(document.text.contains("no event at all <b>"));
    // Every event of the page leads to its own, and a page older leads on.
    let events: Vec<&String> = links
        .iter()
        .filter(|link| link.contains("/event/"))
        .collect();
    assert_eq!(events.len(), 49);
    for link in events {
        let page = get(&site, link).await;
        assert_eq!(page.status, 200, "{link}");
        check(link, &page.body);
    }
    let older = links
        .iter()
        .find(|link| link.contains("before="))
        .expect("more than a page");
    let (document, _) = check("older", &get(&site, older).await.body);
    assert!(!document.text.contains(HOSTILE));

    let (document, _) = check(
        "delta",
        &get(&site, &format!("/{CHAIN}/events?kind=delta"))
            .await
            .body,
    );
    assert!(document.text.contains("row 1 set") && !document.text.contains("transfer"));

    let row = format!("/{CHAIN}/row?code=eosio.token&scope=alice&table=accounts&key=1");
    let (document, _) = check("row", &get(&site, &row).await.body);
    assert!(
        document.text.contains("balance 1.0000 SYS 2.0000 SYS"),
        "{}",
        document.text
    );

    let (document, _) = check(
        "block",
        &get(&site, &format!("/{CHAIN}/block/150")).await.body,
    );
    assert!(document.text.contains("Block 150") && document.text.contains("transfer"));
    let by_tx = format!("/{CHAIN}/block/150?tx={}", "cd".repeat(32));
    assert_eq!(get(&site, &by_tx).await.status, 200);
    for (path, status) in [
        ("block/9999", 404),
        ("block/x", 400),
        ("event/eos-test:a:5:0000000000000000:1", 404),
        ("event/%3Cscript%3E", 404),
        ("events?before=zz", 400),
        ("account/alice", 200),
        ("abi/eosio.token", 404),
        ("abi/UPPER", 400),
        ("row?code=a", 400),
    ] {
        let page = get(&site, &format!("/{CHAIN}/{path}")).await;
        assert_eq!(page.status, status, "{path}");
        check(path, &page.body);
    }
    // One search over everything: a block, an account, the id of an event.
    for (text, target) in [("123", "/block/123"), ("alice", "/account/alice")] {
        let page = get(&site, &format!("/search?q={text}")).await;
        assert!(
            page.header("location").contains(target),
            "{text}: {:?}",
            page.headers
        );
    }
    let exact = format!("{CHAIN}:a:7:{}:7", &block_id(7, "a")[..16]);
    let page = get(&site, &format!("/search?q={exact}")).await;
    assert!(
        page.header("location")
            .ends_with(&format!("/event/{exact}"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_shows_both_blocks_and_says_so() {
    let server = RedisServer::start();
    add(&server, &action(9, 1, "one", "first", ""));
    add(&server, &action(10, 2, "one", "lost", ""));
    let fork = serde_json::json!({
        "kind": "fork", "event_id": format!("{CHAIN}:f:9:{}", &block_id(10, "b")[..16]), "chain_id": CHAIN,
        "forked_from_block": 9, "new_head_block_id": block_id(10, "b"), "block_num": 10, "undone_blocks": 1,
    });
    add(&server, &fork.to_string());
    let id = block_id(10, "b");
    let kept = action(10, 3, "one", "kept", "").replace(&block_id(10, "a"), &id);
    add(&server, &kept);
    let site = site(&server, None).await;
    let (document, _) = check(
        "block",
        &get(&site, &format!("/{CHAIN}/block/10")).await.body,
    );
    for part in [
        "more than one block of this number",
        "lost",
        "kept",
        "the chain goes on from block 9",
    ] {
        assert!(document.text.contains(part), "{part} in {}", document.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_given_out_again_to_whoever_has_the_token() {
    let server = RedisServer::start();
    add(&server, &action(1, 1, "one", "first", ""));
    let mut connection = server.connection();
    let letter: String = redis::cmd("XADD")
        .arg("ce:parser2:eos-test:dead:shop")
        .arg("*")
        .arg(&["data", &action(1, 1, "one", "first", HOSTILE)])
        .arg(&["failureCount", "3", "lastError", HOSTILE, "subId", "shop"])
        .query(&mut connection)
        .expect("the letter is added");
    let _: () = redis::cmd("HSET")
        .arg("parser2:subs")
        .arg("shop")
        .arg(r#"{"subId":"shop","filters":[],"startFrom":"first","chainId":"eos-test"}"#)
        .query(&mut connection)
        .expect("registered");
    let _: () = redis::cmd("XGROUP")
        .arg(&["CREATE", STREAM, "shop", "0"])
        .query(&mut connection)
        .expect("a group");
    let site = site(&server, None).await;
    let (document, links) = check(
        "subscriptions",
        &get(&site, &format!("/{CHAIN}/subscriptions")).await.body,
    );
    assert!(document.text.contains("shop") && document.text.contains("everything"));
    let path = format!("/{CHAIN}/dead-letters/shop");
    assert!(links.contains(&path), "{links:?}");
    let (document, _) = check("letters", &get(&site, &path).await.body);
    assert!(document.text.contains(HOSTILE), "{}", document.text);
    for (token, entry, status) in [
        ("wrong", letter.as_str(), 403),
        ("", letter.as_str(), 403),
        ("geheim", "5-5", 404),
        ("geheim", "nothing", 400),
        ("geheim", letter.as_str(), 303),
    ] {
        let request = Request::post(&path)
            .body(Body::from(format!("entry={entry}&token={token}")))
            .expect("a request");
        let response = site.handle(request).await;
        assert_eq!(response.status(), status, "{token} {entry}");
        let asked: u64 = redis::cmd("XLEN")
            .arg("parser2:sub:shop:replay")
            .query(&mut connection)
            .expect("a length");
        assert_eq!(asked, u64::from(status == 303), "{token} {entry}");
    }
    let (document, _) = check(
        "after",
        &get(&site, &format!("{path}?replayed=1")).await.body,
    );
    assert!(document.text.contains("given to the subscription again"));
}

/// Reads server-sent events until one of a kind has a text.
async fn read_until(
    site: &Surface,
    path: &str,
    last_id: Option<&str>,
    kind: &str,
    part: &str,
) -> String {
    let mut request = Request::get(path);
    if let Some(id) = last_id {
        request = request.header("last-event-id", id);
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = site.handle(request).await;
    assert_eq!(response.status(), 200, "{path}");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(
        !response.headers().contains_key("content-encoding"),
        "{path} is packed"
    );
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    let reading = async {
        while let Some(piece) = body.next().await {
            text.push_str(&String::from_utf8_lossy(&piece.expect("a piece")));
            let found = text
                .split("\n\n")
                .any(|event| event.contains(&format!("event: {kind}")) && event.contains(part));
            if found {
                return;
            }
        }
        panic!("the stream ended");
    };
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        panic!("no {kind} with {part} in {text}");
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_goes_on_where_the_page_ended_and_tells_what_it_leaves_out() {
    let server = RedisServer::start();
    let first = add(&server, &action(1, 1, "one", "before", ""));
    let second = add(&server, &action(2, 2, "one", "between", HOSTILE));
    let site = site(&server, None).await;
    let live = format!("/{CHAIN}/events/live");
    // What came between the page and the connection.
    let text = read_until(
        &site,
        &format!("{live}?after={first}"),
        None,
        "rows",
        "between",
    )
    .await;
    assert!(
        text.contains(&format!("id: {second}")) && !text.contains("before"),
        "{text}"
    );
    assert!(!text.contains("<script"), "{text}");
    // One who comes back by itself says so in the header; only what is wanted comes.
    for n in 3..=8 {
        add(
            &server,
            &action(n, n, "one", if n == 8 { "wanted" } else { "other" }, ""),
        );
    }
    let path = format!("{live}?after={first}&name=wanted");
    let text = read_until(&site, &path, Some(&second), "rows", "wanted").await;
    assert!(
        !text.contains("between") && !text.contains("other"),
        "{text}"
    );
    // More than fits is told, and one who was away for too long is told to look again.
    for n in 9..=120 {
        add(&server, &action(n, n, "one", "many", ""));
    }
    let text = read_until(
        &site,
        &format!("{live}?after={second}"),
        None,
        "skipped",
        "data: ",
    )
    .await;
    assert!(text.contains("many"), "{text}");
    for n in 121..=1_300 {
        add(&server, &action(n, n, "one", "more", ""));
    }
    read_until(
        &site,
        &format!("{live}?after={second}"),
        None,
        "gap",
        "past",
    )
    .await;
    // What comes while one listens.
    let listening = read_until(&site, &live, None, "rows", "fresh");
    let adding = async {
        loop {
            add(&server, &action(2_000, 2_000, "one", "fresh", ""));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::select! {
        text = listening => assert!(text.contains("fresh")),
        () = adding => {}
    }
    // Pages hear that they are out of date.
    read_until(&site, "/live?on=*", None, "changed", CHAIN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_of_a_ledger_is_good_and_exact() {
    let server = RedisServer::start();
    let options = Options::new(
        HostId::new("town").expect("a host"),
        ChainLabel::new("ledger-town").expect("a label"),
    );
    let scanner = Scanner::open(connect(&server).await, options, Clock::system())
        .await
        .expect("the ledger opens");
    let now = scanner.clock().now();
    let mut town = SampleTown::new(7);
    for calls in town
        .history(AtMs::clamped(now.ms() - 48 * 3_600_000), now, 120)
        .chunks(100)
    {
        let commands: Vec<_> = calls
            .iter()
            .map(|(hook, body)| {
                scanner
                    .read_request(*hook, body)
                    .expect("the town's own call")
            })
            .collect();
        for status in scanner.apply(&commands).await {
            assert!(!matches!(status, Status::Failed(_)), "{status:?}");
        }
    }
    let head = scanner.head().await.expect("a head");
    let site = site(&server, Some(scanner.clone())).await;

    let mut queue = VecDeque::from(["/".to_owned(), "/scanner".to_owned()]);
    let mut queued: HashSet<String> = queue.iter().cloned().collect();
    let mut pages = 0;
    while let Some(path) = queue.pop_front() {
        if pages == 150 {
            break;
        }
        if path.starts_with("/assets/") {
            continue;
        }
        pages += 1;
        let page = follow(&site, &path).await;
        assert_eq!(page.status, 200, "{path}");
        let (document, links) = check(&path, &page.body);
        if path == "/scanner" {
            let told = format!("Transactions, 24 h {}", head.txs);
            assert!(
                document
                    .text
                    .replace(',', "")
                    .contains(&told.replace(',', "")),
                "{told} in {}",
                document.text
            );
        }
        for link in links {
            let target = link.split('#').next().unwrap_or_default().to_owned();
            let is_here = target == "/" || target.starts_with("/scanner");
            if is_here && queued.insert(target.clone()) {
                queue.push_back(target);
            }
        }
    }
    assert!(pages > 60, "only {pages} pages");
    // The sums of a page of one row are the row's own.
    let page = scanner
        .txs(&cairn_scanner::TxFilter::default(), None, 100)
        .await
        .expect("transactions");
    let tx = page
        .txs
        .iter()
        .find(|tx| tx.record.price_micros.is_some())
        .expect("something was paid");
    let micros = tx.record.price_micros.expect("a price");
    let (document, _) = check(
        "tx",
        &get(&site, &format!("/scanner/txs/{}", tx.record.id))
            .await
            .body,
    );
    let dollars = format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
    assert!(
        document.text.contains(&dollars),
        "{dollars} in {}",
        document.text
    );
    for (path, status) in [
        ("/scanner?view=nothing", 404),
        ("/scanner?view=txs&op=nothing", 400),
        ("/scanner?view=txs&cursor=nothing", 400),
        ("/scanner/txs/nothing", 404),
        ("/scanner/nodes/%3Cscript%3E", 404),
        ("/scanner/blocks/x", 400),
        ("/scanner/blocks/99999999", 404),
        ("/scanner/spaces/nothing", 404),
        ("/scanner/games/nothing", 200),
    ] {
        let page = get(&site, path).await;
        assert_eq!(page.status, status, "{path}");
        check(path, &page.body);
    }
    let page = get(&site, "/search?q=sample-main-ada").await;
    assert_eq!(page.header("location"), "/scanner/nodes/sample-main-ada");
}
