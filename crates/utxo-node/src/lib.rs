//! Where blocks come from: a `bitcoind` or `elementsd` (RPC, REST) and its `blk*.dat` files.
//!
//! This crate knows nodes and files and nothing of the index. What it hands on is a [`ChainSource`]: the best tip,
//! the headers up to it, and the raw bytes of blocks. It decodes headers; bodies only where a file's framing is in doubt or
//! a single transaction is asked for.
//!
//! - [`open_source`] makes a source from configuration.
//! - [`NodeSource`]: the node says what the chain is, bodies come from its files, over REST or over RPC.
//! - [`FilesSource`]: block files alone; the branch with most work is the chain.
//! - [`Node`]: typed asynchronous calls for what needs the node itself (broadcast, mempool, fees).
//! - [`NodeMempool`]: a node's unconfirmed transactions, for those who follow them; [`Hints`] tell when to look.
//! - [`blk`], [`rpc`], [`network`]: the parts.

pub mod blk;
mod files_source;
mod hints;
mod mempool;
pub mod network;
mod node;
mod node_source;
mod open;
pub mod rpc;
pub mod source;

pub use blk::BlockFiles;
pub use files_source::FilesSource;
pub use hints::Hints;
pub use mempool::{MempoolListing, MempoolSource, MempoolStamp, NodeMempool};
pub use node::Node;
pub use node_source::{NodeFiles, NodeSource};
pub use open::{OpenedSource, SourceConfig, genesis_block, open_source};
pub use rpc::{NodeError, RpcFailure};
pub use source::{ChainSource, HeaderRun, RawUnit, SourceError, Tip, Unit};
