//! The application ledger: transactions, wallets, revisions of the world and behavioural events, kept in Redis.
//!
//! | room | what is in it |
//! | --- | --- |
//! | `record`, `wallet`, `block`, `node`, `event` | what an application tells, checked and normalised |
//! | `request` | the calls it makes |
//! | `keys` | the only place that spells a key |
//! | `store` | commands on their way to Redis, and the scripts that are atomic on one key |
//! | `apply` | the order of writes that makes the ledger exactly-once in effect |
//! | `read` | questions, each in a constant number of round trips |
//! | [`sample`] | a made-up town that trades, for a demonstration |
//! | `backfill`, `rebuild`, `recount` | what the application wrote before, caches made again, counts completed |
//!
//! Two layers, never mixed: keys below `scanner:` are economic truth, keys below `analytics:` behaviour. The crate knows
//! nothing of HTTP.

mod apply;
mod backfill;
mod block;
mod callers;
mod error;
mod event;
mod faults;
mod feed;
mod fields;
mod follow;
mod ids;
pub mod json;
mod keys;
mod live;
pub mod merkle;
mod money;
mod node;
mod read;
mod rebuild;
mod record;
mod recount;
mod request;
mod retention;
pub mod sample;
mod scanner;
mod store;
mod time;
mod tx;
mod wallet;

pub use apply::{HealReport, Status};
pub use backfill::{
    BackfillError, BackfillKind, BackfillState, MigrationStatus, RowFault, SweepCursor, SweepReport,
};
pub use block::{Block, Height, Leaf, Stamp};
pub use callers::Kept;
pub use error::ScannerError;
pub use event::{Event, Property, is_dimension, is_planned};
pub use faults::Fault;
pub use feed::{BLOCK_EVENT, TX_EVENT};
pub use follow::KeyFollower;
pub use ids::HostId;
pub use live::{FeedEntry, FeedTail};
pub use money::{AMOUNT_MAX, Rounding, Usd, UsdError};
pub use node::{Node, NodeKind};
pub use read::QueryError;
pub use read::blocks::{BlockPage, BlockRow, BlockTail, LeafAnswer};
pub use read::events::{EventRow, Overview, StreamId, StreamPage};
pub use read::head::{Head, HeadBlock, Platform, Recomputed};
pub use read::hours::{HourFigures, LeafPage};
pub use read::nodes::{LedgerTotals, NodeEventPage, NodePage, NodeRow, NodeSort, Profile};
pub use read::page::{LIMIT_DEFAULT, LIMIT_MAX, Position};
pub use read::search::{Found, FoundKind};
pub use read::spaces::{ByKind, Game, KindTotals, Space, SpacePage, SpaceRow, Talk};
pub use read::txs::{Token, TxFilter, TxPage, TxTail};
pub use record::{AmenityKind, ItemKind, Operation, Record};
pub use request::{Command, Hook, Origin, check_request};
pub use scanner::{Counts, Options, Scanner};
pub use time::{AtMs, Clock, Hour, Window};
pub use tx::Tx;
pub use wallet::Wallet;
