//! The one error type of all HTTP answers: a status and one line of plain text.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::caching::CacheClass;
use crate::surface::AskedPath;

/// What a client sees of a defect on our side; the details are in the log.
pub const INTERNAL_ERROR_TEXT: &str = "Internal server error";

/// Seconds after which a client should ask again when the server is merely busy.
const BUSY_RETRY_SECONDS: u32 = 1;

/// An answer that is not the one asked for: status and text.
///
/// The text becomes the body as it is (`text/plain`), or `{"error": text}` for a client that accepts JSON and nothing
/// else. Errors are never cached: a 404 for a block that is about to arrive must not live on in a proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {text}")]
pub struct HttpError {
    status: StatusCode,
    text: Cow<'static, str>,
    retry_after: Option<u32>,
}

impl HttpError {
    /// An error with any status.
    pub fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: one_line(text.into()),
            retry_after: None,
        }
    }

    /// 400: the client can repair the request.
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404: the thing asked for does not exist.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 422: well formed, but not possible.
    pub fn unprocessable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    }

    /// 503 with `Retry-After`: the same request can succeed later without anybody's action.
    pub fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(BUSY_RETRY_SECONDS)
    }

    /// 503: the time of one request is over.
    pub fn deadline() -> Self {
        Self::unavailable("deadline exceeded")
    }

    /// 500 without details. The caller has logged them.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR_TEXT)
    }

    /// Adds a `Retry-After` header.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The text of the body.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Control characters would break the promise of "one line" (and can come from a node's message or a path).
fn one_line(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(
            text.chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
        )
    } else {
        text
    }
}

/// Marks a response made from an [`HttpError`], so that the surface can give it another form.
#[derive(Clone)]
pub(crate) struct ErrorText(pub(crate) Cow<'static, str>);

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = Response::new(match &self.text {
            Cow::Borrowed(text) => Body::from(*text),
            Cow::Owned(text) => Body::from(text.clone()),
        });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(ErrorText(self.text));
        response
    }
}

/// Fallback handler of a router: 404 `endpoint does not exist "<path>"`, with the path as it was asked for.
pub async fn endpoint_not_found(request: Request) -> HttpError {
    let extensions = request.extensions();
    let path = match (
        extensions.get::<AskedPath>(),
        extensions.get::<OriginalUri>(),
    ) {
        (Some(asked), _) => &asked.0,
        (None, Some(original)) => original.0.path(),
        (None, None) => request.uri().path(),
    };
    HttpError::not_found(format!("endpoint does not exist \"{path}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_its_headers() {
        let response = HttpError::unavailable("index not yet synced")
            .retry_after(7)
            .into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["content-type"], "text/plain");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["retry-after"], "7");
    }

    #[test]
    fn text_is_one_line() {
        assert_eq!(
            HttpError::bad_request("a\r\nb\tc".to_owned()).text(),
            "a  b c"
        );
    }
}
