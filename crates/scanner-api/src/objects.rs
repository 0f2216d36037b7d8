//! The forms of answers, for the description of the API. Answers are written field by field (amounts are exact decimals,
//! which no number type of a serializer keeps), and a test compares them with these forms.

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// An error.
#[derive(Debug, ToSchema)]
pub struct ErrorAnswer {
    /// A sentence for people.
    pub error: String,
    /// A word for programs.
    pub code: String,
    /// Every faulty field.
    #[schema(required = false)]
    pub details: Option<Vec<FaultObject>>,
}

/// A faulty field.
#[derive(Debug, ToSchema)]
pub struct FaultObject {
    /// The field, as in `record.priceUsd`.
    pub path: String,
    /// A word for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
}

/// The hours that "last 24 hours" means.
#[derive(Debug, ToSchema)]
pub struct WindowObject {
    /// First instant inside.
    pub from: String,
    /// First instant after it.
    pub to: String,
}

/// The head and the platform's counters.
#[derive(Debug, ToSchema)]
pub struct HeadAnswer {
    /// The head.
    pub head: HeadObject,
    /// Counters that are refreshed in the background; null before the first time.
    pub platform: Option<PlatformObject>,
}

/// The head.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct HeadObject {
    /// When it was made.
    pub generated_at: String,
    /// The host.
    pub host_id: String,
    /// The newest revision; 0 before the first.
    pub snapshot_rev: i64,
    /// Its root.
    pub merkle_root_hex: Option<String>,
    /// Its number of leaves.
    pub merkle_leaf_count: Option<i64>,
    /// Always null.
    pub sid: Option<String>,
    /// Transactions in the window.
    #[schema(rename = "txsLast24h")]
    pub txs_last_24h: u64,
    /// APU minted in the window.
    #[schema(rename = "apuMintedLast24h")]
    pub apu_minted_last_24h: u64,
    /// APU burned in the window.
    #[schema(rename = "apuBurnedLast24h")]
    pub apu_burned_last_24h: u64,
    /// pending, running, completed or failed.
    pub migration_status: String,
    /// The window.
    pub window: WindowObject,
    /// The latest transaction.
    pub last_tx_at: Option<String>,
    /// The current epoch.
    pub epoch: i64,
}

/// Counters of the platform.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct PlatformObject {
    /// The counters.
    pub cards: CardsObject,
    /// When they were counted.
    pub as_of: String,
}

/// The counters.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct CardsObject {
    /// Genesis leaves of the newest snapshot.
    pub genesis_node_count: u64,
    /// Main nodes.
    pub main_node_accounts: u64,
    /// Agent nodes.
    pub agent_node_credentials: u64,
    /// Agents in the newest snapshot.
    pub in_world_agent_records: u64,
}

/// Stored and recomputed root.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct RecomputeAnswer {
    /// When it was made.
    pub generated_at: String,
    /// The newest revision.
    pub snapshot_rev: i64,
    /// Its root as told.
    pub stored_merkle_root_hex: Option<String>,
    /// Its root made from the leaves.
    pub recomputed_merkle_root_hex: Option<String>,
    /// Whether they are the same.
    pub merkle_matches: bool,
    /// Its number of leaves.
    pub merkle_leaf_count: Option<i64>,
    /// leaves_unavailable or order_unknown.
    #[schema(required = false)]
    pub reason: Option<String>,
}

/// What a search found.
#[derive(Debug, ToSchema)]
pub struct SearchAnswer {
    /// tx, block, node, analytics, space, game or none.
    pub kind: String,
    /// Its id; the text itself when nothing was found.
    pub id: String,
    /// Up to ten.
    pub results: Vec<FoundObject>,
}

