//! A node's State History socket: WebSocket over TCP (`ws://host:port`) or a Unix socket (`unix:/path`).

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::ShipError;
use crate::transport::{Frame, Source, Transport};

/// How long connecting may take, the greeting of the WebSocket included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PORT_DEFAULT: u16 = 8080;

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSource {
    endpoint: String,
    address: Address,
    frame_bytes_max: usize,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp {
        host: String,
        port: u16,
        url: String,
    },
    Unix(std::path::PathBuf),
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

impl NodeSource {
    /// A node at `url`, whose messages may have up to `frame_bytes_max` bytes.
    ///
    /// # Errors
    /// When the address is neither `ws://host[:port][/path]` nor `unix:/path`.
    pub fn new(url: &str, frame_bytes_max: usize) -> Result<Self, ShipError> {
        let wrong = |why| ShipError::Url {
            url: url.chars().take(200).collect(),
            why,
        };
        let address = if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong("the path of a Unix socket begins with a slash"));
            }
            Address::Unix(path.into())
        } else if let Some(rest) = url.strip_prefix("ws://") {
            let (authority, path) = match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => (rest, "/"),
            };
            if authority.contains('@') {
                return Err(wrong("State History has no user names and passwords"));
            }
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !port.contains(']') => (
                    host,
                    port.parse()
                        .map_err(|_| wrong("the port is not a number up to 65535"))?,
                ),
                _ => (authority, PORT_DEFAULT),
            };
            if host.is_empty() {
                return Err(wrong("no host"));
            }
            Address::Tcp {
                url: format!("ws://{host}:{port}{path}"),
                host: host
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned(),
                port,
            }
        } else if url.starts_with("wss://") {
            return Err(wrong(
                "nodes speak State History without TLS: use ws://, through a tunnel where it must be secret",
            ));
        } else {
            return Err(wrong("neither ws:// nor unix:"));
        };
        Ok(Self {
            endpoint: url.to_owned(),
            address,
            frame_bytes_max,
        })
    }

    async fn open(&self) -> Result<Box<dyn Transport>, ShipError> {
        let failed = |cause: String| ShipError::Connect {
            endpoint: self.endpoint.clone(),
            cause,
        };
        let (socket, url): (Box<dyn Socket>, &str) = match &self.address {
            Address::Tcp { host, port, url } => {
                let stream = TcpStream::connect((host.as_str(), *port))
                    .await
                    .map_err(|e| failed(e.to_string()))?;
                stream
                    .set_nodelay(true)
                    .map_err(|e| failed(e.to_string()))?;
                (Box::new(stream), url)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|e| failed(e.to_string()))?;
                (Box::new(stream), "ws://localhost/")
            }
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(self.frame_bytes_max))
            .max_frame_size(Some(self.frame_bytes_max));
        let (stream, _) = client_async_with_config(url, socket, Some(config))
            .await
            .map_err(|e| failed(format!("no WebSocket: {e}")))?;
        Ok(Box::new(NodeTransport {
            stream,
            endpoint: self.endpoint.clone(),
            frame_bytes_max: self.frame_bytes_max,
        }))
    }
}

impl Source for NodeSource {
    fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    fn connect(&mut self) -> BoxFuture<'_, Result<Box<dyn Transport>, ShipError>> {
        async move {
            tokio::time::timeout(CONNECT_TIMEOUT, self.open())
                .await
                .unwrap_or_else(|_| {
                    Err(ShipError::Connect {
                        endpoint: self.endpoint.clone(),
                        cause: format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
                    })
                })
        }
        .boxed()
    }
}

struct NodeTransport {
    stream: WebSocketStream<Box<dyn Socket>>,
    endpoint: String,
    frame_bytes_max: usize,
}

impl NodeTransport {
    fn ended(&self, error: &Error) -> ShipError {
        match error {
            Error::Capacity(cause) => ShipError::TooLarge {
                endpoint: self.endpoint.clone(),
                bound: self.frame_bytes_max,
                cause: cause.to_string(),
            },
            other => self.closed(other.to_string()),
        }
    }

    fn closed(&self, cause: String) -> ShipError {
        ShipError::Closed {
            endpoint: self.endpoint.clone(),
            cause,
        }
    }
}

impl Transport for NodeTransport {
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, ShipError>> {
        async move {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Ok(Frame::Text(text.as_str().to_owned()));
                    }
                    Some(Ok(Message::Binary(bytes))) => return Ok(Frame::Binary(bytes)),
                    // Pings are answered by the library.
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(frame))) => {
                        return Err(self.closed(
                            frame.map_or("without a reason".to_owned(), |f| f.to_string()),
                        ));
                    }
                    Some(Err(error)) => return Err(self.ended(&error)),
                    None => return Err(self.closed("without a reason".to_owned())),
                }
            }
        }
        .boxed()
    }

    fn send(&mut self, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), ShipError>> {
        async move {
            let sent = self.stream.send(Message::Binary(Bytes::from(bytes))).await;
            sent.map_err(|e| self.ended(&e))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, good) in [
            ("ws://127.0.0.1:8080", true),
            ("ws://node", true),
            ("ws://[::1]:8080/", true),
            ("ws://[::1]", true),
            ("unix:/run/ship.sock", true),
            ("unix:///run/ship.sock", true),
            ("unix://ship.sock", false),
            ("wss://node:8080", false),
            ("ws://", false),
            ("ws://:8080", false),
            ("ws://node:80800", false),
            ("ws://user:secret@node", false),
            ("http://node", false),
        ] {
            assert_eq!(NodeSource::new(url, 1).is_ok(), good, "{url}");
        }
    }
}
