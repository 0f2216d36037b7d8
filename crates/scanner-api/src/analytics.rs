//! Behaviour: overview, events, funnels, breakdowns.

use axum::extract::State;
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{EventRow, Scanner};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{Holds, Reply, with_generated_at};
use crate::error::ApiError;
use crate::head::window_json;
use crate::objects::{ErrorAnswer, EventsAnswer, OverviewAnswer};
use crate::params::Asked;
use crate::state::App;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(overview))
        .routes(routes!(events))
}

/// The public form of an event in a list. One whose body has expired says so.
pub(crate) fn event_json(app: &App, row: &EventRow, full: bool) -> String {
    if let Some(event) = &row.body {
        return event.to_public_json(&app.scanner.options().host, full);
    }
    JsonObject::new()
        .text("messageId", &row.message_id)
        .text_or_null("event", row.event.as_deref())
        .text_or_null("distinctId", row.distinct_id.as_deref())
        .text("timestamp", &row.at.to_string())
        .raw("properties", "{}")
        .flag("expired", true)
        .end()
}

fn named_counts(name: &str, counts: &[(String, u64)]) -> String {
    array(counts.iter().map(|(value, count)| {
        JsonObject::new()
            .text(name, value)
            .number("count", *count)
            .end()
    }))
}

/// How many events there were, and which most.
#[utoipa::path(get, path = "/api/scanner/analytics/overview", tag = "analytics",
    params(("top" = Option<u32>, Query, description = "names shown; 10 unless given, 200 at most")),
    responses((status = 200, description = "the overview", body = OverviewAnswer)))]
async fn overview(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let top = asked.number("top", "invalid_top")?;
    let top = top
        .and_then(|top| usize::try_from(top).ok())
        .unwrap_or(Scanner::OVERVIEW_TOP);
    let found = app.scanner.overview(top).await.map_err(of_analytics)?;
    let fields = JsonObject::new()
        .text("migrationStatus", found.migration.as_str())
        .number("eventsLast24h", found.events)
        .raw("topEvents", &named_counts("event", &found.top))
        .raw(
            "topEventsLast24h",
            &named_counts("event", &found.top_in_window),
        )
        .text_or_null("lastStreamId", found.last_stream_id.as_deref())
        .raw("window", &window_json(found.window))
        .end();
    Ok(Reply::tagged(
        with_generated_at(found.now, &fields),
        Holds::Medium,
        &fields,
    ))
}

fn of_analytics(error: cairn_scanner::QueryError) -> ApiError {
    match error {
        cairn_scanner::QueryError::Store(error) => ApiError::store(&error, "Analytics"),
        other => other.into(),
    }
}

/// Events, newest first: of the stream, or of one name by time; or a funnel, or a breakdown.
#[utoipa::path(get, path = "/api/scanner/analytics/events", tag = "analytics",
    params(
        ("limit" = Option<u32>, Query, description = "rows, 1 to 100; 25 unless given"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
        ("since" = Option<String>, Query, description = "tail: entries of the stream after this id"),
        ("event" = Option<String>, Query, description = "of this name, by time"),
        ("fields" = Option<String>, Query, description = "summary or full; summary unless given"),
        ("view" = Option<String>, Query, description = "funnel"),
        ("steps" = Option<String>, Query, description = "funnel: up to 8 names, separated by commas"),
        ("mode" = Option<String>, Query, description = "funnel: ordered (persons, one step after the other) or totals"),
        ("from" = Option<String>, Query, description = "funnel: not before this instant"),
        ("to" = Option<String>, Query, description = "funnel: before this instant"),
        ("breakdownEvent" = Option<String>, Query, description = "breakdown: the event"),
        ("breakdownProperty" = Option<String>, Query, description = "breakdown: the property"),
    ),
    responses(
        (status = 200, description = "a page, a funnel or a breakdown", body = EventsAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
    ))]
async fn events(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    if let (Some(event), Some(property)) =
        (asked.get("breakdownEvent"), asked.get("breakdownProperty"))
    {
        let counts = app
            .scanner
            .breakdown(event, property)
            .await
            .map_err(of_analytics)?;
        let json = JsonObject::new()
            .raw("breakdown", &named_counts("value", &counts))
            .end();
        return Ok(Reply::new(json));
    }
    let is_funnel = |word: &str| (word == "funnel").then_some(());
    if asked.word("view", is_funnel, "funnel")?.is_some() {
        return funnel(&app, &asked).await;
    }
    let full = |word: &str| match word {
        "summary" => Some(false),
        "full" => Some(true),
        _ => None,
    };
    let full = asked.word("fields", full, "summary full")?.unwrap_or(false);
    let limit = asked.limit()?;
    let page = match (asked.get("event"), asked.get("since")) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request(
                "invalid_since",
                "since follows the stream and cannot be combined with event",
            ));
        }
        (Some(event), None) => {
            app.scanner
                .events_named(event, asked.get("cursor"), limit)
                .await
        }
        (None, Some(since)) => app.scanner.event_tail(since, limit).await,
        (None, None) => app.scanner.event_stream(asked.get("cursor"), limit).await,
    }
    .map_err(of_analytics)?;
    let rows = page.events.iter().map(|row| event_json(&app, row, full));
    let mut json = JsonObject::new()
        .raw("events", &array(rows))
        .text_or_null("nextCursor", page.next.as_deref())
        .text_or_null("lastStreamId", page.last_stream_id.as_deref())
        .flag("hasMore", page.has_more);
    if page.gap {
        json = json.flag("gap", true);
    }
    Ok(Reply::new(json.end()))
}

async fn funnel(app: &App, asked: &Asked) -> Result {
    let steps: Vec<String> = asked
        .get("steps")
        .unwrap_or_default()
        .split(',')
        .map(|step| step.trim().to_owned())
        .filter(|step| !step.is_empty())
        .collect();
    let ordered = |word: &str| match word {
        "ordered" => Some(true),
        "totals" => Some(false),
        _ => None,
    };
    let (from, to) = (asked.instant("from")?, asked.instant("to")?);
    let counts = if asked
        .word("mode", ordered, "ordered totals")?
        .unwrap_or(true)
    {
        app.scanner.funnel_ordered(&steps, from, to).await
    } else {
        app.scanner.funnel_totals(&steps, from, to).await
    }
    .map_err(of_analytics)?;
    let json = JsonObject::new()
        .raw("funnel", &named_counts("step", &counts))
        .end();
    Ok(Reply::new(json))
}
