//! What a server says about itself: its version, and settings that would lose data.

use std::fmt;

use redis::Value;

/// The oldest Redis whose streams do all that Cairn asks of them.
pub const VERSION_MIN: Version = Version { major: 7, minor: 0 };

/// A version of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
}

impl Version {
    /// Reads the first two numbers of a version; what follows is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim_start_matches('v').split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next().unwrap_or("0").parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a server says about itself. `None` where the login may not ask, or the service does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerFacts {
    /// Version text as told.
    pub version: Option<String>,
    /// Whether it is Valkey.
    pub is_valkey: bool,
    /// Whether an append-only file is kept: without it a crash loses minutes.
    pub append_only: Option<bool>,
    /// Bytes in use.
    pub used_bytes: Option<u64>,
    /// Bytes allowed; 0 for no limit.
    pub max_bytes: Option<u64>,
    /// What happens at the limit: `noeviction` is the one that loses nothing.
    pub eviction: Option<String>,
}

impl ServerFacts {
    /// What an operator should change, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.append_only == Some(false) {
            warnings.push(
                "Redis keeps no append-only file: a crash of Redis loses what was written since its last snapshot; set \
                 appendonly yes"
                    .to_owned(),
            );
        }
        if let Some(policy) = &self.eviction
            && policy != "noeviction"
            && self.max_bytes != Some(0)
        {
            warnings.push(format!(
                "Redis may delete keys when its memory is full (maxmemory-policy {policy}); set noeviction"
            ));
        }
        warnings
    }

    /// From the answer of `HELLO` and the text of `INFO`.
    pub(crate) fn read(hello: Option<&Value>, info: Option<&str>) -> Self {
        let mut facts = Self::default();
        if let Some(hello) = hello {
            facts.version = field(hello, "version");
            facts.is_valkey = field(hello, "server").is_some_and(|server| server == "valkey");
        }
        for line in info.unwrap_or_default().lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else {
                continue;
            };
            match name {
                "valkey_version" => {
                    facts.is_valkey = true;
                    facts.version = Some(value.to_owned());
                }
                "redis_version" if facts.version.is_none() => {
                    facts.version = Some(value.to_owned());
                }
                "aof_enabled" => facts.append_only = Some(value != "0"),
                "used_memory" => facts.used_bytes = value.parse().ok(),
                "maxmemory" => facts.max_bytes = value.parse().ok(),
                "maxmemory_policy" => facts.eviction = Some(value.to_owned()),
                _ => {}
            }
        }
        facts
    }

    /// The version when it is known to be too old.
    pub(crate) fn too_old(&self) -> Option<&str> {
        let text = self.version.as_deref()?;
        let is_enough =
            self.is_valkey || Version::parse(text).is_none_or(|version| version >= VERSION_MIN);
        (!is_enough).then_some(text)
    }
}

/// A field of an answer that is a map, or a list of names and values by turns.
fn field(value: &Value, name: &str) -> Option<String> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    match value {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(key, _)| text(key).as_deref() == Some(name))
            .and_then(|(_, value)| text(value)),
        Value::Array(items) => items
            .chunks_exact(2)
            .find(|pair| text(&pair[0]).as_deref() == Some(name))
            .and_then(|pair| text(&pair[1])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, enough) in [
            ("7.0.15", true),
            ("6.2.14", false),
            ("10.1", true),
            ("7", true),
            ("255.255.255", true),
            ("unstable", true),
        ] {
            let info = format!("# Server\r\nredis_version:{text}\r\n");
            let facts = ServerFacts::read(None, Some(&info));
            assert_eq!(facts.too_old().is_none(), enough, "{text}");
        }
        // Valkey tells an old Redis version for the sake of old clients.
        let facts = ServerFacts::read(
            None,
            Some("redis_version:6.2.4\r\nvalkey_version:8.0.1\r\n"),
        );
        assert_eq!(facts.too_old(), None);
    }

    #[test]
    fn warnings_name_what_loses_data() {
        let facts = ServerFacts::read(
            None,
            Some(
                "aof_enabled:0\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\nused_memory:7\r\n",
            ),
        );
        assert_eq!(facts.used_bytes, Some(7));
        let warnings = facts.warnings();
        assert!(warnings[0].contains("appendonly yes"), "{warnings:?}");
        assert!(warnings[1].contains("allkeys-lru"), "{warnings:?}");
        let facts = ServerFacts::read(
            None,
            Some("aof_enabled:1\r\nmaxmemory:0\r\nmaxmemory_policy:volatile-lru\r\n"),
        );
        assert_eq!(facts.warnings(), Vec::<String>::new());
    }
}
