//! Bytes of a block file: no panic, every record found lies in the file and is what it says, also when the scan of a file
//! that grew goes on where the last one ended.
#![no_main]

use bitcoin::Network;
use bitcoin::hashes::Hash;
use cairn_utxo_node::blk::{Found, HEADER_LEN, ScanEnd, ScanRules, XorKey, scan};
use cairn_utxo_node::network;
use libfuzzer_sys::fuzz_target;

fn scan_from(bytes: &[u8], from: u64, rules: &ScanRules) -> (Vec<Found>, ScanEnd) {
    let mut found = Vec::new();
    let end = scan(bytes, bytes.len() as u64, from, rules, &mut |record| found.push(record))
        .expect("memory can always be read");
    (found, end)
}

// First byte: whether the file is obfuscated; next two: where the first scan of two ends; rest: the file.
fuzz_target!(|input: &[u8]| {
    let [obfuscated, cut_low, cut_high, bytes @ ..] = input else { return };
    let key = if obfuscated & 1 == 1 { [1, 2, 3, 4, 5, 6, 7, 8] } else { [0; 8] };
    let rules = ScanRules {
        magic: network::magic(Network::Regtest),
        key: XorKey::new(key),
        pow_limit: network::pow_limit(Network::Regtest),
    };
    let (found, end) = scan_from(bytes, 0, &rules);
    assert_eq!(end.records, found.len() as u64);
    assert!(end.resume <= bytes.len() as u64);
    let mut before = 0;
    for record in &found {
        assert!(record.offset >= before + 8);
        before = record.offset + u64::from(record.size);
        let start = record.offset as usize;
        let mut header = bytes[start..start + HEADER_LEN].to_vec();
        rules.key.apply(&mut header, record.offset);
        assert_eq!(bitcoin::BlockHash::hash(&header), record.hash);
    }
    assert!(before <= bytes.len() as u64);

    let cut = usize::from(u16::from_le_bytes([*cut_low, *cut_high])).min(bytes.len());
    let (_, first) = scan_from(&bytes[..cut], 0, &rules);
    scan_from(bytes, first.resume, &rules);
});
