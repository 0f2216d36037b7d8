//! Who watches what, and what was last said about it.
//!
//! One entry per watched thing, however many sessions watch it. An entry knows the newest state and in which view it was
//! found; each watcher knows the state it was last told. A watcher whose state differs is woken with the thing's key, and
//! fetches the newest state when it is about to write: states in between are skipped, a state that came back is not told
//! twice, and a slow client has at most one waiting notification for each of its subscriptions.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts with a lock each.
const SHARDS: usize = 64;

/// A session as the registry knows it.
pub(crate) trait Watch<K> {
    /// There is news about a thing; called at most once until the session has fetched it.
    fn news(&self, key: &K);
    /// Whether both are the same session.
    fn is(&self, other: &Self) -> bool;
}

struct Watched<W, S, L> {
    /// The newest state that is known, and the number of the view it was found in.
    newest: Option<(u64, S)>,
    watchers: Vec<Watcher<W, S, L>>,
}

struct Watcher<W, S, L> {
    session: Arc<W>,
    label: L,
    /// What the session was told last; `None` until the subscription is answered.
    told: Option<S>,
    /// Whether the session knows that there is news.
    woken: bool,
}

/// All subscriptions of one kind. `K` is what is watched, `W` who watches, `S` the state, `L` what the session calls it.
pub(crate) struct Registry<K, W, S, L> {
    shards: Box<[Shard<K, W, S, L>]>,
    hasher: RandomState,
    count: AtomicUsize,
}

/// A part with its lock.
type Shard<K, W, S, L> = Mutex<Entries<K, W, S, L>>;
type Entries<K, W, S, L> = HashMap<K, Watched<W, S, L>>;

