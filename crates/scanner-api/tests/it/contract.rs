//! Shapes, parameters, caching, and the description.

use cairn_testkit::{CallGenerator, CallMix, LedgerModel};
use serde_json::{Value, json};

use crate::support::{NOW, World, record, wallet};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_of_a_small_ledger() {
    let world = World::start().await;
    let body = json!({ "record": record("pur-1"), "wallets": [wallet()] });
    assert_eq!(world.ingest("executePurchase", &body).await.status, 201);
    let head = world.get("/api/scanner/head").await;
    assert_eq!(
        head.header("cache-control"),
        "public, max-age=5, stale-while-revalidate=30"
    );
    assert_eq!(
        head.json(),
        json!({
            "head": {
                "generatedAt": "2026-03-10T14:05:17.123Z", "hostId": "default", "snapshotRev": 0,
                "merkleRootHex": null, "merkleLeafCount": null, "sid": null, "txsLast24h": 1, "apuMintedLast24h": 9,
                "apuBurnedLast24h": 0, "migrationStatus": "pending",
                "window": {"from": "2026-03-09T15:00:00.000Z", "to": "2026-03-10T15:00:00.000Z"},
                "lastTxAt": "2026-03-10T14:05:17.123Z", "epoch": 0,
            },
            "platform": null,
        })
    );
    let tx = world.get("/api/scanner/txs/pur-1").await;
    assert_eq!(tx.header("cache-control"), "public, max-age=30");
    assert!(
        tx.text
            .contains("\"priceUsd\":3.5,\"priceUsdMicros\":\"3500000\""),
        "{}",
        tx.text
    );
    let mut expected = record("pur-1");
    for (name, value) in [
        ("hostId", json!("default")),
        ("op", json!("purchase")),
        ("priceUsdMicros", json!("3500000")),
        ("blockRev", Value::Null),
        ("merkleRootHex", Value::Null),
        ("indexedAt", json!("2026-03-10T14:05:17.123Z")),
    ] {
        expected[name] = value;
    }
    assert_eq!(tx.json()["tx"], expected);
    let profile = world.get("/api/scanner/nodes/nm-1").await;
    assert_eq!(profile.header("cache-control"), "public, max-age=10");
    let profile = &profile.json()["profile"];
    assert_eq!(profile["wallet"]["balanceUsdMicros"], "6500000");
    assert_eq!(
        profile["ledger"],
        json!({
            "txCount": 1, "usdSpent": 3.5, "usdSpentMicros": "3500000", "usdCredited": 0, "usdCreditedMicros": "0",
            "apuMinted": 9, "apuBurned": 0, "lastTxAt": "2026-03-10T14:05:17.123Z",
        })
    );
    assert_eq!(
        profile["breakdown"],
        json!({
            "byAmenityKind": {"shop": 1}, "bySpaceId": {"space-9": 1},
            "byToken": {"usd": 3.5, "usdMicros": "3500000", "apu": 9},
        })
    );
    assert_eq!(
        profile["analytics"]["topEvents"],
        json!([{"event": "Purchase Completed", "count": 1}])
    );
    assert_eq!(
        (&profile["gameStats"], &profile["txsNextCursor"]),
        (&Value::Null, &Value::Null)
    );
    let spaces = world.get("/api/scanner/spaces").await.json();
    let one =
        json!({"spaceId": "space-9", "txCount": 1, "usdVolume": 3.5, "usdVolumeMicros": "3500000"});
    assert_eq!(spaces, json!({"spaces": [one], "nextCursor": null}));
    let space = world.get("/api/scanner/spaces/space-9").await.json();
    assert_eq!(space["space"]["gmvUsd24hMicros"], "3500000");
    assert_eq!(space["space"]["byAmenityKind"]["shop"]["purchaseCount"], 1);
    let game = world.get("/api/scanner/games/unknown").await.json();
    assert_eq!(
        game,
        json!({"gameId": "unknown", "rounds": 0, "netApu": 0, "apuMinted": 0, "apuBurned": 0})
    );
    let overview = world.get("/api/scanner/analytics/overview").await.json();
    assert_eq!(overview["eventsLast24h"], 1);
    let search = world.get("/api/scanner/search?q=pur-1").await.json();
    assert_eq!(
        (&search["kind"], &search["id"]),
        (&json!("tx"), &json!("pur-1"))
    );
    assert_eq!(
        world.get("/api/scanner/search?q=").await.json()["kind"],
        "none"
    );
    let csv = world.get("/api/scanner/txs.csv").await;
    assert!(
        csv.text.lines().count() == 2 && csv.text.contains("pur-1,purchase,shop,nm-1"),
        "{}",
        csv.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_is_told_with_a_word() {
    let world = World::start().await;
    for (path, status, code) in [
        ("/api/scanner/txs?limit=x", 400, "invalid_limit"),
        ("/api/scanner/txs?limit=", 400, "invalid_limit"),
        ("/api/scanner/txs?limit=1.5", 400, "invalid_limit"),
        ("/api/scanner/txs?cursor=zz", 400, "invalid_cursor"),
        ("/api/scanner/txs?token=EUR", 400, "invalid_token"),
        ("/api/scanner/txs?op=steal", 400, "invalid_op"),
        ("/api/scanner/txs?sinceMs=-1", 400, "invalid_since"),
        ("/api/scanner/txs?from=yesterday", 400, "invalid_instant"),
        ("/api/scanner/txs?hostId=a:b", 400, "invalid_host"),
        ("/api/scanner/txs?hostId=other", 404, "unknown_host"),
        ("/api/scanner/txs/unknown", 404, "not_found"),
        ("/api/scanner/txs/by-player:nm-1", 404, "not_found"),
        ("/api/scanner/nodes/unknown", 404, "not_found"),
        ("/api/scanner/nodes/x?section=all", 400, "invalid_section"),
        ("/api/scanner/nodes?kind=cat", 400, "invalid_kind"),
        ("/api/scanner/blocks/1.5", 400, "invalid_rev"),
        ("/api/scanner/blocks/7", 404, "not_found"),
        ("/api/scanner/blocks?rev=", 400, "invalid_rev"),
        ("/api/scanner/spaces/none", 404, "not_found"),
        (
            "/api/scanner/analytics/events?since=x-y",
            400,
            "invalid_since",
        ),
        (
            "/api/scanner/analytics/events?event=Purchase%20Completed&since=1-0",
            400,
            "invalid_since",
        ),
        (
            "/api/scanner/analytics/events?view=funnel&steps=Nothing",
            400,
            "invalid_steps",
        ),
        (
            "/api/scanner/analytics/events?cursor=x",
            400,
            "invalid_cursor",
        ),
    ] {
        let answer = world.get(path).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (status, Some(code)),
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert!(
            answer.json()["error"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
    for path in ["/api/scanner/txs?limit=0", "/api/scanner/txs?limit=99999"] {
        assert_eq!(world.get(path).await.status, 200, "{path} is clamped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_change_with_the_figures_and_not_with_the_clock_alone() {
    let world = World::start().await;
    let first = world.get("/api/scanner/head").await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"'), "strong: {tag}");
    world.scanner.clock().set(NOW + 5_000);
    for given in [
        tag.clone(),
        format!("W/{tag}"),
        format!("\"x\", {tag}"),
        "*".to_owned(),
    ] {
        let same = world
            .get_with("/api/scanner/head", &[("if-none-match", &given)])
            .await;
        assert_eq!(
            (same.status, same.text.as_str(), same.header("etag")),
            (304, "", tag.as_str()),
            "{given}"
        );
        assert!(same.header("cache-control").contains("max-age=5"));
    }
    world
        .ingest("executePurchase", &json!({ "record": record("pur-1") }))
        .await;
    let changed = world
        .get_with("/api/scanner/head", &[("if-none-match", &tag)])
        .await;
    assert_eq!(changed.status, 200);
    // Nothing happens but an hour leaving the window.
    let tag = changed.header("etag").to_owned();
    world.scanner.clock().set(NOW + 24 * 3_600_000);
    let moved = world
        .get_with("/api/scanner/head", &[("if-none-match", &tag)])
        .await;
    assert_eq!(
        (moved.status, &moved.json()["head"]["txsLast24h"]),
        (200, &json!(0))
    );
    for path in [
        "/api/scanner/nodes/nm-1",
        "/api/scanner/txs/pur-1",
        "/api/scanner/analytics/overview",
    ] {
        let tag = world.get(path).await.header("etag").to_owned();
        assert_eq!(
            world
                .get_with(path, &[("if-none-match", &tag)])
                .await
                .status,
            304,
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_over_http_are_the_models() {
    let world = World::start().await;
    let calls = CallGenerator::new(50, NOW, CallMix::default()).take(300);
    let mut model = LedgerModel::new();
    for batch in calls.chunks(100) {
        let answer = world.batch(batch).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        for (call, result) in batch
            .iter()
            .zip(answer.json()["results"].as_array().expect("results"))
        {
            assert_eq!(result["status"], model.apply(call), "{call:?}");
        }
    }
    for (query, expected) in [
        ("", model.tx_ids(None, None, None)),
        ("token=APU&", model.tx_ids(None, None, Some("APU"))),
        ("playerId=nm-0&", model.tx_ids(Some("nm-0"), None, None)),
        (
            "spaceId=space-0&token=USD&",
            model.tx_ids(None, Some("space-0"), Some("USD")),
        ),
    ] {
        let mut ids = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/api/scanner/txs?{query}limit=9{cursor}");
            let page = world.get(&path).await;
            assert_eq!(page.header("cache-control"), "no-store");
            let page = page.json();
            ids.extend(
                page["txs"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|tx| tx["id"].clone()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(json!(ids), json!(expected), "{query}");
    }
    let head = world.get("/api/scanner/head").await.json();
    assert_eq!(head["head"]["txsLast24h"], model.head(NOW).0);
    let events = world
        .get("/api/scanner/analytics/events?limit=100&fields=full")
        .await
        .json();
    let tail = world
        .get("/api/scanner/analytics/events?since=0-0&limit=3")
        .await
        .json();
    assert_eq!(
        (&tail["hasMore"], tail["events"].as_array().map(Vec::len)),
        (&json!(true), Some(3))
    );
    assert_eq!(events["events"].as_array().map(Vec::len), Some(100));
    let older = events["nextCursor"].as_str().expect("more");
    let older = world
        .get(&format!(
            "/api/scanner/analytics/events?limit=100&cursor={older}"
        ))
        .await
        .json();
    let first = |page: &Value| page["events"][0]["messageId"].clone();
    assert_ne!(first(&older), first(&events), "page 2 is not page 1");
    let breakdown = "/api/scanner/analytics/events?breakdownEvent=Purchase%20Completed&breakdownProperty=amenityKind";
    let counts = world.get(breakdown).await.json();
    assert!(
        counts["breakdown"]
            .as_array()
            .is_some_and(|list| list.len() > 2),
        "{counts}"
    );
    let private = breakdown.replace("amenityKind", "itemId");
    assert_eq!(world.get(&private).await.json(), json!({"breakdown": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordered_funnel_counts_persons_in_time() {
    let world = World::start().await;
    let event = |id: &str, name: &str, who: &str, minute: u32| {
        json!({"event": {"messageId": id, "event": name, "distinctId": who,
            "timestamp": format!("2026-03-10T13:{minute:02}:00Z")}})
    };
    for (id, name, who, minute) in [
        ("1", "Space Entered", "a", 1),
        ("2", "Amenity Entered", "a", 2),
        ("3", "Amenity Entered", "b", 1),
        ("4", "Space Entered", "b", 2),
        ("5", "Space Entered", "c", 3),
        ("6", "Amenity Entered", "c", 3),
        ("7", "Player Added", "a", 5),
    ] {
        let answer = world
            .ingest("trackEvent", &event(id, name, who, minute))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    let path = "/api/scanner/analytics/events?view=funnel&steps=Space%20Entered,Amenity%20Entered,Player%20Added";
    let counts = |answer: Value| -> Vec<i64> {
        let list = answer["funnel"].as_array().expect("a funnel").clone();
        list.iter()
            .map(|step| step["count"].as_i64().expect("a count"))
            .collect()
    };
    assert_eq!(counts(world.get(path).await.json()), [3, 2, 1]);
    assert_eq!(
        counts(world.get(&format!("{path}&mode=totals")).await.json()),
        [3, 3, 1]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_names_every_route_and_resolves() {
    let text = cairn_scanner_api::openapi().to_json().expect("writable");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    for path in [
        "/api/scanner/head",
        "/api/scanner/head/recompute",
        "/api/scanner/txs",
        "/api/scanner/txs/{id}",
        "/api/scanner/txs.csv",
        "/api/scanner/nodes",
        "/api/scanner/nodes/{id}",
        "/api/scanner/blocks",
        "/api/scanner/blocks/{rev}",
        "/api/scanner/leaves/{stableKey}",
        "/api/scanner/spaces",
        "/api/scanner/spaces/{spaceId}",
        "/api/scanner/games/{gameId}",
        "/api/scanner/talk",
        "/api/scanner/search",
        "/api/scanner/analytics/overview",
        "/api/scanner/analytics/events",
        "/api/scanner/stream",
        "/api/analytics/track",
        "/api/ingest/{op}",
        "/api/ingest/batch",
        "/api/admin/scanner/backfill",
        "/api/admin/scanner/nodes/{id}/analytics",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    let mut rest = text.as_str();
    let mut references = 0;
    while let Some(at) = rest.find("\"#/components/schemas/") {
        rest = &rest[at + "\"#/components/schemas/".len()..];
        let name = &rest[..rest.find('"').expect("a closing quote")];
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
        references += 1;
    }
    assert!(references > 20);
    // The forms in the description are those of the answers.
    let world = World::start().await;
    world
        .ingest(
            "executePurchase",
            &json!({ "record": record("pur-1"), "wallets": [wallet()] }),
        )
        .await;
    for (path, schema) in [
        ("/api/scanner/head", "HeadAnswer"),
        ("/api/scanner/txs/pur-1", "TxAnswer"),
        ("/api/scanner/txs", "TxsAnswer"),
        ("/api/scanner/nodes", "NodesAnswer"),
        ("/api/scanner/nodes/nm-1", "ProfileAnswer"),
        ("/api/scanner/spaces", "SpacesAnswer"),
        ("/api/scanner/spaces/space-9", "SpaceAnswer"),
        ("/api/scanner/games/g", "GameObject"),
        ("/api/scanner/talk", "TalkObject"),
        ("/api/scanner/search?q=x", "SearchAnswer"),
        ("/api/scanner/analytics/overview", "OverviewAnswer"),
        ("/api/scanner/head/recompute", "RecomputeAnswer"),
        ("/api/scanner/leaves/x", "LeafObject"),
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let schema = &document["components"]["schemas"][schema];
        check_form(&document, schema, &answer.json(), path);
    }
}

/// Every field of an answer is in the form, and every required field of the form in the answer.
fn check_form(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        return check_form(
            document,
            &document["components"]["schemas"][name],
            value,
            place,
        );
    }
    if let Some(options) = schema["oneOf"].as_array() {
        if !value.is_null() {
            let form = options
                .iter()
                .find(|option| option["$ref"].is_string())
                .expect("a form");
            check_form(document, form, value, place);
        }
        return;
    }
    match value {
        Value::Object(fields) if schema["properties"].is_object() => {
            for (name, value) in fields {
                let form = &schema["properties"][name];
                assert!(!form.is_null(), "{place}: {name} is not in the description");
                check_form(document, form, value, &format!("{place} {name}"));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().expect("a name");
                assert!(fields.contains_key(name), "{place}: {name} is missing");
            }
        }
        Value::Array(items) => {
            for item in items {
                check_form(document, &schema["items"], item, place);
            }
        }
        _ => {}
    }
}
