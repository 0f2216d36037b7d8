//! Reading consensus bytes: never beyond the end, and never more memory than there are bytes.

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct DecodeError {
    /// What was expected or found there.
    pub what: &'static str,
    /// Offset from the start of the bytes given.
    pub at: usize,
}

/// A place in some bytes.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(
        &mut self,
        count: usize,
        what: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(self.error(what));
        };
        self.at += count;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<&'a [u8; N], DecodeError> {
        let error = self.error(what);
        let taken = self.take(N, what)?;
        taken.first_chunk::<N>().ok_or(error)
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(*self.array(what)?))
    }

    /// A compact size; one that is longer than it must be is refused, as nodes do.
    #[inline]
    pub(crate) fn compact(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let start = self.error("a compact size that is longer than it must be");
        let (value, least) = match self.u8(what)? {
            0xfd => (u64::from(u16::from_le_bytes(*self.array(what)?)), 0xfd),
            0xfe => (u64::from(self.u32(what)?), 0x1_0000),
            0xff => (u64::from_le_bytes(*self.array(what)?), 0x1_0000_0000),
            small => return Ok(u64::from(small)),
        };
        if value < least {
            return Err(start);
        }
        Ok(value)
    }

    /// Bytes with their length before them.
    #[inline]
    pub(crate) fn var_bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = self.compact(what)?;
        // What does not fit a usize is certainly beyond the end.
        self.take(usize::try_from(length).unwrap_or(usize::MAX), what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut reader = Reader::new(&[5, 1, 2]);
        let error = reader
            .var_bytes("a script")
            .expect_err("5 bytes are not there");
        assert_eq!((error.what, error.at), ("a script", 1));
        let mut reader = Reader::new(&[0xff; 9]);
        assert!(reader.var_bytes("a script").is_err(), "2^64 - 1 bytes");
        assert!(Reader::new(&[]).u32("a number").is_err());
    }

    #[test]
    fn compact_sizes_are_as_short_as_can_be() {
        for (bytes, value) in [
            (&[0xfc][..], Some(0xfc)),
            (&[0xfd, 0xfd, 0x00], Some(0xfd)),
            (&[0xfd, 0xfc, 0x00], None),
            (&[0xfe, 0, 0, 1, 0], Some(0x1_0000)),
            (&[0xfe, 0xff, 0xff, 0, 0], None),
            (&[0xff, 0, 0, 0, 0, 1, 0, 0, 0], Some(0x1_0000_0000)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], None),
        ] {
            assert_eq!(
                Reader::new(bytes).compact("a size").ok(),
                value,
                "{bytes:x?}"
            );
        }
    }
}
