//! Reading the binary format: little-endian, no alignment, lengths in front.

use crate::error::{DecodeError, Reason};
use crate::name::Name;

/// A SHA-256 value in the order of its bytes on the wire: block ids, transaction ids, digests.
pub type Checksum256 = [u8; 32];

/// A position in bytes that come from outside. Every read says where it failed.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// An error at this position.
    #[must_use]
    pub fn error(&self, reason: Reason) -> DecodeError {
        DecodeError::new(reason, self.at)
    }

    /// The bytes between an earlier position and this one.
    #[must_use]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    #[cold]
    fn truncated(&self, needed: u64) -> DecodeError {
        let left = self.remaining();
        self.error(Reason::Truncated {
            needed: needed.saturating_sub(left as u64),
            left,
        })
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.bytes[self.at..].get(..count) {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(self.truncated(count as u64)),
        }
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.truncated(N as u64)),
        }
    }

    /// One byte.
    ///
    /// # Errors
    /// When nothing is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// A `bool`: every value but 0 is true.
    ///
    /// # Errors
    /// When nothing is left.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// A `uint16`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// A `uint32`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A `uint64`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An `int64`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A `name`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn name(&mut self) -> Result<Name, DecodeError> {
        Ok(Name(self.u64()?))
    }

    /// A `checksum256`.
    ///
    /// # Errors
    /// When the bytes end.
    #[inline]
    pub fn checksum256(&mut self) -> Result<Checksum256, DecodeError> {
        self.array()
    }

    /// A `varuint32`: LEB128 of at most five bytes. Bits above the 32nd are dropped, as nodes do.
    ///
    /// # Errors
    /// When the bytes end or the number goes on past five bytes.
    #[inline]
    pub fn varuint32(&mut self) -> Result<u32, DecodeError> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u32::from(first));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "bits above the 32nd are dropped, as nodes do"
        )]
        Ok(self.leb128(first, 5)? as u32)
    }

    /// A LEB128 number of up to 64 bits, as Spring writes the lengths of large byte strings.
    ///
    /// # Errors
    /// When the bytes end or the number goes on past ten bytes.
    pub fn varuint64(&mut self) -> Result<u64, DecodeError> {
        let first = self.u8()?;
        self.leb128(first, 10)
    }

    fn leb128(&mut self, first: u8, bytes_max: u32) -> Result<u64, DecodeError> {
        let mut value = u64::from(first & 0x7f);
        let mut byte = first;
        let mut count = 1;
        while byte & 0x80 != 0 {
            if count == bytes_max {
                return Err(self.error(Reason::Varint));
            }
            byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << (7 * count);
            count += 1;
        }
        Ok(value)
    }

    /// A `varint32`: zigzag over LEB128.
    ///
    /// # Errors
    /// As [`varuint32`](Self::varuint32).
    pub fn varint32(&mut self) -> Result<i32, DecodeError> {
        let raw = self.varuint32()?;
        Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
    }

    /// A `bytes` or `string`: a length and that many bytes. The length may use the 64-bit form.
    ///
    /// # Errors
    /// When fewer bytes are left than the length says.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varuint64()?;
        match usize::try_from(length) {
            Ok(count) if count <= self.remaining() => self.take(count),
            _ => Err(self.truncated(length)),
        }
    }

    /// The number of items of an array, each of which takes at least `item_bytes_min` bytes.
    ///
    /// # Errors
    /// When so many cannot be left, so that no caller reserves memory for a number that lies.
    #[inline]
    pub fn count(&mut self, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = self.varuint32()? as usize;
        if count > self.remaining() / item_bytes_min.max(1) {
            return Err(self.truncated((count as u64).saturating_mul(item_bytes_min.max(1) as u64)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        // value, bytes: the ABI documents' own examples and the borders of the form
        for (value, bytes) in [
            (0u32, &[0u8][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (16_384, &[0x80, 0x80, 1]),
            (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            assert_eq!(Reader::new(bytes).varuint32(), Ok(value), "{bytes:x?}");
        }
        for (value, bytes) in [
            (0i32, &[0u8][..]),
            (-1, &[1]),
            (1, &[2]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            assert_eq!(Reader::new(bytes).varint32(), Ok(value), "{bytes:x?}");
        }
        assert!(Reader::new(&[0x80; 6]).varuint32().is_err());
        assert!(Reader::new(&[0x80; 3]).varuint32().is_err());
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).varuint64(),
            Ok(u64::MAX)
        );
    }

    #[test]
    fn lengths_that_lie() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2]);
        let error = reader
            .clone()
            .bytes()
            .expect_err("two bytes are not four billion");
        assert_eq!(
            error.reason(),
            &Reason::Truncated {
                needed: u64::from(u32::MAX) - 2,
                left: 2
            }
        );
        assert!(reader.count(1).is_err());
    }
}
