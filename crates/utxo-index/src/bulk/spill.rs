//! An append-only file of records cut into partitions: the scratch space of the first load.
//!
//! Writers collect the records of a partition in memory and append them as *chunks*; a chunk holds whole records of
//! one partition. A partition is read back by gathering its chunks. Only sequential writes of large chunks and one
//! later read of each byte occur, so the file may be far larger than memory.
//!
//! ```text
//! file  = chunk*
//! chunk = partition u32 LE, length u32 LE, length bytes
//! ```
//!
//! A chunk begins where the one before it ends. The list of chunks is kept in memory and is rebuilt from the chunk
//! headers when a load is resumed; bytes after the resumed length are cut off.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

const CHUNK_HEADER: u64 = 8;

/// Maps a hash to one of a power of two of partitions by its first bits, so that partitions in order hold keys in
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partitioning {
    bits: u32,
}

/// Most partitions a load uses: what two bytes of a hash can tell apart.
const PARTITION_BITS_MAX: u32 = 13;

impl Partitioning {
    /// As many partitions as bring each near `partition_bytes` when `total_bytes` are spread evenly.
    pub(super) fn for_bytes(total_bytes: u64, partition_bytes: u64) -> Self {
        let wanted = total_bytes.div_ceil(partition_bytes.max(1)).max(1);
        let bits = wanted.next_power_of_two().trailing_zeros();
        Self {
            bits: bits.min(PARTITION_BITS_MAX),
        }
    }

    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        (bits <= PARTITION_BITS_MAX).then_some(Self { bits })
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }

    pub(super) fn count(self) -> usize {
        1 << self.bits
    }

    pub(super) fn of(self, hash: &[u8]) -> usize {
        usize::from(u16::from_be_bytes([hash[0], hash[1]])) >> (16 - self.bits)
    }
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    offset: u64,
    length: u32,
}

struct Tail {
    end: u64,
    chunks: Vec<Vec<Chunk>>,
}

/// The file. Shared by all workers.
pub(super) struct Spill {
    file: File,
    tail: Mutex<Tail>,
}

