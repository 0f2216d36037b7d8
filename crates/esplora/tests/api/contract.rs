//! Texts, statuses, headers: what clients compare literally.

use std::sync::Arc;

use axum::body::Body;
use bitcoin::Txid;
use bitcoin::hashes::Hash;
use cairn_esplora::{EsploraOptions, NodeCallError, NodeCalls, NodeFuture, openapi};
use cairn_testkit::{Model, TestChain};

use crate::support::{Api, LONG, SHORT, Setup, class_at};

const UNKNOWN: &str = "00000000000000000000000000000000000000000000000000000000deadbeef";

#[tokio::test(flavor = "multi_thread")]
async fn table_of_errors() {
    let chain = TestChain::small(1, 103);
    let model = chain.model();
    let api = Api::of(model);
    let tip = model.tip();
    let (block, tx, coinbase) = (tip.hash, tip.txids[tip.txids.len() - 1], tip.txids[0]);
    let script = "11".repeat(32);
    let above = model.height() + 1;
    let long_list = [UNKNOWN; 51].join(",");
    for (uri, status, text) in [
        ("/".to_owned(), 404, "endpoint does not exist \"/\""),
        (
            "/blocks/tip/size".to_owned(),
            404,
            "endpoint does not exist \"/blocks/tip/size\"",
        ),
        (
            "/internal/mempool/txs".to_owned(),
            404,
            "endpoint does not exist \"/internal/mempool/txs\"",
        ),
        (format!("/scripthash/{script}/txs/other"), 404, ""),
        (format!("/blocks/{above}"), 404, "Block not found"),
        (
            "/blocks/99999999999999999999".to_owned(),
            404,
            "Block not found",
        ),
        (format!("/block-height/{above}"), 404, "Block not found"),
        (
            "/block-height/99999999999999999999".to_owned(),
            404,
            "Block not found",
        ),
        ("/block-height/x".to_owned(), 400, "Invalid number"),
        ("/block-height/-1".to_owned(), 400, "Invalid number"),
        ("/block/zz".to_owned(), 400, "Invalid hex string"),
        ("/block/abc".to_owned(), 400, "Invalid hex string"),
        ("/block/abcd".to_owned(), 400, "Invalid hash string"),
        ("/block/%FF".to_owned(), 400, "Invalid hex string"),
        (format!("/block/{UNKNOWN}"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/txs"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/txs/25"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/txids"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/txid/0"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/header"), 404, "Block not found"),
        (format!("/block/{UNKNOWN}/raw"), 404, "Block not found"),
        ("/block/zz/status".to_owned(), 400, "Invalid hex string"),
        (
            format!("/block/{block}/txs/7"),
            400,
            "start index must be a multiple of 25",
        ),
        (
            format!("/block/{block}/txs/1000000"),
            400,
            "start index out of range",
        ),
        (
            format!("/block/{block}/txs/99999999999999999999"),
            400,
            "start index out of range",
        ),
        (format!("/block/{block}/txid/x"), 400, "Invalid number"),
        (
            format!("/block/{block}/txid/1000000"),
            404,
            "tx index out of range",
        ),
        (format!("/block/{block}/nothing"), 404, ""),
        ("/tx/zz".to_owned(), 400, "Invalid hex string"),
        ("/tx/abcd".to_owned(), 400, "Invalid hash string"),
        (format!("/tx/{UNKNOWN}"), 404, "Transaction not found"),
        (format!("/tx/{UNKNOWN}/hex"), 404, "Transaction not found"),
        (format!("/tx/{UNKNOWN}/raw"), 404, "Transaction not found"),
        (
            format!("/tx/{UNKNOWN}/outspends"),
            404,
            "Transaction not found",
        ),
        (
            format!("/tx/{UNKNOWN}/merkle-proof"),
            404,
            "Transaction not found or is unconfirmed",
        ),
        (
            format!("/tx/{UNKNOWN}/merkleblock-proof"),
            404,
            "Transaction not found or is unconfirmed",
        ),
        ("/tx/zz/status".to_owned(), 400, "Invalid hex string"),
        (format!("/tx/{tx}/outspend/x"), 400, "Invalid number"),
        ("/tx/zz/outspend/0".to_owned(), 400, "Invalid hex string"),
        ("/txs/outspends".to_owned(), 400, "No txids specified"),
        (
            "/txs/outspends?txids=".to_owned(),
            400,
            "No txids specified",
        ),
        (
            format!("/txs/outspends?txids={long_list}"),
            400,
            "Too many txids requested",
        ),
        (
            format!("/txs/outspends?txids={UNKNOWN},zz"),
            400,
            "Invalid hex string",
        ),
        ("/broadcast".to_owned(), 400, "Missing tx"),
        ("/broadcast?tx=zz".to_owned(), 400, "Invalid hex string"),
        ("/address/zz".to_owned(), 400, "Invalid Bitcoin address"),
        (
            "/address/%FF/utxo".to_owned(),
            400,
            "Invalid Bitcoin address",
        ),
        (
            "/address/1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2".to_owned(),
            400,
            "Address on invalid network",
        ),
        (
            "/address/bc1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysn4v0345/txs".to_owned(),
            400,
            "Address on invalid network",
        ),
        ("/scripthash/zz".to_owned(), 400, "Invalid hex string"),
        ("/scripthash/abcd".to_owned(), 400, "Invalid scripthash"),
        ("/scripthash/abcd/txs".to_owned(), 400, "Invalid scripthash"),
        (
            format!("/scripthash/{script}/txs?max_txs=x"),
            400,
            "Invalid number",
        ),
        (
            format!("/scripthash/{script}/txs/chain/zz"),
            400,
            "Invalid hex string",
        ),
        (
            format!("/scripthash/{script}/txs/chain/abcd"),
            400,
            "Invalid hash string",
        ),
        (
            format!("/scripthash/{script}/txs?after_txid=abcd"),
            400,
            "Invalid hash string",
        ),
        (
            format!("/scripthash/{script}/txs?after_txid={UNKNOWN}"),
            422,
            "after_txid not found",
        ),
        // Known, but not of this history.
        (
            format!("/scripthash/{script}/txs?after_txid={coinbase}"),
            422,
            "after_txid not found",
        ),
        (
            format!("/scripthash/{script}/txs/summary/{coinbase}"),
            422,
            "after_txid not found",
        ),
        (
            format!("/scripthash/{script}/txs/summary/abcd"),
            400,
            "Invalid hash string",
        ),
    ] {
        let endpoint = format!("endpoint does not exist \"{uri}\"");
        let text = if text.is_empty() { &endpoint } else { text };
        for uri in [uri.clone(), with_slash(&uri)] {
            if status == 404 && text.starts_with("endpoint") && uri.ends_with('/') {
                continue;
            }
            api.get(&uri).await.assert_error(status, text);
        }
        let got = api
            .ask(
                "GET",
                &uri,
                &[("accept", "application/json")],
                Body::empty(),
            )
            .await;
        assert_eq!(
            got.header("content-type"),
            Some("application/json"),
            "{uri}"
        );
        let object: serde_json::Value = serde_json::from_slice(&got.bytes).expect("JSON");
        assert_eq!(object, serde_json::json!({ "error": text }), "{uri}");
    }
    // A cursor of another history ends a walk by path.
    let got = api
        .get(&format!("/scripthash/{script}/txs/chain/{coinbase}"))
        .await;
    assert_eq!((got.status, got.text()), (200, "[]"));
    let got = api.get(&format!("/tx/{UNKNOWN}/status")).await;
    assert_eq!((got.status, got.text()), (200, r#"{"confirmed":false}"#));
    let got = api.get(&format!("/tx/{UNKNOWN}/outspend/0")).await;
    assert_eq!((got.status, got.text()), (200, r#"{"spent":false}"#));
    let got = api.get(&format!("/block/{UNKNOWN}/status")).await;
    assert_eq!(
        got.text(),
        r#"{"in_best_chain":false,"height":null,"next_best":null}"#
    );
    got.assert_class(SHORT);
}

fn with_slash(uri: &str) -> String {
    match uri.split_once('?') {
        Some((path, query)) => format!("{path}/?{query}"),
        None => format!("{uri}/"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_unions() {
    let chain = TestChain::small(1, 103);
    let api = Api::of(chain.model());
    let many = format!("[{}\"x\"]", "\"x\",".repeat(300));
    let exactly = format!("[{}\"x\"]", "\"x\",".repeat(299));
    for endpoint in [
        "/addresses/txs",
        "/scripthashes/txs",
        "/addresses/txs/summary",
        "/scripthashes/txs/summary",
    ] {
        api.post(endpoint, many.clone())
            .await
            .assert_error(422, "body too long");
        assert_eq!(api.post(endpoint, exactly.clone()).await.text(), "[]");
        api.post(endpoint, "{}")
            .await
            .assert_error(400, "body is not a JSON array");
        api.post(endpoint, "")
            .await
            .assert_error(400, "body is not a JSON array");
        api.post(endpoint, vec![b' '; 1_000_001])
            .await
            .assert_error(413, "Request body too large");
        let got = api.get(endpoint).await;
        assert_eq!((got.status, got.header("allow")), (405, Some("POST")));
    }
    let uri = format!("/scripthashes/txs?after_txid={UNKNOWN}");
    let two = format!("[\"{}\",\"{}\"]", "11".repeat(32), "22".repeat(32));
    api.post(&uri, two)
        .await
        .assert_error(422, "after_txid not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_load_everything_waits() {
    let model = Model::new(bitcoin::Network::Regtest);
    let api = Api::unsynced(&model, Setup::default());
    for uri in [
        "/blocks/tip/height".to_owned(),
        "/blocks/tip/hash".to_owned(),
        "/blocks".to_owned(),
        "/block-height/0".to_owned(),
        format!("/block/{UNKNOWN}"),
        format!("/block/{UNKNOWN}/status"),
        format!("/tx/{UNKNOWN}"),
        format!("/tx/{UNKNOWN}/status"),
        format!("/scripthash/{UNKNOWN}"),
        format!("/scripthash/{UNKNOWN}/utxo"),
    ] {
        api.get(&uri)
            .await
            .assert_error(503, "index not yet synced");
    }
    // What the client can repair is said at once.
    api.get("/tx/zz")
        .await
        .assert_error(400, "Invalid hex string");
    api.sync(&model);
    assert_eq!(api.get("/blocks/tip/height").await.ok_text(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_follow_the_depth_also_downward() {
    let mut chain = TestChain::small(2, 115);
    let api = Api::of(chain.model());
    let tip = chain.height();
    for (height, class) in [(tip - 9, SHORT), (tip - 10, LONG)] {
        assert_eq!(class, class_at(tip, height));
        let block = chain.model().block_at(height).expect("of the chain");
        let txid = block.txids[0];
        for uri in [
            format!("/block-height/{height}"),
            format!("/block/{}/status", block.hash),
            format!("/block/{}/txs", block.hash),
            format!("/tx/{txid}"),
            format!("/tx/{txid}/status"),
            format!("/tx/{txid}/hex"),
            format!("/tx/{txid}/raw"),
            format!("/tx/{txid}/merkle-proof"),
            format!("/tx/{txid}/merkleblock-proof"),
        ] {
            api.get(&uri).await.assert_class(class);
        }
    }
    // The tip goes down: what was deep is not deep any more.
    let block = chain
        .model()
        .block_at(tip - 10)
        .expect("of the chain")
        .clone();
    chain.rewind(5);
    api.sync(chain.model());
    assert_eq!(
        api.get("/blocks/tip/height").await.ok_text(),
        (tip - 5).to_string()
    );
    api.get(&format!("/tx/{}", block.txids[0]))
        .await
        .assert_class(SHORT);
    api.get(&format!("/block-height/{}", tip - 10))
        .await
        .assert_class(SHORT);
    api.get(&format!("/block-height/{tip}"))
        .await
        .assert_error(404, "Block not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_of_moving_and_of_fixed_answers() {
    let mut chain = TestChain::small(4, 115);
    let api = Api::of(chain.model());
    let old = chain.model().block_at(101).expect("of the chain").clone();
    let (moving, fixed) = ("/blocks".to_owned(), format!("/tx/{}", old.txids[0]));
    let conditional = async |uri: &str, tag: &str| {
        api.ask("GET", uri, &[("if-none-match", tag)], Body::empty())
            .await
    };
    let moving_tag = api
        .get(&moving)
        .await
        .header("etag")
        .expect("tagged")
        .to_owned();
    let fixed_tag = api
        .get(&fixed)
        .await
        .header("etag")
        .expect("tagged")
        .to_owned();
    for (uri, tag, class) in [(&moving, &moving_tag, SHORT), (&fixed, &fixed_tag, LONG)] {
        let got = conditional(uri, tag).await;
        assert_eq!((got.status, got.text()), (304, ""));
        assert_eq!(got.header("etag"), Some(tag.as_str()));
        assert_eq!(got.header("cache-control"), Some(class));
        assert_eq!(got.header("access-control-allow-origin"), Some("*"));
    }
    assert_eq!(
        api.get("/blocks/tip/hash").await.header("etag"),
        Some(moving_tag.as_str()),
        "one state"
    );
    chain.grow(1);
    api.sync(chain.model());
    assert_eq!(
        conditional(&moving, &moving_tag).await.status,
        200,
        "a new tip"
    );
    assert_eq!(
        conditional(&fixed, &fixed_tag).await.status,
        304,
        "the same content"
    );
    chain.fork(1, 1);
    api.sync(chain.model());
    assert_eq!(conditional(&moving, &moving_tag).await.status, 200);
    api.ask(
        "GET",
        "/tx/zz",
        &[("if-none-match", &moving_tag)],
        Body::empty(),
    )
    .await
    .assert_error(400, "Invalid hex string");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_options_and_other_methods() {
    let chain = TestChain::small(5, 103);
    let api = Api::of(chain.model());
    let hash = chain.model().tip().hash;
    for uri in [
        "/blocks/tip/height".to_owned(),
        "/blocks".to_owned(),
        format!("/block/{hash}/raw"),
    ] {
        let get = api.get(&uri).await;
        let head = api.ask("HEAD", &uri, &[], Body::empty()).await;
        assert_eq!((head.status, head.bytes.len()), (200, 0));
        for name in [
            "content-type",
            "cache-control",
            "etag",
            "access-control-allow-origin",
        ] {
            assert_eq!(head.header(name), get.header(name), "{uri} {name}");
        }
        assert_eq!(
            head.header("content-length"),
            Some(get.bytes.len().to_string().as_str())
        );
        let got = api.ask("DELETE", &uri, &[], Body::empty()).await;
        got.assert_error(405, "method not allowed");
        assert_eq!(got.header("allow"), Some("GET,HEAD"));
    }
    let preflight = [
        ("origin", "https://wallet.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let got = api.ask("OPTIONS", "/tx", &preflight, Body::empty()).await;
    assert_eq!((got.status, got.bytes.len()), (204, 0));
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, HEAD, POST, OPTIONS"),
        (
            "access-control-allow-headers",
            "content-type, if-none-match",
        ),
        ("access-control-max-age", "86400"),
    ] {
        assert_eq!(got.header(name), Some(value));
    }
}

/// A node that says what the transaction tells it to say.
struct Parrot;

impl Parrot {
    fn verdict(first: &str) -> Result<(), NodeCallError> {
        match first {
            "00" => {
                let failure = r#"{"code":-26,"message":"dust"}"#;
                Err(NodeCallError::Rejected {
                    text: format!("sendrawtransaction RPC error: {failure}"),
                    failure: failure.to_owned(),
                })
            }
            "01" => Err(NodeCallError::Unavailable("node is warming up".to_owned())),
            _ => Ok(()),
        }
    }
}

impl NodeCalls for Parrot {
    fn broadcast<'a>(&'a self, tx_hex: &'a str) -> NodeFuture<'a, Txid> {
        Box::pin(async move {
            Self::verdict(tx_hex)?;
            Ok(Txid::from_byte_array([0xab; 32]))
        })
    }

    fn submit_package<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
        max_burn_amount: Option<&'a str>,
    ) -> NodeFuture<'a, String> {
        Box::pin(async move {
            Self::verdict(&txs[0][..2])?;
            let count = txs.len();
            let (fee_rate, burn) = (max_fee_rate.unwrap_or("-"), max_burn_amount.unwrap_or("-"));
            Ok(format!("[{count},\"{fee_rate}\",\"{burn}\"]"))
        })
    }

    fn test_accept<'a>(
        &'a self,
        txs: &'a [String],
        max_fee_rate: Option<&'a str>,
    ) -> NodeFuture<'a, String> {
        Box::pin(async move {
            Self::verdict(&txs[0][..2])?;
            Ok(format!(
                "[{},\"{}\"]",
                txs.len(),
                max_fee_rate.unwrap_or("-")
            ))
        })
    }

    fn fee_estimates(&self) -> NodeFuture<'_, Vec<(u16, u64)>> {
        Box::pin(async { Ok(vec![(1, 12_500), (2, 1_000), (144, 1_001), (1008, 100)]) })
    }

    fn block_template(&self) -> NodeFuture<'_, String> {
        Box::pin(async { Ok("{\"height\":1}".to_owned()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broadcasts() {
    let model = Model::new(bitcoin::Network::Regtest);
    let api = Api::with(
        &model,
        Setup {
            node: Some(Arc::new(Parrot)),
            ..Setup::default()
        },
    );
    let rejected = r#"sendrawtransaction RPC error: {"code":-26,"message":"dust"}"#;
    api.post("/tx", "00").await.assert_error(400, rejected);
    api.get("/broadcast?tx=00")
        .await
        .assert_error(400, rejected);
    api.post("/tx", "01")
        .await
        .assert_error(503, "node is warming up");
    api.post("/tx", "")
        .await
        .assert_error(400, "Invalid hex string");
    api.post("/tx", "0")
        .await
        .assert_error(400, "Invalid hex string");
    api.post("/tx", "0x00")
        .await
        .assert_error(400, "Invalid hex string");
    api.post("/tx", vec![b'0'; 8_400_001])
        .await
        .assert_error(413, "Request body too large");
    for got in [
        api.post("/tx", " \r\n02\n").await,
        api.post("/tx", "AbCd").await,
        api.post("/tx", vec![b'2'; 8_400_000]).await,
        api.get("/broadcast?tx=0203").await,
    ] {
        assert_eq!(got.ok_text(), "ab".repeat(32));
        assert_eq!(got.header("cache-control"), Some("public, max-age=0"));
        assert_eq!(got.header("etag"), None);
    }
    let alone = Api::of(&model);
    let text = "this needs a node, and none is configured";
    alone.post("/tx", "00").await.assert_error(503, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_tests_fees_and_templates() {
    let model = Model::new(bitcoin::Network::Regtest);
    let with = |mining: bool| {
        let options = EsploraOptions {
            mining,
            ..EsploraOptions::default()
        };
        Api::with(
            &model,
            Setup {
                node: Some(Arc::new(Parrot)),
                options,
                ..Setup::default()
            },
        )
    };
    let api = with(false);
    let tx = |first: &str| format!("{first}{}", "02".repeat(59));
    let body = |txs: &[String]| serde_json::to_string(txs).expect("texts");
    let two = body(&[tx("02"), tx("03")]);
    for (uri, expected) in [
        ("/txs/package", r#"[2,"-","-"]"#),
        ("/txs/package?maxfeerate=0.1", r#"[2,"0.1","-"]"#),
        (
            "/txs/package?maxburnamount=21&maxfeerate=0",
            r#"[2,"0","21"]"#,
        ),
        ("/txs/test", r#"[2,"-"]"#),
        ("/txs/test?maxfeerate=1.00000001", r#"[2,"1.00000001"]"#),
    ] {
        let got = api.post(uri, two.clone()).await;
        got.ok_json::<serde_json::Value>();
        assert_eq!(got.text(), expected, "{uri}");
        assert_eq!(got.header("cache-control"), Some(SHORT));
    }
    let rejected = r#"sendrawtransaction RPC error: {"code":-26,"message":"dust"}"#;
    for uri in ["/txs/package", "/txs/test"] {
        for (body, status, text) in [
            (body(&[tx("00")]), 400, rejected),
            (body(&[tx("01")]), 503, "node is warming up"),
            (
                body(&vec![tx("02"); 26]),
                400,
                "Exceeded maximum of 25 transactions",
            ),
            (
                body(&["02".to_owned()]),
                400,
                "Invalid transaction size for item 0",
            ),
            (
                body(&[tx("02"), tx("zz")]),
                400,
                "Invalid transaction hex for item 1",
            ),
        ] {
            api.post(uri, body).await.assert_error(status, text);
        }
    }
    for wrong in [
        "",
        "1e3",
        "-1",
        ".5",
        "1.",
        "0.1.2",
        "abc",
        "123456789012345678901",
    ] {
        let uri = format!("/txs/package?maxfeerate={wrong}");
        let got = api.post(&uri, two.clone()).await;
        got.assert_error(400, "Invalid maxfeerate");
        let uri = format!("/txs/package?maxburnamount={wrong}");
        let got = api.post(&uri, two.clone()).await;
        got.assert_error(400, "Invalid maxburnamount");
    }
    let got = api.get("/fee-estimates").await;
    got.ok_json::<serde_json::Value>();
    assert_eq!(got.text(), r#"{"1":12.5,"2":1.0,"144":1.001,"1008":0.1}"#);
    got.assert_class(SHORT);
    api.get("/block-template")
        .await
        .assert_error(403, "mining REST endpoints are disabled");
    let got = with(true).get("/block-template").await;
    got.ok_json::<serde_json::Value>();
    assert_eq!(got.text(), "{\"height\":1}");
    assert_eq!(got.header("cache-control"), Some("no-store"));
    // Before the first look at the node's mempool, what depends on it says so; without a node there is none to come.
    for uri in [
        "/mempool",
        "/mempool/txids",
        "/mempool/recent",
        "/scripthash/{}",
        "/scripthash/{}/utxo",
        "/scripthash/{}/txs",
    ] {
        let uri = uri.replace("{}", UNKNOWN);
        assert_eq!(
            api.get(&uri).await.header("x-mempool"),
            Some("loading"),
            "{uri}"
        );
        assert_eq!(
            Api::of(&model).get(&uri).await.header("x-mempool"),
            None,
            "{uri}"
        );
    }
    assert_eq!(
        api.get("/blocks/tip/height").await.header("x-mempool"),
        None
    );
    assert_eq!(
        api.get("/mempool").await.text(),
        r#"{"count":0,"vsize":0,"total_fee":0,"fee_histogram":[]}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_a_history_is_refused_and_converges() {
    let chain = TestChain::small(6, 160);
    let model = chain.model();
    let (busiest, stats) = model
        .scripts()
        .map(|(script, _)| (*script, model.stats(script)))
        .max_by_key(|(_, stats)| stats.tx_count)
        .expect("scripts");
    assert!(stats.tx_count > 100);
    let api = Api::with(
        model,
        Setup {
            scan_rows_max: Some(10),
            ..Setup::default()
        },
    );
    let hex: String = busiest.iter().map(|byte| format!("{byte:02x}")).collect();
    let uri = format!("/scripthash/{hex}");
    let first = api.get(&uri).await;
    first.assert_error(400, "Scripthash history too large to scan");
    // The work is kept: asking again gets there.
    for _ in 0..100 {
        let got = api.get(&uri).await;
        if got.status == 200 {
            let shown: cairn_esplora::objects::ScriptHashStats = got.ok_json();
            assert_eq!(shown.chain_stats.tx_count, stats.tx_count);
            assert_eq!(shown.chain_stats.funded_txo_sum, Some(stats.funded_txo_sum));
            return;
        }
        got.assert_error(400, "Scripthash history too large to scan");
    }
    panic!("asking again does not converge");
}

/// What a chain of block files alone cannot answer.
const NEED_A_NODE: [&str; 4] = ["/tx", "/txs/package", "/txs/test", "/fee-estimates"];

#[tokio::test(flavor = "multi_thread")]
async fn description_names_every_route_and_resolves() {
    let model = Model::new(bitcoin::Network::Regtest);
    let api = Api::of(&model);
    let got = api.get("/openapi.json").await;
    let served: serde_json::Value = got.ok_json();
    let document = serde_json::to_value(openapi()).expect("plain data");
    assert_eq!(served, document);
    let paths = document["paths"].as_object().expect("paths");
    assert_eq!(paths.len(), 66, "{:#?}", paths.keys().collect::<Vec<_>>());
    for (path, item) in paths {
        let uri = path
            .replace("{txid}", UNKNOWN)
            .replace("{hash}", UNKNOWN)
            .replace("{last_seen_txid}", UNKNOWN)
            .replace("{address}", "bcrt1pfeesnyr2tx")
            .replace("{asset}", UNKNOWN)
            .replace("{prefix}", "b")
            .replace("{start_height}", "0")
            .replace("{start_index}", "0")
            .replace("{height}", "0")
            .replace("{index}", "0")
            .replace("{vout}", "0");
        assert!(!uri.contains('{'), "{uri}");
        if uri == "/events" {
            // An answer without an end has tests of its own.
            continue;
        }
        for method in item.as_object().expect("operations").keys() {
            let got = api
                .ask(&method.to_uppercase(), &uri, &[], Body::from("[]"))
                .await;
            assert!(
                !got.text().starts_with("endpoint does not exist"),
                "{method} {uri}"
            );
            assert_ne!(got.status, 405, "{method} {uri}");
            assert!(
                got.status < 500 || NEED_A_NODE.contains(&uri.as_str()),
                "{method} {uri}: {}",
                got.text()
            );
        }
    }
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("inside the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect_references(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "$ref" => found.push(text.to_owned()),
                    _ => collect_references(value, found),
                }
            }
        }
        serde_json::Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
