//! Writes block files as a node would, and as a node would after a bad day.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bitcoin::Block;
use bitcoin::consensus::{Encodable, serialize};

/// What begins each record on regtest.
pub const REGTEST_MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// What begins each record on mainnet.
pub const MAINNET_MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
/// A node begins another file before one gets larger than this.
const NODE_FILE_LIMIT: u64 = 0x800_0000;
/// A node enlarges its files in steps of this size, with zeros.
const PREALLOCATION: u64 = 16 << 20;

/// How files are written.
#[derive(Debug, Clone)]
pub struct BlkOptions {
    /// Begins each record.
    pub magic: [u8; 4],
    /// Size of a file at most.
    pub file_limit: u64,
    /// The obfuscation key, written to `xor.dat`; `None`: plain files and no `xor.dat`.
    pub xor_key: Option<[u8; 8]>,
    /// Whether the last file is filled up with zeros like a node's.
    pub preallocate: bool,
}

impl Default for BlkOptions {
    fn default() -> Self {
        BlkOptions {
            magic: REGTEST_MAGIC,
            file_limit: NODE_FILE_LIMIT,
            xor_key: None,
            preallocate: false,
        }
    }
}

/// Where a record's block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Number of the file.
    pub file: u32,
    /// Offset of the block's first byte (the header) in it.
    pub offset: u64,
}

/// Writes `blk00000.dat`, `blk00001.dat`, … into a folder.
#[derive(Debug)]
pub struct BlkWriter {
    dir: PathBuf,
    options: BlkOptions,
    file: BufWriter<File>,
    number: u32,
    position: u64,
    scratch: Vec<u8>,
}

impl BlkWriter {
    /// Creates the folder, `xor.dat` and the first file.
    pub fn create(dir: impl Into<PathBuf>, options: BlkOptions) -> io::Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir)?;
        if let Some(key) = options.xor_key {
            std::fs::write(dir.join("xor.dat"), key)?;
        }
        let file = open(&dir, 0)?;
        Ok(BlkWriter {
            dir,
            options,
            file,
            number: 0,
            position: 0,
            scratch: Vec::new(),
        })
    }

    /// Appends a block; begins another file when this one is full.
    pub fn block(&mut self, block: &Block) -> io::Result<RecordPlace> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        block.consensus_encode(&mut bytes)?;
        let place = self.record(&bytes);
        self.scratch = bytes;
        place
    }

    /// Appends a record of any content.
    pub fn record(&mut self, content: &[u8]) -> io::Result<RecordPlace> {
        let size = u32::try_from(content.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "a record's size has 32 bits")
        })?;
        if self.position > 0 && self.position + 8 + u64::from(size) > self.options.file_limit {
            self.next_file()?;
        }
        self.bytes(&self.options.magic.clone())?;
        self.bytes(&size.to_le_bytes())?;
        let place = RecordPlace {
            file: self.number,
            offset: self.position,
        };
        self.bytes(content)?;
        Ok(place)
    }

    /// Appends zeros.
    pub fn padding(&mut self, count: usize) -> io::Result<()> {
        self.bytes(&vec![0; count])
    }

    /// Appends magic and size of a block that never follows, as after a failed write.
    pub fn header_only(&mut self, block: &Block) -> io::Result<()> {
        self.bytes(&self.options.magic.clone())?;
        self.bytes(&(block.total_size() as u32).to_le_bytes())
    }

    /// Appends a record of which only the first `kept` bytes of the block are there. Write nothing after it.
    pub fn truncated(&mut self, block: &Block, kept: usize) -> io::Result<()> {
        self.header_only(block)?;
        let bytes = serialize(block);
        self.bytes(&bytes[..kept.min(bytes.len())])
    }

    /// Appends any bytes (obfuscated like the rest).
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.options.xor_key {
            None => self.file.write_all(bytes)?,
            Some(key) => {
                let mut hidden = bytes.to_vec();
                apply_key(&mut hidden, key, self.position);
                self.file.write_all(&hidden)?;
            }
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Ends this file and begins the next.
    pub fn next_file(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.number += 1;
        self.position = 0;
        self.file = open(&self.dir, self.number)?;
        Ok(())
    }

    /// Ends the last file.
    pub fn finish(mut self) -> io::Result<()> {
        if self.options.preallocate {
            let missing = self.position.next_multiple_of(PREALLOCATION) - self.position;
            // A node's padding is zero on disk, so it is not obfuscated.
            self.file.write_all(&vec![0; missing as usize])?;
        }
        self.file.flush()
    }
}