/// Something found.
#[derive(Debug, ToSchema)]
pub struct FoundObject {
    /// What it is.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// A thing.
#[derive(Debug, ToSchema)]
pub struct ItemObject {
    /// What kind of thing.
    pub kind: String,
    /// Which.
    pub id: String,
}

/// A transaction.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct TxObject {
    /// Its id.
    pub id: String,
    /// The host.
    pub host_id: String,
    /// Whose.
    pub player_id: String,
    /// Where; two underscores around a name mean no real space.
    pub space_id: String,
    /// What kind of service.
    pub amenity_kind: String,
    /// Which thing.
    pub item_ref: ItemObject,
    /// The operation of the application.
    pub op: String,
    /// When it happened.
    pub at: String,
    /// Dollars.
    #[schema(required = false)]
    pub price_usd: Option<f64>,
    /// Dollars in millionths.
    #[schema(required = false)]
    pub price_usd_micros: Option<String>,
    /// APU earned.
    #[schema(required = false)]
    pub power_ups_earned: Option<i64>,
    /// APU spent.
    #[schema(required = false)]
    pub power_ups_spent: Option<i64>,
    /// Net effect in APU.
    #[schema(required = false)]
    pub power_ups_delta: Option<i64>,
    /// Where value left.
    #[schema(required = false)]
    pub debit_source: Option<String>,
    /// Where value arrived.
    #[schema(required = false)]
    pub credit_source: Option<String>,
    /// The other node.
    #[schema(required = false)]
    pub counterparty_node_id: Option<String>,
    /// APU, for rows that move APU.
    #[schema(required = false)]
    pub token: Option<String>,
    /// A line for people.
    #[schema(required = false)]
    pub detail: Option<String>,
    /// The talk session a tick belongs to.
    #[schema(required = false)]
    pub session_ref: Option<String>,
    /// The newest revision when it was indexed; null for rows of an archive.
    pub block_rev: Option<i64>,
    /// The root of that revision.
    pub merkle_root_hex: Option<String>,
    /// When it was indexed.
    pub indexed_at: String,
}

/// One transaction.
#[derive(Debug, ToSchema)]
pub struct TxAnswer {
    /// The transaction.
    pub tx: TxObject,
}

/// A page of transactions.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct TxsAnswer {
    /// The rows, newest first.
    pub txs: Vec<TxObject>,
    /// Where the next page begins; null exactly when there is no older row.
    pub next_cursor: Option<String>,
    /// Tail: what to ask with next.
    #[schema(required = false)]
    pub next_since_ms: Option<i64>,
    /// Tail: later rows exist.
    #[schema(required = false)]
    pub has_more: Option<bool>,
}

/// A revision of the world.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct BlockObject {
    /// The revision.
    pub rev: i64,
    /// Its epoch.
    pub epoch: i64,
    /// The root over its leaves.
    pub merkle_root_hex: String,
    /// Its number of leaves.
    pub merkle_leaf_count: i64,
    /// When it was published.
    pub at: String,
    /// People, agents and buildings on the map.
    pub occupant_count: Option<i64>,
    /// Leaves added, changed or removed.
    pub leaf_delta_count: Option<i64>,
    /// A name.
    pub label: Option<String>,
}

/// One revision.
#[derive(Debug, ToSchema)]
pub struct BlockAnswer {
    /// The revision.
    pub block: BlockObject,
}

/// A page of revisions.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct BlocksAnswer {
    /// The revisions, newest first.
    pub blocks: Vec<BlockObject>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// Tail: greatest revision of the page.
    #[schema(required = false)]
    pub next_since_rev: Option<i64>,
    /// Tail: later ones exist.
    #[schema(required = false)]
    pub has_more: Option<bool>,
    /// The current epoch.
    pub epoch: i64,
}

/// A leaf.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct LeafObject {
    /// Its key.
    pub stable_key: String,
    /// Its digest; null when there is no such leaf.
    pub leaf_digest_hex: Option<String>,
    /// Epoch of the revision.
    pub epoch: Option<i64>,
    /// The revision.
    pub rev: Option<i64>,
    /// Its place in the order.
    pub leaf_index: Option<i64>,
    /// The root.
    pub merkle_root_hex: Option<String>,
    /// Siblings from the bottom.
    #[schema(required = false)]
    pub proof: Option<Vec<SiblingObject>>,
}

/// A step of a proof.
#[derive(Debug, ToSchema)]
pub struct SiblingObject {
    /// left or right: where the sibling stands.
    pub side: String,
    /// Its digest.
    pub hash: String,
}

/// An account in the directory.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct NodeObject {
    /// The account.
    pub node_id: String,
    /// main, agent or unknown.
    pub kind: String,
    /// Dollars.
    pub balance_usd: Option<f64>,
    /// Dollars in millionths.
    pub balance_usd_micros: Option<String>,
    /// APU.
    pub power_ups: Option<i64>,
}

/// A page of accounts.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct NodesAnswer {
    /// The accounts.
    pub nodes: Vec<NodeObject>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// A profile.
#[derive(Debug, ToSchema)]
pub struct ProfileAnswer {
    /// The profile.
    pub profile: ProfileObject,
}

