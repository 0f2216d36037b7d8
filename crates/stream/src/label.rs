//! The label of a chain: the `{chainId}` of all keys and events.

use std::fmt;
use std::sync::Arc;

/// Longest label, characters.
const CHARS_MAX: usize = 64;

/// A label that cannot stand in keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be the id of a chain: it names keys, so it has 1 to {CHARS_MAX} letters, digits, dots, underscores and hyphens"
)]
pub struct LabelError(String);

/// The id of a chain as configured (`eos-mainnet`), not the 64 hexadecimal digits of the network. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainLabel(Arc<str>);

impl ChainLabel {
    /// Checks that it is made of `[A-Za-z0-9._-]{1,64}`.
    pub fn new(text: &str) -> Result<Self, LabelError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty() || text.len() > CHARS_MAX || !text.chars().all(is_plain) {
            return Err(LabelError(text.chars().take(2 * CHARS_MAX).collect()));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChainLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for (text, fine) in [
            ("eos-mainnet", true),
            ("A.b_c-9", true),
            ("", false),
            ("a:b", false),
            ("a*", false),
            ("é", false),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(ChainLabel::new(text).is_ok(), fine, "{text}");
        }
    }
}
