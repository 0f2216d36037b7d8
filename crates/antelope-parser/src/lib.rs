//! Antelope blocks as events in the stream.
//!
//! [`Parser`] follows a chain from a node (or a recorded session) to Redis: it reads blocks in order, decodes them with the ABIs that
//! were in force, and appends each block's events to the stream in one step. [`Decoder`] is the pure middle of it: a block and the
//! history of ABIs in, events out.
//!
//! - **Which ABI.** An action is decoded by the ABI that its contract had when the action ran, to the very place in the order of
//!   execution, also when it changed within the block. A row is decoded by the ABI at the end of its block. Every version is kept,
//!   in `parser2:abi:{contract}` and its log; what a lost branch set is taken out again.
//! - **Nothing is dropped.** What cannot be decoded is published with its raw bytes and the reason. A block that cannot be read
//!   stops the chain with a clear error and is asked for again; it is never passed over.
//! - **Order of a step.** ABI versions, then the block, then the clean-up after a fork. A crash between two of them is repaired at
//!   the next start, see `store`.
//!
//! Event ids, their JSON and the keys are the matter of `cairn-stream`; messages and forks that of `cairn-antelope-ship`.

mod book;
mod compiled;
mod decoder;
mod events;
mod fallback;
mod observer;
mod parser;
mod pipeline;
mod prune;
mod rows;
mod settings;
mod status;
mod store;
mod version;

pub use compiled::AbiCounts;
pub use decoder::{BlockError, DecodedBlock, Decoder, Step};
pub use observer::{BlockReport, Observer, Quiet, Undecoded};
pub use parser::{Parser, ParserError};
pub use prune::{PruneReport, contracts_with_abis, prune_abis};
pub use settings::{AbiFallback, ParserSettings, ParserSource};
pub use status::{ParserState, ParserStatus, StatusHandle};
pub use store::{AbiStore, AbiStoreError, read_abi_versions};
pub use version::AbiVersion;