/// Writes blocks into a folder in the order given.
pub fn write_blocks<'a>(
    dir: impl Into<PathBuf>,
    options: BlkOptions,
    blocks: impl IntoIterator<Item = &'a Block>,
) -> io::Result<()> {
    let mut writer = BlkWriter::create(dir, options)?;
    for block in blocks {
        writer.block(block)?;
    }
    writer.finish()
}

/// Applies an XOR key to all `blk*.dat` and `rev*.dat` files of a folder, in place: obfuscates plain files, makes obfuscated ones
/// plain. Does not touch `xor.dat`.
pub fn xor_folder(dir: &Path, key: [u8; 8]) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if (name.starts_with("blk") || name.starts_with("rev")) && name.ends_with(".dat") {
            let mut bytes = std::fs::read(&path)?;
            apply_key(&mut bytes, key, 0);
            std::fs::write(&path, bytes)?;
        }
    }
    Ok(())
}

/// The blocks of one plain block file; trailing zeros are fine, anything else out of place is an error. For files this crate
/// trusts: fixtures and samples.
pub fn parse_plain(bytes: &[u8], magic: [u8; 4]) -> io::Result<Vec<Block>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let records = split_plain(bytes, magic)?;
    (0..)
        .zip(&records)
        .map(|(at, record)| {
            bitcoin::consensus::deserialize(record).map_err(|e| bad(format!("record {at}: {e}")))
        })
        .collect()
}

/// The records of such a file as they are, of whatever chain.
pub(crate) fn split_plain(mut bytes: &[u8], magic: [u8; 4]) -> io::Result<Vec<Vec<u8>>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let whole = bytes.len();
    let mut blocks = Vec::new();
    while bytes.iter().any(|byte| *byte != 0) {
        let at = whole - bytes.len();
        let record = bytes
            .strip_prefix(&magic)
            .and_then(|rest| rest.split_first_chunk::<4>())
            .and_then(|(size, rest)| rest.split_at_checked(u32::from_le_bytes(*size) as usize));
        let Some((record, rest)) = record else {
            return Err(bad(format!("no whole record at offset {at}")));
        };
        blocks.push(record.to_vec());
        bytes = rest;
    }
    Ok(blocks)
}

fn open(dir: &Path, number: u32) -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(
        1 << 20,
        File::create(dir.join(format!("blk{number:05}.dat")))?,
    ))
}

fn apply_key(bytes: &mut [u8], key: [u8; 8], position: u64) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte ^= key[((position + i as u64) % 8) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::Network;
    use bitcoin::blockdata::constants::genesis_block;

    #[test]
    fn the_key_counts_from_the_start_of_each_file() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let block = genesis_block(Network::Regtest);
        let record = 8 + block.total_size() as u64;
        let key = [1, 2, 3, 4, 5, 6, 7, 8];
        let options = BlkOptions {
            xor_key: Some(key),
            file_limit: 2 * record,
            ..BlkOptions::default()
        };
        let mut writer = BlkWriter::create(dir.path(), options)?;
        let places = [
            writer.block(&block)?,
            writer.block(&block)?,
            writer.block(&block)?,
        ];
        writer.finish()?;
        assert_eq!(
            places.map(|p| (p.file, p.offset)),
            [(0, 8), (0, record + 8), (1, 8)]
        );
        assert_eq!(std::fs::read(dir.path().join("xor.dat"))?, key);

        let first = std::fs::read(dir.path().join("blk00000.dat"))?;
        assert_eq!(first[..4], [0xfb, 0xbd, 0xb6, 0xde]);
        xor_folder(dir.path(), key)?;
        for (file, count) in [("blk00000.dat", 2), ("blk00001.dat", 1)] {
            let plain = std::fs::read(dir.path().join(file))?;
            assert_eq!(
                parse_plain(&plain, REGTEST_MAGIC)?,
                vec![block.clone(); count]
            );
        }
        Ok(())
    }
}
