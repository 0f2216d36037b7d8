//! The example file and the manual page are what the table of keys says. `BLESS=1` writes them anew.

use std::path::Path;

use cairn_config::keys::{Example, KEYS, Scope, Section};

use crate::{load_with, valid};

fn compare(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, expected).expect("the folder is writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written,
        expected,
        "{} is stale: run the test with BLESS=1",
        path.display()
    );
}

#[test]
fn the_example_file_is_the_table() {
    compare(
        "cairn.example.toml",
        &cairn_config::reference::example_file(),
    );
}

#[test]
fn the_manual_page_is_the_table() {
    compare("docs/configuration.md", &cairn_config::reference::manual());
}

/// The file as it is shipped is valid, and what it shows as defaults are the defaults.
#[test]
fn the_example_file_has_the_defaults() {
    let example = valid(&cairn_config::reference::example_file());
    assert!(example.warnings.is_empty());
    let bare = valid(
        "[[chain]]\nid = \"bitcoin-regtest\"\nkind = \"bitcoin\"\nnetwork = \"regtest\"\nrpc_url = \"http://127.0.0.1:18443\"\n\
         electrum_listen = [\"127.0.0.1:50001\"]\n\
         [[chain]]\nid = \"liquid\"\nkind = \"liquid\"\nnetwork = \"liquid\"\nrpc_url = \"http://127.0.0.1:7041\"\n\
         electrum_listen = [\"127.0.0.1:51001\"]\n\
         [[chain]]\nid = \"eos-mainnet\"\nkind = \"antelope\"\nship_url = \"ws://127.0.0.1:8080\"\n\
         chain_url = \"http://127.0.0.1:8888\"",
    );
    let values = |loaded: &cairn_config::Loaded| -> Vec<(String, serde_json::Value)> {
        loaded
            .settings
            .iter()
            .map(|setting| (setting.path.clone(), setting.value.clone()))
            .collect()
    };
    assert_eq!(values(&example), values(&bare));
    assert_eq!(
        format!("{:?}", example.config),
        format!("{:?}", bare.config)
    );
    // The keys of chains are there once for each kind that has them.
    let kinds = [Scope::Utxo, Scope::Liquid, Scope::Antelope];
    let of_chains = kinds.iter().flat_map(|kind| {
        KEYS.iter()
            .filter(move |key| key.section == Section::Chain && kind.has_keys_of(key.scope))
    });
    let others = KEYS.iter().filter(|key| key.section != Section::Chain);
    assert_eq!(example.settings.len(), others.count() + of_chains.count());
}

/// Keys that the file shows as comments are valid when the comment sign is taken away.
#[test]
fn commented_keys_are_valid_too() {
    let mut text = cairn_config::reference::example_file();
    for key in KEYS {
        if let Example::Commented(value) = key.example {
            let line = format!("# {} = {value}", key.name);
            assert!(text.contains(&line), "{line}");
            text = text.replace(&line, &line[2..]);
        }
    }
    let text = text.replace("rpc_user = \"\"", "rpc_user = \"bob\"");
    let environment = [
        ("BITCOIN_RPC_PASSWORD", "x"),
        ("CAIRN_ADMIN_TOKEN", "y"),
        ("CAIRN_INGEST_TOKEN", "z"),
        ("CAIRN_STREAM_TOKEN", "t"),
    ];
    load_with(&text, &environment, &[]).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_key_is_shown_and_explained() {
    let example = cairn_config::reference::example_file();
    let manual = cairn_config::reference::manual();
    for key in KEYS {
        let shown = example.lines().any(|line| {
            line.trim_start_matches("# ")
                .starts_with(&format!("{} = ", key.name))
        });
        assert!(shown, "{} in the example", key.path());
        assert!(
            manual.contains(&format!("| `{}` |", key.name)),
            "{} in the manual",
            key.path()
        );
    }
}
