//! What the node says about fees and itself, remembered for a while: clients ask for the same all the time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use cairn_utxo_node::{Node, NodeError};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::rpc::{RpcError, code};

/// How long the node's mempool limits are remembered.
const MEMPOOL_AGE_MAX: Duration = Duration::from_secs(5);
/// How long the node's version is remembered.
const NODE_AGE_MAX: Duration = Duration::from_secs(600);
/// Estimates remembered.
const ESTIMATES: usize = 512;

/// How careful an estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EstimateMode {
    /// As the node does.
    Default,
    Conservative,
    Economical,
}

/// A number of blocks that the node has an estimate for. Neighbouring ones are folded, so that few are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target(u16);

impl Target {
    /// The target that stands for a number of blocks: itself up to 12, then 2 and 24 apart, 1008 at most.
    pub(crate) fn of(blocks: u64) -> Self {
        let blocks = u16::try_from(blocks).unwrap_or(u16::MAX);
        Self(match blocks {
            // The next block cannot be promised; the node itself takes 1 for 2.
            0 => 1,
            1..=12 | 25 => blocks,
            13..=48 => blocks & !1,
            49..=1007 => blocks / 24 * 24,
            1008.. => 1008,
        })
    }
}

/// The node's limits for its mempool, coins per 1000 virtual bytes, each number as the node writes it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MempoolFacts {
    /// What a transaction must pay to get in now.
    pub(crate) mempoolminfee: Box<RawValue>,
    /// What it must pay at least at any time.
    pub(crate) minrelaytxfee: Box<RawValue>,
    /// What a replacement must pay more.
    #[serde(default = "no_increment")]
    pub(crate) incrementalrelayfee: Box<RawValue>,
}

fn no_increment() -> Box<RawValue> {
    // Nodes before 24 do not say; this is what it is set to unless somebody changes it.
    RawValue::from_string("0.00001000".to_owned()).expect("a number is JSON")
}

/// What the node calls itself.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct NodeIdentity {
    pub(crate) version: u64,
    pub(crate) subversion: String,
}

#[derive(Deserialize)]
struct Estimate {
    #[serde(default)]
    feerate: Option<Box<RawValue>>,
}

type Aged<T> = Mutex<Option<(Instant, Arc<T>)>>;

/// Answers of the node.
pub(crate) struct NodeFacts {
    mempool: Aged<MempoolFacts>,
    identity: Aged<NodeIdentity>,
    estimates: Cache<(Target, EstimateMode, BlockHash), Option<Arc<str>>>,
}

impl NodeFacts {
    pub(crate) fn new() -> Self {
        Self {
            mempool: Mutex::default(),
            identity: Mutex::default(),
            estimates: Cache::new(ESTIMATES),
        }
    }

    /// The node's limits for its mempool.
    pub(crate) async fn mempool(&self, node: &Node) -> Result<Arc<MempoolFacts>, RpcError> {
        remembered(&self.mempool, MEMPOOL_AGE_MAX, node, "getmempoolinfo").await
    }

    /// What the node calls itself.
    pub(crate) async fn identity(&self, node: &Node) -> Result<Arc<NodeIdentity>, RpcError> {
        remembered(&self.identity, NODE_AGE_MAX, node, "getnetworkinfo").await
    }

    /// The fee rate to be confirmed in time, as the node writes it; `None` if it cannot tell. Remembered until the tip changes.
    pub(crate) async fn estimate(
        &self,
        node: &Node,
        target: Target,
        mode: EstimateMode,
        tip: BlockHash,
    ) -> Result<Option<Arc<str>>, RpcError> {
        let key = (target, mode, tip);
        let ask = async {
            let mut params = vec![json!(target.0)];
            match mode {
                EstimateMode::Default => {}
                EstimateMode::Conservative => params.push(json!("conservative")),
                EstimateMode::Economical => params.push(json!("economical")),
            }
            let answer = node
                .rpc()
                .call("estimatesmartfee", &params)
                .await
                .map_err(failed)?;
            let estimate: Estimate = serde_json::from_str(answer.get())
                .map_err(|_| RpcError::new(code::NODE, "the node's estimate cannot be read"))?;
            Ok(estimate.feerate.map(|rate| Arc::from(rate.get())))
        };
        // Those who ask for the same at the same time wait for one answer.
        self.estimates.get_or_insert_async(&key, ask).await
    }
}

async fn remembered<T: for<'de> Deserialize<'de>>(
    slot: &Aged<T>,
    age: Duration,
    node: &Node,
    method: &str,
) -> Result<Arc<T>, RpcError> {
    if let Some((at, known)) = &*slot.lock().unwrap_or_else(PoisonError::into_inner)
        && at.elapsed() < age
    {
        return Ok(Arc::clone(known));
    }
    let answer = node.rpc().call(method, &[]).await.map_err(failed)?;
    let fresh: Arc<T> = serde_json::from_str(answer.get())
        .map(Arc::new)
        .map_err(|_| {
            RpcError::new(
                code::NODE,
                format!("the node's answer to {method} cannot be read"),
            )
        })?;
    *slot.lock().unwrap_or_else(PoisonError::into_inner) =
        Some((Instant::now(), Arc::clone(&fresh)));
    Ok(fresh)
}

fn failed(error: NodeError) -> RpcError {
    match error.rejection() {
        Some(failure) => RpcError::new(code::NODE, failure.message.clone()),
        None => RpcError::new(code::NODE, "the node of this server cannot be reached"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_folded() {
        for (blocks, target) in [
            (0, 1),
            (1, 1),
            (12, 12),
            (13, 12),
            (25, 25),
            (47, 46),
            (48, 48),
            (49, 48),
            (144, 144),
            (150, 144),
            (1007, 984),
            (1008, 1008),
            (5_000, 1008),
            (u64::MAX, 1008),
        ] {
            assert_eq!(Target::of(blocks), Target(target), "{blocks}");
        }
    }
}
