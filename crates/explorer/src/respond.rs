//! From a page, or the reason why there is none, to an HTTP answer with its headers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cairn_http::{CacheClass, ETag, HttpError};

use crate::error::PageError;
use crate::site::{Shell, Site};

/// What a page may load, ask for and send: files of its own server, nothing else; no script and no style inside the markup.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'",
);
/// Media type of all pages.
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// Seconds between two looks at a load in progress.
pub(crate) const PROGRESS_REFRESH_SECONDS: u32 = 3;

/// The page of an error.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Shell,
    status: u16,
    headline: &'static str,
    text: String,
    tried: Vec<String>,
}

/// The page that stands in for all pages of a ledger whose first load is not complete.
#[derive(Template)]
#[template(path = "indexing.html")]
struct IndexingPage {
    shell: Shell,
    ledger: String,
    progress: String,
}

/// A page. `etag` is of the state it was read from; without one it is of the content.
pub(crate) fn page(html: String, etag: Option<ETag>) -> Response {
    let etag = etag.unwrap_or_else(|| ETag::of_content(html.as_bytes()));
    let mut response = Response::new(Body::from(html));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HTML);
    headers.insert(header::CACHE_CONTROL, CacheClass::Short.header_value());
    headers.insert(header::ETAG, etag.header_value().clone());
    response
}

/// The way to another page of this server, for now: heights and search texts lead elsewhere tomorrow.
pub(crate) fn redirect(path: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(path) else {
        tracing::error!(path, "a redirect's path is no header value");
        return HttpError::internal().into_response();
    };
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, CacheClass::Short.header_value());
    response
}

/// After a form was taken: a page that can be loaded again without sending the form again.
pub(crate) fn see_other(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(location) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The page of an error, in the frame of a ledger where there is one.
pub(crate) fn error(
    site: &Arc<Site>,
    ledger: Option<&str>,
    query: &str,
    error: PageError,
) -> Response {
    let status = error.status();
    let (headline, text, tried) = match error {
        PageError::Indexing { ledger, progress } => return indexing(site, ledger, progress),
        PageError::NotFound { text, tried } => ("Not found", text, tried),
        PageError::BadRequest(text) => ("That does not look right", text, Vec::new()),
        PageError::Forbidden(text) => ("Not allowed", text, Vec::new()),
        PageError::Unavailable(text) => ("Not available now", text, Vec::new()),
        PageError::Internal(cause) => {
            tracing::error!(cause, "a page could not be made");
            let text = "This page could not be made. The cause is in the server's log.".to_owned();
            ("Something is wrong here", text, Vec::new())
        }
    };
    let shell = match ledger {
        Some(id) => site.ledger_shell(id, headline),
        None => site.shell(headline),
    };
    let page = ErrorPage {
        shell: shell.with_query(query),
        status: status.as_u16(),
        headline,
        text,
        tried,
    };
    finish_error(status, page.render())
}

/// The stand-in page of a ledger that is being indexed for the first time.
fn indexing(site: &Arc<Site>, ledger: String, progress: String) -> Response {
    let mut shell = site.ledger_shell(&ledger, "Indexing");
    shell.refresh_seconds = Some(PROGRESS_REFRESH_SECONDS);
    let page = IndexingPage {
        shell,
        ledger,
        progress,
    };
    let mut response = finish_error(StatusCode::SERVICE_UNAVAILABLE, page.render());
    response.headers_mut().insert(
        header::RETRY_AFTER,
        HeaderValue::from(PROGRESS_REFRESH_SECONDS),
    );
    response
}

fn finish_error(status: StatusCode, html: Result<String, askama::Error>) -> Response {
    match html {
        Ok(html) => {
            let mut response = Response::new(Body::from(html));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, HTML);
            response
                .headers_mut()
                .insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
            response
        }
        Err(cause) => {
            tracing::error!(%cause, "the error page could not be made");
            HttpError::internal().into_response()
        }
    }
}

/// Around every answer of the site: an error that came without a page (an unknown method, a busy server) gets one,
/// and the headers that keep a browser from doing more than show the page are set.
pub(crate) async fn finish(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let status = response.status();
    if (status.is_client_error() || status.is_server_error()) && !is_html(&response) {
        let text = match status {
            StatusCode::METHOD_NOT_ALLOWED => "This page can only be read.",
            StatusCode::SERVICE_UNAVAILABLE => "The server is busy. Try again in a moment.",
            _ => "This request could not be answered.",
        };
        let allow = response.headers_mut().remove(header::ALLOW);
        let headline = status.canonical_reason().unwrap_or("Error");
        let shell = site.shell(headline);
        let page = ErrorPage {
            shell,
            status: status.as_u16(),
            headline,
            text: text.into(),
            tried: Vec::new(),
        };
        response = finish_error(status, page.render());
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    response
}

fn is_html(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE) == Some(&HTML)
}

/// Unix seconds of the clock.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
