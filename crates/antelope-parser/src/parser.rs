//! The parser: from a node to the stream, for as long as it is wanted.

use std::sync::Arc;
use std::time::Duration;

use cairn_antelope_ship::{
    BlockPosition, BlockStream, Branch, Credits, ShipError, Status, StreamSettings,
};
use cairn_redis::Redis;
use cairn_stream::{BlockEvents, Publisher, PublisherOptions, Resume, StreamError, claim_database};
use tokio::sync::{mpsc, watch};

use crate::decoder::{BlockError, Decoder};
use crate::events::hex_text;
use crate::fallback::ChainApi;
use crate::observer::{BlockReport, Observer};
use crate::pipeline::{
    Decoding, Histories, Outgoing, Ready, decoded_channel, position, read, received_channel,
};
use crate::settings::{AbiFallback, ParserSettings};
use crate::status::{ParserState, StatusHandle};
use crate::store::{AbiStore, AbiStoreError};

/// The first pause after something broke; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Blocks that are published in one call at most.
const BATCH_BLOCKS: usize = 256;
/// So close to the head, the chain counts as followed.
const FOLLOWING_BLOCKS: u32 = 8;

/// Why a chain does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ParserError {
    /// The stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The ABI history.
    #[error(transparent)]
    Abis(#[from] AbiStoreError),
    /// The node.
    #[error(transparent)]
    Ship(#[from] ShipError),
    /// A block that cannot be read.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A contract without a known ABI, where that is to be an error.
    #[error(
        "the ABI history has nothing of contract {contract}, and abi_fallback is \"fail\": begin at a block from which the node has the \
         whole state, or set abi_fallback to \"rpc-current\""
    )]
    NoAbi {
        /// The contract.
        contract: String,
    },
    /// Something that cannot happen.
    #[error("a defect in Cairn, please report it: {0}")]
    Bug(String),
}

impl ParserError {
    /// Whether going on by itself can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Stream(StreamError::Moved { .. }) => true,
            Self::Stream(error) => error.is_transient(),
            Self::Abis(error) => error.is_transient(),
            Self::Ship(error) => error.is_transient(),
            Self::Block(_) | Self::NoAbi { .. } | Self::Bug(_) => false,
        }
    }
}

/// Follows one chain.
pub struct Parser {
    settings: ParserSettings,
    redis: Redis,
    observer: Arc<dyn Observer>,
    status: StatusHandle,
}

impl Parser {
    /// A parser. Nothing happens until [`run`](Self::run).
    #[must_use]
    pub fn new(settings: ParserSettings, redis: Redis, observer: Arc<dyn Observer>) -> Self {
        let status = StatusHandle::default();
        status.change(|status| status.endpoint = settings.source.endpoint());
        Self {
            settings,
            redis,
            observer,
            status,
        }
    }

    /// Where the status can be read, also while the parser runs.
    #[must_use]
    pub fn status(&self) -> StatusHandle {
        self.status.clone()
    }

