//! Transactions: reading, proving, spends.

use axum::extract::State;
use axum::response::Response;
use bitcoin::consensus::encode::serialize;
use bitcoin::{MerkleBlock, OutPoint, Txid};
use cairn_http::{Answer, CacheClass, Conditions, HttpError, PathParams, QueryParams};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{Failure, no_tx};
use crate::json::JsonBuf;
use crate::objects::{MerkleProof, Spend, Status, Transaction};
use crate::state::{App, Reading};
use crate::{parse, render};

/// Transactions of one `/txs/outspends`.
const OUTSPENDS_TXIDS_MAX: usize = 50;

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
        if let Some(entry) = reading.mempool().entry(&txid) {
            let mut out = JsonBuf::default();
            render::unconfirmed_tx(&mut out, &entry, reading.app.fragments.style());
            return Ok(Answer::json(out.into_bytes()));
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
        if block.is_none() {
            reading.mempool();
        }
        let mut out = JsonBuf::with_capacity(180);
        render::status(&mut out, block.as_ref());
        let class = block.map_or(CacheClass::Short, |block| reading.by_depth(block.height));
        Ok(Answer::json(out.into_bytes()).cache(class))
    })
    .await
}

/// The serialized transaction with the class of its depth.
fn raw_tx(reading: &Reading, txid: &Txid) -> Result<(Vec<u8>, CacheClass), Failure> {
    let block = reading.view.confirming_block(txid)?;
    if block.is_none() {
        reading.mempool();
    }
    let raw = reading.view.tx_raw(txid)?.ok_or_else(no_tx)?;
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
        // Headers of Elements do not fit the form of this proof.
        let header = view
            .header(&block.hash)?
            .and_then(|header| header.to_bitcoin());
        let header = header.ok_or_else(no_proof)?;
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
        let spend = reading.view.spending(&OutPoint { txid, vout })?;
        let block = spend.and_then(|spend| spend.block);
        if block.is_none() {
            reading.mempool();
        }
        let mut out = JsonBuf::with_capacity(280);
        render::spend(&mut out, spend.as_ref());
        let class = block.map_or(CacheClass::Short, |block| reading.by_depth(block.height));
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
        reading.mempool();
        let spends = reading.view.spendings(&txid)?.ok_or_else(no_tx)?;
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
    app.read(&conditions, move |reading| outspends_of(reading, &txids))
        .await
}

/// The spends of several transactions, one array for each.
pub(crate) fn outspends_of(reading: &Reading, txids: &[Txid]) -> Result<Answer, Failure> {
    reading.mempool();
    let mut all = Vec::with_capacity(txids.len());
    for txid in txids {
        all.push(reading.view.spendings(txid)?.unwrap_or_default());
    }
    let mut out = JsonBuf::default();
    out.array(&all, |out, spends| render::spends(out, spends));
    Ok(Answer::json(out.into_bytes()))
}
