//! What tests and benches stand on: real nodes, generated chains, and independent answers to compare with.
//!
//! | need | here |
//! | --- | --- |
//! | a real node | [`Bitcoind`] |
//! | a chain of any size from a seed, streamed | [`ChainGenerator`] |
//! | a chain with a model of every expected answer, forks included | [`TestChain`], [`Model`] |
//! | scripts that can be spent, and transactions that do it | [`Lock`], [`spend`], [`wide_transaction`] |
//! | block files, also broken ones | [`BlkWriter`], [`xor_folder`] |
//! | a chain for the index without files or node | [`MemorySource`] |
//! | a mempool with a plain model of it | [`MempoolModel`], [`MemoryMempool`] |
//! | a Redis, a Redis Cluster, Sentinels | [`RedisServer`], [`RedisCluster`], [`RedisSentinels`] |
//! | a real Antelope node, recorded sessions of one | [`antelope`] |
//! | a chain of a real Elements node, branches of it, its rows in the node's words | [`elements`] |
//! | real blocks and what a real node says about them | [`fixtures`] |
//! | the bundled sample chain | [`sample`] |
//! | calls of an application, a model of its ledger, a connection that breaks at any command | [`CallGenerator`], [`LedgerModel`], [`CuttingProxy`] |
//!
//! Functions that cannot go on panic with the reason: this crate is for tests, where that is the report.

pub mod antelope;
mod bitcoind;
mod blkfile;
mod chain;
pub mod elements;
pub mod fixtures;
mod generator;
mod lock;
mod mempool;
mod mine;
mod model;
mod payee;
mod redis;
mod rng;
mod rpc;
pub mod sample;
mod scanner;
mod source;

pub use bitcoind::{Bitcoind, EXE_VARIABLE, NodeError, NodeOptions};
pub use blkfile::{
    BlkOptions, BlkWriter, MAINNET_MAGIC, REGTEST_MAGIC, RecordPlace, parse_plain, write_blocks,
    xor_folder,
};
pub use chain::{Fork, OWN_NUMBERS, TestChain};
pub use generator::{BlockPlan, ChainGenerator, Params, Shapes};
pub use lock::{Coin, Lock, spend, wide_transaction};
pub use mempool::{MemoryMempool, MempoolModel, MempoolTouch};
pub use mine::{BlockRecipe, COINBASE_MATURITY, subsidy};
pub use model::{
    Database, Model, ModelBlock, ModelStats, ModelTx, ModelUtxo, Place, RowOptions, Rows,
    ScriptHash, Touch, TouchKind, is_unspendable, script_hash,
};
pub use redis::{RedisCluster, RedisOptions, RedisSentinels, RedisServer};
pub use rng::Rng;
pub use rpc::{RpcError, satoshi};
pub use scanner::{
    Call, CallGenerator, CallMix, CuttingProxy, LedgerModel, ModelNode, ModelSpace, ModelTalk,
};
pub use source::MemorySource;
