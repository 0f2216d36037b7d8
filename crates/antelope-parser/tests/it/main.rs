//! The parser against recorded sessions, real Redis servers and a real node.

mod abis;
mod crash;
mod decoded;
mod hostile;
mod node;
mod redis;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_antelope_parser::{
    Parser, ParserSettings, ParserSource, ParserStatus, Quiet, StatusHandle,
};
use cairn_antelope_ship::ReplaySource;
use cairn_redis::{Redis, Target};
use cairn_stream::{ChainLabel, keys};
use cairn_testkit::RedisServer;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const MAIN: &[u8] =
    include_bytes!("../../../testkit/fixtures/antelope/main/frames.bin.gz");
pub(crate) const FORKS: &[u8] =
    include_bytes!("../../../testkit/fixtures/antelope/forks/frames.bin.gz");
pub(crate) const IRREVERSIBLE: &[u8] =
    include_bytes!("../../../testkit/fixtures/antelope/forks/frames-irreversible.bin.gz");

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn label() -> ChainLabel {
    ChainLabel::new("test-chain").expect("a plain label")
}

pub(crate) fn replay(recording: &[u8]) -> ReplaySource {
    ReplaySource::from_gzip(recording).expect("a recording")
}

pub(crate) fn settings(source: &ReplaySource) -> ParserSettings {
    ParserSettings::new(label(), ParserSource::Recorded(source.clone()))
}

pub(crate) async fn connect(url: &str) -> Redis {
    let target = Target::parse(url).expect("a valid URL");
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Redis::connect(&target).await {
            Ok(redis) => return redis,
            Err(error) => assert!(error.is_transient() && Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A parser at work.
pub(crate) struct Running {
    pub(crate) status: StatusHandle,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(settings: ParserSettings, redis: Redis) -> Self {
        let parser = Parser::new(settings, redis, Arc::new(Quiet));
        let status = parser.status();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // Being dropped counts as being asked.
            let asked = async {
                let _ = stopped.await;
            };
            parser.run(asked).await.expect("nobody else writes");
        });
        Self { status, stop, task }
    }

    /// Waits until the status is as wanted.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut wanted: impl FnMut(&ParserStatus) -> bool,
    ) -> ParserStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status.read();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waiting for {what}: {status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it as a stop does.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.expect("it ends");
    }

    /// Ends it wherever it is, as a crash does.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Lets a parser read all of a recording and stops it.
pub(crate) async fn read_all(source: &ReplaySource, redis: &Redis, last: u32) {
    let running = Running::start(settings(source), redis.clone());
    running
        .until("the last block", |status| {
            status.last.is_some_and(|block| block.num == last)
        })
        .await;
    running.stop().await;
}

/// The events in the stream, in their order.
pub(crate) fn events(connection: &mut ::redis::Connection) -> Vec<Value> {
    let raw: Vec<(String, Vec<(String, String)>)> = ::redis::cmd("XRANGE")
        .arg(keys::events(&label()))
        .arg("-")
        .arg("+")
        .query(connection)
        .expect("readable");
    raw.into_iter()
        .map(|(_, fields)| {
            assert_eq!(fields.len(), 1);
            assert_eq!(fields[0].0, "data");
            serde_json::from_str(&fields[0].1).expect("an event is JSON")
        })
        .collect()
}

pub(crate) fn ids(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|event| event["event_id"].as_str().expect("an id").to_owned())
        .collect()
}

/// The ids that an undisturbed parser leaves.
pub(crate) async fn undisturbed(recording: &[u8], last: u32) -> Vec<String> {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    read_all(&replay(recording), &redis, last).await;
    ids(&events(&mut server.connection()))
}
