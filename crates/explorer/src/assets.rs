//! The files that pages load: embedded in the program, named with a hash of their content so that browsers may keep
//! them for ever.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::get;
use cairn_http::{CacheClass, ETag};

/// One embedded file.
pub(crate) struct Asset {
    name: &'static str,
    extension: &'static str,
    content_type: &'static str,
    content: &'static str,
}

/// The style sheet.
pub(crate) const STYLESHEET: Asset = Asset {
    name: "cairn",
    extension: "css",
    content_type: "text/css; charset=utf-8",
    content: include_str!("../assets/cairn.css"),
};

/// The icon of the site.
pub(crate) const ICON: Asset = Asset {
    name: "cairn",
    extension: "svg",
    content_type: "image/svg+xml",
    content: include_str!("../assets/cairn.svg"),
};

impl Asset {
    /// Where the file is served.
    pub(crate) fn path(&self) -> String {
        let mark = hash(self.content.as_bytes());
        format!("/assets/{}-{mark:016x}.{}", self.name, self.extension)
    }

    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.content));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        headers.insert(header::CACHE_CONTROL, CacheClass::Long.header_value());
        let etag = ETag::of_content(self.content.as_bytes());
        headers.insert(header::ETAG, etag.header_value().clone());
        response
    }
}

/// Routes of all files. Browsers ask for `/favicon.ico` by themselves; they get the icon.
pub(crate) fn routes() -> Router {
    Router::new()
        .route(&STYLESHEET.path(), get(|| async { STYLESHEET.response() }))
        .route(&ICON.path(), get(|| async { ICON.response() }))
        .route(
            "/favicon.ico",
            get(|| async { crate::respond::redirect(&ICON.path()) }),
        )
}

/// FNV-1a, 64 bits: only to give a changed file a new name.
const fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        state = (state ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_content() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "the published vector");
        assert!(STYLESHEET.path().starts_with("/assets/cairn-"));
    }

    #[test]
    fn the_style_sheet_loads_nothing() {
        for forbidden in ["url(", "@import", "http:", "https:", "//"] {
            assert!(!STYLESHEET.content.contains(forbidden), "{forbidden}");
        }
        assert!(!ICON.content.contains("<script") && !ICON.content.contains("href"));
    }
}
