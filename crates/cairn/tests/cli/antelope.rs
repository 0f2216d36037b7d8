//! An Antelope chain from outside: a real node, or none, and a Redis of the test's own or the private one.

use std::path::Path;
use std::time::Instant;

use cairn_testkit::RedisServer;
use cairn_testkit::antelope::{Nodeos, NodeosError};
use serde_json::Value;

use crate::support::{PATIENCE, Running, cairn, get, outcome};

/// A folder with a configuration for one chain.
fn installation(node: &str, redis_url: &str, more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = format!(
        "data_dir = \"data\"\n[http]\nlisten = \"127.0.0.1:0\"\n[telemetry]\nformat = \"json\"\n[redis]\nurl = \"{redis_url}\"\n\
         [[chain]]\nid = \"eos-test\"\nkind = \"antelope\"\n{node}\n{more}\n"
    );
    std::fs::write(dir.path().join("cairn.toml"), text).expect("the folder is writable");
    dir
}

fn run(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(cairn(dir).args(arguments))
}

/// Asks for the readiness until it is as wanted.
fn until(address: &str, what: &str, check: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let ready = get(address, "/health/ready").json();
        if check(&ready) {
            return ready;
        }
        assert!(Instant::now() < end, "{what}: {ready:#}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn node_keys(node: &Nodeos) -> String {
    format!(
        "ship_url = \"{}\"\nchain_url = \"{}\"",
        node.ship_url(),
        node.chain_url()
    )
}

/// Numbers of the blocks in the stream, each once, in the order of the stream.
fn blocks_in_stream(server: &RedisServer) -> Vec<u64> {
    let entries: Vec<(String, Vec<(String, String)>)> =
        server.run("XRANGE ce:parser2:eos-test:events - +");
    let mut blocks: Vec<u64> = entries
        .iter()
        .map(|(_, fields)| {
            let event: Value = serde_json::from_str(&fields[0].1).expect("JSON");
            event["block_num"].as_u64().expect("a block")
        })
        .collect();
    blocks.dedup();
    blocks
}

#[test]
fn a_real_node_is_followed_through_restarts() -> Result<(), NodeosError> {
    let node = Nodeos::start()?;
    let redis = RedisServer::start();
    let dir = installation(&node_keys(&node), &redis.url(), "");
    let mut server = Running::start(dir.path(), &["start"]);
    let address = server.address();
    let ready = until(&address, "the chain is followed", |ready| {
        ready["ready"] == true
    });
    let chain = &ready["chains"]["eos-test"];
    assert_eq!(chain["index"], "synced");
    assert_eq!(chain["network"], node.chain_id()?);
    assert_eq!(ready["services"]["redis"]["ready"], true);
    let metrics = get(&address, "/metrics").body;
    for name in [
        "parser2_blocks_processed_total{chain=\"eos-test\"}",
        "parser2_events_published_total{chain=\"eos-test\",kind=\"action\"}",
        "parser2_head_block{chain=\"eos-test\"}",
        "cairn_redis_up 1",
    ] {
        assert!(metrics.contains(name), "{name} is missing in\n{metrics}");
    }
    // Redis is away for a moment: told, and nothing is lost.
    let (code, out, err) = run(dir.path(), &["status", "--json", "--listen", &address]);
    assert_eq!(code, 0, "{err}");
    let status: Value = serde_json::from_str(&out).expect("JSON alone");
    assert_eq!(status["chains"][0]["id"], "eos-test");
    assert!(status["chains"][0]["events"].as_u64() > Some(0), "{status}");
    let height = |ready: &Value| ready["chains"]["eos-test"]["height"].as_u64();
    let mut redis = redis;
    redis.kill();
    let down = until(&address, "Redis is missed", |ready| {
        ready["services"]["redis"]["ready"] == false
    });
    assert_eq!(down["ready"], false);
    let before = height(&down);
    redis.restart();
    until(&address, "the chain goes on", |ready| {
        ready["ready"] == true && height(ready) > before
    });
    server.stop();

    // Without a server the checkpoint tells.
    let (code, out, err) = run(dir.path(), &["status", "--json"]);
    assert_eq!(code, 0, "{err}");
    let status: Value = serde_json::from_str(&out).expect("JSON alone");
    let stopped_at = status["chains"][0]["height"].as_u64().expect("a number");
    assert!(
        status["chains"][0]["stream_length"].as_u64() > Some(0),
        "{status}"
    );

    let mut server = Running::start(dir.path(), &["start"]);
    let address = server.address();
    until(&address, "it goes on after the restart", |ready| {
        ready["ready"] == true && height(ready) > Some(stopped_at)
    });
    server.stop();
    let blocks = blocks_in_stream(&redis);
    let last = *blocks.last().expect("some");
    let expected: Vec<u64> = (1..=last).collect();
    assert_eq!(
        blocks, expected,
        "no block is missing, and none is there twice"
    );
    Ok(())
}

#[test]
fn the_private_redis_lives_and_ends_with_the_program() {
    // Port 9 (discard) is closed on any machine that runs tests.
    let dir = installation("ship_url = \"ws://127.0.0.1:9\"", "", "");
    let socket = dir.path().join("data/redis/redis.sock");
    for round in 0..2 {
        let mut server = Running::start(dir.path(), &["start"]);
        let address = server.address();
        let ready = until(&address, "Redis is there", |ready| {
            ready["services"]["redis"]["ready"] == true
        });
        let place = ready["services"]["redis"]["place"]
            .as_str()
            .expect("a text")
            .to_owned();
        assert!(
            place.starts_with("unix:") && place.ends_with("redis.sock"),
            "{place}"
        );
        let told = until(&address, "the node is missed", |ready| {
            ready["chains"]["eos-test"]["reason"].is_string()
        });
        assert_eq!(told["ready"], false, "round {round}");
        assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
        server.stop();
        assert!(
            std::os::unix::net::UnixStream::connect(&socket).is_err(),
            "it ended too"
        );
    }
    let (code, out, err) = run(dir.path(), &["status"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("runs with the server only"), "{out}");
}

#[test]
fn abi_versions_are_pruned_but_for_the_one_in_force() {
    let redis = RedisServer::start();
    let dir = installation("ship_url = \"ws://127.0.0.1:9\"", &redis.url(), "");
    // Base64 of the letters a to d: what is stored is not looked into. Contract "two" has a log with a version that came back.
    for (score, member) in [(10, "YQ=="), (20, "Yg=="), (30, "Yw==")] {
        redis.run::<u32>(&format!("ZADD parser2:abi:one {score} {member}"));
    }
    let digest = |letter: char| -> &'static str {
        match letter {
            'a' => "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
            _ => "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d",
        }
    };
    for (score, member) in [(10, "YQ=="), (20, "Yg==")] {
        redis.run::<u32>(&format!("ZADD parser2:abi:two {score} {member}"));
    }
    for (block, sequence, letter) in [(10, 1, 'a'), (20, 2, 'b'), (30, 3, 'a'), (40, 4, 'b')] {
        redis.run::<u32>(&format!(
            "ZADD parser2:abilog:two {block} {block}:{}:{sequence}:{}",
            block * 10,
            digest(letter)
        ));
    }
    let left = |key: &str| -> Vec<String> { redis.run(&format!("ZRANGE {key} 0 -1")) };

    let dry = [
        "abi-prune",
        "--all-contracts",
        "--older-than",
        "35",
        "--dry-run",
        "--json",
    ];
    let (code, out, err) = run(dir.path(), &dry);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).expect("JSON alone");
    assert_eq!(
        told["contracts"],
        serde_json::json!([
            { "contract": "one", "versions": 3, "removed_blocks": [10, 20], "in_force_block": 30 },
            { "contract": "two", "versions": 4, "removed_blocks": [10, 20], "in_force_block": 30 },
        ])
    );
    assert_eq!(left("parser2:abi:one").len(), 3);
    assert_eq!(left("parser2:abilog:two").len(), 4);

    let (code, out, err) = run(
        dir.path(),
        &["abi-prune", "--all-contracts", "--older-than", "35"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("one: removed 2 of 3 versions; the version of block 30 is in force at 35"),
        "{out}"
    );
    assert_eq!(left("parser2:abi:one"), ["Yw=="]);
    // Both ABIs of "two" are still needed: one by block 35, one by block 40.
    assert_eq!(left("parser2:abi:two"), ["YQ==", "Yg=="]);
    let log = left("parser2:abilog:two");
    assert!(
        log[0].starts_with("30:300:3:") && log[1].starts_with("40:400:4:") && log.len() == 2,
        "{log:?}"
    );

    // Nothing older: nothing goes, not even with a bound far ahead.
    let (code, out, _) = run(
        dir.path(),
        &["abi-prune", "--contract", "one", "--older-than", "99"],
    );
    assert_eq!(code, 0);
    assert!(out.contains("removed 0 of 1"), "{out}");
    let (code, _, _) = run(dir.path(), &["abi-prune", "--older-than", "99"]);
    assert_eq!(code, 2, "neither a contract nor all");
    redis.run::<()>("SET parser2:abi:odd x");
    let (code, _, err) = run(
        dir.path(),
        &["abi-prune", "--contract", "odd", "--older-than", "99"],
    );
    assert_eq!(code, 1);
    assert!(
        err.contains("parser2:abi:odd") && err.contains("another type"),
        "{err}"
    );
}

#[test]
fn what_cannot_work_is_said_before_anything_runs() {
    for (redis_url, more, said) in [
        ("http://h", "", "redis.url"),
        ("redis+sentinel://h", "", "names the service"),
        (
            "",
            "[[chain]]\nid = \"second\"\nkind = \"antelope\"\nship_url = \"ws://127.0.0.1:9\"",
            "cannot share one Redis database",
        ),
    ] {
        let dir = installation("ship_url = \"ws://127.0.0.1:9\"", redis_url, more);
        let (code, _, err) = run(dir.path(), &["check-config"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(said), "{err}");
    }
    // A password in the file is refused, one in the environment is not shown.
    let dir = installation(
        "ship_url = \"ws://127.0.0.1:9\"",
        "redis://:geheim@127.0.0.1:1",
        "",
    );
    let (code, out, err) = run(dir.path(), &["check-config"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(!format!("{out}{err}").contains("geheim"), "{out}{err}");
    // A server that refuses us fails the start; one that is not there yet does not.
    let redis = RedisServer::start_with(cairn_testkit::RedisOptions {
        password: Some("secret".to_owned()),
        ..Default::default()
    });
    let dir = installation(
        "ship_url = \"ws://127.0.0.1:9\"",
        &format!("redis://127.0.0.1:{}", redis.port()),
        "",
    );
    let (code, _, err) = run(dir.path(), &["start"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("refuses"), "{err}");
    let dir = installation("ship_url = \"ws://127.0.0.1:9\"", "redis://127.0.0.1:9", "");
    let mut server = Running::start(dir.path(), &["start"]);
    let address = server.address();
    until(&address, "Redis is missed", |ready| {
        ready["services"]["redis"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("cannot be reached"))
    });
    server.stop();
}
