//! The checkpoint of a chain: the hash `parser2:sync:{chainId}`.
//!
//! | field | content |
//! | --- | --- |
//! | `block_num`, `block_id`, `last_updated` | the newest published block and when it was published (ISO 8601) |
//! | `lib_num`, `lib_id` | added: the last irreversible block |
//! | `chain_hash` | added: id of the network, pinned at the first start |
//! | `epoch` | added: counts writers; a lower one may not write |
//! | `entry_id` | added: the last entry of the stream when this was written |
//! | `reversible:{num}` | added: id of each published block from the last irreversible one on |
//!
//! It follows the stream: it can lag by what a crash left out, and is moved forward at the next start.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use cairn_redis::Redis;
use redis::Script;

use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::label::ChainLabel;
use crate::position::{BlockId, Position};
use crate::walk::Walk;

const REVERSIBLE: &str = "reversible:";

/// What a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// The newest published block.
    pub position: Option<Position>,
    /// The last irreversible block.
    pub lib: Option<Position>,
    /// When it was written, as written.
    pub last_updated: Option<String>,
    /// Id of the network.
    pub chain_hash: Option<String>,
    /// Number of the writer.
    pub epoch: u64,
    /// The stream's last entry when it was written.
    pub entry: Option<EntryId>,
    /// Published blocks that could still be undone, by number.
    pub reversible: BTreeMap<u32, BlockId>,
}

impl Checkpoint {
    /// Reads the checkpoint of a chain; everything is empty when there is none.
    pub async fn read(redis: &Redis, chain: &ChainLabel) -> Result<Self, StreamError> {
        let key = keys::sync(chain);
        let mut command = redis::cmd("HGETALL");
        command.arg(&key);
        let fields: HashMap<String, String> = redis.query(&key, &command).await?;
        Self::from_fields(&key, &fields)
    }

    fn from_fields(key: &str, fields: &HashMap<String, String>) -> Result<Self, StreamError> {
        let damaged = |name: &str, value: &str| StreamError::Damaged {
            key: key.to_owned(),
            what: format!(
                "the field {name} holds {:?}",
                value.chars().take(80).collect::<String>()
            ),
        };
        let position = |num: &str, id: &str| -> Result<Option<Position>, StreamError> {
            let (Some(num_text), Some(id_text)) = (fields.get(num), fields.get(id)) else {
                return Ok(None);
            };
            Ok(Some(Position {
                num: num_text.parse().map_err(|_| damaged(num, num_text))?,
                id: id_text.parse().map_err(|_| damaged(id, id_text))?,
            }))
        };
        let mut reversible = BTreeMap::new();
        for (name, value) in fields {
            if let Some(num) = name.strip_prefix(REVERSIBLE) {
                let num = num.parse().map_err(|_| damaged(name, value))?;
                reversible.insert(num, value.parse().map_err(|_| damaged(name, value))?);
            }
        }
        Ok(Self {
            position: position("block_num", "block_id")?,
            lib: position("lib_num", "lib_id")?,
            last_updated: fields.get("last_updated").cloned(),
            chain_hash: fields.get("chain_hash").cloned(),
            epoch: match fields.get("epoch") {
                Some(text) => text.parse().map_err(|_| damaged("epoch", text))?,
                None => 0,
            },
            entry: match fields.get("entry_id") {
                Some(text) => Some(text.parse().map_err(|_| damaged("entry_id", text))?),
                None => None,
            },
            reversible,
        })
    }

    /// Where the chain was when it was written.
    pub(crate) fn walk(&self) -> Walk {
        let mut walk = Walk {
            position: self.position,
            lib: self.lib,
            reversible: self.reversible.clone(),
        };
        if let Some(position) = self.position {
            // Whatever stands above it is left from an interrupted step.
            walk.block(position);
        }
        walk
    }
}

/// The writing side of a checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    redis: Redis,
    key: String,
    epoch: u64,
    /// The reversible positions that the hash holds, so that only what changed is written.
    stored: BTreeMap<u32, BlockId>,
}

/// Sets and deletes fields unless a newer writer is there. Answers the epoch that is in force.
static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('HGET', KEYS[1], 'epoch')\n\
         if held and tonumber(held) > tonumber(ARGV[1]) then return held end\n\
         redis.call('HSET', KEYS[1], 'epoch', ARGV[1])\n\
         local pairs_end = 2 + 2 * tonumber(ARGV[2])\n\
         for i = 3, pairs_end, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end\n\
         for i = pairs_end + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end\n\
         return ARGV[1]",
    )
});

