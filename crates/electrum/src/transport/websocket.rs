//! WebSocket: a message of the client is a line, a line of ours is a message.
//!
//! The session on the inside sees bytes and lines as on any other connection; this task carries them over. A line end
//! inside a client's message can only be white space between JSON tokens, so it becomes a space.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

/// Bytes between the socket and the session.
const PIPE_BYTES: usize = 64 * 1024;
/// Time for the last messages when the session has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// Bounds of a WebSocket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebSocketLimits {
    /// Bytes of one message, however many fragments it comes in.
    pub(crate) message_bytes: usize,
    /// Time for the handshake.
    pub(crate) handshake: Duration,
}

/// Upgrades a connection and runs a session on it. `session` is given the inner end of the pipe.
///
/// # Errors
/// When the upgrade fails.
pub(crate) async fn serve_websocket<S, F>(
    stream: S,
    limits: WebSocketLimits,
    session: impl FnOnce(DuplexStream) -> F,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
        .read_buffer_size(16 * 1024)
        .max_write_buffer_size(usize::MAX);
    let upgrade = accept_hdr_async_with_config(stream, only_root, Some(config));
    let mut socket = tokio::time::timeout(limits.handshake, upgrade)
        .await
        .map_err(|_| Error::Io(std::io::ErrorKind::TimedOut.into()))??;
    let (inner, mut outer) = tokio::io::duplex(PIPE_BYTES);
    let mut session = std::pin::pin!(session(inner));
    let mut lines = Outgoing::default();
    let ended = tokio::select! {
        () = &mut session => End::Session,
        carried = carry(&mut socket, &mut outer, &mut lines) => End::Socket(carried),
    };
    let farewell = async {
        match ended {
            // What the session said last is still in the pipe.
            End::Session => {
                while lines.read(&mut outer).await {
                    lines.send(&mut socket).await?;
                }
            }
            End::Socket(Ok(())) => {}
            // Too large a message, most likely: the closing frame is all there is to say.
            End::Socket(Err(error)) => tracing::debug!(%error, "WebSocket ended"),
        }
        socket.close(None).await
    };
    // A client that does not wait for the end is as good as gone.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    Ok(())
}

/// Which side ended first.
enum End {
    Session,
    Socket(Result<(), Error>),
}

/// The path of the service is `/`, with any query.
#[expect(
    clippy::result_large_err,
    reason = "the type of the error is the WebSocket library's"
)]
fn only_root(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    if request.uri().path() == "/" {
        return Ok(response);
    }
    let mut refusal = ErrorResponse::new(Some("the Electrum protocol is served at /\n".to_owned()));
    *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::NOT_FOUND;
    Err(refusal)
}

/// Lines of the session on their way out.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Reads some more; `false` at the end.
    async fn read(&mut self, pipe: &mut (impl AsyncRead + Unpin)) -> bool {
        self.bytes.reserve(PIPE_BYTES);
        !matches!(pipe.read_buf(&mut self.bytes).await, Ok(0) | Err(_))
    }

    /// Sends all whole lines.
    async fn send<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        socket: &mut WebSocketStream<S>,
    ) -> Result<(), Error> {
        let mut start = 0;
        while let Some(length) = self.bytes[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.bytes[start..start + length].to_vec();
            start += length + 1;
            // What we write is JSON and therefore UTF-8.
            let text = String::from_utf8(line).map_err(|error| Error::Utf8(error.to_string()))?;
            socket.feed(Message::text(text)).await?;
        }
        self.bytes.drain(..start);
        socket.flush().await
    }
}

/// Carries messages both ways until one side ends.
async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    pipe: &mut DuplexStream,
    lines: &mut Outgoing,
) -> Result<(), Error> {
    let (mut from_session, mut to_session) = tokio::io::split(pipe);
    let mut incoming: Vec<u8> = Vec::new();
    let mut written = 0;
    loop {
        // While the session takes nothing, nothing is read: it has enough to do.
        let may_read = incoming.is_empty();
        tokio::select! {
            more = lines.read(&mut from_session) => {
                if !more {
                    return Ok(());
                }
                lines.send(socket).await?;
            }
            message = socket.next(), if may_read => match message {
                None | Some(Ok(Message::Close(_))) => {
                    to_session.shutdown().await.map_err(Error::Io)?;
                    return Ok(());
                }
                Some(Ok(Message::Text(text))) => incoming = line_of(text.as_bytes()),
                Some(Ok(Message::Binary(bytes))) => incoming = line_of(&bytes),
                // Pings are answered by the library.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
            },
            taken = to_session.write(&incoming[written..]), if !may_read => {
                written += taken.map_err(Error::Io)?;
                if written == incoming.len() {
                    incoming = Vec::new();
                    written = 0;
                }
            }
        }
    }
}

fn line_of(message: &[u8]) -> Vec<u8> {
    let mut line: Vec<u8> = message
        .iter()
        .map(|byte| if *byte == b'\n' { b' ' } else { *byte })
        .collect();
    line.push(b'\n');
    line
}
