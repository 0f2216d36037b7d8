//! Events by plain requests, for clients that can do nothing else.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cairn_http::{CacheClass, PathParams, QueryParams};
use tokio::time::{Instant, timeout_at};

use crate::client::Told;
use crate::consumer::{Consumer, members};
use crate::error::ApiError;
use crate::objects::{BatchAnswer, ErrorAnswer};
use crate::params;
use crate::state::App;

/// How long a request waits for the first event unless it says otherwise, milliseconds.
const WAIT_MS: u64 = 5_000;
/// How long it may wait: below the time of one request.
const WAIT_MS_MAX: u64 = 8_000;
/// After the first event: how long for more that are just on their way.
const MORE: Duration = Duration::from_millis(5);
/// An answer is not made larger than this by one more event, bytes.
const ANSWER_BYTES: usize = 4 << 20;

/// The oldest events of a subscription that are not acknowledged, at most `limit`; waits for the first one.
///
/// What was not acknowledged since comes again, so a client acknowledges (`POST …/acks`) before it asks for more.
#[utoipa::path(get, path = "/api/streams/{chain}/subscriptions/{sub}/batch", tag = "subscriptions",
    params(
        ("chain" = String, Path, description = "the chain's id"),
        ("sub" = String, Path, description = "the subscription's id"),
        ("limit" = Option<u64>, Query, description = "most events; 100 unless given, at most 10000"),
        ("waitMs" = Option<u64>, Query, description = "how long to wait for the first; 5000 unless given, at most 8000"),
        ("filters" = Option<String>, Query, description = "which events, a JSON list; everything unless given"),
        ("startFrom" = Option<String>, Query, description = "where a new subscription begins: last_known, first, head-minus-K, or a block's number"),
        ("forks" = Option<bool>, Query, description = "whether forks come whatever the filters say; yes unless false"),
        ("allowGap" = Option<bool>, Query, description = "begin at the oldest event when startFrom was trimmed away"),
        ("job" = Option<String>, Query, description = "read the stream of this reparse job instead of the live one"),
    ),
    responses(
        (status = 200, description = "the events; none when none came, or another client works", body = BatchAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
        (status = 401, description = "not the token", body = ErrorAnswer),
        (status = 404, description = "no such chain", body = ErrorAnswer),
        (status = 409, description = "in use with other filters", body = ErrorAnswer),
        (status = 410, description = "startFrom was trimmed away", body = ErrorAnswer),
        (status = 503, description = "off, stopping, or full", body = ErrorAnswer),
    ))]
pub(crate) async fn batch(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wait = params::number(&query, "waitMs")?
        .unwrap_or(WAIT_MS)
        .min(WAIT_MS_MAX);
    let limit = params::window(&query, "limit")?;
    let mut until = Instant::now() + Duration::from_millis(wait);
    let mut consumer = Consumer::connect(&app, &path, &query, &headers, "limit").await?;
    let mut role = "standby";
    let mut events = String::new();
    let mut count = 0;
    while count < limit && events.len() < ANSWER_BYTES {
        match timeout_at(until, consumer.told.recv()).await {
            Ok(Some(Told::Event(given))) => {
                if count > 0 {
                    events.push(',');
                }
                events.push('{');
                members(&given, &mut events);
                events.push('}');
                count += 1;
                until = until.min(Instant::now() + MORE);
            }
            Ok(Some(Told::Active { .. })) => role = "active",
            Ok(Some(Told::Standby)) => role = "standby",
            Ok(Some(Told::Failed(error))) => return Err(error),
            Ok(None) | Err(_) => break,
        }
    }
    let mut response = format!("{{\"role\":\"{role}\",\"events\":[{events}]}}").into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    Ok(response)
}
