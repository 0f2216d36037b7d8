//! Health and metrics over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;

use crate::health::Health;
use crate::metrics::MetricsRegistry;

/// Path that answers 200 as long as the process runs.
pub const LIVE_PATH: &str = "/health/live";
/// Path that answers 200 when every part is ready, else 503, with the reasons.
pub const READY_PATH: &str = "/health/ready";
/// Path of the metrics.
pub const METRICS_PATH: &str = "/metrics";

/// The type of OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `/health/live` and `/health/ready` of the whole process.
pub fn health_router(health: Health) -> Router {
    Router::new()
        .route(LIVE_PATH, get(live))
        .route(READY_PATH, get(ready))
        .with_state(health)
}

/// The same for one part, for a listener that serves that part alone.
pub fn part_health_router(health: Health, part: &str) -> Router {
    let part: Arc<str> = part.into();
    let of_part = move |State(health): State<Health>| {
        let (ready, body) = health.part_ready_json(&part);
        async move { readiness(ready, &body) }
    };
    Router::new()
        .route(LIVE_PATH, get(live))
        .route(READY_PATH, get(of_part))
        .with_state(health)
}

/// `/metrics`.
pub fn metrics_router(registry: Arc<MetricsRegistry>) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics))
        .with_state(registry)
}

async fn live(State(health): State<Health>) -> Response {
    json(StatusCode::OK, &health.live_json())
}

async fn ready(State(health): State<Health>) -> Response {
    let (ready, body) = health.ready_json();
    readiness(ready, &body)
}

fn readiness(ready: bool, body: &Value) -> Response {
    json(
        if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        body,
    )
}

fn json(status: StatusCode, body: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body.to_string()).into_response()
}

async fn metrics(State(registry): State<Arc<MetricsRegistry>>) -> Response {
    // Hooks read the store's properties: off the threads that serve.
    let encoded = tokio::task::spawn_blocking(move || registry.encode()).await;
    let headers = [
        (header::CONTENT_TYPE, OPENMETRICS),
        (header::CACHE_CONTROL, "no-store"),
    ];
    match encoded {
        Ok(Ok(text)) => (headers, text).into_response(),
        Ok(Err(_)) | Err(_) => {
            tracing::error!("the metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use crate::health::{PartStatus, State as PartState};
    use crate::metrics::ChainMetrics;

    async fn answer(router: Router, path: &str) -> (StatusCode, String, String, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("routers do not fail");
        let status = response.status();
        let header = |name| {
            let value = response.headers().get(name).expect("every answer has it");
            value.to_str().expect("ASCII").to_owned()
        };
        let (kind, cache) = (header(header::CONTENT_TYPE), header(header::CACHE_CONTROL));
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .expect("a body");
        (
            status,
            kind,
            cache,
            String::from_utf8(bytes.to_vec()).expect("text"),
        )
    }

    #[tokio::test]
    async fn health_answers() {
        let health = Health::new("1.0.0");
        let part = health.register("btc");
        let router = health_router(health.clone());
        let (status, kind, cache, _) = answer(router.clone(), LIVE_PATH).await;
        assert_eq!(
            (status, kind.as_str(), cache.as_str()),
            (StatusCode::OK, "application/json", "no-store")
        );
        let (status, _, cache, body) = answer(router.clone(), READY_PATH).await;
        assert_eq!(
            (status, cache.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "no-store")
        );
        assert!(body.contains("\"index\":\"starting\""), "{body}");
        part.report(PartStatus::new(PartState::Synced));
        assert_eq!(answer(router, READY_PATH).await.0, StatusCode::OK);
        let other = health.register("other");
        other.report(PartStatus::new(PartState::Failed));
        assert_eq!(
            answer(part_health_router(health.clone(), "btc"), READY_PATH)
                .await
                .0,
            StatusCode::OK
        );
        assert_eq!(
            answer(health_router(health), READY_PATH).await.0,
            StatusCode::SERVICE_UNAVAILABLE
        );
    }

    #[tokio::test]
    async fn metrics_answer() {
        let registry = Arc::new(MetricsRegistry::new());
        ChainMetrics::register(&registry).set_heights("btc", Some(5), None);
        let (status, kind, cache, body) = answer(metrics_router(registry), METRICS_PATH).await;
        assert_eq!(
            (status, kind.as_str(), cache.as_str()),
            (StatusCode::OK, OPENMETRICS, "no-store")
        );
        assert!(
            body.contains("cairn_index_tip_height{chain=\"btc\"} 5\n"),
            "{body}"
        );
        assert!(body.ends_with("# EOF\n"), "{body}");
    }
}
