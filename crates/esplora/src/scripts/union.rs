//! Several scripts at once, as one history.

use axum::extract::{Request, State};
use axum::response::Response;
use cairn_http::{Conditions, DEFAULT_BODY_LIMIT, HttpError, PathParams, QueryParams, read_body};
use cairn_utxo_index::ScriptHash;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::objects::{Transaction, TxSummary};
use crate::parse;
use crate::scripts::listing;
use crate::scripts::page::Page;
use crate::scripts::shared::summary;
use crate::scripts::single::Naming;
use crate::state::App;

/// Scripts of one request.
const SCRIPTS_MAX: usize = 300;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(addresses::router())
        .merge(scripthashes::router())
}

/// The scripts of a body. An entry that names none is left out; one that comes twice counts once.
async fn scripts(app: &App, naming: Naming, request: Request) -> Result<Vec<ScriptHash>> {
    let body = read_body(request, DEFAULT_BODY_LIMIT).await?;
    let texts = parse::text_array(&body, SCRIPTS_MAX)?;
    let mut scripts: Vec<ScriptHash> = texts
        .iter()
        .filter_map(|text| naming.read(app, text).ok())
        .collect();
    scripts.sort_unstable();
    scripts.dedup();
    Ok(scripts)
}

async fn txs(app: App, naming: Naming, page: Page, request: Request) -> Result {
    let scripts = scripts(&app, naming, request).await?;
    app.read(&Conditions::default(), move |reading| {
        listing::page(reading, &scripts, &page)?.answer(reading)
    })
    .await
}

async fn summary_of(app: App, naming: Naming, page: Page, request: Request) -> Result {
    let scripts = scripts(&app, naming, request).await?;
    app.read(&Conditions::default(), move |reading| {
        summary(reading, &scripts, &page)
    })
    .await
}

/// The same endpoints under both names: module, way of naming, and the paths.
macro_rules! union_endpoints {
    (
        $module:ident, $naming:expr, tag = $tag:literal,
        txs = $p_txs:literal, summary = $p_summary:literal, summary_after = $p_summary_after:literal,
    ) => {
        mod $module {
            use super::*;

            pub(super) fn router() -> OpenApiRouter<App> {
                OpenApiRouter::new()
                    .routes(routes!(txs))
                    .routes(routes!(txs_summary))
                    .routes(routes!(txs_summary_after))
            }

            /// The newest transactions of several scripts, each once: unconfirmed ones first.
            #[utoipa::path(post, path = $p_txs, tag = $tag,
                params(
                    ("after_txid" = Option<String>, Query, description = "begin after this transaction"),
                    ("max_txs" = Option<u32>, Query, description = "transactions at most; 25 unless given, 250 at most"),
                ),
                request_body(content = Vec<String>, description = "up to 300; invalid ones are left out"),
                responses(
                    (status = 200, description = "transactions, newest first", body = Vec<Transaction>),
                    (status = 400, description = "the body is not a JSON array", body = String, content_type = "text/plain"),
                    (status = 422, description = "more than 300, or after_txid is not of this history", body = String, content_type = "text/plain"),
                ))]
            async fn txs(State(app): State<App>, query: QueryParams, request: Request) -> Result {
                super::txs(app, $naming, Page::after_query(&query)?, request).await
            }

            /// What the newest transactions did to the common balance of several scripts.
            #[utoipa::path(post, path = $p_summary, tag = $tag,
                params(("max_txs" = Option<u32>, Query, description = "entries at most; 5000 unless given")),
                request_body(content = Vec<String>, description = "up to 300; invalid ones are left out"),
                responses(
                    (status = 200, description = "entries, newest first", body = Vec<TxSummary>),
                    (status = 400, description = "the body is not a JSON array", body = String, content_type = "text/plain"),
                    (status = 422, description = "more than 300", body = String, content_type = "text/plain"),
                ))]
            async fn txs_summary(State(app): State<App>, query: QueryParams, request: Request) -> Result {
                super::summary_of(app, $naming, Page::summary(None, &query)?, request).await
            }

            /// What transactions did to the common balance of several scripts, after one of them.
            #[utoipa::path(post, path = $p_summary_after, tag = $tag,
                params(
                    ("last_seen_txid" = String, Path, description = "begin after this transaction"),
                    ("max_txs" = Option<u32>, Query, description = "entries at most; 5000 unless given"),
                ),
                request_body(content = Vec<String>, description = "up to 300; invalid ones are left out"),
                responses(
                    (status = 200, description = "entries, newest first", body = Vec<TxSummary>),
                    (status = 400, description = "not a hash, or the body is not a JSON array", body = String, content_type = "text/plain"),
                    (status = 422, description = "more than 300, or last_seen_txid is not of this history", body = String, content_type = "text/plain"),
                ))]
            async fn txs_summary_after(State(app): State<App>, path: PathParams, query: QueryParams, request: Request) -> Result {
                super::summary_of(app, $naming, Page::summary(Some(path.get(0)), &query)?, request).await
            }
        }
    };
}

union_endpoints! {
    addresses, Naming::Address, tag = "addresses", txs = "/addresses/txs", summary = "/addresses/txs/summary",
    summary_after = "/addresses/txs/summary/{last_seen_txid}",
}

union_endpoints! {
    scripthashes, Naming::ScriptHash, tag = "scripthashes", txs = "/scripthashes/txs",
    summary = "/scripthashes/txs/summary", summary_after = "/scripthashes/txs/summary/{last_seen_txid}",
}
