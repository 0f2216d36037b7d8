//! A ledger behind its API.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use cairn_http::{Surface, SurfaceOptions};
use cairn_redis::{Redis, Target};
use cairn_scanner::{Clock, HostId, Options, Scanner};
use cairn_scanner_api::{ApiOptions, ApiState, LiveFeed, Token};
use cairn_stream::ChainLabel;
use cairn_testkit::{Call, RedisServer};
use serde_json::{Value, json};

/// The instant at which all tests happen: `2026-03-10T14:05:17.123Z`.
pub(crate) const NOW: i64 = 1_773_151_517_123;
pub(crate) const ADMIN: &str = "the-admins-token";
pub(crate) const INGEST: &str = "the-applications-token";

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) scanner: Scanner,
    pub(crate) surface: Surface,
}

/// What a request was answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("ascii"))
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let server = RedisServer::start();
        let target = Target::parse(&server.url()).expect("a valid URL");
        let redis = Redis::connect(&target).await.expect("it answers");
        let host = HostId::new("default").expect("a host");
        let mut options = Options::new(host, ChainLabel::new("ledger-default").expect("a label"));
        change(&mut options);
        let scanner = Scanner::open(redis, options, Clock::fixed(NOW))
            .await
            .expect("it opens");
        let live = LiveFeed::new(4);
        let router = cairn_scanner_api::router(ApiState {
            scanner: scanner.clone(),
            admin_token: Token::new(ADMIN),
            ingest_token: Token::new(INGEST),
            live: live.clone(),
            options: ApiOptions::default(),
        });
        tokio::spawn(live.run(scanner.clone(), std::future::pending()));
        Self {
            server,
            scanner,
            surface: Surface::new(router, SurfaceOptions::default()),
        }
    }

    pub(crate) async fn send(&self, request: Request) -> Answer {
        let response = self.surface.handle(request).await;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.expect("a whole body");
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).expect("UTF-8"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, Body::empty()).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).expect("a request"))
            .await
    }

    /// One call of the application.
    pub(crate) async fn ingest(&self, op: &str, body: &Value) -> Answer {
        self.ingest_text(op, body.to_string()).await
    }

    pub(crate) async fn ingest_text(&self, op: &str, body: impl Into<Body>) -> Answer {
        let token = format!("Bearer {INGEST}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        self.ask("POST", &format!("/api/ingest/{op}"), &headers, body)
            .await
    }

    /// Many calls of the application.
    pub(crate) async fn batch(&self, calls: &[Call]) -> Answer {
        let ops: Vec<Value> = calls
            .iter()
            .map(|call| json!({"op": call.hook, "body": call.body}))
            .collect();
        self.ingest("batch", &json!({ "ops": ops })).await
    }

    pub(crate) async fn admin(&self, method: &str, path: &str) -> Answer {
        let token = format!("Bearer {ADMIN}");
        self.ask(method, path, &[("authorization", &token)], Body::empty())
            .await
    }
}

/// A good record.
pub(crate) fn record(id: &str) -> Value {
    json!({
        "id": id, "playerId": "nm-1", "spaceId": "space-9", "amenityKind": "shop",
        "itemRef": {"kind": "shop", "id": "item-3"}, "priceUsd": 3.5, "at": "2026-03-10T14:05:17.123Z",
        "powerUpsEarned": 9, "powerUpsDelta": 9, "token": "APU", "debitSource": "wallet:usd",
        "creditSource": "amenity:shop:space-9",
    })
}

pub(crate) fn wallet() -> Value {
    json!({"playerId": "nm-1", "balanceUsd": 6.5, "powerUps": 9, "updatedAt": "2026-03-10T14:05:17.123Z"})
}
