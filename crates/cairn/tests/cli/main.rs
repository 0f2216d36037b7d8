//! The program from outside: its commands, exit codes, output and signals.

mod antelope;
mod browser;
mod configuration;
mod demo;
mod electrum;
mod help;
mod indexing;
mod ledger;
mod mempool;
mod server;
mod subscriptions;
mod support;
