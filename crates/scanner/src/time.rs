//! Instants in whole milliseconds, hour buckets in UTC, the window of "the last 24 hours", and the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;
/// Buckets of the window.
pub(crate) const WINDOW_HOURS: i64 = 24;
/// The end of 9998: the last year all of whose instants can be told in every zone with four digits.
const AT_MS_MAX: i64 = 253_370_764_799_999;

/// An instant: whole milliseconds since 1970 in UTC, from 1970 to the end of 9998.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtMs(i64);

impl AtMs {
    /// From milliseconds since 1970. `None` outside these.
    pub fn new(ms: i64) -> Option<Self> {
        (0..=AT_MS_MAX).contains(&ms).then_some(Self(ms))
    }

    /// From milliseconds since 1970, moved to the nearest instant that can be told.
    pub fn clamped(ms: i64) -> Self {
        Self(ms.clamp(0, AT_MS_MAX))
    }

    /// Milliseconds since 1970.
    pub fn ms(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 text with zone; digits finer than a millisecond are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        // The reader of dates takes more forms than RFC 3339 has.
        let bytes = text.as_bytes();
        if let Some(at) = parse_usual(bytes) {
            return Some(at);
        }
        let shape = bytes.len() >= 20
            && bytes.len() <= 40
            && bytes[..4].iter().all(u8::is_ascii_digit)
            && bytes[4] == b'-'
            && matches!(bytes[10], b'T' | b't')
            && bytes[13] == b':'
            && bytes[16] == b':'
            && !text.contains('[');
        if !shape {
            return None;
        }
        let stamp: Timestamp = text.parse().ok()?;
        Self::new(stamp.as_millisecond())
    }

    /// The bucket this instant is in.
    pub fn hour(self) -> Hour {
        Hour(self.0 / HOUR_MS)
    }
}

/// Days from the first of March of year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;

/// Year, month and day of a number of days since 1970, not negative: years are counted from March on, so that the leap day
/// is the last of its year.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + DAYS_TO_1970;
    let (era, day_of_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Days since 1970 of a date of the years from 1970 on.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
        - DAYS_TO_1970
}

/// The usual forms, `2026-03-10T14:05:17.123Z` and `2026-03-10T14:05:17Z`, which are read far more often than all others.
/// `None` says nothing: the text may be an instant in another form.
fn parse_usual(bytes: &[u8]) -> Option<AtMs> {
    const SHAPE: &[u8; 19] = b"dddd-dd-ddTdd:dd:dd";
    let (date, rest) = bytes.split_at_checked(SHAPE.len())?;
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    };
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'))
    };
    let millis = match rest {
        b"Z" => 0,
        [b'.', digits @ .., b'Z'] if digits.len() == 3 && digits.iter().all(u8::is_ascii_digit) => {
            number(digits)
        }
        _ => return None,
    };
    if !date.iter().zip(SHAPE).all(fits) {
        return None;
    }
    let part = |from: usize, to: usize| date.get(from..to).map(number);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_of(year, month, day);
    // A day that its month does not have comes back as another one.
    if date_of(days) != (year, month, day) {
        return None;
    }
    AtMs::new((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + millis)
}

/// `2026-03-10T14:05:17.123Z`, always with three digits of milliseconds: such texts sort as the instants do.
impl std::fmt::Display for AtMs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = date_of(self.0 / (24 * HOUR_MS));
        let ms = self.0 % (24 * HOUR_MS);
        let (hour, minute) = (ms / HOUR_MS, ms / 60_000 % 60);
        let (second, millis) = (ms / 1_000 % 60, ms % 1_000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (to, mut number) in [
            (4, year),
            (7, month),
            (10, day),
            (13, hour),
            (16, minute),
            (19, second),
            (23, millis),
        ] {
            let mut at = to;
            while number > 0 {
                at -= 1;
                text[at] = b'0' + u8::try_from(number % 10).map_err(|_| std::fmt::Error)?;
                number /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| std::fmt::Error)?)
    }
}

/// An hour in UTC: the number of hours since 1970. Holds `H:00:00.000 ≤ t < (H+1):00:00.000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

impl Hour {
    /// First instant of the hour.
    pub fn start(self) -> AtMs {
        AtMs::clamped(self.0.saturating_mul(HOUR_MS))
    }

    /// So many hours later (earlier when negative), within the range of instants.
    pub fn plus(self, hours: i64) -> Self {
        Self(self.0.saturating_add(hours).clamp(0, AT_MS_MAX / HOUR_MS))
    }
}

/// The name of the bucket: `2026-03-10-14`.
impl std::fmt::Display for Hour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = date_of(self.0 / 24);
        write!(f, "{year:04}-{month:02}-{day:02}-{:02}", self.0 % 24)
    }
}

/// "The last 24 hours": the bucket of now and the 23 before it, everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The newest hour of the window.
    newest: Hour,
}

impl Window {
    /// The window at an instant.
    pub fn at(now: AtMs) -> Self {
        Self { newest: now.hour() }
    }

