//! The checked configuration.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bitcoin::Network;
use cairn_utxo_chain::network::{AddressParams, ElementsKind};
use secrecy::SecretString;

/// Everything Cairn is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Folder below which everything is written.
    pub data_dir: PathBuf,
    /// The main listener.
    pub http: HttpConfig,
    /// Logs and metrics.
    pub telemetry: TelemetryConfig,
    /// The Redis of streams and of the application ledger.
    pub redis: RedisConfig,
    /// How long streams keep their events.
    pub stream: StreamConfig,
    /// The application ledger; `None`: not enabled.
    pub scanner: Option<ScannerConfig>,
    /// The chains, in the order of the file; ids are unique. May be empty: only commands that need a chain object.
    pub chains: Vec<ChainConfig>,
}

impl Config {
    /// The chain of an id.
    pub fn chain(&self, id: &str) -> Option<&ChainConfig> {
        self.chains.iter().find(|chain| chain.id() == id)
    }

    /// The chains of kind `bitcoin`, in the order of the file.
    pub fn utxo_chains(&self) -> impl Iterator<Item = &UtxoConfig> {
        self.chains.iter().filter_map(|chain| match chain {
            ChainConfig::Utxo(chain) => Some(&**chain),
            ChainConfig::Antelope(_) => None,
        })
    }

    /// The chains of kind `antelope`, in the order of the file.
    pub fn antelope_chains(&self) -> impl Iterator<Item = &AntelopeConfig> {
        self.chains.iter().filter_map(|chain| match chain {
            ChainConfig::Antelope(chain) => Some(chain),
            ChainConfig::Utxo(_) => None,
        })
    }

    /// Whether something that is configured needs a Redis.
    pub fn needs_redis(&self) -> bool {
        self.scanner.is_some() || self.antelope_chains().next().is_some()
    }

    /// Where the index of a chain lives: `chains/ID` below the data folder.
    pub fn chain_dir(&self, id: &str) -> PathBuf {
        self.data_dir.join("chains").join(id)
    }
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where to listen.
    pub listen: Listen,
    /// Origins allowed by CORS; `*` = all.
    pub cors: Vec<String>,
}

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// A tracing filter; its syntax is checked where it is used.
    pub log: String,
    /// Form of the log lines.
    pub format: LogFormat,
    /// The listener for metrics and health alone.
    pub metrics_listen: Option<Listen>,
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// `[redis]`
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// Where it is, password included, its syntax not yet checked; `None`: a private server below the data folder.
    pub url: Option<SecretString>,
    /// The program of the private server.
    pub server: PathBuf,
}

/// `[stream]`
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// Age at which events are trimmed.
    pub window: Duration,
    /// Time between two rounds of trimming.
    pub trim_interval: Duration,
    /// Whether subscriptions hold events back.
    pub policy: TrimPolicy,
    /// Most events of a stream, whatever the policy says; `None`: any number.
    pub max_len: Option<u64>,
    /// Newest blocks whose events age does not trim.
    pub min_blocks: u64,
    /// Token of subscriptions over HTTP; `None`: they are off.
    pub token: Option<SecretString>,
}

/// What is trimmed of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimPolicy {
    /// Everything older than the window.
    Window,
    /// Nothing that a registered subscription has not acknowledged.
    Hold {
        /// Events older than this are trimmed all the same.
        at_most: Duration,
    },
}

/// `[scanner]`, enabled.
#[derive(Debug, Clone)]
pub struct ScannerConfig {
    /// The host of the application: safe in a URL and in a key.
    pub host_id: String,
    /// Name of the ledger's stream: safe in a URL and in a key.
    pub chain_id: String,
    /// Token of the admin endpoints; `None`: they are off.
    pub admin_token: Option<SecretString>,
    /// Token of who sends records; `None`: none are accepted over HTTP.
    pub ingest_token: Option<SecretString>,
    /// How often some of the application's own keys are looked at; `None`: they are not read.
    pub sweep_interval: Option<Duration>,
    /// Whether balances are shown to everybody.
    pub public_balances: bool,
    /// Whether the free text of transactions is shown to everybody.
    pub public_detail: bool,
}

/// One `[[chain]]`.
#[derive(Debug, Clone)]
pub enum ChainConfig {
    /// Kind `bitcoin`.
    Utxo(Box<UtxoConfig>),
    /// Kind `antelope`.
    Antelope(AntelopeConfig),
}

impl ChainConfig {
    /// Its id: safe in a URL, in a key and as the name of a folder.
    pub fn id(&self) -> &str {
        match self {
            Self::Utxo(chain) => &chain.id,
            Self::Antelope(chain) => &chain.id,
        }
    }
}

