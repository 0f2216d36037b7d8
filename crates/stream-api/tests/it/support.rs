//! A stream behind its API, and clients of it.

use std::time::{Duration, Instant};

use cairn_http::{Listen, Surface, SurfaceOptions, Token, serve};
use cairn_redis::{Redis, Target};
use cairn_stream::ChainLabel;
use cairn_stream::subscription::LockTimes;
use cairn_stream_api::{ApiOptions, ApiState, Hosts};
use cairn_testkit::RedisServer;
use futures_util::StreamExt;
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "the-token";
/// The chain.
pub(crate) const CHAIN: &str = "eos";

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) url: String,
    pub(crate) hosts: Hosts,
    pub(crate) http: reqwest::Client,
}

pub(crate) fn options() -> ApiOptions {
    ApiOptions {
        idle: Duration::from_millis(400),
        heartbeat: Duration::from_millis(300),
        lock: LockTimes {
            ttl: Duration::from_millis(2_000),
            heartbeat: Duration::from_millis(500),
            poll: Duration::from_millis(100),
        },
        retry_pauses: vec![Duration::from_millis(20)],
        ..ApiOptions::default()
    }
}

/// Serves a stream; gives the address.
pub(crate) async fn listen(
    redis_url: &str,
    token: Option<Token>,
    options: ApiOptions,
) -> (String, Hosts) {
    let target = Target::parse(redis_url).expect("a valid URL");
    let redis = Redis::connect(&target).await.expect("it answers");
    let hosts = Hosts::new(redis.clone(), options, None);
    let router = cairn_stream_api::router(ApiState {
        redis,
        chains: vec![ChainLabel::new(CHAIN).expect("plain")],
        token,
        hosts: hosts.clone(),
    });
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen.bind(16).await.expect("a free port");
    let address = listener.address().expect("bound");
    let surface = Surface::new(router, SurfaceOptions::default());
    tokio::spawn(serve(listener, surface, std::future::pending()));
    (format!("http://{address}"), hosts)
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: ApiOptions) -> Self {
        let server = RedisServer::start();
        let (url, hosts) = listen(&server.url(), Token::new(TOKEN), options).await;
        Self {
            server,
            url,
            hosts,
            http: reqwest::Client::new(),
        }
    }

    /// Adds events `x:a:{from}` to `x:a:{to}`.
    pub(crate) fn publish(&self, from: u32, to: u32) -> Vec<String> {
        (from..=to)
            .map(|at| {
                let id = format!("x:a:{at}");
                let data = json!({ "kind": "action", "event_id": id, "block_num": at, "data": { "n": at } });
                redis::cmd("XADD")
                    .arg(format!("ce:parser2:{CHAIN}:events"))
                    .arg("*")
                    .arg("data")
                    .arg(data.to_string())
                    .query::<String>(&mut self.server.connection())
                    .expect("added");
                id
            })
            .collect()
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{}/api/streams/{CHAIN}/subscriptions/{rest}", self.url)
    }

    pub(crate) async fn get(&self, rest: &str) -> (u16, Value) {
        let request = self.http.get(self.path(rest)).bearer_auth(TOKEN);
        answer(request).await
    }

    pub(crate) async fn acks(&self, sub: &str, body: &Value) -> (u16, Value) {
        let request = self
            .http
            .post(self.path(&format!("{sub}/acks")))
            .bearer_auth(TOKEN)
            .body(body.to_string());
        answer(request).await
    }

    pub(crate) fn pending(&self, sub: &str) -> u64 {
        let summary: Vec<redis::Value> = self
            .server
            .run(&format!("XPENDING ce:parser2:{CHAIN}:events {sub}"));
        redis::from_redis_value(summary.into_iter().next().expect("a count")).expect("a number")
    }

    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn sse(&self, rest: &str) -> Sse {
        let response = self
            .http
            .get(self.path(rest))
            .bearer_auth(TOKEN)
            .header("accept", "text/event-stream")
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.status(), 200, "{:?}", response.text().await);
        Sse::of(response)
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let text = response.text().await.expect("a text");
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (status, value)
}

/// A client that reads server-sent events by the rules of the standard.
pub(crate) struct Sse {
    chunks: std::pin::Pin<
        Box<dyn futures_util::Stream<Item = reqwest::Result<axum::body::Bytes>> + Send>,
    >,
    text: String,
    pub(crate) comments: usize,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Sent {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("data is JSON")
    }
}

impl Sse {
    pub(crate) fn of(response: reqwest::Response) -> Self {
        Self {
            chunks: Box::pin(response.bytes_stream()),
            text: String::new(),
            comments: 0,
        }
    }

    /// The next one; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        let read = async {
            loop {
                if let Some(end) = self.text.find("\n\n") {
                    let block: String = self.text.drain(..end + 2).collect();
                    let mut sent = Sent::default();
                    let mut lines = Vec::new();
                    for line in block.lines() {
                        match line.split_once(": ") {
                            Some(("event", name)) => name.clone_into(&mut sent.name),
                            Some(("id", id)) => id.clone_into(&mut sent.id),
                            Some(("data", data)) => lines.push(data.to_owned()),
                            Some(("retry", _)) => {}
                            _ if line.starts_with(':') => self.comments += 1,
                            _ => assert!(line.is_empty(), "{line:?}"),
                        }
                    }
                    if lines.is_empty() {
                        continue;
                    }
                    sent.data = lines.join("\n");
                    return Some(sent);
                }
                let chunk = self.chunks.next().await?.ok()?;
                self.text
                    .push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("in time")
    }

    /// The next event of the stream; what tells of the role is passed over.
    pub(crate) async fn event(&mut self) -> Sent {
        loop {
            let sent = self.next().await.expect("it goes on");
            if sent.name.is_empty() {
                return sent;
            }
            assert!(sent.name != "error", "{sent:?}");
        }
    }

    /// The event ids of the next events, and the ids to acknowledge.
    pub(crate) async fn events(&mut self, count: usize) -> (Vec<String>, Vec<String>) {
        let mut ids = (Vec::new(), Vec::new());
        for _ in 0..count {
            let sent = self.event().await;
            ids.0
                .push(sent.json()["event_id"].as_str().expect("an id").to_owned());
            ids.1.push(sent.id);
        }
        ids
    }
}
