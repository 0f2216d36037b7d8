//! Where Redis is: one URL for a single server, a service behind Sentinels, or a Cluster.
//!
//! | form | meaning |
//! | --- | --- |
//! | `redis://[user][:password]@host[:6379][/db]` | one server over TCP |
//! | `rediss://…` | the same over TLS |
//! | `unix:/path[?db=N&user=U&password=P]` | one server on a unix socket |
//! | `redis+sentinel://[user][:password]@host[:26379],…/service[/db]` | the master that these Sentinels name |
//! | `redis+cluster://[user][:password]@host[:6379],…` | a Cluster, reached through any of these nodes |
//!
//! `rediss+sentinel` and `rediss+cluster` are the same over TLS; `valkey` may stand for `redis`. Sentinels with their own
//! password take it from `?sentinel_user=U&sentinel_password=P`. Parts are percent-encoded where they hold `@ : / , ? #`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use secrecy::{ExposeSecret, SecretString};

/// The port of a server that names none.
const SERVER_PORT: u16 = 6379;
/// The port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;
/// What is shown in the place of a password.
const REDACTED: &str = "***";

/// Why a URL names no Redis. No text here holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; the forms are redis://, rediss://, unix:/path, redis+sentinel:// and redis+cluster://"
)]
pub struct TargetError(String);

fn wrong<T>(text: impl Into<String>) -> Result<T, TargetError> {
    Err(TargetError(text.into()))
}

/// What stands at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// One server.
    Single,
    /// The master that Sentinels name.
    Sentinel,
    /// A Cluster.
    Cluster,
}

#[derive(Clone, PartialEq, Eq)]
struct Host {
    name: String,
    port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

#[derive(Clone)]
enum Place {
    Tcp(Host),
    Unix(PathBuf),
    Sentinel { hosts: Vec<Host>, service: String },
    Cluster(Vec<Host>),
}

#[derive(Clone, Default)]
struct Login {
    user: Option<String>,
    password: Option<SecretString>,
}

impl Login {
    fn settings(&self, db: i64) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default().set_db(db);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.expose_secret());
        }
        settings
    }
}

/// A parsed URL. `Display` and `Debug` show it without its passwords.
#[derive(Clone)]
pub struct Target {
    place: Place,
    tls: bool,
    login: Login,
    sentinel_login: Login,
    db: i64,
}

