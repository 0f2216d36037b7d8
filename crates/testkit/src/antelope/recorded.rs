//! Recorded State History sessions. What the files hold: `fixtures/antelope/README.md`.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

/// The ABI of the State History protocol as the node sent it: the first message of every session.
pub const SHIP_ABI: &str = include_str!("../../fixtures/antelope/ship-abi.json");
/// A contract that does what its action data says: writes rows, sends actions, notifies, prints.
pub const PROBE_WASM: &[u8] = include_bytes!("../../fixtures/antelope/probe.wasm");
/// A contract whose only action sets the producer schedule that its data holds.
pub const PRIV_WASM: &[u8] = include_bytes!("../../fixtures/antelope/priv.wasm");

const PROTOCOL_CASES: &[u8] = include_bytes!("../../fixtures/antelope/protocol-cases.jsonl.gz");
const INTACT: &str = "the fixture in this crate is intact";

/// One recorded session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// 125 blocks without a fork: every type, every kind of table, ABI switches, failed and deferred transactions.
    Main,
    /// 198 block results for 175 numbers: two forks, of 12 and of 11 blocks.
    Forks,
    /// The same chain as [`Forks`](Self::Forks), recorded with `irreversible_only`.
    ForksIrreversible,
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Text from the node: the ABI.
    Abi,
    /// Binary from the node: a `result`.
    Result,
    /// Binary to the node: a `request`.
    Request,
}

/// One message of a session.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Who sent it.
    pub kind: FrameKind,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// One recorded experiment with the protocol.
#[derive(Clone, Debug)]
pub struct ProtocolCase {
    /// What was tried.
    pub name: String,
    /// What was sent, in order.
    pub sent: Vec<Vec<u8>>,
    /// What came back, in order.
    pub received: Vec<Vec<u8>>,
}

macro_rules! file {
    ($path:literal) => {
        include_bytes!(concat!("../../fixtures/antelope/", $path)).as_slice()
    };
}

impl Recording {
    /// The messages of the session in the order in which they went over the wire.
    pub fn frames(self) -> Vec<Frame> {
        let bytes = unzip(match self {
            Recording::Main => file!("main/frames.bin.gz"),
            Recording::Forks => file!("forks/frames.bin.gz"),
            Recording::ForksIrreversible => file!("forks/frames-irreversible.bin.gz"),
        });
        let mut frames = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((&kind, after)) = rest.split_first() {
            let (length, after) = after.split_first_chunk::<4>().expect(INTACT);
            let (payload, after) = after
                .split_at_checked(u32::from_le_bytes(*length) as usize)
                .expect(INTACT);
            let kind = match kind {
                0 => FrameKind::Abi,
                1 => FrameKind::Result,
                2 => FrameKind::Request,
                other => panic!("{INTACT}: frame of kind {other}"),
            };
            frames.push(Frame {
                kind,
                bytes: payload.to_vec(),
            });
            rest = after;
        }
        frames
    }

    /// Only the block results, by `f`.
    pub fn block_frames(self) -> Vec<Vec<u8>> {
        self.frames()
            .into_iter()
            // Variant 1 of `result` in every version: a block; 0 is a status.
            .filter(|frame| frame.kind == FrameKind::Result && frame.bytes.first() == Some(&1))
            .map(|frame| frame.bytes)
            .collect()
    }

    /// Lines of text, one JSON object each, for those who need the very text of the values.
    pub fn action_lines(self) -> Vec<String> {
        lines(self.pick(
            file!("main/actions.jsonl.gz"),
            file!("forks/actions.jsonl.gz"),
        ))
    }

    /// Every delta row of contracts, decoded.
    pub fn row_lines(self) -> Vec<String> {
        lines(self.pick(file!("main/rows.jsonl.gz"), file!("forks/rows.jsonl.gz")))
    }

    /// Every other delta row, decoded.
    pub fn native_lines(self) -> Vec<String> {
        lines(self.pick(
            file!("main/native.jsonl.gz"),
            file!("forks/native.jsonl.gz"),
        ))
    }

