//! Counts, sizes, shares and rates as text.

/// Weight units in one virtual byte.
const WEIGHT_PER_VBYTE: u128 = 4;

/// A count with commas between groups of three digits.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size with a decimal unit and up to two decimals, cut, not rounded: `999 B`, `1.79 MB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    for (unit, name) in UNITS {
        if n >= unit {
            return format!("{}.{:02} {name}", n / unit, n % unit / (unit / 100));
        }
    }
    format!("{n} B")
}

/// A number of virtual bytes, in the same way: `141 vB`, `1.79 MvB`.
pub(crate) fn virtual_bytes(n: u64) -> String {
    let text = bytes(n);
    match text.strip_suffix('B') {
        Some(start) => format!("{start}vB"),
        None => text,
    }
}

/// `part` of `whole` in percent with one decimal, cut; never above 100, and 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0".to_owned();
    }
    let permille = (u128::from(part.min(whole)) * 1000) / u128::from(whole);
    format!("{}.{}", permille / 10, permille % 10)
}

/// Fee rate in satoshi per virtual byte with two decimals, rounded to the nearest: from integers, since the fee is
/// money. A transaction without weight does not exist; it would have no rate.
pub(crate) fn fee_rate(fee_sats: u64, weight: u32) -> String {
    if weight == 0 {
        return "0.00".to_owned();
    }
    let weight = u128::from(weight);
    let hundredths = (u128::from(fee_sats) * 100 * WEIGHT_PER_VBYTE + weight / 2) / weight;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Bytes per second of a running load. An estimate made of clocks, so a float comes in; what is not a sensible number
/// gives nothing.
pub(crate) fn throughput(bytes_per_second: f64) -> Option<String> {
    (bytes_per_second.is_finite() && bytes_per_second >= 1.0)
        .then(|| format!("{}/s", bytes(bytes_per_second as u64)))
}

/// Difficulty: relative to the easiest target, so small on test chains and very large on the main one.
pub(crate) fn difficulty(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")];
    for (unit, name) in UNITS {
        if value >= unit {
            return format!("{:.2} {name}", value / unit);
        }
    }
    if value >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        for (n, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (999_999, "999,999"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(n), expected);
        }
    }

    #[test]
    fn sizes_have_units() {
        for (n, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (1_794_321, "1.79 MB"),
            (440_000_000, "440.00 MB"),
            (1_099_999_999_999, "1.09 TB"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn virtual_sizes_have_units_too() {
        assert_eq!(virtual_bytes(141), "141 vB");
        assert_eq!(virtual_bytes(1_794_321), "1.79 MvB");
    }

    #[test]
    fn shares_stay_between_0_and_100() {
        assert_eq!(percent(0, 0), "0.0");
        assert_eq!(percent(1, 3), "33.3");
        assert_eq!(percent(999_999, 1_000_000), "99.9");
        assert_eq!(percent(7, 7), "100.0");
        assert_eq!(percent(8, 7), "100.0");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0");
    }

    #[test]
    fn fee_rates_are_rounded_from_integers() {
        // The transaction of the Esplora specification's example: 1,000 sat at 561 weight units.
        assert_eq!(fee_rate(1_000, 561), "7.13");
        assert_eq!(fee_rate(0, 561), "0.00");
        assert_eq!(fee_rate(141, 564), "1.00");
        assert_eq!(fee_rate(1, 0), "0.00");
        assert_eq!(fee_rate(u64::MAX, 4), "18446744073709551615.00");
    }

    #[test]
    fn senseless_rates_are_left_out() {
        assert_eq!(throughput(f64::NAN), None);
        assert_eq!(throughput(f64::INFINITY), None);
        assert_eq!(throughput(0.0), None);
        assert_eq!(throughput(35_200_000.5).as_deref(), Some("35.20 MB/s"));
    }

    #[test]
    fn difficulty_fits_every_network() {
        assert_eq!(difficulty(4.656542373906925e-10), "4.657e-10");
        assert_eq!(difficulty(1.0), "1.00");
        assert_eq!(difficulty(86388558925171.02), "86.39 T");
    }
}
