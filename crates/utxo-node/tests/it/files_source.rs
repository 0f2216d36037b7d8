//! The best chain from files alone.

use anyhow::Result;
use bitcoin::block::Header;
use bitcoin::consensus::encode::serialize;
use bitcoin::{Block, BlockHash, Network};
use cairn_utxo_node::{ChainSource, SourceError, Tip};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::block_files::source;
use crate::common::{all_blocks, all_headers, branch, chain, genesis, hashes, records, write_file};

fn headers(blocks: &[Block]) -> Vec<Header> {
    blocks.iter().map(|block| block.header).collect()
}

fn tip_of(blocks: &[Block]) -> Tip {
    Tip {
        hash: blocks[blocks.len() - 1].block_hash(),
        height: blocks.len() as u32 - 1,
    }
}

/// What an index with this chain knows.
fn known(blocks: &[Block]) -> impl Fn(&BlockHash) -> Option<u32> {
    let hashes = hashes(blocks);
    move |hash| {
        hashes
            .iter()
            .position(|known| known == hash)
            .map(|height| height as u32)
    }
}

#[test]
fn runs_from_what_is_known() -> Result<()> {
    let folder = TempDir::new()?;
    let blocks = chain(40);
    write_file(folder.path(), 0, &records(&blocks));
    let source = source(folder.path(), Network::Regtest)?;
    assert_eq!(source.tip()?, tip_of(&blocks));

    let run = source.headers(&|_| None, None)?;
    assert_eq!((run.start_height, run.tip), (0, Some(tip_of(&blocks))));
    assert_eq!(run.headers, headers(&blocks));
    let run = source.headers(&known(&blocks[..31]), None)?;
    assert_eq!(run.start_height, 31);
    assert_eq!(run.headers, headers(&blocks[31..]));
    let run = source.headers(&known(&blocks), None)?;
    assert_eq!(
        (run.start_height, run.headers.len(), run.tip),
        (41, 0, Some(tip_of(&blocks)))
    );
    let run = source.headers(&known(&blocks[..11]), Some(20))?;
    assert_eq!(
        (run.start_height, run.tip),
        (11, Some(tip_of(&blocks[..21])))
    );
    assert_eq!(run.headers, headers(&blocks[11..21]));
    let run = source.headers(&|_| None, Some(0))?;
    assert_eq!(run.start_height, 0);
    assert_eq!(run.headers, headers(&blocks[..1]));
    let run = source.headers(&|_| None, Some(1000))?;
    assert_eq!(run.headers.len(), 41);
    Ok(())
}

#[test]
fn the_branch_with_most_work_wins_and_a_tie_goes_to_the_first() -> Result<()> {
    let folder = TempDir::new()?;
    let trunk = chain(10);
    let short = branch(&trunk[10], 10, 3, 1);
    let tied = branch(&trunk[10], 10, 3, 2);
    let mut first = trunk.clone();
    first.extend(short.clone());
    let mut bytes = records(&first);
    bytes.extend(records(&tied));
    write_file(folder.path(), 0, &bytes);
    let source = source(folder.path(), Network::Regtest)?;
    assert_eq!(source.tip()?, tip_of(&first));
    assert_eq!((source.stale(), source.orphans()), (3, 0));

    // One more block decides for the other branch; what is known of the first leads to the fork.
    let more = branch(&tied[2], 13, 1, 2);
    bytes.extend(records(&more));
    write_file(folder.path(), 0, &bytes);
    let mut second = trunk.clone();
    second.extend(tied);
    second.extend(more);
    assert_eq!(source.tip()?, tip_of(&second));
    let run = source.headers(&known(&first), None)?;
    assert_eq!(run.start_height, 11);
    assert_eq!(run.headers, headers(&second[11..]));
    assert_eq!(source.stale(), 3);
    Ok(())
}

#[test]
fn blocks_without_a_parent_wait_for_it() -> Result<()> {
    let folder = TempDir::new()?;
    let blocks = chain(20);
    // Two heads wait for the same missing block.
    let side = branch(&blocks[10], 10, 4, 3);
    write_file(folder.path(), 0, &records(&blocks[..10]));
    let mut later = records(&blocks[11..]);
    later.extend(records(&side));
    write_file(folder.path(), 1, &later);
    let source = source(folder.path(), Network::Regtest)?;
    assert_eq!((source.tip()?.height, source.orphans()), (9, 14));
    write_file(folder.path(), 2, &records(&blocks[10..11]));
    assert_eq!(
        (source.tip()?, source.orphans(), source.stale()),
        (tip_of(&blocks), 0, 4)
    );
    assert_eq!(all_headers(&source)?, headers(&blocks));
    Ok(())
}

#[test]
fn without_genesis_there_is_no_chain() -> Result<()> {
    let folder = TempDir::new()?;
    write_file(folder.path(), 0, &records(&chain(5)[1..]));
    match source(folder.path(), Network::Regtest)?.tip() {
        Err(SourceError::Refused(text)) => assert!(
            text.contains("5 blocks") && text.contains("genesis"),
            "{text}"
        ),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn single_blocks_and_transactions() -> Result<()> {
    let folder = TempDir::new()?;
    let blocks = chain(5);
    write_file(folder.path(), 0, &records(&blocks));
    let source = source(folder.path(), Network::Regtest)?;
    source.tip()?;
    let block = &blocks[3];
    let (hash, txid) = (block.block_hash(), block.txdata[0].compute_txid());
    assert_eq!(source.block(&hash)?, serialize(block));
    assert_eq!(
        source.transaction(&txid, &hash)?,
        serialize(&block.txdata[0])
    );
    let elsewhere = source.transaction(&txid, &blocks[2].block_hash());
    assert!(matches!(elsewhere, Err(SourceError::Missing(_))));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Records in random order over random files, some twice, with a shorter branch between: the chain is the chain.
    #[test]
    fn any_order_gives_the_same_chain(seed: u64, files in 1_u32..5, looks in 1_usize..4) {
        let blocks = chain(60);
        let stale = branch(&blocks[30], 30, 20, 4);
        let mut pile: Vec<&Block> = blocks.iter().chain(&stale).chain(&blocks[20..25]).collect();
        // Fisher and Yates with a small generator of its own, so that a failure repeats from its seed.
        let mut state = seed | 1;
        for i in (1..pile.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            pile.swap(i, (state % (i as u64 + 1)) as usize);
        }
        let folder = TempDir::new()?;
        write_file(folder.path(), 0, &records([&genesis()]));
        let source = source(folder.path(), Network::Regtest).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let chunk = pile.len().div_ceil(files as usize);
        for (number, part) in pile.chunks(chunk).enumerate() {
            // Looks in between see parts of the heap.
            if number % looks == 0 {
                source.tip().map_err(|e| TestCaseError::fail(e.to_string()))?;
            }
            write_file(folder.path(), number as u32 + 1, &records(part.iter().copied()));
        }
        prop_assert_eq!(source.tip().map_err(|e| TestCaseError::fail(e.to_string()))?, tip_of(&blocks));
        prop_assert_eq!((source.stale(), source.orphans()), (20, 0));
        // Genesis stands in the first file and in the heap.
        prop_assert_eq!(source.files().summary().repeated, 6);
        let bytes = all_blocks(&source, 4000).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(bytes, blocks.iter().map(serialize).collect::<Vec<_>>());
    }
}
