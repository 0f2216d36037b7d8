//! `check-config`, and what other commands say to a configuration they cannot use.

use std::path::Path;

use serde_json::Value;

use crate::support::{cairn, outcome};

const VALID: &str =
    "[[chain]]\nid = \"a\"\nkind = \"bitcoin\"\nnetwork = \"regtest\"\nrpc_url = \"http://h:1\"\n";

fn check(text: &str, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("my.toml"), text).expect("writable");
    let mut command = cairn(dir.path());
    command
        .args(["check-config", "--config", "my.toml"])
        .args(arguments)
        .envs(environment.iter().copied());
    outcome(&mut command)
}

#[test]
fn exit_codes_and_texts() {
    let with = |line: &str| format!("{VALID}{line}\n");
    for (text, code, part) in [
        (VALID.to_owned(), 0, "the configuration is valid"),
        (String::new(), 0, "there is nothing to index"),
        (
            with("lisen = 1"),
            1,
            "my.toml:6: chain[0].lisen: unknown key",
        ),
        (with("zmq_url = \"x\""), 1, "is not tcp://HOST:PORT"),
        (
            with("rpc_user = \"b\"\nrpc_password = \"hunter22\""),
            2,
            "my.toml:7: chain[0].rpc_password: the secret is written out",
        ),
        (
            with("rpc_user = \"b\"\nrpc_password = \"hunter22\"\nlisen = 1"),
            2,
            "unknown key",
        ),
        (
            with("rpc_user = \"b\"\nrpc_password = \"${NOPE}\""),
            1,
            "environment variable NOPE is not set",
        ),
        ("= 1".to_owned(), 1, "not valid TOML"),
        (
            "telemetry.log = \"a=b=c\"".to_owned(),
            1,
            "my.toml:1: telemetry.log: not a log filter",
        ),
    ] {
        let (got, out, err) = check(&text, &[], &[]);
        assert_eq!(got, code, "{text}\n{out}{err}");
        let shown = if code == 0 {
            format!("{out}{err}")
        } else {
            assert_eq!(out, "");
            err
        };
        assert!(shown.contains(part), "{text}\n{shown}");
        assert!(!shown.contains("hunter22"), "{shown}");
    }
}

#[test]
fn json_is_alone_on_stdout() {
    let (code, out, err) = check(VALID, &["--json"], &[("CAIRN_CHAIN__A__THREADS", "3")]);
    assert_eq!((code, err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["valid"], true);
    let settings = report["settings"].as_array().expect("a list");
    let threads = settings
        .iter()
        .find(|setting| setting["path"] == "chain[0].threads")
        .expect("it is listed");
    assert_eq!(threads["value"], 3);
    assert_eq!(
        threads["origin"],
        "environment variable CAIRN_CHAIN__A__THREADS"
    );

    let (code, out, _) = check("[http]\nlisten = 1\n[htpp]", &["--json"], &[]);
    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["valid"], false);
    let kinds: Vec<&str> = report["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|problem| problem["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["wrong_type", "unknown_key"]);
    assert_eq!(report["problems"][0]["place"], "my.toml:2");
}

#[test]
fn secrets_from_the_environment_are_not_shown() {
    let text = format!("{VALID}rpc_user = \"bob\"\nrpc_password = \"${{PW}}\"\n");
    for arguments in [&[][..], &["--json"][..]] {
        let (code, out, err) = check(&text, arguments, &[("PW", "hunter22")]);
        assert_eq!(code, 0, "{err}");
        assert!(
            out.contains("***") && !out.contains("hunter22") && !err.contains("hunter22"),
            "{out}{err}"
        );
    }
}

#[test]
fn validate_is_the_same_command() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("cairn.toml"), VALID).expect("writable");
    let (code, out, _) = outcome(cairn(dir.path()).arg("validate"));
    assert_eq!(code, 0);
    assert!(
        out.contains("chain[0].id") && out.contains("# cairn.toml:2"),
        "{out}"
    );
    // CAIRN_CONFIG names a file, too; the option wins.
    std::fs::write(dir.path().join("other.toml"), "nonsense = 1").expect("writable");
    let (code, _, err) = outcome(
        cairn(dir.path())
            .arg("validate")
            .env("CAIRN_CONFIG", "other.toml"),
    );
    assert_eq!(code, 1);
    assert!(err.contains("other.toml:1: nonsense"), "{err}");
    let (code, _, _) = outcome(
        cairn(dir.path())
            .args(["validate", "--config", "cairn.toml"])
            .env("CAIRN_CONFIG", "other.toml"),
    );
    assert_eq!(code, 0);
}

#[test]
fn the_shipped_example_is_valid() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cairn.example.toml");
    let (code, out, err) = outcome(
        cairn(dir.path())
            .arg("check-config")
            .arg("--config")
            .arg(example),
    );
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn other_commands_end_with_2() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("cairn.toml"), format!("{VALID}x = 1")).expect("writable");
    for arguments in [vec!["start"], vec!["status"], vec!["index", "--chain", "a"]] {
        let (code, out, err) = outcome(cairn(dir.path()).args(&arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(
            err.contains("cairn.toml:6: chain[0].x: unknown key"),
            "{err}"
        );
    }
    std::fs::write(dir.path().join("cairn.toml"), VALID).expect("writable");
    let (code, _, err) = outcome(cairn(dir.path()).args(["index", "--chain", "b"]));
    assert_eq!(code, 2);
    assert!(
        err.contains("there is no chain \"b\"") && err.contains("it has: a"),
        "{err}"
    );
    let (code, _, err) = outcome(cairn(dir.path()).args(["start", "--config", "none.toml"]));
    assert_eq!(code, 2);
    assert!(
        err.contains("none.toml: cannot read the configuration"),
        "{err}"
    );
}
