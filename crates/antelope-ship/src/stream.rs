//! The blocks of a chain in order, across lost connections, forks and silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cairn_antelope_abi::Checksum256;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Bytes;

use crate::branch::{Admission, BlockPosition, Branch, ForkSeen};
use crate::error::ShipError;
use crate::protocol::{BlockResult, BlocksRequest, Message, Protocol, Status};
use crate::session::{KnownProtocol, Session};
use crate::transport::Source;

/// The bound for one message if nothing else is said: the first block of a history that begins with a snapshot carries the
/// whole state of a chain.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Where a chain is read from when nothing of it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first block that the node has with traces and state changes.
    #[default]
    First,
    /// This block.
    Block(u32),
    /// So many blocks behind the node's head.
    BehindHead(u32),
}

/// How blocks are asked for.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Where to begin when nothing is known.
    pub start: Start,
    /// Only blocks that cannot be undone any more.
    pub irreversible_only: bool,
    /// The chain that the node must be on; `None` accepts any.
    pub chain_id: Option<Checksum256>,
    /// How many blocks may be under way.
    pub window: u32,
    /// After how long without a block, while there is room for one, the connection is given up. `None`: never.
    pub stall: Option<Duration>,
    /// The first pause before connecting again; it doubles each time.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            start: Start::First,
            irreversible_only: false,
            chain_id: None,
            window: 64,
            stall: Some(Duration::from_secs(30)),
            pause_min: Duration::from_millis(250),
            pause_max: Duration::from_secs(30),
        }
    }
}

/// What happens on the way.
#[derive(Debug)]
pub enum StreamEvent {
    /// Connected to a node of the right chain; blocks follow.
    Connected(Status),
    /// The next block.
    Block(ReceivedBlock),
    /// No blocks for now. The next call waits `pause` and then tries again.
    Waiting {
        /// Why.
        error: ShipError,
        /// For how long.
        pause: Duration,
    },
}

/// A block that follows the one before it, or the first block of another branch.
#[derive(Clone, Debug)]
pub struct ReceivedBlock {
    protocol: Arc<Protocol>,
    bytes: Bytes,
    /// This block.
    pub this: BlockPosition,
    /// The block before it.
    pub previous: Option<BlockPosition>,
    /// The node's head at that moment. In the blocks of a new branch it is the head while that branch is applied.
    pub head: BlockPosition,
    /// The node's last irreversible block at that moment.
    pub last_irreversible: BlockPosition,
    /// The fork, when this is the first block of another branch.
    pub fork: Option<ForkSeen>,
}

impl ReceivedBlock {
    /// Reads a message as a block outside a stream.
    ///
    /// # Errors
    /// When the message cannot be read. `Ok(None)` when it is another message or has no block.
    pub fn from_message(
        protocol: &Arc<Protocol>,
        bytes: Vec<u8>,
    ) -> Result<Option<Self>, cairn_antelope_abi::DecodeError> {
        let bytes = Bytes::from(bytes);
        let Message::Block(block) = protocol.read(&bytes)? else {
            return Ok(None);
        };
        let Some(this) = block.this else {
            return Ok(None);
        };
        Ok(Some(Self {
            protocol: Arc::clone(protocol),
            this,
            previous: block.previous,
            head: block.head,
            last_irreversible: block.last_irreversible,
            fork: None,
            bytes: bytes.clone(),
        }))
    }

    /// The protocol to read it with.
    #[must_use]
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The message's size in bytes.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The parts of the block.
    ///
    /// # Errors
    /// None in practice: the message was read once before it became this.
    pub fn result(&self) -> Result<BlockResult<'_>, cairn_antelope_abi::DecodeError> {
        match self.protocol.read(&self.bytes)? {
            Message::Block(block) => Ok(block),
            _ => Err(cairn_antelope_abi::DecodeError::new(
                cairn_antelope_abi::Reason::Type("not a block".to_owned()),
                0,
            )),
        }
    }
}

/// Gives blocks back to the node's window once they are dealt with. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Credits {
    shared: Arc<CreditState>,
}

#[derive(Debug, Default)]
struct CreditState {
    returned: AtomicU32,
    changed: Notify,
}

impl Credits {
    /// `count` blocks have been dealt with.
    pub fn give_back(&self, count: u32) {
        self.shared.returned.fetch_add(count, Ordering::AcqRel);
        self.shared.changed.notify_one();
    }

    fn take(&self) -> u32 {
        self.shared.returned.swap(0, Ordering::AcqRel)
    }
}

