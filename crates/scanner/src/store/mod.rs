//! Commands on their way to Redis: gathered, sent together, each answer or error kept apart.
//!
//! A single server gets a batch as one pipeline and takes it in order. A Cluster gets each command where its key lives,
//! all at once; what must wait for others is put behind a [`Batch::barrier`]. No command touches two keys.

pub(crate) mod scripts;

use std::collections::HashMap;
use std::sync::Arc;

use cairn_redis::Redis;
use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue, Pipeline, Script, Value};

use crate::error::ScannerError;
use scripts::Step;

/// Commands sent to a Cluster at once.
const CLUSTER_PARALLEL: usize = 256;

/// The way to Redis for the ledger.
#[derive(Clone)]
pub(crate) struct Store {
    redis: Redis,
    hashes: Arc<HashMap<Step, String>>,
}

/// Commands to be sent together.
#[derive(Default)]
pub(crate) struct Batch {
    commands: Vec<Cmd>,
    keys: Vec<String>,
    barriers: Vec<usize>,
}

/// The answers of a batch, in its order.
pub(crate) struct Answers {
    values: Vec<Value>,
    keys: Vec<String>,
    redis: Redis,
}

/// The place of a command in its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Batch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a command on one key; `finish` adds the arguments after the key.
    pub(crate) fn add(&mut self, name: &str, key: String, finish: impl FnOnce(&mut Cmd)) -> Slot {
        let mut command = redis::cmd(name);
        command.arg(&key);
        finish(&mut command);
        self.push(key, command)
    }

    /// Adds the question for the facts of a stream.
    pub(crate) fn stream_info(&mut self, key: String) -> Slot {
        let mut command = redis::cmd("XINFO");
        command.arg("STREAM").arg(&key);
        self.push(key, command)
    }

    fn push(&mut self, key: String, command: Cmd) -> Slot {
        self.commands.push(command);
        self.keys.push(key);
        Slot(self.commands.len() - 1)
    }

    /// What follows is sent when what stands before has been answered.
    pub(crate) fn barrier(&mut self) {
        if self.barriers.last() != Some(&self.commands.len()) && !self.commands.is_empty() {
            self.barriers.push(self.commands.len());
        }
    }
}

impl Store {
    /// Asks nothing yet: a script that Redis does not know is loaded when it is first needed.
    pub(crate) fn new(redis: Redis) -> Self {
        let hashes = Step::ALL
            .iter()
            .map(|&step| (step, Script::new(step.code()).get_hash().to_owned()))
            .collect();
        Self {
            redis,
            hashes: Arc::new(hashes),
        }
    }

    /// Loads the scripts, so that the first calls do not have to.
    pub(crate) async fn load_scripts(&self) -> Result<(), ScannerError> {
        for step in Step::ALL {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(step.code());
            let _: Value = self.redis.query("loading a script", &load).await?;
        }
        Ok(())
    }

    /// The handle itself.
    pub(crate) fn redis(&self) -> &Redis {
        &self.redis
    }

    /// Adds the call of a script to a batch.
    pub(crate) fn step(
        &self,
        batch: &mut Batch,
        step: Step,
        key: String,
        finish: impl FnOnce(&mut Cmd),
    ) -> Slot {
        let mut command = redis::cmd("EVALSHA");
        let hash = self.hashes.get(&step).map_or("", String::as_str);
        command.arg(hash).arg(1).arg(&key);
        finish(&mut command);
        batch.push(key, command)
    }

    /// Sends a batch. An error here means that it is not known what was done; errors of single commands are found in
    /// the answers.
    pub(crate) async fn send(&self, batch: Batch) -> Result<Answers, ScannerError> {
        let Batch {
            commands,
            keys,
            barriers,
        } = batch;
        let values = if self.redis.is_cluster() {
            let mut values = Vec::with_capacity(commands.len());
            let mut from = 0;
            for to in barriers.into_iter().chain([commands.len()]) {
                for part in commands[from..to].chunks(CLUSTER_PARALLEL) {
                    values.extend(self.scatter(part).await?);
                }
                from = to;
            }
            let unknown = unknown_scripts(&values);
            if !unknown.is_empty() {
                self.load_scripts().await?;
            }
            for index in unknown {
                let mut again = self.scatter(&commands[index..=index]).await?;
                if let Some(value) = again.pop() {
                    values[index] = value;
                }
            }
            values
        } else if commands.is_empty() {
            Vec::new()
        } else {
            let mut pipeline = Pipeline::with_capacity(commands.len());
            for command in commands {
                pipeline.add_command(command);
            }
            let mut values = self.pipeline(&pipeline).await?;
            let unknown = unknown_scripts(&values);
            if !unknown.is_empty() {
                self.load_scripts().await?;
                let mut again = Pipeline::with_capacity(unknown.len());
                let mut refused = unknown.iter().copied().peekable();
                for (index, command) in pipeline.cmd_iter().enumerate() {
                    if refused.next_if_eq(&index).is_some() {
                        again.add_command(command.clone());
                    }
                }
                for (index, value) in unknown.into_iter().zip(self.pipeline(&again).await?) {
                    values[index] = value;
                }
            }
            values
        };
        Ok(Answers {
            values,
            keys,
            redis: self.redis.clone(),
        })
    }

