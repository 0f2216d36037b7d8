//! Hashes and addresses: whole in the text, shortened by the style sheet where the screen is narrow.

use std::fmt;

use super::escape::escaped;

/// Characters at the end that always stay visible.
const TAIL_CHARS: usize = 8;

/// A long identifier (hash, txid, address). Renders as two spans: a head that may be cut with an ellipsis and a tail
/// that never is, so that both ends can be compared by eye, and selecting the text copies all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hash(String);

impl Hash {
    /// Takes anything that prints as an identifier.
    pub(crate) fn new(value: impl fmt::Display) -> Self {
        Hash(value.to_string())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Identifiers are ASCII; should one not be, it is shown in one piece rather than cut inside a character.
        let cut = self.0.len().saturating_sub(TAIL_CHARS);
        let (head, tail) = self.0.split_at_checked(cut).unwrap_or(("", &self.0));
        write!(f, "<span class=\"hash\"><span class=\"head\">")?;
        f.write_str(&escaped(head))?;
        write!(f, "</span><span class=\"tail\">")?;
        f.write_str(&escaped(tail))?;
        write!(f, "</span></span>")
    }
}

impl askama::filters::HtmlSafe for Hash {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_off_the_tail() {
        assert_eq!(
            Hash::new("00000000abcdef").to_string(),
            "<span class=\"hash\"><span class=\"head\">000000</span><span class=\"tail\">00abcdef</span></span>"
        );
    }

    #[test]
    fn short_and_odd_texts_stay_whole() {
        assert_eq!(
            Hash::new("abc").to_string(),
            "<span class=\"hash\"><span class=\"head\"></span><span class=\"tail\">abc</span></span>"
        );
        assert!(Hash::new("aé1234567").to_string().contains("aé1234567"));
    }

    #[test]
    fn markup_is_escaped() {
        let html = Hash::new("<script>alert('x')&\"").to_string();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }
}
