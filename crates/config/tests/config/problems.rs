//! Invalid texts and what is said about them.

use cairn_config::ProblemKind;

use crate::{antelope, chain, liquid, load, load_with};

/// A text, and parts of the one problem it has: its line as shown.
fn check(text: &str, kind: ProblemKind, expected: &str) {
    match load(text) {
        Ok(_) => panic!("valid:\n{text}"),
        Err(error) => {
            let [problem] = error.problems.as_slice() else {
                panic!("{text}\nhas more:\n{error}")
            };
            assert_eq!(problem.kind, kind, "{text}\n{problem}");
            let shown = problem.to_string();
            assert!(
                shown.contains(expected),
                "{text}\n{shown}\nlacks {expected}"
            );
        }
    }
}

#[test]
fn unknown_keys_name_place_and_neighbour() {
    use ProblemKind::{UnknownKey, Unsupported};
    for (text, kind, expected) in [
        (
            "[http]\nlisen = \"a:1\"",
            UnknownKey,
            "cairn.toml:2: http.lisen: unknown key; nearest known key: http.listen",
        ),
        (
            "\n\ndatadir = \"x\"",
            UnknownKey,
            "cairn.toml:3: datadir: unknown key; nearest known key: data_dir",
        ),
        (
            "[htpp]\nlisten = \"a:1\"",
            UnknownKey,
            "cairn.toml:1: htpp: unknown key; nearest known key: [http]",
        ),
        (
            "listen = \"a:1\"",
            UnknownKey,
            "listen: unknown key; nearest known key: http.listen",
        ),
        (
            "telemetry.logs = \"info\"",
            UnknownKey,
            "telemetry.logs: unknown key; nearest known key: telemetry.log",
        ),
        (
            &chain("rpcurl = \"x\""),
            UnknownKey,
            "cairn.toml:6: chain[0].rpcurl: unknown key; nearest known key: chain.rpc_url",
        ),
        (
            &chain("publish_events = true"),
            Unsupported,
            "publish_events",
        ),
        (
            "[redis]\nurls = \"\"",
            UnknownKey,
            "cairn.toml:2: redis.urls: unknown key; nearest known key: redis.url",
        ),
        (
            &chain("history_limit = 5"),
            Unsupported,
            "history_limit: this version of Cairn supports 0 only",
        ),
    ] {
        check(text, kind, expected);
    }
}

#[test]
fn wrong_types() {
    use ProblemKind::WrongType;
    for (text, expected) in [
        (
            "data_dir = 1",
            "cairn.toml:1: data_dir: expected a string, got a whole number",
        ),
        ("data_dir = 1.5", "got a number with a fraction"),
        ("data_dir = 2020-01-01", "got a date"),
        ("data_dir = {}", "got a table"),
        (
            "allow_inline_secrets = \"yes\"",
            "expected true or false, got a string",
        ),
        ("http = 1", "http: this is a section; write it as [http]"),
        (
            "[http]\ncors = \"*\"",
            "expected a list of strings, got a string",
        ),
        (
            "[http]\ncors = [\"*\", 1]",
            "got a list that holds other things than strings",
        ),
        (
            "[chain]\nid = \"a\"",
            "chain: a chain is a section with double brackets: [[chain]]",
        ),
        (
            &chain("threads = \"1\""),
            "expected a whole number from 0 to 1024, got a string",
        ),
        (
            &chain("threads = 99999999999999999999"),
            "an integer that is too large",
        ),
    ] {
        check(text, WrongType, expected);
    }
}

