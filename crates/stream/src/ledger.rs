//! Events of ledgers that have no chain of blocks: an application's own records.
//!
//! Their ids are given by the ledger and are the same for the same record for ever. Delivery is at least once: a writer that
//! does not know whether its write arrived writes again, and readers drop an id that they have seen.

use std::sync::LazyLock;

use cairn_redis::Redis;
use redis::Script;

use crate::block::{json, string, text};
use crate::entry::EntryId;
use crate::error::StreamError;
use crate::event::{BlockTime, Json};
use crate::keys;
use crate::label::ChainLabel;

/// Most events in one step.
const STEP_EVENTS: usize = 4_000;

static APPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local ids = {}\n\
         for i = 2, #ARGV do ids[i - 1] = redis.call('XADD', KEYS[1], '*', 'data', ARGV[i]) end\n\
         if ARGV[1] ~= '0' then redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1]) end\n\
         return ids",
    )
});

/// An event of a ledger without blocks. Its id is `{chain}:{letter}:{key}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LedgerEvent<'a> {
    /// Its kind, as it stands in the event.
    pub kind: &'a str,
    /// What stands for the kind in the id.
    pub letter: char,
    /// What tells it apart from all others of its kind, for ever.
    pub key: &'a str,
    /// When it happened, as the ledger says.
    pub time: BlockTime,
    /// What it says.
    pub data: Json<'a>,
}

impl LedgerEvent<'_> {
    /// The JSON text that enters the stream.
    fn write(&self, chain: &ChainLabel) -> Vec<u8> {
        let mut out = b"{\"kind\":".to_vec();
        string(&mut out, self.kind);
        text(
            &mut out,
            "event_id",
            &format!("{chain}:{}:{}", self.letter, self.key),
        );
        text(&mut out, "chain_id", chain.as_str());
        text(&mut out, "time", &self.time.to_string());
        json(&mut out, "data", self.data);
        out.push(b'}');
        out
    }
}

/// Appends to the stream of a ledger. Cheap to clone; any number of writers may append.
#[derive(Debug, Clone)]
pub struct EventLog {
    redis: Redis,
    chain: ChainLabel,
    key: String,
    max_len: u64,
}

impl EventLog {
    /// The stream of a ledger, of about `max_len` entries at most (0 for no limit).
    pub fn new(redis: Redis, chain: &ChainLabel, max_len: u64) -> Self {
        Self {
            redis,
            chain: chain.clone(),
            key: keys::events(chain),
            max_len,
        }
    }

    /// The key of the stream.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Appends events in their order and gives the ids of their entries. Each group of some thousand enters in one step.
    pub async fn append(&self, events: &[LedgerEvent<'_>]) -> Result<Vec<EntryId>, StreamError> {
        let mut ids = Vec::with_capacity(events.len());
        for step in events.chunks(STEP_EVENTS) {
            let mut call = APPEND.prepare_invoke();
            call.key(&self.key).arg(self.max_len);
            for event in step {
                call.arg(event.write(&self.chain));
            }
            let given: Vec<String> = call
                .invoke_async(&mut self.redis.clone())
                .await
                .map_err(|error| self.redis.explain(&self.key, &error))?;
            for id in given {
                ids.push(id.parse().map_err(|error| StreamError::Damaged {
                    key: self.key.clone(),
                    what: format!("Redis answers an entry id in an unknown form: {error}"),
                })?);
            }
        }
        Ok(ids)
    }
}
