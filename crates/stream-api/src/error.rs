//! Errors of the API: a sentence for people and a word for programs.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_http::HttpError;
use cairn_stream::StreamError;
use cairn_stream::subscription::SubscriptionError;
use serde_json::json;

/// An answer that is not the one asked for.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) text: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            code,
            text: text.into(),
        }
    }

    pub(crate) fn bad_request(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }

    /// What ends a subscription, for its client. Keys and places are in the log.
    pub(crate) fn of_subscription(error: &SubscriptionError) -> Self {
        let (status, code) = match error {
            SubscriptionError::Trimmed { .. } => (StatusCode::GONE, "trimmed"),
            SubscriptionError::NotPublished { .. } => (StatusCode::CONFLICT, "not_published"),
            SubscriptionError::NoHead { .. } => (StatusCode::CONFLICT, "no_head"),
            SubscriptionError::OtherChain { .. } => (StatusCode::CONFLICT, "other_chain"),
            SubscriptionError::ForkFailed { .. } => (StatusCode::CONFLICT, "fork_failed"),
            SubscriptionError::Closed { .. } => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
            SubscriptionError::Stream(error) => return Self::store(error),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, error.to_string())
    }

    /// The store does not answer as it should.
    pub(crate) fn store(error: &StreamError) -> Self {
        if error.is_transient() {
            tracing::warn!(%error, "a stream's store does not answer");
            return Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store_unavailable",
                "the store of the stream does not answer; try again",
            );
        }
        tracing::error!(%error, "a stream's store failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "store_failed",
            "Internal server error",
        )
    }

    /// As a JSON object.
    pub(crate) fn to_json(&self) -> String {
        json!({ "error": self.text, "code": self.code }).to_string()
    }
}

/// Errors of reading a body.
impl From<HttpError> for ApiError {
    fn from(error: HttpError) -> Self {
        let code = match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
            StatusCode::REQUEST_TIMEOUT => "timeout",
            _ => "bad_request",
        };
        Self::new(error.status(), code, error.text())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.to_json().into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
