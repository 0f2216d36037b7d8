//! The keys of a chain of kind `bitcoin` or `liquid`.

use std::path::Path;

use bitcoin::Network;
use bitcoin::hex::FromHex;
use secrecy::SecretString;

use super::{electrum, liquid};
use crate::keys::Scope;
use crate::model::{EsploraConfig, Listen, RpcAuth, RpcConfig, UtxoConfig, UtxoNetwork};
use crate::network::{self, NETWORKS};
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};
use crate::redact::{percent_decode, redact_url, user_info};
use crate::values::{read_listen, read_secret_file, set_path, to_usize};

/// Longest signet challenge, bytes: the limit of a script.
const CHALLENGE_BYTES_MAX: usize = 10_000;

const MB: u64 = 1_000_000;

/// Reads the keys. Problems are left in the reader; the result is meaningful only when there are none.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, id: String, scope: Scope) -> UtxoConfig {
    let network = match scope {
        Scope::Liquid => Some(UtxoNetwork::Elements(Box::new(liquid::read(reader, at)))),
        _ => read_network(reader, at).map(UtxoNetwork::Bitcoin),
    };
    let problems_before = reader.problems.len();
    let rpc_url = reader.text(at, "rpc_url");
    let node_dir = reader.text(at, "node_dir");
    let blocks_dir = reader.text(at, "blocks_dir");
    // A source that is given wrongly has been reported as that.
    let is_source_known = reader.problems.len() == problems_before;
    if is_source_known && rpc_url.is_empty() && node_dir.is_empty() && blocks_dir.is_empty() {
        reader.problem(
            at,
            "",
            ProblemKind::Missing,
            "the chain has no source: give rpc_url, node_dir or blocks_dir",
        );
    }
    let cookie_file = reader.text(at, "rpc_cookie_file");
    let user = reader.text(at, "rpc_user");
    let password = reader.text(at, "rpc_password");
    let password_file = reader.text(at, "rpc_password_file");
    let given = GivenCredentials {
        cookie_file,
        user,
        password,
        password_file,
    };
    let rpc = read_rpc(reader, at, &rpc_url, given);
    let signet_challenge = read_challenge(reader, at, network.as_ref());
    let magic = read_magic(reader, at);
    let esplora_listen = read_listen(reader, at, "esplora_listen");
    let esplora = EsploraConfig {
        cache_bytes: reader.integer(at, "esplora_cache_mb").saturating_mul(MB),
        mempool_line: reader.bool(at, "esplora_mempool_line"),
        internal: reader.bool(at, "esplora_internal"),
        mining: reader.bool(at, "esplora_mining"),
    };
    let zmq_url = read_zmq(reader, at);
    let electrum = electrum::read(reader, at);
    let light_mode = reader.bool(at, "light_mode");
    let address_search = reader.bool(at, "address_search");
    let index_unspendables = reader.bool(at, "index_unspendables");
    let utxos_limit = reader.integer(at, "utxos_limit");
    if reader.integer(at, "history_limit") != 0 {
        reader.problem(
            at,
            "history_limit",
            ProblemKind::Unsupported,
            "this version of Cairn supports 0 only (no limit: every history has pages)",
        );
    }
    let scan_rows_max = reader.integer(at, "scan_rows_max");
    let memory_mb = reader.integer(at, "memory_mb");
    let threads = reader.integer(at, "threads");
    UtxoConfig {
        id,
        network: network.unwrap_or(UtxoNetwork::Bitcoin(Network::Regtest)),
        magic,
        signet_challenge,
        rpc,
        node_dir: set_path(node_dir),
        blocks_dir: set_path(blocks_dir),
        esplora_listen,
        esplora,
        zmq_url,
        electrum,
        light_mode,
        address_search,
        index_unspendables,
        utxos_limit: to_usize(utxos_limit),
        scan_rows_max: to_usize(scan_rows_max),
        memory_bytes: memory_mb.saturating_mul(MB),
        threads: to_usize(threads),
    }
}

