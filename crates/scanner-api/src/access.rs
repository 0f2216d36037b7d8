//! Who may, and how often.

use std::net::IpAddr;
use std::num::NonZeroU32;

use axum::http::{HeaderMap, StatusCode};
use cairn_http::Token;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::ApiError;
use crate::state::{ApiOptions, App};

/// Addresses remembered before idle ones are forgotten.
const KEYS_MAX: usize = 10_000;
/// Seconds of rate that may come at once.
const BURST_SECONDS: u32 = 4;

/// Rates by address.
pub(crate) struct Limits {
    reads: DefaultKeyedRateLimiter<IpAddr>,
    tracks: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
}

fn quota(per_second: u32) -> Quota {
    let rate = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
    let burst = NonZeroU32::new(per_second.saturating_mul(BURST_SECONDS)).unwrap_or(rate);
    Quota::per_second(rate).allow_burst(burst)
}

impl Limits {
    pub(crate) fn new(options: &ApiOptions) -> Self {
        Self {
            reads: RateLimiter::keyed(quota(options.reads_per_second)),
            tracks: RateLimiter::keyed(quota(options.tracks_per_second)),
            clock: DefaultClock::default(),
        }
    }

    /// One reading request of an address.
    pub(crate) fn read(&self, peer: Option<IpAddr>) -> Result<(), ApiError> {
        match peer {
            Some(address) if !address.is_loopback() => self.check(&self.reads, &address),
            _ => Ok(()),
        }
    }

    /// One event of a browser: by address and by session.
    pub(crate) fn track(&self, peer: Option<IpAddr>, session: &str) -> Result<(), ApiError> {
        if let Some(address) = peer.filter(|address| !address.is_loopback()) {
            self.check(&self.tracks, &address.to_string())?;
        }
        let name: String = format!("session {session}").chars().take(200).collect();
        self.check(&self.tracks, &name)
    }

    fn check<K: std::hash::Hash + Eq + Clone>(
        &self,
        limiter: &DefaultKeyedRateLimiter<K>,
        key: &K,
    ) -> Result<(), ApiError> {
        if limiter.len() > KEYS_MAX {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
        limiter.check_key(key).map_err(|early| {
            let wait = early.wait_time_from(self.clock.now());
            ApiError::too_many(
                u32::try_from(wait.as_secs())
                    .unwrap_or(u32::MAX)
                    .saturating_add(1),
            )
        })
    }
}

fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "a valid token is needed: Authorization: Bearer …",
    )
}

fn is_token(token: Option<&Token>, headers: &HeaderMap) -> bool {
    token.is_some_and(|token| token.opens(headers))
}

/// Lets an application in that holds the token for telling, or the admin's.
pub(crate) fn ingestion(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    if is_token(app.ingest_token.as_ref(), headers) || is_token(app.admin_token.as_ref(), headers) {
        Ok(())
    } else {
        Err(unauthorized())
    }
}

/// Lets an admin in.
pub(crate) fn admin(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    if app.admin_token.is_none() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "admin_disabled",
            "no admin token is configured (scanner.admin_token), so this is off",
        ));
    }
    if is_token(app.admin_token.as_ref(), headers) {
        Ok(())
    } else {
        Err(unauthorized())
    }
}
