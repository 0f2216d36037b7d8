//! The files that pages load: embedded in the program, named with a hash of their content so that browsers may keep
//! them for ever.
//!
//! The modules of the scripts import each other by plain names (`./live.js`), as editors and checkers expect; they are
//! served below one folder that is named by the hash of all of them, so a changed module changes every name.

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

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

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

/// Chooses the colours before anything is drawn: no module, since those run later.
pub(crate) const THEME: Asset = Asset {
    name: "theme",
    extension: "js",
    content_type: JAVASCRIPT,
    content: include_str!("../assets/js/theme.js"),
};

/// The modules; the first is the one that pages name.
const MODULES: [Asset; 6] = [
    module("page", include_str!("../assets/js/page.js")),
    module("live", include_str!("../assets/js/live.js")),
    module("tail", include_str!("../assets/js/tail.js")),
    module("search", include_str!("../assets/js/search.js")),
    module("times", include_str!("../assets/js/times.js")),
    module("proof", include_str!("../assets/js/proof.js")),
];

const fn module(name: &'static str, content: &'static str) -> Asset {
    Asset {
        name,
        extension: "js",
        content_type: JAVASCRIPT,
        content,
    }
}

/// Where the module is that pages load.
pub(crate) fn page_script() -> String {
    MODULES[0].module_path()
}

impl Asset {
    /// Where the file is served.
    pub(crate) fn path(&self) -> String {
        let mark = hash(FNV_START, self.content.as_bytes());
        format!("/assets/{}-{mark:016x}.{}", self.name, self.extension)
    }

    fn module_path(&self) -> String {
        let mark = MODULES.iter().fold(FNV_START, |mark, module| {
            hash(mark, module.content.as_bytes())
        });
        format!("/assets/{mark:016x}/{}.{}", self.name, self.extension)
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
    let mut router = Router::new()
        .route(&STYLESHEET.path(), get(|| async { STYLESHEET.response() }))
        .route(&ICON.path(), get(|| async { ICON.response() }))
        .route(&THEME.path(), get(|| async { THEME.response() }))
        .route(
            "/favicon.ico",
            get(|| async { crate::respond::redirect(&ICON.path()) }),
        );
    for (index, module) in MODULES.iter().enumerate() {
        router = router.route(
            &module.module_path(),
            get(move || async move { MODULES[index].response() }),
        );
    }
    router
}

/// The state before the first byte.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits: only to give a changed file a new name.
const fn hash(mut state: u64, bytes: &[u8]) -> u64 {
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
        assert_eq!(hash(FNV_START, b""), FNV_START);
        assert_eq!(
            hash(FNV_START, b"a"),
            0xaf63_dc4c_8601_ec8c,
            "the published vector"
        );
        assert!(STYLESHEET.path().starts_with("/assets/cairn-"));
    }

    #[test]
    fn the_style_sheet_loads_nothing() {
        for forbidden in ["url(", "@import", "http:", "https:", "//"] {
            assert!(!STYLESHEET.content.contains(forbidden), "{forbidden}");
        }
        assert!(!ICON.content.contains("<script") && !ICON.content.contains("href"));
    }

    #[test]
    fn modules_import_only_each_other() {
        for module in &MODULES {
            for line in module
                .content
                .lines()
                .filter(|line| line.contains("import"))
            {
                let Some((_, from)) = line.split_once("from \"") else {
                    continue;
                };
                let target = from.split('"').next().unwrap_or_default();
                let is_own = MODULES
                    .iter()
                    .any(|other| target == format!("./{}.js", other.name));
                assert!(is_own, "{} imports {target}", module.name);
            }
            for forbidden in ["http:", "https:", "eval(", "new Function"] {
                assert!(
                    !module.content.contains(forbidden),
                    "{} has {forbidden}",
                    module.name
                );
            }
        }
    }
}
