//! Which layer wins, and how the environment and the command line name keys.

use cairn_config::{Environment, Sources};

use crate::{chain, load_with, utxo};

#[test]
fn precedence() {
    let file = "[http]\nlisten = \"file:1\"";
    let environment = [("CAIRN_HTTP__LISTEN", "environment:2")];
    let overrides = [("http.listen", "cli:3")];
    let port = |file: &str, environment: &[(&str, &str)], overrides: &[(&str, &str)]| {
        let loaded = load_with(file, environment, overrides).expect("valid");
        loaded.config.http.listen.to_string()
    };
    assert_eq!(port("", &[], &[]), "127.0.0.1:3000");
    assert_eq!(port(file, &[], &[]), "file:1");
    assert_eq!(port(file, &environment, &[]), "environment:2");
    assert_eq!(port(file, &environment, &overrides), "cli:3");
    assert_eq!(
        port("", &[], &[("http.listen", "a:1"), ("http.listen", "b:2")]),
        "b:2"
    );
}

/// Names of keys in the environment and on the command line, and what they set.
#[test]
fn names() {
    let file = chain("").replace("\"a\"", "\"btc-main.1\"");
    let check = |environment: &[(&str, &str)], overrides: &[(&str, &str)]| {
        let loaded = load_with(&file, environment, overrides)
            .unwrap_or_else(|error| panic!("{environment:?} {overrides:?}: {error}"));
        assert_eq!(loaded.config.chains.len(), 1);
        (utxo(&loaded.config).threads, loaded.warnings)
    };
    for environment in [
        ("CAIRN_CHAIN__0__THREADS", "7"),
        ("CAIRN_CHAIN__BTC_MAIN_1__THREADS", "7"),
    ] {
        assert_eq!(check(&[environment], &[]), (7, vec![]), "{environment:?}");
    }
    for set in [("chain.0.threads", "7"), ("chain.btc-main.1.threads", "7")] {
        assert_eq!(check(&[], &[set]), (7, vec![]), "{set:?}");
    }
    // Variables of commands, and of others, are not settings.
    assert_eq!(
        check(
            &[
                ("CAIRN_CONFIG", "x"),
                ("CAIRNS", "y"),
                ("HTTP__LISTEN", "z")
            ],
            &[]
        ),
        (0, vec![])
    );
}

#[test]
fn values_are_read_by_type() {
    let set = |path: &str, value: &str| {
        load_with(&chain(""), &[], &[(path, value)]).map(|loaded| loaded.config)
    };
    for (text, expected) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        assert_eq!(
            utxo(&set("chain.a.light_mode", text).expect(text)).light_mode,
            expected
        );
    }
    for (text, expected) in [
        ("", vec![]),
        ("*", vec!["*"]),
        ("https://a, https://b", vec!["https://a", "https://b"]),
        (
            "[\"https://a\", \"https://b\"]",
            vec!["https://a", "https://b"],
        ),
    ] {
        assert_eq!(set("http.cors", text).expect(text).http.cors, expected);
    }
    for (path, text, part) in [
        ("chain.a.light_mode", "yes", "expected true or false"),
        ("chain.a.threads", "many", "expected a whole number"),
        ("chain.a.threads", "-1", "out of range"),
        ("http.cors", "[1]", "list"),
        ("http.cors", "[\"a", "expected a list of strings"),
    ] {
        let error = set(path, text).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(part), "{path}={text}: {error}");
    }
}

#[test]
fn a_chain_can_come_from_the_environment_alone() {
    let environment = [
        ("CAIRN_CHAIN__0__ID", "btc"),
        ("CAIRN_CHAIN__0__KIND", "bitcoin"),
        ("CAIRN_CHAIN__0__NETWORK", "regtest"),
        ("CAIRN_CHAIN__0__RPC_URL", "http://bob:geheim@node:18443"),
    ];
    let sources = Sources {
        environment: Environment::from_pairs(environment),
        ..Sources::default()
    };
    let config = cairn_config::load(&sources).expect("valid").config;
    assert_eq!(config.chains[0].id(), "btc");
    assert!(utxo(&config).rpc.is_some());
}

/// A name with the prefix that is no setting is pointed out, unless the file refers to it.
#[test]
fn stray_variables() {
    let environment = [("CAIRN_DATADIR", "/x"), ("CAIRN_ADMIN_TOKEN", "y")];
    let loaded =
        load_with("data_dir = \"/d/${CAIRN_ADMIN_TOKEN}\"", &environment, &[]).expect("valid");
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:?}", loaded.warnings)
    };
    assert!(warning.contains("CAIRN_DATADIR"), "{warning}");
}

#[test]
fn only_the_file_is_substituted() {
    let environment = [("NAME", "value"), ("CAIRN_DATA_DIR", "/e/${NAME}")];
    assert_eq!(
        load_with("", &environment, &[])
            .expect("valid")
            .config
            .data_dir
            .to_str(),
        Some("/e/${NAME}")
    );
    let file = load_with("data_dir = \"/f/${NAME}\"", &environment[..1], &[]).expect("valid");
    assert_eq!(file.config.data_dir.to_str(), Some("/f/value"));
}