#[test]
fn invalid_values() {
    use ProblemKind::{InvalidValue, Missing, Syntax, Unreadable, UnsetVariable};
    let id = |id: &str| chain("").replace("\"a\"", &format!("{id:?}"));
    let long = "x".repeat(65);
    for (text, kind, expected) in [
        (
            "data_dir = \"\"",
            InvalidValue,
            "data_dir: must not be empty",
        ),
        (
            "data_dir = \"${NOPE}\"",
            UnsetVariable,
            "cairn.toml:1: data_dir: environment variable NOPE is not set",
        ),
        ("data_dir = \"${NO\"", InvalidValue, "without"),
        ("data_dir = ", Syntax, "cairn.toml:1: not valid TOML"),
        (
            "data_dir = \"a\"\ndata_dir = \"b\"",
            Syntax,
            "cairn.toml:2: not valid TOML: duplicate key",
        ),
        (
            "[http]\nlisten = \"3000\"",
            InvalidValue,
            "cairn.toml:2: http.listen: \"3000\" has no port",
        ),
        ("[http]\nlisten = \"\"", InvalidValue, "http.listen"),
        (
            "[http]\ncors = [\"example.org\"]",
            InvalidValue,
            "http.cors: \"example.org\" is not an origin",
        ),
        (
            "[http]\ncors = [\"https://a/b\"]",
            InvalidValue,
            "is not an origin",
        ),
        (
            "[telemetry]\nformat = \"xml\"",
            InvalidValue,
            "telemetry.format: \"xml\" is not a form of log lines",
        ),
        (
            "[telemetry]\nmetrics_listen = \"x\"",
            InvalidValue,
            "telemetry.metrics_listen",
        ),
        (
            "[telemetry]\nmetrics_listen = \"127.0.0.1:3000\"",
            InvalidValue,
            "127.0.0.1:3000 is taken by http.listen already",
        ),
        (
            &chain("esplora_listen = \"127.0.0.1:3000\""),
            InvalidValue,
            "chain[0].esplora_listen: 127.0.0.1:3000 is taken by http.listen",
        ),
        (
            &id(""),
            InvalidValue,
            "chain[0].id: \"\" is not 1 to 64 characters",
        ),
        (&id("a b"), InvalidValue, "is not 1 to 64 characters"),
        (&id("a/b"), InvalidValue, "is not 1 to 64 characters"),
        (&id("ä"), InvalidValue, "is not 1 to 64 characters"),
        (&id(&long), InvalidValue, "is not 1 to 64 characters"),
        (&id(".."), InvalidValue, "folder"),
        (&id("api"), InvalidValue, "beginning of another path"),
        (&id("Health"), InvalidValue, "beginning of another path"),
        (
            &format!("{}{}", chain(""), id("A")),
            InvalidValue,
            "cairn.toml:8: chain[1].id: \"A\" is the id of chain[0] already",
        ),
        (
            &chain("").replace("regtest", "bitcoin"),
            InvalidValue,
            "chain[0].network: \"bitcoin\" is not a network; expected one of mainnet, testnet, testnet4, signet, regtest",
        ),
        (
            &chain("").replace("\"bitcoin\"", "\"dogecoin\""),
            InvalidValue,
            "chain[0].kind: \"dogecoin\" is not a kind",
        ),
        (
            &chain("").replace("\"bitcoin\"", "\"liquid\""),
            InvalidValue,
            "chain[0].network: \"regtest\" is not a network of kind liquid; expected one of liquid, liquidtestnet, elementsregtest",
        ),
        (
            &liquid("parent_network = \"liquid\""),
            InvalidValue,
            "chain[0].parent_network: \"liquid\" is not a network",
        ),
        (
            &liquid("address_prefixes = \"235 75 ert el\""),
            InvalidValue,
            "chain[0].address_prefixes: \"235 75 ert el\" is not three numbers up to 255 and two prefixes",
        ),
        (
            &chain("asset_registry = \"/assets\""),
            InvalidValue,
            "chain[0].asset_registry: is for chains of kind \"liquid\"",
        ),
        (
            "[[chain]]\nid = \"eos\"\nkind = \"antelope\"",
            Missing,
            "chain[0]: the chain has no source: give ship_url",
        ),
        (
            &antelope("network = \"regtest\""),
            InvalidValue,
            "cairn.toml:5: chain[0].network: is for chains of kind \"bitcoin\"",
        ),
        (
            &chain("ship_url = \"ws://x\""),
            InvalidValue,
            "chain[0].ship_url: is for chains of kind \"antelope\"",
        ),
        (
            &antelope("").replace("ws://", "http://"),
            InvalidValue,
            "chain[0].ship_url: \"http://x:8080\" is not ws://HOST:PORT",
        ),
        (
            &antelope("chain_url = \"x:1\""),
            InvalidValue,
            "chain[0].chain_url: \"x:1\" is not http://HOST:PORT",
        ),
        (
            &antelope("abi_fallback = \"rpc\""),
            InvalidValue,
            "chain[0].abi_fallback: \"rpc\" is not one of the words; expected rpc-current or fail",
        ),
        (
            &antelope("json_profile = \"\""),
            InvalidValue,
            "expected wharfkit or nodeos",
        ),
        (
            &antelope("expect_chain_id = \"abc\""),
            InvalidValue,
            "\"abc\" is not 64 hex digits",
        ),
        (
            &antelope("start_block = 4294967296"),
            InvalidValue,
            "4294967296 is out of range",
        ),
        (
            &chain("zmq_url = \"ipc:///x\""),
            InvalidValue,
            "\"ipc:///x\" is not tcp://HOST:PORT",
        ),
        (
            &chain("electrum_listen = [\"50001\"]"),
            InvalidValue,
            "chain[0].electrum_listen: \"50001\" has no port",
        ),
        (
            &chain("electrum_listen = [\"a:1\"]\nelectrum_tls_listen = [\"a:1\"]"),
            InvalidValue,
            "chain[0].electrum_tls_listen: a:1 is taken by chain[0].electrum_listen already",
        ),
        (
            &chain("tls_cert_file = \"x\""),
            InvalidValue,
            "tls_cert_file: needs tls_key_file",
        ),
        (
            &chain("tls_key_file = \"x\""),
            InvalidValue,
            "tls_key_file: needs tls_cert_file",
        ),
        (
            "[redis]\nserver = \"\"",
            InvalidValue,
            "redis.server: must not be empty",
        ),
        (
            "[stream]\npolicy = \"keep\"",
            InvalidValue,
            "stream.policy: \"keep\" is not one of the words; expected window or hold",
        ),
        (
            "[stream]\npolicy = \"hold\"\nwindow_hours = 200",
            InvalidValue,
            "stream.hold_max_hours: is shorter than window_hours",
        ),
        (
            "[scanner]\nhost_id = \"a:b\"",
            InvalidValue,
            "scanner.host_id: \"a:b\" is not 1 to 64 characters",
        ),
        (
            &format!("[scanner]\nenabled = true\nchain_id = \"a\"\n{}", chain("")),
            InvalidValue,
            "cairn.toml:3: scanner.chain_id: \"a\" is the id of a chain",
        ),
        (
            "[scanner]\nadmin_token_file = \"/nonexistent/token\"",
            Unreadable,
            "scanner.admin_token_file: cannot read /nonexistent/token",
        ),
        (
            &chain("").replace("kind = \"bitcoin\"", ""),
            Missing,
            "cairn.toml:1: chain[0].kind: kind must be given",
        ),
        (
            &chain("").replace("id = \"a\"", ""),
            Missing,
            "chain[0].id: id must be given",
        ),
        (
            &chain("").replace("network = \"regtest\"", ""),
            Missing,
            "network must be given",
        ),
        (
            &chain("").replace("blocks_dir = \"/blocks\"", ""),
            Missing,
            "chain[0]: the chain has no source: give rpc_url, node_dir or blocks_dir",
        ),
        (
            &chain("rpc_url = \"127.0.0.1:1\""),
            InvalidValue,
            "\"127.0.0.1:1\" does not begin with http:// or https://",
        ),
        (
            &chain("rpc_url = \"http://\""),
            InvalidValue,
            "no usable host",
        ),
        (
            &chain("rpc_url = \"http://h:99999\""),
            InvalidValue,
            "no usable host",
        ),
        (
            &chain("rpc_url = \"http://bob@h:1\""),
            InvalidValue,
            "\"http://***@h:1\" has a user without a password",
        ),
        (
            &chain("rpc_url = \"http://h\"\nrpc_user = \"bob\""),
            InvalidValue,
            "chain[0].rpc_user: needs rpc_password or rpc_password_file",
        ),
        (
            &chain("rpc_user = \"bob\""),
            InvalidValue,
            "chain[0].rpc_user: has no effect without rpc_url",
        ),
        (
            &chain("rpc_url = \"http://h\"\nrpc_password_file = \"/nowhere/x\""),
            Unreadable,
            "chain[0].rpc_password_file: cannot read /nowhere/x",
        ),
        (
            &chain("signet_challenge = \"51\""),
            InvalidValue,
            "only a chain with network = \"signet\"",
        ),
        (
            &chain("signet_challenge = \"5\""),
            InvalidValue,
            "chain[0].signet_challenge: expected hex",
        ),
        (
            &chain("magic = \"0102\""),
            InvalidValue,
            "chain[0].magic: \"0102\" is not 8 hex digits",
        ),
        (
            &chain("utxos_limit = 0"),
            InvalidValue,
            "chain[0].utxos_limit: 0 is out of range; expected a whole number from 1",
        ),
        (
            &chain("memory_mb = 1"),
            InvalidValue,
            "chain[0].memory_mb: 1 is out of range",
        ),
        (&chain("threads = -1"), InvalidValue, "out of range"),
    ] {
        check(text, kind, expected);
    }
}

