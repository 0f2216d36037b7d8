//! What is wrong with a row that does not decode.

use bitcoin::hex::DisplayHex;

/// How many bytes of a damaged row an error shows; enough for every key, not for a megabyte of value.
const HEX_BYTES_MAX: usize = 160;

/// A key or value that does not have the layout of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged row in {place}: {what}; bytes {hex}")]
pub struct RowError {
    /// Database, kind of row and part: `history H…F key`.
    pub place: &'static str,
    /// The defect.
    pub what: String,
    /// The bytes, lower-case hex; long ones are cut with `…`.
    pub hex: String,
}

impl RowError {
    pub(super) fn new(place: &'static str, what: impl Into<String>, bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(HEX_BYTES_MAX)];
        let cut = if shown.len() < bytes.len() { "…" } else { "" };
        Self {
            place,
            what: what.into(),
            hex: format!("{}{cut}", shown.to_lower_hex_string()),
        }
    }

    pub(super) fn length(place: &'static str, expected: usize, bytes: &[u8]) -> Self {
        Self::new(
            place,
            format!("{} bytes instead of {expected}", bytes.len()),
            bytes,
        )
    }
}

/// Fails unless `bytes` is `expected` long and begins with `tag`.
pub(super) fn check(
    place: &'static str,
    bytes: &[u8],
    tag: u8,
    expected: usize,
) -> Result<(), RowError> {
    if bytes.len() != expected {
        return Err(RowError::length(place, expected, bytes));
    }
    if bytes[0] != tag {
        return Err(RowError::new(
            place,
            format!("tag {:#04x} instead of {tag:#04x}", bytes[0]),
            bytes,
        ));
    }
    Ok(())
}

/// Fails unless the value is empty.
pub(super) fn check_empty(place: &'static str, value: &[u8]) -> Result<(), RowError> {
    if value.is_empty() {
        Ok(())
    } else {
        Err(RowError::length(place, 0, value))
    }
}
