//! The event stream: events and their ids, the names of all keys, the side that writes, and subscriptions.
//!
//! * [`keys`]: every key of the contract, spelled here and nowhere else.
//! * [`BlockEvents`]: the events of one block as the JSON texts that enter the stream; [`Event`] and its payloads.
//! * [`EventHead`]: what Cairn reads of an entry again.
//! * [`Publisher`]: appends blocks, each wholly or not at all, keeps the checkpoint, and knows after any crash where the
//!   stream ends. [`EventLog`] appends events of ledgers that have no chain of blocks.
//! * [`subscription`]: durable subscriptions, which events they want ([`Filters`]), their dead letters.
//! * [`Trimmer`]: removes what is older than the window, and looks after subscriptions that lag.
//!
//! **One step, one key.** No key carries a hash tag, so on a Cluster no step spans two of them. All events of a block enter
//! the stream by one script on the stream's key, which compares the stream's last id with the one the writer knows; the
//! checkpoint follows. The stream is the truth: a checkpoint that lags is moved forward at the next start.
//!
//! What a block's events are is the parsers' matter.

mod block;
mod browse;
mod checkpoint;
mod entry;
mod error;
mod event;
mod filter;
mod ids;
pub mod keys;
mod label;
mod ledger;
mod parse;
mod position;
mod publisher;
mod scan;
pub mod subscription;
mod trim;
mod walk;

pub use block::BlockEvents;
pub use browse::{EventReader, StoredEvent};
pub use checkpoint::Checkpoint;
pub use entry::EntryId;
pub use error::StreamError;
pub use event::{
    Action, BlockTime, Delta, Event, Fork, Json, NativeDelta, PermissionLevel, Receipt, Record,
};
pub use filter::{EventView, FILTERS_BYTES_MAX, FILTERS_MAX, FilterError, Filters};
pub use ids::{action_id, delta_id, fork_id, native_delta_id};
pub use label::{ChainLabel, LabelError};
pub use ledger::{EventLog, LedgerEvent};
pub use parse::EventHead;
pub use position::{BlockId, Position, PositionError};
pub use publisher::{Published, Publisher, PublisherOptions, Resume, claim_database};
pub use scan::{GroupState, StreamState, read_stream_state};
pub use trim::{GroupLoss, TrimPolicy, TrimReport, TrimSettings, Trimmer};
