//! Why a page cannot be shown, and what the reader is told.

use axum::http::StatusCode;
use cairn_antelope_parser::AbiStoreError;
use cairn_http::HttpError;
use cairn_scanner::ScannerError;
use cairn_stream::StreamError;
use cairn_utxo_index::QueryError;

/// A page that could not be made. The text of every case but [`PageError::Internal`] is shown to the reader.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The address of the page is well formed and names nothing.
    #[error("{text}")]
    NotFound {
        /// What does not exist.
        text: String,
        /// What the text was taken for, one line each.
        tried: Vec<String>,
    },
    /// The address of the page makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// Who asks may not.
    #[error("{0}")]
    Forbidden(String),
    /// The first load is not complete; the page shows how far it is. Carries the ledger's name and the markup of its
    /// progress.
    #[error("not searched: its first load is not complete")]
    Indexing {
        /// Whose index.
        ledger: String,
        /// Progress as markup of the ledger's template: already escaped.
        progress: String,
    },
    /// Something that the answer needs is not there now; asking again can help.
    #[error("{0}")]
    Unavailable(String),
    /// A defect. The cause goes to the log, the reader gets a general sentence.
    #[error("{0}")]
    Internal(String),
}

impl PageError {
    /// Nothing of this name.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        PageError::NotFound {
            text: text.into(),
            tried: Vec::new(),
        }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            PageError::NotFound { .. } => StatusCode::NOT_FOUND,
            PageError::BadRequest(_) => StatusCode::BAD_REQUEST,
            PageError::Forbidden(_) => StatusCode::FORBIDDEN,
            PageError::Indexing { .. } | PageError::Unavailable(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            PageError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<QueryError> for PageError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::OutOfRange => PageError::not_found("There is no such page of this block."),
            QueryError::TooManyUtxos
            | QueryError::TooManyRows
            | QueryError::AddressSearchDisabled => {
                PageError::BadRequest(format!("This question has no answer here: {error}."))
            }
            QueryError::Node(cause) => PageError::Unavailable(format!(
                "The node is needed for this page and did not answer: {cause}"
            )),
            QueryError::Deadline => PageError::Unavailable(
                "The page took too long to make. Try again in a moment.".into(),
            ),
            QueryError::Store(cause) => PageError::Internal(cause),
        }
    }
}

impl From<StreamError> for PageError {
    fn from(error: StreamError) -> Self {
        if error.is_transient() {
            return PageError::Unavailable(format!("The event stream cannot be read now: {error}"));
        }
        PageError::Internal(error.to_string())
    }
}

impl From<AbiStoreError> for PageError {
    fn from(error: AbiStoreError) -> Self {
        if error.is_transient() {
            return PageError::Unavailable(format!("The ABI history cannot be read now: {error}"));
        }
        PageError::Internal(error.to_string())
    }
}

impl From<cairn_scanner::QueryError> for PageError {
    fn from(error: cairn_scanner::QueryError) -> Self {
        match error {
            cairn_scanner::QueryError::Invalid { message, .. } => {
                PageError::BadRequest(format!("This page cannot be shown: {message}."))
            }
            cairn_scanner::QueryError::Store(error) => error.into(),
        }
    }
}

impl From<ScannerError> for PageError {
    fn from(error: ScannerError) -> Self {
        if error.is_transient() {
            return PageError::Unavailable(format!("The ledger cannot be read now: {error}"));
        }
        PageError::Internal(error.to_string())
    }
}

impl From<HttpError> for PageError {
    /// What the blocking pool says: no place or no result in time, or (already logged) a panic.
    fn from(error: HttpError) -> Self {
        if error.status() == StatusCode::INTERNAL_SERVER_ERROR {
            return PageError::Internal("the work of the page panicked".into());
        }
        PageError::Unavailable(format!(
            "The page could not be made now: {}. Try again in a moment.",
            error.text()
        ))
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        PageError::Internal(format!("template: {error}"))
    }
}
