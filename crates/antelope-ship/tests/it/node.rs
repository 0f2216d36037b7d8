//! A real node: following it, its stop and start, its death.

use std::time::Duration;

use cairn_antelope_ship::{
    BlockStream, Branch, FRAME_BYTES_MAX, NodeSource, ReceivedBlock, StreamEvent, StreamSettings,
};
use cairn_testkit::antelope::Nodeos;
use serde_json::json;

use super::recorded::hex;

const DEADLINE: Duration = Duration::from_secs(60);

async fn next_block(stream: &mut BlockStream) -> ReceivedBlock {
    loop {
        let event = tokio::time::timeout(DEADLINE, stream.next())
            .await
            .expect("something happens within a minute");
        if let StreamEvent::Block(block) = event {
            stream.credits().give_back(1);
            return block;
        }
    }
}

/// Follows to block `last`: every number once, each on the one before.
async fn follow_to(stream: &mut BlockStream, blocks: &mut Vec<ReceivedBlock>, last: u32) {
    while blocks.last().is_none_or(|block| block.this.num < last) {
        let block = next_block(stream).await;
        assert_eq!(block.previous, blocks.last().map(|before| before.this));
        assert!(block.fork.is_none());
        blocks.push(block);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_a_real_node_through_its_stop_and_its_death() {
    let mut node = Nodeos::start().expect("a node");
    let source = NodeSource::new(&node.ship_url(), FRAME_BYTES_MAX).expect("an address");
    let chain_id =
        bitcoin::hex::FromHex::from_hex(&node.chain_id().expect("an answer")).expect("64 digits");
    let settings = StreamSettings {
        chain_id: Some(chain_id),
        pause_max: Duration::from_millis(500),
        ..StreamSettings::default()
    };
    let mut stream = BlockStream::new(Box::new(source), settings, Branch::default());
    let mut blocks = Vec::new();
    follow_to(&mut stream, &mut blocks, 6).await;

    node.stop().expect("it stops");
    node.start_again().expect("it starts");
    let last = blocks.last().expect("some").this.num + 3;
    follow_to(&mut stream, &mut blocks, last).await;

    node.kill();
    node.start_after_kill().expect("it replays its blocks");
    let last = blocks.last().expect("some").this.num + 3;
    // A block that was on its way when the node died may be made anew: then it is a fork, and the numbers go on all the same.
    let mut newest = blocks.last().expect("some").this;
    while newest.num < last {
        let block = next_block(&mut stream).await;
        assert!(block.fork.is_some() || block.previous == Some(newest));
        newest = block.this;
        blocks.retain(|known| known.this.num < newest.num);
        blocks.push(block);
    }

    // The node itself says which blocks these are.
    for block in &blocks {
        let told = node
            .call(
                "/v1/chain/get_block",
                &json!({ "block_num_or_id": block.this.num }),
            )
            .expect("an answer");
        assert_eq!(told["id"], hex(&block.this.id).as_str());
        let result = block.result().expect("read before");
        let header = block
            .protocol()
            .read_header(result.block.expect("was asked for"))
            .expect("a header");
        let mut time = Vec::new();
        header.timestamp.write_to(&mut time);
        assert_eq!(told["timestamp"], String::from_utf8_lossy(&time).as_ref());
        assert_eq!(told["producer"], header.producer.to_string().as_str());
    }
}
