//! Hiding passwords of URLs.

/// What is printed instead of a secret.
pub(crate) const REDACTED: &str = "***";

/// The user-information part of a URL-like text: the byte range between `://` (or the start) and the last `@` before
/// the path. Works on texts that are no valid URL, so that an error about one can be printed.
pub(crate) fn user_info(url: &str) -> Option<std::ops::Range<usize>> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[start..];
    // A password that was not percent-encoded may hold `/`, `?` or `#`: the last `@` of the whole text is taken, which
    // can hide too much and never too little.
    rest.rfind('@').map(|at| start..start + at)
}

/// The URL with everything secret before its `@` replaced: `http://user:***@host/`.
pub fn redact_url(url: &str) -> String {
    let Some(range) = user_info(url) else {
        return url.to_owned();
    };
    let user = match url[range.clone()].split_once(':') {
        Some((user, _)) => format!("{user}:{REDACTED}"),
        // A lone name can be a token.
        None => REDACTED.to_owned(),
    };
    format!("{}{user}{}", &url[..range.start], &url[range.end..])
}

/// Decodes `%XX`; a malformed escape stays as it is.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, expected) in [
            ("http://127.0.0.1:8332", "http://127.0.0.1:8332"),
            ("http://bob:geheim@host:1/x", "http://bob:***@host:1/x"),
            ("http://bob:a@b/c@host", "http://bob:***@host"),
            ("http://token@host", "http://***@host"),
            ("bob:geheim@host", "bob:***@host"),
            ("", ""),
        ] {
            assert_eq!(redact_url(url), expected, "{url}");
        }
    }

    #[test]
    fn percent() {
        for (text, expected) in [
            ("a%3Ab", "a:b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%+1x", "%+1x"),
            ("%41%42", "AB"),
        ] {
            assert_eq!(percent_decode(text), expected, "{text}");
        }
    }
}