impl Spill {
    pub(super) fn create(path: &Path, partitions: Partitioning) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let chunks = (0..partitions.count()).map(|_| Vec::new()).collect();
        Ok(Self {
            file,
            tail: Mutex::new(Tail { end: 0, chunks }),
        })
    }

    /// Opens the first `length` bytes of a spill written before and forgets the rest.
    pub(super) fn resume(path: &Path, partitions: Partitioning, length: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{} is shorter than the {length} bytes recorded",
                    path.display()
                ),
            ));
        }
        file.set_len(length)?;
        let mut chunks: Vec<Vec<Chunk>> = (0..partitions.count()).map(|_| Vec::new()).collect();
        let mut at = 0;
        while at < length {
            let mut header = [0; CHUNK_HEADER as usize];
            file.read_exact_at(&mut header, at)?;
            let (partition, chunk_length) = header.split_at(4);
            let partition = u32::from_le_bytes(partition.try_into().expect("4 bytes"));
            let chunk_length = u32::from_le_bytes(chunk_length.try_into().expect("4 bytes"));
            let offset = at + CHUNK_HEADER;
            let list = chunks.get_mut(partition as usize).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: damaged chunk at byte {at}", path.display()),
                )
            })?;
            list.push(Chunk {
                offset,
                length: chunk_length,
            });
            at = offset + u64::from(chunk_length);
        }
        if at != length {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: a chunk ends at {at}, beyond {length}", path.display()),
            ));
        }
        let tail = Mutex::new(Tail {
            end: length,
            chunks,
        });
        Ok(Self { file, tail })
    }

    fn append(&self, partition: usize, records: &mut Vec<u8>) -> io::Result<()> {
        // The buffer's first bytes are kept free for the chunk header, so that one write does it.
        let length = u32::try_from(records.len() as u64 - CHUNK_HEADER)
            .expect("chunk buffers are flushed far below 4 GiB");
        records[..4].copy_from_slice(&(partition as u32).to_le_bytes());
        records[4..8].copy_from_slice(&length.to_le_bytes());
        let start = {
            let mut tail = self
                .tail
                .lock()
                .expect("no writer panics while it holds the tail");
            let start = tail.end;
            tail.end += records.len() as u64;
            tail.chunks[partition].push(Chunk {
                offset: start + CHUNK_HEADER,
                length,
            });
            start
        };
        self.file.write_all_at(records, start)?;
        records.truncate(CHUNK_HEADER as usize);
        Ok(())
    }

    /// Bytes in the file. Meaningful as a resume point only while no writer is active.
    pub(super) fn length(&self) -> u64 {
        self.tail
            .lock()
            .expect("no writer panics while it holds the tail")
            .end
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Bytes of one partition's records.
    pub(super) fn partition_bytes(&self, partition: usize) -> u64 {
        let tail = self
            .tail
            .lock()
            .expect("no writer panics while it holds the tail");
        tail.chunks[partition]
            .iter()
            .map(|c| u64::from(c.length))
            .sum()
    }

    /// Reads whole chunks of a partition into `into` (cleared first), from chunk `from` on, until `bytes_max` are
    /// reached; always at least one. Returns the index of the next chunk, or `None` after the last.
    pub(super) fn read(
        &self,
        partition: usize,
        from: usize,
        bytes_max: u64,
        into: &mut Vec<u8>,
    ) -> io::Result<Option<usize>> {
        let (chunks, more) = {
            let tail = self
                .tail
                .lock()
                .expect("no writer panics while it holds the tail");
            let all = &tail.chunks[partition];
            let mut bytes = 0;
            let mut to = from;
            while to < all.len() && (to == from || bytes + u64::from(all[to].length) <= bytes_max) {
                bytes += u64::from(all[to].length);
                to += 1;
            }
            (all[from..to].to_vec(), to < all.len())
        };
        // Only what the buffer has never held is filled with zeros: every byte is read over anyway.
        into.resize(chunks.iter().map(|c| c.length as usize).sum(), 0);
        let mut rest = &mut into[..];
        for chunk in &chunks {
            let (piece, after) = rest.split_at_mut(chunk.length as usize);
            self.file.read_exact_at(piece, chunk.offset)?;
            rest = after;
        }
        Ok(more.then_some(from + chunks.len()))
    }

    /// Gives the disk space of a partition back; its records are gone.
    pub(super) fn release(&self, partition: usize) {
        let chunks = {
            let mut tail = self
                .tail
                .lock()
                .expect("no writer panics while it holds the tail");
            std::mem::take(&mut tail.chunks[partition])
        };
        for chunk in chunks {
            punch_hole(&self.file, chunk);
        }
    }
}

/// Deallocates a chunk's bytes but not its header, so that the chunk list can still be rebuilt. Not being able to
/// (a file system without holes) only means that the space is freed later.
#[expect(
    unsafe_code,
    reason = "the standard library has no call for holes in files"
)]
fn punch_hole(file: &File, chunk: Chunk) {
    use std::os::fd::AsRawFd;
    let Ok(offset) = libc::off_t::try_from(chunk.offset) else {
        return;
    };
    let length = libc::off_t::from(chunk.length);
    // SAFETY: the descriptor is open for the duration of the call, and the call touches no memory of ours.
    unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset,
            length,
        );
    }
}

/// One worker's buffers for one spill.
pub(super) struct SpillWriter<'a> {
    spill: &'a Spill,
    buffers: Vec<Vec<u8>>,
    buffer_bytes: usize,
    partitions: Partitioning,
}

impl<'a> SpillWriter<'a> {
    /// `memory_bytes` is the sum of all buffers.
    pub(super) fn new(spill: &'a Spill, partitions: Partitioning, memory_bytes: usize) -> Self {
        const BUFFER_BYTES_MIN: usize = 16 << 10;
        const BUFFER_BYTES_MAX: usize = 1 << 20;
        let buffer_bytes =
            (memory_bytes / partitions.count()).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        let buffers = (0..partitions.count())
            .map(|_| vec![0; CHUNK_HEADER as usize])
            .collect();
        Self {
            spill,
            buffers,
            buffer_bytes,
            partitions,
        }
    }

