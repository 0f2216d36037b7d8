//! Valid texts and the values they give.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::Network;
use cairn_config::keys::{KEYS, Scope};
use cairn_config::{
    AbiFallback, AssetRegistrySource, CertificateFiles, ChainConfig, JsonProfile, Listen,
    LogFormat, RpcAuth, TrimPolicy, UtxoNetwork,
};
use cairn_utxo_chain::network::ElementsKind;
use secrecy::ExposeSecret;

use crate::{chain, liquid, load_with, utxo, valid};

fn tcp(host: &str, port: u16) -> Listen {
    Listen::Tcp {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn an_empty_file_is_all_defaults() {
    let loaded = valid("");
    let config = loaded.config;
    assert_eq!(config.data_dir, Path::new("cairn-data"));
    assert_eq!(config.http.listen, tcp("127.0.0.1", 3000));
    assert!(config.http.cors.is_empty());
    assert_eq!(config.telemetry.log, "info");
    assert_eq!(config.telemetry.format, LogFormat::Auto);
    assert_eq!(config.telemetry.metrics_listen, None);
    assert!(config.chains.is_empty());
    assert!(loaded.warnings.is_empty());
}

#[test]
fn a_chain_of_files_has_the_documented_defaults() {
    let config = valid(&chain("")).config;
    let [ChainConfig::Utxo(chain)] = config.chains.as_slice() else {
        panic!("{config:?}")
    };
    assert_eq!(chain.id, "a");
    assert_eq!(chain.network, UtxoNetwork::Bitcoin(Network::Regtest));
    assert!(chain.rpc.is_none() && chain.node_dir.is_none() && chain.magic.is_none());
    assert_eq!(chain.blocks_dir, Some(PathBuf::from("/blocks")));
    assert_eq!(chain.esplora_listen, None);
    assert!(!chain.light_mode && !chain.address_search && !chain.index_unspendables);
    assert_eq!(
        (chain.utxos_limit, chain.scan_rows_max, chain.threads),
        (10_000, 100_000, 0)
    );
    assert_eq!(chain.memory_bytes, 1_024_000_000);
    assert_eq!(chain.esplora.cache_bytes, 128_000_000);
    assert!(!chain.esplora.mempool_line && !chain.esplora.internal && !chain.esplora.mining);
    assert_eq!(config.chain_dir("a"), Path::new("cairn-data/chains/a"));
}

#[test]
fn every_key_of_a_chain_is_read() {
    let text = r#"
data_dir = "/var/lib/cairn"
http = { listen = "[::1]:80", cors = ["https://a.example", "*"] }
telemetry.log = "debug"
telemetry.format = "json"
telemetry.metrics_listen = "unix:/run/m.sock"
[[chain]]
id = "Btc.main_1-x"
kind = "bitcoin"
network = "signet"
rpc_url = "http://node.example:8332/wallet"
rpc_cookie_file = "/c"
node_dir = "/node"
blocks_dir = "/b"
signet_challenge = "51"
magic = "0A03cf40"
esplora_listen = "0.0.0.0:4000"
esplora_cache_mb = 7
esplora_mempool_line = true
esplora_internal = true
esplora_mining = true
zmq_url = "tcp://[::1]:28332"
electrum_listen = ["0.0.0.0:50001", "unix:/run/e.sock"]
electrum_tls_listen = ["0.0.0.0:50002"]
electrum_ws_listen = ["0.0.0.0:50003"]
electrum_wss_listen = ["0.0.0.0:50004"]
tls_cert_file = "/cert"
tls_key_file = "/key"
electrum_banner_file = "/banner"
electrum_donation_address = "bc1q"
electrum_proxy_listen = ["0.0.0.0:50005"]
electrum_proxy_tls_listen = ["0.0.0.0:50006"]
electrum_proxy_from = ["10.0.0.0/8"]
electrum_server_name = "mine"
electrum_version_first = false
electrum_public_hosts = ["e.example t1 s2"]
electrum_peer_discovery = true
electrum_peers = ["p.example s3"]
electrum_history_limit = 0
electrum_sessions_max = 1
electrum_sessions_per_network = 2
electrum_subscriptions_max = 3
electrum_subscriptions_per_session = 4
electrum_request_bytes_max = 10000
electrum_batch_max = 5
electrum_idle_seconds = 60
electrum_cost_soft = 100
electrum_cost_hard = 200
electrum_exempt = ["::1", "192.168.0.0/16"]
light_mode = true
address_search = true
index_unspendables = true
utxos_limit = 0x1F4
history_limit = 0
scan_rows_max = 1_000
memory_mb = 64
threads = 3
"#;
    let config = valid(text).config;
    assert_eq!(config.http.listen, tcp("::1", 80));
    assert_eq!(config.http.cors, ["https://a.example", "*"]);
    assert_eq!(config.telemetry.format, LogFormat::Json);
    assert_eq!(
        config.telemetry.metrics_listen,
        Some(Listen::Unix("/run/m.sock".into()))
    );
    assert!(config.chain("Btc.main_1-x").is_some());
    let chain = utxo(&config);
    assert_eq!(chain.network, UtxoNetwork::Bitcoin(Network::Signet));
    let rpc = chain.rpc.as_ref().expect("it is there");
    assert_eq!(rpc.url, "http://node.example:8332/wallet");
    assert!(matches!(&rpc.auth, RpcAuth::CookieFile(path) if path == Path::new("/c")));
    assert_eq!(
        (chain.node_dir.as_deref(), chain.blocks_dir.as_deref()),
        (Some(Path::new("/node")), Some(Path::new("/b")))
    );
    assert_eq!(chain.signet_challenge, Some(vec![0x51]));
    assert_eq!(chain.magic, Some([0x0a, 0x03, 0xcf, 0x40]));
    assert_eq!(chain.esplora_listen, Some(tcp("0.0.0.0", 4000)));
    assert_eq!(chain.esplora.cache_bytes, 7_000_000);
    assert!(chain.esplora.mempool_line && chain.esplora.internal && chain.esplora.mining);
    assert_eq!(chain.zmq_url.as_deref(), Some("tcp://[::1]:28332"));
    let electrum = &chain.electrum;
    let unix = Listen::Unix("/run/e.sock".into());
    assert_eq!(electrum.tcp, [tcp("0.0.0.0", 50001), unix]);
    assert_eq!(electrum.tls, [tcp("0.0.0.0", 50002)]);
    assert_eq!(electrum.ws, [tcp("0.0.0.0", 50003)]);
    assert_eq!(electrum.wss, [tcp("0.0.0.0", 50004)]);
    assert_eq!(
        electrum.certificate,
        Some(CertificateFiles {
            cert: "/cert".into(),
            key: "/key".into()
        })
    );
    assert_eq!(electrum.banner_file.as_deref(), Some(Path::new("/banner")));
    assert_eq!(electrum.donation_address, "bc1q");
    assert_eq!(electrum.proxy, [tcp("0.0.0.0", 50005)]);
    assert_eq!(electrum.proxy_tls, [tcp("0.0.0.0", 50006)]);
    assert_eq!((electrum.proxy_from[0].bits, electrum.exempt.len()), (8, 2));
    assert_eq!(electrum.server_name, "mine");
    assert!(!electrum.version_first && electrum.peer_discovery);
    assert_eq!(
        (electrum.public_hosts[0].tcp, electrum.public_hosts[0].ssl),
        (Some(1), Some(2))
    );
    assert_eq!(electrum.peers[0].host, "p.example");
    assert_eq!(
        (
            electrum.history_limit,
            electrum.sessions_max,
            electrum.sessions_per_network
        ),
        (0, 1, 2)
    );
    assert_eq!(
        (
            electrum.subscriptions_max,
            electrum.subscriptions_per_session
        ),
        (3, 4)
    );
    assert_eq!(
        (electrum.request_bytes_max, electrum.batch_max),
        (10_000, 5)
    );
    assert_eq!(
        (
            electrum.idle_seconds,
            electrum.cost_soft,
            electrum.cost_hard
        ),
        (60, 100, 200)
    );
    assert!(chain.light_mode && chain.address_search && chain.index_unspendables);
    assert_eq!(
        (chain.utxos_limit, chain.scan_rows_max, chain.threads),
        (500, 1000, 3)
    );
    assert_eq!(chain.memory_bytes, 64_000_000);
}

/// Credentials given in each possible way arrive as the same pair, and the URL keeps none.
#[test]
fn credentials() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("password");
    std::fs::write(&file, "geheim\r\n").expect("writable");
    let of_file = format!(
        "rpc_user = \"bob\"\nrpc_password_file = \"{}\"",
        file.display()
    );
    let url = "rpc_url = \"http://h:1\"";
    for keys in [
        format!("{url}\nrpc_user = \"bob\"\nrpc_password = \"${{PW}}\""),
        format!("{url}\n{of_file}"),
        "rpc_url = \"http://bob:${PW}@h:1\"".to_owned(),
        "rpc_url = \"${URL}\"".to_owned(),
    ] {
        let environment = [("PW", "geheim"), ("URL", "http://bob:geheim@h:1")];
        let loaded = load_with(&chain(&keys), &environment, &[])
            .unwrap_or_else(|error| panic!("{keys}: {error}"));
        let rpc = utxo(&loaded.config).rpc.as_ref().expect("it is there");
        assert_eq!(rpc.url, "http://h:1", "{keys}");
        match &rpc.auth {
            RpcAuth::UserPassword { user, password } => {
                assert_eq!(
                    (user.as_str(), password.expose_secret()),
                    ("bob", "geheim"),
                    "{keys}"
                );
            }
            other => panic!("{keys}: {other:?}"),
        }
    }
    let percent = chain("rpc_url = \"http://b%40b:a%3Ab@h:1\"").replacen(
        "[[chain]]",
        "allow_inline_secrets = true\n[[chain]]",
        1,
    );
    match &utxo(&valid(&percent).config)
        .rpc
        .as_ref()
        .expect("it is there")
        .auth
    {
        RpcAuth::UserPassword { user, password } => {
            assert_eq!((user.as_str(), password.expose_secret()), ("b@b", "a:b"));
        }
        other => panic!("{other:?}"),
    }
    let unnamed = valid(&chain(url)).config;
    assert!(matches!(
        utxo(&unnamed).rpc.as_ref().expect("it is there").auth,
        RpcAuth::Unnamed
    ));
}

#[test]
fn settings_name_every_key_and_its_origin() {
    let loaded = load_with(
        &chain("light_mode = true"),
        &[("CAIRN_HTTP__LISTEN", "h:1")],
        &[("chain.a.threads", "2")],
    )
    .expect("valid");
    let shown = |path: &str| {
        let setting = loaded.settings.iter().find(|setting| setting.path == path);
        let setting = setting.unwrap_or_else(|| panic!("{path} is missing"));
        format!("{} # {}", setting.value, setting.place)
    };
    assert_eq!(
        shown("http.listen"),
        "\"h:1\" # environment variable CAIRN_HTTP__LISTEN"
    );
    assert_eq!(shown("chain[0].light_mode"), "true # cairn.toml:6");
    assert_eq!(
        shown("chain[0].threads"),
        "2 # command line --set chain.a.threads"
    );
    assert_eq!(shown("http.cors"), "[] # default");
    let of_this_kind = KEYS.iter().filter(|key| Scope::Utxo.has_keys_of(key.scope));
    for key in of_this_kind.clone() {
        shown(&key.path().replace("chain.", "chain[0]."));
    }
    assert_eq!(loaded.settings.len(), of_this_kind.count());
}

#[test]
fn every_key_of_an_antelope_chain_is_read() {
    let id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906";
    let text = format!(
        r#"
[[chain]]
id = "eos"
kind = "antelope"
ship_url = "ws://node:8080"
chain_url = "https://node/path"
abi_fallback = "fail"
irreversible_only = true
start_block = -100
expect_chain_id = "{id}"
json_profile = "nodeos"
"#
    );
    let config = valid(&text).config;
    assert!(config.needs_redis() && config.utxo_chains().next().is_none());
    let chain = config.antelope_chains().next().expect("it is there");
    assert_eq!(
        (chain.id.as_str(), chain.ship_url.as_str()),
        ("eos", "ws://node:8080")
    );
    assert_eq!(chain.chain_url.as_deref(), Some("https://node/path"));
    assert_eq!(chain.abi_fallback, AbiFallback::Fail);
    assert_eq!(chain.json_profile, JsonProfile::Nodeos);
    assert!(chain.irreversible_only);
    assert_eq!(chain.start_block, -100);
    assert_eq!(
        chain.expect_chain_id.map(|id| (id[0], id[31])),
        Some((0xac, 0x06))
    );
}

#[test]
fn every_key_of_the_shared_services_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "gatekeeper\n").expect("writable");
    let text = format!(
        r#"
[redis]
url = "redis://:${{PW}}@r:1/2"
server = "/opt/redis-server"
[stream]
window_hours = 2
trim_interval_seconds = 5
policy = "hold"
hold_max_hours = 3
max_len = 7
min_blocks = 8
token = "${{PW}}"
[scanner]
enabled = true
host_id = "game-1"
admin_token = "${{PW}}"
ingest_token_file = "{}"
"#,
        token.display()
    );
    let loaded = load_with(&text, &[("PW", "geheim")], &[]).expect("valid");
    let config = &loaded.config;
    assert!(config.needs_redis());
    let url = config.redis.url.as_ref().expect("it is there");
    assert_eq!(url.expose_secret(), "redis://:geheim@r:1/2");
    assert_eq!(config.redis.server, Path::new("/opt/redis-server"));
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert_eq!(config.stream.window, hours(2));
    assert_eq!(config.stream.trim_interval, Duration::from_secs(5));
    let at_most = hours(3);
    assert_eq!(config.stream.policy, TrimPolicy::Hold { at_most });
    assert_eq!(
        (config.stream.max_len, config.stream.min_blocks),
        (Some(7), 8)
    );
    let token = config.stream.token.as_ref().expect("it is there");
    assert_eq!(token.expose_secret(), "geheim");
    let scanner = config.scanner.as_ref().expect("enabled");
    assert_eq!(
        (scanner.host_id.as_str(), scanner.chain_id.as_str()),
        ("game-1", "ledger-game-1")
    );
    let secret = |token: &Option<secrecy::SecretString>| {
        token.as_ref().map(|token| token.expose_secret().to_owned())
    };
    assert_eq!(secret(&scanner.admin_token).as_deref(), Some("geheim"));
    assert_eq!(secret(&scanner.ingest_token).as_deref(), Some("gatekeeper"));
    let printed = format!("{config:?} {:?}", loaded.settings);
    assert!(!printed.contains("geheim") && !printed.contains("gatekeeper"));
}

