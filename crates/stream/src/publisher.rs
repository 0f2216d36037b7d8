//! Appending blocks to a chain's stream, each wholly or not at all.
//!
//! The script that appends compares the stream's last id with the one the publisher knows. They differ in three cases, which
//! are told apart by looking at what is there: our own write, whose answer was lost; events that were sent into the stream
//! again; a stream that lost its newest entries or has another writer. Nothing is written before that is clear, so nothing is
//! repeated and nothing left out. The future of [`Publisher::publish`] may be dropped at any time.
//!
//! Steps are sent in a row without waiting for each answer, so that Redis has something to do all the time. Which id a step will
//! end with is not known before, so those behind the first compare the stream's last event instead: its text names its block.

use std::sync::LazyLock;
use std::time::Duration;

use cairn_redis::Redis;
use redis::{ErrorKind, Script, ScriptInvocation, ServerErrorKind};

use crate::block::BlockEvents;
use crate::checkpoint::{Checkpoint, CheckpointWriter};
use crate::entry::EntryId;
use crate::error::StreamError;
use crate::keys;
use crate::label::ChainLabel;
use crate::position::Position;
use crate::scan::Reader;
use crate::walk::Walk;

/// Most bytes of events in one step, unless one block has more.
const STEP_BYTES: usize = 1 << 20;
/// Most events in one step, unless one block has more: Redis does nothing else meanwhile.
const STEP_EVENTS: usize = 1_000;
/// Bytes of events that are on their way at once, unless one step has more.
const ROW_BYTES: usize = 8 << 20;
/// Pause after the first failure; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Blocks that are read again when the stream lost entries and no irreversible block is known.
const REBUILD_BLOCKS: usize = 1_000;

/// Appends all events if the stream ends where it is thought to end: with this id, or, when none is given, with this event.
/// Answers whether it did, and the last id.
///
/// Nothing can fail between two events: whether memory is left is decided once for a script, and the key is a stream by then.
static APPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local key, call, last, event = KEYS[1], redis.call, '0-0', false\n\
         if call('EXISTS', key) == 1 then\n\
           local info = call('XINFO', 'STREAM', key)\n\
           for i = 1, #info, 2 do\n\
             if info[i] == 'last-generated-id' then last = info[i + 1]\n\
             elseif info[i] == 'last-entry' and info[i + 1] then event = info[i + 1][2][2] end\n\
           end\n\
         end\n\
         if ARGV[1] ~= '' and last ~= ARGV[1] or ARGV[1] == '' and event ~= ARGV[2] then return {0, last} end\n\
         for i = 4, #ARGV do last = call('XADD', key, '*', 'data', ARGV[i]) end\n\
         if ARGV[3] ~= '0' then call('XTRIM', key, 'MAXLEN', '~', ARGV[3]) end\n\
         return {1, last}",
    )
});

/// How a publisher works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublisherOptions {
    /// About how many entries the stream may have; older ones are removed as new ones come. 0 for no limit.
    pub max_len: u64,
}

