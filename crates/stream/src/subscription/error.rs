//! Why a subscription ends.

use cairn_redis::RedisError;

use crate::error::StreamError;

/// Why a subscription cannot go on. What trying again can cure is not among it: the subscription does that by itself.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubscriptionError {
    /// The stream or Redis.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The start that was asked for is older than what the stream holds.
    #[error(
        "{key}: events from block {wanted} on were asked for, but the oldest that is left is of block {first_block}; start at it, \
         or allow the gap"
    )]
    Trimmed {
        /// The stream.
        key: String,
        /// The block asked for.
        wanted: u32,
        /// The oldest block that is left.
        first_block: u32,
    },
    /// The start that was asked for is newer than what the stream holds.
    #[error(
        "{key}: events from block {wanted} on were asked for, and none of it is published yet; start at last_known, or later"
    )]
    NotPublished {
        /// The stream.
        key: String,
        /// The block asked for.
        wanted: u32,
    },
    /// A start relative to the head of a chain that has none.
    #[error(
        "{key}: there is no checkpoint, so there is no head to count back from; start at first or last_known"
    )]
    NoHead {
        /// The checkpoint.
        key: String,
    },
    /// Another instance was active all the time.
    #[error("subscription {sub_id}: another instance is active, and stayed so for {waited_ms} ms")]
    LockTimeout {
        /// The subscription.
        sub_id: String,
        /// How long was waited, milliseconds.
        waited_ms: u128,
    },
    /// The id is in use for another chain.
    #[error(
        "subscription {sub_id} is registered for the chain {registered}, and its keys have no chain in their name: choose another \
         id for the chain {wanted}"
    )]
    OtherChain {
        /// The subscription.
        sub_id: String,
        /// The chain it is registered for.
        registered: String,
        /// The chain that was asked for.
        wanted: String,
    },
    /// A fork could not be handled. It cannot be left out: what was undone would stay.
    #[error(
        "subscription {sub_id}: the fork {event_id} failed {failures} times and is not left out, since what it undoes would stay: \
         {reason}. Correct the handler; it is given out again at the next start"
    )]
    ForkFailed {
        /// The subscription.
        sub_id: String,
        /// The event.
        event_id: String,
        /// How often it failed.
        failures: u32,
        /// What the handler said last.
        reason: String,
    },
    /// There is no such group.
    #[error("{key}: there is no subscription {sub_id} on this stream; it has never been started")]
    NoGroup {
        /// The stream.
        key: String,
        /// The subscription.
        sub_id: String,
    },
    /// An instance is active.
    #[error("subscription {sub_id} is active in {holder}: stop it first, or use --force")]
    Active {
        /// The subscription.
        sub_id: String,
        /// The instance.
        holder: String,
    },
    /// The subscription was closed.
    #[error("subscription {sub_id} is closed")]
    Closed {
        /// The subscription.
        sub_id: String,
    },
}

impl From<RedisError> for SubscriptionError {
    fn from(error: RedisError) -> Self {
        Self::Stream(error.into())
    }
}

impl SubscriptionError {
    /// Whether the same step can succeed later without anybody's action.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Stream(error) if error.is_transient())
    }
}