impl<K, W, S, L> Registry<K, W, S, L>
where
    K: Eq + Hash + Clone,
    W: Watch<K>,
    S: PartialEq + Clone,
    L: Clone,
{
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
        }
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Entries<K, W, S, L>> {
        let at = self.hasher.hash_one(key) as usize % SHARDS;
        // Every change under the lock is a single step.
        self.shards[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of subscriptions.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Registers a session *before* it looks at the state, so that no change in between is missed. Returns whether it
    /// did not watch the thing yet.
    pub(crate) fn watch(&self, key: &K, session: &Arc<W>, label: L) -> bool {
        let mut shard = self.shard(key);
        let watched = shard.entry(key.clone()).or_insert_with(|| Watched {
            newest: None,
            watchers: Vec::with_capacity(1),
        });
        if let Some(watcher) = watched
            .watchers
            .iter_mut()
            .find(|watcher| watcher.session.is(session))
        {
            watcher.label = label;
            return false;
        }
        watched.watchers.push(Watcher {
            session: Arc::clone(session),
            label,
            told: None,
            woken: false,
        });
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The session is told this state of a view as the answer to its subscription. If a newer one is known, the session
    /// is woken right away.
    pub(crate) fn answered(&self, key: &K, session: &Arc<W>, view: u64, state: S) {
        let mut shard = self.shard(key);
        let Some(watched) = shard.get_mut(key) else {
            return;
        };
        let newer = match &watched.newest {
            Some((known, newest)) if *known > view => *newest != state,
            _ => {
                watched.newest = Some((view, state.clone()));
                false
            }
        };
        if let Some(watcher) = watched
            .watchers
            .iter_mut()
            .find(|watcher| watcher.session.is(session))
        {
            watcher.told = Some(state);
            if newer && !watcher.woken {
                watcher.woken = true;
                watcher.session.news(key);
            }
        }
    }

    /// A state of a view was found. Sessions that were told otherwise are woken.
    pub(crate) fn found(&self, key: &K, view: u64, state: S) {
        let mut shard = self.shard(key);
        let Some(watched) = shard.get_mut(key) else {
            return;
        };
        let newest = match &mut watched.newest {
            Some((known, newest)) if *known > view => &*newest,
            slot => &slot.insert((view, state)).1,
        };
        for watcher in &mut watched.watchers {
            // One that waits for its answer is told by that answer.
            if !watcher.woken && watcher.told.as_ref().is_some_and(|told| told != newest) {
                watcher.woken = true;
                watcher.session.news(key);
            }
        }
    }

    /// The news a session was woken for, as it is now; `None` if there is none any more.
    pub(crate) fn fetch(&self, key: &K, session: &Arc<W>) -> Option<(L, S)> {
        let mut shard = self.shard(key);
        let watched = shard.get_mut(key)?;
        let (_, newest) = watched.newest.as_ref()?;
        let watcher = watched
            .watchers
            .iter_mut()
            .find(|watcher| watcher.session.is(session))?;
        watcher.woken = false;
        let told = watcher.told.as_mut()?;
        if told == newest {
            return None;
        }
        *told = newest.clone();
        Some((watcher.label.clone(), newest.clone()))
    }

    /// Ends a subscription; returns whether there was one.
    pub(crate) fn unwatch(&self, key: &K, session: &Arc<W>) -> bool {
        let mut shard = self.shard(key);
        let Entry::Occupied(mut entry) = shard.entry(key.clone()) else {
            return false;
        };
        let watchers = &mut entry.get_mut().watchers;
        let Some(at) = watchers
            .iter()
            .position(|watcher| watcher.session.is(session))
        else {
            return false;
        };
        watchers.swap_remove(at);
        if watchers.is_empty() {
            entry.remove();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Whether anybody watches a thing.
    pub(crate) fn is_watched(&self, key: &K) -> bool {
        self.shard(key).contains_key(key)
    }

    /// Everything that is watched in one of the parts; `None` beyond the last part.
    pub(crate) fn keys_of_part(&self, part: usize) -> Option<Vec<K>> {
        let shard = self.shards.get(part)?;
        let keys = shard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect();
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Session(Mutex<Vec<u8>>);

    impl Watch<u8> for Session {
        fn news(&self, key: &u8) {
            self.0.lock().expect("no panic").push(*key);
        }

        fn is(&self, other: &Self) -> bool {
            std::ptr::eq(self, other)
        }
    }

    impl Session {
        fn woken(&self) -> Vec<u8> {
            std::mem::take(&mut self.0.lock().expect("no panic"))
        }
    }

    type Subject = Registry<u8, Session, &'static str, ()>;

    #[test]
    fn only_differences_are_told_and_only_the_last() {
        let (registry, session) = (Subject::new(), Arc::new(Session::default()));
        assert!(registry.watch(&1, &session, ()));
        registry.answered(&1, &session, 10, "a");
        registry.found(&1, 11, "a");
        assert!(session.woken().is_empty());
        registry.found(&1, 12, "b");
        registry.found(&1, 13, "c");
        assert_eq!(session.woken(), [1], "woken once");
        assert_eq!(registry.fetch(&1, &session), Some(((), "c")));
        assert_eq!(registry.fetch(&1, &session), None);
        registry.found(&1, 14, "d");
        registry.found(&1, 15, "c");
        assert_eq!(
            (session.woken(), registry.fetch(&1, &session)),
            (vec![1], None),
            "back where it was"
        );
        registry.found(&1, 14, "old");
        assert!(session.woken().is_empty(), "an older view says nothing");
        assert!(registry.unwatch(&1, &session) && !registry.unwatch(&1, &session));
        assert_eq!((registry.len(), registry.is_watched(&1)), (0, false));
    }

    #[test]
    fn a_change_while_the_subscription_is_answered_is_not_missed() {
        let (registry, session) = (Subject::new(), Arc::new(Session::default()));
        registry.watch(&1, &session, ());
        // The session reads view 10; before it answers, view 11 is looked at.
        registry.found(&1, 11, "new");
        assert!(session.woken().is_empty());
        registry.answered(&1, &session, 10, "old");
        assert_eq!(session.woken(), [1]);
        assert_eq!(registry.fetch(&1, &session), Some(((), "new")));
        // And a second session that answers from a newer view than was looked at.
        let second = Arc::new(Session::default());
        registry.watch(&1, &second, ());
        registry.answered(&1, &second, 12, "newer");
        registry.found(&1, 12, "newer");
        assert_eq!((session.woken(), second.woken()), (vec![1], vec![]));
    }

    proptest! {
        /// Whatever the order of finding, answering and fetching: what a session knows in the end is the newest state.
        #[test]
        fn the_last_state_always_arrives(steps in proptest::collection::vec((0u8..3, 0u8..3), 1..60)) {
            let (registry, session) = (Registry::<u8, Session, u8, ()>::new(), Arc::new(Session::default()));
            registry.watch(&1, &session, ());
            let mut view = 1u64;
            let mut state = 0u8;
            registry.answered(&1, &session, view, state);
            let mut known = state;
            for (what, value) in steps {
                match what {
                    0 => { view += 1; state = value; registry.found(&1, view, state); }
                    1 => { registry.answered(&1, &session, view, state); known = state; }
                    _ => for key in session.woken() {
                        if let Some(((), told)) = registry.fetch(&key, &session) { known = told; }
                    }
                }
            }
            for key in session.woken() {
                if let Some(((), told)) = registry.fetch(&key, &session) { known = told; }
            }
            prop_assert_eq!(known, state);
        }
    }
}
