//! Transactions.

use axum::extract::State;
use cairn_http::PathParams;
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{AmenityKind, Operation, Token, Tx, TxFilter, TxPage};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{Holds, Reply};
use crate::error::ApiError;
use crate::objects::{ErrorAnswer, TxAnswer, TxsAnswer};
use crate::params::Asked;
use crate::state::App;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(txs))
        .routes(routes!(tx))
}

/// The public form of a row.
pub(crate) fn tx_json(app: &App, tx: &Tx) -> String {
    tx.to_json(app.scanner.options().public_detail)
}

/// Rows as a list.
pub(crate) fn list_json(app: &App, txs: &[Tx]) -> String {
    array(txs.iter().map(|tx| tx_json(app, tx)))
}

/// A page as JSON.
pub(crate) fn page_json(app: &App, page: &TxPage) -> String {
    JsonObject::new()
        .raw("txs", &list_json(app, &page.txs))
        .text_or_null("nextCursor", page.next.as_deref())
        .end()
}

/// Which transactions a request asks for.
pub(crate) fn filter(asked: &Asked) -> Result<TxFilter> {
    let token = |word: &str| match word {
        "APU" => Some(Token::Apu),
        "USD" => Some(Token::Usd),
        _ => None,
    };
    Ok(TxFilter {
        token: asked.word("token", token, "APU USD")?,
        space: asked.get("spaceId").map(str::to_owned),
        player: asked.get("playerId").map(str::to_owned),
        op: asked.word("op", Operation::parse, Operation::list())?,
        amenity: asked.word("amenityKind", AmenityKind::parse, AmenityKind::list())?,
        from: asked.instant("from")?,
        to: asked.instant("to")?,
    })
}

/// Transactions, newest first; or, with `sinceMs`, the oldest from an instant on.
#[utoipa::path(get, path = "/api/scanner/txs", tag = "scanner",
    params(
        ("limit" = Option<u32>, Query, description = "rows, 1 to 100; 25 unless given"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before, or milliseconds: strictly older rows"),
        ("token" = Option<String>, Query, description = "APU or USD"),
        ("spaceId" = Option<String>, Query, description = "of a space"),
        ("playerId" = Option<String>, Query, description = "of a player"),
        ("op" = Option<String>, Query, description = "of an operation"),
        ("amenityKind" = Option<String>, Query, description = "of a kind of service"),
        ("from" = Option<String>, Query, description = "not before this instant"),
        ("to" = Option<String>, Query, description = "before this instant"),
        ("sinceMs" = Option<i64>, Query, description = "tail: rows from this millisecond on, inclusive"),
    ),
    responses(
        (status = 200, description = "a page. With filters that no list has, it may be short although nextCursor is given", body = TxsAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
    ))]
async fn txs(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let (filter, limit) = (filter(&asked)?, asked.limit()?);
    if let Some(since) = asked.number("sinceMs", "invalid_since")? {
        let tail = app.scanner.tx_tail(&filter, since, limit).await?;
        let json = JsonObject::new()
            .raw("txs", &list_json(&app, &tail.txs))
            .raw("nextCursor", "null")
            .number_or_null("nextSinceMs", tail.next_since_ms)
            .flag("hasMore", tail.has_more)
            .end();
        return Ok(Reply::new(json));
    }
    let page = app.scanner.txs(&filter, asked.get("cursor"), limit).await?;
    Ok(Reply::new(page_json(&app, &page)))
}

/// A transaction.
#[utoipa::path(get, path = "/api/scanner/txs/{id}", tag = "scanner",
    params(("id" = String, Path, description = "its id")),
    responses(
        (status = 200, description = "the transaction", body = TxAnswer),
        (status = 404, description = "unknown", body = ErrorAnswer),
    ))]
async fn tx(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let tx = app.scanner.tx(path.get(0)).await?;
    let tx = tx.ok_or_else(|| ApiError::not_found("there is no transaction with this id"))?;
    let json = JsonObject::new().raw("tx", &tx_json(&app, &tx)).end();
    Ok(Reply::kept(json, Holds::Long))
}