/// Where reading goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resume {
    /// The newest published block; `None` when nothing was ever published.
    pub position: Option<Position>,
    /// The last irreversible block as far as it was told.
    pub lib: Option<Position>,
    /// The published blocks from the last irreversible one to the newest, ascending: what a node must know to tell of a fork
    /// that happened meanwhile. Blocks without events may be missing after a crash.
    pub reversible: Vec<Position>,
    /// Id of the network, when it was pinned.
    pub chain_hash: Option<String>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Published {
    /// Blocks that are in the stream now.
    pub blocks: u64,
    /// Their events.
    pub events: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// The one writer of a chain's stream.
#[derive(Debug)]
pub struct Publisher {
    redis: Redis,
    reader: Reader,
    checkpoint: CheckpointWriter,
    chain_hash: Option<String>,
    max_len: u64,
    /// The stream's last id as far as we know.
    tail: EntryId,
    walk: Walk,
    /// Whether the checkpoint says less than `walk`.
    is_behind: bool,
}

impl Publisher {
    /// Becomes the writer of a chain's stream: an earlier one can write no more. Finds out where the stream ends, and moves
    /// the checkpoint there if it lags.
    pub async fn open(
        redis: Redis,
        chain: &ChainLabel,
        options: PublisherOptions,
    ) -> Result<(Self, Resume), StreamError> {
        let found = Checkpoint::read(&redis, chain).await?;
        // Before looking at the stream: from here on an earlier writer notices us.
        let checkpoint = CheckpointWriter::take_over(&redis, chain, &found).await?;
        let mut publisher = Self {
            reader: Reader::new(&redis, chain),
            redis,
            checkpoint,
            chain_hash: found.chain_hash.clone(),
            max_len: options.max_len,
            tail: found.entry.unwrap_or_default(),
            walk: found.walk(),
            is_behind: true,
        };
        publisher.find_end(found.entry).await?;
        publisher.write_checkpoint().await?;
        let resume = publisher.resume();
        Ok((publisher, resume))
    }

    /// Where reading goes on.
    pub fn resume(&self) -> Resume {
        Resume {
            position: self.walk.position,
            lib: self.walk.lib,
            reversible: self.walk.positions(),
            chain_hash: self.chain_hash.clone(),
        }
    }

    /// The newest published block.
    pub fn position(&self) -> Option<Position> {
        self.walk.position
    }

    /// Ties the keys to a network, by its id of 64 hexadecimal digits. The first call stores it; later it must be the same.
    pub async fn pin_network(&mut self, chain_hash: &str) -> Result<(), StreamError> {
        match &self.chain_hash {
            Some(stored) if stored == chain_hash => Ok(()),
            Some(stored) => Err(StreamError::OtherNetwork {
                key: self.checkpoint.key().to_owned(),
                stored: stored.clone(),
                found: chain_hash.to_owned(),
            }),
            None => {
                self.checkpoint.set("chain_hash", chain_hash).await?;
                self.chain_hash = Some(chain_hash.to_owned());
                Ok(())
            }
        }
    }

    /// Appends blocks in their order. Several may enter in one step; none ever enters in part.
    ///
    /// After a transient error the same blocks are given again: what is in the stream already is passed over. After
    /// [`StreamError::Moved`] reading begins anew at [`Publisher::resume`].
    pub async fn publish(&mut self, blocks: &[BlockEvents]) -> Result<Published, StreamError> {
        let mut published = Published::default();
        let mut rest = blocks;
        loop {
            rest = self.without_published(rest, &mut published);
            if rest.is_empty() {
                break;
            }
            let row = &rest[..row_len(rest)];
            self.check_order(row)?;
            if !self.append(row).await? {
                self.find_out_why(row).await?;
            }
        }
        if self.is_behind {
            self.write_checkpoint().await?;
        }
        Ok(published)
    }

    /// The same, and again after every transient error until it succeeds. `told` hears of each such error, and of the end of
    /// them with `None`.
    pub async fn publish_patiently(
        &mut self,
        blocks: &[BlockEvents],
        mut told: impl FnMut(Option<&StreamError>),
    ) -> Result<Published, StreamError> {
        let mut pause = PAUSE;
        let mut has_failed = false;
        loop {
            match self.publish(blocks).await {
                Ok(_) => {
                    if has_failed {
                        told(None);
                    }
                    // Counted here: an attempt that failed late has published some of them.
                    return Ok(Published::of(blocks));
                }
                Err(error) if error.is_transient() => {
                    has_failed = true;
                    told(Some(&error));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops the blocks from the front that are in the stream.
    fn without_published<'a>(
        &self,
        blocks: &'a [BlockEvents],
        published: &mut Published,
    ) -> &'a [BlockEvents] {
        let done = blocks
            .iter()
            .rposition(|block| Some(block.position()) == self.walk.position)
            .map_or(0, |at| at + 1);
        let (done, rest) = blocks.split_at(done);
        published.add(Published::of(done));
        rest
    }

    /// A block must follow the one before, or say that the chain forked.
    fn check_order(&self, blocks: &[BlockEvents]) -> Result<(), StreamError> {
        let mut last = self.walk.position;
        for block in blocks {
            let given = block.position();
            if let Some(last) = last {
                let wrong = |why: &str| {
                    Err(StreamError::NotNext {
                        key: self.reader.key().to_owned(),
                        last,
                        given,
                        why: why.to_owned(),
                    })
                };
                match block.forked() {
                    None if last.num.checked_add(1) != Some(given.num) => {
                        return wrong("the number is not the next one, and no fork is told");
                    }
                    None if block.previous().is_some_and(|previous| previous != last.id) => {
                        return wrong("it has another block before it, and no fork is told");
                    }
                    Some(fork) if fork.forked_from_block >= last.num => {
                        return wrong("a fork from a block that is not below the last one");
                    }
                    Some(fork) => {
                        let known = self.walk.reversible.get(&fork.forked_from_block);
                        if let (Some(known), Some(previous)) = (known, block.previous())
                            && *known != previous
                        {
                            return wrong(
                                "the fork leaves the chain at a block that was not published",
                            );
                        }
                    }
                    None => {}
                }
            }
            last = Some(given);
        }
        Ok(())
    }

    /// Steps in a row, each atomic. False when the stream did not end where it was thought to.
    async fn append(&mut self, row: &[BlockEvents]) -> Result<bool, StreamError> {
        // The calls, and how far in the row each one gets.
        let mut calls = Vec::new();
        let (mut end, mut before) = (0, None);
        while end < row.len() {
            let step = &row[end..end + step_len(&row[end..])];
            end += step.len();
            if let Some(last) = step.iter().flat_map(BlockEvents::texts).last() {
                calls.push((end, self.call(step, before)));
                before = Some(last);
            }
        }
        let answers = self.send(&calls).await?;
        self.is_behind = true;
        let is_whole = answers.len() == calls.len();
        let mut taken = 0;
        for ((end, _), (done, last)) in calls.iter().zip(answers) {
            if !done {
                return Ok(false);
            }
            self.tail = last.parse().map_err(|error| StreamError::Damaged {
                key: self.reader.key().to_owned(),
                what: format!("Redis answers an entry id in an unknown form: {error}"),
            })?;
            self.take(&row[taken..*end]);
            taken = *end;
        }
        if is_whole {
            self.take(&row[taken..]);
        }
        Ok(true)
    }

    /// The call of one step: on the stream's end as we know it, or behind the step that ends with the event `before`.
    fn call(&self, step: &[BlockEvents], before: Option<&[u8]>) -> ScriptInvocation<'static> {
        let mut call = APPEND.prepare_invoke();
        call.key(self.reader.key());
        match before {
            None => call.arg(self.tail.to_string()).arg(""),
            Some(event) => call.arg("").arg(event),
        };
        call.arg(self.max_len);
        for text in step.iter().flat_map(BlockEvents::texts) {
            call.arg(text);
        }
        call
    }

    /// Whether each step was done, and the stream's last id. One answer only when the server did not know the script.
    async fn send(
        &self,
        calls: &[(usize, ScriptInvocation<'static>)],
    ) -> Result<Vec<(bool, String)>, StreamError> {
        let Some((_, first)) = calls.first() else {
            return Ok(Vec::new());
        };
        let mut pipe = redis::pipe();
        for (_, call) in calls {
            pipe.invoke_script(call);
        }
        let mut redis = self.redis.clone();
        let answers = match pipe.query_async(&mut redis).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // This one brings it along.
                let answer = first.invoke_async(&mut redis).await;
                answer.map(|answer| vec![answer])
            }
            answers => answers,
        };
        Ok(answers.map_err(|error| self.redis.explain(self.reader.key(), &error))?)
    }

    fn take(&mut self, blocks: &[BlockEvents]) {
        for block in blocks {
            self.walk.block(block.position());
            if let Some(lib) = block.lib() {
                self.walk.irreversible(lib);
            }
        }
    }

    /// The stream ends elsewhere. Fine when it has some of these blocks already, or events that were sent again.
    async fn find_out_why(&mut self, blocks: &[BlockEvents]) -> Result<(), StreamError> {
        self.checkpoint.check().await?;
        let before = self.walk.clone();
        self.find_end(Some(self.tail)).await?;
        let now = self.walk.position;
        let done = blocks
            .iter()
            .rposition(|block| Some(block.position()) == now)
            .map(|at| &blocks[..=at]);
        self.is_behind = true;
        if let Some(done) = done {
            // Exactly what taking them one by one would have left.
            self.walk = before;
            self.take(done);
            return Ok(());
        }
        if now == before.position {
            return Ok(());
        }
        self.write_checkpoint().await?;
        Err(StreamError::Moved {
            key: self.reader.key().to_owned(),
            now,
        })
    }

    /// Finds the stream's end and where the chain is there. `known` is the entry up to which `walk` is right.
    async fn find_end(&mut self, known: Option<EntryId>) -> Result<(), StreamError> {
        let key = self.reader.key().to_owned();
        let Some(state) = self.reader.state().await? else {
            if self.walk.position.is_some() && known.is_some_and(|known| known != EntryId::ZERO) {
                tracing::warn!(
                    key,
                    "the stream is gone; publishing goes on after the last published block"
                );
            }
            self.tail = EntryId::ZERO;
            return Ok(());
        };
        match known {
            Some(known) if known <= state.last => {
                let walk = &mut self.walk;
                if known < state.last {
                    self.reader
                        .each_event(known.next(), |_, head| walk.entry(head))
                        .await?;
                }
            }
            known => {
                if let Some(known) = known {
                    tracing::warn!(key, known = %known, last = %state.last, "the stream has lost its newest entries");
                }
                self.rebuild(state.length).await?;
            }
        }
        self.tail = state.last;
        Ok(())
    }

    /// Finds out from the stream alone where the chain is.
    async fn rebuild(&mut self, length: u64) -> Result<(), StreamError> {
        if length == 0 {
            // All of it was removed as too old: what the checkpoint says holds.
            return Ok(());
        }
        let down_to = self.walk.lib.map_or(0, |lib| lib.num);
        let from = self.reader.back(REBUILD_BLOCKS, down_to).await?;
        let mut walk = Walk::default();
        self.reader
            .each_event(from, |_, head| walk.entry(head))
            .await?;
        if let (Some(lib), Some(position)) = (self.walk.lib, walk.position)
            && lib.num <= position.num
        {
            walk.irreversible(lib);
        }
        if walk.position.is_none() {
            // Entries, but none of a block: not ours. The checkpoint is all there is.
            return Ok(());
        }
        self.walk = walk;
        Ok(())
    }

    async fn write_checkpoint(&mut self) -> Result<(), StreamError> {
        self.checkpoint.write(&self.walk, self.tail).await?;
        self.is_behind = false;
        Ok(())
    }
}

impl Published {
    fn of(blocks: &[BlockEvents]) -> Self {
        let mut sum = Self::default();
        for block in blocks {
            sum.add(Self {
                blocks: 1,
                events: block.len() as u64,
                bytes: block.bytes() as u64,
            });
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

/// How many of the blocks are sent in a row. A fork begins a new one: whether it fits is seen from the blocks before it.
fn row_len(blocks: &[BlockEvents]) -> usize {
    let mut bytes = 0;
    blocks
        .iter()
        .enumerate()
        .take_while(|(at, block)| {
            bytes += block.bytes();
            *at == 0 || (bytes <= ROW_BYTES && block.forked().is_none())
        })
        .count()
}

/// How many of the blocks enter in one step.
fn step_len(blocks: &[BlockEvents]) -> usize {
    let (mut bytes, mut events) = (0, 0);
    blocks
        .iter()
        .take_while(|block| {
            let is_first = events == 0 && bytes == 0;
            bytes += block.bytes();
            events += block.len();
            is_first || (bytes <= STEP_BYTES && events <= STEP_EVENTS)
        })
        .count()
}

/// Claims the keys that have no chain in their name (ABI histories) for one Antelope chain. Fails when another has them.
pub async fn claim_database(redis: &Redis, chain: &ChainLabel) -> Result<(), StreamError> {
    let mut command = redis::cmd("SET");
    command
        .arg(keys::OWNER)
        .arg(chain.as_str())
        .arg("NX")
        .arg("GET");
    let owner: Option<String> = redis.query(keys::OWNER, &command).await?;
    match owner {
        Some(owner) if owner != chain.as_str() => Err(StreamError::OtherOwner {
            key: keys::OWNER.to_owned(),
            owner,
            chain: chain.to_string(),
        }),
        _ => Ok(()),
    }
}
