//! Reading a stream: its state, its groups, and its entries in pages.

use std::collections::HashMap;

use cairn_redis::{Redis, RedisError};
use redis::{FromRedisValue, Value};

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::label::ChainLabel;
use crate::parse::EventHead;

/// Entries read at once.
const PAGE: usize = 1_000;

/// What Redis says of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamState {
    /// Number of entries.
    pub length: u64,
    /// The newest id that was ever given, also when that entry is gone.
    pub last: EntryId,
    /// The oldest entry that is there.
    pub first: Option<EntryId>,
    /// How many entries were ever added.
    pub added: u64,
}

/// What Redis says of a consumer group: a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Its name, which is the subscription's id.
    pub name: String,
    /// The newest entry that it was given.
    pub last_delivered: EntryId,
    /// Entries given and not acknowledged.
    pub pending: u64,
    /// The oldest of these.
    pub oldest_pending: Option<EntryId>,
    /// Entries that it was not given yet; `None` where Redis cannot tell.
    pub lag: Option<u64>,
    /// How many of all entries ever added it has been given or has been past; `None` where Redis cannot tell.
    pub read: Option<u64>,
}

impl GroupState {
    /// The oldest id that it still needs.
    pub fn needs(&self) -> EntryId {
        let next = self.last_delivered.next();
        self.oldest_pending.map_or(next, |oldest| oldest.min(next))
    }
}

/// The state of a stream and of its groups; `None` when there is no such stream.
pub async fn read_stream_state(
    redis: &Redis,
    chain: &ChainLabel,
) -> Result<Option<(StreamState, Vec<GroupState>)>, StreamError> {
    let reader = Reader::new(redis, chain);
    let Some(state) = reader.state().await? else {
        return Ok(None);
    };
    let groups = reader.groups().await?;
    Ok(Some((state, groups)))
}

/// Reads one stream of events.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    redis: Redis,
    key: String,
}

/// An entry: its id and the field `data`, when it has one.
pub(crate) type Entry = (EntryId, Option<Vec<u8>>);

impl Reader {
    pub(crate) fn new(redis: &Redis, chain: &ChainLabel) -> Self {
        Self::of(redis, keys::events(chain))
    }

