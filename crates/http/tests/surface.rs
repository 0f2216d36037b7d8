//! What holds for every answer, whatever the router: checked without a socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use cairn_http::{
    Answer, CacheClass, Cors, ETag, HttpError, PathParams, QueryParams, RequestObserver,
    RequestSeen, ServeLimits, Surface, SurfaceOptions, endpoint_not_found, read_body,
};

fn router() -> Router {
    Router::new()
        .route(
            "/moving",
            get(|| async { Answer::text("1").etag(ETag::of_state(&[b"tip"])) }),
        )
        .route(
            "/fixed",
            get(|| async { Answer::json("{}").cache(CacheClass::Long) }),
        )
        .route(
            "/refused",
            get(|| async { HttpError::bad_request("Invalid \"number\"") }),
        )
        .route(
            "/panic",
            get(|| async { if true { panic!("boom") } else { "" } }),
        )
        .route(
            "/slow",
            get(|| async { std::future::pending::<&str>().await }),
        )
        .route(
            "/thing/{id}",
            get(|path: PathParams, query: QueryParams| async move {
                Answer::text(format!("{} {:?}", path.get(0), query.get("q")))
            }),
        )
        .route(
            "/body",
            post(|request: Request| async move { read_body(request, 10).await.map(Answer::bytes) }),
        )
        .fallback(endpoint_not_found)
}

fn surface(cors: &[&str], observer: Option<Arc<dyn RequestObserver>>) -> Surface {
    let limits = ServeLimits {
        deadline: Duration::from_millis(100),
        ..ServeLimits::default()
    };
    let cors = Cors::from_origins(cors).expect("test origins");
    Surface::new(
        router(),
        SurfaceOptions {
            limits,
            cors,
            observer,
        },
    )
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .map(|value| value.to_str().expect("ascii"))
    }
}

async fn ask(surface: &Surface, method: &str, uri: &str, headers: &[(&str, &str)]) -> Got {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = surface
        .handle(request.body(Body::empty()).expect("test request"))
        .await;
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("body");
    Got {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).expect("text"),
    }
}

#[tokio::test]
async fn table_of_statuses_and_texts() {
    let surface = surface(&["*"], None);
    let long_url = format!("/thing/x?q={}", "y".repeat(8192));
    for (method, uri, status, text) in [
        ("GET", "/moving", 200, "1"),
        ("GET", "/moving/", 200, "1"),
        ("GET", "/thing/a%20b/?q=1%2C2", 200, "a b Some(\"1,2\")"),
        ("GET", "/thing/%FF", 200, "\u{fffd} None"),
        (
            "GET",
            "/moving//",
            404,
            "endpoint does not exist \"/moving//\"",
        ),
        (
            "GET",
            "/unknown/",
            404,
            "endpoint does not exist \"/unknown/\"",
        ),
        ("GET", "/", 404, "endpoint does not exist \"/\""),
        ("GET", "/refused", 400, "Invalid \"number\""),
        ("GET", "/panic", 500, "Internal server error"),
        ("GET", "/slow", 503, "deadline exceeded"),
        ("POST", "/moving", 405, "method not allowed"),
        ("DELETE", "/moving/", 405, "method not allowed"),
        ("GET", "/body", 405, "method not allowed"),
        ("GET", &long_url, 414, "URL too long"),
        ("HEAD", "/moving", 200, ""),
    ] {
        let got = ask(&surface, method, uri, &[]).await;
        assert_eq!(
            (got.status, got.body.as_str()),
            (status, text),
            "{method} {uri:.40}"
        );
        assert_eq!(
            got.header("access-control-allow-origin"),
            Some("*"),
            "{method} {uri:.40}"
        );
        let exposed = Some("x-total-results, etag, retry-after");
        assert_eq!(got.header("access-control-expose-headers"), exposed);
        if status != 200 {
            assert_eq!(
                got.header("content-type"),
                Some("text/plain"),
                "{method} {uri:.40}"
            );
            assert_eq!(
                got.header("cache-control"),
                Some("no-store"),
                "{method} {uri:.40}"
            );
            assert_eq!(got.header("etag"), None);
        }
        if status == 405 {
            let allow = got.header("allow").expect("405 names the methods");
            assert!(
                allow.contains(if uri == "/body" { "POST" } else { "GET" }),
                "{allow}"
            );
        }
        if status == 503 {
            assert!(got.header("retry-after").is_some());
        }
    }
}

#[tokio::test]
async fn head_of_a_request_is_bounded() {
    let surface = surface(&["*"], None);
    let value = "v".repeat(17 * 1024);
    let got = ask(&surface, "GET", "/moving", &[("x-long", &value)]).await;
    assert_eq!(
        (got.status, got.body.as_str()),
        (431, "Request header too large")
    );
    assert_eq!(got.header("access-control-allow-origin"), Some("*"));
}

#[tokio::test]
async fn errors_become_json_for_who_takes_nothing_else() {
    let surface = surface(&[], None);
    for (accept, json) in [
        ("application/json", true),
        ("Application/JSON; q=0.9", true),
        ("application/json, text/plain", false),
        ("*/*", false),
        ("text/plain", false),
    ] {
        for (uri, text) in [
            ("/refused", "Invalid \"number\""),
            ("/nothing", "endpoint does not exist \"/nothing\""),
            ("/panic", "Internal server error"),
        ] {
            let got = ask(&surface, "GET", uri, &[("accept", accept)]).await;
            let kind = if json {
                "application/json"
            } else {
                "text/plain"
            };
            assert_eq!(got.header("content-type"), Some(kind), "{accept} {uri}");
            if json {
                let object: serde_json::Value = serde_json::from_str(&got.body).expect("JSON");
                assert_eq!(object, serde_json::json!({ "error": text }));
            } else {
                assert_eq!(got.body, text);
            }
        }
        let got = ask(&surface, "POST", "/moving", &[("accept", accept)]).await;
        assert_eq!(got.body.starts_with('{'), json);
        let got = ask(&surface, "GET", "/moving", &[("accept", accept)]).await;
        assert_eq!(
            (got.status, got.body.as_str()),
            (200, "1"),
            "answers keep their type"
        );
    }
}

