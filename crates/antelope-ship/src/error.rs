//! Why blocks do not arrive.

use std::time::Duration;

use cairn_antelope_abi::DecodeError;

use crate::branch::BlockPosition;
use crate::layout::ProtocolError;

/// Why blocks do not arrive. Every text says what the operator can do, where there is something.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The address is none that this program can use.
    #[error(
        "{url}: {why}; a State History address looks like ws://127.0.0.1:8080 or unix:/run/nodeos/ship.sock"
    )]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection.
    #[error("{endpoint}: cannot connect: {cause}")]
    Connect {
        /// Where to.
        endpoint: String,
        /// Why not.
        cause: String,
    },
    /// The connection ended.
    #[error("{endpoint}: the node closed the connection: {cause}")]
    Closed {
        /// Where to.
        endpoint: String,
        /// What was said about it.
        cause: String,
    },
    /// A message is larger than the bound.
    #[error("{endpoint}: a message is larger than the bound of {bound} bytes: {cause}")]
    TooLarge {
        /// Where from.
        endpoint: String,
        /// The bound.
        bound: usize,
        /// The sizes.
        cause: String,
    },
    /// Nothing arrived for a while although there was room for it.
    #[error("{endpoint}: no block for {} s", silence.as_secs())]
    Stalled {
        /// Where from.
        endpoint: String,
        /// How long.
        silence: Duration,
    },
    /// The node's protocol is none that this program understands.
    #[error("{endpoint}: {cause}")]
    Protocol {
        /// Where from.
        endpoint: String,
        /// What is not understood.
        #[source]
        cause: ProtocolError,
    },
    /// A message that does not fit the protocol.
    #[error("{endpoint}: {what} cannot be read: {cause}")]
    Frame {
        /// Where from.
        endpoint: String,
        /// Which message.
        what: String,
        /// Why not.
        #[source]
        cause: DecodeError,
    },
    /// The node is on another chain than the configuration or the checkpoint says.
    #[error(
        "{endpoint}: this node is on chain {found}, not on {expected}: the address or expect_chain_id is wrong"
    )]
    ChainId {
        /// Where from.
        endpoint: String,
        /// The chain id expected, hex.
        expected: String,
        /// The node's chain id, hex.
        found: String,
    },
    /// The node does not have a block that was irreversible here.
    #[error(
        "{endpoint}: its block {num} is not the one that was irreversible here: another chain under the same name, or the \
         chain was rewound by hand; a new chain id label or an empty stream is needed to follow it"
    )]
    IrreversibleDiffers {
        /// Where from.
        endpoint: String,
        /// The number.
        num: u32,
    },
    /// The node's history begins later than the block needed.
    #[error(
        "{endpoint}: block {wanted} is needed, but its history has traces {traces} and state changes {states}: use a node with a \
         longer history, or another start_block"
    )]
    History {
        /// Where from.
        endpoint: String,
        /// The block needed.
        wanted: u32,
        /// The range of traces, as text.
        traces: String,
        /// The range of state changes, as text.
        states: String,
    },
    /// The node is not yet where we are.
    #[error(
        "{endpoint}: its head is block {head}, and {wanted} is needed: it is still catching up"
    )]
    Behind {
        /// Where from.
        endpoint: String,
        /// Its head.
        head: u32,
        /// The block needed.
        wanted: u32,
    },
    /// Blocks are missing between the last one and what the node sent.
    #[error("{endpoint}: block {wanted} is next, but the node sent {got}")]
    Gap {
        /// Where from.
        endpoint: String,
        /// The number that is next.
        wanted: u32,
        /// The number that came.
        got: u32,
    },
    /// The block does not stand on what is known here.
    #[error("{endpoint}: block {} does not stand on block {}, which is the last known here", got.num, last.num)]
    LostBranch {
        /// Where from.
        endpoint: String,
        /// The last block known here.
        last: BlockPosition,
        /// The block that came.
        got: BlockPosition,
    },
}

impl ShipError {
    /// Whether trying again with the same configuration can help soon.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        !matches!(
            self,
            Self::Url { .. }
                | Self::TooLarge { .. }
                | Self::Protocol { .. }
                | Self::ChainId { .. }
                | Self::IrreversibleDiffers { .. }
                | Self::History { .. }
        )
    }
}
