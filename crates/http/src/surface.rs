//! What holds for every answer of a surface, whatever the router behind it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tower::ServiceExt;

use crate::body::BodyTimeout;
use crate::caching::{CacheClass, Conditions, not_modified};
use crate::cors::Cors;
use crate::error::{ErrorText, HttpError};
use crate::observe::{EndpointLayer, RequestObserver, RequestSeen, UNMATCHED_ENDPOINT};
use crate::server::ServeLimits;

/// The path as it was asked for, kept when a trailing slash was taken off.
#[derive(Clone)]
pub(crate) struct AskedPath(pub(crate) String);

/// What a surface needs beside its router.
#[derive(Clone, Default)]
pub struct SurfaceOptions {
    /// Bounds of one request.
    pub limits: ServeLimits,
    /// Who may read answers from a browser.
    pub cors: Cors,
    /// Who is told about requests.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

/// Where a request came from, found in its extensions: the address of the connection's other end. A request over a unix
/// socket, or one that was made without a connection, has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub std::net::IpAddr);

/// A router with everything around it. Cheap to clone.
#[derive(Clone)]
pub struct Surface {
    router: Router,
    options: Arc<SurfaceOptions>,
    peer: Option<PeerAddress>,
}

impl Surface {
    /// Wraps a router.
    pub fn new(router: Router, options: SurfaceOptions) -> Self {
        let router = if options.observer.is_some() {
            router.layer(EndpointLayer)
        } else {
            router
        };
        Self {
            router,
            options: Arc::new(options),
            peer: None,
        }
    }

    /// The same for the requests of one connection.
    pub(crate) fn of_peer(&self, peer: Option<std::net::IpAddr>) -> Self {
        Self {
            peer: peer.map(PeerAddress),
            ..self.clone()
        }
    }

    /// The options.
    pub(crate) fn options(&self) -> &SurfaceOptions {
        &self.options
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub async fn handle(&self, mut request: Request) -> Response {
        let started = Instant::now();
        let method = request.method().clone();
        let asked = AskedHeaders::of(request.headers());
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let mut response = match self.check(&mut request) {
            Err(early) => *early,
            Ok(()) => self.route(request, &method).await,
        };
        finish_error(&mut response, asked.json_only);
        if (method == Method::GET || method == Method::HEAD)
            && response.status() == StatusCode::OK
            && response
                .headers()
                .get(header::ETAG)
                .is_some_and(|tag| asked.conditions.match_tag(tag))
        {
            response = not_modified(response);
        }
        self.options
            .cors
            .apply(asked.origin.as_ref(), response.headers_mut());
        if let Some(observer) = &self.options.observer {
            let matched = response.extensions().get::<MatchedPath>();
            observer.request(RequestSeen {
                endpoint: matched.map_or(UNMATCHED_ENDPOINT, MatchedPath::as_str),
                method: &method,
                status: response.status().as_u16(),
                duration: started.elapsed(),
            });
        }
        response
    }

    /// What can be answered without the router; takes off one trailing slash.
    fn check(&self, request: &mut Request) -> Result<(), Box<Response>> {
        let limits = &self.options.limits;
        let uri = request.uri();
        if uri.path().len() + uri.query().map_or(0, |query| query.len() + 1) > limits.max_url_bytes
        {
            let error = HttpError::new(StatusCode::URI_TOO_LONG, "URL too long");
            return Err(Box::new(error.into_response()));
        }
        if head_bytes(request) > limits.max_head_bytes {
            let error = HttpError::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "Request header too large",
            );
            return Err(Box::new(error.into_response()));
        }
        if request.method() == Method::OPTIONS {
            let mut response = StatusCode::NO_CONTENT.into_response();
            Cors::preflight(response.headers_mut());
            return Err(Box::new(response));
        }
        if let Some(shorter) = without_trailing_slash(request.uri()) {
            let asked = AskedPath(request.uri().path().to_owned());
            *request.uri_mut() = shorter;
            request.extensions_mut().insert(asked);
        }
        Ok(())
    }

