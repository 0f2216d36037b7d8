//! One connection: the ABI, the node's status, and blocks within the window.

use std::sync::Arc;
use std::time::Duration;

use tokio_tungstenite::tungstenite::Bytes;

use crate::error::ShipError;
use crate::protocol::{BlocksRequest, Message, Protocol, Status};
use crate::transport::{Frame, Source, Transport};

/// How long the first messages may take.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Session {
    endpoint: String,
    transport: Box<dyn Transport>,
    pub(crate) protocol: Arc<Protocol>,
    pub(crate) status: Status,
}

/// A protocol and the text that it was made from: most nodes send the same text at every connection.
pub(crate) type KnownProtocol = Option<(String, Arc<Protocol>)>;

impl Session {
    /// Connects, reads the ABI and asks for the status.
    pub(crate) async fn open(
        source: &mut dyn Source,
        known: &mut KnownProtocol,
    ) -> Result<Self, ShipError> {
        let endpoint = source.endpoint();
        let mut transport = source.connect().await?;
        let greeting = greeted(&endpoint, transport.receive()).await?;
        let Frame::Text(text) = greeting else {
            return Err(ShipError::Closed {
                endpoint,
                cause: "its first message is not the ABI of the State History protocol".to_owned(),
            });
        };
        let protocol = match known {
            Some((before, protocol)) if *before == text => Arc::clone(protocol),
            _ => {
                let made = Protocol::from_abi_json(&text).map_err(|cause| ShipError::Protocol {
                    endpoint: endpoint.clone(),
                    cause,
                })?;
                let made = Arc::new(made);
                *known = Some((text, Arc::clone(&made)));
                made
            }
        };
        let mut session = Self {
            endpoint,
            transport,
            protocol,
            status: Status::default(),
        };
        session.ask_status().await?;
        Ok(session)
    }

    /// Asks for the status. Only before blocks are asked for: those that come before the answer would be lost.
    pub(crate) async fn ask_status(&mut self) -> Result<(), ShipError> {
        self.transport.send(self.protocol.status_request()).await?;
        let frame = greeted(&self.endpoint, self.transport.receive()).await?;
        let Frame::Binary(bytes) = frame else {
            return Err(self.unexpected("text instead of its status"));
        };
        match self.read(&bytes, "the node's status")? {
            Message::Status(status) => self.status = status,
            _ => return Err(self.unexpected("something else than its status")),
        }
        Ok(())
    }

    fn unexpected(&self, what: &str) -> ShipError {
        ShipError::Closed {
            endpoint: self.endpoint.clone(),
            cause: format!("it sent {what}"),
        }
    }

    pub(crate) fn read<'a>(&self, bytes: &'a [u8], what: &str) -> Result<Message<'a>, ShipError> {
        self.protocol.read(bytes).map_err(|cause| ShipError::Frame {
            endpoint: self.endpoint.clone(),
            what: what.to_owned(),
            cause,
        })
    }

    pub(crate) async fn ask_blocks(&mut self, request: &BlocksRequest) -> Result<(), ShipError> {
        self.transport
            .send(self.protocol.blocks_request(request))
            .await
    }

    pub(crate) async fn acknowledge(&mut self, count: u32) -> Result<(), ShipError> {
        self.transport
            .send(self.protocol.acknowledgement(count))
            .await
    }

    /// The next binary message.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, ShipError> {
        match self.transport.receive().await? {
            Frame::Binary(bytes) => Ok(bytes),
            Frame::Text(_) => Err(self.unexpected("text among blocks")),
        }
    }
}

async fn greeted<T>(
    endpoint: &str,
    answer: impl Future<Output = Result<T, ShipError>>,
) -> Result<T, ShipError> {
    tokio::time::timeout(GREETING_TIMEOUT, answer)
        .await
        .unwrap_or_else(|_| {
            Err(ShipError::Connect {
                endpoint: endpoint.to_owned(),
                cause: format!(
                    "it accepts connections but says nothing for {} s",
                    GREETING_TIMEOUT.as_secs()
                ),
            })
        })
}
