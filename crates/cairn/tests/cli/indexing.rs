//! `index`, `dump-rows`, `verify` and `status` on files alone.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use cairn_testkit::TestChain;
use serde_json::Value;

use crate::support::{Installation, cairn};

const HEIGHT: u32 = 130;

fn indexed(installation: &Installation, arguments: &[&str]) -> (u64, u64) {
    let (code, out, err) = installation.run(&[&["index", "--chain", "test"], arguments].concat());
    assert_eq!(code, 0, "{err}");
    let words: Vec<&str> = out.lines().last().expect("a line").split(' ').collect();
    let ["indexed", blocks, "blocks", txs, "txs", "in", seconds, "s"] = words.as_slice() else {
        panic!("{out}")
    };
    assert!(seconds.parse::<f64>().is_ok(), "{out}");
    (
        blocks.parse().expect("a number"),
        txs.parse().expect("a number"),
    )
}

#[test]
fn a_chain_is_indexed_in_two_steps_and_verified() {
    let chain = TestChain::small(7, HEIGHT);
    let installation = Installation::of_chain(&chain);

    for command in [
        &["dump-rows", "--chain", "test", "--db", "cache"][..],
        &["verify", "--chain", "test"],
    ] {
        let (code, _, err) = installation.run(command);
        assert_eq!(code, 1);
        assert!(err.contains("chain test has no index yet"), "{err}");
    }

    let (first, _) = indexed(&installation, &["--until", "100"]);
    assert_eq!(first, 101);
    let (second, _) = indexed(&installation, &[]);
    assert_eq!(second, u64::from(HEIGHT) - 100);
    assert_eq!(indexed(&installation, &[]), (0, 0));

    let (code, out, err) = installation.run(&["verify", "--chain", "test"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains(&format!("verified {} blocks", HEIGHT + 1)),
        "{out}"
    );
    let (code, out, _) = installation.run(&[
        "verify", "--chain", "test", "--from", "100", "--to", "110", "--json",
    ]);
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&report["clean"], &report["blocks"]),
        (&true.into(), &11.into()),
        "{report}"
    );
    let (code, _, err) = installation.run(&["verify", "--chain", "test", "--to", "999"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("no range of heights up to the tip 130"),
        "{err}"
    );

    let (code, out, err) = installation.run(&["status", "--json"]);
    assert_eq!(code, 0, "{err}");
    let status: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&status["source"], &status["chains"][0]["height"]),
        (&"index".into(), &HEIGHT.into()),
        "{status}"
    );
    let (_, out, _) = installation.run(&["status"]);
    assert!(out.contains("no server is running"), "{out}");

    // In one step: the same rows.
    let other = Installation::of_chain(&chain);
    assert_eq!(indexed(&other, &[]).0, u64::from(HEIGHT) + 1);
    for db in ["txstore", "history"] {
        let dump = |installation: &Installation| {
            let (code, out, err) = installation.run(&["dump-rows", "--chain", "test", "--db", db]);
            assert_eq!(code, 0, "{err}");
            out
        };
        let rows = dump(&installation);
        let keys: Vec<&str> = rows
            .lines()
            .map(|line| line.split_once(' ').expect("key and value").0)
            .collect();
        assert!(
            keys.len() > 100 && keys.is_sorted(),
            "{db}: {} rows",
            keys.len()
        );
        assert!(rows == dump(&other), "{db} differs");
    }
}

#[test]
fn a_reader_that_stops_is_no_failure() {
    let installation = Installation::of_chain(&TestChain::small(8, HEIGHT));
    indexed(&installation, &[]);
    let mut child = cairn(&installation.path())
        .args(["dump-rows", "--chain", "test", "--db", "txstore"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    // Dropped after one line: the pipe is closed while more is to come.
    BufReader::new(child.stdout.take().expect("it is piped"))
        .read_line(&mut line)
        .expect("a line");
    let output = child.wait_with_output().expect("it ends");
    assert!(line.contains(' '));
    assert_eq!(output.status.code(), Some(0));
    assert!(
        !String::from_utf8_lossy(&output.stderr).contains("error"),
        "{:?}",
        output.stderr
    );
}

#[test]
fn failures_are_one_sentence() {
    let installation = Installation::without_node();
    installation.configure("blocks_dir = \"nowhere\"");
    let (code, out, err) = installation.run(&["index", "--chain", "test"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let last = err.lines().last().expect("a line");
    assert!(
        last.starts_with("error: chain test: ") && last.contains("nowhere"),
        "{err}"
    );
}

/// Another option than the one the index was made with: it says so instead of mixing rows.
#[test]
fn a_changed_option_is_refused() {
    let installation = Installation::of_chain(&TestChain::small(9, 20));
    indexed(&installation, &[]);
    let (code, out, err) = installation.run(&[
        "index",
        "--chain",
        "test",
        "--set",
        "chain.test.address_search=true",
    ]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("error: chain test: "), "{err}");
}
