//! Markers are planted wherever the application keeps something private; no answer holds one.

use redis::Commands;
use serde_json::json;

use crate::support::{World, record, wallet};

const MARKER: &str = "MARKER-private";

async fn plant(world: &World) {
    let mut connection = world.server.connection();
    let key = |name: &str| format!("agent-play:default:{name}");
    let auth = [("kind", "main"), ("passwHash", MARKER), ("token", MARKER)];
    let _: () = connection
        .hset_multiple(key("node:nm-1:auth"), &auth)
        .expect("written");
    let session = [
        ("sid", MARKER),
        ("snapshotRev", "3"),
        ("merkleRootHex", "ab"),
        ("clientSecret", MARKER),
    ];
    let _: () = connection
        .hset_multiple(key("session"), &session)
        .expect("written");
    let state = json!({"stats": {"dayStreak": 1, "note": MARKER}, "chat": MARKER}).to_string();
    let _: () = connection
        .set(key("player:nm-1:game-state"), state)
        .expect("written");
    let body = json!({ "record": record("pur-1"), "wallets": [wallet()] });
    assert_eq!(world.ingest("executePurchase", &body).await.status, 201);
    let event = json!({"event": {
        "messageId": "m1", "event": "Space Entered", "distinctId": "nm-1", "timestamp": "2026-03-10T14:00:00Z",
        "properties": {"spaceId": "space-9", "sid": MARKER, "email": MARKER, "summary": MARKER},
        "context": {"sid": MARKER, "library": "agent-play-server"},
    }});
    assert_eq!(world.ingest("trackEvent", &event).await.status, 201);
    let done = world
        .admin("POST", "/api/admin/scanner/backfill?waitMs=60000")
        .await;
    assert!(matches!(done.status, 200 | 202), "{}", done.text);
    let view = json!({"event": "Scanner View Opened", "distinctId": MARKER, "properties": {"view": "txs"}});
    let path = format!("/api/analytics/track?sid={MARKER}");
    let answer = world.ask("POST", &path, &[], view.to_string()).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"ok": true})),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_holds_anything_private() {
    let world = World::start().await;
    plant(&world).await;
    for path in [
        "/api/scanner/head",
        "/api/scanner/head/recompute",
        "/api/scanner/txs",
        "/api/scanner/txs/pur-1",
        "/api/scanner/nodes",
        "/api/scanner/nodes/nm-1",
        "/api/scanner/nodes/nm-1?section=txs",
        "/api/scanner/nodes/nm-1?section=events",
        "/api/scanner/blocks",
        "/api/scanner/leaves/x",
        "/api/scanner/spaces",
        "/api/scanner/spaces/space-9",
        "/api/scanner/talk",
        "/api/scanner/search?q=nm-1",
        "/api/scanner/analytics/overview",
        "/api/scanner/analytics/events?fields=full&limit=100",
        "/api/scanner/analytics/events?event=Space%20Entered&fields=full",
        "/api/scanner/analytics/events?breakdownEvent=Space%20Entered&breakdownProperty=email",
        "/api/scanner/txs.csv",
        "/api/scanner/txs.csv?format=ndjson",
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(!answer.text.contains(MARKER), "{path}: {}", answer.text);
        for (name, value) in &answer.headers {
            assert!(
                !value.to_str().unwrap_or("").contains(MARKER),
                "{path}: {name}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_and_details_can_be_hidden() {
    let world = World::with(|options| {
        options.public_balances = false;
        options.public_detail = false;
    })
    .await;
    let mut secret = record("pur-1");
    secret["detail"] = json!("for Ada's birthday");
    let body = json!({ "record": secret, "wallets": [wallet()] });
    assert_eq!(world.ingest("executePurchase", &body).await.status, 201);
    for path in [
        "/api/scanner/txs/pur-1",
        "/api/scanner/nodes/nm-1",
        "/api/scanner/nodes",
        "/api/scanner/txs",
    ] {
        let text = world.get(path).await.text;
        assert!(
            !text.contains("birthday") && !text.contains("6500000"),
            "{path}: {text}"
        );
    }
    assert_eq!(world.get("/api/scanner/nodes?sort=usd").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_needs_the_session_and_can_be_forgotten() {
    let world = World::start().await;
    plant(&world).await;
    let view = json!({"event": "Scanner View Opened", "distinctId": "nm-1"}).to_string();
    for (path, status) in [
        ("/api/analytics/track".to_owned(), 400),
        ("/api/analytics/track?sid=guess".to_owned(), 403),
        (format!("/api/analytics/track?sid={MARKER}"), 200),
    ] {
        assert_eq!(
            world.ask("POST", &path, &[], view.clone()).await.status,
            status,
            "{path}"
        );
    }
    let forged = json!({"event": "Purchase Completed", "distinctId": "nm-1"}).to_string();
    let path = format!("/api/analytics/track?sid={MARKER}");
    assert_eq!(world.ask("POST", &path, &[], forged).await.status, 400);
    let mut last = 200;
    for _ in 0..40 {
        last = world.ask("POST", &path, &[], view.clone()).await.status;
    }
    assert_eq!(last, 429, "one session cannot flood");
    let events = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).expect("JSON")["events"]
            .as_array()
            .map(Vec::len)
    };
    let section = "/api/scanner/nodes/nm-1?section=events";
    assert!(events(&world.get(section).await.text) > Some(1));
    let erased = world
        .admin("DELETE", "/api/admin/scanner/nodes/nm-1/analytics")
        .await;
    assert_eq!(erased.status, 200, "{}", erased.text);
    assert_eq!(events(&world.get(section).await.text), Some(0));
    assert_eq!(
        world.get("/api/scanner/txs/pur-1").await.status,
        200,
        "the ledger stays"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backfill_of_an_admin() {
    let world = World::start().await;
    let mut connection = world.server.connection();
    let list = "agent-play:default:player:nm-1:purchases";
    let _: i64 = connection
        .rpush(list, record("old-1").to_string())
        .expect("written");
    let done = world
        .admin("POST", "/api/admin/scanner/backfill?waitMs=60000")
        .await;
    assert_eq!(done.status, 200, "{}", done.text);
    let states = done.json();
    assert_eq!(
        (&states["cacheRebuilt"], &states["scanner"]["status"]),
        (&json!(true), &json!("completed"))
    );
    assert_eq!(states["scanner"]["totalIndexed"], 1);
    assert_eq!(
        states["scanner"].get("error"),
        None,
        "an absent value is an absent field"
    );
    let shown = world
        .admin("GET", "/api/admin/scanner/backfill")
        .await
        .json();
    assert_eq!(shown["analytics"]["status"], "completed");
    let tx = world.get("/api/scanner/txs/old-1").await.json();
    assert_eq!(tx["tx"]["blockRev"], serde_json::Value::Null);
    assert_eq!(
        world.get("/api/scanner/head").await.json()["head"]["migrationStatus"],
        "completed"
    );
    for (method, path) in [
        ("POST", "/api/admin/scanner/backfill"),
        ("DELETE", "/api/admin/scanner/nodes/x/analytics"),
    ] {
        let answer = world
            .ask(method, &format!("{path}?token=the-admins-token"), &[], "")
            .await;
        assert_eq!(answer.status, 401, "a token in the query is no token");
    }
}
