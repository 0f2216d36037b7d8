//! A peer that says what a test tells it to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use cairn_antelope_ship::{Frame, ShipError, Source, Transport};
use cairn_testkit::antelope::{Packer, SHIP_ABI};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

/// What happens on one connection, in order. After the last message the connection stays silent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) frames: VecDeque<Frame>,
    /// Ends the connection after the last message instead.
    pub(crate) closes: bool,
}

/// A source that goes through scripts, one a connection; the last one is used for all further connections.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    scripts: Vec<Script>,
    connections: usize,
    /// What was sent, connection by connection.
    pub(crate) sent: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
}

impl Scripted {
    pub(crate) fn new(scripts: Vec<Script>) -> Self {
        Self {
            scripts,
            connections: 0,
            sent: Arc::default(),
        }
    }
}

pub(crate) const CHAIN_ID: [u8; 32] = [0xcc; 32];

/// The greeting of a node that has blocks 1 to `head`, and then these messages.
pub(crate) fn greeting(head: u32, messages: impl IntoIterator<Item = Vec<u8>>) -> Script {
    let mut id = [1; 32];
    id[..4].copy_from_slice(&head.to_be_bytes());
    let status = Packer::new()
        .u8(0)
        .u32(head)
        .raw(&id)
        .u32(1)
        .raw(&[0; 32])
        .u32(2)
        .u32(head + 1)
        .u32(1)
        .u32(head + 1)
        .raw(&CHAIN_ID)
        .done();
    let mut frames = VecDeque::from([
        Frame::Text(SHIP_ABI.to_owned()),
        Frame::Binary(status.into()),
    ]);
    frames.extend(
        messages
            .into_iter()
            .map(|bytes| Frame::Binary(bytes.into())),
    );
    Script {
        frames,
        closes: false,
    }
}

impl Source for Scripted {
    fn endpoint(&self) -> String {
        "the script".to_owned()
    }

    fn connect(&mut self) -> BoxFuture<'_, Result<Box<dyn Transport>, ShipError>> {
        let script = self.scripts[self.connections.min(self.scripts.len() - 1)].clone();
        self.connections += 1;
        let sent = Arc::clone(&self.sent);
        sent.lock()
            .expect("no test panics while it holds this")
            .push(Vec::new());
        async move { Ok(Box::new(Connection { script, sent }) as Box<dyn Transport>) }.boxed()
    }
}

struct Connection {
    script: Script,
    sent: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
}

impl Transport for Connection {
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, ShipError>> {
        async move {
            match self.script.frames.pop_front() {
                Some(frame) => Ok(frame),
                None if self.script.closes => Err(ShipError::Closed {
                    endpoint: "the script".to_owned(),
                    cause: "it ends".to_owned(),
                }),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn send(&mut self, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), ShipError>> {
        let mut sent = self
            .sent
            .lock()
            .expect("no test panics while it holds this");
        sent.last_mut().expect("a connection").push(bytes);
        async { Ok(()) }.boxed()
    }
}
