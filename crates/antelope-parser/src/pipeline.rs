//! Blocks on their way: read, decoded, published, each stage at its own pace and within bounds.
//!
//! Three stages run side by side: a task that reads from the node, one that decodes (on the threads for blocking work), and the
//! caller, which publishes. Between them are short queues whose bytes are counted; the node's window opens only as blocks are
//! published. One pipeline goes on until something breaks; then all of it is thrown away and the next one begins where the
//! stream ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_antelope_abi::Name;
use cairn_antelope_ship::{
    BlockPosition, BlockStream, ReceivedBlock, ShipError, Status, StreamEvent,
};
use cairn_stream::{BlockId, Position};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::compiled::AbiCounts;
use crate::decoder::{DecodedBlock, Decoder, Step};
use crate::events::hex_text;
use crate::fallback::ChainApi;
use crate::parser::ParserError;
use crate::settings::AbiFallback;
use crate::store::AbiStore;
use crate::version::AbiVersion;

/// Received blocks that wait for the decoder.
const RECEIVED_MAX: usize = 16;
/// Decoded blocks that wait for the publisher.
const DECODED_MAX: usize = 256;
/// Bytes of messages, and of events, that may wait. A larger one waits alone.
const WAITING_KIB_MAX: u32 = 64 * 1024;

/// What the reading stage hands on.
pub(crate) enum Incoming {
    Connected(Status),
    Block(Box<Received>),
    Waiting { error: ShipError, pause: Duration },
}

pub(crate) struct Received {
    block: ReceivedBlock,
    _room: OwnedSemaphorePermit,
}

/// What the decoding stage hands on.
pub(crate) enum Outgoing {
    Connected(Status),
    Block(Box<Ready>),
    Waiting { error: ShipError, pause: Duration },
    Failed(ParserError),
}

/// A block that can be published.
pub(crate) struct Ready {
    pub(crate) block: DecodedBlock,
    pub(crate) position: BlockPosition,
    pub(crate) head: BlockPosition,
    pub(crate) last_irreversible: BlockPosition,
    pub(crate) decoding: Duration,
    /// How often ABIs were found compiled so far.
    pub(crate) abis: AbiCounts,
    /// Held until the block is published.
    pub(crate) room: OwnedSemaphorePermit,
}

/// Room for waiting bytes.
struct Room {
    kibibytes: Arc<Semaphore>,
}

impl Room {
    fn new() -> Self {
        Self {
            kibibytes: Arc::new(Semaphore::new(WAITING_KIB_MAX as usize)),
        }
    }

    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes / 1024 + 1)
            .unwrap_or(WAITING_KIB_MAX)
            .min(WAITING_KIB_MAX);
        // Closed never, so that this is always some.
        Arc::clone(&self.kibibytes)
            .acquire_many_owned(wanted)
            .await
            .ok()
    }
}

/// Reads until nobody listens any more.
pub(crate) async fn read(mut stream: BlockStream, out: mpsc::Sender<Incoming>) {
    let room = Room::new();
    loop {
        let incoming = match stream.next().await {
            StreamEvent::Connected(status) => Incoming::Connected(status),
            StreamEvent::Waiting { error, pause } => Incoming::Waiting { error, pause },
            StreamEvent::Block(block) => {
                let Some(permit) = room.take(block.bytes_len()).await else {
                    return;
                };
                Incoming::Block(Box::new(Received {
                    block,
                    _room: permit,
                }))
            }
        };
        if out.send(incoming).await.is_err() {
            return;
        }
    }
}

pub(crate) fn received_channel() -> (mpsc::Sender<Incoming>, mpsc::Receiver<Incoming>) {
    mpsc::channel(RECEIVED_MAX)
}

pub(crate) fn decoded_channel() -> (mpsc::Sender<Outgoing>, mpsc::Receiver<Outgoing>) {
    mpsc::channel(DECODED_MAX)
}

/// The decoding stage.
pub(crate) struct Decoding {
    pub(crate) decoder: Decoder,
    pub(crate) histories: Histories,
    /// The newest block whose ABIs are stored.
    pub(crate) stored: watch::Receiver<u32>,
}

