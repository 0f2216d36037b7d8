//! Reading a stream as people do: the newest events, those before, those of a block, one by its id. Nothing is acknowledged
//! and nothing is written; every question reads a bounded number of entries.

use cairn_redis::Redis;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::label::ChainLabel;
use crate::parse::EventHead;
use crate::scan::{Reader, StreamState};

/// Entries read at once.
const PAGE: usize = 500;
/// Entries looked at, after the last that was wanted, for a fork that comes back to the same block number.
const LOOKAHEAD: usize = 2_000;
/// Entries read for one question at most.
const READ_MAX: usize = 50_000;

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place.
    pub id: EntryId,
    /// The field `data`: an event as JSON. Empty for an entry that has none.
    pub data: Vec<u8>,
}

/// Reads the event stream of one chain. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventReader {
    reader: Reader,
}

impl EventReader {
    /// The stream of a chain; it need not be there.
    pub fn new(redis: &Redis, chain: &ChainLabel) -> Self {
        Self {
            reader: Reader::new(redis, chain),
        }
    }

    /// The state of the stream; `None` when there is none.
    ///
    /// # Errors
    /// When Redis cannot be asked.
    pub async fn state(&self) -> Result<Option<StreamState>, StreamError> {
        self.reader.state().await
    }

    /// Up to `count` entries before a place (exclusive), or the newest; newest first.
    ///
    /// # Errors
    /// When Redis cannot be asked.
    pub async fn before(
        &self,
        place: Option<EntryId>,
        count: usize,
    ) -> Result<Vec<StoredEvent>, StreamError> {
        let to = match place {
            None => EntryId::MAX,
            Some(EntryId::ZERO) => return Ok(Vec::new()),
            Some(place) => place.previous(),
        };
        Ok(stored(self.reader.range_back(to, count).await?))
    }

    /// Up to `count` entries after a place (exclusive), oldest first.
    ///
    /// # Errors
    /// When Redis cannot be asked.
    pub async fn after(
        &self,
        place: EntryId,
        count: usize,
    ) -> Result<Vec<StoredEvent>, StreamError> {
        Ok(stored(self.reader.range(place.next(), count).await?))
    }

    /// Up to `count` events of a block number after a place (exclusive), in order; and whether there are more. After a fork
    /// there may be several blocks of one number: the last one is on the chain.
    ///
    /// # Errors
    /// When Redis cannot be asked.
    pub async fn of_block(
        &self,
        num: u32,
        after: Option<EntryId>,
        count: usize,
    ) -> Result<(Vec<StoredEvent>, bool), StreamError> {
        let mut found = Vec::new();
        self.walk(num, after, |event, head| {
            if head.block_num == Some(num) {
                found.push(event);
            }
            found.len() > count
        })
        .await?;
        let more = found.len() > count;
        found.truncate(count);
        Ok((found, more))
    }

    /// The event with this id, if the stream holds it. Ids name their block, so it is found without an index.
    ///
    /// # Errors
    /// When Redis cannot be asked.
    pub async fn by_id(&self, event_id: &str) -> Result<Option<StoredEvent>, StreamError> {
        let Some(num) = block_of_id(event_id) else {
            return Ok(None);
        };
        let mut found = None;
        self.walk(num, None, |event, head| {
            if head.event_id == event_id {
                found = Some(event);
            }
            found.is_some()
        })
        .await?;
        Ok(found)
    }

    /// Shows events from the first one of a block number on until `each` has enough, or until the block and what may come back
    /// to it has passed.
    async fn walk(
        &self,
        num: u32,
        after: Option<EntryId>,
        mut each: impl FnMut(StoredEvent, &EventHead<'_>) -> bool,
    ) -> Result<(), StreamError> {
        let mut next = match after {
            Some(after) => after.next(),
            None => match self.reader.first_of_block(num).await? {
                Some(first) => first,
                None => return Ok(()),
            },
        };
        let mut beyond = 0;
        let mut read = 0;
        while beyond < LOOKAHEAD && read < READ_MAX {
            let page = self.reader.range(next, PAGE).await?;
            let is_full = page.len() == PAGE;
            read += page.len();
            for event in stored(page) {
                next = event.id.next();
                // What is no event belongs to no block.
                let Ok(head) = EventHead::parse(&event.data) else {
                    continue;
                };
                if head.block_num.is_some_and(|found| found > num) {
                    beyond += 1;
                } else {
                    beyond = 0;
                }
                if each(event.clone(), &head) {
                    return Ok(());
                }
            }
            if !is_full {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn stored(entries: Vec<crate::scan::Entry>) -> Vec<StoredEvent> {
    entries
        .into_iter()
        .map(|(id, data)| StoredEvent {
            id,
            data: data.unwrap_or_default(),
        })
        .collect()
}

/// The block that an event's id names: `{chain}:{letter}:{block}:…`; of a fork the first block that it replaced.
fn block_of_id(event_id: &str) -> Option<u32> {
    let mut parts = event_id.split(':').skip(1);
    let letter = parts.next()?;
    let num: u32 = parts.next()?.parse().ok()?;
    if letter == "f" {
        return num.checked_add(1);
    }
    Some(num)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_block() {
        for (id, block) in [
            ("eos:a:123:00000000aabbccdd:77", Some(123)),
            ("eos:f:122:00000000aabbccdd", Some(123)),
            ("eos:f:4294967295:00", None),
            ("eos:a:x:1", None),
            ("eos", None),
            ("", None),
        ] {
            assert_eq!(block_of_id(id), block, "{id}");
        }
    }
}
