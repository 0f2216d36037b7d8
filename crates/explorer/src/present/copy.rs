//! Buttons that copy, and texts as parts of an address.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::escape::escaped;

/// What may stand as it is in a segment of a path and in a value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A text as one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    match text {
        // A browser would take these for the way up.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        text => utf8_percent_encode(text, PLAIN).to_string(),
    }
}

/// A text as the value of a query.
pub(crate) fn query_value(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A button that copies a text. Without scripts it is not shown: it would do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy(String);

impl Copy {
    /// Copies what a value prints as.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<button type=\"button\" class=\"copy\" data-copy=\"{}\" hidden><span class=\"visually-hidden\">Copy</span></button>",
            escaped(&self.0)
        )
    }
}

impl askama::filters::HtmlSafe for Copy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_segments() {
        for (text, expected) in [
            ("eosio.token", "eosio.token"),
            ("a/b?c#d", "a%2Fb%3Fc%23d"),
            ("..", "%2E%2E"),
            ("eos:a:1:ff", "eos:a:1:ff"),
            ("\"><x>", "%22%3E%3Cx%3E"),
        ] {
            assert_eq!(path_segment(text), expected);
        }
        assert_eq!(query_value("a&b=c d"), "a%26b%3Dc%20d");
    }

    #[test]
    fn what_is_copied_is_escaped() {
        assert!(
            Copy::new("\"<")
                .to_string()
                .contains("data-copy=\"&quot;&lt;\"")
        );
    }
}