    /// Appends a record given in parts to the partition of `hash`.
    #[inline]
    pub(super) fn push(&mut self, hash: &[u8], parts: &[&[u8]]) -> io::Result<()> {
        let partition = self.partitions.of(hash);
        let buffer = &mut self.buffers[partition];
        for part in parts {
            buffer.extend_from_slice(part);
        }
        if buffer.len() >= self.buffer_bytes {
            self.spill.append(partition, buffer)?;
        }
        Ok(())
    }

    /// Writes out what is buffered. Must be called before the writer is dropped.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        for (partition, buffer) in self.buffers.iter_mut().enumerate() {
            if buffer.len() > CHUNK_HEADER as usize {
                self.spill.append(partition, buffer)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(spill: &Spill, partition: usize, bytes_max: u64) -> Vec<u8> {
        let (mut all, mut piece, mut next) = (Vec::new(), Vec::new(), Some(0));
        while let Some(from) = next {
            next = spill
                .read(partition, from, bytes_max, &mut piece)
                .expect("reads");
            all.extend_from_slice(&piece);
        }
        all
    }

    fn fill(spill: &Spill, partitions: Partitioning) -> Vec<Vec<u8>> {
        let mut expected = vec![Vec::new(); partitions.count()];
        let mut writer = SpillWriter::new(spill, partitions, 0);
        for i in 0..60_000u32 {
            let hash = i.wrapping_mul(2_654_435_761).to_be_bytes();
            writer.push(&hash, &[&hash, b"record"]).expect("writes");
            expected[partitions.of(&hash)].extend([&hash[..], b"record"].concat());
        }
        writer.flush().expect("writes");
        expected
    }

    #[test]
    fn partitions_come_back_whole_whatever_the_piece() {
        let dir = tempfile::tempdir().expect("a folder");
        let partitions = Partitioning::for_bytes(100, 30);
        assert_eq!(partitions.count(), 4);
        let spill = Spill::create(&dir.path().join("s"), partitions).expect("creates");
        let expected = fill(&spill, partitions);
        for (partition, bytes) in expected.iter().enumerate() {
            assert_eq!(spill.partition_bytes(partition), bytes.len() as u64);
            for bytes_max in [0, 20_000, u64::MAX] {
                assert_eq!(&gather(&spill, partition, bytes_max), bytes);
            }
        }
    }

    #[test]
    fn resuming_forgets_what_came_after() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("s");
        let partitions = Partitioning::from_bits(2).expect("in range");
        let spill = Spill::create(&path, partitions).expect("creates");
        let expected = fill(&spill, partitions);
        let length = spill.length();
        fill(&spill, partitions);
        spill.release(1);
        drop(spill);
        let resumed = Spill::resume(&path, partitions, length).expect("resumes");
        assert_eq!(resumed.length(), length);
        for partition in [0, 2, 3] {
            assert_eq!(gather(&resumed, partition, u64::MAX), expected[partition]);
        }
        drop(resumed);
        assert!(
            Spill::resume(&path, partitions, length - 1).is_err(),
            "cut inside a chunk"
        );
        assert!(
            Spill::resume(&path, partitions, length + 1).is_err(),
            "longer than the file"
        );
    }

    #[test]
    fn partitions_in_order_hold_keys_in_order() {
        for bits in 0..=PARTITION_BITS_MAX {
            let partitions = Partitioning::from_bits(bits).expect("in range");
            let mut last = 0;
            for first in 0..=u16::MAX {
                let partition = partitions.of(&first.to_be_bytes());
                assert!(partition >= last && partition < partitions.count());
                last = partition;
            }
            assert_eq!(last, partitions.count() - 1);
        }
        assert!(Partitioning::from_bits(PARTITION_BITS_MAX + 1).is_none());
    }
}
