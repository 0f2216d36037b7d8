//! Unconfirmed transactions, and the feed of what changes.
//!
//! A [`MempoolView`] is one immutable state. Successive states share all that did not change, so a new one costs what
//! changed, and a reader keeps its own without a lock. A [`crate::View`] holds the state that belongs to its tip: the
//! step that makes a block visible takes out of the mempool, in the same moment, what the block holds and what
//! contradicts it.
//!
//! | module | what |
//! | --- | --- |
//! | `entry` | one unconfirmed transaction, fee rates |
//! | `state` | the maps of one state and the questions on it |
//! | `admit` | taking transactions in, parents before children |
//! | `round` | one comparison with the node's own list |
//! | `chain_step` | what a change of the chain does to a state |
//! | `changes` | the feed |
//!
//! It does not decide what is valid: the node does, and its list is the truth.

mod admit;
mod chain_step;
mod changes;
mod entry;
mod histogram;
mod round;
mod state;

pub use changes::{Change, Changes, ChangesEnd, Touched};
pub use entry::{FeeRate, MempoolEntry};
pub use histogram::HistogramBin;
pub use round::{MempoolRound, MempoolSync};
pub use state::MempoolView;

pub(crate) use chain_step::ChainDelta;
pub(crate) use changes::{Feed, Journal};
pub(crate) use entry::fee_paid;
