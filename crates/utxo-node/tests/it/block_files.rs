//! Folders of block files: keys, networks, growth, units, reading.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use bitcoin::consensus::encode::serialize;
use bitcoin::{Block, BlockHash, Network};
use cairn_testkit::fixtures;
use cairn_utxo_node::{BlockFiles, ChainSource, FilesSource, SourceError};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::common::{
    REGTEST_MAGIC, all_blocks, branch, chain, hashes, record, record_of, records, write_file, xored,
};

const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

pub(crate) fn source(folder: &Path, network: Network) -> Result<FilesSource, SourceError> {
    Ok(FilesSource::new(
        BlockFiles::open(folder, network, None)?,
        network,
        CancellationToken::new(),
    ))
}

/// What a source over the folder refuses with.
fn refusal(folder: &Path, network: Network) -> String {
    match source(folder, network).and_then(|source| source.tip()) {
        Err(SourceError::Refused(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn refreshed(folder: &Path) -> Result<BlockFiles, SourceError> {
    let files = BlockFiles::open(folder, Network::Regtest, None)?;
    files.refresh(&|| false)?;
    Ok(files)
}

fn assert_reads(files: &BlockFiles, blocks: &[Block]) -> Result<()> {
    let (raw, lacking) = files.read(&hashes(blocks))?;
    assert_eq!(lacking, []);
    assert_eq!(raw.blocks.len(), blocks.len());
    for block in blocks {
        let hash = block.block_hash();
        let (_, range) = raw
            .blocks
            .iter()
            .find(|(found, _)| *found == hash)
            .context("a wanted block")?;
        assert_eq!(raw.bytes[range.clone()], serialize(block));
    }
    Ok(())
}

/// A folder with 60 blocks in three files.
fn three_files(key: Option<[u8; 8]>) -> Result<(TempDir, Vec<Block>)> {
    let folder = TempDir::new()?;
    let blocks = chain(59);
    for (number, part) in blocks.chunks(20).enumerate() {
        let bytes = records(part);
        write_file(
            folder.path(),
            number as u32,
            &key.map_or(bytes.clone(), |key| xored(&bytes, key)),
        );
    }
    if let Some(key) = key {
        fs::write(folder.path().join("xor.dat"), key)?;
    }
    Ok((folder, blocks))
}

/// The second case of the specification's twelve: the key of a folder, right and wrong in every way.
#[test]
fn obfuscated_folders() -> Result<()> {
    let (plain, blocks) = three_files(None)?;
    let expected: Vec<Vec<u8>> = blocks.iter().map(serialize).collect();
    assert_eq!(
        all_blocks(&source(plain.path(), Network::Regtest)?, 3000)?,
        expected
    );

    let (folder, _) = three_files(Some(KEY))?;
    assert_eq!(
        all_blocks(&source(folder.path(), Network::Regtest)?, 3000)?,
        expected
    );

    let key_file = folder.path().join("xor.dat");
    fs::write(&key_file, &KEY[..7])?;
    let text = refusal(folder.path(), Network::Regtest);
    assert!(
        text.contains(&key_file.display().to_string()) && text.contains("7 bytes"),
        "{text}"
    );

    fs::write(&key_file, [9; 8])?;
    let text = refusal(folder.path(), Network::Regtest);
    assert!(
        text.contains("key does not match") && text.contains("0102030405060708"),
        "{text}"
    );

    fs::remove_file(&key_file)?;
    assert!(refusal(folder.path(), Network::Regtest).contains("key does not match"));

    // The other way round: plain files and a key, then a key of zeros.
    fs::write(plain.path().join("xor.dat"), KEY)?;
    assert!(refusal(plain.path(), Network::Regtest).contains("key does not match"));
    fs::write(plain.path().join("xor.dat"), [0; 8])?;
    assert_eq!(
        all_blocks(&source(plain.path(), Network::Regtest)?, 3000)?,
        expected
    );
    Ok(())
}

#[test]
fn a_key_that_fits_no_file_is_said_to_be_the_cause_without_genesis_too() -> Result<()> {
    let folder = TempDir::new()?;
    write_file(folder.path(), 7, &xored(&records(&chain(5)[2..]), KEY));
    assert!(refusal(folder.path(), Network::Regtest).contains("key does not match"));
    Ok(())
}

#[test]
fn files_of_another_network_are_named() -> Result<()> {
    let (folder, _) = three_files(Some(KEY))?;
    let text = refusal(folder.path(), Network::Testnet4);
    assert!(
        text.contains("regtest") && text.contains("fabfb5da") && text.contains("testnet4"),
        "{text}"
    );

    let mainnet = TempDir::new()?;
    write_file(mainnet.path(), 0, fixtures::MAINNET_BLK);
    let text = refusal(mainnet.path(), Network::Signet);
    assert!(
        text.contains("mainnet") && text.contains("signet"),
        "{text}"
    );
    Ok(())
}

#[test]
fn empty_and_absent_folders() -> Result<()> {
    let folder = TempDir::new()?;
    assert!(refusal(folder.path(), Network::Regtest).contains("no blk*.dat"));
    // Set aside by a node and not yet written, and things that are no block files.
    write_file(folder.path(), 0, &[0; 100_000]);
    fs::write(folder.path().join("blk.dat"), record(&chain(0)[0]))?;
    fs::write(folder.path().join("blk00000.dat.bak"), record(&chain(0)[0]))?;
    fs::write(folder.path().join("rev00000.dat"), record(&chain(0)[0]))?;
    fs::create_dir(folder.path().join("blk00009.dat"))?;
    assert!(refusal(folder.path(), Network::Regtest).contains("genesis"));
    let absent = folder.path().join("absent");
    let text = refusal(&absent, Network::Regtest);
    assert!(
        text.contains(&absent.display().to_string()) && text.contains("blocks_dir"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_configured_magic_goes_before_the_table() -> Result<()> {
    let folder = TempDir::new()?;
    let magic = [0xde, 0xad, 0xbe, 0xef];
    let blocks = chain(4);
    let bytes: Vec<u8> = blocks
        .iter()
        .flat_map(|block| record_of(&magic, &serialize(block)))
        .collect();
    write_file(folder.path(), 0, &bytes);
    let files = BlockFiles::open(folder.path(), Network::Regtest, Some(magic))?;
    files.refresh(&|| false)?;
    assert_reads(&files, &blocks)
}

/// The real first blocks of mainnet, against the bytes as they stand in the file.
#[test]
fn mainnet_blocks() -> Result<()> {
    let folder = TempDir::new()?;
    write_file(folder.path(), 0, &xored(fixtures::MAINNET_BLK, KEY));
    fs::write(folder.path().join("xor.dat"), KEY)?;
    let source = source(folder.path(), Network::Bitcoin)?;
    let tip = source.tip()?;
    assert_eq!(tip.height, 255);
    let read = all_blocks(&source, 10_000)?;
    let joined: Vec<u8> = read
        .iter()
        .flat_map(|block| record_of(&[0xf9, 0xbe, 0xb4, 0xd9], block))
        .collect();
    assert!(
        joined == fixtures::MAINNET_BLK,
        "the blocks read are the file"
    );
    Ok(())
}

#[test]
fn units_follow_the_disk_and_keep_to_their_size() -> Result<()> {
    let (folder, blocks) = three_files(Some(KEY))?;
    let source = source(folder.path(), Network::Regtest)?;
    source.tip()?;
    // Wanted backwards and twice; told in disk order and once.
    let mut wanted: Vec<BlockHash> = hashes(&blocks);
    wanted.reverse();
    wanted.extend(hashes(&blocks[..5]));
    for unit_bytes in [1, 700, 5000, u64::MAX] {
        let units = source.plan(&wanted, unit_bytes)?;
        let planned: Vec<BlockHash> = units.iter().flat_map(|unit| unit.blocks.clone()).collect();
        assert_eq!(planned, hashes(&blocks));
        for unit in &units {
            assert!(unit.bytes <= unit_bytes || unit.blocks.len() == 1);
            let raw = source.read(unit)?;
            assert_eq!(
                raw.blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(),
                unit.blocks
            );
            assert_eq!(
                raw.blocks
                    .iter()
                    .map(|(_, range)| range.len() as u64)
                    .sum::<u64>(),
                unit.bytes
            );
        }
        if unit_bytes == u64::MAX {
            assert_eq!(units.len(), 3, "one for each file");
        }
    }
    // Every second block: the others are read over.
    let some: Vec<Block> = blocks.iter().step_by(2).cloned().collect();
    assert_eq!(source.plan(&hashes(&some), u64::MAX)?.len(), 3);
    assert_reads(source.files(), &some)
}

#[test]
fn blocks_that_are_not_there() -> Result<()> {
    let (folder, blocks) = three_files(None)?;
    let source = source(folder.path(), Network::Regtest)?;
    source.tip()?;
    let foreign = branch(&blocks[3], 3, 1, 9)[0].block_hash();
    let wanted = [blocks[1].block_hash(), foreign];
    for error in [
        source.plan(&wanted, 1000).err(),
        source.block(&foreign).err(),
    ] {
        match error {
            Some(SourceError::Missing(text)) => {
                assert!(text.contains(&foreign.to_string()), "{text}")
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

#[test]
fn files_that_grow_while_they_are_read() -> Result<()> {
    let folder = TempDir::new()?;
    let blocks = chain(30);
    let files = BlockFiles::open(folder.path(), Network::Regtest, None)?;
    let whole = xored(&records(&blocks), [0; 8]);
    let second = branch(&blocks[30], 30, 10, 0);
    files.refresh(&|| false)?;
    let mut step = 0;
    while step < whole.len() {
        step += 333;
        let mut bytes = whole[..step.min(whole.len())].to_vec();
        bytes.resize(whole.len() + 2000, 0);
        write_file(folder.path(), 0, &bytes);
        files.refresh(&|| false)?;
        let complete = (0..=blocks.len())
            .rev()
            .find(|count| records(&blocks[..*count]).len() <= step)
            .unwrap_or(0);
        assert_eq!(
            files.summary().blocks,
            complete as u64,
            "after {step} bytes"
        );
    }
    // The file is finished (cut to its data) and the next one begins.
    write_file(folder.path(), 0, &whole);
    write_file(folder.path(), 1, &records(&second));
    files.refresh(&|| false)?;
    assert_reads(&files, &blocks)?;
    assert_reads(&files, &second)?;
    assert_eq!(
        files.summary().repeated,
        0,
        "nothing is counted twice by looking again"
    );
    Ok(())
}

#[test]
fn repeated_and_damaged_records_are_counted() -> Result<()> {
    let folder = TempDir::new()?;
    let blocks = chain(5);
    let mut bytes = records(&blocks[..3]);
    let mut broken = record(&blocks[3]);
    let middle = broken.len() / 2;
    broken.truncate(middle);
    bytes.extend(broken);
    bytes.extend(records(&blocks[2..]));
    write_file(folder.path(), 0, &bytes);
    let files = refreshed(folder.path())?;
    let summary = files.summary();
    assert_eq!(
        (
            summary.files,
            summary.blocks,
            summary.repeated,
            summary.damaged
        ),
        (1, 6, 1, 1)
    );
    assert_reads(&files, &blocks)
}

/// A node that crashed and began again writes over what the scan saw; a pruning node removes files.
#[test]
fn files_that_change_under_the_reader() -> Result<()> {
    let (folder, blocks) = three_files(None)?;
    let source = source(folder.path(), Network::Regtest)?;
    assert_eq!(source.tip()?.height, 59);
    let other = branch(&blocks[39], 39, 20, 5);
    write_file(folder.path(), 2, &records(&other));
    let wanted = hashes(&blocks[40..]);
    assert!(matches!(
        source.block(&wanted[3]),
        Err(SourceError::Missing(_))
    ));
    let tip = source.tip()?;
    assert_eq!(
        tip.hash,
        other[19].block_hash(),
        "the folder is scanned again"
    );
    assert_reads(source.files(), &other)?;

    fs::remove_file(folder.path().join("blk00002.dat"))?;
    assert_eq!(source.tip()?.height, 39);
    fs::remove_file(folder.path().join("blk00000.dat"))?;
    assert!(matches!(source.tip(), Err(SourceError::Refused(text)) if text.contains("genesis")));
    Ok(())
}

#[test]
fn a_stop_ends_a_scan() -> Result<()> {
    let (folder, _) = three_files(None)?;
    let stop = CancellationToken::new();
    let source = FilesSource::new(
        BlockFiles::open(folder.path(), Network::Regtest, None)?,
        Network::Regtest,
        stop.clone(),
    );
    stop.cancel();
    assert!(matches!(source.tip(), Err(SourceError::Stopped)));
    Ok(())
}

/// The magic of the writer above is that of the table.
#[test]
fn magic_of_the_tests() {
    assert_eq!(
        cairn_utxo_node::network::magic(Network::Regtest),
        REGTEST_MAGIC
    );
}