impl Target {
    /// Reads a URL in one of the forms above.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return wrong("the Redis URL has no scheme");
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Query::parse(query)?),
            None => (rest, Query::default()),
        };
        if rest.contains('#') {
            return wrong("a Redis URL has no part after #");
        }
        let scheme = scheme.to_ascii_lowercase();
        let scheme = scheme.replacen("valkey", "redis", 1);
        match scheme.as_str() {
            "unix" | "redis+unix" => Self::parse_unix(rest, query),
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" => {
                let Some(rest) = rest.strip_prefix("//") else {
                    return wrong("the Redis URL has no // after its scheme");
                };
                let (base, kind) = scheme.split_once('+').unwrap_or((&scheme, ""));
                Self::parse_network(rest, query, base == "rediss", kind)
            }
            _ => wrong("the Redis URL has an unknown scheme"),
        }
    }

    fn parse_unix(rest: &str, mut query: Query) -> Result<Self, TargetError> {
        let path = decode(rest.strip_prefix("//").unwrap_or(rest), "path")?;
        if !path.starts_with('/') {
            return wrong("a unix socket of Redis needs an absolute path: unix:/run/redis.sock");
        }
        let db = match query.take("db") {
            Some(db) => parse_db(&db)?,
            None => 0,
        };
        let login = Login {
            user: query.take("user"),
            password: query
                .take("password")
                .or_else(|| query.take("pass"))
                .map(SecretString::from),
        };
        query.finish()?;
        Ok(Self {
            place: Place::Unix(PathBuf::from(path)),
            tls: false,
            login,
            sentinel_login: Login::default(),
            db,
        })
    }

    fn parse_network(
        rest: &str,
        mut query: Query,
        tls: bool,
        kind: &str,
    ) -> Result<Self, TargetError> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (parse_login(login)?, hosts),
            None => (Login::default(), authority),
        };
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let port = if kind == "sentinel" {
            SENTINEL_PORT
        } else {
            SERVER_PORT
        };
        let mut hosts = hosts
            .split(',')
            .map(|host| parse_host(host, port))
            .collect::<Result<Vec<_>, _>>()?;
        let (place, db) = match kind {
            "sentinel" => {
                let Some(service) = segments.next() else {
                    return wrong(
                        "a Sentinel URL names the service after the hosts: redis+sentinel://host:26379/mymaster",
                    );
                };
                let service = decode(service, "service name")?;
                let db = segments.next().map_or(Ok(0), parse_db)?;
                (Place::Sentinel { hosts, service }, db)
            }
            "cluster" => {
                let db = segments.next().map_or(Ok(0), parse_db)?;
                if db != 0 {
                    return wrong("a Redis Cluster has the database 0 only");
                }
                (Place::Cluster(hosts), 0)
            }
            _ => {
                if hosts.len() != 1 {
                    return wrong(
                        "a Redis URL with several hosts is redis+sentinel:// or redis+cluster://",
                    );
                }
                let db = segments.next().map_or(Ok(0), parse_db)?;
                (Place::Tcp(hosts.remove(0)), db)
            }
        };
        if segments.next().is_some() {
            return wrong("the path of the Redis URL has too many parts");
        }
        let mut sentinel_login = Login::default();
        if kind == "sentinel" {
            sentinel_login.user = query.take("sentinel_user");
            sentinel_login.password = query.take("sentinel_password").map(SecretString::from);
        }
        query.finish()?;
        Ok(Self {
            place,
            tls,
            login,
            sentinel_login,
            db,
        })
    }

    /// A server on a unix socket, without a password.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::Unix(path.into()),
            tls: false,
            login: Login::default(),
            sentinel_login: Login::default(),
            db: 0,
        }
    }

    /// What stands at the other end.
    pub fn kind(&self) -> TargetKind {
        match self.place {
            Place::Tcp(_) | Place::Unix(_) => TargetKind::Single,
            Place::Sentinel { .. } => TargetKind::Sentinel,
            Place::Cluster(_) => TargetKind::Cluster,
        }
    }

    /// The database number; 0 on a Cluster.
    pub fn db(&self) -> i64 {
        self.db
    }

    /// Whether the connection to the servers is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The addresses with the login of the servers: one of a single server, all seed nodes of a Cluster.
    pub(crate) fn servers(&self) -> Result<Vec<ConnectionInfo>, redis::RedisError> {
        let addresses: Vec<ConnectionAddr> = match &self.place {
            Place::Tcp(host) => vec![self.address(host)],
            Place::Unix(path) => vec![ConnectionAddr::Unix(path.clone())],
            Place::Cluster(hosts) => hosts.iter().map(|host| self.address(host)).collect(),
            Place::Sentinel { .. } => Vec::new(),
        };
        addresses
            .into_iter()
            .map(|address| {
                Ok(address
                    .into_connection_info()?
                    .set_redis_settings(self.settings()))
            })
            .collect()
    }

    /// The Sentinels with their login, and the service to ask them for.
    pub(crate) fn sentinels(
        &self,
    ) -> Result<Option<(Vec<ConnectionInfo>, &str)>, redis::RedisError> {
        let Place::Sentinel { hosts, service } = &self.place else {
            return Ok(None);
        };
        let infos = hosts
            .iter()
            .map(|host| {
                Ok(self
                    .address(host)
                    .into_connection_info()?
                    .set_redis_settings(self.sentinel_login.settings(0)))
            })
            .collect::<Result<Vec<_>, redis::RedisError>>()?;
        Ok(Some((infos, service)))
    }

    /// The login of the servers.
    pub(crate) fn settings(&self) -> RedisConnectionInfo {
        self.login.settings(self.db)
    }

    fn address(&self, host: &Host) -> ConnectionAddr {
        if self.tls {
            ConnectionAddr::TcpTls {
                host: host.name.clone(),
                port: host.port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host.name.clone(), host.port)
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        Self::parse(url)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let login = match (&self.login.user, &self.login.password) {
            (None, None) => String::new(),
            (user, None) => format!("{}@", user.as_deref().unwrap_or_default()),
            (user, Some(_)) => format!("{}:{REDACTED}@", user.as_deref().unwrap_or_default()),
        };
        let join = |hosts: &[Host]| {
            hosts
                .iter()
                .map(Host::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        match &self.place {
            Place::Tcp(host) => write!(f, "{scheme}://{login}{host}")?,
            Place::Unix(path) => write!(f, "unix:{}", path.display())?,
            Place::Sentinel { hosts, service } => {
                write!(f, "{scheme}+sentinel://{login}{}/{service}", join(hosts))?
            }
            Place::Cluster(hosts) => write!(f, "{scheme}+cluster://{login}{}", join(hosts))?,
        }
        match (&self.place, self.db) {
            (_, 0) => Ok(()),
            (Place::Unix(_), db) => write!(f, "?db={db}"),
            (_, db) => write!(f, "/{db}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn decode(text: &str, what: &str) -> Result<String, TargetError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => wrong(format!("the {what} of the Redis URL is not UTF-8")),
    }
}

fn parse_login(text: &str) -> Result<Login, TargetError> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let user = decode(user, "user name")?;
    let password = password
        .map(|password| decode(password, "password").map(SecretString::from))
        .transpose()?;
    Ok(Login {
        user: (!user.is_empty()).then_some(user),
        password,
    })
}

fn parse_host(text: &str, default_port: u16) -> Result<Host, TargetError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((name, port)) = rest.split_once(']') else {
                return wrong("a host of the Redis URL has [ without ]");
            };
            if name.parse::<std::net::Ipv6Addr>().is_err() {
                return wrong("a host of the Redis URL in [ ] is not an IPv6 address");
            }
            let port = match port.strip_prefix(':') {
                Some(port) => Some(port),
                None if port.is_empty() => None,
                None => return wrong("something follows ] in a host of the Redis URL"),
            };
            (name.to_owned(), port)
        }
        None => {
            let (name, port) = match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            };
            (decode(name, "host")?, port)
        }
    };
    if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return wrong("a host of the Redis URL is empty or holds spaces");
    }
    if name == "0.0.0.0" || name == "::" {
        return wrong(format!(
            "nobody can be reached at {name}; name the server's address"
        ));
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => {
                return wrong("a port of the Redis URL is not a number from 1 to 65535");
            }
            Ok(port) => port,
        },
    };
    Ok(Host { name, port })
}

