//! Listeners: accept connections, find out who it is, and hand them to a session.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_http::Listener;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::Refused;
use crate::notify;
use crate::server::{ElectrumState, Server};
use crate::session::{self, End, Session};
use crate::subnet::Subnet;
use crate::transport::{TlsIdentity, WebSocketLimits, read_proxy_header, serve_websocket};

/// Pause after a failed `accept` (out of file descriptors, mostly), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the certificate's files are looked at.
const TLS_CHECK: Duration = Duration::from_secs(30);
/// How long sessions get to say goodbye when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// What is spoken on a listener.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Lines over the plain connection.
    Tcp,
    /// Lines inside TLS.
    Tls(Arc<TlsIdentity>),
    /// WebSocket.
    WebSocket,
    /// WebSocket inside TLS.
    TlsWebSocket(Arc<TlsIdentity>),
}

impl Transport {
    /// The word in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls(_) => "tls",
            Self::WebSocket => "ws",
            Self::TlsWebSocket(_) => "wss",
        }
    }

    fn tls(&self) -> Option<&Arc<TlsIdentity>> {
        match self {
            Self::Tcp | Self::WebSocket => None,
            Self::Tls(identity) | Self::TlsWebSocket(identity) => Some(identity),
        }
    }

    fn is_websocket(&self) -> bool {
        matches!(self, Self::WebSocket | Self::TlsWebSocket(_))
    }
}

/// A bound listener with what is spoken on it.
#[derive(Debug)]
pub struct Endpoint {
    /// The listener.
    pub listener: Listener,
    /// What is spoken.
    pub transport: Transport,
    /// Who sends a PROXY header before everything else; empty: nobody. When it is not empty, a connection from anybody
    /// else, or without the header, is closed.
    pub proxies: Vec<Subnet>,
}

/// The Electrum server of a chain.
#[derive(Clone)]
pub struct ElectrumServer {
    server: Arc<Server>,
}

impl ElectrumServer {
    /// A server that is not listening yet.
    pub fn new(state: ElectrumState) -> Self {
        Self {
            server: Server::new(state),
        }
    }

    /// Serves on the listeners until `stop`, then ends all sessions.
    pub async fn serve(self, endpoints: Vec<Endpoint>, stop: CancellationToken) {
        let server = self.server;
        // Before the first session, so that no change is missed.
        let changes = server.index.changes();
        let tasks = TaskTracker::new();
        tasks.spawn(notify::run(Arc::clone(&server), changes, stop.clone()));
        if server.options.peer_discovery {
            let (server, stop) = (Arc::clone(&server), stop.clone());
            tasks.spawn(async move { server.peers.run(&server, &stop).await });
        }
        let places = Arc::new(Semaphore::new(
            server
                .options
                .limits
                .sessions
                .clamp(1, Semaphore::MAX_PERMITS),
        ));
        for endpoint in endpoints {
            if let Some(identity) = endpoint.transport.tls() {
                tasks.spawn(watch_certificate(Arc::clone(identity), stop.clone()));
            }
            tasks.spawn(accept_all(
                Arc::clone(&server),
                endpoint,
                Arc::clone(&places),
                tasks.clone(),
                stop.clone(),
            ));
        }
        stop.cancelled().await;
        tasks.close();
        if tokio::time::timeout(STOP_GRACE, tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(chain = server.chain, "Electrum sessions are cut");
        }
    }

    /// Number of subscriptions of all sessions.
    pub fn subscriptions(&self) -> usize {
        self.server.subscriptions()
    }
}

async fn watch_certificate(identity: Arc<TlsIdentity>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TLS_CHECK) => {}
        }
        let checked = Arc::clone(&identity);
        let file = identity.cert_file().display();
        match tokio::task::spawn_blocking(move || checked.reload_if_changed()).await {
            Ok(Ok(true)) => tracing::info!(certificate = %file, "read the changed certificate"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the changed certificate cannot be used; the old one stays")
            }
            Err(failure) => tracing::error!(%failure, "reading the certificate panicked"),
        }
    }
}

async fn accept_all(
    server: Arc<Server>,
    endpoint: Endpoint,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let Endpoint {
        listener,
        transport,
        proxies,
    } = endpoint;
    let door = Arc::new(Door {
        server,
        transport,
        proxies,
        stop,
    });
    loop {
        let accepted = tokio::select! {
            () = door.stop.cancelled() => return,
            accepted = accept(&listener) => accepted,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(chain = door.server.chain, %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Beyond the limit a connection is closed rather than left waiting: the client tries elsewhere.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            door.server.metrics.refused("sessions");
            continue;
        };
        let door = Arc::clone(&door);
        tasks.spawn(async move {
            door.enter(socket, address).await;
            drop(place);
        });
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

async fn accept(listener: &Listener) -> io::Result<(Socket, Option<IpAddr>)> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, address) = listener.accept().await?;
            // Answers are written whole; waiting to fill a packet only adds latency.
            stream.set_nodelay(true)?;
            Ok((Socket::Tcp(stream), Some(address.ip().to_canonical())))
        }
        Listener::Unix(listener, _) => {
            let (stream, _) = listener.accept().await?;
            Ok((Socket::Unix(stream), None))
        }
    }
}

