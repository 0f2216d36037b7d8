//! Other servers of the same chain. Off unless the operator turns it on: nothing here connects anywhere by itself.
//!
//! With it on, the servers named in the options are visited, and those they name, and those that introduce themselves; a
//! server that answers as it should is told to clients for a day. Everything a server says is bounded and checked: it may
//! lie.

mod visit;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::options::{ElectrumOptions, PublicHost};
use crate::server::Server;
use visit::{Expected, Visited, visit};

/// Servers remembered.
const KNOWN_MAX: usize = 500;
/// Servers told to a client.
const TOLD_MAX: usize = 50;
/// How long a server that was good is told.
const GOOD_FOR: Duration = Duration::from_secs(24 * 3600);
/// How often a good one is visited.
const AGAIN: Duration = Duration::from_secs(12 * 3600);
/// First pause after a failure; it doubles.
const RETRY: Duration = Duration::from_secs(300);
/// Failures after which a server is forgotten: about three days.
const FAILURES_MAX: u32 = 9;
/// Visits at once.
const VISITS: usize = 4;
/// How often is looked for servers to visit.
const ROUND: Duration = Duration::from_secs(20);
/// Time for looking up the address of a server that introduces itself.
const LOOKUP_TIME: Duration = Duration::from_secs(5);
/// Longest name of a server.
const HOST_CHARS_MAX: usize = 255;
/// Candidates taken from one server.
const FROM_ONE_MAX: usize = 40;

/// What came of a server that introduced itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddOutcome {
    /// It will be visited.
    Taken,
    /// It is none we want.
    Refused,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) tcp: Option<u16>,
    pub(crate) ssl: Option<u16>,
}

impl Address {
    /// Reads `host s50002 t50001`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let host = words.next()?;
        let mut address = Self {
            host: host.to_owned(),
            tcp: None,
            ssl: None,
        };
        for word in words {
            address.take_feature(word);
        }
        address.check()
    }

    /// Takes one of the words in the list of a peer: `s50002`, `t50001`; others say nothing about the way there.
    fn take_feature(&mut self, word: &str) {
        let port = |default: u16, rest: &str| {
            if rest.is_empty() {
                Some(default)
            } else {
                rest.parse().ok()
            }
        };
        if let Some(rest) = word.strip_prefix('s') {
            self.ssl = port(50_002, rest);
        } else if let Some(rest) = word.strip_prefix('t') {
            self.tcp = port(50_001, rest);
        }
    }

    fn check(self) -> Option<Self> {
        let is_name = !self.host.is_empty()
            && self.host.len() <= HOST_CHARS_MAX
            && self
                .host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'));
        (is_name && (self.tcp.is_some() || self.ssl.is_some())).then_some(self)
    }

    /// The words that describe it.
    fn features(&self, version: &str) -> Vec<String> {
        let mut words = vec![format!("v{version}")];
        words.extend(self.ssl.map(|port| format!("s{port}")));
        words.extend(self.tcp.map(|port| format!("t{port}")));
        words
    }
}

struct Peer {
    address: Address,
    ip: Option<IpAddr>,
    version: String,
    good_at: Option<Instant>,
    next: Instant,
    failures: u32,
    is_visited: bool,
}

/// The servers known.
pub(crate) struct Peers {
    is_on: bool,
    allow_private: bool,
    own: Vec<PublicHost>,
    known: Mutex<HashMap<String, Peer>>,
}

