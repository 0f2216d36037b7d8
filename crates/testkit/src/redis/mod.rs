//! Real Redis servers for one test: a single one, a Cluster of six processes, a master with Sentinels.
//!
//! The program is `redis-server` on the path, or the one that `REDIS_SERVER_EXE` names. A test that needs it fails without it.

mod cluster;
mod sentinel;
mod server;

pub use cluster::RedisCluster;
pub use sentinel::RedisSentinels;
pub use server::{RedisOptions, RedisServer};
