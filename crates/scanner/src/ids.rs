//! Names that become parts of keys: hosts and ids.

/// Longest host name, bytes.
const HOST_MAX: usize = 64;
/// Longest id, bytes.
pub(crate) const ID_MAX: usize = 200;

/// One tenant: everything of it lives under `agent-play:{hostId}:`.
///
/// Letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at most 64: it is part of keys and of the
/// patterns of scans, so it holds no `:` and no wildcard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(String);

impl HostId {
    /// Checks a name.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = name.bytes();
        let first = bytes.next()?;
        let fits = name.len() <= HOST_MAX
            && first.is_ascii_alphanumeric()
            && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        fits.then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for HostId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdError {
    Empty,
    TooLong,
    Control,
    Reserved,
}

impl IdError {
    /// The stable word for programs.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Control => "control_character",
            Self::Reserved => "reserved_id",
        }
    }

    /// The sentence for people.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Empty => "is empty; an id has 1 to 200 bytes",
            Self::TooLong => "is longer than 200 bytes",
            Self::Control => "holds a control character",
            Self::Reserved => {
                "begins like the name of an index (\"by-…:\"); choose another transaction id"
            }
        }
    }
}

/// An id, trimmed: 1 to 200 bytes without control characters.
pub(crate) fn check_id(text: &str) -> Result<&str, IdError> {
    let id = text.trim();
    if id.is_empty() {
        Err(IdError::Empty)
    } else if id.len() > ID_MAX {
        Err(IdError::TooLong)
    } else if id.chars().any(char::is_control) {
        Err(IdError::Control)
    } else {
        Ok(id)
    }
}

/// The id of a transaction: as [`check_id`], and not of the form `by-…:`, since its key would be that of an index.
pub(crate) fn check_tx_id(text: &str) -> Result<&str, IdError> {
    let id = check_id(text)?;
    let reserved = id
        .strip_prefix("by-")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(word, _)| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()));
    if reserved {
        Err(IdError::Reserved)
    } else {
        Ok(id)
    }
}

/// Whether a space stands for "no real space": such names begin and end with two underscores.
pub(crate) fn is_sentinel(space: &str) -> bool {
    space.len() >= 4 && space.starts_with("__") && space.ends_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (name, good) in [
            ("default", true),
            ("Host-1.a_b", true),
            ("", false),
            ("-a", false),
            ("a:b", false),
            ("a*", false),
            ("a[b]", false),
            ("ä", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(HostId::new(name).is_some(), good, "{name:?}");
        }
    }

    #[test]
    fn ids_of_transactions() {
        for (text, expected) in [
            (" pur-1 ", Ok("pur-1")),
            ("by-player:x", Err(IdError::Reserved)),
            ("by-:x", Ok("by-:x")),
            ("by-player", Ok("by-player")),
            ("by-Player:x", Ok("by-Player:x")),
            ("a:b:c", Ok("a:b:c")),
            ("  ", Err(IdError::Empty)),
            ("a\nb", Err(IdError::Control)),
            ("日本", Ok("日本")),
        ] {
            assert_eq!(check_tx_id(text), expected, "{text:?}");
        }
        assert_eq!(check_id(&"x".repeat(201)), Err(IdError::TooLong));
    }

    #[test]
    fn sentinels() {
        assert!(is_sentinel("__parking__") && is_sentinel("____"));
        assert!(!is_sentinel("space-1") && !is_sentinel("__a") && !is_sentinel("___"));
    }
}
