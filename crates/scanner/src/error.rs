//! Why the ledger could not do or answer something.

use cairn_redis::RedisError;

/// A failure. Says where and what; the text is for the operator, not for clients.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ScannerError {
    /// Redis did not do it.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// A key holds a value that cannot be read as what belongs there.
    #[error("the key {key} holds something else than it should: {why}")]
    Corrupt {
        /// The key.
        key: String,
        /// What is wrong with the value.
        why: String,
    },
    /// A number would leave its range.
    #[error("a total in {key} would leave the range of whole numbers; the record is not counted")]
    Overflow {
        /// The key.
        key: String,
    },
}

impl ScannerError {
    /// Whether the same call can succeed later without anybody's action at Cairn.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_transient())
    }

    /// One word for metrics.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Redis(RedisError::Unavailable { .. }) => "redis_unavailable",
            Self::Redis(RedisError::Full { .. }) => "redis_full",
            Self::Redis(RedisError::WrongType { .. }) => "wrong_type",
            Self::Redis(_) => "redis",
            Self::Corrupt { .. } => "corrupt",
            Self::Overflow { .. } => "overflow",
        }
    }
}
