//! One script, named by its address or by its hash.

use axum::extract::State;
use axum::response::Response;
use cairn_http::{Answer, Conditions, HttpError, PathParams, QueryParams};
use cairn_utxo_chain::tx::ElementsOutput;
use cairn_utxo_index::{Family, ScriptHash, Tx, Unspent};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::blocks::{TXS_PER_PAGE, list_txs};
use crate::error::{Failure, no_tx};
use crate::json::JsonBuf;
use crate::objects::{AddressStats, ScriptHashStats, Transaction, TxSummary, Utxo};
use crate::scripts::listing::{self, MEMPOOL_TXS};
use crate::scripts::page::{MAX_TXS_FACTOR, Page};
use crate::scripts::shared::{history, summary};
use crate::state::{App, Reading};
use crate::{parse, render};

/// Addresses of one prefix search.
const PREFIX_RESULTS: usize = 10;

type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

/// How a client names a script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Naming {
    Address,
    ScriptHash,
}

impl Naming {
    /// Reads a name.
    pub(crate) fn read(self, app: &App, text: &str) -> Result<ScriptHash> {
        match self {
            Self::Address => Ok(ScriptHash::of(
                parse::address(text, app.network)?.as_bytes(),
            )),
            Self::ScriptHash => parse::script_hash(text).map(ScriptHash),
        }
    }

    /// The field that repeats the name.
    fn field(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::ScriptHash => "scripthash",
        }
    }
}

/// The routes of this module.
pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(address::router())
        .merge(scripthash::router())
        .routes(routes!(address_prefix))
}

