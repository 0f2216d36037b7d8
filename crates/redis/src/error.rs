//! What can go wrong with Redis, sorted by what can be done about it.

use redis::{ErrorKind, ServerErrorKind};

/// Why Redis did not do what it was asked. `place` is the URL without passwords; `cause` is Redis' or the system's own text.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RedisError {
    /// It cannot be reached, is starting, or is failing over: trying again can help.
    #[error("Redis at {place} cannot be reached: {cause}")]
    Unavailable {
        /// Where.
        place: String,
        /// Why.
        cause: String,
    },
    /// It takes no writes: memory at its limit, the disk of its append-only file or snapshot full, too few replicas. Trying
    /// again helps once there is room.
    #[error(
        "Redis at {place} takes no writes: {cause}. Give it more memory or disk, or let it keep less (stream.window_hours, \
         stream.max_len)"
    )]
    Full {
        /// Where.
        place: String,
        /// Redis' own text.
        cause: String,
    },
    /// A key holds another type of value than Cairn keeps there.
    #[error(
        "Redis at {place}: {what}: the key holds another type of value than Cairn keeps there ({cause}). Another program uses \
         this database; give Cairn a database of its own, or rename or delete that key"
    )]
    WrongType {
        /// Where.
        place: String,
        /// What was being done, with the key's name.
        what: String,
        /// Redis' own text.
        cause: String,
    },
    /// Redis does not let us in, or not do this.
    #[error("Redis at {place} refuses: {cause}. Check the user, the password and the ACL rules")]
    Refused {
        /// Where.
        place: String,
        /// Redis' own text.
        cause: String,
    },
    /// Too old a server, or one that is none.
    #[error(
        "Redis at {place} is version {version}; Cairn needs Redis {needed} or newer, or Valkey"
    )]
    TooOld {
        /// Where.
        place: String,
        /// The version it says it has.
        version: String,
        /// The oldest that is enough.
        needed: String,
    },
    /// Any other refusal of a command, or an answer of another form than expected.
    #[error("Redis at {place}: {what}: {cause}")]
    Failed {
        /// Where.
        place: String,
        /// What was being done.
        what: String,
        /// Redis' own text.
        cause: String,
    },
}

impl RedisError {
    /// Sorts an error of the client library. `what` says what was being done, with the key's name.
    pub(crate) fn sort(place: &str, what: &str, error: &redis::RedisError) -> Self {
        let place = place.to_owned();
        let cause = error.to_string();
        let what = what.to_owned();
        let code = code(error);
        match code.as_deref() {
            Some("OOM" | "MISCONF" | "NOREPLICAS") => return Self::Full { place, cause },
            Some("WRONGTYPE") => return Self::WrongType { place, what, cause },
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => return Self::Refused { place, cause },
            // A script that runs for too long, a master that was demoted, a data set that is being loaded.
            Some(
                "LOADING" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY"
                | "UNBLOCKED" | "UNKILLABLE" | "MOVED" | "ASK",
            ) => return Self::Unavailable { place, cause },
            _ => {}
        }
        match error.kind() {
            ErrorKind::Io
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel
            | ErrorKind::ClusterConnectionNotFound => Self::Unavailable { place, cause },
            ErrorKind::AuthenticationFailed => Self::Refused { place, cause },
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::Refused { place, cause },
            _ if error.is_timeout() || error.is_connection_dropped() || error.is_io_error() => {
                Self::Unavailable { place, cause }
            }
            _ => Self::Failed { place, what, cause },
        }
    }

    /// Whether the same command can succeed later without anybody's action at Cairn.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// Whether Redis has no room for more.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// The error's code as the server wrote it (`OOM`, `WRONGTYPE` …), also out of a pipeline or a script.
pub(crate) fn code(error: &redis::RedisError) -> Option<String> {
    if let Some(code) = error.code()
        && code != "EXECABORT"
        && code != "ERR"
    {
        return Some(code.to_owned());
    }
    let errors = error.clone().into_server_errors()?;
    let (_, first) = errors.first()?;
    Some(first.code().to_owned())
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn server_says(line: &str) -> redis::RedisError {
        parse_redis_value(format!("-{line}\r\n").as_bytes())
            .expect("an answer")
            .extract_error()
            .expect_err("an error")
    }

    #[test]
    fn answers_are_sorted_by_what_helps() {
        for (line, transient, full, said) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                true,
                true,
                "takes no writes",
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots",
                true,
                true,
                "takes no writes",
            ),
            (
                "NOREPLICAS Not enough good replicas to write.",
                true,
                true,
                "takes no writes",
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                true,
                false,
                "cannot be reached",
            ),
            (
                "READONLY You can't write against a read only replica.",
                true,
                false,
                "cannot be reached",
            ),
            (
                "CLUSTERDOWN The cluster is down",
                true,
                false,
                "cannot be reached",
            ),
            (
                "WRONGTYPE Operation against a key",
                false,
                false,
                "doing it: the key holds another type",
            ),
            ("NOAUTH Authentication required.", false, false, "refuses"),
            (
                "NOPERM this user has no permissions",
                false,
                false,
                "refuses",
            ),
            ("ERR syntax error", false, false, "doing it: "),
        ] {
            let error = RedisError::sort("redis://h:1", "doing it", &server_says(line));
            assert_eq!(
                (error.is_transient(), error.is_full()),
                (transient, full),
                "{line}"
            );
            let text = error.to_string();
            assert!(
                text.contains(said) && text.contains("redis://h:1"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_lost_connection_is_transient() {
        for kind in [
            std::io::ErrorKind::ConnectionRefused,
            std::io::ErrorKind::NotFound,
            std::io::ErrorKind::BrokenPipe,
            std::io::ErrorKind::TimedOut,
            std::io::ErrorKind::UnexpectedEof,
        ] {
            let error = redis::RedisError::from(std::io::Error::from(kind));
            assert!(
                RedisError::sort("p", "w", &error).is_transient(),
                "{kind:?}"
            );
        }
    }
}
