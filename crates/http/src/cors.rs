//! Cross-origin access for browsers.
//!
//! `Access-Control-Allow-Origin` is put on every answer, errors included, since a browser shows a script nothing at all
//! of an answer without it, not even its status.

use axum::http::{HeaderMap, HeaderValue, header};

/// Methods a script may use.
const ALLOW_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");
/// Request headers a script may set.
const ALLOW_HEADERS: HeaderValue = HeaderValue::from_static("content-type, if-none-match");
/// Answer headers a script may read.
const EXPOSE_HEADERS: HeaderValue = HeaderValue::from_static("x-total-results, etag, retry-after");
/// A day: how long a browser may keep the answer to its preflight, seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");

/// A value that cannot be an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin: expected \"*\" or scheme and host, like \"https://wallet.example\""
)]
pub struct CorsError(String);

/// Which origins may read answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cors {
    /// No header is sent: scripts of other origins cannot read answers.
    #[default]
    Off,
    /// This one value is sent always (`*`, or the only allowed origin).
    Fixed(HeaderValue),
    /// The asking origin is sent back if it is one of these.
    OneOf(Vec<HeaderValue>),
}

impl Cors {
    /// From configured origins: none, `*`, or some.
    pub fn from_origins<S: AsRef<str>>(origins: &[S]) -> Result<Self, CorsError> {
        let mut values = Vec::with_capacity(origins.len());
        for origin in origins {
            let origin = origin.as_ref().trim();
            if origin == "*" {
                return Ok(Self::Fixed(HeaderValue::from_static("*")));
            }
            let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains('/')
            });
            match HeaderValue::from_str(origin) {
                Ok(value) if is_origin => values.push(value),
                _ => return Err(CorsError(origin.to_owned())),
            }
        }
        Ok(match values.len() {
            0 => Self::Off,
            1 => Self::Fixed(values.remove(0)),
            _ => Self::OneOf(values),
        })
    }

    /// Adds the headers of an ordinary answer.
    pub(crate) fn apply(&self, origin: Option<&HeaderValue>, answer: &mut HeaderMap) {
        match self {
            Self::Off => return,
            Self::Fixed(value) => {
                answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value.clone());
            }
            Self::OneOf(values) => {
                // A proxy must not hand the answer for one origin to another.
                answer.append(header::VARY, HeaderValue::from_static("origin"));
                match origin {
                    Some(origin) if values.contains(origin) => {
                        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
                    }
                    _ => return,
                }
            }
        }
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSE_HEADERS);
    }

    /// Adds the headers of an answer to `OPTIONS`.
    pub(crate) fn preflight(answer: &mut HeaderMap) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOW_METHODS);
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOW_HEADERS);
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(cors: &Cors, origin: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        cors.apply(
            Some(&HeaderValue::from_str(origin).expect("test origin")),
            &mut headers,
        );
        headers
            .get(header::ACCESS_CONTROL_ALLOW_ORIGIN)
            .map(|v| v.to_str().expect("ascii").to_owned())
    }

    #[test]
    fn origins_as_configured() {
        assert_eq!(Cors::from_origins::<&str>(&[]), Ok(Cors::Off));
        let any = Cors::from_origins(&["https://a.example", "*"]).expect("valid");
        assert_eq!(allowed(&any, "https://b.example").as_deref(), Some("*"));
        let one = Cors::from_origins(&["https://a.example"]).expect("valid");
        assert_eq!(
            allowed(&one, "https://b.example").as_deref(),
            Some("https://a.example")
        );
        let two =
            Cors::from_origins(&["https://a.example", "http://b.example:8080"]).expect("valid");
        assert_eq!(
            allowed(&two, "http://b.example:8080").as_deref(),
            Some("http://b.example:8080")
        );
        assert_eq!(allowed(&two, "https://c.example"), None);
        for bad in [
            "",
            "a.example",
            "https://",
            "https://a.example/",
            "https://a\n.example",
        ] {
            assert!(Cors::from_origins(&[bad]).is_err(), "{bad:?}");
        }
    }
}
