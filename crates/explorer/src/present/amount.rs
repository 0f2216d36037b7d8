//! Amounts in BTC with eight decimals, made from integers by digits alone: no floating point touches money.

use std::fmt;

/// Satoshi in one bitcoin.
const SATS_PER_BTC: u128 = 100_000_000;

/// An amount of satoshi, shown as BTC with all eight decimals; the zeros at the end are marked up so that the style
/// sheet can step them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount(pub(crate) u64);

/// A signed change of a balance in satoshi, shown with its sign.
///
/// 128 bits, because the sum of a transaction's inputs minus its outputs is computed from unsigned 64-bit values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change(pub(crate) i128);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<span class=\"amount\">")?;
        write_btc(f, u128::from(self.0))?;
        write!(f, "</span>")
    }
}

impl askama::filters::HtmlSafe for Amount {}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, sign) = match self.0 {
            0 => ("amount", ""),
            1.. => ("amount gain", "+"),
            _ => ("amount loss", "\u{2212}"),
        };
        write!(f, "<span class=\"{class}\">{sign}")?;
        write_btc(f, self.0.unsigned_abs())?;
        write!(f, "</span>")
    }
}

impl askama::filters::HtmlSafe for Change {}

/// Writes `sats` as BTC: the whole part, a point, and eight digits of which the trailing zeros are wrapped.
fn write_btc(f: &mut fmt::Formatter<'_>, sats: u128) -> fmt::Result {
    let decimals = format!("{:08}", sats % SATS_PER_BTC);
    let significant = decimals.trim_end_matches('0');
    let zeros = &decimals[significant.len()..];
    write!(f, "{}", sats / SATS_PER_BTC)?;
    match (significant.is_empty(), zeros.is_empty()) {
        (true, _) => write!(f, "<span class=\"zeros\">.{zeros}</span>"),
        (false, true) => write!(f, ".{significant}"),
        (false, false) => write!(f, ".{significant}<span class=\"zeros\">{zeros}</span>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text a reader sees: markup taken away.
    fn text(html: impl fmt::Display) -> String {
        let mut out = String::new();
        let mut inside_tag = false;
        for c in html.to_string().chars() {
            match c {
                '<' => inside_tag = true,
                '>' => inside_tag = false,
                c if !inside_tag => out.push(c),
                _ => {}
            }
        }
        out
    }

    #[test]
    fn amounts_have_eight_decimals() {
        for (sats, expected) in [
            (0, "0.00000000"),
            (1, "0.00000001"),
            (546, "0.00000546"),
            (100_000, "0.00100000"),
            (99_999_999, "0.99999999"),
            (100_000_000, "1.00000000"),
            (2_099_999_997_690_000, "20999999.97690000"),
            (u64::MAX, "184467440737.09551615"),
        ] {
            assert_eq!(text(Amount(sats)), expected);
        }
    }

    #[test]
    fn trailing_zeros_are_marked() {
        assert_eq!(
            Amount(150_000_000).to_string(),
            "<span class=\"amount\">1.5<span class=\"zeros\">0000000</span></span>"
        );
        assert_eq!(
            Amount(100_000_000).to_string(),
            "<span class=\"amount\">1<span class=\"zeros\">.00000000</span></span>"
        );
        assert_eq!(
            Amount(123_456_789).to_string(),
            "<span class=\"amount\">1.23456789</span>"
        );
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(text(Change(0)), "0.00000000");
        assert_eq!(text(Change(61_000)), "+0.00061000");
        assert_eq!(text(Change(-61_000)), "\u{2212}0.00061000");
        assert_eq!(
            text(Change(i128::from(u64::MAX) * -2)),
            "\u{2212}368934881474.19103230"
        );
    }
}
