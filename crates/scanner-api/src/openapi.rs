//! The router, and its description.

use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use cairn_http::{Answer, ETag};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::state::{ApiState, App};
use crate::{admin, analytics, blocks, export, head, ingest, live, nodes, spaces, track, txs};

/// The head of the description; paths and schemas come from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Scanner API",
        description = "An application's ledger: transactions, wallets, revisions of its world, behaviour. Dollars come twice: as an exact decimal number and, with the suffix Micros, as a text of millionths. Instants are RFC 3339 in UTC with milliseconds. \"Last 24 hours\" is the hour of now and the 23 before it, as window says. Errors are {\"error\": text, \"code\": word}."
    ),
    tags(
        (name = "scanner", description = "The ledger"),
        (name = "analytics", description = "Behaviour"),
        (name = "ingestion", description = "What the application tells; needs a bearer token"),
        (name = "admin", description = "Needs the admin's bearer token"),
    )
)]
struct Head;

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Head::openapi())
        .merge(head::router())
        .merge(txs::router())
        .merge(export::router())
        .merge(live::router())
        .merge(nodes::router())
        .merge(blocks::router())
        .merge(spaces::router())
        .merge(analytics::router())
        .merge(track::router())
        .merge(ingest::router())
        .merge(admin::router())
}

/// The description of the API.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The API of one ledger; paths are whole. `/api/scanner/openapi.json` describes it.
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
            "/api/scanner/openapi.json",
            get(move || async move { answer }),
        )
        .with_state(App::new(state))
}