#[test]
fn contradicting_credentials() {
    let environment = [("PW", "geheim")];
    let url = "rpc_url = \"http://h\"";
    let password = "rpc_password = \"${PW}\"";
    for (keys, expected) in [
        (
            format!("{url}\n{password}"),
            "a password is given without rpc_user",
        ),
        (
            format!("{url}\n{password}\nrpc_user = \"b\"\nrpc_cookie_file = \"/c\""),
            "rpc_cookie_file: a user and password are given too",
        ),
        (
            "rpc_url = \"http://a:${PW}@h\"\nrpc_user = \"b\"".to_owned(),
            "rpc_url holds a user already",
        ),
        (
            password.to_owned(),
            "rpc_password: has no effect without rpc_url",
        ),
    ] {
        let error = load_with(&chain(&keys), &environment, &[])
            .map(|_| ())
            .expect_err(&keys)
            .to_string();
        assert!(error.contains(expected), "{keys}\n{error}");
        assert!(!error.contains("geheim"), "{error}");
    }
}

#[test]
fn literal_secrets_are_refused() {
    let url = "rpc_url = \"http://h\"\nrpc_user = \"b\"";
    let environment = [("PW", "x")];
    for (keys, refused) in [
        (format!("{url}\nrpc_password = \"hunter22\""), true),
        (format!("{url}\nrpc_password = \"pre${{PW}}\""), true),
        (format!("{url}\nrpc_password = \"$${{PW}}\""), true),
        (format!("{url}\nrpc_password = \"${{PW}}\""), false),
        ("rpc_url = \"http://b:hunter22@h\"".to_owned(), true),
        ("rpc_url = \"http://b:${PW}@h\"".to_owned(), false),
        ("rpc_url = \"http://b:x${PW}@h\"".to_owned(), true),
    ] {
        let text = chain(&keys);
        match load_with(&text, &environment, &[]) {
            Ok(_) => assert!(!refused, "accepted:\n{text}"),
            Err(error) => {
                assert!(refused && error.has_literal_secret(), "{text}\n{error}");
                assert!(!error.to_string().contains("hunter22"), "{error}");
                let allowed = format!("allow_inline_secrets = true\n{text}");
                assert!(load_with(&allowed, &environment, &[]).is_ok(), "{allowed}");
            }
        }
    }
    // The environment is a fitting place, the command line is not: every process of the machine can read it.
    let text = chain(url);
    assert!(load_with(&text, &[("CAIRN_CHAIN__0__RPC_PASSWORD", "x")], &[]).is_ok());
    let error = load_with(&text, &[], &[("chain.a.rpc_password", "hunter22")])
        .map(|_| ())
        .expect_err("a literal");
    assert!(
        error.has_literal_secret() && !error.to_string().contains("hunter22"),
        "{error}"
    );
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = format!(
        "data_dirr = \"x\"\n[http]\nlisten = \"x\"\ncors = 1\n{}",
        chain("threads = -5\nlight_mode = 1")
    );
    let error = load(&text).map(|_| ()).expect_err("wrong in many ways");
    let shown: Vec<String> = error
        .problems
        .iter()
        .map(|problem| format!("{} {}", problem.place, problem.path))
        .collect();
    assert_eq!(
        shown,
        [
            "cairn.toml:1 data_dirr",
            "cairn.toml:3 http.listen",
            "cairn.toml:4 http.cors",
            "cairn.toml:10 chain[0].threads",
            "cairn.toml:11 chain[0].light_mode",
        ]
    );
}

