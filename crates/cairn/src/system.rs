//! What the process asks of the system at its start.

use anyhow::Context;
use tokio::runtime::Runtime;

/// Open files that a large index and many clients need; the hard limit of the system is taken if it is lower.
const OPEN_FILES_WANTED: u64 = 65_536;
/// Below this RocksDB has to close files to open others.
const OPEN_FILES_COMFORTABLE: u64 = 4_096;

/// Raises the limit of open files as far as the system allows, and says where it is.
pub(crate) fn raise_open_files() {
    match rlimit::increase_nofile_limit(OPEN_FILES_WANTED) {
        Ok(limit) if limit < OPEN_FILES_COMFORTABLE => {
            tracing::warn!(
                limit,
                wanted = OPEN_FILES_WANTED,
                "the limit of open files is low; raise it with `ulimit -n`"
            );
        }
        Ok(limit) => tracing::info!(limit, "limit of open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// The runtime for sockets, HTTP and the node.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("cairn-io")
        .build()
        .context("cannot start the threads for input and output")
}

/// Tells the service manager, when one started the process, that it serves.
pub(crate) fn notify_ready() {
    notify(&[sd_notify::NotifyState::Ready]);
}

/// Tells the service manager that the process is stopping.
pub(crate) fn notify_stopping() {
    notify(&[sd_notify::NotifyState::Stopping]);
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
