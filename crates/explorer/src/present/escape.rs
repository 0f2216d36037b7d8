//! Text inside markup that is written by hand and not by a template.

use std::borrow::Cow;

/// Text with the five characters escaped that mean something in HTML.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escaped("plain"), "plain");
        assert_eq!(escaped("<a b='\"'>&"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;");
    }
}
