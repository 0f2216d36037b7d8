//! US dollars as whole micro-dollars, read from and written to decimal text without a binary float on the way.

use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};

/// Micro-dollars of one dollar.
const MICROS_PER_USD: i64 = 1_000_000;
/// Decimal places of an amount.
const PLACES: u32 = 6;
/// Largest magnitude of an amount in micro-dollars and of a number of APU: what every JSON reader holds exactly.
pub const AMOUNT_MAX: i64 = (1 << 53) - 1;

/// An amount of US dollars in micro-dollars (10⁻⁶ USD).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(i64);

/// Why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsdError {
    /// Not a decimal number.
    Format,
    /// More than six decimal places.
    Precision,
    /// Larger than [`AMOUNT_MAX`] micro-dollars.
    Range,
}

/// What to do with more than six decimal places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Refuse them.
    Refuse,
    /// Round half to even: applications that keep floats send `9.010000000000002`.
    HalfEven,
}

impl Usd {
    /// From micro-dollars. `None` beyond [`AMOUNT_MAX`] in magnitude.
    pub fn from_micros(micros: i64) -> Option<Self> {
        (-AMOUNT_MAX..=AMOUNT_MAX)
            .contains(&micros)
            .then_some(Self(micros))
    }

    /// The amount in micro-dollars.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Reads a decimal number of dollars (`12.5`, `7`, `25e-3`).
    pub fn parse(text: &str, rounding: Rounding) -> Result<Self, UsdError> {
        let decimal = parse_decimal(text).ok_or(UsdError::Format)?;
        let decimal = match rounding {
            Rounding::HalfEven => {
                decimal.round_dp_with_strategy(PLACES, RoundingStrategy::MidpointNearestEven)
            }
            Rounding::Refuse if decimal.normalize().scale() > PLACES || has_finer_digits(text) => {
                return Err(UsdError::Precision);
            }
            Rounding::Refuse => decimal,
        };
        let micros = decimal
            .checked_mul(Decimal::from(MICROS_PER_USD))
            .ok_or(UsdError::Range)?;
        let micros = i64::try_from(micros.trunc()).map_err(|_| UsdError::Range)?;
        Self::from_micros(micros).ok_or(UsdError::Range)
    }
}

/// The shortest exact decimal, which is also a JSON number: `12.5`, `7`, `0.025`.
impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&decimal_of_micros(i128::from(self.0)))
    }
}

/// The shortest exact decimal of a sum of micro-dollars, which may exceed a single amount.
pub(crate) fn decimal_of_micros(micros: i128) -> String {
    let scale = u128::from(MICROS_PER_USD.unsigned_abs());
    let sign = if micros < 0 { "-" } else { "" };
    let whole = micros.unsigned_abs() / scale;
    let fraction = micros.unsigned_abs() % scale;
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{fraction:06}");
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

/// A decimal number as JSON writes it, or as text without blanks. `None` for anything else.
fn parse_decimal(text: &str) -> Option<Decimal> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit())
        || !text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'))
    {
        return None;
    }
    if text.contains(['e', 'E']) {
        return Decimal::from_scientific(text).ok();
    }
    // Beyond 28 digits the exact form fails; what is cut off there is far below a micro-dollar, but must still count
    // as "more than six places".
    Decimal::from_str_exact(text)
        .or_else(|_| Decimal::from_str(text))
        .ok()
}

/// Whether a number without exponent has digits beyond six places: also those that the exact form has no room for.
fn has_finer_digits(text: &str) -> bool {
    match text.split_once('.') {
        Some((_, fraction)) if !text.contains(['e', 'E']) => {
            fraction.trim_end_matches('0').len() > PLACES as usize
        }
        _ => false,
    }
}

/// Reads a whole number as JSON writes it (`9`, also `9.0`), within [`AMOUNT_MAX`].
pub(crate) fn parse_integer(text: &str) -> Option<i64> {
    let value = match text.parse::<i64>() {
        Ok(value) => value,
        Err(_) => {
            let decimal = parse_decimal(text)?;
            if !decimal.fract().is_zero() {
                return None;
            }
            i64::try_from(decimal).ok()?
        }
    };
    (-AMOUNT_MAX..=AMOUNT_MAX).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_exact() {
        for (text, micros, shown) in [
            ("12.5", 12_500_000, "12.5"),
            ("12.500000000", 12_500_000, "12.5"),
            ("7", 7_000_000, "7"),
            ("0.025", 25_000, "0.025"),
            ("25e-3", 25_000, "0.025"),
            ("1E3", 1_000_000_000, "1000"),
            ("-0.000001", -1, "-0.000001"),
            ("0", 0, "0"),
            ("9007199254.740991", AMOUNT_MAX, "9007199254.740991"),
        ] {
            let usd = Usd::parse(text, Rounding::Refuse).expect(text);
            assert_eq!((usd.micros(), usd.to_string().as_str()), (micros, shown));
        }
    }

    #[test]
    fn what_is_not_an_amount() {
        for (text, error) in [
            ("0.0000001", UsdError::Precision),
            ("9.010000000000002", UsdError::Precision),
            ("1.00000000000000000000000000000000001", UsdError::Precision),
            ("9007199254.740992", UsdError::Range),
            ("99999999999999999999", UsdError::Range),
            ("", UsdError::Format),
            ("-", UsdError::Format),
            (".5", UsdError::Format),
            ("1_000", UsdError::Format),
            ("0x10", UsdError::Format),
            ("1e400", UsdError::Format),
            ("NaN", UsdError::Format),
            (" 1", UsdError::Format),
        ] {
            assert_eq!(Usd::parse(text, Rounding::Refuse), Err(error), "{text:?}");
        }
    }

    #[test]
    fn float_noise_is_rounded_half_even() {
        for (text, micros) in [
            ("9.010000000000002", 9_010_000),
            ("0.0000005", 0),
            ("0.0000015", 2),
            ("0.0000025", 2),
        ] {
            let usd = Usd::parse(text, Rounding::HalfEven).expect(text);
            assert_eq!(usd.micros(), micros, "{text}");
        }
    }

    #[test]
    fn whole_numbers() {
        for (text, value) in [
            ("9", Some(9)),
            ("-150", Some(-150)),
            ("9.0", Some(9)),
            ("9e0", Some(9)),
            ("9007199254740991", Some(AMOUNT_MAX)),
            ("9007199254740992", None),
            ("9.5", None),
            ("1e400", None),
            ("", None),
            ("true", None),
        ] {
            assert_eq!(parse_integer(text), value, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn printed_and_read_again(micros in -AMOUNT_MAX..=AMOUNT_MAX) {
            let usd = Usd::from_micros(micros).expect("in range");
            prop_assert_eq!(Usd::parse(&usd.to_string(), Rounding::Refuse), Ok(usd));
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,60}") {
            let _ = Usd::parse(&text, Rounding::HalfEven);
            let _ = parse_integer(&text);
        }
    }
}
