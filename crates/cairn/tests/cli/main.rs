//! The program from outside: its commands, exit codes, output and signals.

mod configuration;
mod demo;
mod electrum;
mod help;
mod indexing;
mod server;
mod support;