    /// One object a block result.
    pub fn blocks(self) -> Vec<Value> {
        objects(&lines(self.pick(
            file!("main/blocks.jsonl.gz"),
            file!("forks/blocks.jsonl.gz"),
        )))
    }

    /// Every `setabi` of the final chain.
    pub fn abis(self) -> Vec<Value> {
        objects(&lines(self.pick(
            file!("main/abis.jsonl.gz"),
            file!("forks/abis.jsonl.gz"),
        )))
    }

    /// Every `setabi` of blocks that lost a fork; none in the chain without forks.
    pub fn lost_abis(self) -> Vec<Value> {
        match self {
            Recording::Main => Vec::new(),
            Recording::Forks | Recording::ForksIrreversible => {
                objects(&lines(file!("forks/abis-lost.jsonl.gz")))
            }
        }
    }

    /// The bytes of the `sequence`-th ABI of an account on the final chain, counted from 1.
    pub fn abi(self, account: &str, sequence: u64) -> Vec<u8> {
        let abis = self.abis();
        let found = abis
            .iter()
            .find(|abi| abi["account"] == account && abi["abi_sequence"] == sequence)
            .unwrap_or_else(|| panic!("no ABI {sequence} of {account} in the recording"));
        unhex(found["abi_hex"].as_str().expect(INTACT))
    }

    fn pick(self, main: &'static [u8], forks: &'static [u8]) -> &'static [u8] {
        match self {
            Recording::Main => main,
            Recording::Forks | Recording::ForksIrreversible => forks,
        }
    }
}

/// The node's own view of the tables of [`Recording::Main`] after the last block.
pub fn final_state() -> Vec<Value> {
    objects(&lines(file!("main/state.jsonl.gz")))
}

/// Experiments with requests, against a live node.
pub fn protocol_cases() -> Vec<ProtocolCase> {
    objects(&lines(PROTOCOL_CASES))
        .into_iter()
        .map(|case| {
            let events = case["events"].as_array().expect(INTACT);
            let payloads = |at: &str| {
                events
                    .iter()
                    .filter(|event| event["at"] == at)
                    .filter_map(|event| event["hex"].as_str())
                    .map(|hex| {
                        if hex.starts_with('{') {
                            hex.as_bytes().to_vec()
                        } else {
                            unhex(hex)
                        }
                    })
                    .collect()
            };
            ProtocolCase {
                name: case["case"].as_str().expect(INTACT).to_owned(),
                sent: payloads("sent"),
                received: payloads("msg"),
            }
        })
        .collect()
}

/// Bytes of hex digits.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    bitcoin::hex::FromHex::from_hex(hex).expect(INTACT)
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect(INTACT);
    plain
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(unzip(bytes))
        .expect(INTACT)
        .lines()
        .map(str::to_owned)
        .collect()
}

fn objects(lines: &[String]) -> Vec<Value> {
    lines
        .iter()
        .map(|line| serde_json::from_str(line).expect(INTACT))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_answers_belong_together() {
        for (recording, results) in [(Recording::Main, 125), (Recording::Forks, 198)] {
            let (frames, blocks) = (recording.block_frames(), recording.blocks());
            assert_eq!(
                (frames.len(), blocks.len()),
                (results, results),
                "{recording:?}"
            );
            for (frame, block) in frames.iter().zip(&blocks) {
                // Variant, head and last irreversible block (36 bytes each), flag, then the block's own position.
                let id = frame[1 + 36 + 36 + 1 + 4..][..32]
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>();
                assert_eq!(block["block_id"], id);
            }
            assert_eq!(recording.frames()[0].bytes, SHIP_ABI.as_bytes());
        }
        assert!(!Recording::ForksIrreversible.block_frames().is_empty());
        assert_eq!(protocol_cases().len(), 23);
        assert!(!final_state().is_empty());
    }
}
