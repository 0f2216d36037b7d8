//! What can go wrong with the stream.

use cairn_redis::RedisError;

use crate::position::Position;

/// Why a step on the stream did not succeed. Every text names the key.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StreamError {
    /// Redis.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Another instance has begun to write this chain after us.
    #[error(
        "{key}: another Cairn has begun to publish this chain (epoch {newer}, ours is {ours}); this one stops writing. Run one \
         instance for each chain, or give the other another chain id"
    )]
    Fenced {
        /// The checkpoint.
        key: String,
        /// Our number.
        ours: u64,
        /// The number in the checkpoint.
        newer: u64,
    },
    /// The stream does not end where it was left: Redis lost its newest entries in a crash or a failover, or somebody else
    /// wrote. The publisher has found out where it ends now; reading goes on from there.
    #[error("{key}: the stream ends elsewhere than it was left, reading goes on from there: {}", place(.now))]
    Moved {
        /// The stream.
        key: String,
        /// Where it ends.
        now: Option<Position>,
    },
    /// A block was given that does not follow the last one: publishing it would leave a gap.
    #[error("{key}: block {given} does not follow the last published block {last}: {why}")]
    NotNext {
        /// The stream.
        key: String,
        /// The block published last.
        last: Position,
        /// The block given.
        given: Position,
        /// What does not fit.
        why: String,
    },
    /// The keys belong to another network.
    #[error(
        "{key} belongs to the network {stored}, but the node follows {found}: another node, or another chain, under the same \
         chain id. Correct the node's address, or give this chain another id"
    )]
    OtherNetwork {
        /// The checkpoint.
        key: String,
        /// The network in it.
        stored: String,
        /// The node's.
        found: String,
    },
    /// The keys without a chain in their name belong to another chain.
    #[error(
        "this Redis database holds the ABIs of the chain {owner}, and those keys have no chain in their name: chain {chain} needs \
         a database of its own (another number at the end of redis.url, or another Redis); {key} names the owner"
    )]
    OtherOwner {
        /// The key that names the owner.
        key: String,
        /// The owner.
        owner: String,
        /// The chain that wants in.
        chain: String,
    },
    /// What is stored is not what Cairn writes.
    #[error("{key}: {what}. Correct it, or delete the key if it is not needed")]
    Damaged {
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
    },
}

fn place(position: &Option<Position>) -> String {
    match position {
        Some(position) => format!("after block {position}"),
        None => "at its beginning".to_owned(),
    }
}

impl StreamError {
    /// Whether the same step can succeed later without anybody's action at Cairn.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_transient())
    }
}
