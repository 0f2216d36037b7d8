//! Answers: JSON, how long it holds, and the tag of what is in it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_http::ETag;
use cairn_scanner::AtMs;
use cairn_scanner::json::quote;

/// How long an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Lists and tails: not at all.
    No,
    /// The head.
    Head,
    /// A profile.
    Short,
    /// Summaries.
    Medium,
    /// A row.
    Long,
}

impl Holds {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::No => "no-store",
            Self::Head => "public, max-age=5, stale-while-revalidate=30",
            Self::Short => "public, max-age=10",
            Self::Medium => "public, max-age=15",
            Self::Long => "public, max-age=30",
        })
    }
}

/// A finished answer.
pub(crate) struct Reply {
    status: StatusCode,
    json: String,
    holds: Holds,
    tag: Option<HeaderValue>,
}

impl Reply {
    /// JSON that must not be kept.
    pub(crate) fn new(json: String) -> Self {
        Self {
            status: StatusCode::OK,
            json,
            holds: Holds::No,
            tag: None,
        }
    }

    /// JSON that may be kept; its tag is over all of it.
    pub(crate) fn kept(json: String, holds: Holds) -> Self {
        let tag = strong_tag(&json);
        Self {
            holds,
            tag: Some(tag),
            ..Self::new(json)
        }
    }

    /// The same with a tag of something else: what the answer says, without the instant it was made at.
    pub(crate) fn tagged(json: String, holds: Holds, content: &str) -> Self {
        Self {
            tag: Some(strong_tag(content)),
            holds,
            ..Self::new(json)
        }
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

/// A strong tag: the bytes of an answer are a function of what it says.
fn strong_tag(content: &str) -> HeaderValue {
    let weak = ETag::of_content(content.as_bytes());
    let text = weak.header_value().as_bytes();
    let strong = text.strip_prefix(b"W/").unwrap_or(text);
    HeaderValue::from_bytes(strong).unwrap_or_else(|_| weak.header_value().clone())
}

/// Puts the instant of an answer in front of its other fields.
pub(crate) fn with_generated_at(now: AtMs, object: &str) -> String {
    let fields = object.strip_prefix('{').unwrap_or(object);
    let comma = if fields == "}" { "" } else { "," };
    format!(
        "{{\"generatedAt\":{}{comma}{fields}",
        quote(&now.to_string())
    )
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.json.into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(header::CACHE_CONTROL, self.holds.header());
        if let Some(tag) = self.tag {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instant_goes_in_front() {
        let now = AtMs::clamped(0);
        assert_eq!(
            with_generated_at(now, "{\"a\":1}"),
            "{\"generatedAt\":\"1970-01-01T00:00:00.000Z\",\"a\":1}"
        );
        assert_eq!(
            with_generated_at(now, "{}"),
            "{\"generatedAt\":\"1970-01-01T00:00:00.000Z\"}"
        );
    }

    #[test]
    fn tags_are_strong_and_of_the_content() {
        let response = Reply::kept("{}".to_owned(), Holds::Head).into_response();
        let tag = response.headers()["etag"].to_str().expect("ascii");
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        assert_ne!(tag, strong_tag("{ }").to_str().expect("ascii"));
    }
}
