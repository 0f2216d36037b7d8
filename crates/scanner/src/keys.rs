//! The keys of a ledger: the only place that spells one.
//!
//! Names are a public contract (other tools read them): byte for byte as documented, no hash tags. Every one is used by
//! single-key commands and scripts alone, so that a Cluster can spread them.

use crate::ids::HostId;
use crate::time::Hour;

/// The keys of one host.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    host: HostId,
    prefix: String,
}

/// A key without parameters.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $suffix:literal),* $(,)?) => {
        $($(#[$doc])* pub(crate) fn $name(&self) -> String { format!("{}{}", self.prefix, $suffix) })*
    };
}

/// A key that ends with a parameter.
macro_rules! with {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $middle:literal),* $(,)?) => {
        $($(#[$doc])* pub(crate) fn $name(&self, of: $type) -> String { format!("{}{}{of}", self.prefix, $middle) })*
    };
}

impl Keys {
    pub(crate) fn new(host: &HostId) -> Self {
        Self {
            prefix: format!("agent-play:{host}:"),
            host: host.clone(),
        }
    }

    /// The tenant.
    pub(crate) fn host(&self) -> &HostId {
        &self.host
    }

    plain! {
        /// ZSET tx id → `atMs`.
        txs = "scanner:txs",
        /// ZSET block JSON → `epoch × 2³² + rev`.
        blocks = "scanner:blocks",
        /// Where a LIST found under [`Keys::blocks`] is kept.
        blocks_backup = "scanner:blocks:list-backup",
        /// ZSET `{root}:{score}`, score 0.
        block_roots = "scanner:blocks:by-root",
        /// ZSET player → APU.
        wallets = "scanner:wallets",
        /// ZSET player → micro-dollars.
        wallets_by_usd = "scanner:wallets:by-usd",
        /// HASH: state of the backfill.
        migration_state = "scanner:migration:state",
        /// STRING: lease of the backfill.
        migration_lock = "scanner:migration:lock",
        /// HASH: the head.
        head = "scanner:cache:head",
        /// HASH operation id → request: written before, removed after.
        pending = "scanner:pending",
        /// STRING: lease of whoever repeats what was left over.
        pending_lock = "scanner:pending:lock",
        /// ZSET of spaces, score 0: prefix search.
        spaces = "scanner:spaces",
        /// ZSET of spaces → −micro-dollars spent there.
        spaces_by_volume = "scanner:spaces:by-volume",
        /// ZSET of nodes, score 0.
        nodes = "scanner:nodes",
        /// ZSET of games, score 0.
        games = "scanner:games",
        /// HASH: totals of talking.
        agg_talk = "scanner:agg:talk",
        /// STRING: ordered leaves of the newest revision that came with them.
        leaves = "scanner:leaves",
        /// STREAM of events.
        events = "analytics:events",
        /// ZSET of names of events, score 0.
        event_names = "analytics:event-names",
        /// HASH: newest stream id.
        overview = "analytics:cache:overview",
        /// HASH: state of the backfill of events.
        analytics_state = "analytics:migration:state",
        /// HASH event → entries trimmed from its ZSET.
        agg_trimmed = "analytics:agg:trimmed",
        /// STRING: when the lists of events were last trimmed, and by whom.
        trim_lock = "analytics:trim:lock",
        /// HASH of the application: session.
        app_session = "session",
        /// HASH of the application: leaves of the current snapshot, unordered.
        app_leaves = "player-chain:leaves",
    }

    with! {
        /// STRING: a row.
        tx(&str) = "scanner:tx:",
        /// ZSET tx id → `atMs` of a player.
        by_player(&str) = "scanner:tx:by-player:",
        /// ZSET tx id → `atMs` of a space.
        by_space(&str) = "scanner:tx:by-space:",
        /// ZSET tx id → `atMs`: `APU` or `USD`.
        by_token(&str) = "scanner:tx:by-token:",
        /// ZSET tx id → `atMs`: `{kind}:{id}` of an item.
        by_item(&str) = "scanner:tx:by-item:",
        /// STRING: a wallet.
        wallet(&str) = "scanner:wallet:",
        /// STRING: transactions of an hour.
        hour_txs(Hour) = "scanner:cache:tx:hour:",
        /// STRING: APU minted in an hour.
        hour_mint(Hour) = "scanner:cache:apu:mint:hour:",
        /// STRING: APU burned in an hour.
        hour_burn(Hour) = "scanner:cache:apu:burn:hour:",
        /// HASH: exactly-once roll-up of an hour.
        hour(Hour) = "scanner:cache:hour:",
        /// HASH: totals of a node for whoever reads the cache.
        cache_node(&str) = "scanner:cache:node:",
        /// HASH: exactly-once totals of a node.
        agg_node(&str) = "scanner:agg:node:",
        /// ZSET space → transactions of a node there.
        node_spaces(&str) = "scanner:agg:node-spaces:",
        /// HASH: exactly-once totals of a space.
        agg_space(&str) = "scanner:agg:space:",
        /// HASH: exactly-once totals of a game.
        agg_game(&str) = "scanner:agg:game:",
        /// HASH: registration of a node.
        node(&str) = "scanner:node:",
        /// ZSET of the nodes of a kind, score 0.
        nodes_by_kind(&str) = "scanner:nodes:by-kind:",
        /// STRING: answer of a request with an idempotency key, by its hash.
        idempotency(&str) = "scanner:idem:",
        /// ZSET message id → ms of an event.
        event(&str) = "analytics:event:",
        /// ZSET message id → ms of a person.
        by_user(&str) = "analytics:by-user:",
        /// STRING: an event.
        event_body(&str) = "analytics:event-body:",
        /// HASH: traits of a person.
        traits(&str) = "analytics:traits:",
        /// STRING: how often an event was told.
        agg_count(&str) = "analytics:agg:count:",
        /// HASH event → count of a person.
        agg_user(&str) = "analytics:agg:user:",
        /// STRING: events of an hour.
        hour_events(Hour) = "analytics:cache:events:hour:",
        /// HASH: exactly-once roll-up of the events of an hour.
        hour_of_events(Hour) = "analytics:cache:hour:",
    }

    /// HASH: exactly-once totals of an hour of a space.
    pub(crate) fn space_hour(&self, hour: Hour, space: &str) -> String {
        format!("{}scanner:cache:space-hour:{hour}:{space}", self.prefix)
    }

    /// HASH value → count of a property of an event.
    pub(crate) fn agg_prop(&self, event: &str, property: &str) -> String {
        format!("{}analytics:agg:prop:{event}:{property}", self.prefix)
    }

    /// STRING of the application: a player's games.
    pub(crate) fn app_game_state(&self, player: &str) -> String {
        format!("{}player:{player}:game-state", self.prefix)
    }

    /// Which key of the application a name is.
    pub(crate) fn app_key<'k>(&self, key: &'k str) -> Option<AppKey<'k>> {
        let rest = key.strip_prefix(self.prefix.as_str())?;
        if rest == "session" {
            return Some(AppKey::Session);
        }
        if let Some(player) = rest.strip_prefix("player:") {
            // The player's id is what stands between prefix and suffix, colons included.
            return if let Some(player) = player.strip_suffix(":purchases") {
                Some(AppKey::Purchases(player))
            } else {
                player.strip_suffix(":wallet").map(AppKey::Wallet)
            };
        }
        let node = rest.strip_prefix("node:")?;
        node.strip_suffix(":auth").map(AppKey::Auth).or_else(|| {
            let (_, agent) = node.split_once(":auth:agent-node:")?;
            Some(AppKey::Auth(agent))
        })
    }

    /// Matches all keys of the application that are read.
    pub(crate) fn app_pattern(&self, part: &str) -> String {
        // A host id holds no wildcard but the dot, which is none in these patterns.
        format!("{}{part}", self.prefix)
    }
}

