//! Protocol versions and their negotiation.

use std::fmt;

/// A version of the Electrum protocol. Ordered as numbers, part by part: 1.4 = 1.4.0 < 1.4.2 < 1.10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version([u16; 4]);

/// Raw headers only, proofs up to a checkpoint.
pub(crate) const V1_4: Version = Version([1, 4, 0, 0]);
/// Lists of headers, packages, no `relayfee`.
pub(crate) const V1_6: Version = Version([1, 6, 0, 0]);
/// Scripts instead of their hashes, outpoints, padded pings.
pub(crate) const V1_7: Version = Version([1, 7, 0, 0]);

/// The lowest version served.
pub(crate) const LOWEST: Version = V1_4;
/// The highest version served.
pub(crate) const HIGHEST: Version = V1_7;

impl Version {
    /// Reads `1.4`, `1.4.2`: one to four decimal numbers between dots.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = [0u16; 4];
        for (at, part) in text.split('.').enumerate() {
            let slot = parts.get_mut(at)?;
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            *slot = part.parse().ok()?;
        }
        Some(Self(parts))
    }
}

impl fmt::Display for Version {
    /// Two parts at least, more only where they say something.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|part| *part != 0).unwrap_or(0) + 1;
        for (at, part) in self.0[..used.max(2)].iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            part.fmt(f)?;
        }
        Ok(())
    }
}

/// The version both sides use: the highest of the client's range that is served; `None` when there is none.
pub(crate) fn negotiate(client_min: &str, client_max: &str) -> Option<Version> {
    let (min, max) = (Version::parse(client_min)?, Version::parse(client_max)?);
    if min > max {
        return None;
    }
    let chosen = max.min(HIGHEST);
    (chosen >= min.max(LOWEST)).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let version = |text| Version::parse(text).expect(text);
        assert_eq!(version("1.4"), version("1.4.0"));
        assert!(version("1.4") < version("1.4.2"));
        assert!(version("1.4.2") < version("1.10"));
        for (text, shown) in [
            ("1", "1.0"),
            ("1.7.0", "1.7"),
            ("1.4.2", "1.4.2"),
            ("1.4.0.1", "1.4.0.1"),
        ] {
            assert_eq!(version(text).to_string(), shown);
        }
        for text in [
            "",
            ".",
            "1.",
            "1..4",
            "abc",
            "1.4 ",
            "+1.4",
            "1.99999",
            "1.2.3.4.5",
        ] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn negotiations() {
        for (min, max, expected) in [
            ("1.4", "1.4", Some("1.4")),
            ("1.4", "1.6", Some("1.6")),
            ("1.3", "1.4.2", Some("1.4.2")),
            ("1.1", "9.0", Some("1.7")),
            ("1.7", "1.7.0", Some("1.7")),
            ("1.0", "1.3", None),
            ("1.8", "2.0", None),
            ("1.6", "1.4", None),
            ("1.4", "abc", None),
        ] {
            let got = negotiate(min, max).map(|version| version.to_string());
            assert_eq!(got.as_deref(), expected, "{min} to {max}");
        }
    }
}
