//! How a server behaves: everything an operator may set.

use std::time::Duration;

use crate::subnet::Subnet;

/// What the server says about itself, and what it allows.
#[derive(Debug, Clone)]
pub struct ElectrumOptions {
    /// The name in `server.version` and `server.features`. Some wallets send batches only to names they know.
    pub software: String,
    /// The banner; `$SERVER_VERSION`, `$SERVER_SUBVERSION`, `$DAEMON_VERSION`, `$DAEMON_SUBVERSION` and
    /// `$DONATION_ADDRESS` are replaced.
    pub banner: String,
    /// An address for donations; empty: none.
    pub donation_address: String,
    /// Whether a session must begin with `server.version`, as the protocol asks from 1.6 on. Without it, a session that
    /// does not negotiate speaks 1.4.
    pub version_first: bool,
    /// How the server is reached from outside; empty: it is not announced.
    pub hosts: Vec<PublicHost>,
    /// Whether other servers are looked for and told to clients. Needs a host in `hosts`.
    pub peer_discovery: bool,
    /// Servers to begin from when looking for others, `host s50002 t50001`.
    pub peers: Vec<String>,
    /// Whether servers at private and loopback addresses count, as in a network of one's own.
    pub peers_private: bool,
    /// What is allowed.
    pub limits: Limits,
}

impl Default for ElectrumOptions {
    fn default() -> Self {
        Self {
            software: concat!("Cairn ", env!("CARGO_PKG_VERSION")).to_owned(),
            banner: "Welcome to $SERVER_VERSION, an Electrum server.".to_owned(),
            donation_address: String::new(),
            version_first: true,
            hosts: Vec::new(),
            peer_discovery: false,
            peers: Vec::new(),
            peers_private: false,
            limits: Limits::default(),
        }
    }
}

/// A name or address under which clients reach this server, with its ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicHost {
    /// Host name or address.
    pub host: String,
    /// Port of plain TCP.
    pub tcp_port: Option<u16>,
    /// Port of TLS.
    pub ssl_port: Option<u16>,
    /// Port of WebSocket.
    pub ws_port: Option<u16>,
    /// Port of WebSocket in TLS.
    pub wss_port: Option<u16>,
}

/// Bounds. What is beyond one gets an error that names it, or is cut off where no answer is possible.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one request line or WebSocket message. A transaction in hex has twice its size.
    pub request_bytes: usize,
    /// Bytes of one answer; items of a batch beyond it are refused one by one.
    pub response_bytes: usize,
    /// Requests in one batch.
    pub batch: usize,
    /// Requests of one session that wait for the store or the node at once; no more are read until one is done.
    pub in_flight: usize,
    /// Entries of one script's history; 0 = no limit. Beyond it error 10001.
    pub history: usize,
    /// Sessions at once.
    pub sessions: usize,
    /// Sessions at once from one group of addresses (/24 of IPv4, /48 of IPv6); 0 = no limit.
    pub sessions_per_group: usize,
    /// Subscriptions of one session.
    pub subscriptions_per_session: usize,
    /// Subscriptions of all sessions.
    pub subscriptions: usize,
    /// Cost at which a client is slowed down. One unit is a cheap request.
    pub cost_soft: f64,
    /// Cost at which a client is disconnected.
    pub cost_hard: f64,
    /// Cost forgiven per second.
    pub cost_refund: f64,
    /// Addresses that limits per client do not apply to. Loopback and unix sockets never have them.
    pub exempt: Vec<Subnet>,
    /// A session that sends no request for so long is closed.
    pub idle: Duration,
    /// A session must send its first request, and end a line it began, within this time.
    pub request_time: Duration,
    /// A client that takes nothing of its answers for so long is cut off.
    pub stall: Duration,
    /// Time for a TLS, WebSocket or PROXY handshake.
    pub handshake: Duration,
    /// Time of the work for one answer.
    pub work: Duration,
    /// Store reads of long histories at once, over all sessions.
    pub heavy_readers: usize,
    /// Short store reads at once, over all sessions, when they wait for the disk.
    pub readers: usize,
    /// Bytes of long request lines that are being received, over all sessions.
    pub input_bytes: usize,
    /// Bytes of answers that wait for slow clients, over all sessions.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 8_500_000,
            response_bytes: 32_000_000,
            batch: 1_000,
            in_flight: 10,
            history: 125_000,
            sessions: 10_000,
            sessions_per_group: 200,
            subscriptions_per_session: 100_000,
            subscriptions: 2_000_000,
            cost_soft: 10_000.0,
            cost_hard: 100_000.0,
            cost_refund: 50.0,
            exempt: Vec::new(),
            idle: Duration::from_secs(600),
            request_time: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            handshake: Duration::from_secs(15),
            work: Duration::from_secs(30),
            heavy_readers: 4,
            readers: 32,
            input_bytes: 128 << 20,
            output_bytes: 256 << 20,
        }
    }
}