async fn stats(app: App, naming: Naming, path: PathParams, conditions: Conditions) -> Result {
    let script = naming.read(&app, path.get(0))?;
    app.read(&conditions, move |reading| {
        let chain = reading.view.stats(&script)?;
        let mempool = reading.mempool().stats_of(&script);
        let mut out = JsonBuf::with_capacity(400);
        let named = (naming.field(), path.get(0));
        let family = reading.view.family();
        render::script_stats(&mut out, family, named, &chain, &mempool);
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// Unconfirmed transactions, then confirmed ones.
async fn txs(app: App, script: ScriptHash, page: Page, conditions: Conditions) -> Result {
    let is_usual = page.limit <= TXS_PER_PAGE;
    let work = move |reading: &Reading| listing::page(reading, &[script], &page)?.answer(reading);
    if is_usual {
        app.read_short(&conditions, work).await
    } else {
        app.read(&conditions, work).await
    }
}

async fn unconfirmed_txs(
    app: App,
    script: ScriptHash,
    limit: usize,
    conditions: Conditions,
) -> Result {
    app.read(&conditions, move |reading| {
        listing::unconfirmed(reading, script, limit).answer(reading)
    })
    .await
}

async fn confirmed_txs(app: App, script: ScriptHash, page: Page, conditions: Conditions) -> Result {
    let is_usual = page.limit <= TXS_PER_PAGE;
    let work = move |reading: &Reading| {
        let entries = history(reading, &[script], &page)?;
        Ok(list_txs(reading, &entries)?)
    };
    if is_usual {
        app.read_short(&conditions, work).await
    } else {
        app.read(&conditions, work).await
    }
}

async fn summary_of(app: App, script: ScriptHash, page: Page, conditions: Conditions) -> Result {
    app.read(&conditions, move |reading| {
        summary(reading, &[script], &page)
    })
    .await
}

/// On Elements each unspent output with the output itself: value, asset and proofs are in its transaction.
fn with_outputs(
    reading: &Reading,
    utxos: Vec<Unspent>,
) -> Result<Vec<(Unspent, Option<ElementsOutput>)>, Failure> {
    if reading.view.family() == Family::Bitcoin {
        return Ok(utxos.into_iter().map(|utxo| (utxo, None)).collect());
    }
    let mut found = Vec::with_capacity(utxos.len());
    for utxo in utxos {
        let raw = reading
            .view
            .tx_raw(&utxo.outpoint.txid)?
            .ok_or_else(no_tx)?;
        let decoded = Tx::decode_all(Family::Elements, &raw).map_err(|_| HttpError::internal())?;
        let output = decoded.tx.elements_output(utxo.outpoint.vout as usize);
        found.push((utxo, output.cloned()));
    }
    Ok(found)
}

async fn utxos(app: App, script: ScriptHash, conditions: Conditions) -> Result {
    app.read(&conditions, move |reading| {
        reading.mempool();
        let utxos = reading.view.unspent(&script)?;
        let mut out = JsonBuf::with_capacity(utxos.len() * 320 + 2);
        render::utxos(&mut out, &with_outputs(reading, utxos)?);
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}

/// The same endpoints under both names: module, way of naming, object of the totals, and the paths.
macro_rules! script_endpoints {
    (
        $module:ident, $naming:expr, $stats:ty, tag = $tag:literal, param = $param:literal, about = $about:literal,
        stats = $p_stats:literal, txs = $p_txs:literal, chain = $p_chain:literal, chain_after = $p_chain_after:literal,
        mempool = $p_mempool:literal, summary = $p_summary:literal, summary_after = $p_summary_after:literal, utxo = $p_utxo:literal,
    ) => {
        mod $module {
            use super::*;

            pub(super) fn router() -> OpenApiRouter<App> {
                OpenApiRouter::new()
                    .routes(routes!(stats))
                    .routes(routes!(txs))
                    .routes(routes!(txs_chain))
                    .routes(routes!(txs_chain_after))
                    .routes(routes!(txs_mempool))
                    .routes(routes!(txs_summary))
                    .routes(routes!(txs_summary_after))
                    .routes(routes!(utxo))
            }

            /// Totals.
            #[utoipa::path(get, path = $p_stats, tag = $tag,
                params(($param = String, Path, description = $about)),
                responses(
                    (status = 200, description = "the totals", body = $stats),
                    (status = 400, description = "not one of this network, or too long a history", body = String, content_type = "text/plain"),
                ))]
            async fn stats(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
                super::stats(app, $naming, path, conditions).await
            }

            /// The newest transactions: up to 50 unconfirmed ones, then 25 confirmed ones; with a length or a beginning, one list.
            #[utoipa::path(get, path = $p_txs, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("after_txid" = Option<String>, Query, description = "begin after this transaction"),
                    ("max_txs" = Option<u32>, Query, description = "transactions at most; 25 unless given, 250 at most"),
                ),
                responses(
                    (status = 200, description = "transactions, newest first", body = Vec<Transaction>),
                    (status = 400, description = "not one of this network", body = String, content_type = "text/plain"),
                    (status = 422, description = "after_txid is not of this history", body = String, content_type = "text/plain"),
                ))]
            async fn txs(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::txs(app, script, Page::after_query(&query)?, conditions).await
            }

            /// The newest confirmed transactions.
            #[utoipa::path(get, path = $p_chain, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("max_txs" = Option<u32>, Query, description = "transactions at most; 25 unless given, 250 at most"),
                ),
                responses(
                    (status = 200, description = "transactions, newest first", body = Vec<Transaction>),
                    (status = 400, description = "not one of this network", body = String, content_type = "text/plain"),
                ))]
            async fn txs_chain(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::confirmed_txs(app, script, Page::after_path(None, &query)?, conditions).await
            }

            /// Confirmed transactions after one of them. The walk ends with a page of fewer than 25.
            #[utoipa::path(get, path = $p_chain_after, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("last_seen_txid" = String, Path, description = "begin after this transaction"),
                    ("max_txs" = Option<u32>, Query, description = "transactions at most; 25 unless given, 250 at most"),
                ),
                responses(
                    (status = 200, description = "transactions, newest first; none if last_seen_txid is not of this history", body = Vec<Transaction>),
                    (status = 400, description = "not one of this network, or not a hash", body = String, content_type = "text/plain"),
                ))]
            async fn txs_chain_after(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::confirmed_txs(app, script, Page::after_path(Some(path.get(1)), &query)?, conditions).await
            }

            /// The unconfirmed transactions.
            #[utoipa::path(get, path = $p_mempool, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("max_txs" = Option<u32>, Query, description = "transactions at most; 50 unless given, 500 at most"),
                ),
                responses(
                    (status = 200, description = "transactions, the last to arrive first", body = Vec<Transaction>),
                    (status = 400, description = "not one of this network", body = String, content_type = "text/plain"),
                ))]
            async fn txs_mempool(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                let limit = parse::limit(&query, MEMPOOL_TXS, MEMPOOL_TXS * MAX_TXS_FACTOR)?;
                super::unconfirmed_txs(app, script, limit, conditions).await
            }

            /// What the newest transactions did to the balance.
            #[utoipa::path(get, path = $p_summary, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("max_txs" = Option<u32>, Query, description = "entries at most; 5000 unless given"),
                ),
                responses(
                    (status = 200, description = "entries, newest first", body = Vec<TxSummary>),
                    (status = 400, description = "not one of this network", body = String, content_type = "text/plain"),
                ))]
            async fn txs_summary(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::summary_of(app, script, Page::summary(None, &query)?, conditions).await
            }

            /// What transactions did to the balance, after one of them.
            #[utoipa::path(get, path = $p_summary_after, tag = $tag,
                params(
                    ($param = String, Path, description = $about),
                    ("last_seen_txid" = String, Path, description = "begin after this transaction"),
                    ("max_txs" = Option<u32>, Query, description = "entries at most; 5000 unless given"),
                ),
                responses(
                    (status = 200, description = "entries, newest first", body = Vec<TxSummary>),
                    (status = 400, description = "not one of this network, or not a hash", body = String, content_type = "text/plain"),
                    (status = 422, description = "last_seen_txid is not of this history", body = String, content_type = "text/plain"),
                ))]
            async fn txs_summary_after(State(app): State<App>, path: PathParams, query: QueryParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::summary_of(app, script, Page::summary(Some(path.get(1)), &query)?, conditions).await
            }

            /// Unspent outputs, oldest first, unconfirmed ones last; without those that an unconfirmed transaction spends.
            #[utoipa::path(get, path = $p_utxo, tag = $tag,
                params(($param = String, Path, description = $about)),
                responses(
                    (status = 200, description = "by height, position in the block, index", body = Vec<Utxo>),
                    (status = 400, description = "not one of this network, or too many outputs", body = String, content_type = "text/plain"),
                ))]
            async fn utxo(State(app): State<App>, path: PathParams, conditions: Conditions) -> Result {
                let script = $naming.read(&app, path.get(0))?;
                super::utxos(app, script, conditions).await
            }
        }
    };
}

