//! One module per command.

pub(crate) mod check_config;
pub(crate) mod demo;
pub(crate) mod dump_rows;
pub(crate) mod index;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod verify;
