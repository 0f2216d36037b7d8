//! The ledger against real Redis servers and a slow, obvious model.

mod backfill;
mod cluster;
mod crashes;
mod damage;
mod pages;
mod support;
mod whole;
