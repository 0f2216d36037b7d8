//! The head, and the check of its root.

use axum::extract::State;
use cairn_scanner::json::JsonObject;
use cairn_scanner::{AtMs, Head, HeadBlock, HostId, Scanner, Window};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{Holds, Reply, with_generated_at};
use crate::error::ApiError;
use crate::objects::{ErrorAnswer, HeadAnswer, RecomputeAnswer, SearchAnswer};
use crate::params::Asked;
use crate::state::App;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(head))
        .routes(routes!(recompute))
        .routes(routes!(search))
}

/// The bounds of a window.
pub(crate) fn window_json(window: Window) -> String {
    JsonObject::new()
        .text("from", &window.from().to_string())
        .text("to", &window.to().to_string())
        .end()
}

/// The head as JSON, and what its tag is over.
pub(crate) fn head_json(host: &HostId, head: &Head) -> (String, String) {
    let block = head.block.as_ref();
    let fields = JsonObject::new()
        .text("hostId", host.as_str())
        .number("snapshotRev", block.map_or(0, |block| block.rev))
        .text_or_null("merkleRootHex", block.map(|block| block.root.as_str()))
        .number_or_null("merkleLeafCount", block.and_then(|block| block.leaf_count))
        // A session id is a credential; the field is there for old clients.
        .raw("sid", "null")
        .number("txsLast24h", head.txs)
        .number("apuMintedLast24h", head.minted)
        .number("apuBurnedLast24h", head.burned)
        .text("migrationStatus", head.migration.as_str())
        .raw("window", &window_json(head.window))
        .text_or_null("lastTxAt", head.last_tx.map(|at| at.to_string()).as_deref())
        .number("epoch", head.epoch)
        .end();
    let cards = head.platform.as_ref().map(|platform| {
        JsonObject::new()
            .number("genesisNodeCount", platform.genesis_nodes)
            .number("mainNodeAccounts", platform.main_nodes)
            .number("agentNodeCredentials", platform.agent_nodes)
            .number("inWorldAgentRecords", platform.agents_in_world)
            .end()
    });
    let platform = match (&head.platform, &cards) {
        (Some(platform), Some(cards)) => JsonObject::new()
            .raw("cards", cards)
            .text("asOf", &platform.as_of.to_string())
            .end(),
        _ => "null".to_owned(),
    };
    let json = JsonObject::new()
        .raw("head", &with_generated_at(head.now, &fields))
        .raw("platform", &platform)
        .end();
    let content = format!("{fields}{}", cards.unwrap_or_default());
    (json, content)
}

/// The head as the live stream tells it.
pub(crate) fn live_head_json(scanner: &Scanner, head: &Head) -> String {
    head_json(&scanner.options().host, head).0
}

/// The newest revision of the world and the figures of the last 24 hours.
#[utoipa::path(get, path = "/api/scanner/head", tag = "scanner",
    params(("hostId" = Option<String>, Query, description = "the host; that of this ledger unless given")),
    responses(
        (status = 200, description = "the head", body = HeadAnswer),
        (status = 304, description = "nothing changed since the tag in If-None-Match"),
        (status = 503, description = "the store does not answer", body = ErrorAnswer),
    ))]
async fn head(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let head = app.scanner.head().await?;
    app.scanner.backfill_lazily(head.migration).await?;
    let (json, content) = head_json(&app.scanner.options().host, &head);
    Ok(Reply::tagged(json, Holds::Head, &content))
}

/// The root of the newest revision, made again from its leaves.
#[utoipa::path(get, path = "/api/scanner/head/recompute", tag = "scanner", responses(
    (status = 200, description = "stored and recomputed root", body = RecomputeAnswer),
))]
async fn recompute(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let found = app.scanner.recompute_root().await?;
    let block = found.block.as_ref();
    let stored = block.map(|block| block.root.as_str());
    let matches = found.root.is_some() && found.root.as_deref() == stored;
    Ok(Reply::new(recompute_json(
        found.now,
        block,
        found.root.as_deref(),
        matches,
        found.reason,
    )))
}

fn recompute_json(
    now: AtMs,
    block: Option<&HeadBlock>,
    root: Option<&str>,
    matches: bool,
    reason: Option<&str>,
) -> String {
    let fields = JsonObject::new()
        .number("snapshotRev", block.map_or(0, |block| block.rev))
        .text_or_null(
            "storedMerkleRootHex",
            block.map(|block| block.root.as_str()),
        )
        .text_or_null("recomputedMerkleRootHex", root)
        .flag("merkleMatches", matches)
        .number_or_null("merkleLeafCount", block.and_then(|block| block.leaf_count))
        .text_if("reason", reason)
        .end();
    with_generated_at(now, &fields)
}

/// What an id, a revision, a root or the beginning of a name is.
#[utoipa::path(get, path = "/api/scanner/search", tag = "scanner",
    params(("q" = Option<String>, Query, description = "the text, at most 200 bytes")),
    responses(
        (status = 200, description = "the best match, and up to ten", body = SearchAnswer),
        (status = 400, description = "too long", body = ErrorAnswer),
    ))]
async fn search(State(app): State<App>, asked: Asked) -> Result {
    asked.reading(&app)?;
    let found = app
        .scanner
        .search(asked.get("q").unwrap_or_default())
        .await?;
    let (kind, id) = match found.results.first() {
        Some((kind, id)) => (*kind, id.as_str()),
        None => (cairn_scanner::FoundKind::None, found.text.as_str()),
    };
    let results = found.results.iter().map(|(kind, id)| {
        JsonObject::new()
            .text("kind", kind.as_str())
            .text("id", id)
            .end()
    });
    let json = JsonObject::new()
        .text("kind", kind.as_str())
        .text("id", id)
        .raw("results", &cairn_scanner::json::array(results))
        .end();
    Ok(Reply::new(json))
}
