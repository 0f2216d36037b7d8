//! The HTTP API of an application ledger: what the application tells, and what anybody may ask.
//!
//! [`router`] gives whole paths (`/api/scanner/…`, `/api/analytics/…`, `/api/ingest/…`, `/api/admin/scanner/…`), to be served
//! behind a `cairn_http::Surface`, which answers conditional requests by the tags set here. [`openapi`] describes them.
//!
//! Answers are JSON; errors are `{"error": text, "code": word}`, with `details` when fields are wrong. Nothing private is in
//! any answer: no session id, no credential, no property of an event that the catalogue does not name.

mod access;
mod admin;
mod analytics;
mod answer;
mod blocks;
mod error;
mod export;
mod head;
mod ingest;
mod live;
mod nodes;
pub mod objects;
mod openapi;
mod params;
mod spaces;
mod state;
mod track;
mod txs;

pub use cairn_http::Token;
pub use live::LiveFeed;
pub use openapi::{openapi, router};
pub use state::{ApiOptions, ApiState};
