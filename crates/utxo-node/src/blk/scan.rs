//! Finding the records of one block file by their headers.
//!
//! A record is magic (4 bytes), size (u32, little-endian), block. The scan reads 88 bytes of each record and jumps over the
//! body. A record counts if its magic and size are plausible and its header meets its own proof-of-work target, and if what
//! follows it is the next magic or the end of the file; where something else follows (zeros of a preallocated file, a torn
//! write, damage), the body is decoded and must fit its merkle root. So a wrong size cannot hide the records behind it, a
//! half-written block is not taken for a whole one, and the search for the next magic never runs inside a good block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bitcoin::{BlockHash, Target};
use cairn_utxo_chain::walk::whole_block;
use cairn_utxo_chain::{Family, Header, Proof};
use memchr::memmem::Finder;

use super::xor::XorKey;

/// Bytes before the block in a record: magic and size.
pub const PREFIX_LEN: u64 = 8;
/// Bytes of a block header of Bitcoin; the shortest of Elements has fewer, most have more.
pub const HEADER_LEN: usize = 80;
/// Most bytes of a header of Elements that are looked at. One with the keys of a federation of 15 has some 10,000.
const LONG_HEADER_LEN: usize = 256 * 1024;
/// Smallest plausible block: a header and the count of transactions.
pub const MIN_BLOCK: u32 = 81;
/// Largest plausible Bitcoin block, bytes.
pub const MAX_BLOCK: u32 = 4_000_000;
/// Largest plausible block of Elements, bytes.
pub const MAX_BLOCK_ELEMENTS: u32 = 8_000_000;

/// Bytes read at once while records follow each other: one page.
const STEP_BYTES: usize = 4096;
/// Bytes read at once while searching for a magic.
const SEARCH_BYTES: usize = 256 * 1024;

/// Bytes that can be read at an offset: a file, or memory in tests and fuzzing.
pub trait ReadAt {
    /// Reads into `buffer` from `offset`; returns fewer bytes than asked for only at the end.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl ReadAt for [u8] {
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// What makes a record of a chain's files plausible.
#[derive(Debug, Clone, Copy)]
pub struct ScanRules {
    /// The four bytes before each record.
    pub magic: [u8; 4],
    /// Obfuscation of the files.
    pub key: XorKey,
    /// Easiest target a header may claim; `None`: a chain of Elements, whose blocks are signed. Their signatures are not
    /// checked: magic, size and what follows must do.
    pub pow_limit: Option<Target>,
}

impl ScanRules {
    fn family(&self) -> Family {
        match self.pow_limit {
            Some(_) => Family::Bitcoin,
            None => Family::Elements,
        }
    }

    /// Whether a header meets the target it claims and the network allows that target, or needs none.
    fn is_proven(&self, header: &Header) -> bool {
        match (self.pow_limit, header.proof) {
            (Some(limit), Proof::Work { bits, .. }) => {
                let target = Target::from_compact(bits);
                target != Target::ZERO && target <= limit && target.is_met_by(header.hash)
            }
            (None, Proof::Signed { .. }) => true,
            _ => false,
        }
    }

    fn max_block(&self) -> u32 {
        match self.family() {
            Family::Bitcoin => MAX_BLOCK,
            Family::Elements => MAX_BLOCK_ELEMENTS,
        }
    }
}

/// A record found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Block hash.
    pub hash: BlockHash,
    /// The header.
    pub header: Header,
    /// File offset of the block's first byte (8 behind the record's).
    pub offset: u64,
    /// Bytes of the block.
    pub size: u32,
}

/// Where a scan ended and what it passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanEnd {
    /// Offset at which the next scan of the same, longer file begins.
    pub resume: u64,
    /// Records found.
    pub records: u64,
    /// Records whose body is damaged and that later good records follow.
    pub damaged: u64,
    /// A record at the end is not complete (yet).
    pub torn: bool,
}

/// Scans `[from, len)` of a file and hands each complete record to `sink`, in file order.
///
/// # Errors
/// Only those of reading. Whatever the bytes are, they are not an error: at worst nothing is found.
pub fn scan<R: ReadAt + ?Sized>(
    file: &R,
    len: u64,
    from: u64,
    rules: &ScanRules,
    sink: &mut dyn FnMut(Found),
) -> io::Result<ScanEnd> {
    let mut reader = Window {
        file,
        key: rules.key,
        len,
        start: 0,
        bytes: Vec::new(),
    };
    let finder = Finder::new(&rules.magic);
    let mut end = ScanEnd {
        resume: from,
        ..ScanEnd::default()
    };
    let mut torn_at = None;
    let mut position = from;
    loop {
        match record_at(&mut reader, position, rules)? {
            At::Record(found) => {
                end.records += 1;
                if torn_at.take().is_some() {
                    end.damaged += 1;
                }
                sink(found);
                position = found.offset + u64::from(found.size);
                end.resume = position;
            }
            At::Torn => {
                if torn_at.replace(position).is_some() {
                    end.damaged += 1;
                }
                match reader.find(&finder, position + 1)? {
                    Some(next) => position = next,
                    None => break,
                }
            }
            At::Nothing => match reader.find(&finder, position + 1)? {
                Some(next) => position = next,
                None => break,
            },
        }
    }
    end.torn = torn_at.is_some();
    Ok(end)
}

