//! Versions, shapes, JSON-RPC and its errors.

use cairn_testkit::TestChain;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixture::{Fixture, Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn negotiation() {
    let chain = TestChain::small(51, 20);
    let fixture = Fixture::of(chain.model()).await;
    for (params, expected) in [
        (json!([]), Some("1.4")),
        (json!(["x"]), Some("1.4")),
        (json!(["x", "1.4"]), Some("1.4")),
        (json!(["x", "1.4.2"]), Some("1.4.2")),
        (json!(["x", ["1.4", "1.6"]]), Some("1.6")),
        (json!(["x", ["1.3", "9"]]), Some("1.7")),
        (
            json!(["x", ["1.4", "1.4"], "further", {"arguments": true}]),
            Some("1.4"),
        ),
        (
            json!({"client_name": "sparrow", "protocol_version": ["1.3", "1.4.2"]}),
            Some("1.4.2"),
        ),
        (json!({"protocol_version": "1.6", "other": 1}), Some("1.6")),
        (json!(["x", null]), Some("1.4")),
        (json!(["x", "1.3"]), None),
        (json!(["x", "2.0"]), None),
        (json!(["x", "abc"]), None),
        (json!(["x", 1.4]), None),
        (json!(["x", ["1.6", "1.4"]]), None),
        (json!(["x", ["1.4"]]), None),
        (json!(["x", ["1.4", "1.5", "1.6"]]), None),
        (json!(["x", {"min": "1.4"}]), None),
    ] {
        let mut client = Client::silent(&fixture.address()).await;
        match (
            client.call("server.version", params.clone()).await,
            expected,
        ) {
            (Ok(agreed), Some(expected)) => {
                assert_eq!(agreed[1], expected, "{params}");
                let features = client.ok("server.features", json!([])).await;
                assert_eq!(features["server_version"], agreed[0], "one name for both");
                let text = client
                    .refused("server.version", json!(["x", "1.4"]), 1)
                    .await;
                assert!(text.contains("already"), "{text}");
                client.ok("server.banner", json!([])).await;
            }
            (Err(refusal), None) => {
                assert_eq!(refusal.code, 1, "{params}");
                assert!(client.is_closed().await, "{params}");
            }
            (other, _) => panic!("{params}: {other:?}"),
        }
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_comes_first_unless_the_operator_is_lenient() {
    let chain = TestChain::small(51, 20);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = Client::silent(&fixture.address()).await;
    client.refused("server.ping", json!([]), 1).await;
    assert!(client.is_closed().await);
    // Everything in one packet: what stands behind the version waits for it.
    let mut client = Client::silent(&fixture.address()).await;
    client.send_raw("{\"id\":1,\"method\":\"server.version\",\"params\":[\"\",\"1.6\"]}\n{\"id\":2,\"method\":\"server.ping\"}\n{\"id\":3,\"method\":\"blockchain.block.headers\",\"params\":[0,1]}\n").await;
    assert_eq!(client.message().await["result"][1], "1.6");
    assert_eq!(
        client.message().await,
        json!({"jsonrpc": "2.0", "id": 2, "result": null})
    );
    assert_eq!(client.message().await["result"]["count"], 1);
    fixture.stop().await;

    let mut setup = Setup::default();
    setup.options.version_first = false;
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut client = Client::silent(&fixture.address()).await;
    assert_eq!(
        client.ok("blockchain.headers.subscribe", json!([])).await["height"],
        20
    );
    assert_eq!(
        client.ok("server.version", json!(["late", "1.6"])).await[1],
        "1.6"
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_version_has_its_own_shapes() {
    let chain = TestChain::small(52, 30);
    let mut setup = Setup::default();
    setup.options.banner = "hello from $SERVER_VERSION, $DONATION_ADDRESS".to_owned();
    setup.options.donation_address = "bcrt1qdonate".to_owned();
    let fixture = Fixture::with(chain.model(), setup).await;
    for version in ["1.4", "1.4.2", "1.6", "1.7"] {
        let mut client = fixture.client(version).await;
        let is_at_least = |other: &str| version >= other;
        let headers = client.ok("blockchain.block.headers", json!([0, 2])).await;
        assert_eq!(
            headers.get("headers").is_some(),
            is_at_least("1.6"),
            "{version}: {headers}"
        );
        assert_eq!(
            headers.get("hex").is_some(),
            !is_at_least("1.6"),
            "{version}: {headers}"
        );
        if is_at_least("1.6") {
            assert_eq!(headers["headers"].as_array().map(Vec::len), Some(2));
            client
                .refused("blockchain.relayfee", json!([]), -32601)
                .await;
        } else {
            // The method is there; it is the node that is not.
            client.refused("blockchain.relayfee", json!([]), 2).await;
        }
        if is_at_least("1.7") {
            assert_eq!(
                client.ok("server.ping", json!([])).await,
                json!({"data": ""})
            );
            assert_eq!(
                client.ok("server.ping", json!([5, "00ff"])).await,
                json!({"data": "00000"})
            );
            assert_eq!(
                client.ok("server.ping", json!({"pong_len": 3})).await,
                json!({"data": "000"})
            );
            client
                .refused("server.ping", json!([99_999_999_999u64]), 1)
                .await;
        } else {
            assert_eq!(client.ok("server.ping", json!([])).await, Value::Null);
            client.refused("server.ping", json!([5]), -32602).await;
        }
        let features = client.ok("server.features", json!([])).await;
        assert_eq!(features.get("hash_function").is_some(), !is_at_least("1.7"));
        assert_eq!(
            features["genesis_hash"],
            chain.model().block_at(0).expect("genesis").hash.to_string()
        );
        assert_eq!(
            (&features["protocol_min"], &features["protocol_max"]),
            (&json!("1.4"), &json!("1.7"))
        );
        assert_eq!(
            (&features["pruning"], &features["hosts"]),
            (&Value::Null, &json!({}))
        );
        let banner = client.ok("server.banner", json!([])).await;
        assert_eq!(
            banner,
            format!(
                "hello from {}, bcrt1qdonate",
                features["server_version"].as_str().expect("text")
            )
        );
        assert_eq!(
            client.ok("server.donation_address", json!([])).await,
            "bcrt1qdonate"
        );
        assert_eq!(
            client.ok("server.peers.subscribe", json!([])).await,
            json!([])
        );
        let tip = client.ok("blockchain.headers.subscribe", json!([])).await;
        assert_eq!(
            tip,
            client.ok("blockchain.headers.get_tip", json!([])).await
        );
        assert_eq!(tip, client.ok("blockchain.header.get", json!([30])).await);
        assert_eq!(
            tip,
            client
                .ok("blockchain.header.get", json!([chain.model().tip().hash]))
                .await
        );
        assert_eq!(
            client.ok("blockchain.headers.unsubscribe", json!([])).await,
            true
        );
        assert_eq!(
            client.ok("blockchain.headers.unsubscribe", json!([])).await,
            false
        );
        // Without a node: what needs one says so.
        client
            .refused("blockchain.estimatefee", json!([5]), 2)
            .await;
        client
            .refused("blockchain.estimatefee", json!([-5]), 1)
            .await;
        client
            .refused("blockchain.estimatefee", json!([5, "fast"]), 1)
            .await;
        client
            .refused("blockchain.transaction.broadcast", json!(["zz"]), 1)
            .await;
        let text = client
            .refused(
                "blockchain.transaction.get",
                json!([chain.model().block_at(7).expect("there").txids[0], true]),
                1,
            )
            .await;
        assert!(
            text.starts_with("verbose transactions are currently unsupported"),
            "{text}"
        );
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_params_batches_and_errors() {
    let chain = TestChain::small(53, 20);
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    for id in [
        "0",
        "-1",
        "1.5",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\\u00e9\"",
        "\"\\n\"",
        "1e3",
    ] {
        client
            .send_raw(format!("{{\"id\":{id},\"method\":\"server.ping\"}}\n"))
            .await;
        let line = client.line().await.expect("an answer");
        assert!(line.contains(&format!("\"id\":{id},")), "{line}");
    }
    let error = |id: Value, code: i64| (id, code);
    for (text, (id, code)) in [
        ("nonsense", error(Value::Null, -32700)),
        (
            "{\"id\":1,\"method\":\"server.ping\"",
            error(Value::Null, -32700),
        ),
        ("[1,2", error(Value::Null, -32700)),
        ("5", error(Value::Null, -32600)),
        ("\"text\"", error(Value::Null, -32600)),
        ("[]", error(Value::Null, -32600)),
        ("{\"id\":1}", error(Value::Null, -32600)),
        (
            "{\"id\":[1],\"method\":\"server.ping\"}",
            error(Value::Null, -32600),
        ),
        (
            "{\"id\":{},\"method\":\"server.ping\"}",
            error(Value::Null, -32600),
        ),
        ("{\"id\":1,\"method\":7}", error(Value::Null, -32600)),
        (
            "{\"id\":1,\"method\":\"server.nothing\"}",
            error(json!(1), -32601),
        ),
        ("{\"id\":1,\"method\":\"\"}", error(json!(1), -32601)),
        (
            "{\"id\":1,\"method\":\"server.banner\",\"params\":5}",
            error(json!(1), -32602),
        ),
        (
            "{\"id\":1,\"method\":\"server.banner\",\"params\":[1]}",
            error(json!(1), -32602),
        ),
        (
            "{\"id\":1,\"method\":\"server.banner\",\"params\":{\"x\":1}}",
            error(json!(1), -32602),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.scripthash.get_history\"}",
            error(json!(1), -32602),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.scripthash.get_history\",\"params\":[[]]}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.scripthash.get_history\",\"params\":[\"00\"]}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.scripthash.get_history\",\"params\":{\"scripthash\":\"00\"}}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.transaction.get\",\"params\":[\"00\"]}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.transaction.get\",\"params\":[\"00\",1,2]}",
            error(json!(1), -32602),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.block.header\",\"params\":[1.5]}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"blockchain.block.header\",\"params\":[true]}",
            error(json!(1), 1),
        ),
        (
            "{\"id\":1,\"method\":\"server.add_peer\",\"params\":[5]}",
            error(json!(1), 1),
        ),
    ] {
        let answer = client.ask_raw(text).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{text}: {answer}"
        );
        assert!(answer["error"]["message"].is_string() && answer.get("result").is_none());
    }
    // Invalid UTF-8 is no JSON.
    client.send_raw(b"{\"id\":1,\"method\":\"\xff\"}\n").await;
    assert_eq!(client.message().await["error"]["code"], -32700);
    // Named arguments, spaces, carriage returns, pieces.
    let named = client
        .ok(
            "blockchain.block.headers",
            json!({"start_height": 1, "count": 2}),
        )
        .await;
    assert_eq!(named["count"], 2);
    client.send_raw(" \t{\"id\":7, \"method\"").await;
    client
        .send_raw(": \"server.ping\", \"further\": [1]}  \r\n")
        .await;
    assert_eq!(client.message().await["id"], 7);
    // Notifications are never answered, whatever they are.
    client.send_raw("{\"method\":\"server.ping\"}\n{\"method\":\"nothing\",\"params\":5}\n{\"id\":null,\"method\":\"server.banner\"}\n[{\"method\":\"server.ping\"}]\n{\"id\":3,\"result\":5}\n").await;
    // A batch: one array, without the silent ones, with an error for what is no request.
    let answer = client.ask_raw("[{\"id\":1,\"method\":\"server.ping\"}, 5, {\"method\":\"server.ping\"}, {\"id\":\"b\",\"method\":\"nothing\"}]").await;
    let answers = answer.as_array().expect("an array");
    assert_eq!(answers.len(), 3, "{answer}");
    assert_eq!(
        answers[0],
        json!({"jsonrpc": "2.0", "id": 1, "result": null})
    );
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&Value::Null, &json!(-32600))
    );
    assert_eq!(
        (&answers[2]["id"], &answers[2]["error"]["code"]),
        (&json!("b"), &json!(-32601))
    );
    // A last line without its end, and the client's half of the connection closed.
    client
        .send_raw("{\"id\":9,\"method\":\"server.ping\"}")
        .await;
    client.finish().await;
    assert_eq!(client.message().await["id"], 9);
    assert!(client.is_closed().await);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_first_load_everything_about_the_chain_waits() {
    let chain = TestChain::small(54, 20);
    let fixture = Fixture::unsynced(chain.model(), Setup::default()).await;
    let mut client = fixture.client("1.4").await;
    for method in ["server.features", "server.banner", "server.ping"] {
        client.ok(method, json!([])).await;
    }
    let hash = "00".repeat(32);
    for (method, params) in [
        ("blockchain.headers.subscribe", json!([])),
        ("blockchain.block.header", json!([0])),
        ("blockchain.scripthash.subscribe", json!([hash])),
        ("blockchain.scripthash.get_history", json!([hash])),
        ("blockchain.transaction.get", json!([hash])),
    ] {
        let text = client.refused(method, params, -32603).await;
        assert!(text.contains("still being built"), "{text}");
    }
    assert_eq!(fixture.server.subscriptions(), 0);
    // And goes on by itself: what was refused works, and a follower of tips is told.
    fixture.sync(chain.model(), &[]).await;
    assert_eq!(
        client.ok("blockchain.headers.subscribe", json!([])).await["height"],
        20
    );
    assert_eq!(
        client
            .ok("blockchain.scripthash.subscribe", json!([hash]))
            .await,
        Value::Null
    );
    fixture.stop().await;
}

#[test]
fn nothing_a_client_sends_breaks_anything() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let chain = TestChain::small(55, 110);
    let fixture = runtime.block_on(async { Fixture::of(chain.model()).await });
    let methods = cairn_electrum::method_names();
    let txid = chain.model().tip().txids[0].to_string();
    let hash = "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161";
    let value = prop_oneof![
        Just(json!(txid)),
        Just(json!(hash)),
        any::<i64>().prop_map(|number| json!(number)),
        (-1i64..130).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(|flag| json!(flag)),
        "\\PC{0,20}".prop_map(|text| json!(text)),
        Just(Value::Null),
        Just(json!([])),
        Just(json!(["00", {"a": [1]}])),
        Just(json!({"hosts": {"localhost": {"tcp_port": 1}}})),
    ];
    let request = (
        0..methods.len(),
        proptest::collection::vec(value, 0..4),
        any::<bool>(),
    )
        .prop_map(move |(method, params, extra)| {
            let mut request =
                json!({"jsonrpc": "2.0", "id": 1, "method": methods[method], "params": params});
            if extra {
                request["params"] = json!({"scripthash": "x", "tx_hash": 5});
            }
            request.to_string()
        });
    let line = prop_oneof![
        4 => request.clone(),
        1 => proptest::collection::vec(request, 0..5).prop_map(|requests| format!("[{}]", requests.join(","))),
        1 => "[\\[\\]{}\":,0-9a-z ]{0,60}",
        1 => "\\PC{0,60}",
    ];
    let mut runner = TestRunner::new(Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&proptest::collection::vec(line, 1..4), |lines| {
        runtime.block_on(async {
            let mut client = fixture.client("1.7").await;
            for line in &lines {
                client.send_raw(format!("{line}\n")).await;
            }
            // Whatever it was, every line that comes back is an answer or a notification, and the session goes on.
            client
                .send_raw("{\"id\":\"end\",\"method\":\"blockchain.headers.get_tip\"}\n")
                .await;
            loop {
                let message = client.message().await;
                if message["id"] == "end" {
                    prop_assert_eq!(&message["result"]["height"], &json!(110));
                    return Ok(());
                }
                for answer in message.as_array().unwrap_or(&vec![message.clone()]) {
                    let code = answer["error"]["code"].as_i64();
                    prop_assert!(code != Some(-32603), "{:?}: {}", lines, answer);
                }
            }
        })
    });
    outcome.expect("nothing breaks");
    runtime.block_on(fixture.stop());
}
