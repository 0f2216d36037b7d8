//! Ids of stream entries: two numbers, compared as numbers and never as text.

use std::fmt;
use std::str::FromStr;

/// The id of an entry: milliseconds of the server's clock when it was added, and a count within the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// Milliseconds since 1970.
    pub ms: u64,
    /// Count within the millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Before every entry; the last id of a stream that never had one.
    pub const ZERO: Self = Self { ms: 0, seq: 0 };
    /// After every entry.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The first id of a millisecond.
    pub fn at(ms: u64) -> Self {
        Self { ms, seq: 0 }
    }

    /// The next possible id.
    pub fn next(self) -> Self {
        match self.seq.checked_add(1) {
            Some(seq) => Self { ms: self.ms, seq },
            None => Self {
                ms: self.ms.saturating_add(1),
                seq: 0,
            },
        }
    }
}

impl EntryId {
    /// The id before; that of nothing for nothing.
    pub fn previous(self) -> Self {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Self { ms: self.ms, seq },
            (None, Some(ms)) => Self { ms, seq: u64::MAX },
            (None, None) => Self::ZERO,
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The text is no `milliseconds-count`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a stream entry")]
pub struct EntryIdError(String);

impl FromStr for EntryId {
    type Err = EntryIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (ms, seq) = text.split_once('-')?;
            Some(Self {
                ms: ms.parse().ok()?,
                seq: seq.parse().ok()?,
            })
        };
        parse().ok_or_else(|| EntryIdError(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers() {
        let id = |text: &str| text.parse::<EntryId>().expect("an id");
        assert!(id("5-9") < id("5-10"));
        assert!(id("9-0") < id("10-0"));
        assert_eq!(id("5-9").next(), id("5-10"));
        assert_eq!(id("5-18446744073709551615").next(), id("6-0"));
        for text in ["5-10", "6-0", "0-1"] {
            assert_eq!(id(text).previous().next(), id(text));
        }
        assert_eq!(EntryId::ZERO.previous(), EntryId::ZERO);
        assert_eq!(
            id("18446744073709551615-1").to_string(),
            "18446744073709551615-1"
        );
        for text in [
            "",
            "5",
            "5-",
            "-5",
            "a-b",
            "5-1-2",
            "18446744073709551616-0",
        ] {
            assert!(text.parse::<EntryId>().is_err(), "{text}");
        }
    }
}