    /// First instant inside.
    pub fn from(self) -> AtMs {
        self.newest.plus(1 - WINDOW_HOURS).start()
    }

    /// First instant after it.
    pub fn to(self) -> AtMs {
        AtMs::clamped(self.newest.start().ms().saturating_add(HOUR_MS))
    }

    /// Its hours, oldest first.
    pub fn hours(self) -> impl Iterator<Item = Hour> {
        (1 - WINDOW_HOURS..=0).map(move |back| self.newest.plus(back))
    }
}

/// The clock everything that depends on "now" asks.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until it is set: for tests, and for recomputing an answer of the past.
    pub fn fixed(ms: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(ms))))
    }

    /// Sets a fixed clock; the machine's clock stays as it is.
    pub fn set(&self, ms: i64) {
        if let Some(fixed) = &self.0 {
            fixed.store(ms, Ordering::Relaxed);
        }
    }

    /// The instant.
    pub fn now(&self) -> AtMs {
        AtMs::clamped(match &self.0 {
            Some(fixed) => fixed.load(Ordering::Relaxed),
            None => Timestamp::now().as_millisecond(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instants_are_read_and_printed() {
        for (text, shown) in [
            ("2026-03-10T14:05:17.123Z", "2026-03-10T14:05:17.123Z"),
            ("2026-03-10T14:05:17.123999Z", "2026-03-10T14:05:17.123Z"),
            ("2026-03-10T15:05:17+01:00", "2026-03-10T14:05:17.000Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("9998-12-31T23:59:59.999Z", "9998-12-31T23:59:59.999Z"),
            ("2024-02-29T23:59:59.999-00:30", "2024-03-01T00:29:59.999Z"),
        ] {
            assert_eq!(AtMs::parse(text).expect(text).to_string(), shown);
        }
        for text in [
            "",
            "yesterday",
            "2026-03-10",
            "2026-03-10T14:05:17",
            "2026-03-10 14:05:17Z",
            "2026-13-10T14:05:17Z",
            "2026-02-29T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-03-10T14:05:17+01:00[Europe/Berlin]",
            "1773151517123",
        ] {
            assert_eq!(AtMs::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn hours_are_utc_and_half_open() {
        for (text, hour) in [
            ("2026-03-10T14:00:00.000Z", "2026-03-10-14"),
            ("2026-03-10T14:59:59.999Z", "2026-03-10-14"),
            ("2026-03-10T15:00:00.000Z", "2026-03-10-15"),
            ("2026-03-29T01:59:59.999+01:00", "2026-03-29-00"),
            ("2026-12-31T23:30:00-01:00", "2027-01-01-00"),
        ] {
            assert_eq!(AtMs::parse(text).expect(text).hour().to_string(), hour);
        }
    }

    #[test]
    fn the_window_is_this_hour_and_23_before() {
        let now = AtMs::parse("2026-03-10T14:05:17.123Z").expect("an instant");
        let window = Window::at(now);
        assert_eq!(window.from().to_string(), "2026-03-09T15:00:00.000Z");
        assert_eq!(window.to().to_string(), "2026-03-10T15:00:00.000Z");
        let hours: Vec<String> = window.hours().map(|hour| hour.to_string()).collect();
        assert_eq!(hours.len(), 24);
        assert_eq!(
            (hours[0].as_str(), hours[23].as_str()),
            ("2026-03-09-15", "2026-03-10-14")
        );
    }

    #[test]
    fn printed_instants_sort_as_they_do() {
        let mut last = String::new();
        for ms in [0, 1, 999, 1000, 1_773_151_517_123, AT_MS_MAX] {
            let text = AtMs::new(ms).expect("in range").to_string();
            assert!(last < text, "{last} {text}");
            last = text;
        }
    }

    proptest! {
        #[test]
        fn dates_are_those_of_another_library(ms in 0..=AT_MS_MAX) {
            let at = AtMs::clamped(ms);
            let stamp = Timestamp::from_millisecond(ms).expect("in range");
            let text = format!("{stamp:.3}");
            prop_assert_eq!(at.to_string(), &text[..]);
            prop_assert_eq!(parse_usual(text.as_bytes()), Some(at));
            let whole = format!("{:.0}", Timestamp::from_second(ms / 1_000).expect("in range"));
            prop_assert_eq!(parse_usual(whole.as_bytes()), Some(AtMs::clamped(ms / 1_000 * 1_000)));
            prop_assert_eq!(at.hour().to_string(), [&text[..10], "-", &text[11..13]].concat());
        }

        #[test]
        fn the_usual_forms_are_read_as_by_another_library(
            date in "[0-9]{4}-[01][0-9]-[0-3][0-9]", time in "[T t][0-2][0-9]:[0-6][0-9]:[0-6][0-9]", end in "(\\.[0-9]{1,4})?[Zz+]",
        ) {
            let text = format!("{date}{time}{end}");
            if let Some(at) = parse_usual(text.as_bytes()) {
                let stamp: Timestamp = text.parse().expect("an instant there too");
                prop_assert_eq!(at.ms(), stamp.as_millisecond());
            }
        }
    }
}