/// An account: wallet, totals over the whole history, first pages.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ProfileObject {
    /// When it was made.
    pub generated_at: String,
    /// The account.
    pub node_id: String,
    /// main, agent or unknown.
    pub kind: String,
    /// The main node of an agent.
    pub owner_node_id: Option<String>,
    /// The wallet.
    pub wallet: Option<WalletObject>,
    /// Totals.
    pub ledger: LedgerObject,
    /// Transactions by kind, by space, and sums by token.
    pub breakdown: BreakdownObject,
    /// First page of transactions.
    pub txs: Vec<TxObject>,
    /// Where the next page begins.
    pub txs_next_cursor: Option<String>,
    /// The application's word on its games.
    pub game_stats: Option<serde_json::Value>,
    /// First page of events.
    pub analytics_events: Vec<EventObject>,
    /// Where the next page begins.
    pub analytics_events_next_cursor: Option<String>,
    /// Counts of events.
    pub analytics: ProfileEventsObject,
    /// What it registered as.
    pub traits: BTreeMap<String, String>,
}

/// A wallet.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct WalletObject {
    /// Whose.
    pub player_id: String,
    /// Dollars.
    pub balance_usd: Option<f64>,
    /// Dollars in millionths.
    pub balance_usd_micros: Option<String>,
    /// APU.
    pub power_ups: Option<i64>,
    /// USD.
    pub currency: String,
    /// When the application set it.
    pub updated_at: String,
}

/// Totals of an account.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct LedgerObject {
    /// Transactions.
    pub tx_count: u64,
    /// Dollars spent.
    pub usd_spent: f64,
    /// Dollars spent, in millionths.
    pub usd_spent_micros: String,
    /// Dollars received.
    pub usd_credited: f64,
    /// Dollars received, in millionths.
    pub usd_credited_micros: String,
    /// APU minted.
    pub apu_minted: u64,
    /// APU burned.
    pub apu_burned: u64,
    /// The latest transaction.
    pub last_tx_at: Option<String>,
}

/// Transactions by kind and space, sums by token.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct BreakdownObject {
    /// By kind of service.
    pub by_amenity_kind: BTreeMap<String, u64>,
    /// By space: the hundred with the most.
    pub by_space_id: BTreeMap<String, u64>,
    /// By token.
    pub by_token: ByTokenObject,
}

/// Sums by token.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ByTokenObject {
    /// Dollars of all rows.
    pub usd: f64,
    /// The same in millionths.
    pub usd_micros: String,
    /// APU of all rows, whatever the direction.
    pub apu: u64,
}

/// Counts of an account's events.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ProfileEventsObject {
    /// Within the window.
    #[schema(rename = "eventsLast24h")]
    pub events_last_24h: u64,
    /// The ten most frequent.
    pub top_events: Vec<EventCount>,
}

/// How often an event was told.
#[derive(Debug, ToSchema)]
pub struct EventCount {
    /// Its name.
    pub event: String,
    /// How often.
    pub count: u64,
}

/// A space in the list.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct SpaceRowObject {
    /// The space.
    pub space_id: String,
    /// Its transactions.
    pub tx_count: u64,
    /// Dollars spent there.
    pub usd_volume: f64,
    /// The same in millionths.
    pub usd_volume_micros: String,
}

/// A page of spaces.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct SpacesAnswer {
    /// The spaces.
    pub spaces: Vec<SpaceRowObject>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// One space.
#[derive(Debug, ToSchema)]
pub struct SpaceAnswer {
    /// The space.
    pub space: SpaceObject,
}

/// A space with its gross merchandise value.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct SpaceObject {
    /// The space.
    pub space_id: String,
    /// Its transactions.
    pub tx_count: u64,
    /// Dollars spent there.
    pub usd_volume: f64,
    /// The same in millionths.
    pub usd_volume_micros: String,
    /// Gross merchandise value.
    pub gmv_usd: f64,
    /// The same in millionths.
    pub gmv_usd_micros: String,
    /// Purchases of goods.
    pub purchase_count: u64,
    /// Gross merchandise value in the window.
    #[schema(rename = "gmvUsd24h")]
    pub gmv_usd_24h: f64,
    /// The same in millionths.
    #[schema(rename = "gmvUsd24hMicros")]
    pub gmv_usd_24h_micros: String,
    /// Purchases of goods in the window.
    #[schema(rename = "purchaseCount24h")]
    pub purchase_count_24h: u64,
    /// The same figures by kind of service.
    pub by_amenity_kind: BTreeMap<String, serde_json::Value>,
    /// The window.
    pub window: WindowObject,
}

