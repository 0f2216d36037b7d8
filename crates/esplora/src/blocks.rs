//! Blocks: tip, lists, and everything by height or hash.

use axum::extract::State;
use axum::response::Response;
use bitcoin::BlockHash;
use cairn_http::{Answer, CacheClass, Conditions, HttpError, PathParams, parse_decimal};
use cairn_utxo_index::{BlockRef, QueryError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{Failure, no_block};
use crate::json::JsonBuf;
use crate::objects::{Block, BlockStatus, Transaction};
use crate::state::{App, Reading};
use crate::{parse, render};

/// Blocks of one list. Clients have it written in.
const BLOCKS_PER_PAGE: u32 = 10;
/// Transactions of one page of a block. Clients have it written in.
pub(crate) const TXS_PER_PAGE: usize = 25;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(tip_height))
        .routes(routes!(tip_hash))
        .routes(routes!(newest_blocks))
        .routes(routes!(blocks_from))
        .routes(routes!(hash_at_height))
        .routes(routes!(block))
        .routes(routes!(block_status))
        .routes(routes!(block_txs))
        .routes(routes!(block_txs_from))
        .routes(routes!(block_txids))
        .routes(routes!(block_txid))
        .routes(routes!(block_header))
        .routes(routes!(block_raw))
}

/// Height of the tip.
#[utoipa::path(get, path = "/blocks/tip/height", tag = "blocks", responses(
    (status = 200, description = "the height", body = String, content_type = "text/plain"),
    (status = 503, description = "not yet synced", body = String, content_type = "text/plain"),
))]
async fn tip_height(State(app): State<App>, conditions: Conditions) -> Result {
    app.read_now(&conditions, |reading| {
        Ok(Answer::text(reading.tip.height.to_string()))
    })
}

/// Hash of the tip.
#[utoipa::path(get, path = "/blocks/tip/hash", tag = "blocks", responses(
    (status = 200, description = "the hash", body = String, content_type = "text/plain"),
    (status = 503, description = "not yet synced", body = String, content_type = "text/plain"),
))]
async fn tip_hash(State(app): State<App>, conditions: Conditions) -> Result {
    app.read_now(&conditions, |reading| {
        Ok(Answer::text(reading.tip.hash.to_string()))
    })
}

/// The newest ten blocks, tip first.
#[utoipa::path(get, path = "/blocks", tag = "blocks", responses(
    (status = 200, description = "blocks", body = Vec<Block>),
))]
async fn newest_blocks(State(app): State<App>, conditions: Conditions) -> Result {
    app.read_short(&conditions, |reading| {
        list_blocks(reading, reading.tip.height)
    })
    .await
}

/// Ten blocks from a height downward. What is not a number is ignored.
#[utoipa::path(get, path = "/blocks/{start_height}", tag = "blocks",
    params(("start_height" = String, Path, description = "height of the first block")),
    responses(
        (status = 200, description = "blocks", body = Vec<Block>),
        (status = 404, description = "above the tip", body = String, content_type = "text/plain"),
    ))]
async fn blocks_from(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let start = parse_decimal(path.get(0));
    app.read_short(&conditions, move |reading| {
        let tip = reading.tip.height;
        let start = match start {
            None => tip,
            Some(height) => u32::try_from(height)
                .ok()
                .filter(|&height| height <= tip)
                .ok_or_else(no_block)?,
        };
        list_blocks(reading, start)
    })
    .await
}

fn list_blocks(reading: &Reading, start: u32) -> Result<Answer, Failure> {
    let mut blocks = Vec::with_capacity(BLOCKS_PER_PAGE as usize);
    let last = (start + 1).saturating_sub(BLOCKS_PER_PAGE);
    for height in (last..=start).rev() {
        let at = reading.view.block_at(height).ok_or_else(no_block)?;
        blocks.push(
            reading
                .view
                .block(&at.hash)?
                .ok_or_else(|| lost(&at.hash))?,
        );
    }
    let mut out = JsonBuf::with_capacity(blocks.len() * 512);
    out.array(&blocks, |out, block| render::block(out, block, None));
    Ok(Answer::json(out.into_bytes()))
}

