//! Real blocks of mainnet, with what a real node says about some of them. Where they come from: `fixtures/bitcoin/README.md`.

use std::io::Read;

use bitcoin::Block;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::blkfile::{MAINNET_MAGIC, parse_plain};

/// Blocks 0 to 255 as a block file: records in height order, not obfuscated.
pub const MAINNET_BLK: &[u8] = include_bytes!("../fixtures/bitcoin/mainnet-0-255.blk");

const MAINNET_GETBLOCK3: &[u8] =
    include_bytes!("../fixtures/bitcoin/mainnet-0-255.getblock3.jsonl.gz");

/// One full block of 2021 (some 1.4 MB), as on the network.
pub const MAINNET_BLOCK_2021: &[u8] = include_bytes!("../fixtures/bitcoin/mainnet-block-2021.raw");

const INTACT: &str = "the fixture in this crate is intact";

/// Blocks 0 to 255 of mainnet.
pub fn mainnet_blocks() -> Vec<Block> {
    parse_plain(MAINNET_BLK, MAINNET_MAGIC).expect(INTACT)
}

/// What Bitcoin Core answers for each of [`mainnet_blocks`] to `getblock` at verbosity 3, by height.
pub fn mainnet_getblock3() -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(MAINNET_GETBLOCK3)
        .read_to_string(&mut text)
        .expect(INTACT);
    text.lines()
        .map(|line| serde_json::from_str(line).expect(INTACT))
        .collect()
}

/// The block of [`MAINNET_BLOCK_2021`].
pub fn mainnet_block_2021() -> Block {
    bitcoin::consensus::deserialize(MAINNET_BLOCK_2021).expect(INTACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_answers_belong_together() {
        let (blocks, answers) = (mainnet_blocks(), mainnet_getblock3());
        assert_eq!((blocks.len(), answers.len()), (256, 256));
        for (height, (block, answer)) in blocks.iter().zip(&answers).enumerate() {
            assert_eq!(answer["height"], height);
            assert_eq!(answer["hash"], block.block_hash().to_string());
            assert!(block.check_merkle_root());
        }
        let full = mainnet_block_2021();
        assert!(full.check_merkle_root() && full.check_witness_commitment());
        assert!(full.txdata.len() > 1_000);
    }
}
