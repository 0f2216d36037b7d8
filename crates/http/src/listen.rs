//! Where a surface listens: `127.0.0.1:3000`, `[::1]:3000` or `unix:/path/to.sock`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};

/// Prefix of the unix form.
const UNIX_PREFIX: &str = "unix:";

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// A TCP address with port.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// An address that cannot be read or bound.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not an address.
    #[error(
        "{0:?} is not an address to listen on: expected ip:port, like 127.0.0.1:3000, or unix:/path"
    )]
    Syntax(String),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: Listen,
        /// The system's reason.
        source: io::Error,
    },
    /// The path of a unix socket is taken by something else.
    #[error("cannot listen on unix:{0}: the path exists and is not a socket")]
    NotASocket(PathBuf),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
            if path.is_empty() || path.contains('\0') {
                return Err(ListenError::Syntax(text.to_owned()));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| ListenError::Syntax(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

impl Listen {
    /// Binds the address. `backlog` is the number of connections the system keeps waiting.
    ///
    /// A unix socket left behind by a process that is gone is replaced; one that answers is not.
    pub async fn bind(&self, backlog: u32) -> Result<Listener, ListenError> {
        let failed = |source| ListenError::Bind {
            address: self.clone(),
            source,
        };
        match self {
            Self::Tcp(address) => bind_tcp(*address, backlog)
                .map(Listener::Tcp)
                .map_err(failed),
            Self::Unix(path) => {
                if path.exists() {
                    let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
                    if !kind.is_socket() {
                        return Err(ListenError::NotASocket(path.clone()));
                    }
                    if UnixStream::connect(path).await.is_ok() {
                        return Err(failed(io::ErrorKind::AddrInUse.into()));
                    }
                    std::fs::remove_file(path).map_err(failed)?;
                }
                let listener = bind_unix(path, backlog).map_err(failed)?;
                Ok(Listener::Unix(listener, SocketFile(path.clone())))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A restarted server must not wait for the old connections' last timeouts.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

fn bind_unix(path: &Path, backlog: u32) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    socket.listen(backlog)
}

/// Removes the socket's file when the listener goes.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "socket file not removed");
        }
    }
}

/// A bound address.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket, with its file.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// The bound address (the port the system chose, when 0 was asked for).
    pub fn address(&self) -> io::Result<Listen> {
        Ok(match self {
            Self::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
            Self::Unix(_, SocketFile(path)) => Listen::Unix(path.clone()),
        })
    }

    /// The next connection. Safe to cancel.
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole; waiting to fill a packet only adds latency.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// The other end's address; none for a unix socket, or when it is gone already.
    pub(crate) fn peer(&self) -> Option<std::net::IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Self::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in [
            "127.0.0.1:3000",
            "[::1]:80",
            "0.0.0.0:0",
            "unix:/run/cairn/http.sock",
            "unix:x",
        ] {
            let listen: Listen = text.parse().expect(text);
            assert_eq!(listen.to_string(), text);
        }
        for text in [
            "",
            "3000",
            "localhost",
            "127.0.0.1",
            "unix:",
            "tcp://127.0.0.1:3000",
            "::1:80:",
        ] {
            let error = text.parse::<Listen>().expect_err(text).to_string();
            assert!(error.contains("expected ip:port"), "{error}");
        }
    }

    #[tokio::test]
    async fn unix_socket_is_reused_only_when_dead() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("s.sock");
        let listen = Listen::Unix(path.clone());
        let first = listen.bind(16).await.expect("free path");
        let taken = listen.bind(16).await.expect_err("somebody answers");
        assert!(matches!(taken, ListenError::Bind { .. }), "{taken}");
        drop(first);
        assert!(!path.exists(), "file removed with the listener");
        // A dead process leaves its file behind.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("free path"));
        assert!(path.exists());
        drop(listen.bind(16).await.expect("dead socket is replaced"));
        std::fs::write(&path, "data").expect("writable");
        let refused = listen
            .bind(16)
            .await
            .expect_err("a file is not ours to remove");
        assert!(matches!(refused, ListenError::NotASocket(_)), "{refused}");
        assert!(path.exists());
    }
}
