//! Dead letters that are given to their subscription again.
//!
//! Asking for it leaves the dead letter where it is and puts its id into the stream `parser2:sub:{subId}:replay`. The active
//! instance reads that, gives the event to its handler, and on success removes the dead letter first and the request second.
//! The dead letter is the truth: a request whose letter is gone was done.

use cairn_redis::Redis;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::subscription::names::{EventSource, SubId};

/// The one field of a request.
const FIELD: &str = "dead";
/// Requests sent in one round trip.
const REQUESTS_AT_ONCE: usize = 500;

/// The fields of a stream's entry.
pub(super) type Entry = (String, Vec<(String, Vec<u8>)>);

/// The requests of one subscription, and the dead letters they name.
#[derive(Debug, Clone)]
pub(super) struct Replays {
    redis: Redis,
    requests: String,
    letters: String,
}

/// What is to be given again.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) request: EntryId,
    pub(super) letter: EntryId,
    pub(super) data: Vec<u8>,
}

impl Replays {
    pub(super) fn new(redis: Redis, source: &EventSource, sub_id: &SubId) -> Self {
        Self {
            redis,
            requests: keys::replay(sub_id.as_str()),
            letters: keys::dead_letters(source.chain(), sub_id.as_str()),
        }
    }

    /// Asks that these dead letters be given again, in this order.
    pub(super) async fn request(&self, letters: &[EntryId]) -> Result<(), StreamError> {
        for some in letters.chunks(REQUESTS_AT_ONCE) {
            let mut pipe = redis::pipe();
            for letter in some {
                pipe.cmd("XADD")
                    .arg(&self.requests)
                    .arg("*")
                    .arg(FIELD)
                    .arg(letter.to_string())
                    .ignore();
            }
            pipe.query_async::<()>(&mut self.redis.clone())
                .await
                .map_err(|error| self.redis.explain(&self.requests, &error))?;
        }
        Ok(())
    }

    /// The oldest requests, with their dead letters. Requests that were done are removed on the way.
    pub(super) async fn next(&self, count: usize) -> Result<Vec<Replay>, StreamError> {
        let mut command = redis::cmd("XRANGE");
        command
            .arg(&self.requests)
            .arg("-")
            .arg("+")
            .arg("COUNT")
            .arg(count);
        let found: Vec<Entry> = self.redis.query(&self.requests, &command).await?;
        let mut replays = Vec::with_capacity(found.len());
        for (id, fields) in found {
            let request = self.id(&self.requests, &id)?;
            let letter = fields
                .iter()
                .find(|(name, _)| name == FIELD)
                .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
            let data = match letter {
                Some(letter) => self.data(letter).await?,
                None => None,
            };
            match (letter, data) {
                (Some(letter), Some(data)) => replays.push(Replay {
                    request,
                    letter,
                    data,
                }),
                _ => self.remove(&self.requests, request).await?,
            }
        }
        Ok(replays)
    }

    async fn data(&self, letter: EntryId) -> Result<Option<Vec<u8>>, StreamError> {
        let mut command = redis::cmd("XRANGE");
        command
            .arg(&self.letters)
            .arg(letter.to_string())
            .arg(letter.to_string());
        let found: Vec<Entry> = self.redis.query(&self.letters, &command).await?;
        let fields = found.into_iter().next().map(|(_, fields)| fields);
        Ok(fields.map(|fields| {
            fields
                .into_iter()
                .find(|(name, _)| name == keys::DATA_FIELD)
                .map(|(_, data)| data)
                .unwrap_or_default()
        }))
    }

    /// It was handled.
    pub(super) async fn done(&self, request: EntryId, letter: EntryId) -> Result<(), StreamError> {
        self.remove(&self.letters, letter).await?;
        self.remove(&self.requests, request).await
    }

    async fn remove(&self, key: &str, id: EntryId) -> Result<(), StreamError> {
        let mut command = redis::cmd("XDEL");
        command.arg(key).arg(id.to_string());
        Ok(self.redis.query::<u64>(key, &command).await.map(drop)?)
    }

    fn id(&self, key: &str, text: &str) -> Result<EntryId, StreamError> {
        text.parse().map_err(|error| StreamError::Damaged {
            key: key.to_owned(),
            what: format!("Redis answers an entry id in an unknown form: {error}"),
        })
    }
}
