//! How long an answer may be kept, and how a client asks whether it still holds.
//!
//! Two kinds of ETag, both weak (the bytes may differ in compression): from the *state* an answer was read from, for
//! answers that move with the chain, and from the *content*, for those that do not. The first kind can be compared
//! before any work is done.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Five years: content that is fixed by a hash.
pub const LONG_MAX_AGE_SECONDS: u32 = 157_784_630;
/// Everything that moves with the tip.
pub const SHORT_MAX_AGE_SECONDS: u32 = 10;
/// Lists of the newest unconfirmed transactions.
pub const RECENT_MAX_AGE_SECONDS: u32 = 5;
/// From this difference of tip height and height on, what depends on a block staying in the best chain is kept long.
pub const LONG_AFTER_DEPTH: u32 = 10;

/// The `Cache-Control` class of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheClass {
    /// Fixed by a hash: five years, `immutable`.
    Long,
    /// Moves with the chain: ten seconds.
    Short,
    /// Moves faster: five seconds.
    Recent,
    /// May be stored, but must be asked again each time.
    None,
    /// Must not be stored at all.
    NoStore,
}

impl CacheClass {
    /// The class of an answer that holds while the block at `height` stays on the best chain.
    ///
    /// Saturates: a view whose tip has moved below the block is depth 0, not a huge depth.
    pub fn by_depth(tip_height: u32, height: u32) -> Self {
        if tip_height.saturating_sub(height) >= LONG_AFTER_DEPTH {
            Self::Long
        } else {
            Self::Short
        }
    }

    /// The value of the `Cache-Control` header.
    pub fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Long => "public, max-age=157784630, immutable",
            Self::Short => "public, max-age=10",
            Self::Recent => "public, max-age=5",
            Self::None => "public, max-age=0",
            Self::NoStore => "no-store",
        })
    }
}

/// A weak entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ETag(HeaderValue);

impl ETag {
    /// A tag for answers that are functions of the request and of a state of the server (tip hash, mempool version).
    ///
    /// The program's version is mixed in: a newer program may write the same state differently.
    pub fn of_state(parts: &[&[u8]]) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        for part in parts {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self::make('s', hasher.digest())
    }

    /// A tag for the bytes of an answer.
    pub fn of_content(content: &[u8]) -> Self {
        Self::make('c', xxh3_64(content))
    }

    fn make(kind: char, hash: u64) -> Self {
        let text = format!("W/\"{kind}{hash:016x}\"");
        Self(HeaderValue::try_from(text).expect("hex digits and quotes are valid in a header"))
    }

    /// The value of the `ETag` header.
    pub fn header_value(&self) -> &HeaderValue {
        &self.0
    }
}

/// The `If-None-Match` fields of a request.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Vec<HeaderValue>);

impl Conditions {
    /// From the request's header.
    pub fn of(request: &HeaderMap) -> Self {
        Self(
            request
                .get_all(header::IF_NONE_MATCH)
                .iter()
                .cloned()
                .collect(),
        )
    }

    /// Whether they name the tag (weak comparison), or any.
    pub fn match_tag(&self, tag: &HeaderValue) -> bool {
        let wanted = opaque(tag.as_bytes());
        self.0.iter().any(|value| {
            value
                .as_bytes()
                .split(|&byte| byte == b',')
                .any(|candidate| {
                    let candidate = candidate.trim_ascii();
                    candidate == b"*" || opaque(candidate) == wanted
                })
        })
    }

    /// Whether they name the tag itself, so that the answer it belongs to must have been given before.
    pub fn name_tag(&self, tag: &ETag) -> bool {
        let tag = tag.header_value();
        self.0.iter().any(|value| value.as_bytes() != b"*") && self.match_tag(tag)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// A tag without its mark of weakness.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// 304 for an answer that is known to be what the client has, before it is made.
pub fn unchanged(tag: &ETag, class: CacheClass) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, class.header_value());
    response
        .headers_mut()
        .insert(header::ETAG, tag.header_value().clone());
    response
}

/// A successful answer: bytes, their type, and how long they hold.
#[derive(Debug, Clone)]
pub struct Answer {
    content_type: &'static str,
    body: Bytes,
    cache: CacheClass,
    etag: Option<ETag>,
}

impl Answer {
    fn new(content_type: &'static str, body: Bytes) -> Self {
        Self {
            content_type,
            body,
            cache: CacheClass::Short,
            etag: None,
        }
    }

