//! The lock of a subscription's active instance: who holds it, and for how long that is certain.
//!
//! It keeps two instances from working at once in the ordinary course. What may be done to the group is decided elsewhere
//! (see the group's module), so that a lock that is lost unnoticed harms nothing.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cairn_redis::{Redis, RedisError};
use redis::Script;

use crate::keys;
use crate::subscription::names::SubId;
use crate::subscription::options::LockTimes;

static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end\n\
         return 0",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\n\
         return 0",
    )
});

/// The next number, above all that were given and above this one.
static NEXT_EPOCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = tonumber(redis.call('GET', KEYS[1]) or '0')\n\
         if held < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end\n\
         return redis.call('INCR', KEYS[1])",
    )
});

/// `host:process:uuid`, for people to find the holder.
pub(super) fn instance_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        .take(64)
        .collect();
    let host = if host.is_empty() { "localhost" } else { &host };
    format!("{host}:{}:{}", std::process::id(), uuid::Uuid::now_v7())
}

/// A pause of about this long: instances that poll the same lock drift apart.
pub(super) fn about(pause: Duration) -> Duration {
    // A new hasher has new keys.
    let random = std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish();
    let percent = u32::try_from(random % 50).unwrap_or_default() + 75;
    pause * percent / 100
}

/// The way to the lock.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    redis: Redis,
    sub_id: SubId,
    key: String,
    instance: String,
    times: LockTimes,
}

impl Lock {
    pub(super) fn new(redis: Redis, sub_id: &SubId, times: LockTimes) -> Self {
        Self {
            redis,
            sub_id: sub_id.clone(),
            key: keys::lock(sub_id.as_str()),
            instance: instance_id(),
            // Some renewals must fit into its life.
            times: LockTimes {
                heartbeat: times.heartbeat.min(times.ttl / 3),
                ..times
            },
        }
    }

    pub(super) fn times(&self) -> LockTimes {
        self.times
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.times.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes it if it is free, or was ours already. Gives until when it is certainly ours.
    pub(super) async fn acquire(&self) -> Result<Option<Instant>, RedisError> {
        let asked = Instant::now();
        let mut command = redis::cmd("SET");
        command
            .arg(&self.key)
            .arg(&self.instance)
            .arg("NX")
            .arg("PX")
            .arg(self.ttl_ms());
        let set: Option<String> = self.redis.query(&self.key, &command).await?;
        if set.is_some() {
            return Ok(Some(asked + self.times.ttl));
        }
        // An answer that was lost may have made it ours.
        self.renew().await
    }

    /// Makes it last; `None` when it is not ours.
    pub(super) async fn renew(&self) -> Result<Option<Instant>, RedisError> {
        let asked = Instant::now();
        let renewed: bool = RENEW
            .key(&self.key)
            .arg(&self.instance)
            .arg(self.ttl_ms())
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(&self.key, &error))?;
        Ok(renewed.then(|| asked + self.times.ttl))
    }

    /// Gives it back if it is ours.
    pub(super) async fn release(&self) -> Result<(), RedisError> {
        RELEASE
            .key(&self.key)
            .arg(&self.instance)
            .invoke_async::<u64>(&mut self.redis.clone())
            .await
            .map(drop)
            .map_err(|error| self.redis.explain(&self.key, &error))
    }

    /// A number that no holder had, higher than all before and than this one.
    pub(super) async fn next_epoch(&self, above: u64) -> Result<u64, RedisError> {
        let key = keys::epoch(self.sub_id.as_str());
        NEXT_EPOCH
            .key(&key)
            .arg(above)
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(&key, &error))
    }
}

/// Who holds the lock of a subscription now.
pub(super) async fn holder(redis: &Redis, sub_id: &SubId) -> Result<Option<String>, RedisError> {
    let key = keys::lock(sub_id.as_str());
    let mut command = redis::cmd("GET");
    command.arg(&key);
    redis.query(&key, &command).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_differ_and_name_their_place() {
        let (a, b) = (instance_id(), instance_id());
        assert_ne!(a, b);
        let parts: Vec<&str> = a.split(':').collect();
        assert_eq!(parts.len(), 3, "{a}");
        assert_eq!(parts[1], std::process::id().to_string());
    }

    #[test]
    fn pauses_drift() {
        let second = Duration::from_secs(1);
        let some: Vec<Duration> = (0..100).map(|_| about(second)).collect();
        assert!(
            some.iter()
                .all(|pause| *pause >= second * 3 / 4 && *pause <= second * 5 / 4)
        );
        assert!(some.iter().any(|pause| *pause != some[0]));
    }
}
