//! Endpoints whose answers have no bound, for a back end of one's own: off unless configured.
//!
//! Long lists are written piece by piece while they are read, from one frozen state, so that memory stays bounded.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bitcoin::{OutPoint, Txid};
use cairn_http::{Answer, CacheClass, Conditions, HttpError, PathParams, QueryParams, read_body};
use cairn_utxo_index::{BlockRef, MempoolEntry, View};
use futures_util::stream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{Failure, no_block};
use crate::json::JsonBuf;
use crate::objects::{Spend, Transaction};
use crate::state::{App, Reading};
use crate::{parse, render};

/// Bytes of a body.
const BODY_LIMIT: usize = 8_000_000;
/// Entries of a body: what fits in it.
const IDS_MAX: usize = 100_000;
/// Transactions of one page; also the most that may be asked for.
const TXS_PAGE: usize = 1_000;
/// Transactions written at once.
const PIECE_TXS: usize = 250;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(block_txs))
        .routes(routes!(txs))
        .routes(routes!(outspends_by_txid))
        .routes(routes!(outspends_by_outpoint))
        .routes(routes!(all_mempool_txs))
        .routes(routes!(mempool_txs, some_mempool_txs))
        .routes(routes!(mempool_txs_after))
        .merge(aliases::router())
}

/// What a piece of a long list is written from.
enum Piece {
    Confirmed(Vec<(Txid, BlockRef)>),
    Unconfirmed(Vec<Arc<MempoolEntry>>),
}

/// A JSON array of transactions, written piece by piece; `next` gives the pieces, none of them empty.
fn stream_txs(
    app: App,
    view: Arc<View>,
    class: CacheClass,
    next: impl FnMut() -> Result<Option<Piece>, Failure> + Send + 'static,
) -> Response {
    /// What is left to write; `None` when all is written.
    type Rest<F> = Option<(F, bool)>;
    let begin: Rest<_> = Some((next, true));
    let pieces = stream::try_unfold(begin, move |rest| {
        let (app, view) = (app.clone(), Arc::clone(&view));
        async move {
            let Some((mut next, is_first)) = rest else {
                return Ok::<_, std::io::Error>(None);
            };
            let pool = app.pool.clone();
            let work = move || -> Result<_, Failure> {
                let mut out = JsonBuf::default();
                if is_first {
                    out.raw("[");
                }
                let Some(piece) = next()? else {
                    out.raw("]");
                    return Ok((out, None));
                };
                if !is_first {
                    out.raw(",");
                }
                write_piece(&app, &view, &piece, &mut out)?;
                Ok((out, Some((next, false))))
            };
            // The status is gone already: what can be told is that the answer is cut short.
            let (out, rest) = pool
                .run(work)
                .await
                .and_then(|written| written.map_err(HttpError::from))
                .map_err(|error| std::io::Error::other(error.text().to_owned()))?;
            Ok(Some((Bytes::from(out.into_bytes()), rest)))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, class.header_value());
    response
}

/// Transactions with commas between.
fn write_piece(app: &App, view: &View, piece: &Piece, out: &mut JsonBuf) -> Result<(), Failure> {
    match piece {
        Piece::Confirmed(wanted) => {
            let bodies = app.fragments.many(view, wanted)?;
            out.list(bodies.iter().zip(wanted), |out, (body, (_, block))| {
                render::tx(out, body, Some(block));
            });
        }
        Piece::Unconfirmed(entries) => {
            out.list(entries, |out, entry| {
                render::unconfirmed_tx(out, entry, app.fragments.style());
            });
        }
    }
    Ok(())
}

/// All transactions of a block.
#[utoipa::path(get, path = "/internal/block/{hash}/txs", tag = "internal",
    params(("hash" = String, Path, description = "block hash")),
    responses(
        (status = 200, description = "transactions, block order", body = Vec<Transaction>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown, or not on the best chain", body = String, content_type = "text/plain"),
    ))]
async fn block_txs(State(app): State<App>, path: PathParams) -> Result {
    let hash = parse::block_hash(path.get(0))?;
    let view = app.view()?;
    let read = Arc::clone(&view);
    let found = app
        .pool
        .run(move || -> Result<_, Failure> {
            let block = read.best_chain_block(&hash).ok_or_else(no_block)?;
            let txids = read.block_txids(&hash)?.ok_or_else(no_block)?;
            Ok((block, txids))
        })
        .await?;
    let (block, txids) = found.map_err(HttpError::from)?;
    let class = CacheClass::by_depth(view.tip().height, block.height);
    let mut at = 0;
    Ok(stream_txs(app, view, class, move || {
        let piece: Vec<(Txid, BlockRef)> = txids
            .iter()
            .skip(at)
            .take(PIECE_TXS)
            .map(|txid| (*txid, block))
            .collect();
        at += piece.len();
        Ok((!piece.is_empty()).then_some(Piece::Confirmed(piece)))
    }))
}

async fn ids(request: Request) -> Result<Vec<Txid>> {
    let body = read_body(request, BODY_LIMIT).await?;
    parse::text_array(&body, IDS_MAX)?
        .iter()
        .map(|text| parse::txid(text))
        .collect()
}

/// Transactions by their ids; unknown ones are left out.
#[utoipa::path(post, path = "/internal/txs", tag = "internal",
    request_body(content = Vec<String>, description = "transaction ids"),
    responses(
        (status = 200, description = "those that are known, in the order asked", body = Vec<Transaction>),
        (status = 400, description = "not an array of hashes", body = String, content_type = "text/plain"),
    ))]
