//! Bytes on their way to the client, counted over all sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::server::Server;

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES: usize = 64 * 1024;

/// What is written and not yet taken by the client.
pub(super) struct Outbox {
    server: Arc<Server>,
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that wait.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Appends whatever `write` writes.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        let added = self.bytes.len() - before;
        self.server.output.fetch_add(added, Ordering::Relaxed);
    }

    /// The client took so many bytes.
    pub(super) fn taken(&mut self, count: usize) {
        self.sent += count;
        self.server.output.fetch_sub(count, Ordering::Relaxed);
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.sent > self.bytes.len() / 2 && self.sent > KEPT_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.server.output.fetch_sub(self.len(), Ordering::Relaxed);
    }
}
