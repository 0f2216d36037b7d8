//! JSON-RPC 2.0 as Electrum clients speak it: reading requests and batches, binding arguments, writing answers.
//!
//! Nothing here knows a method or an index. Nothing allocates more than a small multiple of the message it reads.

mod args;
pub(crate) mod code;
mod error;
mod request;
mod write;

pub(crate) use args::Args;
pub(crate) use error::RpcError;
pub(crate) use request::{Call, Incoming, Item, parse};
pub(crate) use write::{Json, write_error, write_notification, write_result};
