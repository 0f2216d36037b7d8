//! Where a chain is: a block's number and id.

use std::fmt;
use std::str::FromStr;

/// The id of a block, 32 bytes; as text 64 lower-case hexadecimal digits in this order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub [u8; 32]);

impl BlockId {
    /// The first 16 hexadecimal digits, as they stand in event ids.
    pub fn short(&self) -> String {
        hex(&self.0[..8])
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockId({self})")
    }
}

/// The text is no block id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a block id of 64 hexadecimal digits")]
pub struct PositionError(String);

impl FromStr for BlockId {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PositionError(text.chars().take(80).collect());
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| {
                char::from(c)
                    .to_digit(16)
                    .and_then(|d| u8::try_from(d).ok())
            };
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(wrong());
            };
            *byte = high << 4 | low;
        }
        Ok(Self(id))
    }
}

/// A block by number and id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Its number, or height.
    pub num: u32,
    /// Its id.
    pub id: BlockId,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.num, self.id)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let text = "0000007d4b8a31b1d90c2ff2c1c16ef9a9b1ee8e24e1b4fd8c0e3a40a1b2c3d4";
        let id: BlockId = text.parse().expect("64 digits");
        assert_eq!(id.to_string(), text);
        assert_eq!(id.short(), "0000007d4b8a31b1");
        for wrong in [
            "",
            "00",
            &text[1..],
            &format!("{text}0"),
            &text.replace('b', "g"),
        ] {
            assert!(wrong.parse::<BlockId>().is_err(), "{wrong}");
        }
    }
}
