//! Errors of the API: a sentence for people, a word for programs, and every faulty field.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_http::HttpError;
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{Fault, QueryError, ScannerError};

/// Seconds after which a client should ask again when Redis is away.
const RETRY_SECONDS: u32 = 1;

/// An answer that is not the one asked for.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: String,
    text: String,
    details: Vec<Fault>,
    existing: Option<String>,
    retry_after: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &str, text: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            text: text.into(),
            details: Vec::new(),
            existing: None,
            retry_after: None,
        }
    }

    pub(crate) fn bad_request(code: &str, text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", text)
    }

    /// 422 with every faulty field.
    pub(crate) fn invalid(details: Vec<Fault>) -> Self {
        let text = details.first().map_or_else(
            || "the request cannot be used".to_owned(),
            |fault| {
                format!("{} {}", fault.path, fault.message)
                    .trim()
                    .to_owned()
            },
        );
        let code = details
            .first()
            .map_or("invalid", |fault| &fault.code)
            .to_owned();
        Self {
            details,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, &code, text)
        }
    }

    /// 409 with what is known.
    pub(crate) fn conflict(existing: String) -> Self {
        Self {
            existing: Some(existing),
            ..Self::new(
                StatusCode::CONFLICT,
                "conflict",
                "the id is known with other content; nothing was changed",
            )
        }
    }

    /// 503: the store does not answer. `part` is who is unavailable.
    pub(crate) fn unavailable(part: &str) -> Self {
        Self {
            retry_after: Some(RETRY_SECONDS),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "redis_unavailable",
                format!("{part} unavailable"),
            )
        }
    }

    /// 429.
    pub(crate) fn too_many(seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds.max(1)),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "too many requests; slow down",
            )
        }
    }

    /// What a failure of the store is to a client. Details are in the log: keys are nobody's business.
    pub(crate) fn store(error: &ScannerError, part: &str) -> Self {
        if error.is_transient() {
            tracing::warn!(%error, "the ledger's store does not answer");
            return Self::unavailable(part);
        }
        tracing::error!(%error, "the ledger could not answer");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.cause(),
            "Internal server error",
        )
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Invalid { code, message } => Self::bad_request(code, message),
            QueryError::Store(error) => Self::store(&error, "Scanner"),
        }
    }
}

impl From<ScannerError> for ApiError {
    fn from(error: ScannerError) -> Self {
        Self::store(&error, "Scanner")
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

/// A fault as JSON.
pub(crate) fn fault_json(fault: &Fault) -> String {
    JsonObject::new()
        .text("path", &fault.path)
        .text("code", &fault.code)
        .text("message", &fault.message)
        .end()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut json = JsonObject::new()
            .text("error", &self.text)
            .text("code", &self.code);
        if !self.details.is_empty() {
            json = json.raw("details", &array(self.details.iter().map(fault_json)));
        }
        if let Some(existing) = &self.existing {
            json = json.raw("existing", existing);
        }
        let mut response = Response::new(json.end().into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
