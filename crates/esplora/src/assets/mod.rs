//! Assets of a chain of Elements: where they were issued, how much there is, their transactions, the registry.
//!
//! On a chain of Bitcoin there are none, and every id is an unknown one.

mod registry;

use std::cmp::Ordering;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use cairn_http::{Answer, CacheClass, Conditions, HttpError, PathParams, QueryParams};
use cairn_utxo_index::{AssetId, AssetIssue, AssetStats, Supply};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocks::TXS_PER_PAGE;
use crate::error::Failure;
use crate::json::JsonBuf;
use crate::objects::{Asset, Transaction};
use crate::scripts::{Listed, MEMPOOL_TXS};
use crate::state::{App, Reading};
use crate::{parse, render};

pub use registry::{AssetRegistry, RegisteredAsset, RegistryFolder};

/// Assets of one page of the registry, unless asked otherwise, and at most.
const REGISTRY_PAGE: usize = 25;
const REGISTRY_PAGE_MAX: usize = 100;
/// Longest text that is searched for, characters.
const SEARCH_CHARS_MAX: usize = 100;
/// How many assets there are in all, beside a page of them.
const TOTAL_HEADER: &str = "x-total-results";

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(asset))
        .routes(routes!(txs))
        .routes(routes!(txs_chain))
        .routes(routes!(txs_chain_after))
        .routes(routes!(txs_mempool))
        .routes(routes!(supply))
        .routes(routes!(supply_decimal))
        .routes(routes!(registry_page))
}

fn no_asset() -> Failure {
    HttpError::not_found("Asset id not found").into()
}

/// What is known of an asset's origin.
enum Origin {
    Native,
    Issued(AssetIssue),
}

fn origin(reading: &Reading, asset: &AssetId) -> Result<Origin, Failure> {
    reading.mempool();
    let native = reading
        .app
        .network
        .elements()
        .map(|chain| chain.native_asset);
    if native == Some(*asset) {
        return Ok(Origin::Native);
    }
    let issue = reading.view.asset(asset)?;
    issue.map(Origin::Issued).ok_or_else(no_asset)
}

