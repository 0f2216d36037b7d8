//! Writing the binary format of Antelope chains. Its own, so that the product's code is never tested with itself.

/// Bytes in the making. Every method appends and gives the packer back.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written.
    pub fn done(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// One byte.
    #[must_use]
    pub fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    /// Two bytes.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// A variable-length number.
    #[must_use]
    pub fn varuint(mut self, value: usize) -> Self {
        let mut rest = value;
        loop {
            let byte = (rest & 0x7f) as u8;
            rest >>= 7;
            if rest == 0 {
                self.bytes.push(byte);
                return self;
            }
            self.bytes.push(byte | 0x80);
        }
    }

    /// A length and bytes: also a string.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.varuint(bytes.len()).raw(bytes)
    }

    /// A name.
    ///
    /// # Panics
    /// When the text is not a name.
    #[must_use]
    pub fn name(self, text: &str) -> Self {
        self.u64(name(text))
    }
}

/// The 64 bits of a name: every character takes five, the thirteenth four.
pub(crate) fn name(text: &str) -> u64 {
    assert!(text.len() <= 13, "not a name: {text}");
    let digit = |byte: u8| match byte {
        b'a'..=b'z' => u64::from(byte - b'a') + 6,
        b'1'..=b'5' => u64::from(byte - b'0'),
        b'.' => 0,
        _ => panic!("not a name: {text}"),
    };
    let mut bits: u128 = 0;
    for index in 0..13 {
        bits = bits << 5 | u128::from(text.as_bytes().get(index).map_or(0, |&byte| digit(byte)));
    }
    // 65 bits, the last character having five: its highest is never set.
    (bits >> 5 << 4 | bits & 15) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(name("eosio"), 0x5530_EA00_0000_0000);
        assert_eq!(name("zzzzzzzzzzzzj"), u64::MAX);
        assert_eq!(
            Packer::new().varuint(300).bytes(b"a").done(),
            [0xac, 2, 1, b'a']
        );
    }
}
