//! Revisions of the world and their leaves.

use axum::extract::State;
use cairn_http::{PathParams, parse_decimal};
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{BlockRow, LeafAnswer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{Holds, Reply};
use crate::error::ApiError;
use crate::objects::{BlockAnswer, BlocksAnswer, ErrorAnswer, LeafObject};
use crate::params::Asked;
use crate::state::App;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(blocks))
        .routes(routes!(block))
        .routes(routes!(leaf))
}

fn list(rows: &[BlockRow]) -> String {
    array(rows.iter().map(BlockRow::to_json))
}

fn no_block() -> ApiError {
    ApiError::not_found("there is no such revision")
}

/// Revisions, newest first; with `sinceRev`, the oldest after one; with `rev`, that one.
#[utoipa::path(get, path = "/api/scanner/blocks", tag = "scanner",
    params(
        ("limit" = Option<u32>, Query, description = "rows, 1 to 100; 25 unless given"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
        ("sinceRev" = Option<i64>, Query, description = "tail: revisions after this one"),
        ("epoch" = Option<i64>, Query, description = "of this epoch"),
        ("rev" = Option<i64>, Query, description = "this revision alone"),
    ),
    responses(
        (status = 200, description = "a page; each names the current epoch", body = BlocksAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
    ))]
async fn blocks(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let epoch = asked.number("epoch", "invalid_epoch")?;
    if let Some(rev) = asked.number("rev", "invalid_rev")? {
        let row = app.scanner.block(epoch, rev).await?.ok_or_else(no_block)?;
        return Ok(Reply::new(
            JsonObject::new().raw("block", &row.to_json()).end(),
        ));
    }
    let limit = asked.limit()?;
    if let Some(since) = asked.number("sinceRev", "invalid_rev")? {
        let tail = app.scanner.block_tail(epoch, since, limit).await?;
        let json = JsonObject::new()
            .raw("blocks", &list(&tail.blocks))
            .raw("nextCursor", "null")
            .number_or_null("nextSinceRev", tail.next_since_rev)
            .flag("hasMore", tail.has_more)
            .number("epoch", tail.epoch)
            .end();
        return Ok(Reply::new(json));
    }
    let page = app
        .scanner
        .blocks(epoch, asked.get("cursor"), limit)
        .await?;
    let json = JsonObject::new()
        .raw("blocks", &list(&page.blocks))
        .text_or_null("nextCursor", page.next.as_deref())
        .number("epoch", page.epoch)
        .end();
    Ok(Reply::new(json))
}

/// A revision.
#[utoipa::path(get, path = "/api/scanner/blocks/{rev}", tag = "scanner",
    params(
        ("rev" = String, Path, description = "the revision, digits"),
        ("epoch" = Option<i64>, Query, description = "its epoch; the current one unless given"),
    ),
    responses(
        (status = 200, description = "the revision", body = BlockAnswer),
        (status = 400, description = "not digits", body = ErrorAnswer),
        (status = 404, description = "unknown", body = ErrorAnswer),
    ))]
async fn block(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let rev = parse_decimal(path.get(0))
        .ok_or_else(|| ApiError::bad_request("invalid_rev", "a revision is a whole number"))?;
    let epoch = asked.number("epoch", "invalid_epoch")?;
    let rev = i64::try_from(rev).map_err(|_| no_block())?;
    let row = app.scanner.block(epoch, rev).await?.ok_or_else(no_block)?;
    let json = JsonObject::new().raw("block", &row.to_json()).end();
    Ok(Reply::kept(json, Holds::Long))
}

/// A leaf of the newest revision that came with leaves; with `proof=1`, how it leads to the root.
#[utoipa::path(get, path = "/api/scanner/leaves/{stableKey}", tag = "scanner",
    params(
        ("stableKey" = String, Path, description = "the leaf's key"),
        ("proof" = Option<String>, Query, description = "1: with the siblings from the bottom"),
    ),
    responses((status = 200, description = "the leaf; null digest when there is none", body = LeafObject)))]
async fn leaf(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let with_proof = asked.get("proof") == Some("1");
    let key = path.get(0);
    let LeafAnswer {
        at,
        leaf,
        root,
        proof,
    } = app.scanner.leaf(key, with_proof).await?;
    let json = JsonObject::new()
        .text("stableKey", key)
        .text_or_null(
            "leafDigestHex",
            leaf.as_ref().map(|(_, digest)| digest.as_str()),
        )
        .number_or_null("epoch", at.map(|at| at.epoch))
        .number_or_null("rev", at.map(|at| at.rev))
        .number_or_null(
            "leafIndex",
            leaf.and_then(|(index, _)| i64::try_from(index).ok()),
        )
        .text_or_null("merkleRootHex", root.as_deref());
    let json = match proof {
        Some(proof) => json.raw(
            "proof",
            &array(proof.iter().map(|sibling| sibling.to_json())),
        ),
        None => json,
    };
    Ok(Reply::new(json.end()))
}