/// A chain of kind `antelope`.
#[derive(Debug, Clone)]
pub struct AntelopeConfig {
    /// Its id.
    pub id: String,
    /// The node's State History: `ws://…`, `wss://…` or `unix:/path`.
    pub ship_url: String,
    /// The node's chain API, `http://…` or `https://…`.
    pub chain_url: Option<String>,
    /// What to do without an ABI.
    pub abi_fallback: AbiFallback,
    /// Publish final blocks only.
    pub irreversible_only: bool,
    /// First block when nothing has been published yet; negative = behind the head; 0 = the node's first.
    pub start_block: i64,
    /// The chain's id, where it is known beforehand.
    pub expect_chain_id: Option<[u8; 32]>,
    /// How decoded values print.
    pub json_profile: JsonProfile,
}

/// What to do when no ABI of a contract is known at a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbiFallback {
    /// Ask the chain API for the one it has now.
    RpcCurrent,
    /// Publish the data undecoded.
    Fail,
}

/// How decoded Antelope values print (`spec/antelope.md` 1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonProfile {
    /// As the peer's library does.
    Wharfkit,
    /// As the node does.
    Nodeos,
}

/// The Electrum server of a chain; no listener = none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectrumConfig {
    /// Plain TCP.
    pub tcp: Vec<Listen>,
    /// TLS.
    pub tls: Vec<Listen>,
    /// WebSocket.
    pub ws: Vec<Listen>,
    /// WebSocket inside TLS.
    pub wss: Vec<Listen>,
    /// Certificate and key; `None`: a self-signed pair.
    pub certificate: Option<CertificateFiles>,
    /// Text that wallets show.
    pub banner_file: Option<PathBuf>,
    /// Address for donations, empty for none.
    pub donation_address: String,
    /// Plain TCP behind a load balancer that sends PROXY headers.
    pub proxy: Vec<Listen>,
    /// The same with TLS inside.
    pub proxy_tls: Vec<Listen>,
    /// The load balancers.
    pub proxy_from: Vec<AddressRange>,
    /// Name that wallets see, empty for the default.
    pub server_name: String,
    /// Whether a session must begin with `server.version`.
    pub version_first: bool,
    /// How the server is reached from outside.
    pub public_hosts: Vec<ElectrumHost>,
    /// Whether other servers are looked for.
    pub peer_discovery: bool,
    /// Where to begin looking.
    pub peers: Vec<ElectrumHost>,
    /// Entries of one history, 0 for no limit.
    pub history_limit: usize,
    /// Sessions at once.
    pub sessions_max: usize,
    /// Sessions at once from one network, 0 for no limit.
    pub sessions_per_network: usize,
    /// Subscriptions of all sessions.
    pub subscriptions_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_per_session: usize,
    /// Bytes of one request.
    pub request_bytes_max: usize,
    /// Requests in one batch.
    pub batch_max: usize,
    /// Seconds without a request.
    pub idle_seconds: u64,
    /// Cost at which clients are slowed down.
    pub cost_soft: u32,
    /// Cost at which clients are disconnected.
    pub cost_hard: u32,
    /// Clients without limits.
    pub exempt: Vec<AddressRange>,
}

/// An Electrum server as others reach it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectrumHost {
    /// Name or address.
    pub host: String,
    /// Port of plain TCP.
    pub tcp: Option<u16>,
    /// Port of TLS.
    pub ssl: Option<u16>,
    /// Port of WebSocket.
    pub ws: Option<u16>,
    /// Port of WebSocket inside TLS.
    pub wss: Option<u16>,
}

/// An address, or a range like `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address, or any of the range.
    pub address: IpAddr,
    /// How many leading bits are the range's.
    pub bits: u8,
}

impl ElectrumConfig {
    /// All listeners with the key that names them.
    pub fn listeners(&self) -> impl Iterator<Item = (&'static str, &Listen)> {
        [
            ("electrum_listen", &self.tcp),
            ("electrum_tls_listen", &self.tls),
            ("electrum_ws_listen", &self.ws),
            ("electrum_wss_listen", &self.wss),
            ("electrum_proxy_listen", &self.proxy),
            ("electrum_proxy_tls_listen", &self.proxy_tls),
        ]
        .into_iter()
        .flat_map(|(name, listeners)| listeners.iter().map(move |listen| (name, listen)))
    }
}

/// A certificate chain and its private key, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The network of a UTXO chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UtxoNetwork {
    /// Kind `bitcoin`.
    Bitcoin(Network),
    /// Kind `liquid`.
    Elements(Box<ElementsConfig>),
}

/// What a chain of kind `liquid` has beside the keys of kind `bitcoin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementsConfig {
    /// Which network.
    pub kind: ElementsKind,
    /// The chain that coins are pegged in from.
    pub parent: Network,
    /// How addresses are written.
    pub addresses: AddressParams,
    /// What issuers say about assets.
    pub registry: Option<AssetRegistrySource>,
}

/// Where a registry of assets is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssetRegistrySource {
    /// A folder of files.
    Folder(PathBuf),
    /// The address of one JSON object.
    Url(String),
}