impl CheckpointWriter {
    /// Becomes the newest writer.
    pub(crate) async fn take_over(
        redis: &Redis,
        chain: &ChainLabel,
        found: &Checkpoint,
    ) -> Result<Self, StreamError> {
        let key = keys::sync(chain);
        let mut command = redis::cmd("HINCRBY");
        command.arg(&key).arg("epoch").arg(1);
        let epoch = redis.query(&key, &command).await?;
        Ok(Self {
            redis: redis.clone(),
            key,
            epoch,
            stored: found.reversible.clone(),
        })
    }

    /// Fails when a newer writer is there.
    pub(crate) async fn check(&self) -> Result<(), StreamError> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.key).arg("epoch");
        let held: Option<u64> = self.redis.query(&self.key, &command).await?;
        self.compare(held.unwrap_or_default())
    }

    fn compare(&self, held: u64) -> Result<(), StreamError> {
        if held > self.epoch {
            return Err(StreamError::Fenced {
                key: self.key.clone(),
                ours: self.epoch,
                newer: held,
            });
        }
        Ok(())
    }

    /// Writes where the chain is.
    pub(crate) async fn write(&mut self, walk: &Walk, entry: EntryId) -> Result<(), StreamError> {
        let mut fields: Vec<(String, String)> = vec![
            ("entry_id".to_owned(), entry.to_string()),
            (
                "last_updated".to_owned(),
                jiff::Timestamp::now()
                    .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
                    .to_string(),
            ),
        ];
        for (num, id, position) in [
            ("block_num", "block_id", walk.position),
            ("lib_num", "lib_id", walk.lib),
        ] {
            if let Some(position) = position {
                fields.push((num.to_owned(), position.num.to_string()));
                fields.push((id.to_owned(), position.id.to_string()));
            }
        }
        for (num, id) in &walk.reversible {
            if self.stored.get(num) != Some(id) {
                fields.push((format!("{REVERSIBLE}{num}"), id.to_string()));
            }
        }
        let gone: Vec<String> = self
            .stored
            .keys()
            .filter(|num| !walk.reversible.contains_key(num))
            .map(|num| format!("{REVERSIBLE}{num}"))
            .collect();
        self.send(&fields, &gone).await?;
        self.stored.clone_from(&walk.reversible);
        Ok(())
    }

    /// Writes one field.
    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<(), StreamError> {
        self.send(&[(name.to_owned(), value.to_owned())], &[]).await
    }

    async fn send(&self, fields: &[(String, String)], gone: &[String]) -> Result<(), StreamError> {
        let mut call = WRITE.prepare_invoke();
        call.key(&self.key).arg(self.epoch).arg(fields.len());
        for (name, value) in fields {
            call.arg(name).arg(value);
        }
        for name in gone {
            call.arg(name);
        }
        let held: u64 = call
            .invoke_async(&mut self.redis.clone())
            .await
            .map_err(|error| self.redis.explain(&self.key, &error))?;
        self.compare(held)
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0000007d4b8a31b1d90c2ff2c1c16ef9a9b1ee8e24e1b4fd8c0e3a40a1b2c3d4";

    fn fields(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_checkpoint_of_another_writer_is_read() {
        let read = Checkpoint::from_fields(
            "k",
            &fields(&[
                ("block_num", "125"),
                ("block_id", ID),
                ("last_updated", "2026-05-05T00:00:00.000Z"),
            ]),
        )
        .expect("three fields are enough");
        assert_eq!(read.position.map(|position| position.num), Some(125));
        assert_eq!((read.entry, read.epoch, read.lib), (None, 0, None));
        assert_eq!(read.walk().positions().len(), 1);
    }

    #[test]
    fn a_damaged_field_is_named() {
        for (name, value) in [
            ("block_num", "many"),
            ("block_num", "-1"),
            ("block_id", "xyz"),
            ("epoch", "new"),
            ("entry_id", "5"),
            ("reversible:x", ID),
            ("reversible:7", "no id"),
        ] {
            let mut all = fields(&[("block_num", "125"), ("block_id", ID)]);
            all.insert(name.to_owned(), value.to_owned());
            let error = Checkpoint::from_fields("parser2:sync:x", &all)
                .expect_err(name)
                .to_string();
            assert!(
                error.contains("parser2:sync:x") && error.contains(name),
                "{error}"
            );
        }
    }
}
