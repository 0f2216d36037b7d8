//! Push events: what a client hears is what happened, each thing once, also across a break.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Transaction, TxOut};
use cairn_esplora::EsploraOptions;
use cairn_http::{Listen, ServeLimits, serve};
use cairn_testkit::{Coin, Lock, MemoryMempool, OWN_NUMBERS, TestChain, script_hash, spend};
use cairn_utxo_index::MempoolSync;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::support::{Api, stoppable_surface_of};

/// How long a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event as a client reads it.
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    id: Option<String>,
    name: String,
    data: Value,
}

/// A reader of server-sent events.
struct Ear {
    body: BodyDataStream,
    text: String,
}

impl Ear {
    async fn listen(api: &Api, uri: &str, last: Option<&str>) -> Self {
        let mut request = Request::builder().uri(uri);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = api.surface.handle(request).await;
        assert_eq!(response.status(), 200, "{uri}");
        let header = |name: &str| response.headers()[name].to_str().expect("ascii").to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("access-control-allow-origin"), "*");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event; `None` when the server ended.
    async fn maybe_next(&mut self) -> Option<Heard> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let heard = parse(block);
                self.text = rest.to_owned();
                if heard.is_some() {
                    return heard;
                }
            }
            let piece = tokio::time::timeout(PATIENCE, self.body.next())
                .await
                .expect("an event comes")?;
            let piece = piece.expect("the stream does not break");
            self.text
                .push_str(std::str::from_utf8(&piece).expect("text"));
        }
    }

    async fn next(&mut self) -> Heard {
        self.maybe_next().await.expect("the server goes on")
    }

    /// Events up to one of a kind.
    async fn until(&mut self, name: &str) -> Vec<Heard> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last: &Heard| last.name != name) {
            heard.push(self.next().await);
        }
        heard
    }
}

fn parse(block: &str) -> Option<Heard> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(Heard {
        id: field("id").map(str::to_owned),
        name: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).expect("JSON"),
    })
}

/// A chain with coins of the test's own, and a mempool that the test sets.
struct World {
    chain: TestChain,
    api: Api,
    mempool: MemoryMempool,
    coins: Vec<Coin>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chain = TestChain::small(seed, 120);
        let coins = chain.coins(6);
        let api = Api::of(chain.model());
        Self {
            chain,
            api,
            mempool: MemoryMempool::default(),
            coins,
        }
    }

    fn pay(&self, coin: usize, lock: Lock, fee: u64) -> Transaction {
        let coin = self.coins[coin];
        let output = TxOut {
            value: Amount::from_sat(coin.value - fee),
            script_pubkey: lock.script_pubkey(),
        };
        spend(&[coin], vec![output])
    }

    fn set_mempool(&self, txs: &[&Transaction]) {
        self.mempool.set(
            self.chain.model().tip().hash,
            txs.iter().map(|tx| (*tx).clone()),
        );
        let outcome = self
            .api
            .index
            .sync_mempool(&self.mempool, &AtomicBool::new(false))
            .expect("compared");
        assert!(matches!(outcome, MempoolSync::Complete(_)));
    }

    fn mine(&mut self, txs: Vec<Transaction>) {
        self.chain.mine(txs);
        self.api.sync(self.chain.model());
    }

    fn tip(&self) -> String {
        self.chain.model().tip().hash.to_string()
    }
}

fn own(n: u32) -> Lock {
    Lock::Wsh(OWN_NUMBERS + n)
}