#[test]
fn the_environment_and_the_command_line_have_problems_too() {
    for (environment, overrides, expected) in [
        (
            vec![("CAIRN_HTTP__LISEN", "a:1")],
            vec![],
            "environment variable CAIRN_HTTP__LISEN: http.lisen: unknown key; nearest known key: http.listen",
        ),
        (
            vec![("CAIRN_REDIS__URLS", "x")],
            vec![],
            "environment variable CAIRN_REDIS__URLS: redis.urls: unknown key; nearest known key: redis.url",
        ),
        (
            vec![("CAIRN_CHAIN__7__ID", "x")],
            vec![],
            "there is no chain \"7\"",
        ),
        (
            vec![("CAIRN_CHAIN__OTHER__ID", "x")],
            vec![],
            "there is no chain \"other\"",
        ),
        (vec![("CAIRN_HTTP__A__B", "x")], vec![], "unknown key"),
        (
            vec![],
            vec![("http.lisen", "a:1")],
            "command line --set http.lisen: http.lisen: unknown key",
        ),
        (
            vec![],
            vec![("chain.b.threads", "1")],
            "there is no chain \"b\"",
        ),
        (vec![], vec![("", "1")], "unknown key"),
        (vec![], vec![("chain", "1")], "unknown key"),
    ] {
        let error = load_with(&chain(""), &environment, &overrides)
            .map(|_| ())
            .expect_err(expected)
            .to_string();
        assert!(
            error.contains(expected),
            "{environment:?} {overrides:?}\n{error}\nlacks {expected}"
        );
    }
}

#[test]
fn too_many_chains() {
    let text: String = (0..65)
        .map(|n| chain("").replace("\"a\"", &format!("\"c{n}\"")))
        .collect();
    let error = load(&text).map(|_| ()).expect_err("too many").to_string();
    assert!(
        error.contains("65 chains; at most 64 are possible"),
        "{error}"
    );
}