#[tokio::test]
async fn preflight() {
    let surface = surface(&["*"], None);
    for uri in ["/moving", "/moving/", "/nothing"] {
        let got = ask(
            &surface,
            "OPTIONS",
            uri,
            &[
                ("origin", "https://wallet.example"),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "content-type"),
            ],
        )
        .await;
        assert_eq!((got.status, got.body.as_str()), (204, ""));
        assert_eq!(got.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            got.header("access-control-allow-methods"),
            Some("GET, HEAD, POST, OPTIONS")
        );
        assert_eq!(
            got.header("access-control-allow-headers"),
            Some("content-type, if-none-match")
        );
        assert_eq!(got.header("access-control-max-age"), Some("86400"));
    }
}

#[tokio::test]
async fn origins_without_and_with_choice() {
    let got = ask(
        &surface(&[], None),
        "GET",
        "/moving",
        &[("origin", "https://a.example")],
    )
    .await;
    assert_eq!(got.header("access-control-allow-origin"), None);
    let two = surface(&["https://a.example", "https://b.example"], None);
    let got = ask(&two, "GET", "/refused", &[("origin", "https://b.example")]).await;
    assert_eq!(
        got.header("access-control-allow-origin"),
        Some("https://b.example")
    );
    assert_eq!(got.header("vary"), Some("origin"));
    let got = ask(&two, "GET", "/refused", &[("origin", "https://c.example")]).await;
    assert_eq!(got.header("access-control-allow-origin"), None);
    assert_eq!(got.header("vary"), Some("origin"));
}

#[tokio::test]
async fn conditional_answers() {
    let surface = surface(&["*"], None);
    for uri in ["/moving", "/fixed"] {
        for method in ["GET", "HEAD"] {
            let first = ask(&surface, method, uri, &[]).await;
            let tag = first.header("etag").expect("tagged").to_owned();
            assert!(tag.starts_with("W/\""), "{tag}");
            let again = ask(&surface, method, uri, &[("if-none-match", &tag)]).await;
            assert_eq!((again.status, again.body.as_str()), (304, ""));
            assert_eq!(again.header("etag"), Some(tag.as_str()));
            assert_eq!(again.header("cache-control"), first.header("cache-control"));
            assert_eq!(again.header("content-type"), None);
            assert_eq!(again.header("access-control-allow-origin"), Some("*"));
            let other = ask(&surface, method, uri, &[("if-none-match", "W/\"other\"")]).await;
            assert_eq!(other.status, 200);
        }
    }
    let got = ask(&surface, "GET", "/refused", &[("if-none-match", "*")]).await;
    assert_eq!(got.status, 400, "an error is never unchanged");
}

#[tokio::test]
async fn bodies_are_bounded() {
    let surface = surface(&[], None);
    for (body, status) in [("1234567890", 200), ("12345678901", 413)] {
        let request = Request::builder()
            .method("POST")
            .uri("/body")
            .body(Body::from(body))
            .expect("request");
        assert_eq!(
            surface.handle(request).await.status(),
            StatusCode::from_u16(status).expect("code")
        );
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, String, u16)>>);

impl RequestObserver for Seen {
    fn request(&self, seen: RequestSeen<'_>) {
        self.0.lock().expect("not poisoned").push((
            seen.method.to_string(),
            seen.endpoint.to_owned(),
            seen.status,
        ));
    }
}

#[tokio::test]
async fn observer_sees_templates_not_paths() {
    let seen = Arc::new(Seen::default());
    let surface = surface(&[], Some(seen.clone()));
    for (method, uri) in [
        ("GET", "/thing/7"),
        ("HEAD", "/thing/8/"),
        ("POST", "/thing/9"),
        ("GET", "/x"),
        ("GET", "/panic"),
    ] {
        ask(&surface, method, uri, &[]).await;
    }
    let seen = seen.0.lock().expect("not poisoned").clone();
    let expected = [
        ("GET", "/thing/{id}", 200),
        ("HEAD", "/thing/{id}", 200),
        ("POST", "/thing/{id}", 405),
        ("GET", "unmatched", 404),
        ("GET", "unmatched", 500),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(m, e, s)| ((*m).to_owned(), (*e).to_owned(), *s))
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn nested_router_keeps_paths_and_names() {
    let seen = Arc::new(Seen::default());
    let outer = Router::new()
        .nest("/bitcoin/api", router())
        .fallback(|| async { (StatusCode::NOT_FOUND, "a page") });
    let surface = Surface::new(
        outer,
        SurfaceOptions {
            observer: Some(seen.clone()),
            ..SurfaceOptions::default()
        },
    );
    let got = ask(&surface, "GET", "/bitcoin/api/moving/", &[]).await;
    assert_eq!((got.status, got.body.as_str()), (200, "1"));
    let got = ask(&surface, "GET", "/bitcoin/api/nothing", &[]).await;
    assert_eq!(got.body, "endpoint does not exist \"/bitcoin/api/nothing\"");
    let got = ask(&surface, "GET", "/elsewhere", &[]).await;
    assert_eq!((got.status, got.body.as_str()), (404, "a page"));
    assert_eq!(got.header("cache-control"), Some("no-store"));
    let seen = seen.0.lock().expect("not poisoned").clone();
    assert_eq!(seen[0].1, "/bitcoin/api/moving");
}
