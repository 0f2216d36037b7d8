//! Where the parser is, readable at any time.

use std::sync::{Arc, Mutex, PoisonError};

use cairn_stream::{BlockTime, Position};

use crate::compiled::AbiCounts;

/// What the parser is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ParserState {
    /// Nothing yet.
    #[default]
    Starting,
    /// Blocks are coming, but the head is further on.
    CatchingUp,
    /// At the node's head.
    Following,
    /// Something outside is missing; it tries again by itself.
    Waiting {
        /// What, and what can be done.
        reason: String,
    },
    /// Something needs a person; it goes on trying at long intervals.
    Failed {
        /// What, and what to do.
        reason: String,
    },
    /// Ended as asked.
    Stopped,
}

/// Where the parser is.
#[derive(Clone, Debug, Default)]
pub struct ParserStatus {
    /// What it is doing.
    pub state: ParserState,
    /// Where blocks come from.
    pub endpoint: String,
    /// The chain's own id, hex, once the node told it.
    pub chain_id: Option<String>,
    /// The node's head.
    pub head: Option<Position>,
    /// The node's last irreversible block.
    pub last_irreversible: Option<Position>,
    /// The last published block.
    pub last: Option<Position>,
    /// Its time.
    pub last_time: Option<BlockTime>,
    /// Blocks published since the start of the program.
    pub blocks: u64,
    /// Their events.
    pub events: u64,
    /// Values published as raw bytes.
    pub undecoded: u64,
    /// Changes to another branch.
    pub forks: u64,
    /// Connections to the node that were lost or refused.
    pub disconnects: u64,
    /// Compiled ABIs found and made.
    pub abis: AbiCounts,
}

impl ParserStatus {
    /// Blocks between the last published one and the node's head.
    #[must_use]
    pub fn blocks_behind(&self) -> Option<u32> {
        Some(self.head?.num.saturating_sub(self.last?.num))
    }

    /// Milliseconds between the time of the last published block and `now` (milliseconds since 1970).
    #[must_use]
    pub fn lag_ms(&self, now_unix_ms: i64) -> Option<i64> {
        Some(now_unix_ms.saturating_sub(self.last_time?.unix_ms()).max(0))
    }
}

/// Reads the status from anywhere. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StatusHandle {
    shared: Arc<Mutex<ParserStatus>>,
}

impl StatusHandle {
    /// The status at this moment.
    #[must_use]
    pub fn read(&self) -> ParserStatus {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ParserStatus)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
