//! All transactions of a filter as a stream: CSV or one JSON object a line, without a limit of rows and without holding
//! them.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use cairn_scanner::{LIMIT_MAX, Tx, TxFilter, Usd};
use futures_util::stream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::objects::ErrorAnswer;
use crate::params::Asked;
use crate::state::App;
use crate::txs::{filter, tx_json};

const COLUMNS: &str = "at,id,op,amenityKind,playerId,spaceId,itemKind,itemId,priceUsd,powerUpsDelta,debitSource,\
                       creditSource,counterpartyNodeId,blockRev\r\n";

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(export))
}

/// Transactions as CSV or lines of JSON, newest first.
#[utoipa::path(get, path = "/api/scanner/txs.csv", tag = "scanner",
    params(
        ("format" = Option<String>, Query, description = "csv or ndjson; csv unless given"),
        ("token" = Option<String>, Query, description = "APU or USD"),
        ("spaceId" = Option<String>, Query, description = "of a space"),
        ("playerId" = Option<String>, Query, description = "of a player"),
        ("op" = Option<String>, Query, description = "of an operation"),
        ("amenityKind" = Option<String>, Query, description = "of a kind of service"),
        ("from" = Option<String>, Query, description = "not before this instant"),
        ("to" = Option<String>, Query, description = "before this instant"),
    ),
    responses(
        (status = 200, description = "the rows; a stream that breaks off was interrupted", body = String, content_type = "text/csv"),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
    ))]
async fn export(State(app): State<App>, asked: Asked) -> Result<Response, ApiError> {
    asked.reading(&app)?;
    let filter = filter(&asked)?;
    let lines = |word: &str| match word {
        "csv" => Some(false),
        "ndjson" => Some(true),
        _ => None,
    };
    let as_json = asked.word("format", lines, "csv ndjson")?.unwrap_or(false);
    // The first page is read before the answer begins, so that a store that is away is an error and not an empty file.
    let first = app.scanner.txs(&filter, None, LIMIT_MAX).await?;
    let begun = Export {
        app,
        filter,
        as_json,
        page: Some((first.txs, first.next)),
        is_first: true,
    };
    let body = Body::from_stream(stream::unfold(Some(begun), next_chunk));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(if as_json {
            "application/x-ndjson"
        } else {
            "text/csv; charset=utf-8"
        }),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Export {
    app: App,
    filter: TxFilter,
    as_json: bool,
    /// Rows that are read already, and where to go on; `None` at the end.
    page: Option<(Vec<Tx>, Option<String>)>,
    is_first: bool,
}

type Chunk = Result<Bytes, std::io::Error>;

async fn next_chunk(state: Option<Export>) -> Option<(Chunk, Option<Export>)> {
    let mut export = state?;
    let (txs, next) = export.page.take()?;
    let mut text = String::new();
    if export.is_first && !export.as_json {
        text.push_str(COLUMNS);
    }
    export.is_first = false;
    for tx in &txs {
        if export.as_json {
            text.push_str(&tx_json(&export.app, tx));
            text.push('\n');
        } else {
            text.push_str(&csv_row(tx));
        }
    }
    if let Some(cursor) = next {
        let page = export
            .app
            .scanner
            .txs(&export.filter, Some(&cursor), LIMIT_MAX)
            .await;
        match page {
            Ok(page) => export.page = Some((page.txs, page.next)),
            Err(error) => {
                tracing::warn!(%error, "an export breaks off");
                return Some((
                    Err(std::io::Error::other("the store does not answer")),
                    None,
                ));
            }
        }
    }
    Some((Ok(Bytes::from(text)), Some(export)))
}

fn csv_row(tx: &Tx) -> String {
    let record = &tx.record;
    let price = record.price_micros.and_then(Usd::from_micros);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let fields = [
        record.at().to_string(),
        record.id.clone(),
        tx.op.to_string(),
        record.amenity.to_string(),
        record.player_id.clone(),
        record.space_id.clone(),
        record.item_kind.to_string(),
        record.item_id.clone(),
        price.map_or_else(String::new, |price| price.to_string()),
        record
            .delta
            .map_or_else(String::new, |delta| delta.to_string()),
        text(&record.debit_source),
        text(&record.credit_source),
        text(&record.counterparty),
        tx.stamp
            .as_ref()
            .map_or_else(String::new, |stamp| stamp.rev.to_string()),
    ];
    let mut row = fields.map(|field| csv_field(&field)).join(",");
    row.push_str("\r\n");
    row
}

/// A field as RFC 4180 has it. A text that a spreadsheet would take for a formula is told to be a text.
fn csv_field(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '@', '\t', '\r'])
        || (field.starts_with('-') && field.parse::<f64>().is_err());
    let field = if is_formula {
        format!("'{field}")
    } else {
        field.to_owned()
    };
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_csv() {
        for (field, shown) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=SUM(A1)", "'=SUM(A1)"),
            ("-150", "-150"),
            ("-x", "'-x"),
        ] {
            assert_eq!(csv_field(field), shown);
        }
    }
}
