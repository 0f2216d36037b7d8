//! Spaces, games, talking.

use axum::extract::State;
use cairn_http::PathParams;
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{ByKind, Space, SpaceRow};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{Holds, Reply};
use crate::error::ApiError;
use crate::head::window_json;
use crate::objects::{ErrorAnswer, GameObject, SpaceAnswer, SpacesAnswer, TalkObject};
use crate::params::Asked;
use crate::state::App;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(spaces))
        .routes(routes!(space))
        .routes(routes!(game))
        .routes(routes!(talk))
}

fn row(row: &SpaceRow) -> JsonObject {
    JsonObject::new()
        .text("spaceId", &row.space_id)
        .number("txCount", row.txs)
        .usd_sum("usdVolume", row.volume_micros)
}

/// Spaces, by volume descending, then id.
#[utoipa::path(get, path = "/api/scanner/spaces", tag = "scanner",
    params(
        ("limit" = Option<u32>, Query, description = "rows, 1 to 100; 25 unless given"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
    ),
    responses((status = 200, description = "a page", body = SpacesAnswer)))]
async fn spaces(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let page = app
        .scanner
        .spaces(asked.get("cursor"), asked.limit()?)
        .await?;
    let json = JsonObject::new()
        .raw(
            "spaces",
            &array(page.spaces.iter().map(|space| row(space).end())),
        )
        .text_or_null("nextCursor", page.next.as_deref())
        .end();
    Ok(Reply::kept(json, Holds::Medium))
}

fn kinds(all_time: &ByKind, in_window: &ByKind) -> String {
    let mut json = String::from("{");
    for (kind, totals) in all_time {
        let recent = in_window.get(kind).copied().unwrap_or_default();
        let one = JsonObject::new()
            .number("purchaseCount", totals.purchases)
            .usd_sum("gmvUsd", totals.usd_micros)
            .number("purchaseCount24h", recent.purchases)
            .usd_sum("gmvUsd24h", recent.usd_micros)
            .end();
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&format!("\"{kind}\":{one}"));
    }
    json.push('}');
    json
}

/// A space with its gross merchandise value, all-time and within the window.
#[utoipa::path(get, path = "/api/scanner/spaces/{spaceId}", tag = "scanner",
    params(("spaceId" = String, Path, description = "the space")),
    responses(
        (status = 200, description = "the space", body = SpaceAnswer),
        (status = 404, description = "no transactions there", body = ErrorAnswer),
    ))]
async fn space(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let space = app.scanner.space(path.get(0)).await?;
    let space = space.ok_or_else(|| ApiError::not_found("there is no space with this id"))?;
    let (all, recent) = (Space::sum(&space.all_time), Space::sum(&space.in_window));
    let json = row(&space.row)
        .usd_sum("gmvUsd", all.usd_micros)
        .number("purchaseCount", all.purchases)
        .usd_sum("gmvUsd24h", recent.usd_micros)
        .number("purchaseCount24h", recent.purchases)
        .raw("byAmenityKind", &kinds(&space.all_time, &space.in_window))
        .raw("window", &window_json(space.window))
        .end();
    Ok(Reply::kept(
        JsonObject::new().raw("space", &json).end(),
        Holds::Medium,
    ))
}

/// A game: rounds that changed something, and what they changed. Zeros for an unknown one.
#[utoipa::path(get, path = "/api/scanner/games/{gameId}", tag = "scanner",
    params(("gameId" = String, Path, description = "the game")),
    responses((status = 200, description = "the game", body = GameObject)))]
async fn game(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let game = app.scanner.game(path.get(0)).await?;
    let json = JsonObject::new()
        .text("gameId", path.get(0))
        .number("rounds", game.rounds)
        .number("netApu", game.net)
        .number("apuMinted", game.minted)
        .number("apuBurned", game.burned)
        .end();
    Ok(Reply::kept(json, Holds::Medium))
}

/// Talking: sessions, billed rows, dollars, APU.
#[utoipa::path(get, path = "/api/scanner/talk", tag = "scanner",
    responses((status = 200, description = "totals", body = TalkObject)))]
async fn talk(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let talk = app.scanner.talk().await?;
    let json = JsonObject::new()
        .number("sessions", talk.sessions)
        .number("ticks", talk.ticks)
        .usd_sum("totalChargedUsd", talk.charged_micros)
        .number("totalApuEarned", talk.apu_earned)
        .end();
    Ok(Reply::kept(json, Holds::Medium))
}