/// A game.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct GameObject {
    /// The game.
    pub game_id: String,
    /// Rounds that changed something.
    pub rounds: u64,
    /// Sum of what they changed.
    pub net_apu: i64,
    /// APU minted.
    pub apu_minted: u64,
    /// APU burned.
    pub apu_burned: u64,
}

/// Talking.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct TalkObject {
    /// Sessions.
    pub sessions: u64,
    /// Billed rows.
    pub ticks: u64,
    /// Dollars charged.
    pub total_charged_usd: f64,
    /// The same in millionths.
    pub total_charged_usd_micros: String,
    /// APU earned.
    pub total_apu_earned: u64,
}

/// An event.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct EventObject {
    /// Its id.
    pub message_id: String,
    /// Its name; null in a list of a person when its body has expired.
    pub event: Option<String>,
    /// Whose.
    pub distinct_id: Option<String>,
    /// When.
    pub timestamp: String,
    /// Public properties; none in a summary.
    pub properties: BTreeMap<String, serde_json::Value>,
    /// Where it came from; not in a summary.
    #[schema(required = false)]
    pub context: Option<serde_json::Value>,
    /// Its body is no longer kept.
    #[schema(required = false)]
    pub expired: Option<bool>,
}

/// A page of events, a funnel or a breakdown.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct EventsAnswer {
    /// The events, newest first.
    #[schema(required = false)]
    pub events: Option<Vec<EventObject>>,
    /// Where the next page begins.
    #[schema(required = false)]
    pub next_cursor: Option<String>,
    /// Newest entry of the page.
    #[schema(required = false)]
    pub last_stream_id: Option<String>,
    /// Tail: later entries exist.
    #[schema(required = false)]
    pub has_more: Option<bool>,
    /// Tail: entries between are no longer held.
    #[schema(required = false)]
    pub gap: Option<bool>,
    /// Steps and counts.
    #[schema(required = false)]
    pub funnel: Option<Vec<StepCount>>,
    /// Values and counts.
    #[schema(required = false)]
    pub breakdown: Option<Vec<ValueCount>>,
}

/// A step of a funnel.
#[derive(Debug, ToSchema)]
pub struct StepCount {
    /// The event.
    pub step: String,
    /// How many.
    pub count: u64,
}

/// A value of a breakdown.
#[derive(Debug, ToSchema)]
pub struct ValueCount {
    /// The value.
    pub value: String,
    /// How often.
    pub count: u64,
}

/// The overview of behaviour.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct OverviewAnswer {
    /// When it was made.
    pub generated_at: String,
    /// pending, running, completed or failed.
    pub migration_status: String,
    /// Events in the window.
    #[schema(rename = "eventsLast24h")]
    pub events_last_24h: u64,
    /// All-time counts.
    pub top_events: Vec<EventCount>,
    /// Counts in the window.
    #[schema(rename = "topEventsLast24h")]
    pub top_events_last_24h: Vec<EventCount>,
    /// Newest entry of the stream.
    pub last_stream_id: Option<String>,
    /// The window.
    pub window: WindowObject,
}

/// What became of a call.
#[derive(Debug, ToSchema)]
pub struct StatusAnswer {
    /// created, duplicate, stale or queued.
    pub status: String,
    /// What it was about.
    pub id: String,
}

/// What became of a batch.
#[derive(Debug, ToSchema)]
pub struct BatchAnswer {
    /// One for each item.
    pub results: Vec<ResultObject>,
    /// How many of each status.
    pub counts: BTreeMap<String, u64>,
}

/// What became of an item.
#[derive(Debug, ToSchema)]
pub struct ResultObject {
    /// Its place.
    pub index: u64,
    /// created, duplicate, stale, conflict, invalid, skipped, queued or failed.
    pub status: String,
    /// A word for programs.
    #[schema(required = false)]
    pub code: Option<String>,
    /// Every faulty field.
    #[schema(required = false)]
    pub details: Option<Vec<FaultObject>>,
}

/// Taken.
#[derive(Debug, ToSchema)]
pub struct OkAnswer {
    /// Always true.
    pub ok: bool,
}

/// The states of a backfill.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct BackfillAnswer {
    /// The ledger's.
    pub scanner: serde_json::Value,
    /// The events'.
    pub analytics: serde_json::Value,
    /// Whether the caches were made again.
    pub cache_rebuilt: bool,
}

/// What was erased.
#[derive(Debug, ToSchema)]
pub struct ErasedAnswer {
    /// Events.
    pub erased: u64,
}
