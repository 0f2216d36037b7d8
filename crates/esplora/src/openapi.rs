//! The router, and its description.

use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use cairn_http::{Answer, ETag, endpoint_not_found};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::state::{App, EsploraState};
use crate::{assets, blocks, events, internal, mempool, scripts, submit, txs};

/// The head of the description; paths and schemas come from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Esplora API",
        description = "Blocks, transactions, addresses and scripts of one chain of Bitcoin or Elements. Amounts are in satoshi or an asset's base units, times in Unix seconds, hashes in printed order (scripthashes: not reversed). Errors are one line of text, or {\"error\": text} for a client that accepts application/json and nothing else."
    ),
    servers((url = "./", description = "this server")),
    tags(
        (name = "blocks", description = "Blocks and the tip"),
        (name = "transactions", description = "Transactions, proofs, spends, broadcast"),
        (name = "addresses", description = "Scripts by address"),
        (name = "scripthashes", description = "Scripts by hash"),
        (name = "mempool", description = "Unconfirmed transactions and fees"),
        (name = "assets", description = "Issued assets of a chain of Elements, and its native one"),
        (name = "events", description = "What changes, as it changes"),
        (name = "internal", description = "Answers without bound, for a back end of one's own; off unless configured"),
    )
)]
struct Head;

fn routes(with_internal: bool) -> OpenApiRouter<App> {
    let router = OpenApiRouter::with_openapi(Head::openapi())
        .merge(blocks::router())
        .merge(txs::router())
        .merge(submit::router())
        .merge(mempool::router())
        .merge(events::router())
        .merge(assets::router())
        .merge(scripts::single_router())
        .merge(scripts::union_router());
    if with_internal {
        router.merge(internal::router())
    } else {
        router
    }
}

/// The description of the API, without what is off unless configured.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes(false).into_openapi()
}

/// The API of one chain, to be nested under a base path or served at the root.
pub fn router(state: EsploraState) -> Router {
    let (router, description) = routes(state.options.internal).split_for_parts();
    // Made once: it never changes while the program runs. A description that cannot be written is a defect of the
    // handlers' annotations, which the tests would show.
    let description = description.to_json().unwrap_or_else(|error| {
        tracing::error!(%error, "the API description cannot be written");
        "{}".to_owned()
    });
    let answer = Answer::json(Bytes::from(description));
    let answer = answer.clone().etag(ETag::of_content(answer.body()));
    router
        .route("/openapi.json", get(move || async move { answer }))
        .fallback(endpoint_not_found)
        .with_state(App::new(state))
}