fn read_network(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Network> {
    let name = reader.text(at, "network");
    let network = network::parse_network(&name);
    if network.is_none() && at.raw.entries.contains_key("network") {
        let names = NETWORKS.map(|(_, name)| name).join(", ");
        let message = format!("\"{name}\" is not a network; expected one of {names}");
        reader.problem(at, "network", ProblemKind::InvalidValue, message);
    }
    network
}

struct GivenCredentials {
    cookie_file: String,
    user: String,
    password: String,
    password_file: String,
}

fn read_rpc(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    rpc_url: &str,
    given: GivenCredentials,
) -> Option<RpcConfig> {
    if rpc_url.is_empty() {
        let unused = [
            "rpc_cookie_file",
            "rpc_user",
            "rpc_password",
            "rpc_password_file",
        ]
        .into_iter()
        .filter(|_| reader.is_blank(at, "rpc_url"))
        .find(|name| !reader.is_blank(at, name));
        if let Some(name) = unused {
            reader.problem(
                at,
                name,
                ProblemKind::InvalidValue,
                "has no effect without rpc_url",
            );
        }
        return None;
    }
    let (url, in_url) = match split_url(rpc_url) {
        Ok(parts) => parts,
        Err(message) => {
            let message = format!("\"{}\" {message}", redact_url(rpc_url));
            reader.problem(at, "rpc_url", ProblemKind::InvalidValue, message);
            return None;
        }
    };
    let password_of_file = match given.password_file.as_str() {
        "" => None,
        file => match read_secret_file(Path::new(file)) {
            Ok(password) => Some(password),
            Err(message) => {
                reader.problem(at, "rpc_password_file", ProblemKind::Unreadable, message);
                return None;
            }
        },
    };
    let mut contradiction = |name: &str, message: &str| {
        reader.problem(at, name, ProblemKind::InvalidValue, message);
        None
    };
    if in_url.is_some()
        && !(given.user.is_empty() && given.password.is_empty() && password_of_file.is_none())
    {
        return contradiction(
            "rpc_user",
            "rpc_url holds a user already; give the credentials once",
        );
    }
    if !given.password.is_empty() && password_of_file.is_some() {
        return contradiction(
            "rpc_password_file",
            "rpc_password is given too; give one of the two",
        );
    }
    let password = Some(given.password)
        .filter(|password| !password.is_empty())
        .or(password_of_file);
    let pair = match (given.user, password) {
        (user, Some(_)) if user.is_empty() => {
            return contradiction("rpc_user", "a password is given without rpc_user");
        }
        (user, None) if !user.is_empty() => {
            return contradiction("rpc_user", "needs rpc_password or rpc_password_file");
        }
        (user, Some(password)) => Some((user, password)),
        (_, None) => in_url,
    };
    let auth = match (pair, set_path(given.cookie_file)) {
        (Some(_), Some(_)) => {
            return contradiction(
                "rpc_cookie_file",
                "a user and password are given too; give one of the two",
            );
        }
        (Some((user, password)), None) => RpcAuth::UserPassword {
            user,
            password: SecretString::from(password),
        },
        (None, Some(file)) => RpcAuth::CookieFile(file),
        (None, None) => RpcAuth::Unnamed,
    };
    Some(RpcConfig { url, auth })
}

type UserPassword = (String, String);

/// Takes the credentials out of a URL.
fn split_url(url: &str) -> Result<(String, Option<UserPassword>), String> {
    const SCHEMES: [&str; 2] = ["http://", "https://"];
    let Some(scheme) = SCHEMES.into_iter().find(|scheme| url.starts_with(scheme)) else {
        return Err("does not begin with http:// or https://".to_owned());
    };
    let (pair, rest) = match user_info(url) {
        None => (None, &url[scheme.len()..]),
        Some(range) => {
            let rest = &url[range.end + 1..];
            let Some((user, password)) = url[range].split_once(':') else {
                return Err("has a user without a password before its @".to_owned());
            };
            (Some((percent_decode(user), percent_decode(password))), rest)
        }
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = if host.contains(':') && !host.ends_with(']') {
        Listen::parse(host).map(|_| ())
    } else {
        // No port: any host does that could stand before one.
        Listen::parse(&format!("{host}:80")).map(|_| ())
    };
    if authority.is_err() {
        return Err(format!("has no usable host and port: \"{host}\""));
    }
    if rest.contains(char::is_whitespace) {
        return Err("has a space in it".to_owned());
    }
    Ok((format!("{scheme}{rest}"), pair))
}

fn read_challenge(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    network: Option<&UtxoNetwork>,
) -> Option<Vec<u8>> {
    let text = reader.text(at, "signet_challenge");
    if text.is_empty() {
        return None;
    }
    let Some(challenge) = Vec::<u8>::from_hex(&text)
        .ok()
        .filter(|challenge| challenge.len() <= CHALLENGE_BYTES_MAX)
    else {
        let message = format!("expected hex of at most {CHALLENGE_BYTES_MAX} bytes");
        reader.problem(at, "signet_challenge", ProblemKind::InvalidValue, message);
        return None;
    };
    if network.is_some_and(|network| *network != UtxoNetwork::Bitcoin(Network::Signet)) {
        let message = "only a chain with network = \"signet\" has a challenge";
        reader.problem(at, "signet_challenge", ProblemKind::InvalidValue, message);
    }
    Some(challenge)
}

fn read_magic(reader: &mut Reader<'_>, at: &At<'_>) -> Option<[u8; 4]> {
    let text = reader.text(at, "magic");
    if text.is_empty() {
        return None;
    }
    let magic = <[u8; 4]>::from_hex(&text).ok();
    if magic.is_none() {
        let message = format!("\"{text}\" is not 8 hex digits");
        reader.problem(at, "magic", ProblemKind::InvalidValue, message);
    }
    magic
}

fn read_zmq(reader: &mut Reader<'_>, at: &At<'_>) -> Option<String> {
    let url = reader.text(at, "zmq_url");
    if url.is_empty() {
        return None;
    }
    let is_address = url
        .strip_prefix("tcp://")
        .is_some_and(|address| matches!(Listen::parse(address), Ok(Listen::Tcp { .. })));
    if !is_address {
        let message = format!("\"{url}\" is not tcp://HOST:PORT");
        reader.problem(at, "zmq_url", ProblemKind::InvalidValue, message);
    }
    Some(url)
}
