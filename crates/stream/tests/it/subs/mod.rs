//! Subscriptions against real Redis servers.

mod admin;
mod chaos;
mod cluster;
mod delivery;
mod failures;
mod model;
mod replay;
mod start;
mod takeover;
mod wire;

use std::time::{Duration, Instant};

use cairn_redis::Redis;
use cairn_stream::subscription::{
    Delivery, EventSource, LockTimes, Origin, StartFrom, SubId, Subscription, SubscriptionError,
    SubscriptionOptions,
};
use cairn_stream::{ChainLabel, EntryId, keys};
use cairn_testkit::RedisServer;

use crate::chain::plain;
use crate::{PATIENCE, connect, label, open};

/// Times of the lock that keep tests short.
pub(crate) const QUICK: LockTimes = LockTimes {
    ttl: Duration::from_millis(2_000),
    heartbeat: Duration::from_millis(500),
    poll: Duration::from_millis(100),
};

pub(crate) fn sub_id(text: &str) -> SubId {
    SubId::new(text).expect("a plain id")
}

/// From the beginning, with short pauses.
pub(crate) fn options(sub: &str) -> SubscriptionOptions {
    SubscriptionOptions {
        start_from: StartFrom::First,
        lock: QUICK,
        retry_pauses: vec![Duration::from_millis(20)],
        ..SubscriptionOptions::new(sub_id(sub))
    }
}

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) redis: Redis,
    pub(crate) chain: ChainLabel,
}

impl World {
    /// A server with a chain of so many blocks.
    pub(crate) async fn with_blocks(name: &str, blocks: u32) -> Self {
        let server = RedisServer::start();
        let redis = connect(&server.url()).await;
        let chain = label(name);
        let world = Self {
            server,
            redis,
            chain,
        };
        if blocks > 0 {
            world.publish(1, blocks).await;
        }
        world
    }

    pub(crate) async fn publish(&self, from: u32, to: u32) {
        let (mut publisher, _) = open(&self.redis, &self.chain).await;
        publisher
            .publish(&plain(&self.chain, from, to))
            .await
            .expect("published");
    }

    pub(crate) fn source(&self) -> EventSource {
        EventSource::live(&self.chain)
    }

    pub(crate) fn start(&self, options: SubscriptionOptions) -> Subscription {
        Subscription::start(self.redis.clone(), self.source(), options)
    }

    /// Adds an entry as it is.
    pub(crate) fn add(&self, fields: &[(&str, &str)]) -> EntryId {
        let mut command = redis::cmd("XADD");
        command.arg(keys::events(&self.chain)).arg("*");
        for (name, value) in fields {
            command.arg(name).arg(value);
        }
        let id: String = command.query(&mut self.server.connection()).expect("added");
        id.parse().expect("an id")
    }

    /// Adds an event of some kind.
    pub(crate) fn add_event(&self, kind: &str, event_id: &str) -> EntryId {
        let data = serde_json::json!({ "kind": kind, "event_id": event_id, "forked_from_block": 1,
            "new_head_block_id": "00".repeat(32) });
        self.add(&[("data", &data.to_string())])
    }

    /// Entries given out and not acknowledged.
    pub(crate) fn pending(&self, sub: &str) -> u64 {
        let summary: Vec<redis::Value> = redis::cmd("XPENDING")
            .arg(keys::events(&self.chain))
            .arg(sub)
            .query(&mut self.server.connection())
            .expect("a group");
        redis::from_redis_value(summary.into_iter().next().expect("a count")).expect("a number")
    }

    /// Waits until something that Redis tells is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The dead letters as Redis has them: their fields.
    pub(crate) fn dead(&self, sub: &str) -> Vec<std::collections::HashMap<String, String>> {
        dead_at(&self.server, &self.chain, sub)
    }
}

pub(crate) fn dead_at(
    server: &RedisServer,
    chain: &ChainLabel,
    sub: &str,
) -> Vec<std::collections::HashMap<String, String>> {
    let found: Vec<(String, std::collections::HashMap<String, String>)> = redis::cmd("XRANGE")
        .arg(keys::dead_letters(chain, sub))
        .arg("-")
        .arg("+")
        .query(&mut server.connection())
        .expect("readable");
    found.into_iter().map(|(_, fields)| fields).collect()
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("never: {what}"),
    }
}

pub(crate) async fn next(subscription: &mut Subscription) -> Delivery {
    within("an event", subscription.next())
        .await
        .expect("the subscription goes on")
}

pub(crate) async fn next_error(subscription: &mut Subscription) -> SubscriptionError {
    within("an error", subscription.next())
        .await
        .expect_err("the subscription ends")
}

/// Acknowledges so many events; gives their ids.
pub(crate) async fn take(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        let delivery = next(subscription).await;
        ids.push(delivery.event().id().to_owned());
        delivery.ack();
    }
    ids
}

/// The entry of a delivery.
pub(crate) fn entry(delivery: &Delivery) -> EntryId {
    match delivery.event().origin() {
        Origin::Stream(entry) => entry,
        Origin::DeadLetter { .. } => panic!("an event of the stream is expected"),
    }
}