fn names(heard: &[Heard]) -> Vec<&str> {
    heard.iter().map(|event| event.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_what_happens() {
    let mut world = World::new(51);
    world.set_mempool(&[]);
    let script = script_hash(&own(1).script_pubkey()).to_lower_hex_string();
    let address = bitcoin::Address::from_script(&own(2).script_pubkey(), bitcoin::Network::Regtest)
        .expect("has one")
        .to_string();
    let first = world.pay(0, own(1), 1_000);
    let second = world.pay(1, own(2), 2_000);
    let (first_id, second_id) = (
        first.compute_txid().to_string(),
        second.compute_txid().to_string(),
    );
    let uri = format!("/events?mempool=true&scripthash={script}&address={address}&tx={first_id}");
    let mut ear = Ear::listen(&world.api, &uri, None).await;
    let begun = ear.until("tx").await;
    assert_eq!(names(&begun), ["state", "tx"]);
    assert_eq!(begun[0].data["tip"]["hash"], world.tip());
    assert_eq!(begun[0].data["mempool"]["loaded"], true);
    assert_eq!(
        begun[1].data,
        json!({"txid": first_id, "known": false, "status": {"confirmed": false}})
    );

    world.set_mempool(&[&first, &second]);
    let heard = ear.until("tx").await;
    assert_eq!(names(&heard), ["mempool", "script", "script", "tx"]);
    assert_eq!(heard[0].data["count"], 2);
    assert_eq!(heard[0].data["added"].as_array().expect("ids").len(), 2);
    assert_eq!(heard[3].data["known"], true);
    let scripts: Vec<&Value> = heard[1..3].iter().map(|event| &event.data).collect();
    assert!(scripts.contains(&&json!({"scripthash": script})));
    assert!(scripts.iter().any(|data| data["address"] == address));

    world.mine(vec![first.clone()]);
    let heard = ear.until("tx").await;
    assert_eq!(names(&heard), ["block", "mempool", "script", "tx"]);
    assert_eq!(heard[0].data["hash"], world.tip());
    assert_eq!(heard[1].data["confirmed"], json!([first_id]));
    assert_eq!(heard[1].data["removed"], json!([]));
    assert_eq!(heard[3].data["status"]["block_hash"], world.tip());
    let place = heard[3]
        .id
        .clone()
        .expect("the last event of a change has an id");
    assert!(heard[..3].iter().all(|event| event.id.is_none()));

    // The block is replaced by two empty ones.
    let old_tip = world.tip();
    world.chain.rewind(1);
    world.chain.mine(Vec::new());
    world.mine(Vec::new());
    let heard = ear.until("tx").await;
    assert_eq!(names(&heard), ["reorg", "block", "block", "script", "tx"]);
    assert_eq!(heard[0].data["old_tip"]["hash"], old_tip);
    assert_eq!(heard[0].data["depth"], 1);
    assert_eq!(heard[2].data["hash"], world.tip());
    assert_eq!(heard[4].data["known"], false);
    world.set_mempool(&[&first]);
    let last = ear.until("tx").await;
    assert_eq!(names(&last), ["mempool", "script", "script", "tx"]);
    assert_eq!(last[0].data["removed"], json!([second_id]));

    // Coming back to an earlier place repeats what came after it, and nothing else.
    let mut again = Ear::listen(&world.api, &uri, Some(&place)).await;
    let mut repeated = Vec::new();
    while repeated
        .iter()
        .filter(|event: &&Heard| event.name == "mempool")
        .count()
        < 1
    {
        repeated.push(again.next().await);
    }
    let blocks = |heard: &[Heard]| -> Vec<Heard> {
        heard
            .iter()
            .filter(|event| ["reorg", "block", "mempool"].contains(&event.name.as_str()))
            .cloned()
            .collect()
    };
    let expected: Vec<Heard> = heard.iter().chain(&last).cloned().collect();
    assert_eq!(blocks(&repeated), blocks(&expected));

    // A place of another run of the process: its tip tells which blocks came and went, all else must be looked at again.
    let (_, rest) = place.split_once('-').expect("an id has parts");
    let elsewhere = format!("0123456789abcdef-{rest}");
    let mut other = Ear::listen(&world.api, &uri, Some(&elsewhere)).await;
    let heard = other.until("tx").await;
    assert_eq!(names(&heard), ["reorg", "block", "block", "resync", "tx"]);
    let mut blocks_only = Ear::listen(&world.api, "/events", Some(&elsewhere)).await;
    let heard = [
        blocks_only.next().await,
        blocks_only.next().await,
        blocks_only.next().await,
    ];
    assert_eq!(names(&heard), ["reorg", "block", "block"]);
    assert!(heard[2].id.is_some());
    let unknown = format!("0123456789abcdef-1-{}", "11".repeat(32));
    let mut lost = Ear::listen(&world.api, "/events", Some(&unknown)).await;
    assert_eq!(lost.next().await.name, "resync");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_wishes_are_refused() {
    let world = World::new(52);
    let many = |name: &str, count: usize| {
        let ids: Vec<String> = (0..count).map(|n| format!("{n:064x}")).collect();
        format!("/events?{name}={}", ids.join(","))
    };
    for (uri, status, text) in [
        ("/events?tx=zz".to_owned(), 400, "Invalid hex string"),
        (
            "/events?address=zz".to_owned(),
            400,
            "Invalid Bitcoin address",
        ),
        (
            "/events?scripthash=abcd".to_owned(),
            400,
            "Invalid scripthash",
        ),
        (
            "/events?mempool=maybe".to_owned(),
            400,
            "mempool must be true or false",
        ),
        (
            "/events?last_event_id=7".to_owned(),
            400,
            "Invalid event id",
        ),
        (many("tx", 200), 414, "URL too long"),
        (
            "/events/ws".to_owned(),
            426,
            "this is for WebSockets; /events has the same as server-sent events",
        ),
    ] {
        world.api.get(&uri).await.assert_error(status, text);
    }
}

/// A client that only listens can rebuild chain and mempool from what it hears.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_heard_makes_the_whole() {
    let mut world = World::new(53);
    world.set_mempool(&[]);
    // The sign of the end.
    let last = world.pay(3, own(0), 1_000);
    let last_id = last.compute_txid().to_string();
    let mut clients = Vec::new();
    for _ in 0..8 {
        let sign = last_id.clone();
        let mut ear = Ear::listen(&world.api, "/events?mempool=1", None).await;
        let state = ear.next().await;
        let tip = state.data["tip"]["hash"]
            .as_str()
            .expect("a hash")
            .to_owned();
        clients.push(tokio::spawn(async move {
            let mut chain = vec![tip];
            let mut mempool: BTreeSet<String> = BTreeSet::new();
            while let Some(event) = ear.maybe_next().await {
                let ids = |name: &str| -> Vec<String> {
                    serde_json::from_value(event.data[name].clone()).expect("ids")
                };
                match event.name.as_str() {
                    "block" => chain.push(event.data["hash"].as_str().expect("a hash").to_owned()),
                    "reorg" => {
                        for left in event.data["disconnected"].as_array().expect("blocks") {
                            // Below the first block heard of there is nothing to take away.
                            if chain.last().map(String::as_str) == left["hash"].as_str() {
                                chain.pop();
                            }
                        }
                    }
                    "mempool" => {
                        for gone in ids("confirmed").into_iter().chain(ids("removed")) {
                            assert!(mempool.remove(&gone), "{gone} left and was not there");
                        }
                        for new in ids("added") {
                            assert!(mempool.insert(new), "came twice");
                        }
                        assert_eq!(event.data["count"], mempool.len());
                    }
                    other => panic!("unexpected {other}"),
                }
                if mempool.contains(&sign) {
                    break;
                }
            }
            (chain.pop().expect("a tip"), mempool)
        }));
    }
    for round in 0..12u64 {
        let txs: Vec<Transaction> = (0..3)
            .map(|coin| world.pay(coin, own(round as u32), 1_000 + round * 1_000))
            .collect();
        world.set_mempool(&txs.iter().collect::<Vec<_>>());
        if round % 3 == 0 {
            world.chain.rewind(1);
            world.chain.mine(Vec::new());
        }
        world.mine(Vec::new());
        world.set_mempool(&[]);
    }
    world.set_mempool(&[&last]);
    for client in clients {
        let (tip, mempool) = client.await.expect("consistent");
        assert_eq!(tip, world.tip());
        assert_eq!(mempool, BTreeSet::from([last_id.clone()]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_hears_the_same_and_can_ask_for_more() {
    let mut world = World::new(54);
    world.set_mempool(&[]);
    let stop = CancellationToken::new();
    let surface = stoppable_surface_of(
        &world.api.index,
        None,
        EsploraOptions::default(),
        stop.clone(),
    );
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen
        .bind(ServeLimits::default().backlog)
        .await
        .expect("a free port");
    let url = format!("ws://{}/events/ws", listener.address().expect("bound"));
    let (end, ended) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, surface, async {
        ended.await.ok();
    }));
    let (mut socket, response) = tokio_tungstenite::connect_async(&url)
        .await
        .expect("upgraded");
    assert_eq!(response.status(), 101);
    let next = async |socket: &mut tokio_tungstenite::WebSocketStream<_>| -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, socket.next())
                .await
                .expect("a message comes")
                .expect("the server goes on")
                .expect("the connection holds");
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).expect("JSON");
            }
        }
    };
    assert_eq!(next(&mut socket).await["event"], "state");
    world.mine(Vec::new());
    let block = next(&mut socket).await;
    assert_eq!(
        (&block["event"], &block["data"]["hash"]),
        (&json!("block"), &json!(world.tip()))
    );
    assert!(block["id"].is_string());

    let tx = world.pay(0, own(3), 1_000);
    let txid = tx.compute_txid().to_string();
    let script = script_hash(&own(3).script_pubkey()).to_lower_hex_string();
    for wrong in ["nonsense", r#"{"watch":{"txs":["zz"]}}"#, r#"{"look":{}}"#] {
        socket.send(Message::text(wrong)).await.expect("sent");
        assert_eq!(next(&mut socket).await["event"], "error", "{wrong}");
    }
    let wish = json!({"watch": {"txs": [txid], "scripthashes": [script]}});
    socket
        .send(Message::text(wish.to_string()))
        .await
        .expect("sent");
    let answer = next(&mut socket).await;
    assert_eq!(
        (&answer["event"], &answer["data"]["known"]),
        (&json!("tx"), &json!(false))
    );
    world.set_mempool(&[&tx]);
    assert_eq!(next(&mut socket).await["event"], "script");
    let answer = next(&mut socket).await;
    assert_eq!(
        (&answer["event"], &answer["data"]["known"]),
        (&json!("tx"), &json!(true))
    );
    let wish = json!({"unwatch": {"scripthashes": [script]}});
    socket
        .send(Message::text(wish.to_string()))
        .await
        .expect("sent");
    world.mine(vec![tx]);
    assert_eq!(next(&mut socket).await["event"], "block");
    let mut answer = next(&mut socket).await;
    // The message and the block may pass each other.
    if answer["event"] == "script" {
        answer = next(&mut socket).await;
    }
    assert_eq!(answer["data"]["status"]["block_hash"], world.tip());

    // A server that is asked to stop ends listeners and does not wait for them.
    let http = stoppable_surface_of(
        &world.api.index,
        None,
        EsploraOptions::default(),
        stop.clone(),
    );
    let request = Request::builder()
        .uri("/events")
        .body(Body::empty())
        .expect("a request");
    let mut body = http.handle(request).await.into_body().into_data_stream();
    assert!(body.next().await.is_some());
    stop.cancel();
    end.send(()).expect("the server runs");
    while let Some(message) = tokio::time::timeout(PATIENCE, socket.next())
        .await
        .expect("the connection ends")
    {
        if message.is_err() {
            break;
        }
    }
    tokio::time::timeout(PATIENCE, async { while body.next().await.is_some() {} })
        .await
        .expect("the stream ends");
    tokio::time::timeout(PATIENCE, server)
        .await
        .expect("the server ends")
        .expect("in good order");
}

/// However many listen, there is a bound, and beyond it a client is told to come back.
#[tokio::test(flavor = "multi_thread")]
async fn listeners_are_bounded() {
    let world = Arc::new(World::new(55));
    let mut ears = Vec::new();
    loop {
        let request = Request::builder()
            .uri("/events")
            .body(Body::empty())
            .expect("a request");
        let response = world.api.surface.handle(request).await;
        if response.status() == 503 {
            assert!(response.headers().contains_key("retry-after"));
            break;
        }
        ears.push(response);
        assert!(ears.len() <= 2_000, "there is no bound");
    }
    assert_eq!(ears.len(), 2_000);
    ears.pop();
    let mut ear = Ear::listen(&world.api, "/events", None).await;
    assert_eq!(ear.next().await.name, "state");
}