/// What stands at an offset.
enum At {
    Record(Found),
    /// Magic, size and header are right (or cut off by the end), the body is not there in whole.
    Torn,
    Nothing,
}

fn record_at<R: ReadAt + ?Sized>(
    reader: &mut Window<'_, R>,
    position: u64,
    rules: &ScanRules,
) -> io::Result<At> {
    // Nearly all headers of Elements fit what is read at once anyway.
    let wanted = match rules.family() {
        Family::Bitcoin => PREFIX_LEN as usize + HEADER_LEN,
        Family::Elements => STEP_BYTES,
    };
    let bytes = reader.get(position, wanted, STEP_BYTES)?;
    let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(At::Nothing);
    };
    if *magic != rules.magic {
        return Ok(At::Nothing);
    }
    let Some((size, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(At::Torn);
    };
    let size = u32::from_le_bytes(*size);
    if rest.len() < HEADER_LEN {
        return Ok(At::Torn);
    }
    let header = match (rules.family(), Header::decode(rules.family(), rest)) {
        (_, Ok((header, _))) => header,
        // Longer than what was read.
        (Family::Elements, Err(_)) => {
            let bytes = reader.get(position + PREFIX_LEN, LONG_HEADER_LEN, LONG_HEADER_LEN)?;
            match Header::decode(Family::Elements, bytes) {
                Ok((header, _)) => header,
                Err(_) => return Ok(At::Nothing),
            }
        }
        (Family::Bitcoin, Err(_)) => return Ok(At::Nothing),
    };
    // A header that a node began and never finished is followed at once by the next record: its bytes are no proof of work.
    if !rules.is_proven(&header) {
        return Ok(At::Nothing);
    }
    let offset = position + PREFIX_LEN;
    let found = |size| {
        At::Record(Found {
            hash: header.hash,
            header,
            offset,
            size,
        })
    };

    if (MIN_BLOCK..=rules.max_block()).contains(&size) {
        let next = offset + u64::from(size);
        let followed_well = next == reader.len
            || (next < reader.len && reader.get(next, 4, STEP_BYTES)? == rules.magic.as_slice());
        if followed_well {
            return Ok(found(size));
        }
        if let Body::Whole(whole) = reader.body(offset, size, rules.family())? {
            return Ok(found(whole));
        }
    }
    // The size is wrong, or the body is: the block itself says how long it is.
    Ok(
        match reader.body(offset, rules.max_block(), rules.family())? {
            Body::Whole(whole) => found(whole),
            Body::NotWhole => At::Torn,
        },
    )
}

enum Body {
    Whole(u32),
    NotWhole,
}

/// A moving piece of the file, without obfuscation.
struct Window<'a, R: ReadAt + ?Sized> {
    file: &'a R,
    key: XorKey,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<R: ReadAt + ?Sized> Window<'_, R> {
    /// Up to `count` bytes at `position` (fewer at the end), reading `step` bytes or more if they are not at hand.
    fn get(&mut self, position: u64, count: usize, step: usize) -> io::Result<&[u8]> {
        let wanted = self.len.saturating_sub(position).min(count as u64) as usize;
        let held = position
            .checked_sub(self.start)
            .is_some_and(|skip| skip + wanted as u64 <= self.bytes.len() as u64);
        if !held {
            self.fill(position, step.max(count))?;
        }
        let skip = (position - self.start) as usize;
        let bytes = self.bytes.get(skip..).unwrap_or(&[]);
        Ok(&bytes[..bytes.len().min(wanted)])
    }

    fn fill(&mut self, position: u64, count: usize) -> io::Result<()> {
        let count = self.len.saturating_sub(position).min(count as u64) as usize;
        self.bytes.resize(count, 0);
        let read = self.file.read_full_at(&mut self.bytes, position)?;
        self.bytes.truncate(read);
        self.key.apply(&mut self.bytes, position);
        self.start = position;
        Ok(())
    }

    /// Offset of the first magic at or behind `position`.
    fn find(&mut self, finder: &Finder<'_>, mut position: u64) -> io::Result<Option<u64>> {
        let overlap = finder.needle().len() as u64 - 1;
        while position + overlap < self.len {
            let bytes = self.get(position, SEARCH_BYTES, SEARCH_BYTES)?;
            if let Some(at) = finder.find(bytes) {
                return Ok(Some(position + at as u64));
            }
            // Fewer bytes than the file's length promised: it became shorter while being read.
            if (bytes.len() as u64) <= overlap {
                return Ok(None);
            }
            position += bytes.len() as u64 - overlap;
        }
        Ok(None)
    }

    /// Decodes the block at `offset`, of at most `limit` bytes, and checks its merkle root.
    fn body(&mut self, offset: u64, limit: u32, family: Family) -> io::Result<Body> {
        let bytes = self.get(offset, limit as usize, STEP_BYTES)?;
        Ok(match whole_block(family, bytes) {
            // The cast is right: `bytes` is no longer than a u32.
            Some(size) => Body::Whole(size as u32),
            None => Body::NotWhole,
        })
    }
}