/// A block of the best chain whose rows are not there.
fn lost(hash: &BlockHash) -> QueryError {
    QueryError::Store(format!("block {hash} is on the best chain but has no rows"))
}

/// Hash of the block at a height.
#[utoipa::path(get, path = "/block-height/{height}", tag = "blocks",
    params(("height" = u32, Path, description = "height")),
    responses(
        (status = 200, description = "the hash", body = String, content_type = "text/plain"),
        (status = 400, description = "not a number", body = String, content_type = "text/plain"),
        (status = 404, description = "above the tip", body = String, content_type = "text/plain"),
    ))]
async fn hash_at_height(
    State(app): State<App>,
    path: PathParams,
    conditions: Conditions,
) -> Result {
    let height = parse::number(path.get(0))?;
    app.read_now(&conditions, |reading| {
        let block = reading.view.block_at(height).ok_or_else(no_block)?;
        Ok(Answer::text(block.hash.to_string()).cache(reading.by_depth(height)))
    })
}

/// A block, stale ones included.
#[utoipa::path(get, path = "/block/{hash}", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "the block", body = Block),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read_short(&Conditions::default(), move |reading| {
        let block = reading.view.block(&hash)?.ok_or_else(no_block)?;
        let mut out = JsonBuf::with_capacity(512);
        let header = reading.view.header_bytes(&hash)?;
        render::block(&mut out, &block, header.as_deref());
        Ok(Answer::json(out.into_bytes()).cache(CacheClass::Long))
    })
    .await
}

/// Whether a block is on the best chain. An unknown or stale one is not.
#[utoipa::path(get, path = "/block/{hash}/status", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "the status", body = BlockStatus),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
    ))]
async fn block_status(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read_now(&conditions, |reading| {
        let Some(block) = reading.view.best_chain_block(&hash) else {
            let none = "{\"in_best_chain\":false,\"height\":null,\"next_best\":null}";
            return Ok(Answer::json(none));
        };
        let mut out = JsonBuf::with_capacity(160);
        out.raw("{\"in_best_chain\":true,\"height\":")
            .number(block.height)
            .raw(",\"next_best\":");
        match block
            .height
            .checked_add(1)
            .and_then(|next| reading.view.block_at(next))
        {
            Some(next) => out.hash(next.hash),
            None => out.raw("null"),
        };
        out.raw("}");
        Ok(Answer::json(out.into_bytes()).cache(reading.by_depth(block.height)))
    })
}

/// The first 25 transactions of a block.
#[utoipa::path(get, path = "/block/{hash}/txs", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "transactions in block order", body = Vec<Transaction>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block_txs(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read_short(&conditions, move |reading| page_of_block(reading, &hash, 0))
        .await
}

