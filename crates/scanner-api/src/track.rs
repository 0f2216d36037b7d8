//! What a browser may tell.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use cairn_http::read_body;
use cairn_scanner::Status;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::answer::Reply;
use crate::error::ApiError;
use crate::objects::{ErrorAnswer, OkAnswer};
use crate::params::Asked;
use crate::state::App;

/// Largest body, bytes.
const BODY_MAX: usize = 8 * 1024;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(track))
}

/// One event of a browser whose session is the application's current one.
#[utoipa::path(post, path = "/api/analytics/track", tag = "analytics",
    params(("sid" = Option<String>, Query, description = "the session; a bearer token can replace it")),
    request_body(content = serde_json::Value, description = "event, and if wanted messageId, distinctId, timestamp, properties"),
    responses(
        (status = 200, description = "taken", body = OkAnswer),
        (status = 400, description = "no session, or a body that cannot be used", body = ErrorAnswer),
        (status = 403, description = "not the current session", body = ErrorAnswer),
        (status = 429, description = "too many", body = ErrorAnswer),
        (status = 503, description = "the store does not answer", body = ErrorAnswer),
    ))]
async fn track(State(app): State<App>, asked: Asked, request: Request) -> Result<Reply, ApiError> {
    let analytics = |error| ApiError::store(&error, "Analytics");
    if !asked.is_our_host(&app)? {
        return Err(ApiError::not_found("there is no ledger of this host"));
    }
    let sid = asked.get("sid").map(str::to_owned);
    let is_trusted = access::ingestion(&app, request.headers()).is_ok();
    let Some(session) = sid.as_deref().or(is_trusted.then_some("")) else {
        return Err(ApiError::bad_request("missing_sid", "sid is needed"));
    };
    app.limits.track(asked.peer, session)?;
    if !is_trusted && !app.scanner.is_session(session).await.map_err(analytics)? {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_session",
            "sid is not the current session",
        ));
    }
    let body = read_body(request, BODY_MAX).await?;
    let text = std::str::from_utf8(&body)
        .map_err(|_| ApiError::bad_request("invalid_json", "the body is not UTF-8"))?;
    let command = app
        .scanner
        .read_browser_event(text, sid.as_deref())
        .map_err(|faults| {
            let text = faults.first().map_or_else(String::new, ToString::to_string);
            ApiError::bad_request("invalid_event", text)
        })?;
    match app
        .scanner
        .apply(std::slice::from_ref(&command))
        .await
        .pop()
    {
        Some(Status::Failed(error)) => Err(ApiError::store(&error, "Analytics")),
        _ => Ok(Reply::new("{\"ok\":true}".to_owned())),
    }
}
