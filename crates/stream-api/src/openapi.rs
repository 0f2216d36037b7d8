//! The router, and its description.

use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use cairn_http::{Answer, ETag};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use std::sync::Arc;

use crate::state::{ApiState, App};
use crate::{answers, polling, sse};

/// The head of the description; paths and schemas come from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Subscriptions",
        description = "Durable subscriptions to the event streams: every event is given out at least once, in order, until it is acknowledged. All paths need the bearer token of stream.token. Errors are {\"error\": text, \"code\": word}."
    ),
    tags((name = "subscriptions", description = "Events, and answers to them"))
)]
struct Head;

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Head::openapi())
        .routes(routes!(sse::events))
        .routes(routes!(polling::batch))
        .routes(routes!(answers::acks))
        .routes(routes!(answers::list))
}

/// The description of the API.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The API; paths are whole. `/api/streams/openapi.json` describes it.
pub fn router(state: ApiState) -> Router {
    let (router, description) = routes().split_for_parts();
    // Made once: it never changes while the program runs. A description that cannot be written is a defect of the
    // handlers' annotations, which the tests would show.
    let description = description.to_json().unwrap_or_else(|error| {
        tracing::error!(%error, "the API description cannot be written");
        "{}".to_owned()
    });
    let answer = Answer::json(Bytes::from(description));
    let answer = answer.clone().etag(ETag::of_content(answer.body()));
    router
        .route(
            "/api/streams/openapi.json",
            get(move || async move { answer }),
        )
        .with_state(App(Arc::new(state)))
}
