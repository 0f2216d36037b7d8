//! Who subscribes, and to which stream.

use std::fmt;
use std::sync::Arc;

use crate::keys;
use crate::label::ChainLabel;

/// Longest id of a subscription, bytes.
const SUB_ID_BYTES_MAX: usize = 128;
/// Longest id of a reparse job, bytes.
const JOB_ID_BYTES_MAX: usize = 64;

/// A name that cannot stand in keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} cannot be the id of a {what}: it names keys, so it has 1 to {max} bytes and no blank, quote, control character or \
     any of : * ? [ ] {{ }}"
)]
pub struct NameError {
    what: &'static str,
    given: String,
    max: usize,
}

fn check(what: &'static str, text: &str, max: usize) -> Result<(), NameError> {
    let is_fine = |c: char| {
        !c.is_whitespace()
            && !c.is_control()
            && !matches!(c, ':' | '*' | '?' | '[' | ']' | '{' | '}' | '"' | '\\')
    };
    if text.is_empty() || text.len() > max || !text.chars().all(is_fine) {
        return Err(NameError {
            what,
            given: text.chars().take(2 * max).collect(),
            max,
        });
    }
    Ok(())
}

/// The id of a subscription, which is also the name of its consumer group. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubId(Arc<str>);

impl SubId {
    /// Checks that it can stand in keys.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check("subscription", text, SUB_ID_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stream that is read: a chain's live one, or that of a reparse job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventSource {
    chain: ChainLabel,
    job: Option<Arc<str>>,
}

impl EventSource {
    /// The live events of a chain.
    pub fn live(chain: &ChainLabel) -> Self {
        Self {
            chain: chain.clone(),
            job: None,
        }
    }

    /// The events of a reparse job.
    pub fn reparse(chain: &ChainLabel, job_id: &str) -> Result<Self, NameError> {
        check("reparse job", job_id, JOB_ID_BYTES_MAX)?;
        Ok(Self {
            chain: chain.clone(),
            job: Some(job_id.into()),
        })
    }

    /// The chain.
    pub fn chain(&self) -> &ChainLabel {
        &self.chain
    }

    /// The reparse job, if it is one's.
    pub fn job(&self) -> Option<&str> {
        self.job.as_deref()
    }

    /// The key of the stream.
    pub fn key(&self) -> String {
        match &self.job {
            None => keys::events(&self.chain),
            Some(job) => keys::reparse_events(&self.chain, job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, fine) in [
            ("wallet", true),
            ("Kasse-é_1.x/y", true),
            ("", false),
            ("a:b", false),
            ("a b", false),
            ("a*", false),
            ("a{b}", false),
            ("a\n", false),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
        ] {
            assert_eq!(SubId::new(text).is_ok(), fine, "{text}");
        }
        let chain = ChainLabel::new("eos").expect("plain");
        let job = EventSource::reparse(&chain, "0190-ab").expect("an id");
        assert_eq!(job.key(), "ce:parser2:eos:reparse:0190-ab");
        assert_eq!(EventSource::live(&chain).key(), "ce:parser2:eos:events");
        assert!(EventSource::reparse(&chain, "a:b").is_err());
    }
}
