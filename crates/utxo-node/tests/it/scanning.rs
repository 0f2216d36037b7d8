//! The scan of one file: every rule about records, as properties.

use bitcoin::Block;
use bitcoin::consensus::encode::serialize;
use cairn_utxo_node::blk::{Found, ReadAt, ScanEnd, ScanRules, XorKey, scan};
use cairn_utxo_node::network;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{REGTEST_MAGIC, branch, chain, genesis, hashes, record, records, xored};

fn rules(key: [u8; 8]) -> ScanRules {
    ScanRules {
        magic: REGTEST_MAGIC,
        key: XorKey::new(key),
        pow_limit: network::pow_limit(bitcoin::Network::Regtest),
    }
}

fn scan_from(bytes: &[u8], from: u64, key: [u8; 8]) -> (Vec<Found>, ScanEnd) {
    let mut found = Vec::new();
    let end = scan(
        bytes,
        bytes.len() as u64,
        from,
        &rules(key),
        &mut |record| found.push(record),
    )
    .expect("memory can always be read");
    (found, end)
}

fn scan_all(bytes: &[u8]) -> (Vec<Found>, ScanEnd) {
    scan_from(bytes, 0, [0; 8])
}

/// Asserts that each record found is where it says, and that they are exactly these blocks in this order.
fn assert_found(bytes: &[u8], found: &[Found], blocks: &[&Block]) {
    let expected: Vec<_> = blocks.iter().map(|block| block.block_hash()).collect();
    assert_eq!(
        found.iter().map(|record| record.hash).collect::<Vec<_>>(),
        expected
    );
    for (record, block) in found.iter().zip(blocks) {
        let mut body = vec![0; record.size as usize];
        let read = bytes
            .read_full_at(&mut body, record.offset)
            .expect("memory can always be read");
        assert_eq!(read, body.len());
        assert_eq!(body, serialize(*block));
        assert_eq!(record.header, block.header);
    }
}

#[test]
fn records_one_after_the_other() {
    let blocks = chain(50);
    let bytes = records(&blocks);
    let (found, end) = scan_all(&bytes);
    assert_found(&bytes, &found, &blocks.iter().collect::<Vec<_>>());
    assert_eq!(
        end,
        ScanEnd {
            resume: bytes.len() as u64,
            records: 51,
            damaged: 0,
            torn: false
        }
    );
}

#[test]
fn zeros_between_and_behind_records() {
    let blocks = chain(6);
    let mut bytes = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        bytes.extend(record(block));
        bytes.extend(vec![0; [0, 1, 7, 8, 300_000, 3, 1_000_000][i]]);
    }
    let (found, end) = scan_all(&bytes);
    assert_found(&bytes, &found, &blocks.iter().collect::<Vec<_>>());
    assert_eq!(
        end.resume,
        bytes.len() as u64 - 1_000_000,
        "the padding may become a record"
    );
    assert!(!end.torn);
}

#[test]
fn records_of_a_header_only() {
    let blocks = chain(3);
    let mut bytes = record(&blocks[0]);
    // Magic and size, and at once the next record.
    bytes.extend(&record(&blocks[1])[..8]);
    bytes.extend(record(&blocks[1]));
    bytes.extend(&record(&blocks[2])[..8]);
    bytes.extend(&record(&blocks[2])[..8]);
    bytes.extend(record(&blocks[2]));
    bytes.extend(&record(&blocks[3])[..8]);
    bytes.extend(vec![0; 100]);
    bytes.extend(record(&blocks[3]));
    let (found, end) = scan_all(&bytes);
    assert_found(&bytes, &found, &blocks.iter().collect::<Vec<_>>());
    assert_eq!(end.resume, bytes.len() as u64);
}

/// A last record that is cut anywhere is the end of the data; when the rest comes, the scan goes on there.
#[test]
fn a_torn_last_record_is_the_end_and_is_found_when_whole() {
    let blocks = chain(3);
    let whole = records(&blocks);
    let kept = records(&blocks[..3]).len();
    for cut in kept..whole.len() {
        for padding in [0, 1, 500] {
            let mut bytes = whole[..cut].to_vec();
            bytes.extend(vec![0; padding]);
            // A file that ends exactly where the record would end is not looked into: a node sets space aside in steps of
            // 16 MiB, and reading the last block of each file would double the cost of the scan.
            if bytes.len() == whole.len() {
                continue;
            }
            let (found, end) = scan_all(&bytes);
            assert_found(&bytes, &found, &blocks[..3].iter().collect::<Vec<_>>());
            assert_eq!(end.resume, kept as u64, "cut {cut}, padding {padding}");
            let (rest, end) = scan_from(&whole, end.resume, [0; 8]);
            assert_found(&whole, &rest, &[&blocks[3]]);
            assert_eq!(end.resume, whole.len() as u64);
        }
    }
}

/// A magic inside a good block is part of the block, even with a whole record behind it.
#[test]
fn never_looks_inside_a_good_block() {
    let blocks = chain(3);
    let hidden = record(&branch(&genesis(), 0, 1, 77)[0]);
    let mut carrier = blocks[2].clone();
    carrier.txdata[0].output[0].script_pubkey = bitcoin::ScriptBuf::from_bytes(hidden);
    carrier.header.merkle_root = carrier.compute_merkle_root().expect("a root");
    while carrier
        .header
        .validate_pow(carrier.header.target())
        .is_err()
    {
        carrier.header.nonce += 1;
    }
    let file = [&blocks[0], &blocks[1], &carrier, &blocks[3]];
    // Followed by a record, by the end, and by padding.
    for (count, padding) in [(4, 0), (3, 0), (3, 1000)] {
        let mut bytes = records(file[..count].iter().copied());
        bytes.extend(vec![0; padding]);
        let (found, _) = scan_all(&bytes);
        assert_found(&bytes, &found, &file[..count]);
    }
}

