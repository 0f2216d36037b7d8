//! Accounts.

use axum::extract::State;
use cairn_http::PathParams;
use cairn_scanner::json::{JsonObject, array, quote};
use cairn_scanner::{NodeKind, NodeRow, NodeSort, Profile};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::analytics::event_json;
use crate::answer::{Holds, Reply, with_generated_at};
use crate::error::ApiError;
use crate::objects::{ErrorAnswer, NodesAnswer, ProfileAnswer};
use crate::params::Asked;
use crate::state::App;
use crate::txs::{list_json, page_json};

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(nodes))
        .routes(routes!(node))
}

fn row_json(app: &App, row: &NodeRow) -> String {
    let json = JsonObject::new()
        .text("nodeId", &row.node_id)
        .text("kind", row.kind.as_str());
    let wallet = row
        .wallet
        .as_ref()
        .filter(|_| app.scanner.options().public_balances);
    match wallet {
        Some(wallet) => json
            .usd_sum("balanceUsd", i128::from(wallet.balance_micros))
            .number("powerUps", wallet.power_ups),
        None => json
            .raw("balanceUsd", "null")
            .raw("balanceUsdMicros", "null")
            .raw("powerUps", "null"),
    }
    .end()
}

/// The directory: accounts by id; or wallet owners by balance, greatest first.
#[utoipa::path(get, path = "/api/scanner/nodes", tag = "scanner",
    params(
        ("limit" = Option<u32>, Query, description = "rows, 1 to 100; 25 unless given"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
        ("kind" = Option<String>, Query, description = "main, agent or unknown"),
        ("sort" = Option<String>, Query, description = "id, apu or usd; id unless given"),
    ),
    responses(
        (status = 200, description = "a page", body = NodesAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
    ))]
async fn nodes(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let kind = asked.word("kind", NodeKind::parse, NodeKind::list())?;
    let with_balances = app.scanner.options().public_balances;
    let sort = |word: &str| match word {
        "id" => Some(NodeSort::Id),
        "apu" if with_balances => Some(NodeSort::Apu),
        "usd" if with_balances => Some(NodeSort::Usd),
        _ => None,
    };
    let words = if with_balances { "id apu usd" } else { "id" };
    let sort = asked.word("sort", sort, words)?.unwrap_or(NodeSort::Id);
    let page = app
        .scanner
        .nodes(kind, sort, asked.get("cursor"), asked.limit()?)
        .await?;
    let json = JsonObject::new()
        .raw(
            "nodes",
            &array(page.nodes.iter().map(|row| row_json(&app, row))),
        )
        .text_or_null("nextCursor", page.next.as_deref())
        .end();
    Ok(Reply::new(json))
}

/// An account: wallet, totals over the whole history, first pages; or further pages with `section`.
#[utoipa::path(get, path = "/api/scanner/nodes/{id}", tag = "scanner",
    params(
        ("id" = String, Path, description = "the account"),
        ("section" = Option<String>, Query, description = "txs or events: a page of these instead of the profile"),
        ("cursor" = Option<String>, Query, description = "with section: nextCursor of the page before"),
        ("limit" = Option<u32>, Query, description = "with section: rows, 1 to 100; 25 unless given"),
    ),
    responses(
        (status = 200, description = "the profile", body = ProfileAnswer),
        (status = 400, description = "a parameter cannot be used", body = ErrorAnswer),
        (status = 404, description = "unknown", body = ErrorAnswer),
    ))]
async fn node(State(app): State<App>, path: PathParams, asked: Asked) -> Result {
    asked.reading(&app)?;
    let id = path.get(0);
    let section = |word: &str| matches!(word, "txs" | "events").then(|| word == "txs");
    match asked.word("section", section, "txs events")? {
        Some(true) => {
            let page = app
                .scanner
                .node_txs(id, asked.get("cursor"), asked.limit()?)
                .await?;
            Ok(Reply::new(page_json(&app, &page)))
        }
        Some(false) => {
            let page = app
                .scanner
                .node_events(id, asked.get("cursor"), asked.limit()?)
                .await?;
            let events = page.events.iter().map(|row| event_json(&app, row, true));
            let json = JsonObject::new()
                .raw("events", &array(events))
                .text_or_null("nextCursor", page.next.as_deref())
                .end();
            Ok(Reply::new(json))
        }
        None => {
            let profile = app.scanner.profile(id).await?;
            let profile =
                profile.ok_or_else(|| ApiError::not_found("there is no account with this id"))?;
            let fields = profile_json(&app, &profile);
            let json = JsonObject::new()
                .raw("profile", &with_generated_at(profile.now, &fields))
                .end();
            Ok(Reply::tagged(json, Holds::Short, &fields))
        }
    }
}

fn counts_json<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let fields: Vec<String> = counts
        .map(|(name, count)| format!("{}:{count}", quote(name)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn profile_json(app: &App, profile: &Profile) -> String {
    let with_balances = app.scanner.options().public_balances;
    let wallet = match &profile.wallet {
        Some(wallet) => wallet.to_json(with_balances),
        None => "null".to_owned(),
    };
    let totals = &profile.ledger;
    let ledger = JsonObject::new()
        .number("txCount", totals.txs)
        .usd_sum("usdSpent", totals.spent_micros)
        .usd_sum("usdCredited", totals.credited_micros)
        .number("apuMinted", totals.minted)
        .number("apuBurned", totals.burned)
        .text_or_null(
            "lastTxAt",
            totals.last_tx.map(|at| at.to_string()).as_deref(),
        )
        .end();
    let by_token = JsonObject::new()
        .usd_sum("usd", totals.all_micros)
        .number("apu", i128::from(totals.minted) + i128::from(totals.burned))
        .end();
    let breakdown = JsonObject::new()
        .raw(
            "byAmenityKind",
            &counts_json(profile.by_kind.iter().map(|(kind, n)| (kind.as_str(), *n))),
        )
        .raw(
            "bySpaceId",
            &counts_json(
                profile
                    .by_space
                    .iter()
                    .map(|(space, n)| (space.as_str(), *n)),
            ),
        )
        .raw("byToken", &by_token)
        .end();
    let top = profile.top_events.iter().map(|(event, count)| {
        JsonObject::new()
            .text("event", event)
            .number("count", *count)
            .end()
    });
    let analytics = JsonObject::new()
        .number("eventsLast24h", profile.events_in_window)
        .raw("topEvents", &array(top))
        .end();
    let traits = JsonObject::new()
        .text_if("nodeKind", profile.trait_kind.as_deref())
        .end();
    let events = profile
        .events
        .events
        .iter()
        .map(|row| event_json(app, row, true));
    JsonObject::new()
        .text("nodeId", &profile.node_id)
        .text("kind", profile.kind.as_str())
        .text_or_null("ownerNodeId", profile.owner.as_deref())
        .raw("wallet", &wallet)
        .raw("ledger", &ledger)
        .raw("breakdown", &breakdown)
        .raw("txs", &list_json(app, &profile.txs.txs))
        .text_or_null("txsNextCursor", profile.txs.next.as_deref())
        .raw("gameStats", profile.game_stats.as_deref().unwrap_or("null"))
        .raw("analyticsEvents", &array(events))
        .text_or_null("analyticsEventsNextCursor", profile.events.next.as_deref())
        .raw("analytics", &analytics)
        .raw("traits", &traits)
        .end()
}