async fn txs(State(app): State<App>, request: Request) -> Result {
    let mut ids = ids(request).await?.into_iter();
    let view = app.view()?;
    let lookup = Arc::clone(&view);
    // Confirmed and unconfirmed ones keep their order because a piece is of one transaction.
    Ok(stream_txs(app, view, CacheClass::None, move || {
        for txid in ids.by_ref() {
            if let Some(entry) = lookup.mempool().entry(&txid) {
                return Ok(Some(Piece::Unconfirmed(vec![entry])));
            }
            if let Some(block) = lookup.confirming_block(&txid)? {
                return Ok(Some(Piece::Confirmed(vec![(txid, block)])));
            }
        }
        Ok(None)
    }))
}

/// Who spends each output of several transactions.
#[utoipa::path(post, path = "/internal/txs/outspends/by-txid", tag = "internal",
    request_body(content = Vec<String>, description = "transaction ids"),
    responses(
        (status = 200, description = "one array per transaction; empty for an unknown one", body = Vec<Vec<Spend>>),
        (status = 400, description = "not an array of hashes", body = String, content_type = "text/plain"),
    ))]
async fn outspends_by_txid(State(app): State<App>, request: Request) -> Result {
    let ids = ids(request).await?;
    app.read(&Conditions::default(), move |reading| {
        crate::txs::outspends_of(reading, &ids)
    })
    .await
}

/// Who spends several outputs.
#[utoipa::path(post, path = "/internal/txs/outspends/by-outpoint", tag = "internal",
    request_body(content = Vec<String>, description = "outputs, txid:vout"),
    responses(
        (status = 200, description = "one entry per output; one that is not understood is not spent", body = Vec<Spend>),
        (status = 400, description = "not an array", body = String, content_type = "text/plain"),
    ))]
async fn outspends_by_outpoint(State(app): State<App>, request: Request) -> Result {
    let body = read_body(request, BODY_LIMIT).await?;
    let outpoints: Vec<Option<OutPoint>> = parse::text_array(&body, IDS_MAX)?
        .iter()
        .map(|text| parse::outpoint(text))
        .collect();
    app.read(&Conditions::default(), move |reading: &Reading| {
        reading.mempool();
        let mut spends = Vec::with_capacity(outpoints.len());
        for outpoint in &outpoints {
            spends.push(match outpoint {
                Some(outpoint) => reading.view.spending(outpoint)?,
                None => None,
            });
        }
        let mut out = JsonBuf::with_capacity(2 + 16 * spends.len());
        render::spends(&mut out, &spends);
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// All unconfirmed transactions.
#[utoipa::path(get, path = "/internal/mempool/txs/all", tag = "internal",
    responses((status = 200, description = "transactions, by id ascending", body = Vec<Transaction>)))]
async fn all_mempool_txs(State(app): State<App>) -> Result {
    mempool_from(app, None, usize::MAX)
}

/// Unconfirmed transactions, the first ones.
#[utoipa::path(get, path = "/internal/mempool/txs", tag = "internal",
    params(("max_txs" = Option<u32>, Query, description = "transactions at most; 1000 unless given")),
    responses((status = 200, description = "transactions, by id ascending", body = Vec<Transaction>)))]
async fn mempool_txs(State(app): State<App>, query: QueryParams) -> Result {
    let limit = parse::limit(&query, TXS_PAGE, TXS_PAGE)?;
    mempool_from(app, None, limit)
}

