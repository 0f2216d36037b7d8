//! Unconfirmed transactions as a whole, fees, and what to mine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bitcoin::{BlockHash, Txid};
use cairn_http::{Answer, CacheClass, Conditions, ETag, HttpError, PathParams, QueryParams};
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::json::JsonBuf;
use crate::node::{NodeCallError, NodeCalls};
use crate::objects::{Mempool, MempoolRecent};
use crate::state::App;
use crate::{parse, render};

/// Transactions of `/mempool/recent`.
const RECENT: usize = 10;
/// Ids of one page; also the most that may be asked for.
const TXIDS_PAGE: usize = 10_000;
/// How long fee estimates are used.
const ESTIMATES_AGE_MAX: Duration = Duration::from_secs(60);
/// How long a block template is used on the same tip.
const TEMPLATE_AGE_MAX: Duration = Duration::from_secs(15);

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(mempool))
        .routes(routes!(txids))
        .routes(routes!(txids_page))
        .routes(routes!(txids_page_after))
        .routes(routes!(recent))
        .routes(routes!(fee_estimates))
        .routes(routes!(block_template))
}

/// How much is waiting.
#[utoipa::path(get, path = "/mempool", tag = "mempool",
    responses((status = 200, description = "count, size, fees, and sizes by fee rate", body = Mempool)))]
async fn mempool(State(app): State<App>, conditions: Conditions) -> Result {
    app.read_short(&conditions, |reading| {
        let mempool = reading.mempool();
        let mut out = JsonBuf::with_capacity(4096);
        out.raw("{\"count\":").number(mempool.len() as u64);
        out.raw(",\"vsize\":").number(mempool.vsize());
        out.raw(",\"total_fee\":").number(mempool.total_fee());
        out.raw(",\"fee_histogram\":")
            .array(mempool.histogram().iter(), |out, bin| {
                out.raw("[").float(bin.rate.sat_per_vb());
                out.raw(",").number(bin.vsize).raw("]");
            });
        out.raw("}");
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// Ids of all unconfirmed transactions.
#[utoipa::path(get, path = "/mempool/txids", tag = "mempool",
    responses((status = 200, description = "ids, ascending", body = Vec<String>)))]
async fn txids(State(app): State<App>, conditions: Conditions) -> Result {
    app.read(&conditions, |reading| {
        let mempool = reading.mempool();
        let mut out = JsonBuf::with_capacity(mempool.len() * 67 + 2);
        out.array(mempool.entries(), |out, entry| {
            out.hash(entry.txid);
        });
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

async fn page(app: App, conditions: Conditions, after: Option<Txid>, limit: usize) -> Result {
    app.read(&conditions, move |reading| {
        let entries = reading.mempool().entries_after(after.as_ref(), limit);
        let mut out = JsonBuf::with_capacity(entries.len() * 67 + 2);
        out.array(entries, |out, entry| {
            out.hash(entry.txid);
        });
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// Ids of unconfirmed transactions, the first ones.
#[utoipa::path(get, path = "/mempool/txids/page", tag = "mempool",
    params(("max_txs" = Option<u32>, Query, description = "ids at most; 10000 unless given")),
    responses((status = 200, description = "ids, ascending", body = Vec<String>)))]
async fn txids_page(State(app): State<App>, query: QueryParams, conditions: Conditions) -> Result {
    let limit = parse::limit(&query, TXIDS_PAGE, TXIDS_PAGE)?;
    page(app, conditions, None, limit).await
}

/// Ids of unconfirmed transactions after a given one. The walk ends with an empty page.
#[utoipa::path(get, path = "/mempool/txids/page/{last_seen_txid}", tag = "mempool",
    params(
        ("last_seen_txid" = String, Path, description = "begin after this id, whether it is still there or not"),
        ("max_txs" = Option<u32>, Query, description = "ids at most; 10000 unless given"),
    ),
    responses(
        (status = 200, description = "ids, ascending", body = Vec<String>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
    ))]
async fn txids_page_after(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let after = parse::txid(path.get(0))?;
    let limit = parse::limit(&query, TXIDS_PAGE, TXIDS_PAGE)?;
    page(app, conditions, Some(after), limit).await
}

/// The last ten transactions to arrive that are still unconfirmed.
#[utoipa::path(get, path = "/mempool/recent", tag = "mempool",
    responses((status = 200, description = "newest first", body = Vec<MempoolRecent>)))]
async fn recent(State(app): State<App>, conditions: Conditions) -> Result {
    app.read_short(&conditions, |reading| {
        let mut out = JsonBuf::with_capacity(RECENT * 150);
        out.array(reading.mempool().recent(RECENT), |out, entry| {
            render::recent(out, &entry);
        });
        Ok(Answer::json(out.into_bytes()).cache(CacheClass::Recent))
    })
    .await
}

/// Fee rates for being confirmed within a number of blocks.
#[utoipa::path(get, path = "/fee-estimates", tag = "mempool",
    responses(
        (status = 200, description = "satoshi per virtual byte by target in blocks; unknown targets are left out", body = std::collections::BTreeMap<String, f64>),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn fee_estimates(State(app): State<App>) -> Result {
    let body = app.estimates.get(app.node()?).await.map_err(node_error)?;
    let tag = ETag::of_content(&body);
    Ok(Answer::json(body).etag(tag).into_response())
}

/// The node's template for the next block. Off unless configured.
#[utoipa::path(get, path = "/block-template", tag = "mempool",
    responses(
        (status = 200, description = "the node's own object", body = serde_json::Value),
        (status = 403, description = "not enabled here", body = String, content_type = "text/plain"),
        (status = 502, description = "the node's refusal", body = serde_json::Value),
        (status = 503, description = "the node is not available", body = String, content_type = "text/plain"),
    ))]
async fn block_template(State(app): State<App>) -> Result {
    if !app.options.mining {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "mining REST endpoints are disabled",
        ));
    }
    let tip = app.view()?.tip().hash;
    match app.template.get(app.node()?, tip).await {
        Ok(body) => Ok(Answer::json(body)
            .cache(CacheClass::NoStore)
            .into_response()),
        Err(NodeCallError::Rejected { failure, .. }) => {
            let body = format!("{{\"error\":{failure}}}");
            let headers = [(header::CONTENT_TYPE, "application/json")];
            Ok((StatusCode::BAD_GATEWAY, headers, body).into_response())
        }
        Err(error) => Err(node_error(error)),
    }
}

