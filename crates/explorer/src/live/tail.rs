//! The end of a list, followed: new rows as they come.
//!
//! One reader looks for new entries for all who follow, and only while somebody does. Each follower gets rows in groups, a
//! few times a second, so that a browser draws groups and not single rows; what does not fit into a group is left out and
//! counted, and the page says so. Whoever comes back goes on where it was, as long as that is not too far behind.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use cairn_stream::EntryId;
use futures_util::stream;
use tokio::sync::Notify;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use super::{Place, Places, event_stream};
use crate::error::PageError;

/// How often the reader looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Entries of one look.
const LOOK_ENTRIES: usize = 2_000;
/// Groups that a slow follower may be behind.
const GROUPS_BEHIND_MAX: usize = 32;
/// How often a follower gets a group.
const GROUP_INTERVAL: Duration = Duration::from_millis(250);
/// Rows of a group.
const GROUP_ROWS: usize = 40;
/// Entries that are read again for one who comes back.
const PAST_ENTRIES: usize = 1_000;
/// Pause after the store was away.
const RETRY: Duration = Duration::from_secs(2);

/// An entry with its place.
#[derive(Debug, Clone)]
pub(crate) struct Entry<T> {
    /// Where it is.
    pub(crate) id: EntryId,
    /// What it is.
    pub(crate) item: T,
}

/// What a source returns.
pub(crate) type SourceFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, PageError>> + Send + 'a>>;

/// Where entries come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// What an entry is.
    type Item: Clone + Send + Sync + 'static;

    /// The newest entry's place.
    fn newest(&self) -> SourceFuture<'_, EntryId>;

    /// Entries after a place, oldest first.
    fn after(&self, place: EntryId, count: usize) -> SourceFuture<'_, Vec<Entry<Self::Item>>>;
}

/// Entries of one look.
type Group<T> = Arc<Vec<Entry<T>>>;

/// A list that can be followed.
pub(crate) struct Tail<S: Source> {
    source: S,
    groups: broadcast::Sender<Group<S::Item>>,
    wake: Notify,
    places: Places,
}

impl<S: Source> Tail<S> {
    /// A tail that nobody follows yet.
    pub(crate) fn new(source: S, places: Places) -> Arc<Self> {
        let (groups, _) = broadcast::channel(GROUPS_BEHIND_MAX);
        Arc::new(Self {
            source,
            groups,
            wake: Notify::new(),
            places,
        })
    }

    /// Reads for those who follow, until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            while self.groups.receiver_count() == 0 {
                self.wake.notified().await;
            }
            if let Err(error) = self.follow().await {
                tracing::debug!(%error, "a tail waits for the store");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Reads as long as somebody follows.
    async fn follow(&self) -> Result<(), PageError> {
        let mut last = self.source.newest().await?;
        while self.groups.receiver_count() > 0 {
            let entries = self.source.after(last, LOOK_ENTRIES).await?;
            let is_full = entries.len() == LOOK_ENTRIES;
            if let Some(newest) = entries.last() {
                last = newest.id;
                // Nobody may be left by now.
                let _ = self.groups.send(Arc::new(entries));
            }
            if !is_full {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// A stream of new rows after a place: the markup of the entries that are wanted.
    ///
    /// Kinds: `rows` (markup, newest first; the event's id is the place), `skipped` (how many rows were left out), `gap` (what
    /// came between is not shown: load the page again).
    pub(crate) fn listen(
        self: &Arc<Self>,
        after: Option<EntryId>,
        wants: impl Fn(&S::Item) -> bool + Send + Sync + 'static,
        draw: impl Fn(&Entry<S::Item>) -> String + Send + Sync + 'static,
    ) -> Response {
        let place = match self.places.take() {
            Ok(place) => place,
            Err(error) => return error.into_response(),
        };
        let follower = Follower {
            groups: self.groups.subscribe(),
            tail: Arc::clone(self),
            wants,
            draw,
            last: after,
            is_new: true,
            next_at: Instant::now(),
            waiting: Vec::new(),
            place,
        };
        self.wake.notify_one();
        event_stream(stream::unfold(follower, |mut follower| async {
            let event = follower.next().await?;
            Some((event, follower))
        }))
    }
}

/// One who follows.
struct Follower<S: Source, W, D> {
    tail: Arc<Tail<S>>,
    groups: broadcast::Receiver<Group<S::Item>>,
    wants: W,
    draw: D,
    /// The last entry that was looked at.
    last: Option<EntryId>,
    is_new: bool,
    /// When the next group may go.
    next_at: Instant,
    /// Events that are ready.
    waiting: Vec<Event>,
    place: Place,
}

impl<S, W, D> Follower<S, W, D>
where
    S: Source,
    W: Fn(&S::Item) -> bool,
    D: Fn(&Entry<S::Item>) -> String,
{
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop() {
                return Some(event);
            }
            if std::mem::take(&mut self.is_new) {
                self.catch_up().await?;
                continue;
            }
            let stop = self.place.stop.clone();
            let mut entries = tokio::select! {
                () = stop.cancelled() => return None,
                group = self.groups.recv() => self.heard(group)?,
            };
            // What comes until the next group may go belongs to it.
            let pause = tokio::time::sleep_until(self.next_at);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return None,
                    () = &mut pause => break,
                    group = self.groups.recv() => entries.extend(self.heard(group)?),
                }
            }
            self.take(&entries);
            self.next_at = Instant::now() + GROUP_INTERVAL;
        }
    }

    /// Entries of a group. One who missed some is told so.
    fn heard(&mut self, group: Result<Group<S::Item>, RecvError>) -> Option<Vec<Entry<S::Item>>> {
        match group {
            Ok(group) => Some(group.to_vec()),
            Err(RecvError::Lagged(_)) => {
                self.waiting
                    .push(Event::default().event("gap").data("behind"));
                Some(Vec::new())
            }
            Err(RecvError::Closed) => None,
        }
    }

    /// What came between the page and now; `None` when the store cannot be read: the browser comes back.
    async fn catch_up(&mut self) -> Option<()> {
        let Some(after) = self.last else {
            return Some(());
        };
        let entries = self.tail.source.after(after, PAST_ENTRIES).await.ok()?;
        if entries.len() == PAST_ENTRIES {
            self.waiting
                .push(Event::default().event("gap").data("past"));
            self.last = entries.last().map(|entry| entry.id);
            return Some(());
        }
        self.take(&entries);
        Some(())
    }

    /// Draws what is wanted of new entries.
    fn take(&mut self, entries: &[Entry<S::Item>]) {
        let mut rows = Vec::new();
        let mut left_out = 0_usize;
        for entry in entries.iter().rev() {
            // What the past has shown already.
            if self.last.is_some_and(|last| entry.id <= last) {
                break;
            }
            if !(self.wants)(&entry.item) {
                continue;
            }
            if rows.len() == GROUP_ROWS {
                left_out += 1;
            } else {
                rows.push((self.draw)(entry));
            }
        }
        if let Some(newest) = entries.last() {
            self.last = self.last.max(Some(newest.id));
        }
        // Taken from the end.
        if left_out > 0 {
            self.waiting
                .push(Event::default().event("skipped").data(left_out.to_string()));
        }
        if !rows.is_empty() {
            let mut event = Event::default()
                .event("rows")
                .data(one_line(&rows.concat()));
            if let Some(last) = self.last {
                event = event.id(last.to_string());
            }
            self.waiting.push(event);
        }
    }
}

/// Markup in one line: an event's data ends at a line break, and between tags one is as good as a blank.
fn one_line(markup: &str) -> String {
    markup.replace(['\r', '\n'], " ")
}
