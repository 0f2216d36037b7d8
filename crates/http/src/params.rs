//! Reading path and query without ever failing before the handler: what cannot be decoded is a value that no parser
//! of hashes or numbers accepts, so that the endpoint's own error text is the answer.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::request::Parts;

/// Stands for a path segment that is not UTF-8 after percent-decoding.
const UNDECODABLE: &str = "\u{fffd}";

/// The values of a route's parameters, in route order, percent-decoded.
#[derive(Debug, Clone, Default)]
pub struct PathParams(Vec<String>);

impl PathParams {
    /// The parameter at `index`; empty if the route has fewer.
    pub fn get(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(
            match RawPathParams::from_request_parts(parts, state).await {
                Ok(params) => Self(params.iter().map(|(_, value)| value.to_owned()).collect()),
                Err(_) => Self(vec![UNDECODABLE.to_owned(); 4]),
            },
        )
    }
}

/// The pairs of a query string, percent-decoded, in the order sent.
#[derive(Debug, Clone, Default)]
pub struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        if parts.uri.query().is_none_or(str::is_empty) {
            return Ok(Self::default());
        }
        Ok(Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map(|Query(pairs)| Self(pairs))
            .unwrap_or_default())
    }
}

/// Reads a plain decimal: digits only, no sign, no blank. `None` if it is not one; a number too large for `u64` is
/// `u64::MAX`, since it is a number nevertheless (and larger than any height, index or count).
pub fn parse_decimal(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0025", Some(25)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            (" 1", None),
            ("1e3", None),
            ("0x10", None),
            ("\u{0661}", None),
        ] {
            assert_eq!(parse_decimal(text), expected, "{text:?}");
        }
    }
}