/// A key of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppKey<'k> {
    /// A player's purchases.
    Purchases(&'k str),
    /// A player's wallet.
    Wallet(&'k str),
    /// The session.
    Session,
    /// An account: the node.
    Auth(&'k str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::AtMs;

    #[test]
    fn the_names_of_the_contract() {
        let keys = Keys::new(&HostId::new("default").expect("a host"));
        let hour = AtMs::parse("2026-03-10T14:05:17.123Z")
            .expect("an instant")
            .hour();
        for (key, name) in [
            (keys.txs(), "scanner:txs"),
            (keys.tx("pur-1"), "scanner:tx:pur-1"),
            (keys.by_player("nm-1"), "scanner:tx:by-player:nm-1"),
            (keys.blocks(), "scanner:blocks"),
            (keys.wallets(), "scanner:wallets"),
            (keys.wallet("nm-1"), "scanner:wallet:nm-1"),
            (keys.migration_state(), "scanner:migration:state"),
            (keys.head(), "scanner:cache:head"),
            (keys.hour_txs(hour), "scanner:cache:tx:hour:2026-03-10-14"),
            (
                keys.hour_mint(hour),
                "scanner:cache:apu:mint:hour:2026-03-10-14",
            ),
            (
                keys.hour_burn(hour),
                "scanner:cache:apu:burn:hour:2026-03-10-14",
            ),
            (keys.cache_node("n"), "scanner:cache:node:n"),
            (keys.overview(), "analytics:cache:overview"),
            (
                keys.hour_events(hour),
                "analytics:cache:events:hour:2026-03-10-14",
            ),
        ] {
            assert_eq!(key, format!("agent-play:default:{name}"));
        }
    }

    #[test]
    fn keys_of_the_application_are_told_apart() {
        let keys = Keys::new(&HostId::new("h").expect("a host"));
        for (key, expected) in [
            (
                "agent-play:h:player:a:b:purchases",
                Some(AppKey::Purchases("a:b")),
            ),
            ("agent-play:h:player:x:wallet", Some(AppKey::Wallet("x"))),
            ("agent-play:h:session", Some(AppKey::Session)),
            ("agent-play:h:node:n1:auth", Some(AppKey::Auth("n1"))),
            (
                "agent-play:h:node:n1:auth:agent-node:a1",
                Some(AppKey::Auth("a1")),
            ),
            ("agent-play:h:player:x:game-state", None),
            ("agent-play:other:player:x:wallet", None),
            ("agent-play:h:scanner:txs", None),
        ] {
            assert_eq!(keys.app_key(key), expected, "{key}");
        }
    }
}
