//! The crate against real servers: one, behind Sentinels, a Cluster of six, and the private one.

mod connection;
mod failover;
mod private;
mod stand_in;

use std::time::{Duration, Instant};

use cairn_redis::{Redis, RedisError, Target};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

async fn connect(url: &str) -> Redis {
    let target = Target::parse(url).expect("a valid URL");
    Redis::connect(&target).await.expect("it answers")
}

async fn set(redis: &Redis, key: &str, value: &str) -> Result<(), RedisError> {
    redis
        .query(key, redis::cmd("SET").arg(key).arg(value))
        .await
}

async fn get(redis: &Redis, key: &str) -> Result<Option<String>, RedisError> {
    redis.query(key, redis::cmd("GET").arg(key)).await
}

/// Asks until it succeeds; every error on the way must be one that passes.
async fn until_ok<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, RedisError>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) => {
                assert!(error.is_transient(), "{what}: {error}");
                assert!(Instant::now() < deadline, "{what}: {error}");
                tokio::time::sleep(POLL).await;
            }
        }
    }
}
