//! Connections to Redis and the private `redis-server`.
//!
//! * [`Target`]: where Redis is, from one URL: a single server (TCP, TLS, unix socket), a service behind Sentinels, or a
//!   Cluster.
//! * [`Redis`]: one cloneable handle over all three. It implements `redis::aio::ConnectionLike`, so `redis::cmd`, `redis::pipe`
//!   and `redis::Script` work on it, and it finds its way back after a restart or a failover by itself.
//! * [`Dedicated`]: a connection of its own for blocking reads, which would hold up everybody on a shared one.
//! * [`RedisError`]: what went wrong, sorted by what can be done about it.
//! * [`PrivateServer`]: the `redis-server` that Cairn starts when no URL is configured.
//!
//! This crate knows no key. A command that failed is not sent again here (a Cluster's redirections aside): whoever sent it
//! knows whether that is safe, and [`RedisError::is_transient`] says whether it can help.

mod connection;
mod error;
mod private;
mod server;
mod target;

pub use connection::{Dedicated, Redis, Shard};
pub use error::RedisError;
pub use private::{
    FoundServer, PrivateOptions, PrivateServer, PrivateServerError, PrivateState, ServerProgram,
};
pub use server::{ServerFacts, VERSION_MIN, Version};
pub use target::{Target, TargetError, TargetKind};