/// 25 transactions of a block from an index on, which must be a multiple of 25. What is not a number counts as 0.
#[utoipa::path(get, path = "/block/{hash}/txs/{start_index}", tag = "blocks",
    params(
        ("hash" = String, Path, description = "block hash"),
        ("start_index" = String, Path, description = "index of the first transaction"),
    ),
    responses(
        (status = 200, description = "transactions in block order", body = Vec<Transaction>),
        (status = 400, description = "not a hash, not a multiple, or beyond the block", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block_txs_from(
    State(app): State<App>,
    path: PathParams,
    conditions: Conditions,
) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    let start = parse_decimal(path.get(1)).unwrap_or(0);
    // What is too large for a number here is far beyond any block.
    let start = usize::try_from(start)
        .ok()
        .filter(|&start| start < usize::MAX);
    let start = start.ok_or_else(|| HttpError::bad_request("start index out of range"))?;
    if !start.is_multiple_of(TXS_PER_PAGE) {
        return Err(HttpError::bad_request(
            "start index must be a multiple of 25",
        ));
    }
    app.read_short(&conditions, move |reading| {
        page_of_block(reading, &hash, start)
    })
    .await
}

fn page_of_block(reading: &Reading, hash: &BlockHash, start: usize) -> Result<Answer, Failure> {
    let Some(block) = reading.view.best_chain_block(hash) else {
        return page_of_stale_block(reading, hash, start);
    };
    let txids = reading.view.block_txids(hash)?.ok_or_else(|| lost(hash))?;
    let page = txids
        .get(start..)
        .filter(|page| !page.is_empty())
        .ok_or(QueryError::OutOfRange)?;
    let wanted: Vec<_> = page
        .iter()
        .take(TXS_PER_PAGE)
        .map(|txid| (*txid, block))
        .collect();
    let answer = list_txs(reading, &wanted)?;
    Ok(answer.cache(reading.by_depth(block.height)))
}

/// The status is that of the block asked for: unconfirmed, wherever else its transactions may be.
fn page_of_stale_block(
    reading: &Reading,
    hash: &BlockHash,
    start: usize,
) -> Result<Answer, Failure> {
    let records = reading
        .view
        .block_txs(hash, start, TXS_PER_PAGE)?
        .ok_or_else(no_block)?;
    let style = reading.app.fragments.style();
    let mut out = JsonBuf::default();
    out.array(&records, |out, record| {
        render::tx(out, &render::tx_body(record, style), None)
    });
    Ok(Answer::json(out.into_bytes()))
}

/// Confirmed transactions as a JSON array.
pub(crate) fn list_txs(
    reading: &Reading,
    wanted: &[(bitcoin::Txid, BlockRef)],
) -> Result<Answer, QueryError> {
    let bodies = reading.app.fragments.many(&reading.view, wanted)?;
    let mut out = JsonBuf::with_capacity(bodies.iter().map(|body| body.len() + 200).sum());
    out.array(bodies.iter().zip(wanted), |out, (body, (_, block))| {
        render::tx(out, body, Some(block));
    });
    Ok(Answer::json(out.into_bytes()))
}

/// Ids of all transactions of a block, block order.
#[utoipa::path(get, path = "/block/{hash}/txids", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "transaction ids", body = Vec<String>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block_txids(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read(&Conditions::default(), move |reading| {
        let txids = reading.view.block_txids(&hash)?.ok_or_else(no_block)?;
        let mut out = JsonBuf::with_capacity(txids.len() * 67 + 2);
        render::txids(&mut out, &txids);
        Ok(Answer::json(out.into_bytes()).cache(CacheClass::Long))
    })
    .await
}

/// Id of the transaction at an index of a block.
#[utoipa::path(get, path = "/block/{hash}/txid/{index}", tag = "blocks",
    params(
        ("hash" = String, Path, description = "block hash"),
        ("index" = u32, Path, description = "index in the block"),
    ),
    responses(
        (status = 200, description = "the id", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash or number", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown block or beyond it", body = String, content_type = "text/plain"),
    ))]
async fn block_txid(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    let index = parse::number(path.get(1))? as usize;
    app.read_short(&Conditions::default(), move |reading| {
        let txids = reading.view.block_txids(&hash)?.ok_or_else(no_block)?;
        let txid = txids
            .get(index)
            .ok_or_else(|| HttpError::not_found("tx index out of range"))?;
        Ok(Answer::text(txid.to_string()).cache(CacheClass::Long))
    })
    .await
}

/// The header of a block, hexadecimal.
#[utoipa::path(get, path = "/block/{hash}/header", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "80 bytes, hexadecimal", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block_header(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read_short(&Conditions::default(), move |reading| {
        let header = reading.view.header_bytes(&hash)?.ok_or_else(no_block)?;
        let mut out = JsonBuf::with_capacity(160);
        out.hex(&header);
        Ok(Answer::text(out.into_bytes()).cache(CacheClass::Long))
    })
    .await
}

/// A whole block, raw.
#[utoipa::path(get, path = "/block/{hash}/raw", tag = "blocks",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "the bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn block_raw(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    app.read(&Conditions::default(), move |reading| {
        let raw = reading.view.block_raw(&hash)?.ok_or_else(no_block)?;
        Ok(Answer::bytes(raw).cache(CacheClass::Long))
    })
    .await
}