/// The error for a call that the node did not answer.
pub(crate) fn node_error(error: NodeCallError) -> HttpError {
    match error {
        NodeCallError::Rejected { text, .. } => HttpError::bad_request(text),
        NodeCallError::Unavailable(text) => {
            tracing::warn!(reason = text, "the node did not answer a client's request");
            HttpError::unavailable(text)
        }
    }
}

/// Fee estimates, asked for anew when they are old. Only one request asks; the others wait for it.
#[derive(Default)]
pub(crate) struct Estimates(Mutex<Option<(Instant, Bytes)>>);

impl Estimates {
    async fn get(&self, node: &Arc<dyn NodeCalls>) -> Result<Bytes, NodeCallError> {
        let mut kept = self.0.lock().await;
        if let Some((at, body)) = &*kept
            && at.elapsed() < ESTIMATES_AGE_MAX
        {
            return Ok(body.clone());
        }
        let rates = node.fee_estimates().await?;
        let mut out = JsonBuf::with_capacity(512);
        out.raw("{");
        for (index, (target, rate)) in rates.into_iter().enumerate() {
            out.raw(if index == 0 { "\"" } else { ",\"" });
            out.number(target).raw("\":");
            // One division of an integer: 1000 satoshi per 1000 virtual bytes are 1, not a little more or less.
            out.float(rate as f64 / 1000.0);
        }
        out.raw("}");
        let body = Bytes::from(out.into_bytes());
        *kept = Some((Instant::now(), body.clone()));
        Ok(body)
    }
}

/// A block template, asked for anew when it is old or the tip is another one.
#[derive(Default)]
pub(crate) struct Template(Mutex<Option<(Instant, BlockHash, Bytes)>>);

impl Template {
    async fn get(&self, node: &Arc<dyn NodeCalls>, tip: BlockHash) -> Result<Bytes, NodeCallError> {
        let mut kept = self.0.lock().await;
        if let Some((at, of, body)) = &*kept
            && *of == tip
            && at.elapsed() < TEMPLATE_AGE_MAX
        {
            return Ok(body.clone());
        }
        let body = Bytes::from(node.block_template().await?);
        *kept = Some((Instant::now(), tip, body.clone()));
        Ok(body)
    }
}
