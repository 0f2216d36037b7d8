//! Small chains, a writer of block files that shares nothing with the reader, and a source's answers in one value.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, ensure};
use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::Hash;
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence, Transaction,
    TxIn, TxMerkleNode, TxOut, Witness, transaction,
};
use cairn_utxo_node::ChainSource;

pub(crate) const REGTEST_MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const REGTEST_BITS: u32 = 0x207f_ffff;

pub(crate) fn genesis() -> Block {
    bitcoin::blockdata::constants::genesis_block(Network::Regtest)
}

/// A block on a parent: one coinbase with `weight` bytes of data, made different by `salt`.
pub(crate) fn block_on(parent: &Header, height: u32, salt: u32, weight: usize) -> Block {
    let coinbase = Transaction {
        version: transaction::Version::ONE,
        // Not zero, so that a block whose last byte is missing differs from one that zeros follow.
        lock_time: LockTime::from_consensus(0x0101_0101),
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig: Builder::new()
                .push_int(i64::from(height))
                .push_int(i64::from(salt))
                .into_script(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![TxOut {
            value: Amount::from_sat(50),
            script_pubkey: ScriptBuf::from_bytes(vec![0x51; weight]),
        }],
    };
    let mut block = Block {
        header: Header {
            version: Version::from_consensus(0x2000_0000),
            prev_blockhash: parent.block_hash(),
            merkle_root: TxMerkleNode::all_zeros(),
            time: parent.time + 600,
            bits: CompactTarget::from_consensus(REGTEST_BITS),
            nonce: 0,
        },
        txdata: vec![coinbase],
    };
    block.header.merkle_root = block
        .compute_merkle_root()
        .expect("a block with a transaction has a root");
    while block.header.validate_pow(block.header.target()).is_err() {
        block.header.nonce += 1;
    }
    block
}

/// `count` blocks on top of `base`, which is at `height`.
pub(crate) fn branch(base: &Block, height: u32, count: u32, salt: u32) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for step in 1..=count {
        let parent = blocks.last().unwrap_or(base).header;
        blocks.push(block_on(
            &parent,
            height + step,
            salt,
            10 + (step as usize * 37 + salt as usize) % 300,
        ));
    }
    blocks
}

/// Genesis and `count` blocks.
pub(crate) fn chain(count: u32) -> Vec<Block> {
    let mut blocks = vec![genesis()];
    blocks.extend(branch(&genesis(), 0, count, 0));
    blocks
}

/// A record of a block file.
pub(crate) fn record(block: &Block) -> Vec<u8> {
    record_of(&REGTEST_MAGIC, &serialize(block))
}

pub(crate) fn record_of(magic: &[u8; 4], block: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend((block.len() as u32).to_le_bytes());
    bytes.extend(block);
    bytes
}

pub(crate) fn records<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<u8> {
    blocks.into_iter().flat_map(record).collect()
}

/// XOR by the definition: byte i of a file with key byte i mod 8.
pub(crate) fn xored(bytes: &[u8], key: [u8; 8]) -> Vec<u8> {
    bytes
        .iter()
        .enumerate()
        .map(|(i, byte)| byte ^ key[i % 8])
        .collect()
}

pub(crate) fn write_file(folder: &Path, number: u32, bytes: &[u8]) {
    std::fs::write(folder.join(format!("blk{number:05}.dat")), bytes)
        .expect("a file in the temporary folder");
}

pub(crate) fn hashes(blocks: &[Block]) -> Vec<BlockHash> {
    blocks.iter().map(Block::block_hash).collect()
}

/// All headers a source gives to one who knows nothing.
pub(crate) fn all_headers(source: &dyn ChainSource) -> anyhow::Result<Vec<Header>> {
    let headers = source.headers(&|_| None, None)?.headers;
    Ok(headers
        .iter()
        .filter_map(|header| header.to_bitcoin())
        .collect())
}

/// The bytes of all blocks that a source's headers name, got by plan and read, in the order of the headers.
pub(crate) fn all_blocks(
    source: &dyn ChainSource,
    unit_bytes: u64,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let wanted: Vec<BlockHash> = all_headers(source)?
        .iter()
        .map(Header::block_hash)
        .collect();
    let mut found: HashMap<BlockHash, Vec<u8>> = HashMap::new();
    for unit in source.plan(&wanted, unit_bytes)? {
        let raw = source.read(&unit)?;
        ensure!(
            raw.blocks.len() == unit.blocks.len(),
            "a unit of {} gave {}",
            unit.blocks.len(),
            raw.blocks.len()
        );
        for (hash, range) in raw.blocks {
            let bytes = raw
                .bytes
                .get(range)
                .context("a range outside the bytes")?
                .to_vec();
            ensure!(
                found.insert(hash, bytes).is_none(),
                "block {hash} came twice"
            );
        }
    }
    wanted
        .iter()
        .map(|hash| {
            found
                .remove(hash)
                .with_context(|| format!("block {hash} is missing"))
        })
        .collect()
}
