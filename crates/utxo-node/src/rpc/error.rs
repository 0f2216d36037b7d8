//! How a call to a node can fail.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source::SourceError;

/// The node answers with this code until it has loaded its chain.
pub const CODE_WARMING_UP: i64 = -28;
/// Unknown block, transaction or address.
const CODE_NOT_FOUND: i64 = -5;
/// A parameter out of range, as a height above the tip.
const CODE_BAD_PARAMETER: i64 = -8;
/// Anything; blocks that were pruned or not yet downloaded come under this code.
const CODE_MISC: i64 = -1;
/// No such method.
pub(crate) const CODE_NO_METHOD: i64 = -32601;

/// A node's own refusal: code and text as the node gave them.
///
/// Its `Display` is the JSON object `{"code":-26,"message":"…"}`, the form that wallets parse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcFailure {
    /// The node's code.
    pub code: i64,
    /// The node's text.
    #[serde(default)]
    pub message: String,
}

impl fmt::Display for RpcFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Why a call to a node gave no answer. No text here ever holds a credential.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    /// The node understood the call and refused it.
    #[error("{method} RPC error: {failure}")]
    Rejected {
        /// The method called.
        method: String,
        /// The node's code and text.
        failure: RpcFailure,
    },
    /// The node is not reachable, starting or busy: trying again can help.
    #[error("{0}")]
    Unavailable(String),
    /// The node does not let us in; the operator must act.
    #[error("{0}")]
    Refused(String),
    /// What came back is not an answer to the call.
    #[error("{0}")]
    Answer(String),
}

impl NodeError {
    /// Whether the same call can succeed later without anybody's action.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Rejected { failure, .. } => failure.code == CODE_WARMING_UP,
            Self::Refused(_) | Self::Answer(_) => false,
        }
    }

    /// The node's own refusal, if it is one.
    pub fn rejection(&self) -> Option<&RpcFailure> {
        match self {
            Self::Rejected { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Whether the node says that it does not have what was asked for.
    pub(crate) fn is_not_found(&self) -> bool {
        self.rejection().is_some_and(|failure| match failure.code {
            CODE_NOT_FOUND | CODE_BAD_PARAMETER => true,
            CODE_MISC => is_not_available(&failure.message),
            _ => false,
        })
    }

    /// Whether the node says that it has no such method.
    pub(crate) fn is_no_method(&self) -> bool {
        self.rejection()
            .is_some_and(|failure| failure.code == CODE_NO_METHOD)
    }
}

/// Texts of nodes about blocks that they do not have: "Block not available (pruned data)", "(not fully downloaded)",
/// "Block not found on disk".
fn is_not_available(message: &str) -> bool {
    ["not available", "not found", "pruned"]
        .iter()
        .any(|part| message.contains(part))
}

impl From<NodeError> for SourceError {
    fn from(error: NodeError) -> Self {
        let text = error.to_string();
        match &error {
            NodeError::Rejected { failure, .. } if failure.code == CODE_WARMING_UP => {
                Self::Unavailable(format!("the node is starting: {}", failure.message))
            }
            _ if error.is_not_found() => Self::Missing(text),
            _ if error.is_no_method() => Self::Refused(format!(
                "{text}; the node is too old or its rpcwhitelist leaves the method out"
            )),
            NodeError::Rejected { .. } => Self::Damaged(text),
            NodeError::Unavailable(_) => Self::Unavailable(text),
            NodeError::Refused(_) => Self::Refused(text),
            NodeError::Answer(_) => Self::Damaged(text),
        }
    }
}
