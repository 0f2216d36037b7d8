//! Asking each master: what a scan of all keys needs on a Cluster.

use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue, Value};

use super::{Link, Redis};
use crate::error::RedisError;

/// One master of a Cluster, or the one server there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master(Option<(String, u16)>);

impl Redis {
    /// The masters, in the order of their first slot. A single server is its own.
    pub async fn masters(&self) -> Result<Vec<Master>, RedisError> {
        let Link::Cluster(_) = &self.shared.link else {
            return Ok(vec![Master(None)]);
        };
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let answer = self.ask_any(slots, "CLUSTER SLOTS").await?;
        let mut ranges: Vec<(i64, String, u16)> = match answer {
            Value::Array(ranges) => ranges.into_iter().filter_map(range_of).collect(),
            _ => Vec::new(),
        };
        ranges.sort();
        let mut masters = Vec::new();
        for (_, host, port) in ranges {
            let master = Master(Some((host, port)));
            if !masters.contains(&master) {
                masters.push(master);
            }
        }
        Ok(masters)
    }

    /// Sends a command to a master. `what` says in an error what was being done.
    pub async fn query_at<T: FromRedisValue>(
        &self,
        master: &Master,
        what: &str,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let (Link::Cluster(cluster), Some((host, port))) = (&self.shared.link, &master.0) else {
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

/// First slot and master of one range: `[first, last, [host, port, …], …]`.
fn range_of(range: Value) -> Option<(i64, String, u16)> {
    let Value::Array(fields) = range else {
        return None;
    };
    let mut fields = fields.into_iter();
    let first: i64 = redis::from_redis_value(fields.next()?).ok()?;
    let Value::Array(master) = fields.nth(1)? else {
        return None;
    };
    let mut master = master.into_iter();
    let host: String = redis::from_redis_value(master.next()?).ok()?;
    let port: u16 = redis::from_redis_value(master.next()?).ok()?;
    Some((first, host, port))
}
