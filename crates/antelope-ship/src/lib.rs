//! The State History protocol (SHiP) of Antelope nodes: its messages, and the blocks of a chain in order.
//!
//! Three rooms, each usable without the next:
//!
//! - [`Protocol`] knows one version of the messages. It is made from the ABI that a node sends first, and takes the indices
//!   of variants and the order of fields from there: EOSIO 2, Leap and Spring differ. What Cairn needs is read by hand-written code
//!   along that order; the rest is passed over.
//! - [`Branch`] is the end of a chain as it is known here, and says of each block that arrives whether it goes on, turns off, or
//!   does not fit. No I/O.
//! - [`BlockStream`] asks a [`Source`] for blocks and gives them out in order: it checks whose chain it is, tells the node which
//!   blocks are known, follows forks, notices gaps and silence, connects again, and keeps what is under way within a window.
//!
//! A [`Source`] is a node's socket ([`NodeSource`]) or a recorded session ([`ReplaySource`]); the stream cannot tell them apart.
//!
//! What the traces and rows mean, and what an ABI says about them, is the parser's matter.

mod branch;
mod delta;
mod error;
mod layout;
mod protocol;
mod replay;
mod session;
mod stream;
mod tables;
mod trace;
mod transport;
mod websocket;

pub use branch::{Admission, BRANCH_BLOCKS_MAX, BlockPosition, Branch, ForkSeen};
pub use delta::{AccountRow, ContractRow, DeltaRow, TableDelta};
pub use error::ShipError;
pub use layout::ProtocolError;
pub use protocol::{BlockHeader, BlockResult, BlocksRequest, Message, Protocol, Status};
pub use replay::{ReplayControl, ReplayError, ReplaySource};
pub use stream::{
    BlockStream, Credits, FRAME_BYTES_MAX, ReceivedBlock, Start, StreamEvent, StreamSettings,
};
pub use trace::{ActionTrace, Authorizations, PermissionLevel, Receipt, TransactionTrace};
pub use transport::{Frame, Source, Transport};
pub use websocket::NodeSource;
