//! Questions about the ledger. Each costs a constant number of round trips, whatever the size of the history.

pub(crate) mod blocks;
pub(crate) mod events;
pub(crate) mod head;
pub(crate) mod hours;
pub(crate) mod nodes;
pub(crate) mod page;
pub(crate) mod search;
pub(crate) mod spaces;
pub(crate) mod txs;

use crate::error::ScannerError;
use crate::scanner::{Counts, Scanner};
use crate::tx::Tx;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The question itself is wrong: a stable word and a sentence.
    #[error("{message}")]
    Invalid {
        /// For programs: `invalid_cursor`, ….
        code: &'static str,
        /// For people.
        message: String,
    },
    /// The ledger could not be read.
    #[error(transparent)]
    Store(#[from] ScannerError),
}

impl QueryError {
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid {
            code,
            message: message.into(),
        }
    }
}

impl Scanner {
    /// Rows by id, in their order. One that is missing or cannot be read is counted, logged and left out.
    pub(crate) async fn rows(&self, ids: &[String]) -> Result<Vec<Option<Tx>>, ScannerError> {
        let keys = ids.iter().map(|id| self.keys().tx(id)).collect();
        let values = self.store().values(keys).await?;
        Ok(ids
            .iter()
            .zip(values)
            .map(|(id, json)| self.row(id, json.as_deref()))
            .collect())
    }

    fn row(&self, id: &str, json: Option<&str>) -> Option<Tx> {
        let read = match json {
            Some(json) => Tx::from_json(json, self.keys().host())
                .map_err(|faults| faults.first().map_or_else(String::new, ToString::to_string)),
            None => Err("the key is missing or of another type".to_owned()),
        };
        match read {
            Ok(tx) => Some(tx),
            Err(why) => {
                Counts::add(&self.counts().corrupt_rows, 1);
                tracing::warn!(key = %self.keys().tx(id), why, "a listed row cannot be read; it is left out");
                None
            }
        }
    }
}

/// Pairs of member and score, as Redis answers them.
pub(crate) fn scored(flat: Vec<String>) -> Vec<(String, i64)> {
    let mut pairs = Vec::with_capacity(flat.len() / 2);
    let mut flat = flat.into_iter();
    while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
        pairs.push((member, score_of(&score)));
    }
    pairs
}

/// A score that we wrote: a whole number, which Redis may print with an exponent.
fn score_of(text: &str) -> i64 {
    text.parse::<i64>().unwrap_or_else(|_| {
        let number = text.parse::<f64>().unwrap_or(0.0);
        // Whole and within 2^53: we wrote it.
        number as i64
    })
}