#[test]
fn headers_without_work_are_no_records() {
    let blocks = chain(2);
    let mut weak = blocks[1].clone();
    while weak.header.validate_pow(weak.header.target()).is_ok() {
        weak.header.nonce += 1;
    }
    let mut easy = blocks[1].clone();
    // A target above the network's limit, which any hash would meet.
    easy.header.bits = bitcoin::CompactTarget::from_consensus(0x2100_ffff);
    let bytes = records([&blocks[0], &weak, &easy, &blocks[2]]);
    let (found, _) = scan_all(&bytes);
    assert_found(&bytes, &found, &[&blocks[0], &blocks[2]]);
}

/// Something that may lie in a block file between two records.
#[derive(Debug, Clone)]
enum Piece {
    Block(Index),
    Zeros(usize),
    Garbage(Vec<u8>),
    HeaderOnly(Index),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        5 => any::<Index>().prop_map(Piece::Block),
        1 => (0_usize..6000).prop_map(Piece::Zeros),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Piece::Garbage),
        1 => any::<Index>().prop_map(Piece::HeaderOnly),
    ]
}

/// The bytes of a file of pieces, and the blocks in it.
fn assemble(blocks: &[Block], pieces: &[Piece]) -> (Vec<u8>, Vec<Block>) {
    let mut bytes = Vec::new();
    let mut inside = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Block(index) => {
                let block = &blocks[index.index(blocks.len())];
                bytes.extend(record(block));
                inside.push(block.clone());
            }
            Piece::Zeros(count) => bytes.extend(vec![0; *count]),
            Piece::Garbage(garbage) => bytes.extend(garbage),
            Piece::HeaderOnly(index) => {
                bytes.extend(&record(&blocks[index.index(blocks.len())])[..8])
            }
        }
    }
    (bytes, inside)
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, key: [u8; 8], from in 0_u64..400) {
        let (found, end) = scan_from(&bytes, from, key);
        prop_assert!(found.is_empty() && end.resume == from);
    }

    /// Random bytes behind a real record's beginning, so that the deeper checks are reached.
    #[test]
    fn random_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..600), size: u32, count in 80_usize..200) {
        let good = serialize(&genesis());
        let mut bytes = REGTEST_MAGIC.to_vec();
        bytes.extend(size.to_le_bytes());
        bytes.extend(&good[..count.min(good.len())]);
        bytes.extend(body);
        let (found, _) = scan_all(&bytes);
        prop_assert!(found.len() <= 1);
    }

    /// Any order, repetition, padding, garbage and unfinished headers; plain and obfuscated: the blocks are found.
    #[test]
    fn any_heap_of_pieces(pieces in prop::collection::vec(piece(), 0..30), key: [u8; 8]) {
        let blocks = chain(12);
        let (bytes, inside) = assemble(&blocks, &pieces);
        let (found, _) = scan_all(&bytes);
        assert_found(&bytes, &found, &inside.iter().collect::<Vec<_>>());
        let (found_obfuscated, _) = scan_from(&xored(&bytes, key), 0, key);
        prop_assert_eq!(found_obfuscated, found);
    }

    /// A file that grows, looked at in between, shows the same blocks as one look at the end.
    #[test]
    fn growing_files(pieces in prop::collection::vec(piece(), 0..15), cuts in prop::collection::vec(any::<Index>(), 0..8)) {
        let (bytes, inside) = assemble(&chain(12), &pieces);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut from = 0;
        let mut found = Vec::new();
        for cut in cuts {
            let (new, end) = scan_from(&bytes[..cut], from, [0; 8]);
            prop_assert!(end.resume >= from && end.resume <= cut as u64);
            found.extend(new);
            from = end.resume;
        }
        assert_found(&bytes, &found, &inside.iter().collect::<Vec<_>>());
    }

    /// Damage in one record, its size and magic included, never hides another block.
    #[test]
    fn damage_hides_no_other_block(
        victim in 0_usize..12,
        damage in prop::collection::vec((any::<Index>(), 1_u8..=255), 1..6),
        padding in prop_oneof![Just(0_usize), Just(5000)],
    ) {
        let blocks = chain(11);
        let starts: Vec<usize> = (0..=blocks.len()).map(|count| records(&blocks[..count]).len()).collect();
        let mut bytes = records(&blocks);
        bytes.extend(vec![0; padding]);
        let range = starts[victim]..starts[victim + 1];
        for (place, flip) in damage {
            bytes[range.start + place.index(range.len())] ^= flip;
        }
        // A wrong size that by chance ends where another record ends is a whole record to a reader of headers.
        let size = &bytes[range.start + 4..range.start + 8];
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let end = range.start + 8 + size;
        prop_assume!(!starts[victim + 2..].contains(&end) && (end != bytes.len() || end == range.end));
        let (found, _) = scan_all(&bytes);
        let found: Vec<_> = found.iter().map(|record| record.hash).collect();
        for (index, hash) in hashes(&blocks).iter().enumerate() {
            prop_assert!(index == victim || found.contains(hash), "block {index} is lost");
        }
    }
}
