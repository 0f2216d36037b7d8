//! A value, asset or nonce of an output: nothing, plain, or a commitment.

use std::fmt;

use super::AssetId;
use crate::bytes::{DecodeError, Reader};

/// Longest field: a prefix and 32 bytes.
const FIELD_LEN_MAX: usize = 33;
/// Prefix of a plain field.
const EXPLICIT: u8 = 1;

/// A value, asset, nonce or issued amount in its consensus form: a prefix byte, then nothing (`00`), the plain thing
/// (`01`; a value is a big-endian u64, all else 32 bytes), or 32 bytes of a commitment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    length: u8,
    bytes: [u8; FIELD_LEN_MAX],
}

impl Field {
    /// No value at all.
    pub const NULL: Field = Field {
        length: 1,
        bytes: [0; FIELD_LEN_MAX],
    };

    /// A plain value, base units.
    pub fn value(amount: u64) -> Self {
        let mut bytes = [0; FIELD_LEN_MAX];
        bytes[0] = EXPLICIT;
        bytes[1..9].copy_from_slice(&amount.to_be_bytes());
        Self { length: 9, bytes }
    }

    /// A plain asset.
    pub fn asset(asset: AssetId) -> Self {
        let mut bytes = [0; FIELD_LEN_MAX];
        bytes[0] = EXPLICIT;
        bytes[1..].copy_from_slice(asset.as_byte_array());
        Self { length: 33, bytes }
    }

    /// A value that is all of `bytes`; `None` if they are not one.
    pub fn parse_value(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let field = read_value(&mut reader).ok()?;
        (reader.at() == bytes.len()).then(|| Self::of(field))
    }

    /// From bytes that were read as a field.
    pub(crate) fn of(field: &[u8]) -> Self {
        let mut bytes = [0; FIELD_LEN_MAX];
        bytes[..field.len()].copy_from_slice(field);
        Self {
            length: field.len() as u8,
            bytes,
        }
    }

    /// The consensus form: 1, 9 or 33 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether nothing is there.
    pub fn is_null(&self) -> bool {
        self.length == 1
    }

    /// The plain value, base units.
    pub fn explicit_value(&self) -> Option<u64> {
        explicit_value(self.as_bytes())
    }

    /// The plain asset.
    pub fn explicit_asset(&self) -> Option<AssetId> {
        explicit_asset(self.as_bytes())
    }

    /// The plain 32 bytes, as of a nonce.
    pub fn explicit_bytes(&self) -> Option<&[u8]> {
        (self.bytes[0] == EXPLICIT).then(|| &self.as_bytes()[1..])
    }

    /// The 33 bytes of a commitment.
    pub fn commitment(&self) -> Option<&[u8]> {
        (self.bytes[0] > EXPLICIT).then(|| self.as_bytes())
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use bitcoin::hex::DisplayHex;
        write!(f, "{:x}", self.as_bytes().as_hex())
    }
}

/// What an output of Elements is worth, as its bytes say it, borrowed. Each field is well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confidential<'a> {
    /// Of what.
    pub asset: &'a [u8],
    /// How much.
    pub value: &'a [u8],
    /// What the receiver finds the blinding factors with.
    pub nonce: &'a [u8],
}

impl<'a> Confidential<'a> {
    /// The value by itself.
    #[inline]
    pub fn value_field(&self) -> Field {
        Field::of(self.value)
    }

    /// The value, base units, if it is plain.
    #[inline]
    pub fn explicit_value(&self) -> Option<u64> {
        explicit_value(self.value)
    }

    /// The asset, if it is plain.
    #[inline]
    pub fn explicit_asset(&self) -> Option<AssetId> {
        explicit_asset(self.asset)
    }

    /// Asset, value and nonce in the order of an output.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            asset: read_field(reader, 33, 0x0a, "a blinded or plain asset")?,
            value: read_value(reader)?,
            nonce: read_field(reader, 33, 0x02, "a nonce")?,
        })
    }

    /// Value, asset and nonce that are all of `bytes`: the end of an `O` row.
    pub fn parse_row(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = read_value(&mut reader)?;
        let asset = read_field(&mut reader, 33, 0x0a, "a blinded or plain asset")?;
        let nonce = read_field(&mut reader, 33, 0x02, "a nonce")?;
        if reader.at() != bytes.len() {
            return Err(reader.error("bytes after the nonce"));
        }
        Ok(Self {
            asset,
            value,
            nonce,
        })
    }
}

fn explicit_value(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((&EXPLICIT, amount)) => Some(u64::from_be_bytes(amount.try_into().ok()?)),
        _ => None,
    }
}

fn explicit_asset(field: &[u8]) -> Option<AssetId> {
    match field.split_first() {
        Some((&EXPLICIT, id)) => Some(AssetId::from_byte_array(id.try_into().ok()?)),
        _ => None,
    }
}

/// A value: `00`, `01` and a big-endian u64, or `08`/`09` and a commitment.
#[inline]
pub(crate) fn read_value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    read_field(reader, 9, 0x08, "a blinded or plain value")
}

/// A field whose commitments begin with `prefix` or the number after it.
#[inline]
fn read_field<'a>(
    reader: &mut Reader<'a>,
    explicit_len: usize,
    prefix: u8,
    what: &'static str,
) -> Result<&'a [u8], DecodeError> {
    let first = reader.clone().u8(what)?;
    let length = match first {
        0 => 1,
        EXPLICIT => explicit_len,
        first if first == prefix || first == prefix + 1 => FIELD_LEN_MAX,
        _ => return Err(reader.error(what)),
    };
    reader.take(length, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_nothing_plain_or_a_commitment() {
        let plain = Field::value(0x0102_0304_0506_0708);
        assert_eq!(plain.as_bytes(), [1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Field::parse_value(plain.as_bytes()), Some(plain));
        assert_eq!(plain.explicit_value(), Some(0x0102_0304_0506_0708));
        assert_eq!(plain.commitment(), None);
        assert!(Field::parse_value(&[0]).is_some_and(|field| field.is_null()));
        let mut commitment = [7; 33];
        for (prefix, is_value) in [(8, true), (9, true), (10, false), (2, false)] {
            commitment[0] = prefix;
            let field = Field::parse_value(&commitment);
            assert_eq!(field.is_some(), is_value, "prefix {prefix}");
            assert_eq!(
                field.as_ref().and_then(Field::commitment),
                is_value.then_some(&commitment[..])
            );
        }
        assert_eq!(Field::parse_value(&commitment[..32]), None, "cut off");
        assert_eq!(Field::parse_value(&[0, 0]), None, "a byte too many");
    }
}
