//! The program `cairn`: commands, wiring and supervision. It has no logic of its own: what is indexed, answered or
//! configured is decided in the other crates.
//!
//! * `cli`, `commands`: the command line, one module per command.
//! * `settings`, `data_dir`, `stop`, `system`: what every command needs before it begins.
//! * `app`: everything of a configuration running together; `services`: one module per thing that runs.
//! * `serve`: which router answers on which listener.

mod app;
mod cli;
mod commands;
mod data_dir;
mod failure;
mod serve;
mod services;
mod settings;
mod stop;
mod system;

use std::process::ExitCode;

/// RocksDB's C++ and Rust share one allocator: the system's fragments under the load of both.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
