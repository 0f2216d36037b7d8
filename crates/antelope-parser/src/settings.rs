//! How a chain is followed.

use std::time::Duration;

use cairn_antelope_abi::{Checksum256, Profile};
use cairn_antelope_ship::{FRAME_BYTES_MAX, NodeSource, ReplaySource, ShipError, Source, Start};
use cairn_stream::ChainLabel;

/// Where blocks come from.
#[derive(Clone)]
pub enum ParserSource {
    /// A node's State History address: `ws://host:port` or `unix:/path`.
    Node(String),
    /// A recorded session.
    Recorded(ReplaySource),
}

impl ParserSource {
    pub(crate) fn open(&self, frame_bytes_max: usize) -> Result<Box<dyn Source>, ShipError> {
        Ok(match self {
            Self::Node(url) => Box::new(NodeSource::new(url, frame_bytes_max)?),
            Self::Recorded(source) => Box::new(source.clone()),
        })
    }

    pub(crate) fn endpoint(&self) -> String {
        match self {
            Self::Node(url) => url.clone(),
            Self::Recorded(source) => source.endpoint(),
        }
    }
}

impl std::fmt::Debug for ParserSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParserSource({})", self.endpoint())
    }
}

/// What to do about a contract whose ABI is not in the history, because reading began in the middle of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AbiFallback {
    /// Ask the chain API at this address for the ABI of today.
    RpcCurrent {
        /// `http://host:port`.
        chain_url: String,
    },
    /// Stop with an error that names the contract.
    Fail,
    /// Publish raw bytes.
    #[default]
    Hex,
}

/// How a chain is followed.
#[derive(Clone, Debug)]
pub struct ParserSettings {
    /// The chain's label in keys and events.
    pub chain: ChainLabel,
    /// Where blocks come from.
    pub source: ParserSource,
    /// Where to begin when nothing was published yet.
    pub start: Start,
    /// Only blocks that cannot be undone any more.
    pub irreversible_only: bool,
    /// The chain's own id, when a node of another chain is to be refused before anything is stored.
    pub expect_chain_id: Option<Checksum256>,
    /// How decoded values are printed.
    pub profile: Profile,
    /// What to do without an ABI.
    pub abi_fallback: AbiFallback,
    /// About how many entries the stream may have; 0 for no limit.
    pub max_len: u64,
    /// How many blocks may be on their way from the node.
    pub window: u32,
    /// The largest message that is taken from the node, in bytes.
    pub frame_bytes_max: usize,
    /// After how long without a block the connection is given up; `None`: never, as for a recorded session.
    pub stall: Option<Duration>,
}

impl ParserSettings {
    /// The usual settings for a chain.
    #[must_use]
    pub fn new(chain: ChainLabel, source: ParserSource) -> Self {
        let stall = match &source {
            ParserSource::Node(_) => Some(Duration::from_secs(30)),
            ParserSource::Recorded(_) => None,
        };
        Self {
            chain,
            source,
            start: Start::First,
            irreversible_only: false,
            expect_chain_id: None,
            profile: Profile::Wharfkit,
            abi_fallback: AbiFallback::Hex,
            max_len: 0,
            window: 256,
            frame_bytes_max: FRAME_BYTES_MAX,
            stall,
        }
    }

    /// `start_block` of the configuration: 0 for the first block of the node's history, negative for so many behind its head.
    #[must_use]
    pub fn start_from(number: i64) -> Start {
        match u32::try_from(number) {
            Ok(0) => Start::First,
            Ok(number) => Start::Block(number),
            Err(_) if number < 0 => {
                Start::BehindHead(u32::try_from(number.unsigned_abs()).unwrap_or(u32::MAX))
            }
            Err(_) => Start::Block(u32::MAX),
        }
    }
}
