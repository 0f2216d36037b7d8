//! `server.*`.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Answer, Ask, Reply, value};
use crate::peers::AddOutcome;
use crate::rpc::{Args, Json, RpcError};
use crate::server::Server;
use crate::version::{self, HIGHEST, LOWEST, V1_7, Version};

/// What a client that names no version speaks.
const DEFAULT_VERSION: &str = "1.4";

/// Agrees on a version with a client that has not yet. A failure closes the session.
pub(crate) fn negotiate(params: Option<&RawValue>) -> Result<Version, RpcError> {
    // Further arguments are for later versions of the protocol.
    let args = Args::bind_lenient(params, ["client_name", "protocol_version"])
        .map_err(RpcError::closing)?;
    let range = match args.raw(1) {
        None => Some((
            Cow::Borrowed(DEFAULT_VERSION),
            Cow::Borrowed(DEFAULT_VERSION),
        )),
        Some(raw) if raw.get().starts_with('"') => {
            args.text(1).ok().map(|text| (text.clone(), text))
        }
        Some(_) => match args.texts(1, 2).ok().as_deref() {
            Some([min, max]) => Some((Cow::Owned(min.clone()), Cow::Owned(max.clone()))),
            _ => None,
        },
    };
    range
        .and_then(|(min, max)| version::negotiate(&min, &max))
        .ok_or_else(|| {
            RpcError::bad(format!(
                "unsupported protocol version; this server speaks {LOWEST} to {HIGHEST}"
            ))
            .closing()
        })
}

/// A version was agreed on already.
pub(super) fn version_again() -> Answer {
    Err(RpcError::bad("server.version already sent"))
}

pub(super) fn ping(ask: &Ask<'_>) -> Answer {
    if ask.version < V1_7 {
        Args::bind(ask.params, [], 0)?;
        return value(());
    }
    let args = Args::bind(ask.params, ["pong_len", "data"], 0)?;
    let length = args.number_or(0, 0)?;
    // What it holds does not matter; it is there to be of a certain length.
    args.text_opt(1)?;
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= ask.server.options.limits.response_bytes)
        .ok_or_else(|| {
            RpcError::bad(format!(
                "pong_len is at most {}",
                ask.server.options.limits.response_bytes
            ))
        })?;
    let mut json = Json::with_capacity(length + 12);
    json.raw("{\"data\":\"").repeat(b'0', length).raw("\"}");
    Ok(Reply { json, cost: 0.0 })
}

pub(super) async fn banner(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let options = &ask.server.options;
    let mut text = options
        .banner
        .replace("$SERVER_VERSION", &options.software)
        .replace("$SERVER_SUBVERSION", &options.software)
        .replace("$DONATION_ADDRESS", &options.donation_address);
    if text.contains("$DAEMON_") {
        // Without its node a server has a banner all the same.
        let node = match &ask.server.node {
            Some(node) => ask.server.facts.identity(node).await.unwrap_or_default(),
            None => Default::default(),
        };
        let version = node.version;
        let version = format!(
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        );
        text = text
            .replace("$DAEMON_SUBVERSION", &node.subversion)
            .replace("$DAEMON_VERSION", &version);
    }
    value(text)
}

pub(super) fn donation_address(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    value(&ask.server.options.donation_address)
}

/// What a server says of itself, in `server.features` and to other servers.
pub(crate) fn features_of(server: &Server, version: Version) -> Value {
    let options = &server.options;
    let hosts: serde_json::Map<String, Value> = options
        .hosts
        .iter()
        .map(|host| {
            let mut ports = json!({"tcp_port": host.tcp_port, "ssl_port": host.ssl_port});
            for (name, port) in [("ws_port", host.ws_port), ("wss_port", host.wss_port)] {
                if let Some(port) = port {
                    ports[name] = port.into();
                }
            }
            (host.host.clone(), ports)
        })
        .collect();
    let genesis = server.index.network().genesis_hash();
    let mut features = json!({
        "hosts": hosts,
        "genesis_hash": genesis.to_string(),
        "server_version": options.software,
        "protocol_min": LOWEST.to_string(),
        "protocol_max": HIGHEST.to_string(),
        "pruning": null,
    });
    if version < V1_7 {
        features["hash_function"] = "sha256".into();
    }
    features
}

pub(super) fn features(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    value(features_of(ask.server, ask.version))
}

pub(super) fn peers(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    value(ask.server.peers.list())
}

pub(super) async fn add_peer(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["features"], 1)?;
    let features = args.raw(0).map(RawValue::get).unwrap_or("null");
    let features: Value =
        serde_json::from_str(features).map_err(|_| RpcError::bad("features is an object"))?;
    if !features.is_object() {
        return Err(RpcError::bad("features is an object"));
    }
    if !ask.session.first_peer() {
        return value(false);
    }
    let genesis = ask.server.index.network().genesis_hash().to_string();
    let outcome = ask
        .server
        .peers
        .offer(&features, &genesis, ask.session.client)
        .await;
    value(outcome == AddOutcome::Taken)
}
