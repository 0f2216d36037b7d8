//! Bearer tokens (RFC 6750).

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// A bearer token. Compared in a time that does not depend on where two differ; never printed.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// Takes a token. `None` for an empty one: it would let everybody in.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.as_bytes().into()))
    }

    /// Whether a request brings it: `Authorization: Bearer …`.
    pub fn opens(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|given| self.0.ct_eq(given.as_bytes()).into())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_token_opens() {
        let token = Token::new("geheim").expect("not empty");
        for (value, opens) in [
            ("Bearer geheim", true),
            ("bearer  geheim ", true),
            ("Bearer geheim2", false),
            ("Bearer ", false),
            ("geheim", false),
            ("Basic geheim", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(token.opens(&headers), opens, "{value}");
        }
        assert!(!token.opens(&HeaderMap::new()));
        assert!(Token::new("").is_none());
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