/// A chain of kind `bitcoin` or `liquid`.
#[derive(Debug, Clone)]
pub struct UtxoConfig {
    /// Its id: safe in a URL and as the name of a folder.
    pub id: String,
    /// Its network.
    pub network: UtxoNetwork,
    /// The 4 bytes before each record of a block file, where they are not those of the network or the challenge.
    pub magic: Option<[u8; 4]>,
    /// Challenge script of a custom signet.
    pub signet_challenge: Option<Vec<u8>>,
    /// The node; `None`: files alone. At least one of this, `node_dir` and `blocks_dir` is given.
    pub rpc: Option<RpcConfig>,
    /// The node's data folder, below which cookie and block files are found.
    pub node_dir: Option<PathBuf>,
    /// Folder of the block files, when it is named.
    pub blocks_dir: Option<PathBuf>,
    /// The listener with Esplora at its root.
    pub esplora_listen: Option<Listen>,
    /// What the Esplora API of this chain keeps and serves.
    pub esplora: EsploraConfig,
    /// The node's ZMQ publisher, `tcp://HOST:PORT`.
    pub zmq_url: Option<String>,
    /// The Electrum server.
    pub electrum: ElectrumConfig,
    /// No transaction bodies.
    pub light_mode: bool,
    /// Rows for address search.
    pub address_search: bool,
    /// History of unspendable outputs.
    pub index_unspendables: bool,
    /// Unspent outputs listed for one script.
    pub utxos_limit: usize,
    /// History rows one request may visit.
    pub scan_rows_max: usize,
    /// Memory budget of the index in bytes.
    pub memory_bytes: u64,
    /// Worker threads of the first load; 0 = one per core.
    pub threads: usize,
}

/// The Esplora API of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EsploraConfig {
    /// Memory for transactions in the form in which they are served, bytes.
    pub cache_bytes: u64,
    /// Write transactions as the mempool.space line of servers does.
    pub mempool_line: bool,
    /// Serve `/internal/…`.
    pub internal: bool,
    /// Serve `/block-template`.
    pub mining: bool,
}

/// How to reach a node.
#[derive(Debug, Clone)]
pub struct RpcConfig {
    /// `http://…` or `https://…`, without credentials, so that it can be printed.
    pub url: String,
    /// What to say there.
    pub auth: RpcAuth,
}

/// Credentials of a node.
#[derive(Debug, Clone)]
pub enum RpcAuth {
    /// Not named: the cookie of the network below `node_dir` if there is one, else none.
    Unnamed,
    /// A file that the node writes anew at each of its starts.
    CookieFile(PathBuf),
    /// A name and a password.
    UserPassword {
        /// The name.
        user: String,
        /// The password.
        password: SecretString,
    },
}

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; the host can be a name.
    Tcp {
        /// Name or address, IPv6 without brackets.
        host: String,
        /// 0 = any free one.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Reads `HOST:PORT`, `[IPV6]:PORT` or `unix:/path`.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str = "expected HOST:PORT, [IPV6]:PORT or unix:/path";
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(format!("\"{text}\" names no socket; {FORMS}"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(format!("\"{text}\" has no port; {FORMS}"));
        };
        let port = port
            .parse::<u16>()
            .map_err(|_| format!("\"{port}\" is not a port from 0 to 65535; {FORMS}"))?;
        let bare = match host.strip_prefix('[') {
            Some(inner) => {
                let address = inner.strip_suffix(']').unwrap_or(inner);
                if address.parse::<std::net::Ipv6Addr>().is_err() || !host.ends_with(']') {
                    return Err(format!(
                        "\"{host}\" is not an IPv6 address in brackets; {FORMS}"
                    ));
                }
                address
            }
            None => host,
        };
        if bare.is_empty() {
            return Err(format!(
                "\"{text}\" has no host; \"0.0.0.0:{port}\" listens on all IPv4 addresses"
            ));
        }
        let is_name = host == bare
            && bare
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if host == bare && !is_name {
            return Err(format!("\"{host}\" is not a host name or address; {FORMS}"));
        }
        Ok(Self::Tcp {
            host: bare.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_forms() {
        for text in [
            "127.0.0.1:3000",
            "localhost:0",
            "[::1]:80",
            "[::]:65535",
            "unix:/run/cairn.sock",
        ] {
            let listen = Listen::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(listen.to_string(), text);
        }
        for (text, part) in [
            ("", "no port"),
            ("3000", "no port"),
            (":3000", "no host"),
            ("127.0.0.1:", "not a port"),
            ("127.0.0.1:65536", "not a port"),
            ("127.0.0.1:-1", "not a port"),
            ("::1:80", "not a host name"),
            ("[::1:80", "brackets"),
            ("[127.0.0.1]:80", "brackets"),
            ("a b:80", "not a host name"),
            ("http://a:80", "not a host name"),
            ("unix:", "no socket"),
        ] {
            match Listen::parse(text) {
                Err(error) => assert!(error.contains(part), "{text}: {error}"),
                Ok(listen) => panic!("{text} became {listen:?}"),
            }
        }
    }
}