/// Unconfirmed transactions after a given one.
#[utoipa::path(get, path = "/internal/mempool/txs/{last_seen_txid}", tag = "internal",
    params(
        ("last_seen_txid" = String, Path, description = "begin after this id, whether it is still there or not"),
        ("max_txs" = Option<u32>, Query, description = "transactions at most; 1000 unless given"),
    ),
    responses(
        (status = 200, description = "transactions, by id ascending", body = Vec<Transaction>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
    ))]
async fn mempool_txs_after(State(app): State<App>, path: PathParams, query: QueryParams) -> Result {
    let after = parse::txid(path.get(0))?;
    let limit = parse::limit(&query, TXS_PAGE, TXS_PAGE)?;
    mempool_from(app, Some(after), limit)
}

/// Unconfirmed transactions by their ids; others are left out.
#[utoipa::path(post, path = "/internal/mempool/txs", tag = "internal",
    request_body(content = Vec<String>, description = "transaction ids"),
    responses(
        (status = 200, description = "those that are unconfirmed, in the order asked", body = Vec<Transaction>),
        (status = 400, description = "not an array of hashes", body = String, content_type = "text/plain"),
    ))]
async fn some_mempool_txs(State(app): State<App>, request: Request) -> Result {
    let mut ids = ids(request).await?.into_iter();
    let view = app.view()?;
    let lookup = Arc::clone(&view);
    Ok(stream_txs(app, view, CacheClass::None, move || {
        let piece: Vec<Arc<MempoolEntry>> = ids
            .by_ref()
            .filter_map(|txid| lookup.mempool().entry(&txid))
            .take(PIECE_TXS)
            .collect();
        Ok((!piece.is_empty()).then_some(Piece::Unconfirmed(piece)))
    }))
}

fn mempool_from(app: App, mut after: Option<Txid>, mut left: usize) -> Result {
    let view = app.view()?;
    let lookup = Arc::clone(&view);
    Ok(stream_txs(app, view, CacheClass::Short, move || {
        let piece = lookup
            .mempool()
            .entries_after(after.as_ref(), PIECE_TXS.min(left));
        let Some(last) = piece.last() else {
            return Ok(None);
        };
        after = Some(last.txid);
        left -= piece.len();
        Ok(Some(Piece::Unconfirmed(piece)))
    }))
}

/// The same lists under the names they had for some months of 2023.
mod aliases {
    use super::*;

    pub(super) fn router() -> OpenApiRouter<App> {
        OpenApiRouter::new()
            .routes(routes!(all))
            .routes(routes!(first, some))
            .routes(routes!(after))
    }

    /// All unconfirmed transactions (old name).
    #[utoipa::path(get, path = "/mempool/txs/all", tag = "internal", operation_id = "old_all_mempool_txs",
        responses((status = 200, description = "transactions, by id ascending", body = Vec<Transaction>)))]
    async fn all(state: State<App>) -> Result {
        all_mempool_txs(state).await
    }

    /// Unconfirmed transactions, the first ones (old name).
    #[utoipa::path(get, path = "/mempool/txs", tag = "internal", operation_id = "old_mempool_txs",
        params(("max_txs" = Option<u32>, Query, description = "transactions at most; 1000 unless given")),
        responses((status = 200, description = "transactions, by id ascending", body = Vec<Transaction>)))]
    async fn first(state: State<App>, query: QueryParams) -> Result {
        mempool_txs(state, query).await
    }

    /// Unconfirmed transactions after a given one (old name).
    #[utoipa::path(get, path = "/mempool/txs/{last_seen_txid}", tag = "internal", operation_id = "old_mempool_txs_after",
        params(
            ("last_seen_txid" = String, Path, description = "begin after this id, whether it is still there or not"),
            ("max_txs" = Option<u32>, Query, description = "transactions at most; 1000 unless given"),
        ),
        responses(
            (status = 200, description = "transactions, by id ascending", body = Vec<Transaction>),
            (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        ))]
    async fn after(state: State<App>, path: PathParams, query: QueryParams) -> Result {
        mempool_txs_after(state, path, query).await
    }

    /// Unconfirmed transactions by their ids (old name).
    #[utoipa::path(post, path = "/mempool/txs", tag = "internal", operation_id = "old_some_mempool_txs",
        request_body(content = Vec<String>, description = "transaction ids"),
        responses(
            (status = 200, description = "those that are unconfirmed, in the order asked", body = Vec<Transaction>),
            (status = 400, description = "not an array of hashes", body = String, content_type = "text/plain"),
        ))]
    async fn some(state: State<App>, request: Request) -> Result {
        some_mempool_txs(state, request).await
    }
}
