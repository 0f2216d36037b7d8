//! `/scanner?view=nodes`: the directory. `/scanner/nodes/{id}`: an account.

use askama::Template;
use cairn_http::QueryParams;
use cairn_scanner::{EventRow, NodeKind, NodeRow, NodeSort, Scanner, Wallet};

use super::analytics::EventLine;
use super::txs::TxRow;
use super::{Pages, ROWS_PER_PAGE, paths};
use crate::error::PageError;
use crate::present::{Copy, Hash, Json, Moment, count, path_segment, usd};
use crate::site::Shell;

/// The directory.
#[derive(Template)]
#[template(path = "scanner/nodes.html")]
pub(super) struct NodesPage {
    shell: Shell,
    root: &'static str,
    with_balances: bool,
    kinds: Vec<&'static str>,
    kind: String,
    sort: String,
    rows: Vec<DirectoryRow>,
    newest: Option<String>,
    older: Option<String>,
}

/// One account of the directory.
struct DirectoryRow {
    href: String,
    id: String,
    kind: &'static str,
    usd: String,
    apu: String,
}

impl DirectoryRow {
    fn new(row: &NodeRow, with_balances: bool) -> Self {
        let wallet = row.wallet.as_ref().filter(|_| with_balances);
        DirectoryRow {
            href: paths::node(&row.node_id),
            id: row.node_id.clone(),
            kind: row.kind.as_str(),
            usd: wallet.map_or_else(String::new, |wallet| usd(wallet.balance_micros.into())),
            apu: wallet.map_or_else(String::new, |wallet| count(wallet.power_ups.unsigned_abs())),
        }
    }
}

impl NodesPage {
    /// Reads a page of the directory.
    pub(super) async fn read(pages: &Pages, query: &QueryParams) -> Result<Self, PageError> {
        let scanner = pages.scanner();
        let with_balances = scanner.options().public_balances;
        let kind = query.get("kind").unwrap_or_default().to_owned();
        let sort = query.get("sort").unwrap_or_default().to_owned();
        let wrong =
            |what: &str| PageError::BadRequest(format!("The directory has no such {what}."));
        let of_kind = match kind.as_str() {
            "" => None,
            word => Some(NodeKind::parse(word).ok_or_else(|| wrong("kind"))?),
        };
        let by = match sort.as_str() {
            "" | "id" => NodeSort::Id,
            "apu" if with_balances => NodeSort::Apu,
            "usd" if with_balances => NodeSort::Usd,
            _ => return Err(wrong("order")),
        };
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        let page = scanner.nodes(of_kind, by, cursor, ROWS_PER_PAGE).await?;
        let base = paths::with_query(&paths::view("nodes"), &[("kind", &kind), ("sort", &sort)]);
        Ok(NodesPage {
            shell: pages.frame("Nodes", "nodes"),
            root: paths::ROOT,
            with_balances,
            kinds: NodeKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            rows: page
                .nodes
                .iter()
                .map(|row| DirectoryRow::new(row, with_balances))
                .collect(),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
            kind,
            sort,
        })
    }
}

/// An account.
#[derive(Template)]
#[template(path = "scanner/node.html")]
pub(super) struct ProfilePage {
    shell: Shell,
    nodes_href: String,
    id: Hash,
    copy: Copy,
    kind: &'static str,
    owner: Option<(String, String)>,
    wallet: Option<WalletView>,
    txs_count: String,
    spent: String,
    credited: String,
    minted: String,
    burned: String,
    last_tx: Option<Moment>,
    by_kind: Vec<(String, String)>,
    by_space: Vec<(String, String, String)>,
    games: Option<Json>,
    events_in_window: String,
    top_events: Vec<(String, String)>,
    rows: Vec<TxRow>,
    tail: Option<String>,
    txs_older: Option<String>,
    events: Vec<EventLine>,
    events_older: Option<String>,
    api_href: String,
}

/// What a wallet holds.
struct WalletView {
    usd: String,
    apu: String,
    updated: Moment,
}

