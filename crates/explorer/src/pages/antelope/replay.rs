//! `POST /{chain}/dead-letters/{subscription}`: gives dead letters to their subscription again. Needs the token of subscriptions
//! over HTTP (`stream.token`), which the form asks for: the page itself knows no secret.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cairn_http::read_body;
use cairn_stream::subscription::SubId;
use cairn_stream::subscription::admin::{Which, replay};

use super::Pages;
use crate::error::PageError;
use crate::pages::form::field;
use crate::respond;

/// Longest body of the form.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Whether a form brings the token.
fn admit(pages: &Pages, token: &str) -> Result<(), PageError> {
    let Some(expected) = &pages.ledger.replay_token else {
        return Err(PageError::Unavailable(
            "No token is configured (stream.token), so nothing can be replayed from here. The command \
             replay-dead-letter can."
                .to_owned(),
        ));
    };
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(format!("Bearer {token}")) {
        headers.insert(header::AUTHORIZATION, value);
    }
    if expected.opens(&headers) {
        return Ok(());
    }
    Err(PageError::Forbidden(
        "This is not the token of this server. Nothing was replayed.".to_owned(),
    ))
}

/// Answers the form: `entry` is the id of a letter, or `all`.
pub(super) async fn answer(pages: &Pages, subscription: &str, request: Request) -> Response {
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    match ask(
        pages,
        subscription,
        &field(&body, "entry"),
        &field(&body, "token"),
    )
    .await
    {
        Ok(count) => respond::see_other(&format!(
            "{}?replayed={count}",
            pages.paths().dead_letters(subscription)
        )),
        Err(error) => respond::error(&pages.site, Some(pages.ledger.chain.as_str()), "", error),
    }
}

/// Asks for the replay; how many letters it is about.
async fn ask(
    pages: &Pages,
    subscription: &str,
    entry: &str,
    token: &str,
) -> Result<u64, PageError> {
    admit(pages, token)?;
    let sub_id =
        SubId::new(subscription).map_err(|error| PageError::BadRequest(error.to_string()))?;
    let which =
        match entry {
            "all" => Which::All,
            id => Which::Letter(id.parse().map_err(|_| {
                PageError::BadRequest("This is not the id of a dead letter.".into())
            })?),
        };
    let ledger = &pages.ledger;
    let count = replay(
        &ledger.redis,
        &ledger.chain,
        &sub_id,
        &which,
        false,
        false,
        |_| {},
    )
    .await?;
    if count == 0 {
        return Err(PageError::not_found(
            "There is no such dead letter any more: it was handled or replayed meanwhile.",
        ));
    }
    Ok(count)
}