fn parse_db(text: &str) -> Result<i64, TargetError> {
    match text.parse::<u32>() {
        Ok(db) => Ok(i64::from(db)),
        Err(_) => wrong("the database of the Redis URL is not a number"),
    }
}

/// The part after `?`. A name that nobody asked for is an error.
#[derive(Default)]
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Result<Self, TargetError> {
        text.split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((name.to_owned(), decode(value, name)?))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    fn finish(self) -> Result<(), TargetError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => wrong(format!(
                "the Redis URL has an unknown parameter {:?}",
                name.chars().take(40).collect::<String>()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_and_what_is_shown_of_them() {
        for (url, shown, kind) in [
            (
                "redis://localhost",
                "redis://localhost:6379",
                TargetKind::Single,
            ),
            (
                "redis://u:p%40ss@h:1/3",
                "redis://u:***@h:1/3",
                TargetKind::Single,
            ),
            (
                "redis://:secret@h",
                "redis://:***@h:6379",
                TargetKind::Single,
            ),
            ("valkey://h", "redis://h:6379", TargetKind::Single),
            ("rediss://[::1]:7", "rediss://[::1]:7", TargetKind::Single),
            ("unix:/run/r.sock", "unix:/run/r.sock", TargetKind::Single),
            (
                "unix:///run/r.sock?db=2&password=x",
                "unix:/run/r.sock?db=2",
                TargetKind::Single,
            ),
            (
                "redis+sentinel://:p@a,b:5/main/2?sentinel_password=q",
                "redis+sentinel://:***@a:26379,b:5/main/2",
                TargetKind::Sentinel,
            ),
            (
                "rediss+cluster://u@a,b:7000",
                "rediss+cluster://u@a:6379,b:7000",
                TargetKind::Cluster,
            ),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!(target.to_string(), shown, "{url}");
            assert_eq!(format!("{target:?}"), format!("Target({shown})"));
            assert_eq!(target.kind(), kind);
        }
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (url, said) in [
            ("", "no scheme"),
            ("http://h", "unknown scheme"),
            ("redis:h", "no //"),
            ("redis://", "empty"),
            ("redis://h:0", "port"),
            ("redis://h:99999", "port"),
            ("redis://h/x", "database"),
            ("redis://h/1/2", "too many parts"),
            ("redis://a,b", "several hosts"),
            ("redis://0.0.0.0", "nobody can be reached"),
            ("redis://h?timeout=3", "unknown parameter \"timeout\""),
            ("redis://h#insecure", "after #"),
            ("redis+sentinel://a:1", "names the service"),
            ("redis+cluster://a/1", "database 0 only"),
            ("unix:run/redis.sock", "absolute path"),
            ("redis://%ff@h", "not UTF-8"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
    }

    #[test]
    fn the_login_reaches_the_connection() {
        let target = Target::parse("redis://us%3Aer:p%40%2F@h:1/3").expect("valid");
        let servers = target.servers().expect("valid");
        let settings = servers[0].redis_settings();
        assert_eq!(settings.username(), Some("us:er"));
        assert_eq!(settings.password(), Some("p@/"));
        assert_eq!(settings.db(), 3);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".{0,80}") {
            let _ = Target::parse(&text);
            let _ = Target::parse(&format!("redis://{text}"));
            let _ = Target::parse(&format!("redis+sentinel://{text}"));
        }

        #[test]
        fn a_password_is_never_shown(password in "[a-z]{12}") {
            for url in [
                format!("redis://:{password}@h"),
                format!("redis+cluster://u:{password}@h,i"),
                format!("unix:/s?password={password}"),
                format!("redis+sentinel://h/m?sentinel_password={password}"),
                format!("redis://u:{password}@h:0"),
                format!("redis://u:{password}@h/no"),
            ] {
                let text = match Target::parse(&url) {
                    Ok(target) => format!("{target} {target:?}"),
                    Err(error) => format!("{error} {error:?}"),
                };
                prop_assert!(!text.contains(&password), "{}", text);
            }
        }
    }
}
