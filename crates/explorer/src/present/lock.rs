//! What lock times and sequence numbers mean, in words.
//!
//! Rules: BIP 65 and 113 (absolute lock times), BIP 68 and 112 (relative ones), BIP 125 (replacement signal).

use super::time::{Stamp, duration};

/// Lock times below this are block heights, from it on they are Unix seconds.
const LOCKTIME_THRESHOLD: u32 = 500_000_000;
/// An input with this sequence asks for nothing.
const SEQUENCE_FINAL: u32 = 0xffff_ffff;
/// The largest sequence that signals replacement.
const SEQUENCE_RBF_MAX: u32 = 0xffff_fffd;
/// Set: the sequence is no relative lock.
const SEQUENCE_DISABLE: u32 = 1 << 31;
/// Set: the relative lock counts time, not blocks.
const SEQUENCE_TIME: u32 = 1 << 22;
/// The bits that hold the length of the relative lock.
const SEQUENCE_MASK: u32 = 0xffff;
/// Seconds in one step of a relative lock by time.
const SEQUENCE_GRANULARITY_SECONDS: u64 = 512;
/// Relative locks hold from this transaction version on.
const RELATIVE_LOCK_VERSION_MIN: u32 = 2;

/// A transaction's lock time, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockTime {
    /// Zero: none.
    None,
    /// Not before this height has been reached.
    Height(u32),
    /// Not before this median time.
    Time(Stamp),
}

impl LockTime {
    /// Reads the 32-bit field.
    pub(crate) fn new(value: u32) -> Self {
        match value {
            0 => LockTime::None,
            v if v < LOCKTIME_THRESHOLD => LockTime::Height(v),
            v => LockTime::Time(Stamp(v)),
        }
    }
}

/// An input's sequence number, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The field as eight hex digits.
    pub(crate) hex: String,
    /// What it asks for, in words.
    pub(crate) meaning: String,
    /// Whether it signals that the transaction may be replaced.
    pub(crate) replaceable: bool,
}

impl Sequence {
    /// Reads the field in a transaction of the given version (as unsigned, the way consensus compares it).
    pub(crate) fn new(value: u32, tx_version: u32) -> Self {
        let relative = value & SEQUENCE_DISABLE == 0 && tx_version >= RELATIVE_LOCK_VERSION_MIN;
        let length = value & SEQUENCE_MASK;
        let meaning = if value == SEQUENCE_FINAL {
            "final".to_owned()
        } else if relative && length == 0 {
            "replaceable".to_owned()
        } else if relative && value & SEQUENCE_TIME != 0 {
            let wait = u64::from(length) * SEQUENCE_GRANULARITY_SECONDS;
            format!("{} after the spent output", duration(wait))
        } else if relative {
            let blocks = if length == 1 { "block" } else { "blocks" };
            format!("{length} {blocks} after the spent output")
        } else if value <= SEQUENCE_RBF_MAX {
            "replaceable".to_owned()
        } else {
            "lock time applies".to_owned()
        };
        Sequence {
            hex: format!("{value:08x}"),
            meaning,
            replaceable: value <= SEQUENCE_RBF_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_times() {
        assert_eq!(LockTime::new(0), LockTime::None);
        assert_eq!(LockTime::new(1), LockTime::Height(1));
        assert_eq!(LockTime::new(499_999_999), LockTime::Height(499_999_999));
        assert_eq!(
            LockTime::new(500_000_000),
            LockTime::Time(Stamp(500_000_000))
        );
    }

    #[test]
    fn sequences() {
        for (value, version, meaning, replaceable) in [
            (0xffff_ffff, 2, "final", false),
            (0xffff_fffe, 2, "lock time applies", false),
            (0xffff_fffd, 2, "replaceable", true),
            (0, 2, "replaceable", true),
            (1, 2, "1 block after the spent output", true),
            (144, 2, "144 blocks after the spent output", true),
            (144, 1, "replaceable", true),
            ((1 << 22) | 7, 2, "59 min 44 s after the spent output", true),
            // A negative version counts as a very large one.
            (10, u32::MAX, "10 blocks after the spent output", true),
        ] {
            let sequence = Sequence::new(value, version);
            assert_eq!(
                sequence.meaning, meaning,
                "{value:08x} in version {version}"
            );
            assert_eq!(
                sequence.replaceable, replaceable,
                "{value:08x} in version {version}"
            );
        }
        assert_eq!(Sequence::new(0xfffd, 2).hex, "0000fffd");
    }
}