/// A block that the stream accepts.
enum Taken {
    Next,
    Fork(ForkSeen),
    /// Sent a second time.
    Known,
}

/// The blocks of a chain in order.
pub struct BlockStream {
    source: Box<dyn Source>,
    settings: StreamSettings,
    branch: Branch,
    credits: Credits,
    known: KnownProtocol,
    session: Option<Session>,
    /// Results sent and not yet given back, in the running session.
    in_flight: u32,
    pause: Option<Duration>,
    failures: u32,
    /// The number of the first block when nothing is known.
    first: Option<u32>,
}

impl BlockStream {
    /// A stream that goes on behind `branch`. Nothing happens until [`next`](Self::next).
    #[must_use]
    pub fn new(source: Box<dyn Source>, settings: StreamSettings, branch: Branch) -> Self {
        Self {
            source,
            settings,
            branch,
            credits: Credits::default(),
            known: None,
            session: None,
            in_flight: 0,
            pause: None,
            failures: 0,
            first: None,
        }
    }

    /// The handle with which whoever deals with the blocks says so. Without it the stream stops after one window.
    #[must_use]
    pub fn credits(&self) -> Credits {
        self.credits.clone()
    }

    /// What happens next. Dropping the future before it is done loses nothing.
    pub async fn next(&mut self) -> StreamEvent {
        if let Some(pause) = self.pause {
            tokio::time::sleep(pause).await;
            self.pause = None;
        }
        if self.session.is_none() {
            match self.connect().await {
                Ok(status) => return StreamEvent::Connected(status),
                Err(error) => return self.wait(error),
            }
        }
        match self.block().await {
            Ok(block) => {
                self.failures = 0;
                StreamEvent::Block(block)
            }
            Err(error) => self.wait(error),
        }
    }

    fn wait(&mut self, error: ShipError) -> StreamEvent {
        self.session = None;
        let settings = &self.settings;
        let pause = if error.is_transient() {
            let doubled = settings
                .pause_min
                .saturating_mul(1u32.checked_shl(self.failures.min(16)).unwrap_or(u32::MAX));
            doubled.min(settings.pause_max)
        } else {
            settings.pause_max
        };
        self.failures = self.failures.saturating_add(1);
        self.pause = Some(pause);
        StreamEvent::Waiting { error, pause }
    }

    async fn connect(&mut self) -> Result<Status, ShipError> {
        let mut session = Session::open(self.source.as_mut(), &mut self.known).await?;
        let endpoint = self.source.endpoint();
        let status = session.status;
        if let (Some(expected), Some(found)) = (self.settings.chain_id, status.chain_id)
            && expected != found
        {
            return Err(ShipError::ChainId {
                endpoint,
                expected: hex(&expected),
                found: hex(&found),
            });
        }
        let wanted = self.wanted(&status);
        self.check_range(&status, wanted, endpoint)?;
        // Nothing is left over from an earlier session: its window died with it.
        self.credits.take();
        self.in_flight = 0;
        let request = BlocksRequest {
            start: wanted,
            end: u32::MAX,
            window: self.settings.window.max(1),
            have: self.branch.blocks().collect(),
            irreversible_only: self.settings.irreversible_only,
        };
        session.ask_blocks(&request).await?;
        self.session = Some(session);
        Ok(status)
    }

    /// The number of the next block.
    fn wanted(&mut self, status: &Status) -> u32 {
        if let Some(last) = self.branch.last() {
            return last.num.saturating_add(1);
        }
        let first = first_block(status);
        *self.first.get_or_insert(match self.settings.start {
            Start::First | Start::Block(0) => first,
            Start::Block(num) => num,
            Start::BehindHead(blocks) => status.head.num.saturating_sub(blocks).max(first),
        })
    }

    fn check_range(&self, status: &Status, wanted: u32, endpoint: String) -> Result<(), ShipError> {
        // A node sends the next block it applies when asked for one that it does not have yet, so it is not asked.
        if wanted > status.head.num.saturating_add(1) {
            return Err(ShipError::Behind {
                endpoint,
                head: status.head.num,
                wanted,
            });
        }
        let range = |begin: u32, end: u32| {
            if begin < end {
                format!("of blocks {begin} to {}", end - 1)
            } else {
                "of no block (is it switched on?)".to_owned()
            }
        };
        let has = |begin: u32, end: u32, first: u32| begin < end && begin <= first;
        // Block 1 has no traces, so their history begins with 2.
        let traces = has(status.trace_begin, status.trace_end, wanted.max(2));
        let states = has(status.state_begin, status.state_end, wanted);
        if traces && states {
            return Ok(());
        }
        Err(ShipError::History {
            endpoint,
            wanted,
            traces: range(status.trace_begin, status.trace_end),
            states: range(status.state_begin, status.state_end),
        })
    }

