//! Messages that are cut short, damaged or lie.

use std::sync::{Arc, LazyLock};

use cairn_antelope_abi::Profile;
use cairn_antelope_ship::{Message, Protocol, ReplaySource};
use cairn_testkit::antelope::{Packer, Recording};
use proptest::prelude::*;

use super::recorded::protocol;

static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut frames = Recording::Main.block_frames();
    frames.extend(Recording::Forks.block_frames());
    frames.retain(|frame| frame.len() < 60_000);
    frames
});
static PROTOCOL: LazyLock<Arc<Protocol>> = LazyLock::new(protocol);

/// Reads everything that the product reads of a message.
fn read_all(bytes: &[u8]) {
    let Ok(Message::Block(block)) = PROTOCOL.read(bytes) else {
        return;
    };
    if let Some(bytes) = block.block {
        let _ = PROTOCOL.read_header(bytes);
    }
    if let Some(bytes) = block.traces {
        read_traces(bytes);
    }
    if let Some(bytes) = block.deltas {
        read_deltas(bytes);
    }
}

fn read_traces(bytes: &[u8]) {
    for trace in PROTOCOL.read_traces(bytes).unwrap_or_default() {
        for action in trace.actions {
            assert!(action.authorization.iter().count() <= bytes.len() / 16);
        }
    }
}

fn read_deltas(bytes: &[u8]) {
    for table in PROTOCOL.read_deltas(bytes).unwrap_or_default() {
        for row in table.rows {
            let _ = PROTOCOL.read_contract_row(row.data);
            let _ = PROTOCOL.read_account(row.data);
            let _ = PROTOCOL.native_key(table.name, row.data);
            let mut out = Vec::new();
            if PROTOCOL
                .native_json(table.name, row.data, Profile::Wharfkit, &mut out)
                .is_ok()
            {
                serde_json::from_slice::<serde_json::Value>(&out).expect("what is decoded is JSON");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_messages(
        pick: prop::sample::Index,
        cut: Option<prop::sample::Index>,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        // Inside the message, or inside the traces or rows that it carries.
        part in 0..3,
    ) {
        let frame = &FRAMES[pick.index(FRAMES.len())];
        let mut bytes = match (part, PROTOCOL.read(frame)) {
            (1, Ok(Message::Block(block))) => block.traces.unwrap_or_default().to_vec(),
            (2, Ok(Message::Block(block))) => block.deltas.unwrap_or_default().to_vec(),
            _ => frame.clone(),
        };
        if !bytes.is_empty() {
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
        }
        match part {
            1 => read_traces(&bytes),
            2 => read_deltas(&bytes),
            _ => read_all(&bytes),
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        read_traces(&bytes);
        read_deltas(&bytes);
        let _ = ReplaySource::from_gzip(&bytes);
    }
}

#[test]
fn every_truncation_of_a_message_is_an_error() {
    let frame = FRAMES
        .iter()
        .filter(|frame| frame.len() > 2_000)
        .min_by_key(|frame| frame.len())
        .expect("a block");
    for end in 0..frame.len() {
        assert!(
            PROTOCOL.read(&frame[..end]).is_err(),
            "cut at {end} of {}",
            frame.len()
        );
    }
}

#[test]
fn counts_and_lengths_that_lie() {
    let many = Packer::new()
        .varuint(u32::MAX as usize)
        .raw(&[0; 40])
        .done();
    assert!(PROTOCOL.read_traces(&many).is_err());
    assert!(PROTOCOL.read_deltas(&many).is_err());
    let frame = &FRAMES[5];
    // The flag and the length of the block's bytes stand behind four positions; the length now claims four gigabytes.
    let at = 1 + 36 + 36 + 37 + 37 + 1;
    let lie = [&frame[..at], &[0xff, 0xff, 0xff, 0xff, 0x0f], &frame[at..]].concat();
    assert!(PROTOCOL.read(&lie).is_err());
    // A block that says another number stands before it.
    let mut wrong = frame.clone();
    wrong[1 + 36 + 36 + 37 + 1] ^= 1;
    assert!(PROTOCOL.read(&wrong).is_err());
}
