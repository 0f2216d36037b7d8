//! Points in time and lengths of time.

use std::fmt;

use jiff::Timestamp;

/// A block time (Unix seconds), shown in UTC to the second, as a `<time>` element that programs can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) u32);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Timestamp::from_second(i64::from(self.0))
            .expect("every 32-bit number of seconds lies within the range of a timestamp");
        write_time(f, at, None)
    }
}

/// An instant as an element that programs can read. Its parts are marked, so that narrow screens can leave some out and scripts
/// can show another zone.
fn write_time(f: &mut fmt::Formatter<'_>, at: Timestamp, ms: Option<i64>) -> fmt::Result {
    let (year, date) = (at.strftime("%Y-"), at.strftime("%m-%d"));
    let clock = at.strftime("%H:%M:%S");
    write!(f, "<time datetime=\"{year}{date}T{clock}")?;
    if let Some(ms) = ms {
        write!(f, ".{ms:03}")?;
    }
    write!(
        f,
        "Z\"><span class=\"year\">{year}</span><span class=\"date\">{date}</span> <span class=\"clock\">{clock}</span>"
    )?;
    if let Some(ms) = ms {
        write!(f, "<span class=\"ms\">.{ms:03}</span>")?;
    }
    f.write_str(" <span class=\"zone\">UTC</span></time>")
}

impl askama::filters::HtmlSafe for Stamp {}

/// An instant in milliseconds since 1970, shown in UTC with its milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) i64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What cannot be told as a date is told as what it is.
        let Ok(at) = Timestamp::from_millisecond(self.0) else {
            return write!(f, "<span>{} ms</span>", self.0);
        };
        write_time(f, at, Some(self.0.rem_euclid(1_000)))
    }
}

impl askama::filters::HtmlSafe for Moment {}

/// How long ago an instant in milliseconds was, in one unit.
pub(crate) fn age_ms(now: u64, then_ms: i64) -> String {
    let then = u32::try_from(then_ms.div_euclid(1_000)).unwrap_or(u32::MAX);
    age(now, then)
}

/// How long ago `then` was, in one unit: `3 min ago`. Block times may lie ahead of the clock: those are `just now`.
pub(crate) fn age(now: u64, then: u32) -> String {
    let seconds = now.saturating_sub(u64::from(then));
    let (n, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3_600 => (seconds / 60, "min"),
        3_600..86_400 => (seconds / 3_600, "h"),
        86_400..31_536_000 => (
            seconds / 86_400,
            if seconds < 172_800 { "day" } else { "days" },
        ),
        _ => (
            seconds / 31_536_000,
            if seconds < 63_072_000 {
                "year"
            } else {
                "years"
            },
        ),
    };
    format!("{n} {unit} ago")
}

/// A length of time in its two largest units: `2 min 10 s`, `3 h 5 min`.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text without its markup.
    fn seen(html: &str) -> String {
        html.split('<')
            .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text))
            .collect()
    }

    #[test]
    fn stamps_are_utc() {
        let html = Stamp(1_231_006_505).to_string();
        assert!(
            html.starts_with("<time datetime=\"2009-01-03T18:15:05Z\">"),
            "{html}"
        );
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (1_231_006_505, "2009-01-03 18:15:05 UTC"),
            (u32::MAX, "2106-02-07 06:28:15 UTC"),
        ] {
            assert_eq!(seen(&Stamp(seconds).to_string()), text);
        }
    }

    #[test]
    fn moments_have_milliseconds() {
        let html = Moment(1_231_006_505_042).to_string();
        assert!(
            html.starts_with("<time datetime=\"2009-01-03T18:15:05.042Z\">"),
            "{html}"
        );
        assert_eq!(seen(&html), "2009-01-03 18:15:05.042 UTC");
        assert!(Moment(i64::MAX).to_string().contains("ms</span>"));
        assert_eq!(age_ms(1_000, 940_500), "1 min ago");
    }

    #[test]
    fn ages_use_one_unit() {
        for (seconds, expected) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (86_400, "1 day ago"),
            (172_800, "2 days ago"),
            (31_536_000, "1 year ago"),
            (500_000_000, "15 years ago"),
        ] {
            assert_eq!(age(1_000_000_000, 1_000_000_000 - seconds), expected);
        }
        assert_eq!(age(100, 200), "just now", "a block time ahead of the clock");
    }

    #[test]
    fn durations_use_two_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (130, "2 min 10 s"),
            (11_100, "3 h 5 min"),
            (200_000, "2 d 7 h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
