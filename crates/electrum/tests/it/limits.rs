//! What is beyond a bound gets an error that names it, or is cut off; nobody else notices.

use std::time::Duration;

use cairn_testkit::{MempoolModel, TestChain, spend};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Client, PATIENCE};
use crate::fixture::{Fixture, Setup, free_port, until};
use crate::model::{own_script, pay, printed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_batches_and_answers() {
    let chain = TestChain::small(71, 130);
    let mut setup = Setup::default();
    setup.options.limits.request_bytes = 200_000;
    setup.options.limits.response_bytes = 20_000;
    setup.options.limits.batch = 10;
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut client = fixture.client("1.6").await;
    // Just fits, one too many.
    let ping = json!({"id": 1, "method": "server.ping"}).to_string();
    let batch = |count: usize| format!("[{}]", vec![ping.as_str(); count].join(","));
    assert_eq!(
        client.ask_raw(&batch(10)).await.as_array().map(Vec::len),
        Some(10)
    );
    let answer = client.ask_raw(&batch(11)).await;
    assert_eq!(answer["error"]["code"], 4);
    assert!(
        answer["error"]["message"]
            .as_str()
            .expect("text")
            .contains("10"),
        "{answer}"
    );
    // An answer that is too large, alone and as the part of a batch that has room for a first one.
    client
        .refused("blockchain.block.headers", json!([0, 131]), 4)
        .await;
    assert_eq!(
        client.ok("blockchain.block.headers", json!([0, 100])).await["count"],
        100
    );
    let headers =
        |id: u32| json!({"id": id, "method": "blockchain.block.headers", "params": [0, 70]});
    let answer = client
        .ask_raw(&json!([headers(1), headers(2), {"id": 3, "method": "server.ping"}]).to_string())
        .await;
    assert_eq!(
        (&answer[0]["result"]["count"], &answer[1]["error"]["code"]),
        (&json!(70), &json!(4)),
        "{answer}"
    );
    assert_eq!(
        answer[2],
        json!({"jsonrpc": "2.0", "id": 3, "result": null})
    );
    // A request of full length is served, a longer one ends the session after it was said why.
    let long = |length: usize| {
        let start = "{\"id\":1,\"method\":\"server.ping\",\"further\":\"";
        format!("{start}{}\"}}", "x".repeat(length - start.len() - 2))
    };
    assert_eq!(client.ask_raw(&long(200_000)).await["result"], Value::Null);
    let answer = client.ask_raw(&long(200_001)).await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(
        answer["error"]["message"]
            .as_str()
            .expect("text")
            .contains("200000"),
        "{answer}"
    );
    assert!(client.is_closed().await);
    // One that never ends, too.
    let mut endless = fixture.client("1.6").await;
    endless.send_raw(vec![b'['; 300_000]).await;
    assert_eq!(endless.message().await["error"]["code"], -32600);
    assert!(endless.is_closed().await);
    let ended = "cairn_electrum_session_ends_total{chain=\"test\",reason=\"line-too-long\"}";
    until("both are counted", async || {
        fixture.metric(ended) == Some(2.0)
    })
    .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions() {
    let chain = TestChain::small(72, 30);
    let mut setup = Setup::default();
    setup.options.limits.subscriptions_per_session = 5;
    setup.options.limits.subscriptions = 8;
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut client = fixture.client("1.6").await;
    let ask = |number: u32| json!([printed(&own_script(number))]);
    for number in 0..5 {
        client
            .ok("blockchain.scripthash.subscribe", ask(number))
            .await;
    }
    let text = client
        .refused("blockchain.scripthash.subscribe", ask(5), 4)
        .await;
    assert!(text.contains("at most 5"), "{text}");
    client
        .refused(
            "blockchain.outpoint.subscribe",
            json!(["00".repeat(32), 0]),
            4,
        )
        .await;
    client.ok("blockchain.scripthash.subscribe", ask(4)).await;
    client.ok("blockchain.scripthash.unsubscribe", ask(4)).await;
    client.ok("blockchain.scripthash.subscribe", ask(5)).await;
    let mut second = fixture.client("1.6").await;
    for number in 0..3 {
        second
            .ok("blockchain.scripthash.subscribe", ask(number))
            .await;
    }
    let text = second
        .refused("blockchain.scripthash.subscribe", ask(3), 4)
        .await;
    assert!(text.contains("no room"), "{text}");
    drop(client);
    until("room again", async || {
        second
            .call("blockchain.scripthash.subscribe", ask(3))
            .await
            .is_ok()
    })
    .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_ends_a_session_and_requests_keep_it() {
    let chain = TestChain::small(73, 30);
    let mut setup = Setup::default();
    setup.options.limits.idle = Duration::from_millis(700);
    setup.options.limits.request_time = Duration::from_millis(700);
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut silent = Client::silent(&fixture.address()).await;
    let mut idle = fixture.client("1.4").await;
    let mut unfinished = fixture.client("1.4").await;
    unfinished.send_raw("{\"id\":1,").await;
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut busy = fixture.client("1.4").await;
    let asking = tokio::spawn({
        let done = done.clone();
        async move {
            // Keeps asking until all others are gone.
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(busy.ok("server.ping", json!([])).await, Value::Null);
            }
        }
    });
    assert!(silent.is_closed().await && idle.is_closed().await && unfinished.is_closed().await);
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    asking.await.expect("it was served all the time");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_are_cut_off_and_nobody_else_waits() {
    let mut chain = TestChain::small(74, 130);
    let mut setup = Setup::default();
    setup.options.limits.stall = Duration::from_millis(500);
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut other = fixture.client("1.4").await;
    // Asks for far more than sockets hold, and never reads.
    let mut slow = TcpStream::connect(fixture.address())
        .await
        .expect("listens");
    let mut asked = String::from("{\"id\":0,\"method\":\"server.version\"}\n");
    for id in 1..3_000 {
        asked.push_str(&format!(
            "{{\"id\":{id},\"method\":\"blockchain.block.headers\",\"params\":[0,131]}}\n"
        ));
    }
    slow.write_all(asked.as_bytes())
        .await
        .expect("the server reads, or the sockets hold it");
    let ended = "cairn_electrum_session_ends_total{chain=\"test\",reason=\"slow-reader\"}";
    until("it is cut off", async || {
        other.ok("blockchain.block.headers", json!([0, 131])).await;
        fixture.metric(ended) == Some(1.0)
    })
    .await;
    // What it was sent before is cut in the middle.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut rest))
        .await
        .expect("closed");
    assert!(rest.len() < 3_000 * 21_000);
    // A subscriber that does not read has each of its notifications waiting once.
    let mut deaf = fixture.client("1.4").await;
    deaf.ok(
        "blockchain.scripthash.subscribe",
        json!([printed(&own_script(1))]),
    )
    .await;
    for _ in 0..20 {
        let coin = chain.coins(1)[0];
        chain.mine(vec![spend(&[coin], vec![pay(1, coin.value / 2)])]);
        fixture.sync(chain.model(), &[]).await;
    }
    let last = crate::model::status(&crate::model::history(
        chain.model(),
        &MempoolModel::default(),
        &own_script(1),
    ));
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        heard.push(deaf.notification().await.1[1].clone());
    }
    assert!(heard.len() <= 20);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cost_is_counted_for_a_network_and_ends_in_disconnection() {
    let chain = TestChain::small(75, 130);
    let mut setup = Setup {
        endpoints: vec![(
            free_port(),
            cairn_electrum::Transport::Tcp,
            vec!["127.0.0.1".parse().expect("an address")],
        )],
        ..Setup::default()
    };
    setup.options.limits.cost_hard = 100.0;
    setup.options.limits.cost_soft = 90.0;
    setup.options.limits.cost_refund = 0.0;
    let fixture = Fixture::with(chain.model(), setup).await;
    let address = fixture.addresses[1].to_string();
    let from = async |ip: &str| {
        let mut client = Client::silent(&address).await;
        client
            .send_raw(format!(
                "PROXY TCP4 {ip} 127.0.0.1 1 2\r\n{{\"id\":0,\"method\":\"server.version\"}}\n"
            ))
            .await;
        client.line().await.map(|_| client)
    };
    let mut client = from("198.51.100.7").await.expect("served");
    let mut last = Value::Null;
    // Each costs a few units.
    for id in 0..200 {
        client
            .send_raw(format!(
                "{{\"id\":{id},\"method\":\"blockchain.block.headers\",\"params\":[0,131]}}\n"
            ))
            .await;
        last = client.message().await;
        if last.get("error").is_some() {
            break;
        }
    }
    assert!(client.is_closed().await);
    assert_eq!(last["error"]["code"], -101, "it is told why: {last}");
    assert!(
        from("198.51.100.8").await.is_none(),
        "the network is remembered"
    );
    assert!(
        from("198.51.101.8").await.is_some(),
        "another one is not meant"
    );
    let ended = "cairn_electrum_session_ends_total{chain=\"test\",reason=\"cost\"}";
    until("it is counted", async || fixture.metric(ended) == Some(1.0)).await;
    // Loopback itself has no account.
    let mut free = fixture.client("1.4").await;
    for _ in 0..200 {
        free.ok("blockchain.block.headers", json!([0, 131])).await;
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_and_not_one_more_than_allowed() {
    let chain = TestChain::small(76, 30);
    let mut setup = Setup::default();
    setup.options.limits.sessions = 1_500;
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut clients = Vec::new();
    for _ in 0..1_500 {
        clients.push(fixture.client("1.4").await);
    }
    let mut excess = Client::silent(&fixture.address()).await;
    assert_eq!(excess.line().await, None, "closed at once");
    assert_eq!(
        fixture.metric("cairn_electrum_sessions{chain=\"test\",listener=\"tcp\"}"),
        Some(1_500.0)
    );
    for client in clients.iter_mut().step_by(100) {
        client.ok("blockchain.headers.subscribe", json!([])).await;
    }
    clients.truncate(1_400);
    until("places are free again", async || {
        let mut client = Client::silent(&fixture.address()).await;
        client
            .send_raw("{\"id\":0,\"method\":\"server.version\"}\n")
            .await;
        client.line().await.is_some()
    })
    .await;
    // Stopping says goodbye to all of them.
    fixture.stop().await;
    for mut client in clients.into_iter().step_by(200) {
        assert!(client.is_closed().await);
    }
}
