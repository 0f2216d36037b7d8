//! What the ledger puts into the shared event stream: every created transaction and revision, at least once. An event's id
//! is made of the stream's name, its kind and its own id, so it is the same for ever.

use cairn_stream::{BlockTime, EventLog, Json, LedgerEvent, StreamError, keys};

use crate::apply::dead_letter_json;
use crate::error::ScannerError;
use crate::request::Command;
use crate::scanner::Scanner;
use crate::store::{Batch, Slot};

/// The subscription under which operations that cannot be applied are found.
const DEAD_LETTER_SUBSCRIPTION: &str = "ledger-operations";
/// Kind of the event of a transaction.
pub const TX_EVENT: &str = "ledger-tx";
/// Kind of the event of a revision.
pub const BLOCK_EVENT: &str = "ledger-block";

/// An event on its way.
pub(crate) struct FeedEvent<'a> {
    /// [`TX_EVENT`] or [`BLOCK_EVENT`].
    pub(crate) kind: &'static str,
    /// What tells it apart from all others of its kind.
    pub(crate) key: String,
    /// When it happened, milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// The row.
    pub(crate) json: &'a str,
}

/// Appends events to the stream in one step.
pub(crate) async fn publish(log: &EventLog, events: &[FeedEvent<'_>]) -> Result<(), ScannerError> {
    let events: Vec<LedgerEvent<'_>> = events
        .iter()
        .filter_map(|event| {
            Some(LedgerEvent {
                kind: event.kind,
                letter: if event.kind == TX_EVENT { 't' } else { 'b' },
                key: &event.key,
                time: BlockTime::from_unix_ms(event.at_ms)?,
                data: Json::made(event.json),
            })
        })
        .collect();
    if events.is_empty() {
        return Ok(());
    }
    match log.append(&events).await {
        Ok(_) => Ok(()),
        Err(StreamError::Redis(error)) => Err(error.into()),
        Err(error) => Err(ScannerError::Corrupt {
            key: log.key().to_owned(),
            why: error.to_string(),
        }),
    }
}

/// An operation that cannot be applied, for a person to look at.
pub(crate) fn dead_letter(
    scanner: &Scanner,
    command: &Command,
    attempts: u32,
    batch: &mut Batch,
) -> Slot {
    let key = keys::dead_letters(&scanner.options().stream, DEAD_LETTER_SUBSCRIPTION);
    batch.add("XADD", key, |add| {
        add.arg("*")
            .arg(keys::DATA_FIELD)
            .arg(dead_letter_json(command));
        add.arg("failureCount").arg(attempts);
        add.arg("lastError").arg("see the log of the indexer");
        add.arg("subId").arg(DEAD_LETTER_SUBSCRIPTION);
    })
}
