//! Valid texts and the values they give.

use std::path::{Path, PathBuf};

use bitcoin::Network;
use cairn_config::{Listen, LogFormat, RpcAuth};
use secrecy::ExposeSecret;

use crate::{chain, load_with, valid};

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
    let [chain] = config.chains.as_slice() else {
        panic!("{config:?}")
    };
    assert_eq!(chain.id, "a");
    assert_eq!(chain.network, Network::Regtest);
    assert!(chain.rpc.is_none() && chain.node_dir.is_none() && chain.magic.is_none());
    assert_eq!(chain.blocks_dir, Some(PathBuf::from("/blocks")));
    assert_eq!(chain.esplora_listen, None);
    assert!(!chain.light_mode && !chain.address_search && !chain.index_unspendables);
    assert_eq!(
        (chain.utxos_limit, chain.scan_rows_max, chain.threads),
        (10_000, 100_000, 0)
    );
    assert_eq!(chain.memory_bytes, 1_024_000_000);
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
    let chain = config.chain("Btc.main_1-x").expect("it is there");
    assert_eq!(chain.network, Network::Signet);
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
        let rpc = loaded.config.chains[0].rpc.as_ref().expect("it is there");
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
    match &valid(&percent).config.chains[0]
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
        unnamed.chains[0].rpc.as_ref().expect("it is there").auth,
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
    for key in cairn_config::keys::KEYS {
        let path = key.path().replace("chain.", "chain[0].");
        shown(&path);
    }
    assert_eq!(loaded.settings.len(), cairn_config::keys::KEYS.len());
}
