//! A node's JSON-RPC and REST interface.

mod answer;
mod auth;
mod client;
mod error;

pub use answer::{
    BlockNotice, ChainInfo, HeaderInfo, MempoolInfo, NetworkInfo, TxOutSetInfo, decode,
    decode_header, decode_hex, parse_answer, parse_batch,
};
pub(crate) use answer::{FeeEstimate, Txids};
pub use auth::Credentials;
pub use client::{BATCH_MAX, RpcClient};
pub use error::{CODE_WARMING_UP, NodeError, RpcFailure};
