//! What happens, for whoever counts.

use std::time::Duration;

use cairn_antelope_abi::Name;
use cairn_stream::{BlockTime, Position, StreamError};

/// Why a value was published as raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Undecoded {
    /// The contract has no ABI, or nobody knows it.
    NoAbi,
    /// What the contract set as its ABI is none.
    BadAbi,
    /// The ABI does not have the action or table.
    NotInAbi,
    /// The bytes do not fit the type that the ABI gives.
    DoesNotFit,
    /// The block's events are larger than the bound.
    TooLarge,
}

impl Undecoded {
    /// A short word for labels of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoAbi => "no_abi",
            Self::BadAbi => "bad_abi",
            Self::NotInAbi => "not_in_abi",
            Self::DoesNotFit => "does_not_fit",
            Self::TooLarge => "too_large",
        }
    }
}

/// A published block.
#[derive(Clone, Debug)]
pub struct BlockReport {
    /// The block.
    pub position: Position,
    /// Its time.
    pub time: BlockTime,
    /// Events by kind, as the kind stands in the event.
    pub kinds: Vec<(&'static str, u64)>,
    /// Bytes of its events.
    pub event_bytes: u64,
    /// Bytes of the message that it came in.
    pub frame_bytes: u64,
    /// Values that could not be decoded, by contract and reason.
    pub undecoded: Vec<(Name, Undecoded)>,
    /// How many blocks were undone before it.
    pub undone_blocks: u32,
    /// How long decoding took.
    pub decoding: Duration,
}

/// Hears of everything that a metric could count. Called from the parser's tasks: must not block.
pub trait Observer: Send + Sync + 'static {
    /// A block is in the stream.
    fn published(&self, _block: &BlockReport) {}
    /// The connection to the node was lost or refused.
    fn disconnected(&self, _reason: &str) {}
    /// Redis does not take events for now; `None` when it does again.
    fn blocked(&self, _error: Option<&StreamError>) {}
    /// A block could not be read, or the chain cannot go on for another reason.
    fn failed(&self, _reason: &str) {}
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {}