    /// Reads any stream of events.
    pub(crate) fn of(redis: &Redis, key: String) -> Self {
        Self {
            redis: redis.clone(),
            key,
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) async fn state(&self) -> Result<Option<StreamState>, StreamError> {
        let mut command = redis::cmd("XINFO");
        command.arg("STREAM").arg(&self.key);
        let fields: HashMap<String, Value> = match self.redis.query(&self.key, &command).await {
            Ok(fields) => fields,
            Err(RedisError::Failed { cause, .. }) if cause.contains("no such key") => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(StreamState {
            length: self.field(&fields, "length")?,
            last: self.id(&fields, "last-generated-id")?,
            first: match fields.get("first-entry") {
                Some(Value::Array(entry)) => match entry.first() {
                    Some(id) => Some(self.parse_id(id)?),
                    None => None,
                },
                _ => None,
            },
            added: self.field(&fields, "entries-added")?,
        }))
    }

    pub(crate) async fn groups(&self) -> Result<Vec<GroupState>, StreamError> {
        let found = self.raw_groups().await?;
        let mut groups = Vec::with_capacity(found.len());
        for fields in found {
            groups.push(self.group_of(fields).await?);
        }
        Ok(groups)
    }

    /// The state of one group; `None` when there is no such stream or group.
    pub(crate) async fn group(&self, name: &str) -> Result<Option<GroupState>, StreamError> {
        let found = self.raw_groups().await?;
        for fields in found {
            if self.field::<String>(&fields, "name")? == name {
                return self.group_of(fields).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn raw_groups(&self) -> Result<Vec<HashMap<String, Value>>, StreamError> {
        let mut command = redis::cmd("XINFO");
        command.arg("GROUPS").arg(&self.key);
        match self.redis.query(&self.key, &command).await {
            Ok(found) => Ok(found),
            Err(RedisError::Failed { cause, .. }) if cause.contains("no such key") => {
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn group_of(&self, fields: HashMap<String, Value>) -> Result<GroupState, StreamError> {
        let name: String = self.field(&fields, "name")?;
        let pending: u64 = self.field(&fields, "pending")?;
        let oldest_pending = if pending > 0 {
            self.oldest_pending(&name).await?
        } else {
            None
        };
        Ok(GroupState {
            last_delivered: self.id(&fields, "last-delivered-id")?,
            lag: self.field(&fields, "lag")?,
            read: self.field(&fields, "entries-read")?,
            name,
            pending,
            oldest_pending,
        })
    }

    async fn oldest_pending(&self, group: &str) -> Result<Option<EntryId>, StreamError> {
        let mut command = redis::cmd("XPENDING");
        command.arg(&self.key).arg(group);
        // Count, oldest, newest, consumers; nothing but the count when there is none any more.
        let summary: Vec<Value> = self.redis.query(&self.key, &command).await?;
        match summary.get(1) {
            None | Some(Value::Nil) => Ok(None),
            Some(id) => Ok(Some(self.parse_id(id)?)),
        }
    }

    fn field<T: FromRedisValue>(
        &self,
        fields: &HashMap<String, Value>,
        name: &str,
    ) -> Result<T, StreamError> {
        let value = fields.get(name).cloned().unwrap_or(Value::Nil);
        redis::from_redis_value(value).map_err(|error| self.unexpected(name, error))
    }

    fn id(&self, fields: &HashMap<String, Value>, name: &str) -> Result<EntryId, StreamError> {
        match fields.get(name) {
            Some(value) => self.parse_id(value),
            None => Ok(EntryId::ZERO),
        }
    }

    fn parse_id(&self, value: &Value) -> Result<EntryId, StreamError> {
        let text: String = redis::from_redis_value(value.clone())
            .map_err(|error| self.unexpected("an entry id", error))?;
        text.parse()
            .map_err(|error| self.unexpected("an entry id", error))
    }

    fn unexpected(&self, name: &str, error: impl std::fmt::Display) -> StreamError {
        StreamError::Damaged {
            key: self.key.clone(),
            what: format!("Redis answers {name} in an unknown form: {error}"),
        }
    }

    /// Entries from `from` on, at most `count`, ascending.
    pub(crate) async fn range(
        &self,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, StreamError> {
        let mut command = redis::cmd("XRANGE");
        command
            .arg(&self.key)
            .arg(from.to_string())
            .arg("+")
            .arg("COUNT")
            .arg(count);
        self.entries(&command).await
    }

    /// Entries up to `to`, at most `count`, descending.
    pub(crate) async fn range_back(
        &self,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, StreamError> {
        let mut command = redis::cmd("XREVRANGE");
        command
            .arg(&self.key)
            .arg(to.to_string())
            .arg("-")
            .arg("COUNT")
            .arg(count);
        self.entries(&command).await
    }

    async fn entries(&self, command: &redis::Cmd) -> Result<Vec<Entry>, StreamError> {
        type Raw = (String, Vec<(Vec<u8>, Vec<u8>)>);
        let raw: Vec<Raw> = self.redis.query(&self.key, command).await?;
        raw.into_iter()
            .map(|(id, fields)| {
                let id = id
                    .parse()
                    .map_err(|error| self.unexpected("an entry id", error))?;
                let data = fields
                    .into_iter()
                    .find(|(name, _)| name == keys::DATA_FIELD.as_bytes())
                    .map(|(_, data)| data);
                Ok((id, data))
            })
            .collect()
    }

    /// Calls `each` with every event from `from` to the end, in order. Entries that are no event are passed over.
    pub(crate) async fn each_event(
        &self,
        from: EntryId,
        mut each: impl FnMut(EntryId, &EventHead<'_>),
    ) -> Result<EntryId, StreamError> {
        let mut next = from;
        let mut last = EntryId::ZERO;
        loop {
            let page = self.range(next, PAGE).await?;
            let is_full = page.len() == PAGE;
            for (id, data) in page {
                last = id;
                if let Some(head) = self.head(id, data.as_deref()) {
                    each(id, &head);
                }
            }
            if !is_full {
                return Ok(last);
            }
            next = last.next();
        }
    }

    /// The id at which reading must begin so that the last `blocks` changes of block, or all entries down to block number
    /// `down_to`, are seen.
    pub(crate) async fn back(&self, blocks: usize, down_to: u32) -> Result<EntryId, StreamError> {
        let mut before = EntryId::MAX;
        let mut begin = EntryId::ZERO;
        let mut changes = 0;
        let mut newest = None;
        loop {
            let page = self.range_back(before, PAGE).await?;
            let is_full = page.len() == PAGE;
            for (id, data) in page {
                begin = id;
                before = match (id.seq.checked_sub(1), id.ms.checked_sub(1)) {
                    (Some(seq), _) => EntryId { ms: id.ms, seq },
                    (None, Some(ms)) => EntryId { ms, seq: u64::MAX },
                    (None, None) => return Ok(begin),
                };
                let block = self
                    .head(id, data.as_deref())
                    .and_then(|head| head.block_num);
                if let Some(block) = block {
                    if newest != Some(block) {
                        changes += 1;
                        newest = Some(block);
                    }
                    if changes > blocks || block < down_to {
                        return Ok(begin);
                    }
                }
            }
            if !is_full {
                return Ok(begin);
            }
        }
    }

    fn head<'a>(&self, id: EntryId, data: Option<&'a [u8]>) -> Option<EventHead<'a>> {
        let read = match data {
            Some(data) => EventHead::parse(data),
            None => Err("no field data".to_owned()),
        };
        read.inspect_err(|error| {
            tracing::warn!(key = self.key, entry = %id, error, "an entry of the stream is no event; it is passed over");
        })
        .ok()
    }

    /// The block number of the first event at or after an id.
    pub(crate) async fn block_at(
        &self,
        from: EntryId,
    ) -> Result<Option<(EntryId, u32)>, StreamError> {
        let mut next = from;
        loop {
            let page = self.range(next, 1).await?;
            let Some((id, data)) = page.into_iter().next() else {
                return Ok(None);
            };
            if let Some(num) = self
                .head(id, data.as_deref())
                .and_then(|head| head.block_num)
            {
                return Ok(Some((id, num)));
            }
            next = id.next();
        }
    }

    /// The first entry of a block number or a higher one. Numbers rise along the stream but for forks, so the place is found
    /// by halving.
    pub(crate) async fn first_of_block(&self, num: u32) -> Result<Option<EntryId>, StreamError> {
        let Some(state) = self.state().await? else {
            return Ok(None);
        };
        let Some(first) = state.first else {
            return Ok(None);
        };
        let (mut low, mut high) = (first.ms, state.last.ms.saturating_add(1));
        // Invariant: what is before `low` is below the number, what is at or after `high` is not, or is not there.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.block_at(EntryId::at(middle)).await? {
                Some((id, found)) if found < num => low = id.ms.saturating_add(1).max(middle + 1),
                _ => high = middle,
            }
        }
        // The millisecond before may hold the border inside.
        let mut next = EntryId::at(low.saturating_sub(1)).max(first);
        loop {
            let page = self.range(next, PAGE).await?;
            let Some((last, _)) = page.last() else {
                return Ok(None);
            };
            next = last.next();
            for (id, data) in &page {
                let head = self.head(*id, data.as_deref());
                if head
                    .and_then(|head| head.block_num)
                    .is_some_and(|found| found >= num)
                {
                    return Ok(Some(*id));
                }
            }
        }
    }
}
