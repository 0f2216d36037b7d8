//! What a client asks for in the query of its connection.

use cairn_http::{QueryParams, parse_decimal};
use cairn_stream::Filters;
use cairn_stream::subscription::{SubId, SubscriptionOptions};

use crate::error::ApiError;
use crate::hosts::WINDOW_MAX;

/// Events without an answer unless the client says otherwise.
const WINDOW: usize = 100;

/// A parameter that is given and not empty.
pub(crate) fn get<'a>(query: &'a QueryParams, name: &str) -> Option<&'a str> {
    query.get(name).filter(|value| !value.is_empty())
}

/// The subscription that the query describes.
pub(crate) fn options(query: &QueryParams, sub_id: SubId) -> Result<SubscriptionOptions, ApiError> {
    let mut options = SubscriptionOptions::new(sub_id);
    if let Some(text) = get(query, "filters") {
        options.filters = Filters::parse(text)
            .map_err(|error| ApiError::bad_request("invalid_filters", error.to_string()))?;
    }
    if let Some(text) = get(query, "startFrom") {
        options.start_from = text.parse().map_err(|error| {
            ApiError::bad_request("invalid_start", format!("startFrom: {error}"))
        })?;
    }
    options.forks = flag(query, "forks", true)?;
    options.allow_gap = flag(query, "allowGap", false)?;
    Ok(options)
}

/// Most events without an answer.
pub(crate) fn window(query: &QueryParams, name: &str) -> Result<usize, ApiError> {
    let number = number(query, name)?.unwrap_or(WINDOW as u64);
    Ok(usize::try_from(number)
        .unwrap_or(WINDOW_MAX)
        .clamp(1, WINDOW_MAX))
}

/// A whole number.
pub(crate) fn number(query: &QueryParams, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = get(query, name) else {
        return Ok(None);
    };
    parse_decimal(text).map(Some).ok_or_else(|| {
        ApiError::bad_request("invalid_number", format!("{name} is not a whole number"))
    })
}

fn flag(query: &QueryParams, name: &str, usual: bool) -> Result<bool, ApiError> {
    match get(query, name) {
        None => Ok(usual),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(ApiError::bad_request(
            "invalid_flag",
            format!("{name} is neither true nor false"),
        )),
    }
}
