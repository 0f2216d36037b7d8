//! Points in time and their texts, in the proleptic Gregorian calendar and UTC.

use crate::json;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// 2000-01-01T00:00:00 in milliseconds since 1970: where block timestamps begin.
const BLOCK_EPOCH_MILLIS: i64 = 946_684_800_000;

/// The time of a block: half-seconds since the year 2000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockTimestamp(pub u32);

impl BlockTimestamp {
    /// Milliseconds since 1970.
    #[must_use]
    pub fn unix_millis(self) -> i64 {
        BLOCK_EPOCH_MILLIS + i64::from(self.0) * 500
    }

    /// Appends `2026-05-05T00:00:00.500`.
    pub fn write_to(self, out: &mut Vec<u8>) {
        write_micros(out, self.unix_millis() * 1000, Fraction::Millis);
    }
}

/// How much of a second a text shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fraction {
    /// Nothing below the second.
    None,
    /// Three digits, rounded down.
    Millis,
    /// Three digits when they are exact, six otherwise.
    Exact,
}

/// The text of a time in microseconds since 1970, with three decimals when they are exact and six otherwise.
#[must_use]
pub fn micros_text(micros: i64) -> String {
    let mut out = Vec::with_capacity(26);
    write_micros(&mut out, micros, Fraction::Exact);
    String::from_utf8(out).unwrap_or_default()
}

pub(crate) fn write_micros(out: &mut Vec<u8>, micros: i64, fraction: Fraction) {
    let days = micros.div_euclid(MICROS_PER_DAY);
    let in_day = micros.rem_euclid(MICROS_PER_DAY).unsigned_abs();
    let (year, month, day) = civil(days);
    if year < 0 {
        out.push(b'-');
    }
    padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    padded(out, month, 2);
    out.push(b'-');
    padded(out, day, 2);
    out.push(b'T');
    let seconds = in_day / 1_000_000;
    padded(out, seconds / 3600, 2);
    out.push(b':');
    padded(out, seconds / 60 % 60, 2);
    out.push(b':');
    padded(out, seconds % 60, 2);
    let below = in_day % 1_000_000;
    match fraction {
        Fraction::None => {}
        Fraction::Exact if !below.is_multiple_of(1000) => {
            out.push(b'.');
            padded(out, below, 6);
        }
        Fraction::Millis | Fraction::Exact => {
            out.push(b'.');
            padded(out, below / 1000, 3);
        }
    }
}

/// A negative time as nodes print it: a duration, since their library has no dates before 1970 (`-000000.000001`).
pub(crate) fn write_negative_duration(out: &mut Vec<u8>, micros: i64) {
    let total = micros.unsigned_abs();
    let seconds = total / 1_000_000;
    out.push(b'-');
    padded(out, seconds / 3600, 2);
    padded(out, seconds / 60 % 60, 2);
    padded(out, seconds % 60, 2);
    let below = total % 1_000_000;
    if below > 0 {
        out.push(b'.');
        padded(out, below, 6);
    }
}

fn padded(out: &mut Vec<u8>, value: u64, width: u32) {
    let mut bound = 10u64.pow(width - 1);
    while bound > 1 && value < bound {
        out.push(b'0');
        bound /= 10;
    }
    json::u64(out, value);
}

/// Year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last.
fn civil(days: i64) -> (i64, u64, u64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let shifted = days + 719_468;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        // microseconds, text: from `date -u -d @N`
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000"),
            (-1, "1969-12-31T23:59:59.999999"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000"),
            (1_234_567_890_123_000, "2009-02-13T23:31:30.123"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000"),
            (-62_135_596_800_000_000, "0001-01-01T00:00:00.000"),
            (i64::MAX, "294247-01-10T04:00:54.775807"),
        ] {
            assert_eq!(micros_text(micros), text);
        }
        let mut out = Vec::new();
        write_negative_duration(&mut out, -1);
        assert_eq!(out, b"-000000.000001");
        let mut out = Vec::new();
        BlockTimestamp(u32::MAX).write_to(&mut out);
        assert_eq!(out, b"2068-01-19T03:14:07.500");
    }
}