impl WalletView {
    fn new(wallet: &Wallet) -> Self {
        WalletView {
            usd: usd(wallet.balance_micros.into()),
            apu: count(wallet.power_ups.unsigned_abs()),
            updated: Moment(wallet.updated_ms),
        }
    }
}

/// A page of an account's lists: those of the profile, or further ones.
async fn lists(
    scanner: &Scanner,
    id: &str,
    query: &QueryParams,
) -> Result<
    (
        Option<cairn_scanner::TxPage>,
        Option<cairn_scanner::NodeEventPage>,
    ),
    PageError,
> {
    let cursor = |name: &str| query.get(name).filter(|cursor| !cursor.is_empty());
    let txs = match cursor("txs") {
        Some(cursor) => Some(scanner.node_txs(id, Some(cursor), ROWS_PER_PAGE).await?),
        None => None,
    };
    let events = match cursor("events") {
        Some(cursor) => Some(scanner.node_events(id, Some(cursor), ROWS_PER_PAGE).await?),
        None => None,
    };
    Ok((txs, events))
}

impl ProfilePage {
    /// Reads an account.
    pub(super) async fn read(
        pages: &Pages,
        id: &str,
        query: &QueryParams,
    ) -> Result<Self, PageError> {
        let scanner = pages.scanner();
        let place = scanner.newest_place().await?;
        let profile = scanner.profile(id).await?.ok_or_else(|| {
            let id: String = id.chars().take(200).collect();
            PageError::not_found(format!("The ledger has no account \u{201c}{id}\u{201d}."))
        })?;
        let (txs, events) = lists(scanner, id, query).await?;
        let is_newest = txs.is_none();
        let txs = txs.unwrap_or(profile.txs);
        let events = events.unwrap_or(profile.events);
        let href = paths::node(&profile.node_id);
        let with_balances = scanner.options().public_balances;
        let tail = paths::with_query(
            &format!("{}/live?after={place}", paths::ROOT),
            &[("playerId", &profile.node_id)],
        );
        Ok(ProfilePage {
            shell: pages
                .frame(&format!("Account {}", profile.node_id), "nodes")
                .live(),
            nodes_href: paths::view("nodes"),
            id: Hash::new(&profile.node_id),
            copy: Copy::new(&profile.node_id),
            kind: profile.kind.as_str(),
            owner: profile
                .owner
                .as_ref()
                .map(|owner| (owner.clone(), paths::node(owner))),
            wallet: profile
                .wallet
                .as_ref()
                .filter(|_| with_balances)
                .map(WalletView::new),
            txs_count: count(profile.ledger.txs),
            spent: usd(profile.ledger.spent_micros),
            credited: usd(profile.ledger.credited_micros),
            minted: count(profile.ledger.minted),
            burned: count(profile.ledger.burned),
            last_tx: profile.ledger.last_tx.map(|at| Moment(at.ms())),
            by_kind: profile
                .by_kind
                .iter()
                .map(|(kind, n)| (kind.to_string(), count(*n)))
                .collect(),
            by_space: profile
                .by_space
                .iter()
                .map(|(space, n)| (space.clone(), paths::space(space), count(*n)))
                .collect(),
            games: profile.game_stats.as_deref().map(Json::new),
            events_in_window: count(profile.events_in_window),
            top_events: profile
                .top_events
                .iter()
                .map(|(event, n)| (event.clone(), count(*n)))
                .collect(),
            rows: txs.txs.iter().map(TxRow::new).collect(),
            tail: is_newest.then_some(tail),
            txs_older: txs
                .next
                .map(|next| paths::with_query(&href, &[("txs", &next)])),
            events: event_lines(scanner, &events.events),
            events_older: events
                .next
                .map(|next| paths::with_query(&href, &[("events", &next)])),
            api_href: format!("/api/scanner/nodes/{}", path_segment(&profile.node_id)),
        })
    }
}

fn event_lines(scanner: &Scanner, rows: &[EventRow]) -> Vec<EventLine> {
    rows.iter()
        .map(|row| EventLine::new(scanner, row))
        .collect()
}