#[test]
fn a_chain_of_liquid_has_the_keys_of_bitcoin_and_its_own() {
    let config = valid(&liquid("light_mode = true")).config;
    let [ChainConfig::Utxo(chain)] = config.chains.as_slice() else {
        panic!("{config:?}")
    };
    let UtxoNetwork::Elements(elements) = &chain.network else {
        panic!("{chain:?}")
    };
    assert!(chain.light_mode);
    assert_eq!(elements.kind, ElementsKind::Regtest);
    assert_eq!(elements.parent, Network::Regtest);
    assert_eq!(elements.addresses, ElementsKind::Regtest.addresses());
    assert_eq!(elements.registry, None);
    for (value, expected) in [
        ("/assets", AssetRegistrySource::Folder("/assets".into())),
        (
            "https://assets.example/",
            AssetRegistrySource::Url("https://assets.example/".into()),
        ),
    ] {
        let keys = format!(
            "parent_network = \"signet\"\naddress_prefixes = \"1 2 3 aa bb\"\nasset_registry = \"{value}\""
        );
        let config = valid(&liquid(&keys)).config;
        let [ChainConfig::Utxo(chain)] = config.chains.as_slice() else {
            panic!("{config:?}")
        };
        let UtxoNetwork::Elements(elements) = &chain.network else {
            panic!("{chain:?}")
        };
        assert_eq!(elements.parent, Network::Signet);
        assert_eq!(elements.registry, Some(expected));
        let addresses = &elements.addresses;
        assert_eq!((addresses.p2pkh_prefix, addresses.blinded_prefix), (1, 3));
        assert_eq!(addresses.blech_hrp.to_string(), "bb");
    }
}
