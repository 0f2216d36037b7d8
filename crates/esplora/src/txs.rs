//! Transactions: reading, proving, spends, broadcast.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bitcoin::consensus::encode::serialize;
use bitcoin::{MerkleBlock, OutPoint, Txid};
use cairn_http::{Answer, CacheClass, Conditions, HttpError, PathParams, QueryParams, read_body};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::broadcast::{Broadcast, BroadcastError};
use crate::error::{Failure, no_tx};
use crate::json::JsonBuf;
use crate::objects::{MerkleProof, Spend, Status, Transaction};
use crate::state::{App, Reading};
use crate::{parse, render};

/// Transactions of one `/txs/outspends`.
const OUTSPENDS_TXIDS_MAX: usize = 50;
/// Characters of a broadcast body: 4 MWU of a block as hexadecimal, and some blanks.
pub(crate) const TX_BODY_LIMIT: usize = 8_400_000;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(tx))
        .routes(routes!(tx_status))
        .routes(routes!(tx_hex))
        .routes(routes!(tx_raw))
        .routes(routes!(merkle_proof))
        .routes(routes!(merkleblock_proof))
        .routes(routes!(outspend))
        .routes(routes!(outspends))
        .routes(routes!(outspends_of_many))
        .routes(routes!(post_tx))
        .routes(routes!(broadcast))
}

/// A transaction.
#[utoipa::path(get, path = "/tx/{txid}", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "the transaction", body = Transaction),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn tx(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read_short(&conditions, move |reading| {
        let view = &reading.view;
        if let Some(block) = view.confirming_block(&txid)? {
            let body = reading.app.fragments.one(view, &txid, &block)?;
            return Ok(one_tx(&body, Some(&block)).cache(reading.by_depth(block.height)));
        }
        // Known from a stale block only.
        let record = view.tx(&txid)?.ok_or_else(no_tx)?;
        let body = render::tx_body(&record, reading.app.fragments.style());
        Ok(one_tx(&body, record.block.as_ref()))
    })
    .await
}

fn one_tx(body: &[u8], block: Option<&cairn_utxo_index::BlockRef>) -> Answer {
    let mut out = JsonBuf::with_capacity(body.len() + 200);
    render::tx(&mut out, body, block);
    Answer::json(out.into_bytes())
}

/// Where a transaction is. An unknown one is unconfirmed.
#[utoipa::path(get, path = "/tx/{txid}/status", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "the status", body = Status),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
    ))]
async fn tx_status(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read_short(&conditions, move |reading| {
        let block = reading.view.confirming_block(&txid)?;
        let mut out = JsonBuf::with_capacity(180);
        render::status(&mut out, block.as_ref());
        let class = block.map_or(CacheClass::Short, |block| reading.by_depth(block.height));
        Ok(Answer::json(out.into_bytes()).cache(class))
    })
    .await
}

/// The serialized transaction with the class of its depth.
fn raw_tx(reading: &Reading, txid: &Txid) -> Result<(Vec<u8>, CacheClass), Failure> {
    let raw = reading.view.tx_raw(txid)?.ok_or_else(no_tx)?;
    let block = reading.view.confirming_block(txid)?;
    Ok((
        raw,
        block.map_or(CacheClass::Short, |block| reading.by_depth(block.height)),
    ))
}

/// A serialized transaction, hexadecimal.
#[utoipa::path(get, path = "/tx/{txid}/hex", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "hexadecimal", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn tx_hex(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read_short(&conditions, move |reading| {
        let (raw, class) = raw_tx(reading, &txid)?;
        let mut out = JsonBuf::with_capacity(raw.len() * 2);
        out.hex(&raw);
        Ok(Answer::text(out.into_bytes()).cache(class))
    })
    .await
}

/// A serialized transaction, raw.
#[utoipa::path(get, path = "/tx/{txid}/raw", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "the bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn tx_raw(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read_short(&conditions, move |reading| {
        let (raw, class) = raw_tx(reading, &txid)?;
        Ok(Answer::bytes(raw).cache(class))
    })
    .await
}

fn no_proof() -> Failure {
    HttpError::not_found("Transaction not found or is unconfirmed").into()
}

/// The merkle branch of a confirmed transaction.
#[utoipa::path(get, path = "/tx/{txid}/merkle-proof", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "the proof", body = MerkleProof),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown or unconfirmed", body = String, content_type = "text/plain"),
    ))]
async fn merkle_proof(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read(&conditions, move |reading| {
        let proof = reading.view.merkle_proof(&txid)?.ok_or_else(no_proof)?;
        let mut out = JsonBuf::with_capacity(64 + 67 * proof.branch.len());
        render::merkle_proof(&mut out, &proof);
        Ok(Answer::json(out.into_bytes()).cache(reading.by_depth(proof.block.height)))
    })
    .await
}