    async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, ScannerError> {
        let mut redis = self.redis.clone();
        redis
            .req_packed_commands(pipeline, 0, pipeline.len())
            .await
            .map_err(|error| {
                self.redis
                    .explain("writing or reading the ledger", &error)
                    .into()
            })
    }

    async fn scatter(&self, commands: &[Cmd]) -> Result<Vec<Value>, ScannerError> {
        let sent = commands.iter().map(|command| {
            let mut redis = self.redis.clone();
            async move { redis.req_packed_command(command).await }
        });
        let mut values = Vec::with_capacity(commands.len());
        for answer in futures_util::future::join_all(sent).await {
            values.push(match answer {
                Ok(value) => value,
                Err(error) => match redis::ServerError::try_from(error) {
                    Ok(error) => Value::ServerError(error),
                    Err(error) => {
                        return Err(self
                            .redis
                            .explain("writing or reading the ledger", &error)
                            .into());
                    }
                },
            });
        }
        Ok(values)
    }

    /// Sends one command and reads its answer.
    pub(crate) async fn one<T: FromRedisValue>(
        &self,
        name: &str,
        key: String,
        finish: impl FnOnce(&mut Cmd),
    ) -> Result<T, ScannerError> {
        let mut batch = Batch::new();
        let slot = batch.add(name, key, finish);
        self.send(batch).await?.take(slot)
    }

    /// Calls one script and reads its answer.
    pub(crate) async fn one_step<T: FromRedisValue>(
        &self,
        step: Step,
        key: String,
        finish: impl FnOnce(&mut Cmd),
    ) -> Result<T, ScannerError> {
        let mut batch = Batch::new();
        let slot = self.step(&mut batch, step, key, finish);
        self.send(batch).await?.take(slot)
    }

    /// One step of a scan for keys: where to go on in this shard (`0`: it is done), the number of shards, the keys.
    pub(crate) async fn scan(
        &self,
        shard: usize,
        cursor: &str,
        pattern: &str,
        count: usize,
    ) -> Result<(String, usize, Vec<String>), ScannerError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg(pattern)
            .arg("COUNT")
            .arg(count);
        let shards = self.redis.shards().await?;
        let Some(at) = shards.get(shard) else {
            return Ok(("0".to_owned(), shards.len(), Vec::new()));
        };
        let (next, keys) = self.redis.query_shard(at, "SCAN", &scan).await?;
        Ok((next, shards.len(), keys))
    }

    /// The values of many keys of type STRING, in their order. A key that is missing or of another type is `None`.
    pub(crate) async fn values(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<Option<String>>, ScannerError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if self.redis.is_cluster() {
            let mut batch = Batch::new();
            let slots: Vec<Slot> = keys
                .into_iter()
                .map(|key| batch.add("GET", key, |_| {}))
                .collect();
            let mut answers = self.send(batch).await?;
            return Ok(slots
                .into_iter()
                .map(|slot| answers.take::<Option<String>>(slot).unwrap_or(None))
                .collect());
        }
        let mut get = redis::cmd("MGET");
        get.arg(&keys);
        let values: Vec<Option<Vec<u8>>> = self.redis.query("reading rows", &get).await?;
        Ok(values
            .into_iter()
            .map(|value| value.and_then(|bytes| String::from_utf8(bytes).ok()))
            .collect())
    }
}

/// The scripts that a server refused because it does not know them: it was restarted, or a replica took over. Only these are
/// sent again.
fn unknown_scripts(values: &[Value]) -> Vec<usize> {
    values
        .iter()
        .enumerate()
        .filter(
            |(_, value)| matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT"),
        )
        .map(|(index, _)| index)
        .collect()
}

impl Answers {
    /// The answer of a command, once.
    pub(crate) fn take<T: FromRedisValue>(&mut self, slot: Slot) -> Result<T, ScannerError> {
        let value = self
            .values
            .get_mut(slot.0)
            .map_or(Value::Nil, |value| std::mem::replace(value, Value::Nil));
        let key = self.keys.get(slot.0).map_or("", String::as_str);
        if let Value::ServerError(error) = value {
            return Err(self.explain(key, error));
        }
        redis::from_redis_value(value).map_err(|error| ScannerError::Corrupt {
            key: key.to_owned(),
            why: error.to_string(),
        })
    }

    /// The first error of any command in a range of slots.
    pub(crate) fn error(&mut self, slot: Slot) -> Option<ScannerError> {
        match self.values.get(slot.0) {
            Some(Value::ServerError(_)) => self.take::<Value>(slot).err(),
            _ => None,
        }
    }

    fn explain(&self, key: &str, error: redis::ServerError) -> ScannerError {
        let key = key.to_owned();
        if error.code() == "CORRUPT" {
            let why = error.details().unwrap_or("unreadable").to_owned();
            return ScannerError::Corrupt { key, why };
        }
        let details = error.details().unwrap_or_default();
        if details.contains("would overflow") {
            return ScannerError::Overflow { key };
        }
        if details.contains("hash value is not an integer") || details.contains("not a valid float")
        {
            let why = "a total is not a number".to_owned();
            return ScannerError::Corrupt { key, why };
        }
        let error = redis::RedisError::from(error);
        self.redis.explain(&format!("the key {key}"), &error).into()
    }
}