    /// JSON, already serialized.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::new("application/json", body.into())
    }

    /// A single value as text.
    pub fn text(body: impl Into<Bytes>) -> Self {
        Self::new("text/plain", body.into())
    }

    /// Raw bytes.
    pub fn bytes(body: impl Into<Bytes>) -> Self {
        Self::new("application/octet-stream", body.into())
    }

    /// Sets the cache class (short unless set).
    pub fn cache(mut self, class: CacheClass) -> Self {
        self.cache = class;
        self
    }

    /// Sets the tag of the state the answer was read from. Without one, a long-lived answer gets a tag of its content.
    pub fn etag(mut self, tag: ETag) -> Self {
        self.etag = Some(tag);
        self
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response<Body> {
        // What is fixed is tagged by its content, whatever state it happened to be read from.
        let etag = match self.cache {
            CacheClass::Long => Some(ETag::of_content(&self.body)),
            CacheClass::None | CacheClass::NoStore => None,
            CacheClass::Short | CacheClass::Recent => self.etag,
        };
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        headers.insert(header::CACHE_CONTROL, self.cache.header_value());
        if let Some(ETag(value)) = etag {
            headers.insert(header::ETAG, value);
        }
        response
    }
}

/// The 304 form of a response: same validators, no content.
pub(crate) fn not_modified(mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.body_mut() = Body::empty();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_LENGTH);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str) -> Conditions {
        Conditions(vec![HeaderValue::from_str(value).expect("test value")])
    }

    #[test]
    fn class_follows_depth_and_saturates() {
        for (tip, height, long) in [
            (100, 100, false),
            (100, 91, false),
            (100, 90, true),
            (100, 0, true),
            (9, 0, false),
            (10, 0, true),
            (50, 90, false),
            (0, u32::MAX, false),
        ] {
            let expected = if long {
                CacheClass::Long
            } else {
                CacheClass::Short
            };
            assert_eq!(
                CacheClass::by_depth(tip, height),
                expected,
                "tip {tip}, height {height}"
            );
        }
    }

    #[test]
    fn long_header_names_the_constant() {
        let value = format!("public, max-age={LONG_MAX_AGE_SECONDS}, immutable");
        assert_eq!(CacheClass::Long.header_value(), value);
        let value = format!("public, max-age={SHORT_MAX_AGE_SECONDS}");
        assert_eq!(CacheClass::Short.header_value(), value);
        let value = format!("public, max-age={RECENT_MAX_AGE_SECONDS}");
        assert_eq!(CacheClass::Recent.header_value(), value);
    }

    #[test]
    fn if_none_match_is_a_weak_comparison_of_a_list() {
        let tag = ETag::of_content(b"x");
        let text = tag.header_value().to_str().expect("ascii").to_owned();
        let strong = text.trim_start_matches("W/").to_owned();
        for value in [
            text.clone(),
            strong.clone(),
            format!("\"other\" , {text}"),
            "*".to_owned(),
        ] {
            assert!(asked(&value).match_tag(tag.header_value()), "{value}");
        }
        for value in ["\"other\"", "", "W/", "W/\"\""] {
            assert!(!asked(value).match_tag(tag.header_value()), "{value}");
            assert!(!asked(value).name_tag(&tag), "{value}");
        }
        assert!(!Conditions::of(&HeaderMap::new()).match_tag(tag.header_value()));
        assert!(asked(&text).name_tag(&tag) && !asked("*").name_tag(&tag));
    }

    #[test]
    fn state_tags_differ_by_part() {
        let one = ETag::of_state(&[b"ab", b"c"]);
        assert_ne!(one, ETag::of_state(&[b"a", b"bc"]));
        assert_ne!(one, ETag::of_state(&[b"ab", b"d"]));
        assert_eq!(one, ETag::of_state(&[b"ab", b"c"]));
    }

    #[test]
    fn fixed_answers_are_tagged_by_content() {
        let state = ETag::of_state(&[b"tip"]);
        let response = Answer::json("{}")
            .cache(CacheClass::Long)
            .etag(state.clone())
            .into_response();
        assert_eq!(
            &response.headers()["etag"],
            ETag::of_content(b"{}").header_value()
        );
        let response = Answer::json("{}").etag(state.clone()).into_response();
        assert_eq!(&response.headers()["etag"], state.header_value());
        let response = Answer::text("id")
            .cache(CacheClass::None)
            .etag(state)
            .into_response();
        assert!(!response.headers().contains_key("etag"));
    }
}
