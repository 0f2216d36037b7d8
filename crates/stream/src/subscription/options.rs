//! How a subscription behaves.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::filter::Filters;
use crate::subscription::names::SubId;

/// Where a subscription begins that has no position yet. One that has goes on where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// What is published from now on.
    #[default]
    LastKnown,
    /// The oldest event that the stream holds.
    First,
    /// The first event of this block, or of the first one after it that has events.
    Block(u32),
    /// The first event of the block that many below the newest published one.
    HeadMinus(u32),
}

/// The text says no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no place to start from: last_known, first, head-minus-1000 or a block's number")]
pub struct StartFromError(String);

impl FromStr for StartFrom {
    type Err = StartFromError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || StartFromError(text.chars().take(64).collect());
        match text {
            "last_known" => Ok(Self::LastKnown),
            "first" => Ok(Self::First),
            _ => match text.strip_prefix("head-minus-") {
                Some(blocks) => blocks.parse().map(Self::HeadMinus).map_err(|_| wrong()),
                None => text.parse().map(Self::Block).map_err(|_| wrong()),
            },
        }
    }
}

impl fmt::Display for StartFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastKnown => f.write_str("last_known"),
            Self::First => f.write_str("first"),
            Self::Block(num) => write!(f, "{num}"),
            Self::HeadMinus(blocks) => write!(f, "head-minus-{blocks}"),
        }
    }
}

/// Times of the lock, of the contract unless said otherwise. The defaults are for everything but tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTimes {
    /// How long the lock lives without being renewed.
    pub ttl: Duration,
    /// How often it is renewed.
    pub heartbeat: Duration,
    /// About how often a standby looks whether it is free.
    pub poll: Duration,
}

impl Default for LockTimes {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            poll: Duration::from_millis(500),
        }
    }
}

/// How a subscription behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionOptions {
    /// Its id.
    pub sub_id: SubId,
    /// Which events it wants.
    pub filters: Filters,
    /// Whether it gets forks, whatever it filters. A consumer that keeps state of blocks needs them to undo.
    pub forks: bool,
    /// Where it begins when it has no position.
    pub start_from: StartFrom,
    /// Whether it may begin at the oldest event when the start it asks for was trimmed away; otherwise that is an error.
    pub allow_gap: bool,
    /// How many events may be with the consumer at once, not yet acknowledged. With 1 they are handled strictly one after
    /// the other; with more, one that fails is handled again after later ones that were already given out.
    pub window: usize,
    /// At how many failures within 24 hours an event goes to the dead letters.
    pub failures_max: u32,
    /// Pauses before the second, third … attempt; the last one repeats.
    pub retry_pauses: Vec<Duration>,
    /// How long to wait as a standby before giving up; `None`: for ever.
    pub acquire_lock_timeout: Option<Duration>,
    /// Times of the lock.
    pub lock: LockTimes,
    /// Most events read at once.
    pub batch_events: usize,
    /// Reading stops for a batch when it has this many bytes.
    pub batch_bytes: usize,
}

impl SubscriptionOptions {
    /// The defaults for a subscription: everything, from now on, one at a time.
    pub fn new(sub_id: SubId) -> Self {
        Self {
            sub_id,
            filters: Filters::everything(),
            forks: true,
            start_from: StartFrom::LastKnown,
            allow_gap: false,
            window: 1,
            failures_max: 3,
            retry_pauses: vec![Duration::from_secs(1), Duration::from_secs(5)],
            acquire_lock_timeout: None,
            lock: LockTimes::default(),
            batch_events: 1_000,
            batch_bytes: 1 << 20,
        }
    }

    /// The pause after so many failures.
    pub(super) fn pause_after(&self, failures: u32) -> Duration {
        let at = usize::try_from(failures)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        let pause = self.retry_pauses.get(at).or(self.retry_pauses.last());
        pause.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (text, place) in [
            ("last_known", StartFrom::LastKnown),
            ("first", StartFrom::First),
            ("0", StartFrom::Block(0)),
            ("4294967295", StartFrom::Block(u32::MAX)),
            ("head-minus-1000", StartFrom::HeadMinus(1000)),
        ] {
            assert_eq!(text.parse(), Ok(place));
            assert_eq!(place.to_string(), text);
        }
        for text in [
            "",
            "-1",
            "4294967296",
            "head-minus-",
            "head-minus-x",
            "First",
        ] {
            assert!(text.parse::<StartFrom>().is_err(), "{text}");
        }
    }

    #[test]
    fn pauses() {
        let mut options = SubscriptionOptions::new(SubId::new("s").expect("an id"));
        let pauses: Vec<u64> = (1..5).map(|n| options.pause_after(n).as_secs()).collect();
        assert_eq!(pauses, [1, 5, 5, 5]);
        options.retry_pauses.clear();
        assert_eq!(options.pause_after(1), Duration::ZERO);
    }
}
