//! What can be wrong with bytes and with ABIs.

use std::fmt;

/// Why a value could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The bytes end inside a value.
    #[error("{needed} more bytes needed, {left} left")]
    Truncated {
        /// Bytes that the value still needs.
        needed: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// A variable-length integer goes on past its largest form.
    #[error("a variable-length integer does not end")]
    Varint,
    /// A variant's index names none of its types.
    #[error("variant index {index} where there are {count} types")]
    VariantIndex {
        /// The index read.
        index: u32,
        /// How many types the variant has.
        count: usize,
    },
    /// Values are nested deeper than the limit.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// The text would become larger than its bound.
    #[error("the decoded value would be larger than {0} bytes")]
    TooLarge(usize),
    /// A key or signature of a kind that this program does not know.
    #[error("unknown kind {0} of a key or signature")]
    KeyKind(u8),
    /// A WebAuthn key or signature longer than the bound.
    #[error("a key or signature of {0} bytes")]
    KeyLength(usize),
    /// The ABI does not say what the type is.
    #[error("{0}")]
    Type(String),
}

/// A value that does not fit its type: why, and where in the bytes and in the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    reason: Reason,
    at: usize,
    // Field names from the inside out, since that is the order in which the error learns them.
    path: Vec<String>,
}

impl DecodeError {
    /// An error `at` bytes into the input.
    #[must_use]
    pub fn new(reason: Reason, at: usize) -> Self {
        Self {
            inner: Box::new(Inner {
                reason,
                at,
                path: Vec::new(),
            }),
        }
    }

    /// The same error, known to lie inside the field or structure `name`.
    #[must_use]
    pub fn inside(mut self, name: &str) -> Self {
        self.inner.path.push(name.to_owned());
        self
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.inner.reason
    }

    /// Where: bytes from the start of the input.
    #[must_use]
    pub fn at(&self) -> usize {
        self.inner.at
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.inner.path.iter().rev();
        if let Some(first) = parts.next() {
            f.write_str(first)?;
            for part in parts {
                write!(f, ".{part}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "byte {}: {}", self.inner.at, self.inner.reason)
    }
}

impl std::error::Error for DecodeError {}

/// Bytes or text that are not an ABI that this program can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbiError {
    /// The bytes are not the binary form of an ABI.
    #[error("not an ABI: {0}")]
    Binary(DecodeError),
    /// The text is not the JSON form of an ABI.
    #[error("not an ABI in JSON: {0}")]
    Json(String),
    /// A version of the format that is not `eosio::abi/1.x`.
    #[error("ABI version {0:?}; eosio::abi/1.x is understood")]
    Version(String),
    /// Larger than [`ABI_BYTES_MAX`](crate::ABI_BYTES_MAX).
    #[error("an ABI of {0} bytes is larger than the bound")]
    TooLarge(usize),
    /// The encoder cannot use this ABI or this value.
    #[error("cannot encode: {0}")]
    Encode(String),
}