    /// Runs the router within the deadline and without letting a panic through.
    async fn route(&self, mut request: Request, method: &Method) -> Response {
        let limits = &self.options.limits;
        let mut deadline = limits.deadline;
        if *method != Method::GET && *method != Method::HEAD {
            // The client's time for its body is not ours for the work.
            deadline += limits.body_timeout;
            request
                .extensions_mut()
                .insert(BodyTimeout(limits.body_timeout));
        }
        let answer = AssertUnwindSafe(self.router.clone().oneshot(request)).catch_unwind();
        match tokio::time::timeout(deadline, answer).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(panic)) => {
                let reason = panic_text(panic.as_ref());
                tracing::error!(reason, "a request handler panicked");
                HttpError::internal().into_response()
            }
            Err(_) => HttpError::deadline().into_response(),
        }
    }
}

impl hyper::service::Service<hyper::Request<hyper::body::Incoming>> for Surface {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Self::Error>> + Send>>;

    fn call(&self, request: hyper::Request<hyper::body::Incoming>) -> Self::Future {
        let surface = self.clone();
        Box::pin(async move { Ok(surface.handle(request.map(Body::new)).await) })
    }
}

/// What must be kept of the request for the end.
struct AskedHeaders {
    origin: Option<HeaderValue>,
    json_only: bool,
    conditions: Conditions,
}

impl AskedHeaders {
    fn of(headers: &HeaderMap) -> Self {
        Self {
            origin: headers.get(header::ORIGIN).cloned(),
            json_only: json_only(headers),
            conditions: Conditions::of(headers),
        }
    }
}

/// Whether the client accepts JSON and nothing else.
fn json_only(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let kind = value.split_once(';').map_or(value, |(kind, _)| kind);
    !value.contains(',') && kind.trim().eq_ignore_ascii_case("application/json")
}

/// Gives errors their final form: JSON where asked for, text where the router sent none, and never cacheable.
fn finish_error(response: &mut Response, json_only: bool) {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return;
    }
    // The router's own answer to an unknown method has no content; what a handler wrote stays.
    if status == StatusCode::METHOD_NOT_ALLOWED
        && !response.headers().contains_key(header::CONTENT_TYPE)
    {
        let allow = response.headers_mut().remove(header::ALLOW);
        let matched = response.extensions_mut().remove::<MatchedPath>();
        *response = HttpError::new(status, "method not allowed").into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if let Some(matched) = matched {
            response.extensions_mut().insert(matched);
        }
    }
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    }
    if json_only && let Some(ErrorText(text)) = response.extensions_mut().remove::<ErrorText>() {
        let body = format!(
            "{{\"error\":{}}}",
            serde_json::Value::from(text.into_owned())
        );
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
}

/// The size of the head: the URL and all header fields with their separators.
fn head_bytes(request: &Request) -> usize {
    let fields: usize = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    fields + request.uri().path().len() + request.uri().query().map_or(0, str::len)
}

/// The same URI with one trailing slash less, if it has one to lose.
fn without_trailing_slash(uri: &Uri) -> Option<Uri> {
    let path = uri
        .path()
        .strip_suffix('/')
        .filter(|path| !path.is_empty())?;
    let shorter = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(shorter).ok()?);
    Uri::from_parts(parts).ok()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

/// The complete HTTP/1 answer to a head that took too long.
pub(crate) fn timeout_farewell(cors: &Cors) -> Vec<u8> {
    let text = "Request timeout";
    let mut headers = HeaderMap::new();
    cors.apply(None, &mut headers);
    let mut bytes = format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\ncache-control: no-store\r\n\
         connection: close\r\ncontent-length: {}\r\n",
        text.len()
    )
    .into_bytes();
    for (name, value) in &headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
