//! `--help` and wrong usage.

use crate::support::{cairn, outcome};

const COMMANDS: [&str; 7] = [
    "demo",
    "start",
    "index",
    "status",
    "check-config",
    "dump-rows",
    "verify",
];

#[test]
fn help_has_an_example_for_every_command() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for command in COMMANDS {
        let (code, out, err) = outcome(cairn(dir.path()).args([command, "--help"]));
        assert_eq!((code, err.as_str()), (0, ""), "{command}");
        assert!(
            out.contains(&format!("Example:\n  cairn {command}")),
            "{command}: {out}"
        );
        assert!(out.contains("--config <FILE>"), "{command}: {out}");
    }
    let (code, out, _) = outcome(cairn(dir.path()).arg("--help"));
    assert_eq!(code, 0);
    for command in COMMANDS {
        assert!(out.contains(command), "{command}: {out}");
    }
    assert!(out.contains("Exit codes"), "{out}");
}

#[test]
fn wrong_usage_ends_with_2() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (arguments, part) in [
        (vec![], "Usage"),
        (vec!["fly"], "fly"),
        (vec!["index"], "--chain"),
        (vec!["index", "--chain", "a", "--until", "soon"], "soon"),
        (vec!["dump-rows", "--chain", "a", "--db", "other"], "other"),
        (vec!["start", "--set", "x"], "KEY=VALUE"),
        (vec!["start"], "cairn demo"),
        (vec!["status"], "cairn demo"),
        (vec!["demo", "--config", "x"], "own configuration"),
    ] {
        // Nobody listens at the discard port; at the default one a server of the developer's may.
        let mut command = cairn(dir.path());
        command
            .args(&arguments)
            .env("CAIRN_HTTP__LISTEN", "127.0.0.1:9");
        let (code, out, err) = outcome(&mut command);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (code, out, _) = outcome(cairn(dir.path()).arg("--version"));
    assert_eq!(
        (code, out),
        (0, format!("cairn {}\n", env!("CARGO_PKG_VERSION")))
    );
}
