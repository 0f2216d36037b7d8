//! What the handlers share, and who may call them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use cairn_http::{PathParams, Token};
use cairn_redis::Redis;
use cairn_stream::ChainLabel;
use cairn_stream::subscription::{EventSource, LockTimes, SubId};

use crate::error::ApiError;
use crate::hosts::Hosts;

/// How the API behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiOptions {
    /// Subscriptions that are served at once.
    pub subscriptions_max: usize,
    /// Connections of one subscription at once, those that stand by included.
    pub connections_max: usize,
    /// How long a subscription without a connection is kept, so that a client that polls or comes back goes on at once.
    pub idle: Duration,
    /// How often a connection without events gets a sign of life.
    pub heartbeat: Duration,
    /// Times of the subscriptions' locks.
    pub lock: LockTimes,
    /// Pauses before an event that a client refused is given to it again; the last one repeats.
    pub retry_pauses: Vec<Duration>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            subscriptions_max: 256,
            connections_max: 8,
            idle: Duration::from_secs(20),
            heartbeat: Duration::from_secs(15),
            lock: LockTimes::default(),
            retry_pauses: vec![Duration::from_secs(1), Duration::from_secs(5)],
        }
    }
}

/// The streams behind the API.
#[derive(Clone)]
pub struct ApiState {
    /// Where they are.
    pub redis: Redis,
    /// The chains and ledgers that have one.
    pub chains: Vec<ChainLabel>,
    /// Opens the API; without it all of it is off.
    pub token: Option<Token>,
    /// The subscriptions that are served.
    pub hosts: Hosts,
}

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App(pub(crate) Arc<ApiState>);

impl std::ops::Deref for App {
    type Target = ApiState;

    fn deref(&self) -> &ApiState {
        &self.0
    }
}

impl App {
    /// Lets whoever holds the token in.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "disabled",
                "no token is configured (stream.token), so subscriptions over HTTP are off",
            ));
        };
        if token.opens(headers) {
            Ok(())
        } else {
            Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "a valid token is needed: Authorization: Bearer …",
            ))
        }
    }

    /// The chain that a path names first.
    pub(crate) fn chain(&self, path: &PathParams) -> Result<&ChainLabel, ApiError> {
        let name = path.get(0);
        let found = self.chains.iter().find(|chain| chain.as_str() == name);
        found.ok_or_else(|| {
            ApiError::new(
                StatusCode::NOT_FOUND,
                "unknown_chain",
                "there is no stream of this chain here",
            )
        })
    }

    /// The subscription that a path names second, and the stream.
    pub(crate) fn subscription(
        &self,
        path: &PathParams,
        job: Option<&str>,
    ) -> Result<(EventSource, SubId), ApiError> {
        let chain = self.chain(path)?;
        let wrong =
            |error: &dyn std::fmt::Display| ApiError::bad_request("invalid_id", error.to_string());
        let sub_id = SubId::new(path.get(1)).map_err(|error| wrong(&error))?;
        let source = match job {
            None => EventSource::live(chain),
            Some(job) => EventSource::reparse(chain, job).map_err(|error| wrong(&error))?,
        };
        Ok((source, sub_id))
    }
}
