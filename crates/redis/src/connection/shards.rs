//! Asking one shard after the other: what a long scan of all keys needs, which must be able to stop and go on.

use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue, Value};

use super::{Link, Redis};
use crate::error::RedisError;

/// One master of a Cluster, or the one server there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard(Option<(String, u16)>);

impl Redis {
    /// The masters, in the order of their slots. A single server is its own only one.
    pub async fn shards(&self) -> Result<Vec<Shard>, RedisError> {
        if !self.is_cluster() {
            return Ok(vec![Shard(None)]);
        }
        let masters = self.masters().await?;
        Ok(masters
            .into_iter()
            .map(|master| Shard(Some(master)))
            .collect())
    }

    /// Sends a command to a shard. `what` says in an error what was being done.
    pub async fn query_shard<T: FromRedisValue>(
        &self,
        shard: &Shard,
        what: &str,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let (Link::Cluster(cluster), Some((host, port))) = (&self.shared.link, &shard.0) else {
            return self.query(what, command).await;
        };
        let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress {
            host: host.clone(),
            port: *port,
        });
        let answer = cluster.clone().route_command(command.clone(), route).await;
        answer
            .and_then(Value::extract_error)
            .and_then(|value| Ok(redis::from_redis_value(value)?))
            .map_err(|error| self.explain(what, &error))
    }
}
