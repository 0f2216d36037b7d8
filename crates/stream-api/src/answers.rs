//! The client's answers, and the list of subscriptions.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cairn_http::{CacheClass, PathParams, QueryParams, read_body};
use cairn_stream::subscription::admin;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::message::{Answers, MESSAGE_BYTES_MAX};
use crate::objects::{AcksAnswer, AcksBody, ErrorAnswer, SubscriptionObject};
use crate::params;
use crate::state::App;

/// Says which events were handled, and which were not.
///
/// What was handled is not given out again. What was not is, after a pause, and goes to the dead letters after three failures.
/// Ids that are unknown were answered for already, or were given to another client meanwhile.
#[utoipa::path(post, path = "/api/streams/{chain}/subscriptions/{sub}/acks", tag = "subscriptions",
    params(
        ("chain" = String, Path, description = "the chain's id"),
        ("sub" = String, Path, description = "the subscription's id"),
        ("job" = Option<String>, Query, description = "of the stream of this reparse job"),
    ),
    request_body = AcksBody,
    responses(
        (status = 200, description = "how many", body = AcksAnswer),
        (status = 400, description = "the body cannot be used", body = ErrorAnswer),
        (status = 401, description = "not the token", body = ErrorAnswer),
        (status = 404, description = "no such chain", body = ErrorAnswer),
        (status = 409, description = "no client of this subscription is connected to this server", body = ErrorAnswer),
    ))]
pub(crate) async fn acks(
    State(app): State<App>,
    path: PathParams,
    query: QueryParams,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, ApiError> {
    app.admit(&headers)?;
    let (source, sub_id) = app.subscription(&path, params::get(&query, "job"))?;
    let body = read_body(request, MESSAGE_BYTES_MAX).await?;
    let answers = std::str::from_utf8(&body)
        .map_err(|_| "not UTF-8".to_owned())
        .and_then(Answers::parse_body)
        .map_err(|error| ApiError::bad_request("invalid_body", error))?;
    let settled = app.hosts.settle(source, sub_id, answers).await?;
    Ok(answer(&json!({
        "acknowledged": settled.acknowledged, "failed": settled.failed, "unknown": settled.unknown,
    })))
}

/// The subscriptions of a chain, with what they have not got yet.
#[utoipa::path(get, path = "/api/streams/{chain}/subscriptions", tag = "subscriptions",
    params(("chain" = String, Path, description = "the chain's id")),
    responses(
        (status = 200, description = "the subscriptions", body = Vec<SubscriptionObject>),
        (status = 401, description = "not the token", body = ErrorAnswer),
        (status = 404, description = "no such chain", body = ErrorAnswer),
        (status = 503, description = "off, or the store does not answer", body = ErrorAnswer),
    ))]
pub(crate) async fn list(
    State(app): State<App>,
    path: PathParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.admit(&headers)?;
    let chain = app.chain(&path)?;
    let list = admin::list(&app.redis, chain)
        .await
        .map_err(|error| ApiError::store(&error))?;
    let list: Vec<Value> = list.iter().map(admin::SubscriptionInfo::to_json).collect();
    Ok(answer(&Value::Array(list)))
}

fn answer(value: &Value) -> Response {
    let mut response = value.to_string().into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    response
}
