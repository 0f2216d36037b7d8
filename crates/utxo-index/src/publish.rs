//! The one place where views become visible, so that chain and mempool of a view always belong together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

use crate::mempool::{ChainDelta, Changes, Feed, Journal, MempoolView};
use crate::view::View;

/// The newest view, the state its mempool is made from, and those who want to know of new ones.
///
/// The indexing thread and the mempool's make new views; a lock puts them in an order. Readers take the newest view
/// without it.
pub(crate) struct Publisher {
    view: ArcSwapOption<View>,
    mempool: Mutex<MempoolView>,
    feed: Feed,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        Self {
            view: ArcSwapOption::empty(),
            mempool: Mutex::new(MempoolView::empty()),
            feed: Feed::new(),
        }
    }

    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.load_full()
    }

    pub(crate) fn changes(&self) -> Changes {
        self.feed.subscribe()
    }

    /// Publishes a view of a new chain, with the mempool brought over to it.
    pub(crate) fn publish_chain(&self, view: View, delta: ChainDelta) {
        let mut current = self.lock();
        let mut mempool = current.clone();
        let journal = delta.apply(&mut mempool);
        self.put(&mut current, view, mempool, journal);
    }

    /// Publishes a changed mempool on the chain of the newest view. `change` sees that view and says whether there is
    /// anything to publish; `None` if there is no view yet.
    pub(crate) fn publish_mempool<R>(
        &self,
        change: impl FnOnce(&View, &mut MempoolView, &mut Journal) -> (bool, R),
    ) -> Option<R> {
        let mut current = self.lock();
        let view = self.view()?;
        let mut mempool = current.clone();
        let mut journal = Journal::default();
        let (changed, result) = change(&view, &mut mempool, &mut journal);
        if changed {
            let next = view.on_same_chain();
            self.put(&mut current, next, mempool, journal);
        }
        Some(result)
    }

    fn put(
        &self,
        current: &mut MempoolView,
        mut view: View,
        mut mempool: MempoolView,
        journal: Journal,
    ) {
        mempool.set_sequence(current.sequence() + 1);
        view.set_mempool(mempool.clone());
        *current = mempool;
        let view = Arc::new(view);
        self.view.store(Some(Arc::clone(&view)));
        self.feed.send(view, journal);
    }

    fn lock(&self) -> MutexGuard<'_, MempoolView> {
        // The state is replaced as a whole, so a panic while the lock was held left the one before.
        self.mempool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
