//! A real node: ABI switches inside a block, and a fork between two nodes.

use cairn_antelope_abi::Profile;
use cairn_antelope_parser::{ParserSettings, ParserSource};
use cairn_testkit::RedisServer;
use cairn_testkit::antelope::{Nodeos, NodeosOptions, PackedAction, Packer, Recording};
use serde_json::Value;

use super::{Running, connect, events, label};

fn settings(node: &Nodeos) -> ParserSettings {
    let mut settings = ParserSettings::new(label(), ParserSource::Node(node.ship_url()));
    settings.profile = Profile::Nodeos;
    settings
}

/// `shifter::set` in the form of its first ABI (a note) or of its second (an owner and an amount).
fn set(note: Option<&str>) -> PackedAction {
    let data = match note {
        Some(note) => Packer::new().u64(7).bytes(note.as_bytes()).done(),
        None => Packer::new()
            .u64(8)
            .name("alice")
            .u64(15_000)
            .raw(b"\x04EOS\0\0\0\0")
            .done(),
    };
    PackedAction::new("shifter", "set", "shifter", data)
}

fn shift(version: u64) -> PackedAction {
    PackedAction::set_abi("shifter", &Recording::Main.abi("shifter", version))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abis_switch_inside_a_transaction_as_the_node_itself_reads_them() {
    let mut node = Nodeos::start().expect("a node");
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let running = Running::start(settings(&node), redis);
    node.boot().expect("it takes the test contracts");
    let traces = [
        node.push(&[
            set(Some("under v1")),
            shift(2),
            set(None),
            shift(1),
            set(Some("v1 again")),
        ])
        .expect("it runs"),
        node.push(&[shift(2), set(None)]).expect("it runs"),
    ];
    let last = traces
        .iter()
        .filter_map(|trace| trace["block_num"].as_u64())
        .max()
        .expect("blocks");
    running
        .until("the blocks of the transactions", |status| {
            status
                .last
                .is_some_and(|block| u64::from(block.num) >= last)
        })
        .await;
    running.stop().await;

    let events = events(&mut server.connection());
    let mut compared = 0;
    for trace in &traces {
        for action in trace["action_traces"].as_array().expect("traces") {
            let sequence = &action["receipt"]["global_sequence"];
            let sequence = sequence.as_u64().map_or_else(
                || sequence.as_str().unwrap_or_default().to_owned(),
                |n| n.to_string(),
            );
            let event = events
                .iter()
                .find(|event| {
                    event["kind"] == "action" && event["global_sequence"] == sequence.as_str()
                })
                .unwrap_or_else(|| panic!("action {sequence} is in the stream"));
            assert_eq!(event["transaction_id"], trace["id"]);
            if action["act"]["name"] == "set" {
                // The node decodes a transaction with the ABIs at its end, so its text is not asked where they changed within.
                let expected: Value = match event["data"]["id"].as_u64() {
                    Some(7) => serde_json::json!({ "id": 7, "note": event["data"]["note"] }),
                    _ => serde_json::json!({ "id": 8, "owner": "alice", "amount": "1.5000 EOS" }),
                };
                assert_eq!(event["data"], expected);
                assert!(event["decode_error"].is_null());
                compared += 1;
            } else if action["act"]["data"].is_object() {
                assert_eq!(event["data"], action["act"]["data"]);
            }
        }
    }
    assert_eq!(compared, 4);
    let notes: Vec<&str> = events
        .iter()
        .filter_map(|event| event["data"]["note"].as_str())
        .collect();
    assert_eq!(notes, ["under v1", "v1 again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_between_two_nodes() {
    let mut a = Nodeos::start_with(&NodeosOptions {
        producers: vec!["eosio".to_owned(), "proda".to_owned()],
        ..NodeosOptions::default()
    })
    .expect("a node");
    a.boot().expect("it takes the test contracts");
    let b = Nodeos::start_with(&NodeosOptions {
        producers: vec!["prodb".to_owned()],
        peers: vec![a.p2p_address()],
        first: false,
        ..NodeosOptions::default()
    })
    .expect("a second node");
    a.schedule(&["proda", "prodb"]).expect("a schedule");
    let made_by =
        |name: &'static str| move |node: &Nodeos| Ok(node.info()?["head_block_producer"] == name);
    a.wait_until("both produce", made_by("prodb"))
        .expect("in turns");

    // A parser on each node: whichever loses has a fork, the other has none.
    let servers = [RedisServer::start(), RedisServer::start()];
    let mut running = Vec::new();
    for (node, server) in [&a, &b].into_iter().zip(&servers) {
        running.push(Running::start(settings(node), connect(&server.url()).await));
    }
    for (node, running) in [&a, &b].into_iter().zip(&running) {
        let head = node.info_number("head_block_num").expect("an answer");
        running
            .until("the head", |status| {
                status
                    .last
                    .is_some_and(|block| u64::from(block.num) >= head)
            })
            .await;
    }
    b.disconnect(a.p2p_address()).expect("cut off");
    let split = b.info_number("head_block_num").expect("an answer");
    for node in [&a, &b] {
        node.wait_until("its own branch has grown", |node| {
            Ok(node.info_number("head_block_num")? >= split + 4)
        })
        .expect("each goes on alone");
    }
    b.connect(a.p2p_address()).expect("joined");
    let same = |node: &Nodeos| {
        let (mine, theirs) = (node.info()?, b.info()?);
        let number = mine["head_block_num"]
            .as_u64()
            .unwrap_or_default()
            .min(theirs["head_block_num"].as_u64().unwrap_or_default());
        let block = serde_json::json!({ "block_num_or_id": number });
        Ok(node.call("/v1/chain/get_block", &block)?["id"]
            == b.call("/v1/chain/get_block", &block)?["id"])
    };
    a.wait_until("both are on one branch", same)
        .expect("one branch wins");
    let goal = a.info_number("head_block_num").expect("an answer") + 2;
    for running in &running {
        running
            .until("the joined branch", |status| {
                status
                    .last
                    .is_some_and(|block| u64::from(block.num) >= goal)
            })
            .await;
    }
    for running in running {
        running.stop().await;
    }

    let mut forks = 0;
    let mut chains = Vec::new();
    for server in &servers {
        // What a consumer has that undoes what it is told to undo.
        let mut chain: Vec<(u64, String)> = Vec::new();
        for event in events(&mut server.connection()) {
            if event["kind"] == "fork" {
                forks += 1;
                let common = event["forked_from_block"].as_u64().expect("a number");
                assert!(
                    event["undone_blocks"]
                        .as_u64()
                        .is_some_and(|undone| undone >= 1)
                );
                chain.retain(|(num, _)| *num <= common);
                continue;
            }
            let num = event["block_num"].as_u64().expect("a number");
            let id = event["block_id"].as_str().expect("an id").to_owned();
            if chain.last().is_none_or(|(last, _)| *last < num) {
                chain.push((num, id));
            }
        }
        let numbers: Vec<u64> = chain.iter().map(|(num, _)| *num).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        chain.truncate(usize::try_from(goal).expect("small"));
        chains.push(chain);
    }
    assert!(forks >= 1, "one node had to change");
    assert_eq!(chains[0], chains[1]);
}
