//! The parameters of a page.

use bitcoin::Txid;
use cairn_http::{HttpError, QueryParams};

use crate::blocks::TXS_PER_PAGE;
use crate::parse;

/// `max_txs` may ask for so many times the usual page.
const MAX_TXS_FACTOR: usize = 10;
/// Entries of a summary; also the most that may be asked for.
pub(crate) const SUMMARY_ENTRIES: usize = 5_000;

/// Where a page begins and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// The page begins after this transaction.
    pub(crate) after: Option<Txid>,
    /// Whether an unknown `after` is an error (a query parameter) or the end of the walk (a path segment).
    pub(crate) after_must_exist: bool,
    /// Transactions at most.
    pub(crate) limit: usize,
}

impl Page {
    /// A page of transactions after a path segment, if there is one.
    pub(crate) fn after_path(last: Option<&str>, query: &QueryParams) -> Result<Self, HttpError> {
        let after = last.map(parse::txid).transpose()?;
        Ok(Self {
            after,
            after_must_exist: false,
            limit: tx_limit(query)?,
        })
    }

    /// A page of transactions after the query's `after_txid`, if there is one.
    pub(crate) fn after_query(query: &QueryParams) -> Result<Self, HttpError> {
        let after = query.get("after_txid").filter(|text| !text.is_empty());
        let after = after.map(parse::txid).transpose()?;
        Ok(Self {
            after,
            after_must_exist: true,
            limit: tx_limit(query)?,
        })
    }

    /// A page of a summary.
    pub(crate) fn summary(last: Option<&str>, query: &QueryParams) -> Result<Self, HttpError> {
        let after = last.map(parse::txid).transpose()?;
        let limit = asked_limit(query)?
            .unwrap_or(SUMMARY_ENTRIES)
            .min(SUMMARY_ENTRIES);
        Ok(Self {
            after,
            after_must_exist: true,
            limit,
        })
    }
}

fn tx_limit(query: &QueryParams) -> Result<usize, HttpError> {
    Ok(asked_limit(query)?
        .unwrap_or(TXS_PER_PAGE)
        .min(TXS_PER_PAGE * MAX_TXS_FACTOR))
}

fn asked_limit(query: &QueryParams) -> Result<Option<usize>, HttpError> {
    match query.get("max_txs").filter(|text| !text.is_empty()) {
        Some(text) => Ok(Some(parse::number(text)? as usize)),
        None => Ok(None),
    }
}

/// 422 for a cursor that is no transaction of the history.
pub(crate) fn unknown_cursor() -> HttpError {
    HttpError::unprocessable("after_txid not found")
}
