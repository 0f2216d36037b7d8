//! What the application tells: statuses, faults, tokens, batches, bodies of every bad kind.

use axum::body::Body;
use serde_json::json;

use crate::support::{INGEST, World, record, wallet};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_duplicate_conflict_stale() {
    let world = World::start().await;
    let body = json!({ "record": record("pur-1"), "wallets": [wallet()] });
    for (status, word) in [(201, "created"), (200, "duplicate"), (200, "duplicate")] {
        let answer = world.ingest("executePurchase", &body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (status, json!({"status": word, "id": "pur-1"}))
        );
    }
    // The same content in another form.
    let mut same = body.clone();
    same["record"]["priceUsd"] = json!("3.500");
    same["record"]["at"] = json!("2026-03-10T15:05:17.123999+01:00");
    same["record"]
        .as_object_mut()
        .expect("an object")
        .remove("powerUpsDelta");
    assert_eq!(
        world.ingest("appendPurchaseRecord", &same).await.json()["status"],
        "duplicate"
    );
    let mut other = body.clone();
    other["record"]["priceUsd"] = json!(3.51);
    other["wallets"][0]["balanceUsd"] = json!(1);
    other["wallets"][0]["updatedAt"] = json!("2026-03-10T14:05:18Z");
    let conflict = world.ingest("executePurchase", &other).await;
    assert_eq!(
        (conflict.status, &conflict.json()["code"]),
        (409, &json!("conflict"))
    );
    assert_eq!(conflict.json()["existing"]["priceUsdMicros"], "3500000");
    let profile = world.get("/api/scanner/nodes/nm-1").await.json();
    assert_eq!(
        profile["profile"]["wallet"]["balanceUsdMicros"], "6500000",
        "nothing of a conflict is applied"
    );
    let mut old = wallet();
    old["updatedAt"] = json!("2026-03-10T14:05:16Z");
    let stale = world
        .ingest("indexWalletBalance", &json!({ "wallet": old }))
        .await;
    assert_eq!(
        (stale.status, &stale.json()["status"]),
        (200, &json!("stale"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_name_their_fields_and_nothing_is_written() {
    let world = World::start().await;
    let mut bad = record("pur-1");
    bad["priceUsd"] = json!("0.0000001");
    bad["at"] = json!("2030-01-01T00:00:00Z");
    bad["powerUpsDelta"] = json!(8);
    let answer = world
        .ingest(
            "executePurchase",
            &json!({ "record": bad, "wallets": [{"playerId": "x"}] }),
        )
        .await;
    assert_eq!(answer.status, 422);
    let answer = answer.json();
    let found: Vec<(&str, &str)> = answer["details"]
        .as_array()
        .expect("faults")
        .iter()
        .map(|fault| {
            (
                fault["path"].as_str().unwrap_or(""),
                fault["code"].as_str().unwrap_or(""),
            )
        })
        .collect();
    for expected in [
        ("record.priceUsd", "usd_precision"),
        ("record.at", "future_timestamp"),
        ("record.powerUpsDelta", "apu_mismatch"),
        ("wallets[0].balanceUsd", "missing"),
        ("wallets[0].updatedAt", "missing"),
    ] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
    let keys: Vec<String> = world.server.run("KEYS agent-play:default:*");
    assert_eq!(keys, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_every_bad_kind() {
    let world = World::start().await;
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("executePurchase", b"{".to_vec(), 400, "invalid_json"),
        ("executePurchase", b"[]".to_vec(), 400, "invalid_json"),
        ("executePurchase", b"\xff\xfe".to_vec(), 400, "invalid_json"),
        ("executePurchase", b"".to_vec(), 400, "invalid_json"),
        ("executePurchase", b"{}".to_vec(), 422, "missing"),
        (
            "executePurchase",
            b"{\"record\":[]}".to_vec(),
            422,
            "wrong_type",
        ),
        (
            "executePurchase",
            b"{\"record\":{\"id\":\"a\\u0000b\"}}".to_vec(),
            422,
            "control_character",
        ),
        ("stealEverything", b"{}".to_vec(), 404, "unknown_op"),
        ("batch", b"{\"ops\":[]}".to_vec(), 400, "invalid_batch"),
        ("batch", b"{\"ops\":7}".to_vec(), 400, "invalid_batch"),
        (
            "executePurchase",
            vec![b' '; (1 << 20) + 1],
            413,
            "body_too_large",
        ),
        (
            "trackEvent",
            b"{\"event\":{\"messageId\":\"purchase:1\"}}".to_vec(),
            422,
            "reserved_message_id",
        ),
    ];
    for (op, body, status, code) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let answer = world.ingest_text(op, Body::from(body)).await;
        assert_eq!(answer.status, status, "{op} {shown}: {}", answer.text);
        assert_eq!(answer.json()["code"], code, "{op} {shown}");
    }
    let deep = format!("{{\"record\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let deep = world.ingest_text("executePurchase", deep).await;
    assert_eq!(
        (deep.status, deep.json()["code"].as_str()),
        (422, Some("wrong_type"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_and_who_may_not() {
    let world = World::start().await;
    let body = json!({ "record": record("pur-1") }).to_string();
    let json_type = ("content-type", "application/json");
    let path = "/api/ingest/executePurchase";
    for (target, headers, status, code) in [
        (path, vec![json_type], 401, "unauthorized"),
        (
            path,
            vec![json_type, ("authorization", "Bearer wrong")],
            401,
            "unauthorized",
        ),
        (
            path,
            vec![json_type, ("authorization", INGEST)],
            401,
            "unauthorized",
        ),
        (
            "/api/ingest/executePurchase?token=the-applications-token",
            vec![json_type],
            401,
            "unauthorized",
        ),
    ] {
        let answer = world.ask("POST", target, &headers, body.clone()).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (status, Some(code))
        );
    }
    let bearer = format!("Bearer {INGEST}");
    let auth = ("authorization", bearer.as_str());
    let other = world
        .ask(
            "POST",
            &format!("{path}?hostId=other"),
            &[json_type, auth],
            body.clone(),
        )
        .await;
    assert_eq!(
        (other.status, other.json()["code"].as_str()),
        (403, Some("forbidden_host"))
    );
    let untyped = world.ask("POST", path, &[auth], body).await;
    assert_eq!(
        (untyped.status, untyped.json()["code"].as_str()),
        (415, Some("unsupported_media_type"))
    );
    let as_application = [auth];
    let admin = world
        .ask(
            "POST",
            "/api/admin/scanner/backfill",
            &as_application,
            Body::empty(),
        )
        .await;
    assert_eq!(admin.status, 401, "the application is no admin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_answers_each_item() {
    let world = World::start().await;
    let mut bad = record("bad");
    bad["priceUsd"] = json!(-1);
    let mut other = record("a");
    other["spaceId"] = json!("elsewhere");
    let purchase =
        |record: &serde_json::Value| json!({"op": "executePurchase", "body": {"record": record}});
    let ops = vec![
        purchase(&record("a")),
        purchase(&bad),
        purchase(&record("a")),
        purchase(&other),
        json!({"op": "nothing", "body": {}}),
        json!(7),
        purchase(&record("b")),
    ];
    let answer = world
        .ingest("batch", &json!({ "ops": ops, "mode": "continue" }))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    let words = |answer: &serde_json::Value| -> Vec<String> {
        let results = answer["results"].as_array().expect("results");
        results
            .iter()
            .map(|result| result["status"].as_str().expect("a word").to_owned())
            .collect()
    };
    assert_eq!(
        words(&answer),
        [
            "created",
            "invalid",
            "duplicate",
            "conflict",
            "invalid",
            "invalid",
            "created"
        ]
    );
    assert_eq!(
        answer["results"][1]["details"][0]["path"],
        "record.priceUsd"
    );
    assert_eq!(
        answer["counts"],
        json!({"created": 2, "invalid": 3, "duplicate": 1, "conflict": 1})
    );
    let stopping = [
        purchase(&record("c")),
        purchase(&bad),
        purchase(&record("d")),
    ];
    let answer = world
        .ingest("batch", &json!({ "ops": stopping, "mode": "stop" }))
        .await
        .json();
    assert_eq!(words(&answer), ["created", "invalid", "skipped"]);
    assert_eq!(world.get("/api/scanner/txs/d").await.status, 404);
    let lines: Vec<String> = ["e", "f"]
        .iter()
        .map(|id| purchase(&record(id)).to_string())
        .collect();
    let bearer = format!("Bearer {INGEST}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/x-ndjson"),
    ];
    let answer = world
        .ask("POST", "/api/ingest/batch", &headers, lines.join("\n"))
        .await;
    assert_eq!(words(&answer.json()), ["created", "created"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_idempotency_and_queued_calls() {
    let world = World::start().await;
    let bearer = format!("Bearer {INGEST}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "key-1"),
    ];
    let path = "/api/ingest/executePurchase";
    let body = |id: &str| json!({ "record": record(id) }).to_string();
    for _ in 0..2 {
        let answer = world.ask("POST", path, &headers, body("pur-1")).await;
        assert_eq!(
            (answer.status, answer.json()["status"].as_str()),
            (201, Some("created")),
            "the kept answer"
        );
    }
    let other = world.ask("POST", path, &headers, body("pur-2")).await;
    assert_eq!(
        (other.status, other.json()["code"].as_str()),
        (409, Some("idempotency_conflict"))
    );
    let queued = world
        .ask(
            "POST",
            &format!("{path}?ack=queued"),
            &headers[..2],
            body("pur-3"),
        )
        .await;
    assert_eq!(
        (queued.status, queued.json()["status"].as_str()),
        (202, Some("queued"))
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while world.get("/api/scanner/txs/pur-3").await.status != 200 {
        assert!(
            std::time::Instant::now() < deadline,
            "a queued call is applied"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_nothing_is_acknowledged() {
    let mut world = World::start().await;
    assert_eq!(
        world
            .ingest("executePurchase", &json!({ "record": record("a") }))
            .await
            .status,
        201
    );
    world.server.kill();
    for answer in [
        world
            .ingest("executePurchase", &json!({ "record": record("b") }))
            .await,
        world
            .ingest(
                "batch",
                &json!({ "ops": [{"op": "executePurchase", "body": {"record": record("c")}}] }),
            )
            .await,
        world.get("/api/scanner/head").await,
        world.get("/api/scanner/analytics/overview").await,
    ] {
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (503, Some("redis_unavailable"))
        );
        assert!(!answer.header("retry-after").is_empty());
    }
    world.server.restart();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let answer = world
            .ingest("executePurchase", &json!({ "record": record("b") }))
            .await;
        if answer.status == 201 {
            break;
        }
        assert!(
            answer.status == 503 && std::time::Instant::now() < deadline,
            "{}",
            answer.text
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
