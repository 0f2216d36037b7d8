//! What a session has to be told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bitcoin::{OutPoint, Txid};
use cairn_utxo_index::ScriptHash;
use tokio::sync::Notify;

use crate::registry::Watch;

/// A thing that a session watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// The status of a script.
    Script(ScriptHash),
    /// An output's existence and spending.
    Outpoint(OutPoint),
    /// The height of a transaction.
    Transaction(Txid),
}

#[derive(Default)]
struct Waiting {
    tip: bool,
    topics: VecDeque<Topic>,
}

/// The list of what a session has to be told; the states themselves stay in the registries.
#[derive(Default)]
pub(crate) struct Wake {
    waiting: Mutex<Waiting>,
    notify: Notify,
}

impl Wake {
    /// There is another tip.
    pub(crate) fn tip(&self) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .tip = true;
        self.notify.notify_one();
    }

    fn topic(&self, topic: Topic) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .topics
            .push_back(topic);
        self.notify.notify_one();
    }

    /// Waits until there is something. Safe to cancel.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Takes the news of the tip, and of at most `most` other things.
    pub(crate) fn take(&self, most: usize) -> (bool, Vec<Topic>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.topics.len().min(most);
        let topics = waiting.topics.drain(..count).collect();
        if waiting.topics.is_empty() && waiting.topics.capacity() > 1024 {
            waiting.topics = VecDeque::new();
        }
        (std::mem::take(&mut waiting.tip), topics)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        !waiting.tip && waiting.topics.is_empty()
    }
}

impl Watch<ScriptHash> for Wake {
    fn news(&self, key: &ScriptHash) {
        self.topic(Topic::Script(*key));
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Watch<OutPoint> for Wake {
    fn news(&self, key: &OutPoint) {
        self.topic(Topic::Outpoint(*key));
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Watch<Txid> for Wake {
    fn news(&self, key: &Txid) {
        self.topic(Topic::Transaction(*key));
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