impl Peers {
    pub(crate) fn new(options: &ElectrumOptions) -> Self {
        let peers = Self {
            is_on: options.peer_discovery,
            allow_private: options.peers_private,
            own: options.hosts.clone(),
            known: Mutex::default(),
        };
        if peers.is_on {
            for address in options.peers.iter().filter_map(|text| Address::parse(text)) {
                peers.add(address);
            }
        }
        peers
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Peer>> {
        // Every change under the lock is a single step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer of `server.peers.subscribe`: `[address, name, words]` of servers that were good lately, few of each
    /// network.
    pub(crate) fn list(&self) -> Value {
        let mut networks: HashSet<Network> = HashSet::new();
        let known = self.lock();
        let good = known
            .values()
            .filter(|peer| peer.good_at.is_some_and(|at| at.elapsed() < GOOD_FOR))
            .filter_map(|peer| Some((peer, peer.ip?)))
            .filter(|(_, ip)| networks.insert(Network::of(*ip)))
            .take(TOLD_MAX)
            .map(|(peer, ip)| {
                json!([
                    ip.to_string(),
                    peer.address.host,
                    peer.address.features(&peer.version)
                ])
            });
        Value::Array(good.collect())
    }

    /// Takes a server's introduction of itself.
    pub(crate) async fn offer(
        &self,
        features: &Value,
        genesis: &str,
        caller: Option<IpAddr>,
    ) -> AddOutcome {
        let Some(caller) = caller.filter(|_| self.is_on) else {
            return AddOutcome::Refused;
        };
        if features["genesis_hash"] != genesis {
            return AddOutcome::Refused;
        }
        let Some(address) = address_of(features) else {
            return AddOutcome::Refused;
        };
        // Nobody can introduce somebody else.
        if is_address_of(&address.host, caller).await
            && self.is_allowed(caller)
            && self.add(address)
        {
            AddOutcome::Taken
        } else {
            AddOutcome::Refused
        }
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        self.allow_private || is_public(ip)
    }

    /// Remembers a server to visit; `false` if there is no room. One that is known stays as it is.
    fn add(&self, address: Address) -> bool {
        if self.own.iter().any(|own| own.host == address.host) {
            return false;
        }
        let mut known = self.lock();
        if known.contains_key(&address.host) {
            return true;
        }
        if known.len() >= KNOWN_MAX {
            return false;
        }
        let peer = Peer {
            ip: None,
            version: String::new(),
            good_at: None,
            next: Instant::now(),
            failures: 0,
            is_visited: false,
            address: address.clone(),
        };
        known.insert(address.host, peer);
        true
    }

    /// Servers that are due for a visit.
    fn due(&self, most: usize) -> Vec<Address> {
        let now = Instant::now();
        let mut known = self.lock();
        known
            .values_mut()
            .filter(|peer| !peer.is_visited && peer.next <= now)
            .take(most)
            .map(|peer| {
                peer.is_visited = true;
                peer.address.clone()
            })
            .collect()
    }

    /// Notes what a visit found.
    fn visited(&self, address: &Address, visited: Option<Visited>) {
        let mut known = self.lock();
        let Some(peer) = known.get_mut(&address.host) else {
            return;
        };
        peer.is_visited = false;
        match visited {
            Some(visited) => {
                peer.ip = Some(visited.ip);
                peer.version = visited.version;
                peer.good_at = Some(Instant::now());
                peer.failures = 0;
                peer.next = Instant::now() + AGAIN;
                drop(known);
                for other in visited.peers.into_iter().take(FROM_ONE_MAX) {
                    self.add(other);
                }
            }
            None => {
                peer.failures += 1;
                peer.next = Instant::now() + RETRY * 2u32.pow(peer.failures.min(FAILURES_MAX) - 1);
                if peer.failures >= FAILURES_MAX {
                    known.remove(&address.host);
                }
            }
        }
    }

    /// Visits servers until the server stops.
    pub(crate) async fn run(&self, server: &Arc<Server>, stop: &CancellationToken) {
        let mut visits = FuturesUnordered::new();
        loop {
            if let Some(expected) = expected(server) {
                for address in self.due(VISITS - visits.len()) {
                    let expected = expected.clone();
                    visits.push(async move {
                        let visited = visit(&address, &expected).await;
                        (address, visited)
                    });
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                Some((address, visited)) = visits.next(), if !visits.is_empty() => {
                    let visited = visited
                        .inspect_err(|why| tracing::debug!(host = address.host, why, "a server is not good"))
                        .ok()
                        .filter(|visited| self.is_allowed(visited.ip));
                    self.visited(&address, visited);
                }
                () = tokio::time::sleep(ROUND) => {}
            }
        }
    }
}

/// Whether a name stands for an address.
async fn is_address_of(host: &str, ip: IpAddr) -> bool {
    match tokio::time::timeout(LOOKUP_TIME, tokio::net::lookup_host((host, 0))).await {
        Ok(Ok(mut found)) => found.any(|found| found.ip().to_canonical() == ip.to_canonical()),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// What a good server says.
fn expected(server: &Arc<Server>) -> Option<Expected> {
    let view = server.index.view()?;
    Some(Expected {
        genesis: view.network().genesis_hash().to_string(),
        height: view.tip().height,
        software: server.options.software.clone(),
        introduction: (!server.options.hosts.is_empty())
            .then(|| crate::methods::features_of(server, crate::version::HIGHEST)),
    })
}

/// The first host in a server's description of itself.
fn address_of(features: &Value) -> Option<Address> {
    let (host, ports) = features["hosts"].as_object()?.iter().next()?;
    let port = |name: &str| {
        ports[name]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
    };
    Address {
        host: host.clone(),
        tcp: port("tcp_port"),
        ssl: port("ssl_port"),
    }
    .check()
}

/// Networks that are likely run by one operator.
#[derive(PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 2]),
    V6([u16; 2]),
}

impl Network {
    fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => {
                let [a, b, ..] = ip.octets();
                Self::V4([a, b])
            }
            IpAddr::V6(ip) => {
                let [a, b, ..] = ip.segments();
                Self::V6([a, b])
            }
        }
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_broadcast()
                || ip.is_documentation()
                || ip.is_multicast()
                || is_shared
                || ip.octets()[0] == 0
                || ip == Ipv4Addr::BROADCAST)
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_unique_local()
                || ip.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_they_are_written() {
        let read =
            |text| Address::parse(text).map(|address| (address.host, address.ssl, address.tcp));
        assert_eq!(
            read("a.example s50002 t50001"),
            Some(("a.example".into(), Some(50_002), Some(50_001)))
        );
        assert_eq!(
            read("1.2.3.4 s v1.6 p100"),
            Some(("1.2.3.4".into(), Some(50_002), None))
        );
        for text in ["", "a.example", "a.example s99999", "a/b s1", "a_b s1"] {
            assert_eq!(read(text), None, "{text}");
        }
        for (ip, expected) in [
            ("8.8.8.8", true),
            ("10.1.1.1", false),
            ("127.0.0.1", false),
            ("100.64.0.1", false),
            ("::1", false),
            ("2600::1", true),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_public(ip.parse().expect(ip)), expected, "{ip}");
        }
    }

    #[test]
    fn servers_are_bounded_and_forgotten() {
        let options = ElectrumOptions {
            peer_discovery: true,
            peers: vec!["a.example s".to_owned(), "nonsense".to_owned()],
            ..ElectrumOptions::default()
        };
        let peers = Peers::new(&options);
        for n in 0..KNOWN_MAX * 2 {
            peers.add(Address {
                host: format!("h{n}.example"),
                tcp: Some(1),
                ssl: None,
            });
        }
        assert_eq!(peers.lock().len(), KNOWN_MAX);
        assert_eq!(peers.list(), json!([]), "none was visited yet");
        let [address] = &peers.due(1)[..] else {
            panic!("one is due")
        };
        let visited = Visited {
            ip: Ipv4Addr::new(8, 8, 8, 8).into(),
            version: "1.6".into(),
            peers: Vec::new(),
        };
        peers.visited(address, Some(visited));
        assert_eq!(
            peers.list(),
            json!([["8.8.8.8", address.host, address.features("1.6")]])
        );
        for _ in 0..FAILURES_MAX {
            peers.visited(address, None);
        }
        assert_eq!(peers.list(), json!([]));
    }
}