/// What connections of one listener go through.
struct Door {
    server: Arc<Server>,
    transport: Transport,
    proxies: Vec<Subnet>,
    stop: CancellationToken,
}

impl Door {
    async fn enter(&self, socket: Socket, address: Option<IpAddr>) {
        match socket {
            Socket::Tcp(stream) => self.identify(stream, address).await,
            Socket::Unix(stream) => self.identify(stream, address).await,
        }
    }

    /// Reads the PROXY header where one is due, and opens the client's account.
    async fn identify<S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        mut stream: S,
        address: Option<IpAddr>,
    ) {
        let handshake = self.server.options.limits.handshake;
        let mut client = address;
        if !self.proxies.is_empty() {
            let is_proxy = address
                .is_none_or(|address| self.proxies.iter().any(|proxy| proxy.contains(address)));
            if !is_proxy {
                self.server.metrics.refused("not-a-proxy");
                tracing::debug!(
                    chain = self.server.chain,
                    "a connection that is from no listed proxy is closed"
                );
                return;
            }
            match tokio::time::timeout(handshake, read_proxy_header(&mut stream)).await {
                Ok(Ok(told)) => client = told.or(address),
                Ok(Err(error)) => {
                    self.server.metrics.refused("proxy-header");
                    tracing::debug!(chain = self.server.chain, %error, "a connection is closed");
                    return;
                }
                Err(_) => return,
            }
        }
        let accountable = client.filter(|client| !self.is_exempt(*client));
        let seat = match self.server.accounts.admit(accountable, Instant::now()) {
            Ok(seat) => seat,
            Err(refused) => {
                let reason = match refused {
                    Refused::Sessions => "sessions-per-group",
                    Refused::Cost => "cost",
                };
                self.server.metrics.refused(reason);
                tracing::info!(chain = self.server.chain, reason, client = %group_text(client), "a client is refused");
                return;
            }
        };
        let session = Arc::new(Session::new(client, seat));
        if let Some(identity) = self.transport.tls() {
            match tokio::time::timeout(handshake, identity.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => self.converse(stream, session).await,
                Ok(Err(error)) => {
                    tracing::debug!(chain = self.server.chain, %error, "TLS handshake failed")
                }
                Err(_) => {}
            }
        } else {
            self.converse(stream, session).await;
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        stream: S,
        session: Arc<Session>,
    ) {
        let client = session.client;
        let opened = self.server.metrics.session(self.transport.name());
        if self.transport.is_websocket() {
            let limits = WebSocketLimits {
                message_bytes: self.server.options.limits.request_bytes,
                handshake: self.server.options.limits.handshake,
            };
            let upgraded = serve_websocket(stream, limits, |pipe| async {
                let end =
                    session::run(Arc::clone(&self.server), session, pipe, self.stop.clone()).await;
                self.ended(end, client);
            });
            if let Err(error) = upgraded.await {
                tracing::debug!(chain = self.server.chain, %error, "WebSocket handshake failed");
            }
        } else {
            let end =
                session::run(Arc::clone(&self.server), session, stream, self.stop.clone()).await;
            self.ended(end, client);
        }
        drop(opened);
    }

    fn ended(&self, end: End, client: Option<IpAddr>) {
        self.server.metrics.ended(end.name());
        match end {
            End::Client | End::Stop | End::Idle => {}
            End::OtherProtocol => tracing::info!(
                chain = self.server.chain,
                listener = self.transport.name(),
                "a client speaks TLS or HTTP to this listener; it is for Electrum's own protocol in plain"
            ),
            End::Stalled | End::LineTooLong | End::Cost | End::Refused => {
                tracing::info!(chain = self.server.chain, reason = end.name(), client = %group_text(client), "a session was ended");
            }
        }
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        client.is_loopback()
            || self
                .server
                .options
                .limits
                .exempt
                .iter()
                .any(|subnet| subnet.contains(client))
    }
}

/// The client's network, not its address: enough to see who causes trouble.
fn group_text(client: Option<IpAddr>) -> String {
    match client {
        None => "unix".to_owned(),
        Some(IpAddr::V4(address)) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        Some(IpAddr::V6(address)) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}
