//! The id of an event: how far a client is.

use std::fmt;

use bitcoin::BlockHash;
use cairn_http::HttpError;

use crate::parse;

/// A place in the sequence of changes. Its text is the id of the last event of a change.
///
/// The number holds within one run of the process; the tip holds for ever, so that a client that comes back after a restart
/// still learns which blocks came and went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The run of the process.
    pub(super) epoch: u64,
    /// The number of the view.
    pub(super) sequence: u64,
    /// The tip of that view.
    pub(super) tip: BlockHash,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}-{}", self.epoch, self.sequence, self.tip)
    }
}

impl Place {
    /// Reads an id.
    pub(super) fn read(text: &str) -> Result<Self, HttpError> {
        let mut parts = text.splitn(3, '-');
        let mut next = || parts.next().unwrap_or("");
        let (epoch, sequence, tip) = (next(), next(), next());
        let invalid = || HttpError::bad_request("Invalid event id");
        Ok(Self {
            epoch: u64::from_str_radix(epoch, 16).map_err(|_| invalid())?,
            sequence: sequence.parse().map_err(|_| invalid())?,
            tip: parse::block_hash(tip).map_err(|_| invalid())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::Hash;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_read_back(epoch: u64, sequence: u64, tip: [u8; 32]) {
            let place = Place { epoch, sequence, tip: BlockHash::from_byte_array(tip) };
            prop_assert_eq!(Place::read(&place.to_string()).expect("valid"), place);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            if let Err(error) = Place::read(&text) {
                prop_assert_eq!(error.text(), "Invalid event id");
            }
        }
    }
}
