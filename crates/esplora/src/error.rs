//! From the index's failures to answers.

use axum::http::StatusCode;
use cairn_http::HttpError;
use cairn_utxo_index::QueryError;

/// Why a reading gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Decided here.
    Http(HttpError),
    /// The index's reason.
    Query(QueryError),
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl From<Failure> for HttpError {
    /// What is ours or the node's is 5xx, what the client can repair is 4xx: wallets take a 404 as "does not exist".
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Http(error) => return error,
            Failure::Query(error) => error,
        };
        match error {
            QueryError::TooManyUtxos
            | QueryError::TooManyRows
            | QueryError::AddressSearchDisabled
            | QueryError::OutOfRange => Self::new(StatusCode::BAD_REQUEST, error.to_string()),
            QueryError::Deadline => Self::deadline(),
            QueryError::Node(reason) => {
                tracing::warn!(reason, "the node did not answer a lookup");
                Self::unavailable(reason)
            }
            QueryError::Store(reason) => {
                tracing::error!(reason, "the index could not answer");
                Self::internal()
            }
        }
    }
}

/// 404 for a block.
pub(crate) fn no_block() -> Failure {
    HttpError::not_found("Block not found").into()
}

/// 404 for a transaction.
pub(crate) fn no_tx() -> Failure {
    HttpError::not_found("Transaction not found").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_texts() {
        for (error, status, text) in [
            (QueryError::TooManyUtxos, 400, "Too many unspent outputs"),
            (
                QueryError::TooManyRows,
                400,
                "Scripthash history too large to scan",
            ),
            (
                QueryError::AddressSearchDisabled,
                400,
                "address search disabled",
            ),
            (QueryError::OutOfRange, 400, "start index out of range"),
            (
                QueryError::Node("node is warming up".into()),
                503,
                "node is warming up",
            ),
            (QueryError::Deadline, 503, "deadline exceeded"),
            (
                QueryError::Store("row H… damaged".into()),
                500,
                "Internal server error",
            ),
        ] {
            let answer = HttpError::from(Failure::from(error));
            assert_eq!((answer.status().as_u16(), answer.text()), (status, text));
        }
    }
}
