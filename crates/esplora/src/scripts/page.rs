//! The parameters of a page.

use bitcoin::Txid;
use cairn_http::{HttpError, QueryParams};

use crate::blocks::TXS_PER_PAGE;
use crate::parse;

/// `max_txs` may ask for so many times the usual page.
pub(crate) const MAX_TXS_FACTOR: usize = 10;
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
    /// Whether the client said how many it wants.
    pub(crate) is_length_given: bool,
}

impl Page {
    /// A page of transactions after a path segment, if there is one.
    pub(crate) fn after_path(last: Option<&str>, query: &QueryParams) -> Result<Self, HttpError> {
        let after = last.map(parse::txid).transpose()?;
        Ok(Self {
            after,
            after_must_exist: false,
            limit: parse::limit(query, TXS_PER_PAGE, TXS_PER_PAGE * MAX_TXS_FACTOR)?,
            is_length_given: is_length_given(query),
        })
    }

    /// A page of transactions after the query's `after_txid`, if there is one.
    pub(crate) fn after_query(query: &QueryParams) -> Result<Self, HttpError> {
        let after = query.get("after_txid").filter(|text| !text.is_empty());
        let after = after.map(parse::txid).transpose()?;
        Ok(Self {
            after,
            after_must_exist: true,
            limit: parse::limit(query, TXS_PER_PAGE, TXS_PER_PAGE * MAX_TXS_FACTOR)?,
            is_length_given: is_length_given(query),
        })
    }

    /// A page of a summary.
    pub(crate) fn summary(last: Option<&str>, query: &QueryParams) -> Result<Self, HttpError> {
        let after = last.map(parse::txid).transpose()?;
        Ok(Self {
            after,
            after_must_exist: true,
            limit: parse::limit(query, SUMMARY_ENTRIES, SUMMARY_ENTRIES)?,
            is_length_given: is_length_given(query),
        })
    }
}

fn is_length_given(query: &QueryParams) -> bool {
    query.get("max_txs").is_some_and(|text| !text.is_empty())
}

/// 422 for a cursor that is no transaction of the history.
pub(crate) fn unknown_cursor() -> HttpError {
    HttpError::unprocessable("after_txid not found")
}