script_endpoints! {
    address, Naming::Address, AddressStats, tag = "addresses", param = "address", about = "an address of this network",
    stats = "/address/{address}", txs = "/address/{address}/txs", chain = "/address/{address}/txs/chain",
    chain_after = "/address/{address}/txs/chain/{last_seen_txid}", mempool = "/address/{address}/txs/mempool",
    summary = "/address/{address}/txs/summary",
    summary_after = "/address/{address}/txs/summary/{last_seen_txid}", utxo = "/address/{address}/utxo",
}

script_endpoints! {
    scripthash, Naming::ScriptHash, ScriptHashStats, tag = "scripthashes", param = "hash",
    about = "SHA-256 of the script, hexadecimal, not reversed",
    stats = "/scripthash/{hash}", txs = "/scripthash/{hash}/txs", chain = "/scripthash/{hash}/txs/chain",
    chain_after = "/scripthash/{hash}/txs/chain/{last_seen_txid}", mempool = "/scripthash/{hash}/txs/mempool",
    summary = "/scripthash/{hash}/txs/summary",
    summary_after = "/scripthash/{hash}/txs/summary/{last_seen_txid}", utxo = "/scripthash/{hash}/utxo",
}

/// Up to ten addresses that begin with a prefix.
#[utoipa::path(get, path = "/address-prefix/{prefix}", tag = "addresses",
    params(("prefix" = String, Path, description = "the first characters")),
    responses(
        (status = 200, description = "addresses, ascending", body = Vec<String>),
        (status = 400, description = "not enabled in this index", body = String, content_type = "text/plain"),
    ))]
async fn address_prefix(
    State(app): State<App>,
    path: PathParams,
    conditions: Conditions,
) -> Result {
    app.read(&conditions, move |reading| {
        let addresses = reading.view.addresses(path.get(0), PREFIX_RESULTS)?;
        let mut out = JsonBuf::default();
        // The texts of addresses have nothing that JSON escapes.
        out.array(&addresses, |out, address| {
            out.raw("\"").raw(address).raw("\"");
        });
        Ok(Answer::json(out.into_bytes()))
    })
    .await
}
