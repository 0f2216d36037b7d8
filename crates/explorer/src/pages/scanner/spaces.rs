//! `/scanner?view=spaces` and `/scanner/spaces/{id}`: places of the world and what was sold there. `/scanner/games/{id}`: a game.
//! `/scanner?view=talk`: talking.

use askama::Template;
use cairn_http::QueryParams;
use cairn_scanner::{Space, TxFilter};

use super::txs::TxRow;
use super::{Pages, ROWS_PER_PAGE, paths};
use crate::error::PageError;
use crate::present::{Bars, count, signed, usd};
use crate::site::Shell;

/// The list of spaces.
#[derive(Template)]
#[template(path = "scanner/spaces.html")]
pub(super) struct SpacesPage {
    shell: Shell,
    chart: Bars,
    rows: Vec<SpaceLine>,
    newest: Option<String>,
    older: Option<String>,
}

/// One space in the list.
struct SpaceLine {
    href: String,
    id: String,
    txs: String,
    volume: String,
}

impl SpacesPage {
    /// Reads a page of the list, greatest volume first.
    pub(super) async fn read(pages: &Pages, query: &QueryParams) -> Result<Self, PageError> {
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        let page = pages.scanner().spaces(cursor, ROWS_PER_PAGE).await?;
        let bars = page
            .spaces
            .iter()
            .map(|space| {
                let name = format!("{}: {}", space.space_id, usd(space.volume_micros));
                (space.volume_micros as f64, name)
            })
            .collect();
        let base = paths::view("spaces");
        Ok(SpacesPage {
            shell: pages.frame("Spaces", "spaces"),
            chart: Bars::new("Volume of the spaces in the table, in its order", bars),
            rows: page
                .spaces
                .iter()
                .map(|space| SpaceLine {
                    href: paths::space(&space.space_id),
                    id: space.space_id.clone(),
                    txs: count(space.txs),
                    volume: usd(space.volume_micros),
                })
                .collect(),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
        })
    }
}

/// One space.
#[derive(Template)]
#[template(path = "scanner/space.html")]
pub(super) struct SpacePage {
    shell: Shell,
    spaces_href: String,
    id: String,
    txs: String,
    volume: String,
    gmv: String,
    purchases: String,
    gmv_window: String,
    purchases_window: String,
    window: String,
    by_kind: Vec<KindLine>,
    rows: Vec<TxRow>,
    tail: Option<String>,
    newest: Option<String>,
    older: Option<String>,
}

/// What one kind of service sold.
struct KindLine {
    kind: String,
    purchases: String,
    gmv: String,
    gmv_window: String,
}

impl SpacePage {
    /// Reads a space.
    pub(super) async fn read(
        pages: &Pages,
        id: &str,
        query: &QueryParams,
    ) -> Result<Self, PageError> {
        let scanner = pages.scanner();
        let space = scanner.space(id).await?.ok_or_else(|| {
            let id: String = id.chars().take(200).collect();
            PageError::not_found(format!("Nothing happened in a space \u{201c}{id}\u{201d}."))
        })?;
        let place = scanner.newest_place().await?;
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        let filter = TxFilter {
            space: Some(id.to_owned()),
            ..TxFilter::default()
        };
        let page = scanner.txs(&filter, cursor, ROWS_PER_PAGE).await?;
        let (all, window) = (Space::sum(&space.all_time), Space::sum(&space.in_window));
        let by_kind = space
            .all_time
            .iter()
            .map(|(kind, totals)| {
                let recent = space.in_window.get(kind).copied().unwrap_or_default();
                KindLine {
                    kind: kind.to_string(),
                    purchases: count(totals.purchases),
                    gmv: usd(totals.usd_micros),
                    gmv_window: usd(recent.usd_micros),
                }
            })
            .collect();
        let base = paths::space(id);
        let tail = paths::with_query(
            &format!("{}/live?after={place}", paths::ROOT),
            &[("spaceId", id)],
        );
        Ok(SpacePage {
            shell: pages.frame(&format!("Space {id}"), "spaces").live(),
            spaces_href: paths::view("spaces"),
            id: id.to_owned(),
            txs: count(space.row.txs),
            volume: usd(space.row.volume_micros),
            gmv: usd(all.usd_micros),
            purchases: count(all.purchases),
            gmv_window: usd(window.usd_micros),
            purchases_window: count(window.purchases),
            window: format!("from {} to {}", space.window.from(), space.window.to()),
            by_kind,
            rows: page.txs.iter().map(TxRow::new).collect(),
            tail: cursor.is_none().then_some(tail),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
        })
    }
}

/// A game.
#[derive(Template)]
#[template(path = "scanner/game.html")]
pub(super) struct GamePage {
    shell: Shell,
    spaces_href: String,
    id: String,
    rounds: String,
    net: String,
    minted: String,
    burned: String,
}

impl GamePage {
    /// Reads a game; one that nobody played has zeros.
    pub(super) async fn read(pages: &Pages, id: &str) -> Result<Self, PageError> {
        let game = pages.scanner().game(id).await?;
        let id: String = id.chars().take(200).collect();
        Ok(GamePage {
            shell: pages.frame(&format!("Game {id}"), "spaces"),
            spaces_href: paths::view("spaces"),
            id,
            rounds: count(game.rounds),
            net: signed(game.net),
            minted: count(game.minted),
            burned: count(game.burned),
        })
    }
}

/// Talking.
#[derive(Template)]
#[template(path = "scanner/talk.html")]
pub(super) struct TalkPage {
    shell: Shell,
    sessions: String,
    ticks: String,
    charged: String,
    earned: String,
    rows_href: String,
}

impl TalkPage {
    /// Reads the totals.
    pub(super) async fn read(pages: &Pages) -> Result<Self, PageError> {
        let talk = pages.scanner().talk().await?;
        Ok(TalkPage {
            shell: pages.frame("Talk", "talk").live(),
            sessions: count(talk.sessions),
            ticks: count(talk.ticks),
            charged: usd(talk.charged_micros),
            earned: count(talk.apu_earned),
            rows_href: paths::with_query(&paths::view("txs"), &[("amenityKind", "talk_time")]),
        })
    }
}
