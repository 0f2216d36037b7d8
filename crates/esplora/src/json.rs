//! Writing JSON straight into bytes.
//!
//! The transaction object is almost nothing but hexadecimal text and numbers, and pages hold dozens of them. Writing
//! them directly costs a fraction of what a general serializer does, since nothing needs escaping: every text that
//! passes through here is hexadecimal, an opcode name, an address, or a constant.

/// The two digits of every byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
};

/// Digits of the largest u64.
const U64_DIGITS: usize = 20;

/// Bytes of JSON being written.
#[derive(Debug, Default)]
pub(crate) struct JsonBuf(Vec<u8>);

impl JsonBuf {
    /// With room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Appends text as it is.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Appends bytes that are JSON already.
    pub(crate) fn json(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends hexadecimal digits, without quotes.
    pub(crate) fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.reserve(bytes.len() * 2);
        for &byte in bytes {
            self.0.extend_from_slice(&HEX[usize::from(byte)]);
        }
        self
    }

    /// 32 bytes in printed order, as a string.
    pub(crate) fn reversed(&mut self, bytes: [u8; 32]) -> &mut Self {
        let mut printed = bytes;
        printed.reverse();
        self.raw("\"").hex(&printed).raw("\"")
    }

    /// Appends a hash in its printed (reversed) order, in quotes.
    pub(crate) fn hash(&mut self, hash: impl AsRef<[u8; 32]>) -> &mut Self {
        self.0.push(b'"');
        for &byte in hash.as_ref().iter().rev() {
            self.0.extend_from_slice(&HEX[usize::from(byte)]);
        }
        self.0.push(b'"');
        self
    }

    /// Appends an integer.
    pub(crate) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        let mut rest: u64 = number.into();
        let mut digits = [0u8; U64_DIGITS];
        let mut start = U64_DIGITS;
        loop {
            start -= 1;
            // A remainder by ten is one digit.
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[start..]);
        self
    }

    /// Appends a signed integer.
    pub(crate) fn signed(&mut self, number: i64) -> &mut Self {
        if number < 0 {
            self.0.push(b'-');
        }
        self.number(number.unsigned_abs())
    }

    /// Appends a floating point number: the shortest text that reads back, always with a point or an exponent. What is no
    /// number is null.
    pub(crate) fn float(&mut self, number: f64) -> &mut Self {
        self.json(serde_json::Value::from(number).to_string().as_bytes())
    }

    /// Appends `true` or `false`.
    pub(crate) fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(if value { "true" } else { "false" })
    }

    /// Appends an array: `write` for each item, commas between.
    pub(crate) fn array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.0.push(b'[');
        self.list(items, write);
        self.0.push(b']');
        self
    }

    /// Appends the items of an array: `write` for each, commas between.
    pub(crate) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            write(self, item);
        }
        self
    }

    /// The bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl std::fmt::Write for JsonBuf {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.raw(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back(unsigned: u64, signed: i64) {
            let mut buf = JsonBuf::default();
            buf.number(unsigned).raw(" ").signed(signed);
            let text = String::from_utf8(buf.into_bytes()).expect("digits");
            prop_assert_eq!(text, format!("{unsigned} {signed}"));
        }

        #[test]
        fn hex_is_lower_case(bytes: Vec<u8>) {
            let mut buf = JsonBuf::default();
            buf.hex(&bytes);
            let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(buf.into_bytes(), expected.into_bytes());
        }
    }

    #[test]
    fn extremes() {
        let mut buf = JsonBuf::default();
        buf.number(0u64)
            .raw(" ")
            .number(u64::MAX)
            .raw(" ")
            .signed(i64::MIN);
        assert_eq!(
            buf.into_bytes(),
            b"0 18446744073709551615 -9223372036854775808"
        );
    }
}
