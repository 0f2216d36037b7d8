//! One module per command.

pub(crate) mod abi_prune;
pub(crate) mod check_config;
pub(crate) mod dead_letters;
pub(crate) mod demo;
pub(crate) mod dump_rows;
pub(crate) mod index;
pub(crate) mod scanner_backfill;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod subscriptions;
pub(crate) mod town;
pub(crate) mod verify;
