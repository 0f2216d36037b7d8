//! A recorded session that behaves like the node it was recorded from.
//!
//! A record file is gzip over: kind (0 text from the node, 1 binary from the node, 2 to the node), length u32
//! little-endian, payload. What the node sent happens again in the same order, forks included, as fast as it is taken or at
//! a steady pace. A client that connects again gets what a node would send: its best chain as of then from the block asked
//! for, earlier when the client says that it has other blocks, and after that what has not happened yet.

use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cairn_antelope_abi::{DecodeError, Reader};
use flate2::read::GzDecoder;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Bytes;

use crate::branch::BlockPosition;
use crate::error::ShipError;
use crate::layout::ProtocolError;
use crate::protocol::{Message, Protocol};
use crate::transport::{Frame, Source, Transport};

/// The largest recording that is read, unpacked.
const RECORDING_BYTES_MAX: u64 = 512 * 1024 * 1024;
const ENDPOINT: &str = "the recorded session";

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is not gzip, or cut short.
    #[error("the recording cannot be unpacked: {0}")]
    Unpack(#[from] std::io::Error),
    /// A record of no known kind, or one that is cut short.
    #[error("the recording is damaged: {0}")]
    Record(&'static str),
    /// Its ABI is not one of the protocol.
    #[error("the recording: {0}")]
    Protocol(#[from] ProtocolError),
    /// A message that does not fit the protocol.
    #[error("the recording: {0}")]
    Message(#[from] DecodeError),
}

struct Recorded {
    this: BlockPosition,
    bytes: Bytes,
}

struct Shared {
    abi: String,
    status: Bytes,
    results: Vec<Recorded>,
    progress: Mutex<Progress>,
    changed: Notify,
}

struct Progress {
    /// How many results have happened.
    happened: usize,
    /// Not to go beyond, until told.
    hold_at: usize,
    /// How many more messages the open connection carries before it breaks.
    break_after: Option<usize>,
    connections: usize,
}

/// A recorded session as a source of blocks.
#[derive(Clone)]
pub struct ReplaySource {
    shared: Arc<Shared>,
    pace: Option<Duration>,
}

/// Steers a [`ReplaySource`] from outside.
#[derive(Clone)]
pub struct ReplayControl {
    shared: Arc<Shared>,
}

impl ReplaySource {
    /// Reads a recording.
    ///
    /// # Errors
    /// When it is damaged or not of a State History session.
    pub fn from_gzip(bytes: &[u8]) -> Result<Self, ReplayError> {
        let mut plain = Vec::new();
        GzDecoder::new(bytes)
            .take(RECORDING_BYTES_MAX)
            .read_to_end(&mut plain)?;
        let mut abi = None;
        let mut messages = Vec::new();
        let mut rest = plain.as_slice();
        while let Some((&kind, after)) = rest.split_first() {
            let (length, after) = after
                .split_first_chunk::<4>()
                .ok_or(ReplayError::Record("no length"))?;
            let (payload, after) = after
                .split_at_checked(u32::from_le_bytes(*length) as usize)
                .ok_or(ReplayError::Record("a message is cut short"))?;
            match kind {
                0 => abi = Some(String::from_utf8_lossy(payload).into_owned()),
                1 => messages.push(Bytes::copy_from_slice(payload)),
                2 => {}
                _ => return Err(ReplayError::Record("a record of no known kind")),
            }
            rest = after;
        }
        let abi = abi.ok_or(ReplayError::Record("no ABI"))?;
        let protocol = Protocol::from_abi_json(&abi)?;
        let mut status = None;
        let mut results = Vec::new();
        for bytes in messages {
            match protocol.read(&bytes)? {
                Message::Status(_) => status = Some(bytes),
                Message::Block(block) => {
                    if let Some(this) = block.this {
                        results.push(Recorded { this, bytes });
                    }
                }
                Message::Other => {}
            }
        }
        let hold_at = results.len();
        Ok(Self {
            shared: Arc::new(Shared {
                abi,
                status: status.ok_or(ReplayError::Record("no status"))?,
                results,
                progress: Mutex::new(Progress {
                    happened: 0,
                    hold_at,
                    break_after: None,
                    connections: 0,
                }),
                changed: Notify::new(),
            }),
            pace: None,
        })
    }

    /// Lets blocks happen no faster than one in `pace`.
    #[must_use]
    pub fn with_pace(self, pace: Duration) -> Self {
        Self {
            pace: Some(pace),
            ..self
        }
    }

    /// How many block results the recording has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.results.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.results.is_empty()
    }

    /// A handle to steer it with.
    #[must_use]
    pub fn control(&self) -> ReplayControl {
        ReplayControl {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl ReplayControl {
    /// Lets the first `count` results happen and no more, until called again.
    pub fn hold_at(&self, count: usize) {
        self.shared.lock().hold_at = count;
        self.shared.changed.notify_waiters();
    }

    /// Makes the first `count` results have happened before anybody connects.
    pub fn happened(&self, count: usize) {
        let mut progress = self.shared.lock();
        progress.happened = count.min(self.shared.results.len());
    }

    /// Breaks the connection that is open, or the next one, after `count` more messages.
    pub fn break_after(&self, count: usize) {
        self.shared.lock().break_after = Some(count);
    }

    /// How often somebody has connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Nothing here panics while it holds the lock; were it so, the numbers would still be whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection breaks instead of carrying one more message.
    fn breaks(&self) -> bool {
        let mut progress = self.lock();
        match progress.break_after {
            Some(0) => {
                progress.break_after = None;
                true
            }
            Some(left) => {
                progress.break_after = Some(left - 1);
                false
            }
            None => false,
        }
    }

    /// A client that knows blocks which have not happened yet has seen this session before: what it knows has happened then.
    /// Answers how many results have happened.
    fn catch_up(&self, start: u32, last_known: Option<BlockPosition>) -> usize {
        let mut progress = self.lock();
        let ahead = self.results.get(progress.happened..).unwrap_or_default();
        let seen = match last_known {
            Some(known) => ahead.iter().position(|result| result.this == known),
            None => ahead
                .iter()
                .position(|result| result.this.num.saturating_add(1) == start),
        };
        progress.happened += seen.map_or(0, |at| at + 1);
        progress.happened
    }

    /// The indices of the best chain after the first `happened` results, oldest first.
    fn best_chain(&self, happened: usize) -> Vec<usize> {
        let mut chain: Vec<usize> = Vec::new();
        for index in 0..happened {
            let num = self.results[index].this.num;
            while chain
                .last()
                .is_some_and(|last| self.results[*last].this.num >= num)
            {
                chain.pop();
            }
            chain.push(index);
        }
        chain
    }
}

impl Source for ReplaySource {
    fn endpoint(&self) -> String {
        ENDPOINT.to_owned()
    }

    fn connect(&mut self) -> BoxFuture<'_, Result<Box<dyn Transport>, ShipError>> {
        self.shared.lock().connections += 1;
        let transport = ReplayTransport {
            shared: Arc::clone(&self.shared),
            pace: self.pace,
            queue: std::collections::VecDeque::from([Outgoing::Abi]),
            live: None,
            credits: 0,
        };
        async move { Ok(Box::new(transport) as Box<dyn Transport>) }.boxed()
    }
}

enum Outgoing {
    Abi,
    Status,
    Block(usize),
}

struct ReplayTransport {
    shared: Arc<Shared>,
    pace: Option<Duration>,
    queue: std::collections::VecDeque<Outgoing>,
    /// Once blocks are asked for: the next result that this connection takes part in as it happens.
    live: Option<usize>,
    credits: u64,
}

impl ReplayTransport {
    fn closed(cause: &str) -> ShipError {
        ShipError::Closed {
            endpoint: ENDPOINT.to_owned(),
            cause: cause.to_owned(),
        }
    }

    fn request(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            0 => self.queue.push_front(Outgoing::Status),
            1 => {
                let mut start = reader.u32()?;
                let _end = reader.u32()?;
                self.credits = u64::from(reader.u32()?);
                let count = reader.count(36)?;
                let have = (0..count)
                    .map(|_| {
                        Ok(BlockPosition {
                            num: reader.u32()?,
                            id: reader.checksum256()?,
                        })
                    })
                    .collect::<Result<Vec<_>, DecodeError>>()?;
                let happened = self.shared.catch_up(start, have.last().copied());
                let chain = self.shared.best_chain(happened);
                for position in have {
                    let same = chain
                        .iter()
                        .any(|&index| self.shared.results[index].this == position);
                    if position.num < start && !same {
                        start = position.num;
                    }
                }
                self.queue
                    .retain(|outgoing| !matches!(outgoing, Outgoing::Block(_)));
                self.queue.extend(
                    chain
                        .into_iter()
                        .filter(|&index| self.shared.results[index].this.num >= start)
                        .map(Outgoing::Block),
                );
                self.live = Some(happened);
            }
            _ => self.credits += u64::from(reader.u32()?),
        }
        Ok(())
    }

    /// The next message that may go out now, if there is one.
    fn take(&mut self) -> Option<Outgoing> {
        match self.queue.front() {
            Some(Outgoing::Block(_)) if self.credits == 0 => return None,
            Some(Outgoing::Block(_)) => {
                self.credits -= 1;
                return self.queue.pop_front();
            }
            Some(_) => return self.queue.pop_front(),
            None => {}
        }
        let next = self.live?;
        if self.credits == 0 {
            return None;
        }
        let mut progress = self.shared.lock();
        if next >= self.shared.results.len() || next >= progress.hold_at {
            return None;
        }
        progress.happened = progress.happened.max(next + 1);
        drop(progress);
        self.live = Some(next + 1);
        // Whatever its number: a node that changes branches sends lower numbers again.
        self.credits -= 1;
        Some(Outgoing::Block(next))
    }
}

impl Transport for ReplayTransport {
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, ShipError>> {
        async move {
            if self.live.is_some()
                && let Some(pace) = self.pace
            {
                tokio::time::sleep(pace).await;
            }
            let shared = Arc::clone(&self.shared);
            loop {
                // Registered before looking, so that no change falls between looking and waiting.
                let mut changed = std::pin::pin!(shared.changed.notified());
                changed.as_mut().enable();
                if let Some(outgoing) = self.take() {
                    if shared.breaks() {
                        return Err(Self::closed("cut on purpose"));
                    }
                    return Ok(match outgoing {
                        Outgoing::Abi => Frame::Text(shared.abi.clone()),
                        Outgoing::Status => Frame::Binary(shared.status.clone()),
                        Outgoing::Block(index) => {
                            Frame::Binary(shared.results[index].bytes.clone())
                        }
                    });
                }
                changed.await;
            }
        }
        .boxed()
    }

    fn send(&mut self, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), ShipError>> {
        let answer = self
            .request(&bytes)
            .map_err(|e| Self::closed(&format!("a request that cannot be read: {e}")));
        async move { answer }.boxed()
    }
}