    /// Follows the chain until `stop` is done. Whatever breaks meanwhile is tried again: the state says what it is.
    ///
    /// # Errors
    /// Only when another writer has taken over this chain's stream: going on would fight with it.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ParserError> {
        let mut stop = std::pin::pin!(stop);
        let mut pause = PAUSE;
        loop {
            let before = self.status.read().blocks;
            let error = tokio::select! {
                () = &mut stop => {
                    self.status.change(|status| status.state = ParserState::Stopped);
                    return Ok(());
                }
                Err(error) = self.follow() => error,
            };
            let reason = error.to_string();
            if let ParserError::Stream(StreamError::Fenced { .. }) = &error {
                self.status
                    .change(|status| status.state = ParserState::Failed { reason });
                return Err(error);
            }
            if self.status.read().blocks > before {
                pause = PAUSE;
            }
            if error.is_transient() {
                tracing::warn!(chain = %self.settings.chain, "{reason}");
                self.status
                    .change(|status| status.state = ParserState::Waiting { reason });
            } else {
                tracing::error!(chain = %self.settings.chain, "{reason}");
                self.observer.failed(&reason);
                self.status
                    .change(|status| status.state = ParserState::Failed { reason });
            }
            tokio::select! {
                () = &mut stop => {
                    self.status.change(|status| status.state = ParserState::Stopped);
                    return Ok(());
                }
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One pipeline, until something breaks. Its stages end with it.
    async fn follow(&self) -> Result<(), ParserError> {
        claim_database(&self.redis, &self.settings.chain).await?;
        let options = PublisherOptions {
            max_len: self.settings.max_len,
        };
        let (publisher, resume) =
            Publisher::open(self.redis.clone(), &self.settings.chain, options).await?;
        let store = AbiStore::open(self.redis.clone(), &self.settings.chain, &resume).await?;
        // The decoder reads the history while the publisher writes it; each has a handle of its own on the same keys.
        let reading = AbiStore::open(self.redis.clone(), &self.settings.chain, &resume).await?;
        self.status.change(|status| {
            status.last = resume.position;
            status.last_irreversible = status.last_irreversible.or(resume.lib);
            if matches!(
                status.state,
                ParserState::Failed { .. } | ParserState::Waiting { .. }
            ) {
                return;
            }
            status.state = ParserState::CatchingUp;
        });

        let branch = Branch::from_blocks(known_blocks(&resume));
        let stream = BlockStream::new(
            self.settings.source.open(self.settings.frame_bytes_max)?,
            StreamSettings {
                start: self.settings.start,
                irreversible_only: self.settings.irreversible_only,
                chain_id: self.settings.expect_chain_id,
                window: self.settings.window,
                stall: self.settings.stall,
                ..StreamSettings::default()
            },
            branch.clone(),
        );
        let credits = stream.credits();
        let (stored_out, stored) = watch::channel(resume.position.map_or(0, |block| block.num));
        let decoding = Decoding {
            decoder: Decoder::new(
                &self.settings.chain,
                self.settings.profile,
                self.settings.irreversible_only,
            ),
            histories: Histories {
                store: Arc::new(reading),
                api: match &self.settings.abi_fallback {
                    AbiFallback::RpcCurrent { chain_url } => Some(ChainApi::new(chain_url)),
                    AbiFallback::Fail | AbiFallback::Hex => None,
                },
                fallback: self.settings.abi_fallback.clone(),
                chain_id: resume.chain_hash.clone(),
            },
            stored,
        };
        let (incoming_out, incoming) = received_channel();
        let (outgoing_out, outgoing) = decoded_channel();
        let mut stages = tokio::task::JoinSet::new();
        stages.spawn(read(stream, incoming_out));
        stages.spawn(decoding.run(incoming, outgoing_out));
        // Dropping the set at the end of this function ends both.
        Publishing {
            parser: self,
            publisher,
            store,
            branch,
            credits,
            stored: stored_out,
        }
        .run(outgoing)
        .await
    }
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parser")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The published blocks from the last irreversible one on.
fn known_blocks(resume: &Resume) -> Vec<BlockPosition> {
    let mut known: Vec<BlockPosition> = resume
        .reversible
        .iter()
        .chain(&resume.position)
        .map(|block| BlockPosition {
            num: block.num,
            id: block.id.0,
        })
        .collect();
    known.dedup();
    known
}

/// The publishing stage.
struct Publishing<'a> {
    parser: &'a Parser,
    publisher: Publisher,
    store: AbiStore,
    /// The published end of the chain.
    branch: Branch,
    credits: Credits,
    stored: watch::Sender<u32>,
}

impl Publishing<'_> {
    async fn run(mut self, mut outgoing: mpsc::Receiver<Outgoing>) -> Result<(), ParserError> {
        let mut batch: Vec<Ready> = Vec::new();
        loop {
            let Some(first) = outgoing.recv().await else {
                return Err(ParserError::Bug(
                    "the decoding stage has ended without a word".to_owned(),
                ));
            };
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Outgoing::Block(ready) => {
                        batch.push(*ready);
                        if batch.len() < BATCH_BLOCKS {
                            next = outgoing.try_recv().ok();
                        }
                    }
                    other => {
                        self.publish(&mut batch).await?;
                        self.hear(other).await?;
                    }
                }
            }
            self.publish(&mut batch).await?;
        }
    }

    async fn hear(&mut self, message: Outgoing) -> Result<(), ParserError> {
        match message {
            Outgoing::Connected(status) => self.connected(&status).await,
            Outgoing::Waiting { error, pause } => {
                let reason = error.to_string();
                let is_transient = error.is_transient();
                if is_transient {
                    tracing::warn!(pause_ms = pause.as_millis(), "{reason}");
                } else {
                    tracing::error!(pause_ms = pause.as_millis(), "{reason}");
                }
                self.parser.observer.disconnected(&reason);
                self.parser.status.change(|status| {
                    status.disconnects += 1;
                    status.state = if is_transient {
                        ParserState::Waiting { reason }
                    } else {
                        ParserState::Failed { reason }
                    };
                });
                Ok(())
            }
            Outgoing::Failed(error) => Err(error),
            // Only blocks are collected before this is called.
            Outgoing::Block(_) => Err(ParserError::Bug("a block outside a batch".to_owned())),
        }
    }

    async fn connected(&mut self, node: &Status) -> Result<(), ParserError> {
        let chain_id = node.chain_id.map(|id| hex_text(&id));
        if let Some(chain_id) = &chain_id {
            // Before the first block is published: another chain's node never gets so far.
            self.publisher.pin_network(chain_id).await?;
        }
        self.parser.status.change(|status| {
            status.chain_id = chain_id.or(status.chain_id.take());
            status.head = Some(position(node.head));
            status.last_irreversible = Some(position(node.last_irreversible));
            status.state = ParserState::CatchingUp;
        });
        Ok(())
    }

    /// ABIs, then the blocks, then what follows from them. The batch is empty afterwards.
    async fn publish(&mut self, batch: &mut Vec<Ready>) -> Result<(), ParserError> {
        // What a new branch undoes is taken out before more of that branch is added.
        while !batch.is_empty() {
            let until_fork = batch[1..]
                .iter()
                .position(|ready| ready.block.forked_from.is_some());
            let rest = batch.split_off(until_fork.map_or(batch.len(), |at| at + 1));
            self.publish_straight(batch).await?;
            *batch = rest;
        }
        Ok(())
    }

    /// Blocks of which only the first one may be a fork.
    async fn publish_straight(&mut self, batch: &mut Vec<Ready>) -> Result<(), ParserError> {
        let mut reports = Vec::with_capacity(batch.len());
        let mut events: Vec<BlockEvents> = Vec::with_capacity(batch.len());
        let Some(last) = batch.last() else {
            return Ok(());
        };
        let (head, lib, abis) = (last.head, last.last_irreversible, last.abis);
        let forked_from = batch.first().and_then(|ready| ready.block.forked_from);
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let mut positions = Vec::with_capacity(batch.len());
        let mut rooms = Vec::with_capacity(batch.len());
        let mut abis_set = Vec::new();
        for ready in batch.drain(..) {
            abis_set.extend(ready.block.abis);
            positions.push((ready.position, ready.last_irreversible.num));
            reports.push(BlockReport {
                position: ready.block.events.position(),
                time: ready.block.events.time(),
                kinds: ready.block.events.kinds().collect(),
                event_bytes: ready.block.events.bytes() as u64,
                frame_bytes: ready.block.frame_bytes as u64,
                undecoded: ready.block.undecoded,
                undone_blocks: ready.block.undone_blocks,
                decoding: ready.decoding,
            });
            events.push(ready.block.events);
            rooms.push(ready.room);
        }
        // Before the blocks: what is written too early is known to be, and taken out again if they never come.
        self.store.add(&abis_set).await?;
        let parser = self.parser;
        let told = |error: Option<&StreamError>| {
            parser.observer.blocked(error);
            if let Some(error) = error {
                let reason = error.to_string();
                tracing::warn!(chain = %parser.settings.chain, "{reason}");
                parser
                    .status
                    .change(|status| status.state = ParserState::Waiting { reason });
            }
        };
        self.publisher.publish_patiently(&events, told).await?;
        drop(rooms);
        for (block, lib) in positions {
            self.branch.push(block, lib);
        }
        if let Some(common) = forked_from {
            let branch = &self.branch;
            self.store
                .undo(common, |num, id| {
                    branch.at(num).is_some_and(|block| block.id == *id)
                })
                .await?;
        }
        self.store.settle(lib.num).await?;
        self.credits.give_back(count);
        let newest = self.branch.last().unwrap_or_default();
        // Nobody listens only when the decoding stage is gone, which the next message tells.
        let _ = self.stored.send(newest.num);
        self.report(&reports, head, lib);
        self.parser.status.change(|status| status.abis = abis);
        Ok(())
    }

    fn report(&self, reports: &[BlockReport], head: BlockPosition, lib: BlockPosition) {
        for report in reports {
            self.parser.observer.published(report);
        }
        let newest = self.branch.last().unwrap_or_default();
        self.parser.status.change(|status| {
            for report in reports {
                status.blocks += 1;
                status.events += report.kinds.iter().map(|(_, count)| count).sum::<u64>();
                status.undecoded += report.undecoded.len() as u64;
                status.forks += u64::from(report.undone_blocks > 0);
                status.last = Some(report.position);
                status.last_time = Some(report.time);
            }
            status.head = Some(position(head));
            status.last_irreversible = Some(position(lib));
            let goal = if self.parser.settings.irreversible_only {
                lib.num
            } else {
                head.num
            };
            status.state = if goal.saturating_sub(newest.num) > FOLLOWING_BLOCKS {
                ParserState::CatchingUp
            } else {
                ParserState::Following
            };
        });
    }
}
