//! A failure of the store, with its place.

use std::path::Path;

/// What an operator reads when RocksDB fails: which database, what was attempted, what it said, what helps.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StoreError(String);

impl StoreError {
    pub(super) fn new(action: &str, path: &Path, error: &rust_rocksdb::Error) -> Self {
        let text = error.to_string();
        let path = path.display();
        if text.contains("No space left") {
            return Self(format!(
                "disk full while trying to {action} in {path}: free some space and start again; nothing finished is \
                 lost ({text})"
            ));
        }
        if text.contains("lock hold by current process") || text.contains("While lock file") {
            return Self(format!(
                "{path} is in use: another process has this index open; stop it or configure another folder ({text})"
            ));
        }
        if text.contains("Too many open files") {
            return Self(format!(
                "too many open files while trying to {action} in {path}: raise the limit (ulimit -n) and start again \
                 ({text})"
            ));
        }
        if text.starts_with("Corruption") {
            return Self(format!(
                "damaged data while trying to {action} in {path}: {text}; run `cairn verify` to see which blocks are \
                 affected, or delete the index folder to build it anew"
            ));
        }
        Self(format!("could not {action} in {path}: {text}"))
    }

    pub(super) fn io(action: &str, path: &Path, error: &std::io::Error) -> Self {
        Self(format!("could not {action} {}: {error}", path.display()))
    }
}