impl Decoding {
    /// Decodes until nothing comes any more, nobody listens, or a block cannot be read.
    pub(crate) async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Incoming>,
        out: mpsc::Sender<Outgoing>,
    ) {
        let room = Room::new();
        while let Some(incoming) = incoming.recv().await {
            let outgoing = match incoming {
                Incoming::Connected(status) => {
                    self.decoder.set_full_state(status.state_begin);
                    if let Some(id) = &status.chain_id {
                        self.histories.chain_id = Some(hex_text(id));
                    }
                    Outgoing::Connected(status)
                }
                Incoming::Waiting { error, pause } => Outgoing::Waiting { error, pause },
                Incoming::Block(received) => match self.block(*received, &room).await {
                    Ok((decoding, outgoing)) => {
                        self = decoding;
                        outgoing
                    }
                    Err(error) => {
                        // Whoever publishes ends the pipeline; when it is gone already, nothing is left to tell.
                        let _ = out.send(Outgoing::Failed(error)).await;
                        return;
                    }
                },
            };
            if out.send(outgoing).await.is_err() {
                return;
            }
        }
    }

    async fn block(
        mut self,
        received: Received,
        room: &Room,
    ) -> Result<(Self, Outgoing), ParserError> {
        let mut received = received;
        let mut decoding = Duration::ZERO;
        loop {
            let stored = *self.stored.borrow();
            let mut decoder = self.decoder;
            // Decoding a large block takes long enough to hold up everything else on a thread for sockets.
            let (decoder, back, step, took) = tokio::task::spawn_blocking(move || {
                let started = Instant::now();
                let step = decoder.decode(&received.block, stored);
                (decoder, received, step, started.elapsed())
            })
            .await
            .map_err(|error| ParserError::Bug(error.to_string()))?;
            self.decoder = decoder;
            received = back;
            decoding += took;
            match step? {
                Step::Needs(contracts) => {
                    let num = received.block.this.num;
                    for contract in contracts {
                        match self.histories.read(contract, num).await? {
                            Some((versions, today)) => self.decoder.know(contract, versions, today),
                            None => self.decoder.know_nothing_in(contract, num),
                        }
                    }
                }
                Step::Done(block) => {
                    let Some(permit) = room.take(block.events.bytes()).await else {
                        return Err(ParserError::Bug(
                            "the counter of waiting bytes is closed".to_owned(),
                        ));
                    };
                    let ready = Ready {
                        position: received.block.this,
                        head: received.block.head,
                        last_irreversible: received.block.last_irreversible,
                        decoding,
                        abis: self.decoder.abi_counts(),
                        block: *block,
                        room: permit,
                    };
                    return Ok((self, Outgoing::Block(Box::new(ready))));
                }
            }
        }
    }
}

/// Where the ABI history of a contract is looked up.
pub(crate) struct Histories {
    pub(crate) store: Arc<AbiStore>,
    pub(crate) fallback: AbiFallback,
    pub(crate) api: Option<ChainApi>,
    pub(crate) chain_id: Option<String>,
}

/// Versions of a contract, and the one to take for a past of which nothing is known.
type History = (Vec<AbiVersion>, Option<AbiVersion>);

impl Histories {
    /// What is known of a contract's ABIs for a block; `None` when it could not be found out for now.
    async fn read(
        &mut self,
        contract: Name,
        block_num: u32,
    ) -> Result<Option<History>, ParserError> {
        let versions = self.store.versions(contract).await?;
        if let Some(oldest) = versions.first() {
            // A history that begins later than this block, as one that the chain API began: its first version is all there is.
            let begins_later = (oldest.block_num >= block_num).then(|| oldest.as_last_resort());
            let today =
                begins_later.filter(|_| matches!(self.fallback, AbiFallback::RpcCurrent { .. }));
            return Ok(Some((versions, today)));
        }
        match (&self.fallback, &mut self.api) {
            (AbiFallback::Hex, _) | (AbiFallback::RpcCurrent { .. }, None) => {
                Ok(Some((versions, None)))
            }
            (AbiFallback::Fail, _) => Err(ParserError::NoAbi {
                contract: contract.to_string(),
            }),
            (AbiFallback::RpcCurrent { .. }, Some(api)) => {
                match api.abi(self.chain_id.as_deref(), contract).await {
                    Ok(Some((_, bytes))) if bytes.is_empty() => Ok(Some((versions, None))),
                    Ok(Some((head, bytes))) => {
                        let today = AbiVersion::new(contract, head, 0, bytes.into());
                        self.store.add_current(&today).await?;
                        Ok(Some((versions, Some(today))))
                    }
                    Ok(None) => Ok(None),
                    Err(error) => {
                        // Its values are published as raw bytes meanwhile, which loses nothing; waiting would hold up the chain.
                        tracing::warn!(contract = %contract, "{error}; its values are published as raw bytes for now");
                        Ok(None)
                    }
                }
            }
        }
    }
}

/// A position in the words of the stream.
pub(crate) fn position(block: BlockPosition) -> Position {
    Position {
        num: block.num,
        id: BlockId(block.id),
    }
}
