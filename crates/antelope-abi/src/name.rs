//! Account, action, table and permission names: up to 13 characters in 64 bits.

use std::fmt;

const CHARACTERS: &[u8; 32] = b".12345abcdefghijklmnopqrstuvwxyz";

/// A name: twelve characters of five bits from the top and a thirteenth of four. 0 is the empty name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u64);

/// A text that is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name: up to 12 characters of a-z, 1-5 and the point, and a 13th up to j")]
pub struct NameError(String);

impl Name {
    /// The name with this text. Trailing points carry no information and are dropped.
    ///
    /// # Errors
    /// When the text has other characters or too many.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let bytes = text.as_bytes();
        let trimmed = bytes
            .iter()
            .rposition(|&b| b != b'.')
            .map_or(0, |last| last + 1);
        let mut value = 0u64;
        for (index, &byte) in bytes[..trimmed].iter().enumerate() {
            let digit = match byte {
                b'.' => 0,
                b'1'..=b'5' => byte - b'1' + 1,
                b'a'..=b'z' => byte - b'a' + 6,
                _ => return Err(NameError(text.to_owned())),
            };
            match index {
                0..12 => value |= u64::from(digit) << (59 - 5 * index),
                12 if digit < 16 => value |= u64::from(digit),
                _ => return Err(NameError(text.to_owned())),
            }
        }
        Ok(Self(value))
    }

    /// The text, without a place on the heap.
    #[inline]
    #[must_use]
    pub fn text(self) -> NameText {
        let (characters, length) = self.characters();
        NameText { characters, length }
    }

    /// Appends the text to `out`.
    #[inline]
    pub fn write_to(self, out: &mut Vec<u8>) {
        let (text, length) = self.characters();
        out.extend_from_slice(&text[..length]);
    }

    fn characters(self) -> ([u8; 13], usize) {
        let mut text = [b'.'; 13];
        let mut length = 0;
        let mut rest = self.0;
        for (index, slot) in text.iter_mut().enumerate() {
            if rest == 0 {
                break;
            }
            let digit = if index < 12 { rest >> 59 } else { rest >> 60 };
            rest <<= 5;
            *slot = CHARACTERS[(digit & 31) as usize];
            if digit != 0 {
                length = index + 1;
            }
        }
        (text, length)
    }
}

/// The text of a [`Name`].
#[derive(Clone, Copy)]
pub struct NameText {
    characters: [u8; 13],
    length: usize,
}

impl std::ops::Deref for NameText {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        std::str::from_utf8(&self.characters[..self.length]).unwrap_or_default()
    }
}

impl fmt::Debug for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names() {
        // text, value: from the headers of the reference node's contracts
        for (text, value) in [
            ("", 0),
            ("eosio", 0x5530_EA00_0000_0000),
            ("eosio.token", 0x5530_EA03_3482_A600),
            ("zzzzzzzzzzzzj", u64::MAX),
            ("............1", 1),
            ("a", 6 << 59),
        ] {
            assert_eq!(Name::parse(text), Ok(Name(value)), "{text}");
            assert_eq!(Name(value).to_string(), text);
        }
    }

    #[test]
    fn texts_that_are_no_names() {
        for text in ["A", "6", "zzzzzzzzzzzzz", "aaaaaaaaaaaaaa", "a b", "é"] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
        assert_eq!(Name::parse("eosio......"), Name::parse("eosio"));
    }

    proptest::proptest! {
        #[test]
        fn every_value_has_a_text_that_gives_it_back(value: u64) {
            proptest::prop_assert_eq!(Name::parse(&Name(value).to_string()), Ok(Name(value)));
        }
    }
}
