//! Parameters of requests: every one that cannot be used is an error with a word for it.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cairn_http::{PeerAddress, QueryParams, parse_decimal};
use cairn_scanner::{AtMs, HostId, LIMIT_DEFAULT, LIMIT_MAX};

use crate::error::ApiError;
use crate::state::App;

/// The query of a request, and where it came from.
pub(crate) struct Asked {
    query: QueryParams,
    pub(crate) peer: Option<IpAddr>,
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let peer = parts
            .extensions
            .get::<PeerAddress>()
            .map(|&PeerAddress(peer)| peer);
        let query = QueryParams::from_request_parts(parts, state).await?;
        Ok(Self { query, peer })
    }
}

impl Asked {
    /// A parameter that is given and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).filter(|value| !value.is_empty())
    }

    /// Checks what holds for every reading request: the host and the rate.
    pub(crate) fn reading(&self, app: &App) -> Result<(), ApiError> {
        app.limits.read(self.peer)?;
        if self.is_our_host(app)? {
            Ok(())
        } else {
            Err(ApiError::new(
                StatusCode::NOT_FOUND,
                "unknown_host",
                "there is no ledger of this host",
            ))
        }
    }

    /// Whether the request is about the host of this ledger.
    pub(crate) fn is_our_host(&self, app: &App) -> Result<bool, ApiError> {
        let Some(name) = self.get("hostId") else {
            return Ok(true);
        };
        let host = HostId::new(name).ok_or_else(|| {
            ApiError::bad_request("invalid_host", "hostId is not the name of a host")
        })?;
        Ok(host == app.scanner.options().host)
    }

    /// Rows of a page.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let Some(text) = self.query.get("limit") else {
            return Ok(LIMIT_DEFAULT);
        };
        let number = parse_decimal(text)
            .ok_or_else(|| ApiError::bad_request("invalid_limit", "limit is not a whole number"))?;
        Ok(usize::try_from(number)
            .unwrap_or(LIMIT_MAX)
            .clamp(1, LIMIT_MAX))
    }

    /// A whole number that is not negative.
    pub(crate) fn number(&self, name: &str, code: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.query.get(name) else {
            return Ok(None);
        };
        let number = parse_decimal(text).and_then(|number| i64::try_from(number).ok());
        number
            .filter(|number| *number <= cairn_scanner::AMOUNT_MAX)
            .map(Some)
            .ok_or_else(|| {
                ApiError::bad_request(code, format!("{name} is not a whole number of at least 0"))
            })
    }

    /// An instant, as RFC 3339 or as milliseconds since 1970.
    pub(crate) fn instant(&self, name: &str) -> Result<Option<AtMs>, ApiError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let at = AtMs::parse(text).or_else(|| {
            let ms = parse_decimal(text).and_then(|ms| i64::try_from(ms).ok())?;
            AtMs::new(ms)
        });
        at.map(Some).ok_or_else(|| {
            ApiError::bad_request(
                "invalid_instant",
                format!("{name} is neither an RFC 3339 instant nor milliseconds since 1970"),
            )
        })
    }

    /// One of a list of words.
    pub(crate) fn word<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        words: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.query.get(name) else {
            return Ok(None);
        };
        parse(text).map(Some).ok_or_else(|| {
            let words = words.trim_end();
            ApiError::bad_request(
                &format!("invalid_{name}"),
                format!("{name} is not one of: {words}"),
            )
        })
    }
}