/// An asset: where it was issued, its totals, and what the registry says of it.
#[utoipa::path(get, path = "/asset/{asset}", tag = "assets",
    params(("asset" = String, Path, description = "asset id")),
    responses(
        (status = 200, description = "the asset; of the native one only id and totals", body = Asset),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn asset(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    let asset = parse::asset(path.get(0))?;
    app.read(&conditions, move |reading| {
        let mut out = JsonBuf::with_capacity(1024);
        write_asset(reading, &mut out, &asset)?;
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

fn write_asset(reading: &Reading, out: &mut JsonBuf, asset: &AssetId) -> Result<(), Failure> {
    let origin = origin(reading, asset)?;
    let view = &reading.view;
    let chain = view.asset_stats(asset)?;
    let supply_txs = view.supply_tx_count(asset)?;
    let mempool = view.mempool_asset_stats(asset);
    let unconfirmed = view.unconfirmed_of_asset(asset, false).len() as u64;
    out.raw("{\"asset_id\":").reversed(asset.to_byte_array());
    if let Origin::Issued(issue) = &origin {
        out.raw(",\"issuance_txin\":{\"txid\":").hash(issue.txid);
        out.raw(",\"vin\":").number(issue.vin);
        out.raw("},\"issuance_prevout\":{\"txid\":")
            .hash(issue.spent.txid);
        out.raw(",\"vout\":").number(issue.spent.vout);
        out.raw("},\"reissuance_token\":")
            .reversed(issue.token.to_byte_array());
        if let Some(contract) = issue.contract_hash {
            out.raw(",\"contract_hash\":").reversed(contract);
        }
        out.raw(",\"status\":");
        render::status(out, issue.block.as_ref());
    }
    out.raw(",\"chain_stats\":");
    write_stats(out, &chain, supply_txs);
    out.raw(",\"mempool_stats\":");
    write_stats(out, &mempool, unconfirmed);
    if let Some(registered) = reading.app.options.registry.get(asset) {
        write_registered(out, &registered)?;
    }
    out.raw("}");
    Ok(())
}

fn write_stats(out: &mut JsonBuf, stats: &AssetStats, supply_txs: u64) {
    match stats {
        AssetStats::Issued(stats) => {
            out.raw("{\"tx_count\":").number(stats.tx_count);
            out.raw(",\"issuance_count\":").number(stats.issuance_count);
            out.raw(",\"issued_amount\":").number(stats.issued_amount);
            out.raw(",\"burned_amount\":").number(stats.burned_amount);
            out.raw(",\"has_blinded_issuances\":")
                .boolean(stats.has_blinded_issuances);
            out.raw(",\"reissuance_tokens\":");
            match stats.reissuance_tokens {
                Some(tokens) => out.number(tokens),
                None => out.raw("null"),
            };
            out.raw(",\"burned_reissuance_tokens\":")
                .number(stats.burned_reissuance_tokens);
        }
        AssetStats::Native(stats) => {
            out.raw("{\"tx_count\":").number(stats.tx_count);
            out.raw(",\"peg_in_count\":").number(stats.peg_in_count);
            out.raw(",\"peg_in_amount\":").number(stats.peg_in_amount);
            out.raw(",\"peg_out_count\":").number(stats.peg_out_count);
            out.raw(",\"peg_out_amount\":").number(stats.peg_out_amount);
            out.raw(",\"burn_count\":").number(stats.burn_count);
            out.raw(",\"burned_amount\":").number(stats.burned_amount);
        }
    }
    out.raw(",\"supply_tx_count\":").number(supply_txs).raw("}");
}

/// Text as a JSON string.
fn write_text(out: &mut JsonBuf, text: &str) -> Result<(), Failure> {
    let json = serde_json::to_vec(text).map_err(|_| HttpError::internal())?;
    out.json(&json);
    Ok(())
}

fn write_registered(out: &mut JsonBuf, asset: &RegisteredAsset) -> Result<(), Failure> {
    out.raw(",\"contract\":").raw(asset.contract.get());
    out.raw(",\"entity\":").raw(asset.entity.get());
    out.raw(",\"precision\":").number(asset.precision);
    out.raw(",\"name\":");
    write_text(out, &asset.name)?;
    if let Some(ticker) = &asset.ticker {
        out.raw(",\"ticker\":");
        write_text(out, ticker)?;
    }
    Ok(())
}

/// Whether plain transfers are wanted too.
fn transfers(query: &QueryParams) -> bool {
    query.get("transfers").is_some_and(|text| text == "true")
}

/// What a list of transactions is to hold.
#[derive(Clone, Copy)]
struct Wanted {
    asset: AssetId,
    transfers: bool,
    after: Option<bitcoin::Txid>,
    unconfirmed: bool,
    confirmed: bool,
}

async fn list(app: App, wanted: Wanted, conditions: Conditions) -> Result {
    app.read(&conditions, move |reading| {
        let Wanted {
            asset,
            transfers,
            after,
            ..
        } = wanted;
        origin(reading, &asset)?;
        let mut listed = Listed::default();
        if wanted.unconfirmed {
            listed.unconfirmed = reading.view.unconfirmed_of_asset(&asset, transfers);
            listed.unconfirmed.truncate(MEMPOOL_TXS);
        }
        if wanted.confirmed {
            listed.confirmed =
                reading
                    .view
                    .asset_history(&asset, transfers, after.as_ref(), TXS_PER_PAGE)?;
        }
        listed.answer(reading)
    })
    .await
}

/// Transactions of an asset: up to 50 unconfirmed ones, then 25 confirmed ones, newest first.
#[utoipa::path(get, path = "/asset/{asset}/txs", tag = "assets",
    params(
        ("asset" = String, Path, description = "asset id"),
        ("transfers" = Option<bool>, Query, description = "plain transfers too, and not only what changes the supply"),
    ),
    responses(
        (status = 200, description = "transactions", body = Vec<Transaction>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn txs(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let wanted = Wanted {
        asset: parse::asset(path.get(0))?,
        transfers: transfers(&query),
        after: None,
        unconfirmed: true,
        confirmed: true,
    };
    list(app, wanted, conditions).await
}

/// The newest 25 confirmed transactions of an asset.
#[utoipa::path(get, path = "/asset/{asset}/txs/chain", tag = "assets",
    params(
        ("asset" = String, Path, description = "asset id"),
        ("transfers" = Option<bool>, Query, description = "plain transfers too"),
    ),
    responses(
        (status = 200, description = "transactions, newest first", body = Vec<Transaction>),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn txs_chain(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let wanted = Wanted {
        asset: parse::asset(path.get(0))?,
        transfers: transfers(&query),
        after: None,
        unconfirmed: false,
        confirmed: true,
    };
    list(app, wanted, conditions).await
}

/// The 25 confirmed transactions of an asset before a given one.
#[utoipa::path(get, path = "/asset/{asset}/txs/chain/{last_seen_txid}", tag = "assets",
    params(
        ("asset" = String, Path, description = "asset id"),
        ("last_seen_txid" = String, Path, description = "begin after this transaction"),
        ("transfers" = Option<bool>, Query, description = "plain transfers too"),
    ),
    responses(
        (status = 200, description = "transactions, newest first; none if last_seen_txid is not of this list", body = Vec<Transaction>),
        (status = 400, description = "not a hash", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn txs_chain_after(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let wanted = Wanted {
        asset: parse::asset(path.get(0))?,
        transfers: transfers(&query),
        after: Some(parse::txid(path.get(1))?),
        unconfirmed: false,
        confirmed: true,
    };
    list(app, wanted, conditions).await
}

/// Up to 50 unconfirmed transactions of an asset.
#[utoipa::path(get, path = "/asset/{asset}/txs/mempool", tag = "assets",
    params(
        ("asset" = String, Path, description = "asset id"),
        ("transfers" = Option<bool>, Query, description = "plain transfers too"),
    ),
    responses(
        (status = 200, description = "transactions, the last to arrive first", body = Vec<Transaction>),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn txs_mempool(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    conditions: Conditions,
) -> Result {
    let wanted = Wanted {
        asset: parse::asset(path.get(0))?,
        transfers: transfers(&query),
        after: None,
        unconfirmed: true,
        confirmed: false,
    };
    list(app, wanted, conditions).await
}

async fn supply_text(
    app: App,
    asset: AssetId,
    precision: impl FnOnce(&Reading) -> u8 + Send + 'static,
    conditions: Conditions,
) -> Result {
    app.read(&conditions, move |reading| {
        origin(reading, &asset)?;
        match reading.view.supply(&asset)? {
            Supply::Known(units) => Ok(Answer::text(decimal(units, precision(reading)))),
            Supply::Blinded => Err(HttpError::bad_request("Asset supply is blinded").into()),
        }
    })
    .await
}

/// How much there is of an asset, in base units; chain and mempool together.
#[utoipa::path(get, path = "/asset/{asset}/supply", tag = "assets",
    params(("asset" = String, Path, description = "asset id")),
    responses(
        (status = 200, description = "base units", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash, or an issued amount is blinded", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn supply(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
    supply_text(app, parse::asset(path.get(0))?, |_| 0, conditions).await
}

/// The same as a decimal number with the digits that the registry gives the asset.
#[utoipa::path(get, path = "/asset/{asset}/supply/decimal", tag = "assets",
    params(("asset" = String, Path, description = "asset id")),
    responses(
        (status = 200, description = "a decimal number", body = String, content_type = "text/plain"),
        (status = 400, description = "not a hash, or an issued amount is blinded", body = String, content_type = "text/plain"),
        (status = 404, description = "unknown", body = String, content_type = "text/plain"),
    ))]
async fn supply_decimal(
    State(app): State<App>,
    path: PathParams,
    conditions: Conditions,
) -> Result {
    /// Digits of the coins of the parent chain.
    const NATIVE_PRECISION: u8 = 8;
    let asset = parse::asset(path.get(0))?;
    let precision = move |reading: &Reading| {
        let chain = reading.app.network.elements();
        let registered = reading.app.options.registry.get(&asset);
        match (
            registered,
            chain.is_some_and(|chain| chain.native_asset == asset),
        ) {
            (Some(registered), _) => registered.precision,
            (None, true) => NATIVE_PRECISION,
            (None, false) => 0,
        }
    };
    supply_text(app, asset, precision, conditions).await
}

/// Base units as a decimal number, by whole-number division, without trailing zeros.
fn decimal(units: u64, precision: u8) -> String {
    let one = 10u64.checked_pow(u32::from(precision)).unwrap_or(1);
    let (whole, part) = (units / one, units % one);
    if part == 0 {
        return whole.to_string();
    }
    let digits = format!("{part:0width$}", width = usize::from(precision));
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// What the registry is sorted by.
#[derive(Debug, Clone, Copy)]
enum SortField {
    Ticker,
    Name,
    Domain,
}

/// One asset with what it is sorted by: none before some, in lower case.
struct Sorted {
    key: Option<String>,
    id: AssetId,
}

fn sort_key(asset: &RegisteredAsset, field: SortField) -> Option<String> {
    let text = match field {
        SortField::Ticker => asset.ticker.clone(),
        SortField::Name => Some(asset.name.clone()),
        SortField::Domain => asset.domain(),
    };
    text.map(|text| text.to_lowercase())
}

/// Whether a lower-case text is in ticker, name, domain or id.
fn matches(id: &AssetId, asset: &RegisteredAsset, search: &str) -> bool {
    let fields = [
        asset.ticker.clone(),
        Some(asset.name.clone()),
        asset.domain(),
    ];
    id.to_string().starts_with(search)
        || fields
            .into_iter()
            .flatten()
            .any(|text| text.to_lowercase().contains(search))
}

/// Registered assets that are issued on the chain.
#[utoipa::path(get, path = "/assets/registry", tag = "assets",
    params(
        ("start_index" = Option<u32>, Query, description = "begin with this one; 0 unless given"),
        ("limit" = Option<u32>, Query, description = "assets at most; 25 unless given, 100 at most"),
        ("sort_field" = Option<String>, Query, description = "ticker, name or domain"),
        ("sort_dir" = Option<String>, Query, description = "asc or desc"),
        ("search" = Option<String>, Query, description = "only those with this text in ticker, name or domain, or whose id begins with it"),
    ),
    responses(
        (status = 200, description = "assets; the header X-Total-Results tells how many there are in all", body = Vec<Asset>),
        (status = 400, description = "an unknown field or direction, or not a number", body = String, content_type = "text/plain"),
    ))]
async fn registry_page(State(app): State<App>, query: QueryParams) -> Result {
    let number = |name: &str, default: usize| match query.get(name) {
        None | Some("") => Ok(default),
        Some(text) => parse::number(text).map(|number| number as usize),
    };
    let start = number("start_index", 0)?;
    let limit = number("limit", REGISTRY_PAGE)?.min(REGISTRY_PAGE_MAX);
    let field = match query.get("sort_field").unwrap_or("ticker") {
        "ticker" => SortField::Ticker,
        "name" => SortField::Name,
        "domain" => SortField::Domain,
        _ => return Err(HttpError::bad_request("invalid sort field")),
    };
    let is_descending = match query.get("sort_dir").unwrap_or("asc") {
        "asc" => false,
        "desc" => true,
        _ => return Err(HttpError::bad_request("invalid sort direction")),
    };
    let search: String = query.get("search").unwrap_or("").to_lowercase();
    let search: String = search.chars().take(SEARCH_CHARS_MAX).collect();
    let conditions = Conditions::default();
    let total = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&total);
    let work = move |reading: &Reading| {
        let assets = reading.app.options.registry.assets();
        let mut sorted: Vec<Sorted> = assets
            .iter()
            .filter(|(id, asset)| search.is_empty() || matches(id, asset, &search))
            .map(|(id, asset)| Sorted {
                key: sort_key(asset, field),
                id: *id,
            })
            .collect();
        sorted.sort_by(|a, b| {
            let by_key = a.key.cmp(&b.key);
            let by_key = if is_descending {
                by_key.reverse()
            } else {
                by_key
            };
            by_key.then_with(|| printed(&a.id, &b.id))
        });
        // Registered without being issued: nothing to show.
        let mut issued = Vec::new();
        for entry in sorted {
            if origin(reading, &entry.id).is_ok() {
                issued.push(entry);
            }
        }
        counted.store(issued.len(), std::sync::atomic::Ordering::Relaxed);
        let mut out = JsonBuf::with_capacity(limit * 1024);
        let mut failed = None;
        out.array(issued.iter().skip(start).take(limit), |out, entry| {
            if let Err(error) = write_asset(reading, out, &entry.id) {
                failed.get_or_insert(error);
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(Answer::json(out.into_bytes()).cache(CacheClass::NoStore)),
        }
    };
    let mut response = app.read(&conditions, work).await?;
    let total = total.load(std::sync::atomic::Ordering::Relaxed);
    response
        .headers_mut()
        .insert(TOTAL_HEADER, HeaderValue::from(total));
    Ok(response.into_response())
}

/// By the printed form.
fn printed(a: &AssetId, b: &AssetId) -> Ordering {
    a.as_byte_array()
        .iter()
        .rev()
        .cmp(b.as_byte_array().iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (units, precision, text) in [
            (145_000_000, 8, "1.45"),
            (0, 8, "0"),
            (1, 8, "0.00000001"),
            (u64::MAX, 8, "184467440737.09551615"),
            (9_007_199_254_740_993, 8, "90071992.54740993"),
            (100, 2, "1"),
            (7, 0, "7"),
        ] {
            assert_eq!(decimal(units, precision), text);
        }
    }
}
