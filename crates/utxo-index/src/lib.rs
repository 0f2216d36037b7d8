//! The index of a UTXO chain: rows, stores, the two-phase indexer, reorganisations, cache, and the questions that
//! serving crates ask. Serving crates read through [`View`] and never see a key or a row.
//!
//! Three rooms, each of which knows only those before it:
//!
//! | room | modules | knows |
//! | --- | --- | --- |
//! | bytes | [`rows`] | keys and values, nothing else |
//! | store | `engine` | RocksDB: families, batches, snapshots, cursors |
//! | chain | `headers`, `follow`, `bulk`, [`mempool`], [`view`], [`verify`] | blocks, reorganisations, unconfirmed transactions, questions |

mod asset_events;
mod bulk;
mod dump;
mod engine;
mod follow;
mod headers;
pub mod index;
pub mod mempool;
mod progress;
mod publish;
pub mod rows;
pub mod types;
pub mod verify;
mod version;
pub mod view;

pub use bulk::LoadTuning;
pub use index::{Index, IndexConfig, IndexError, Phase, Progress, SyncOutcome};
pub use mempool::{
    Change, Changes, ChangesEnd, FeeRate, MempoolEntry, MempoolRound, MempoolSync, MempoolView,
    Touched,
};
pub use rows::Db;
pub use types::*;
pub use verify::VerifyReport;
pub use view::View;
