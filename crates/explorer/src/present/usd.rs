//! Dollars from whole millionths: with the digits they have, at least two; no floating point touches money.

/// Micro-dollars of one dollar.
const MICROS: u128 = 1_000_000;

/// An amount of micro-dollars: `$3.50`, `$0.025`, `−$1,200.00`.
pub(crate) fn usd(micros: i128) -> String {
    let sign = if micros < 0 { "\u{2212}" } else { "" };
    let whole = micros.unsigned_abs() / MICROS;
    let digits = format!("{:06}", micros.unsigned_abs() % MICROS);
    let kept = digits.trim_end_matches('0').len().max(2);
    // Above any sum there can be the groups are left out rather than the digits.
    let whole = u64::try_from(whole).map_or_else(|_| whole.to_string(), super::count);
    format!("{sign}${whole}.{}", &digits[..kept])
}

/// A signed number of APU with its sign: `+9`, `−3`, `0`.
pub(crate) fn signed(n: i64) -> String {
    match n {
        0 => "0".to_owned(),
        1.. => format!("+{}", super::count(n.unsigned_abs())),
        _ => format!("\u{2212}{}", super::count(n.unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_exact() {
        for (micros, text) in [
            (0, "$0.00"),
            (3_500_000, "$3.50"),
            (25_000, "$0.025"),
            (1, "$0.000001"),
            (-1_200_000_000, "\u{2212}$1,200.00"),
            (9_007_199_254_740_991, "$9,007,199,254.740991"),
        ] {
            assert_eq!(usd(micros), text);
        }
        assert!(usd(i128::MIN).starts_with("\u{2212}$1701411"));
    }

    #[test]
    fn apu_have_signs() {
        assert_eq!(
            [signed(1_200), signed(0), signed(-3), signed(i64::MIN)],
            [
                "+1,200",
                "0",
                "\u{2212}3",
                "\u{2212}9,223,372,036,854,775,808"
            ]
        );
    }
}
