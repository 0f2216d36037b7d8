//! A client of the Scanner's ingestion that cannot disturb the application it lives in: [`ScannerClient::tell`] returns at
//! once, the queue is bounded, and what does not get through is dropped and counted. One file to copy; it needs `tokio`,
//! `reqwest` (feature `json`) and `serde_json`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Operations of one request.
const BATCH_MAX: usize = 200;
/// Pause after the first failure.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// How to reach the Scanner.
#[derive(Clone)]
pub struct Settings {
    /// Where Cairn listens, without a path.
    pub url: String,
    /// The ingestion token.
    pub token: String,
    /// Operations kept while the server is away; further ones are dropped.
    pub queue_max: usize,
    /// Time of one request.
    pub timeout: Duration,
}

/// What did not get through.
#[derive(Default)]
pub struct Losses {
    /// Operations that found the queue full.
    pub dropped: AtomicU64,
    /// Operations that the server refused: a programming error of the caller.
    pub refused: AtomicU64,
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct ScannerClient {
    queue: mpsc::Sender<(&'static str, Value)>,
    losses: Arc<Losses>,
    waiting: Arc<AtomicU64>,
}

impl ScannerClient {
    /// Starts the background task. Must be called within a tokio runtime.
    pub fn start(settings: Settings) -> Self {
        let (queue, operations) = mpsc::channel(settings.queue_max.max(1));
        let client = Self {
            queue,
            losses: Arc::default(),
            waiting: Arc::default(),
        };
        tokio::spawn(run(
            settings,
            operations,
            Arc::clone(&client.losses),
            Arc::clone(&client.waiting),
        ));
        client
    }

    /// Tells of something that your application has already committed, by the name of the call (`executePurchase`, …).
    /// Returns at once and never fails.
    pub fn tell(&self, call: &'static str, body: Value) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.queue.try_send((call, body)).is_err() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            self.losses.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What did not get through so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Waits until everything is sent, at most so long: before the application ends. Gives the number of operations left.
    pub async fn drain(&self, at_most: Duration) -> u64 {
        let end = Instant::now() + at_most;
        while self.waiting.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.waiting.load(Ordering::SeqCst)
    }
}

async fn run(
    settings: Settings,
    mut operations: mpsc::Receiver<(&'static str, Value)>,
    losses: Arc<Losses>,
    waiting: Arc<AtomicU64>,
) {
    let http = reqwest::Client::new();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while operations.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let mut wait = RETRY_MIN;
        // The ids of the records make a repetition harmless.
        loop {
            match send(&http, &settings, &batch).await {
                Some(refused) => {
                    losses.refused.fetch_add(refused, Ordering::SeqCst);
                    break;
                }
                None => tokio::time::sleep(wait).await,
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
        waiting.fetch_sub(batch.len() as u64, Ordering::SeqCst);
        batch.clear();
    }
}

/// How many operations the server refused; `None` when it has not answered for them.
async fn send(
    http: &reqwest::Client,
    settings: &Settings,
    batch: &[(&'static str, Value)],
) -> Option<u64> {
    let ops: Vec<Value> = batch
        .iter()
        .map(|(op, body)| json!({ "op": op, "body": body }))
        .collect();
    let sent = http
        .post(format!("{}/api/ingest/batch", settings.url))
        .bearer_auth(&settings.token)
        .timeout(settings.timeout)
        .json(&json!({ "ops": ops, "mode": "continue" }))
        .send()
        .await;
    let answer = sent.ok()?;
    let status = answer.status();
    if status.is_server_error() || status.as_u16() == 429 || status.as_u16() == 408 {
        return None;
    }
    if !status.is_success() {
        return Some(batch.len() as u64);
    }
    let answer: Value = answer.json().await.ok()?;
    let refused = answer["results"]
        .as_array()?
        .iter()
        .filter(|result| matches!(result["status"].as_str(), Some("invalid" | "conflict")));
    Some(refused.count() as u64)
}
