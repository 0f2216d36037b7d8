//! Why a folder of block files shows no block at all.
//!
//! An empty result has three causes that an operator must tell apart: another network, another key, an empty folder.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use cairn_utxo_chain::Network;

use super::scan::{ReadAt, ScanRules};
use super::xor::{KEY_FILE, KEY_LEN, XorKey};
use crate::network;

/// Bytes of a first record looked at: magic, size, version, previous hash.
const FIRST_BYTES: usize = 44;

/// A sentence for the operator, or `None` if the files are simply empty.
pub(super) fn why_nothing(
    files: &[PathBuf],
    rules: &ScanRules,
    network: Network,
) -> Option<String> {
    let (path, raw) = files.iter().find_map(|path| {
        let bytes = first_bytes(path)?;
        // A file that a node has set aside and not written yet is all zeros.
        bytes.iter().any(|byte| *byte != 0).then_some((path, bytes))
    })?;
    let file = path.display();
    let mut clear = raw;
    rules.key.apply(&mut clear, 0);
    let seen = magic_of(&clear);
    let wanted = format!("{} ({})", network.name(), Hex(&rules.magic));

    if seen != rules.magic {
        if let Some(name) = network::name_of_magic(seen) {
            return Some(format!(
                "{file} has the magic of {name} ({}), but the configured network is {wanted}: set network or blocks_dir",
                Hex(&seen)
            ));
        }
        if let Some(key) = key_of(&raw, rules.magic) {
            return Some(format!(
                "key does not match: {} gives {}, but {file} was written with {}; restore the key file of the node that \
                 wrote the block files",
                path.with_file_name(KEY_FILE).display(),
                key_text(&rules.key),
                key_text(&key),
            ));
        }
        return Some(format!(
            "key does not match: with the key {} of {}, {file} begins with {} and holds no record of {wanted}; restore the \
             key file, or set the magic if this is a network of your own",
            key_text(&rules.key),
            path.with_file_name(KEY_FILE).display(),
            Hex(&seen)
        ));
    }
    Some(format!(
        "{file} begins with the magic of {wanted} but holds no complete block; the file is damaged or of another chain"
    ))
}

fn first_bytes(path: &Path) -> Option<[u8; FIRST_BYTES]> {
    let mut bytes = [0; FIRST_BYTES];
    File::open(path).ok()?.read_full_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

fn magic_of(bytes: &[u8; FIRST_BYTES]) -> [u8; 4] {
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

/// The key under which a file begins with the genesis record: the previous hash of genesis is 32 zeros, so the key itself
/// stands there four times (the first of them at an offset that is a multiple of 4, not of 8).
fn key_of(raw: &[u8; FIRST_BYTES], magic: [u8; 4]) -> Option<XorKey> {
    let mut key = [0; KEY_LEN];
    for (offset, byte) in raw.iter().enumerate().skip(12) {
        let slot = &mut key[offset % KEY_LEN];
        if offset < 12 + KEY_LEN {
            *slot = *byte;
        } else if *slot != *byte {
            return None;
        }
    }
    let key = XorKey::new(key);
    let mut clear = *raw;
    key.apply(&mut clear, 0);
    (magic_of(&clear) == magic).then_some(key)
}

fn key_text(key: &XorKey) -> String {
    if key.is_zero() {
        "no key (plain files)".to_owned()
    } else {
        Hex(&key.bytes()).to_string()
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
