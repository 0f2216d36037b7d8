//! Transactions on their way to the node: alone, as packages, or only to be judged.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bitcoin::hex::FromHex;
use cairn_http::{Answer, CacheClass, HttpError, QueryParams, read_body};
use cairn_utxo_index::WholeTx;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::mempool::node_error;
use crate::parse;
use crate::state::App;

/// Characters of a broadcast body: 4 MWU of a block as hexadecimal, and some blanks.
pub(crate) const TX_BODY_LIMIT: usize = 8_400_000;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(post_tx))
        .routes(routes!(broadcast))
        .routes(routes!(package))
        .routes(routes!(test))
}

/// Broadcasts a transaction.
#[utoipa::path(post, path = "/tx", tag = "transactions",
    request_body(content = String, description = "the transaction, hexadecimal", content_type = "text/plain"),
    responses(
        (status = 200, description = "the transaction id", body = String, content_type = "text/plain"),
        (status = 400, description = "not hexadecimal, or the node's refusal with its code", body = String, content_type = "text/plain"),
        (status = 413, description = "too large", body = String, content_type = "text/plain"),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn post_tx(State(app): State<App>, request: Request) -> Result {
    let body = read_body(request, TX_BODY_LIMIT).await?;
    send(&app, &body).await
}

/// Broadcasts a transaction given in the URL (old form).
#[utoipa::path(get, path = "/broadcast", tag = "transactions",
    params(("tx" = String, Query, description = "the transaction, hexadecimal")),
    responses(
        (status = 200, description = "the transaction id", body = String, content_type = "text/plain"),
        (status = 400, description = "missing, not hexadecimal, or the node's refusal with its code", body = String, content_type = "text/plain"),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn broadcast(State(app): State<App>, query: QueryParams) -> Result {
    let tx = query
        .get("tx")
        .ok_or_else(|| HttpError::bad_request("Missing tx"))?;
    send(&app, tx.as_bytes()).await
}

async fn send(app: &App, text: &[u8]) -> Result {
    let hex = parse::hex_text(text)?;
    let txid = app.node()?.broadcast(hex).await.map_err(node_error)?;
    accepted(app, std::iter::once(hex)).await;
    Ok(Answer::text(txid.to_string())
        .cache(CacheClass::None)
        .into_response())
}

/// Shows what the node has just taken to everybody, before the next look at its mempool. The node has it whatever goes wrong
/// here, so the sender hears of nothing.
async fn accepted(app: &App, texts: impl Iterator<Item = &str>) {
    let family = app.network.family();
    let txs: Vec<WholeTx> = texts
        .filter_map(|hex| WholeTx::parse(family, Vec::from_hex(hex).ok()?).ok())
        .collect();
    let index = app.index();
    match app.pool.run(move || index.add_accepted(txs)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "a broadcast transaction could not be shown at once")
        }
        Err(error) => {
            tracing::warn!(
                error = error.text(),
                "a broadcast transaction could not be shown at once"
            );
        }
    }
}

/// Broadcasts parents and their child, which pays for them.
#[utoipa::path(post, path = "/txs/package", tag = "transactions",
    params(
        ("maxfeerate" = Option<String>, Query, description = "refuse more than this, coins per 1000 virtual bytes"),
        ("maxburnamount" = Option<String>, Query, description = "refuse more than this in outputs that nobody can spend, coins"),
    ),
    request_body(content = Vec<String>, description = "up to 25 transactions, hexadecimal, parents before the child"),
    responses(
        (status = 200, description = "the node's own result for each; success is in package_msg", body = serde_json::Value),
        (status = 400, description = "not such an array, or the node's refusal with its code", body = String, content_type = "text/plain"),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn package(State(app): State<App>, query: QueryParams, request: Request) -> Result {
    let max_fee_rate = parse::decimal(&query, "maxfeerate", "Invalid maxfeerate")?;
    let max_burn = parse::decimal(&query, "maxburnamount", "Invalid maxburnamount")?;
    let txs = parse::transactions(&read_body(request, TX_BODY_LIMIT).await?)?;
    let answer = app
        .node()?
        .submit_package(&txs, max_fee_rate.as_deref(), max_burn.as_deref())
        .await
        .map_err(node_error)?;
    if is_success(&answer) {
        accepted(&app, txs.iter().map(String::as_str)).await;
    }
    Ok(Answer::json(answer).into_response())
}

/// Whether all transactions of a package were taken.
fn is_success(answer: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(answer)
        .is_ok_and(|answer| answer["package_msg"] == "success")
}

/// Asks the node whether it would take transactions.
#[utoipa::path(post, path = "/txs/test", tag = "transactions",
    params(("maxfeerate" = Option<String>, Query, description = "refuse more than this, coins per 1000 virtual bytes")),
    request_body(content = Vec<String>, description = "up to 25 transactions, hexadecimal, parents before children"),
    responses(
        (status = 200, description = "the node's own verdict on each", body = Vec<serde_json::Value>),
        (status = 400, description = "not such an array, or the node's refusal with its code", body = String, content_type = "text/plain"),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn test(State(app): State<App>, query: QueryParams, request: Request) -> Result {
    let max_fee_rate = parse::decimal(&query, "maxfeerate", "Invalid maxfeerate")?;
    let txs = parse::transactions(&read_body(request, TX_BODY_LIMIT).await?)?;
    let answer = app
        .node()?
        .test_accept(&txs, max_fee_rate.as_deref())
        .await
        .map_err(node_error)?;
    Ok(Answer::json(answer).into_response())
}