    async fn block(&mut self) -> Result<ReceivedBlock, ShipError> {
        loop {
            let bytes = self.receive().await?;
            let Some(session) = &self.session else {
                return Err(self.closed("there is no connection"));
            };
            let what = match self.branch.last() {
                Some(last) => format!("the block after {}", last.num),
                None => "the first block".to_owned(),
            };
            let protocol = Arc::clone(&session.protocol);
            let Message::Block(block) = session.read(&bytes, &what)? else {
                continue;
            };
            self.in_flight = self.in_flight.saturating_add(1);
            let Some(this) = block.this else {
                // A result without a block takes room in the window all the same.
                self.credits.give_back(1);
                continue;
            };
            let (previous, head, last_irreversible) =
                (block.previous, block.head, block.last_irreversible);
            let fork = match self.admit(this, previous)? {
                Taken::Next => None,
                Taken::Fork(fork) => Some(fork),
                Taken::Known => {
                    self.credits.give_back(1);
                    continue;
                }
            };
            self.branch.push(this, last_irreversible.num);
            return Ok(ReceivedBlock {
                protocol,
                bytes,
                this,
                previous,
                head,
                last_irreversible,
                fork,
            });
        }
    }

    fn admit(
        &self,
        this: BlockPosition,
        previous: Option<BlockPosition>,
    ) -> Result<Taken, ShipError> {
        let endpoint = self.source.endpoint();
        let last = self.branch.last();
        if let (None, Some(wanted)) = (last, self.first)
            && this.num != wanted
        {
            return Err(ShipError::Gap {
                endpoint,
                wanted,
                got: this.num,
            });
        }
        match self.branch.judge(this, previous) {
            Admission::Follows => Ok(Taken::Next),
            Admission::Fork(_) if self.settings.irreversible_only => {
                Err(ShipError::IrreversibleDiffers {
                    endpoint,
                    num: this.num,
                })
            }
            Admission::Fork(fork) => Ok(Taken::Fork(fork)),
            Admission::Known => Ok(Taken::Known),
            Admission::Irreversible => Err(ShipError::IrreversibleDiffers {
                endpoint,
                num: this.num,
            }),
            Admission::Gap => Err(ShipError::Gap {
                endpoint,
                wanted: last.map_or(0, |last| last.num.saturating_add(1)),
                got: this.num,
            }),
            Admission::Elsewhere => Err(ShipError::LostBranch {
                endpoint,
                last: last.unwrap_or_default(),
                got: this,
            }),
        }
    }

    /// The next message; meanwhile, blocks that were dealt with are given back to the node.
    async fn receive(&mut self) -> Result<Bytes, ShipError> {
        let silence_ends =
            |stall: Option<Duration>| stall.map(|stall| tokio::time::Instant::now() + stall);
        let mut deadline = silence_ends(self.settings.stall);
        let window = self.settings.window.max(1);
        loop {
            let returned = self.credits.take();
            let Some(session) = &mut self.session else {
                return Err(self.closed("there is no connection"));
            };
            if returned > 0 {
                session.acknowledge(returned).await?;
                self.in_flight = self.in_flight.saturating_sub(returned);
                // The node may have had no room until now.
                deadline = silence_ends(self.settings.stall);
            }
            // Silence means something only while the node has room to send.
            let stalled = async {
                match deadline {
                    Some(deadline) if self.in_flight < window => {
                        tokio::time::sleep_until(deadline).await
                    }
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                message = session.receive() => return message,
                () = self.credits.shared.changed.notified() => {}
                () = stalled => {
                    return Err(ShipError::Stalled {
                        endpoint: self.source.endpoint(),
                        silence: self.settings.stall.unwrap_or_default(),
                    });
                }
            }
        }
    }

    fn closed(&self, cause: &str) -> ShipError {
        ShipError::Closed {
            endpoint: self.source.endpoint(),
            cause: cause.to_owned(),
        }
    }
}

impl std::fmt::Debug for BlockStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockStream")
            .field("endpoint", &self.source.endpoint())
            .field("last", &self.branch.last())
            .finish_non_exhaustive()
    }
}

/// The first block with traces and state changes. A history of traces that begins with block 2 is whole: block 1 has none.
fn first_block(status: &Status) -> u32 {
    let traces = if status.trace_begin <= 2 {
        1
    } else {
        status.trace_begin
    };
    traces.max(status.state_begin).max(1)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
