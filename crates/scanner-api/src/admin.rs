//! The backfill, and erasing a person's events.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use cairn_http::PathParams;
use cairn_scanner::json::JsonObject;
use cairn_scanner::{BackfillKind, MigrationStatus};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::answer::Reply;
use crate::error::ApiError;
use crate::objects::{BackfillAnswer, ErasedAnswer, ErrorAnswer};
use crate::params::Asked;
use crate::state::App;

/// How long a request waits unless it says otherwise, milliseconds.
const WAIT_MS: i64 = 8_000;
/// How long it may wait, milliseconds: below the time of one request.
const WAIT_MS_MAX: i64 = 60_000;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(start, show, stop))
        .routes(routes!(erase))
}

async fn states(app: &App, is_done: bool) -> Result<String> {
    let ledger = app.scanner.backfill_state().await?;
    let events = app.scanner.analytics_backfill_state().await?;
    Ok(JsonObject::new()
        .raw("scanner", &ledger.to_json())
        .raw("analytics", &events.to_json())
        .flag(
            "cacheRebuilt",
            is_done && ledger.status == MigrationStatus::Completed,
        )
        .end())
}

/// Starts a backfill of what the application wrote before, or joins the one under way; then rebuilds all caches.
#[utoipa::path(post, path = "/api/admin/scanner/backfill", tag = "admin",
    params(("waitMs" = Option<i64>, Query, description = "how long to wait for its end; 8000 unless given")),
    responses(
        (status = 200, description = "done", body = BackfillAnswer),
        (status = 202, description = "under way", body = BackfillAnswer),
        (status = 401, description = "not the admin's token", body = ErrorAnswer),
        (status = 503, description = "no admin token is configured", body = ErrorAnswer),
    ))]
async fn start(State(app): State<App>, asked: Asked, headers: HeaderMap) -> Result {
    access::admin(&app, &headers)?;
    asked.reading(&app)?;
    let wait = asked
        .number("waitMs", "invalid_wait")?
        .unwrap_or(WAIT_MS)
        .min(WAIT_MS_MAX);
    app.scanner.start_backfill(BackfillKind::Full);
    let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
    let state = app.scanner.await_backfill(wait).await?;
    let is_done = state.status == MigrationStatus::Completed && !app.scanner.is_backfilling();
    let code = if is_done {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok(Reply::new(states(&app, is_done).await?).status(code))
}

/// The state of the last backfill.
#[utoipa::path(get, path = "/api/admin/scanner/backfill", tag = "admin",
    responses(
        (status = 200, description = "the states", body = BackfillAnswer),
        (status = 401, description = "not the admin's token", body = ErrorAnswer),
    ))]
async fn show(State(app): State<App>, headers: HeaderMap) -> Result {
    access::admin(&app, &headers)?;
    let is_done = !app.scanner.is_backfilling();
    Ok(Reply::new(states(&app, is_done).await?))
}

/// Asks a backfill to stop at its next checkpoint.
#[utoipa::path(delete, path = "/api/admin/scanner/backfill", tag = "admin",
    responses(
        (status = 202, description = "asked", body = BackfillAnswer),
        (status = 401, description = "not the admin's token", body = ErrorAnswer),
    ))]
async fn stop(State(app): State<App>, headers: HeaderMap) -> Result {
    access::admin(&app, &headers)?;
    app.scanner.stop_backfill().await?;
    Ok(Reply::new(states(&app, false).await?).status(StatusCode::ACCEPTED))
}

/// Removes an account's events, their bodies and its traits. Aggregate counts and the ledger stay.
#[utoipa::path(delete, path = "/api/admin/scanner/nodes/{id}/analytics", tag = "admin",
    params(("id" = String, Path, description = "the account")),
    responses(
        (status = 200, description = "how many events were erased", body = ErasedAnswer),
        (status = 401, description = "not the admin's token", body = ErrorAnswer),
    ))]
async fn erase(State(app): State<App>, path: PathParams, headers: HeaderMap) -> Result {
    access::admin(&app, &headers)?;
    let erased = app.scanner.erase_analytics(path.get(0)).await?;
    Ok(Reply::new(JsonObject::new().number("erased", erased).end()))
}
