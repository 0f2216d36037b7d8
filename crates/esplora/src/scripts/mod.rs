//! Addresses and scripts: totals, history, unspent outputs; single and many at once.

mod listing;
mod page;
mod shared;
mod single;
mod union;

pub(crate) use listing::{Listed, MEMPOOL_TXS};
pub(crate) use single::router as single_router;
pub(crate) use union::router as union_router;
