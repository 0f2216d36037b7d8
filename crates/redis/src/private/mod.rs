//! The private `redis-server`: Cairn's own, for whoever configures none.
//!
//! It lives in a folder of its own, listens on a unix socket in it and on no port, keeps an append-only file, refuses writes
//! instead of deleting keys when its memory is full, and is restarted when it dies. Only a server that this module started is
//! ever stopped or replaced: it is known by its socket *and* by the configuration file that it names, both in that folder.

mod leftover;
mod program;
mod settings;
mod supervise;

use std::path::PathBuf;

pub use program::ServerProgram;
pub use settings::PrivateOptions;
pub use supervise::{FoundServer, PrivateServer, PrivateState};

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum PrivateServerError {
    /// No program to start.
    #[error(
        "no redis-server to start: {0}. Install Redis 7.0 or newer (Debian: apt-get install redis-server) or Valkey, or name \
         a running one in redis.url"
    )]
    NoProgram(String),
    /// The program is too old.
    #[error(
        "{program} is version {version}; Cairn needs Redis {needed} or newer. Install a newer one, or name a running one in redis.url"
    )]
    TooOld {
        /// The program.
        program: String,
        /// What it says of itself.
        version: String,
        /// The oldest that is enough.
        needed: String,
    },
    /// The folder cannot be used.
    #[error("the folder of the private redis-server cannot be used: {path}: {cause}")]
    Folder {
        /// What was touched.
        path: PathBuf,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// A server that an earlier run left behind does not end.
    #[error(
        "a redis-server left by an earlier run still uses {path} and does not end: {cause}. Stop it, then start again"
    )]
    Leftover {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        cause: String,
    },
    /// It does not come up.
    #[error("the private redis-server in {path} does not start: {cause}")]
    Start {
        /// The folder.
        path: PathBuf,
        /// What happened, with its last words.
        cause: String,
    },
    /// It does not end.
    #[error("the private redis-server in {path} did not stop cleanly: {cause}")]
    Stop {
        /// The folder.
        path: PathBuf,
        /// What happened.
        cause: String,
    },
}