/// Block header and partial merkle tree of a confirmed transaction, as the node's `gettxoutproof` gives them.
#[utoipa::path(get, path = "/tx/{txid}/merkleblock-proof", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "hexadecimal", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown or unconfirmed", body = String, content_type = "text/plain"),
    ))]
async fn merkleblock_proof(
    State(app): State<App>,
    path: PathParams,
    conditions: Conditions,
) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read(&conditions, move |reading| {
        let view = &reading.view;
        let block = view.confirming_block(&txid)?.ok_or_else(no_proof)?;
        let header = view.header(&block.hash)?.ok_or_else(no_proof)?;
        let txids = view.block_txids(&block.hash)?.ok_or_else(no_proof)?;
        if !txids.contains(&txid) {
            return Err(no_proof());
        }
        let proof =
            MerkleBlock::from_header_txids_with_predicate(&header, &txids, |other| *other == txid);
        let bytes = serialize(&proof);
        let mut out = JsonBuf::with_capacity(bytes.len() * 2);
        out.hex(&bytes);
        Ok(Answer::text(out.into_bytes()).cache(reading.by_depth(block.height)))
    })
    .await
}

/// Who spends an output. One that does not exist is not spent.
#[utoipa::path(get, path = "/tx/{txid}/outspend/{vout}", tag = "transactions",
    params(
        ("txid" = String, Path, description = "transaction id"),
        ("vout" = u32, Path, description = "index of the output"),
    ),
    responses(
        (status = 200, description = "the spend", body = Spend),
        (status = 400, description = "not a hash or number", body = String, content_type = "text/plain"),
    ))]
async fn outspend(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    let vout = parse::number(path.get(1))?;
    app.read_short(&conditions, move |reading| {
        let spend = reading.view.spend(&OutPoint { txid, vout })?;
        let mut out = JsonBuf::with_capacity(280);
        render::spend(&mut out, spend.as_ref());
        let class = spend.map_or(CacheClass::Short, |spend| {
            reading.by_depth(spend.block.height)
        });
        Ok(Answer::json(out.into_bytes()).cache(class))
    })
    .await
}

/// Who spends each output of a transaction.
#[utoipa::path(get, path = "/tx/{txid}/outspends", tag = "transactions",
    params(("txid" = String, Path, description = "transaction id")),
    responses(
        (status = 200, description = "one entry per output", body = Vec<Spend>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn outspends(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let txid = parse::txid(path.get(0))?;
    app.read(&conditions, move |reading| {
        let spends = reading.view.spends_of(&txid)?.ok_or_else(no_tx)?;
        let mut out = JsonBuf::with_capacity(2 + 16 * spends.len());
        render::spends(&mut out, &spends);
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// Who spends each output of several transactions.
#[utoipa::path(get, path = "/txs/outspends", tag = "transactions",
    params(("txids" = String, Query, description = "up to 50 transaction ids, with commas between")),
    responses(
        (status = 200, description = "one array per transaction; empty for an unknown one", body = Vec<Vec<Spend>>),
        (status = 400, description = "none, too many, or not hashes", body = String, content_type = "text/plain"),
    ))]
async fn outspends_of_many(
    State(app): State<App>,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let asked = query.get("txids").unwrap_or("");
    if asked.is_empty() {
        return Err(HttpError::bad_request("No txids specified"));
    }
    if asked.split(',').count() > OUTSPENDS_TXIDS_MAX {
        return Err(HttpError::bad_request("Too many txids requested"));
    }
    let txids: Vec<Txid> = asked.split(',').map(parse::txid).collect::<Result<_>>()?;
    app.read(&conditions, move |reading| {
        let mut all = Vec::with_capacity(txids.len());
        for txid in &txids {
            all.push(reading.view.spends_of(txid)?.unwrap_or_default());
        }
        let mut out = JsonBuf::default();
        out.array(&all, |out, spends| render::spends(out, spends));
        Ok(Answer::json(out.into_bytes()))
    })
    .await
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
    let sender: &Arc<dyn Broadcast> = app
        .broadcast
        .as_ref()
        .ok_or_else(|| HttpError::unavailable("broadcast needs a node, and none is configured"))?;
    match sender.broadcast(hex).await {
        Ok(txid) => Ok(Answer::text(txid.to_string())
            .cache(CacheClass::None)
            .into_response()),
        Err(BroadcastError::Rejected(text)) => Err(HttpError::bad_request(text)),
        Err(BroadcastError::Unavailable(text)) => {
            tracing::warn!(reason = text, "a transaction could not be broadcast");
            Err(HttpError::unavailable(text))
        }
    }
}
