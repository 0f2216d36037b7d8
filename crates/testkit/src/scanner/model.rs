//! A ledger as one would write it with all the time and memory in the world: keep what was told, and go through all of it
//! for every answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::calls::Call;

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// Kinds whose price a player spends for goods.
const GOODS: [&str; 5] = ["shop", "supermarket", "car_wash", "parking", "house"];

#[derive(Debug, Clone, PartialEq)]
struct Tx {
    id: String,
    player: String,
    space: String,
    kind: String,
    item_kind: String,
    item_id: String,
    at: i64,
    price: Option<i64>,
    delta: Option<i64>,
    marked: bool,
    session: Option<String>,
    body: Value,
}

/// Everything that was told.
#[derive(Debug, Clone, Default)]
pub struct LedgerModel {
    txs: BTreeMap<String, Tx>,
    wallets: BTreeMap<String, (i64, Value)>,
    blocks: BTreeMap<(i64, i64), String>,
    events: BTreeMap<String, (String, String, i64)>,
    nodes: BTreeMap<String, (String, Option<String>)>,
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelNode {
    /// Transactions.
    pub txs: u64,
    /// Micro-dollars spent, received, and of all rows.
    pub usd: (i64, i64, i64),
    /// APU minted and burned.
    pub apu: (i64, i64),
    /// Milliseconds of the latest transaction.
    pub last: Option<i64>,
    /// Transactions by kind.
    pub by_kind: BTreeMap<String, u64>,
    /// Transactions by space.
    pub by_space: BTreeMap<String, u64>,
}

/// What is known of a space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSpace {
    /// Transactions.
    pub txs: u64,
    /// Micro-dollars spent there.
    pub volume: i64,
    /// Purchases of goods: number and micro-dollars.
    pub goods: (u64, i64),
    /// The same within the window.
    pub goods_in_window: (u64, i64),
}

/// What is known of talking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelTalk {
    /// Sessions.
    pub sessions: u64,
    /// Billed rows.
    pub ticks: u64,
    /// Micro-dollars.
    pub charged: i64,
    /// APU.
    pub earned: i64,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Micro-dollars of a decimal with up to six places.
fn micros(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = format!("{fraction:0<6}");
    Some(whole.parse::<i64>().ok()? * 1_000_000 + fraction.parse::<i64>().ok()?)
}

/// Milliseconds of `YYYY-MM-DDTHH:MM:SS.mmmZ`, by counting days.
fn millis(value: &Value) -> i64 {
    let text = text(value);
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let is_leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    let mut days = 0;
    for y in 1970..year {
        days += if is_leap(y) { 366 } else { 365 };
    }
    let lengths = [
        31,
        if is_leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    days += lengths.iter().take(month as usize - 1).sum::<i64>() + day - 1;
    ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60_000
        + number(17, 19) * 1000
        + number(20, 23)
}

/// First millisecond of the window at an instant, and the first after it.
fn window(now: i64) -> (i64, i64) {
    let hour = now - now.rem_euclid(HOUR);
    (hour - 23 * HOUR, hour + HOUR)
}

impl LedgerModel {
    /// Nothing was told yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a call; gives the status it must be answered with.
    pub fn apply(&mut self, call: &Call) -> &'static str {
        let body = &call.body;
        match call.hook {
            "appendPurchaseRecord" | "executePurchase" | "redeemWalletBundle" => self.record(body),
            "applyGameOutcome" if body["record"].is_object() => self.record(body),
            "applyGameOutcome" => {
                self.wallet(&body["wallet"]);
                let player = text(&body["wallet"]["playerId"]);
                let id = format!("round:{player}:{}", text(&body["roundId"]));
                let at = millis(&body["wallet"]["updatedAt"]);
                self.event(id, "Game Round Completed", &player, at)
            }
            "getPlayerWallet" => {
                let status = self.wallet(&body["wallet"]);
                let player = text(&body["wallet"]["playerId"]);
                let at = millis(&body["wallet"]["updatedAt"]);
                match self.event(
                    format!("wallet-seed:{player}"),
                    "Wallet Seeded",
                    &player,
                    at,
                ) {
                    "created" => "created",
                    _ => status,
                }
            }
            "indexWalletBalance" => self.wallet(&body["wallet"]),
            "persistSnapshotReturningRev" => self.block(&body["block"]),
            "trackEvent" => {
                let event = &body["event"];
                let (name, who) = (text(&event["event"]), text(&event["distinctId"]));
                self.event(
                    text(&event["messageId"]),
                    &name,
                    &who,
                    millis(&event["timestamp"]),
                )
            }
            "upsertNode" => {
                let node = &body["node"];
                let new = (
                    text(&node["kind"]),
                    node["ownerNodeId"].as_str().map(str::to_owned),
                );
                let old = self.nodes.insert(text(&node["nodeId"]), new.clone());
                if old == Some(new) {
                    "duplicate"
                } else {
                    "created"
                }
            }
            other => panic!("the model knows no call {other}"),
        }
    }

    fn record(&mut self, body: &Value) -> &'static str {
        let record = &body["record"];
        let (earned, spent) = (
            record["powerUpsEarned"].as_i64(),
            record["powerUpsSpent"].as_i64(),
        );
        let net =
            (earned.is_some() || spent.is_some()).then(|| earned.unwrap_or(0) - spent.unwrap_or(0));
        let tx = Tx {
            id: text(&record["id"]),
            player: text(&record["playerId"]),
            space: text(&record["spaceId"]),
            kind: text(&record["amenityKind"]),
            item_kind: text(&record["itemRef"]["kind"]),
            item_id: text(&record["itemRef"]["id"]),
            at: millis(&record["at"]),
            price: micros(&record["priceUsd"]),
            delta: record["powerUpsDelta"].as_i64().or(net),
            marked: record["token"] == "APU",
            session: record["sessionRef"].as_str().map(str::to_owned),
            body: record.clone(),
        };
        let status = match self.txs.get(&tx.id) {
            Some(known) if *known == tx => "duplicate",
            Some(_) => return "conflict",
            None => "created",
        };
        let name = match tx.kind.as_str() {
            "wallet_bundle" => "Wallet Bundle Redeemed",
            "talk_time" => "Talk Session Billed",
            "apu_credit" | "apu_debit" if tx.item_kind == "game" => "Game Round Completed",
            "apu_credit" => "APU Credited",
            "apu_debit" => "APU Debited",
            _ => "Purchase Completed",
        };
        let (id, player, at) = (format!("purchase:{}", tx.id), tx.player.clone(), tx.at);
        self.event(id, name, &player, at);
        self.txs.insert(tx.id.clone(), tx);
        for wallet in body["wallets"].as_array().into_iter().flatten() {
            self.wallet(wallet);
        }
        if body["wallet"].is_object() {
            self.wallet(&body["wallet"]);
        }
        status
    }

    fn wallet(&mut self, wallet: &Value) -> &'static str {
        let at = millis(&wallet["updatedAt"]);
        match self.wallets.get(&text(&wallet["playerId"])) {
            Some((known, _)) if *known > at => return "stale",
            Some((_, known)) if known == wallet => return "duplicate",
            _ => {}
        }
        self.wallets
            .insert(text(&wallet["playerId"]), (at, wallet.clone()));
        "created"
    }

    fn block(&mut self, block: &Value) -> &'static str {
        let epoch = block["epoch"]
            .as_i64()
            .expect("the generator says the epoch");
        let rev = block["rev"]
            .as_i64()
            .expect("the generator says the revision");
        let root = text(&block["merkleRootHex"]);
        let status = match self.blocks.get(&(epoch, rev)) {
            Some(known) if *known == root => "duplicate",
            Some(_) => return "conflict",
            None => "created",
        };
        self.blocks.insert((epoch, rev), root);
        if block["leafDeltaCount"].as_i64() != Some(0) {
            let at = millis(&block["at"]);
            self.event(
                format!("block:{epoch}:{rev}"),
                "Chain Revision Published",
                "system",
                at,
            );
        }
        status
    }

    fn event(&mut self, id: String, name: &str, who: &str, at: i64) -> &'static str {
        if self.events.contains_key(&id) {
            return "duplicate";
        }
        self.events
            .insert(id, (name.to_owned(), who.to_owned(), at));
        "created"
    }

    /// Ids of transactions, newest first; of a player, a space, a currency, if given.
    pub fn tx_ids(
        &self,
        player: Option<&str>,
        space: Option<&str>,
        token: Option<&str>,
    ) -> Vec<String> {
        let mut found: Vec<&Tx> = self
            .txs
            .values()
            .filter(|tx| player.is_none_or(|player| tx.player == player))
            .filter(|tx| space.is_none_or(|space| tx.space == space))
            .filter(|tx| match token {
                Some("APU") => tx.delta.is_some() || tx.marked,
                Some("USD") => tx.price.is_some(),
                _ => true,
            })
            .collect();
        found.sort_by(|a, b| (b.at, b.id.as_bytes()).cmp(&(a.at, a.id.as_bytes())));
        found.into_iter().map(|tx| tx.id.clone()).collect()
    }

    /// Milliseconds of a transaction.
    pub fn tx_at(&self, id: &str) -> Option<i64> {
        self.txs.get(id).map(|tx| tx.at)
    }

    /// Transactions, APU minted and burned in the window, and the latest instant of all.
    pub fn head(&self, now: i64) -> (u64, i64, i64, Option<i64>) {
        let (from, to) = window(now);
        let inside: Vec<&Tx> = self
            .txs
            .values()
            .filter(|tx| tx.at >= from && tx.at < to)
            .collect();
        let delta = |tx: &&Tx| tx.delta.unwrap_or(0);
        (
            inside.len() as u64,
            inside.iter().map(delta).filter(|delta| *delta > 0).sum(),
            inside
                .iter()
                .map(delta)
                .filter(|delta| *delta < 0)
                .map(|delta| -delta)
                .sum(),
            self.txs.values().map(|tx| tx.at).max(),
        )
    }

    /// The greatest epoch and revision, and its root.
    pub fn newest_block(&self) -> Option<(i64, i64, String)> {
        let ((epoch, rev), root) = self.blocks.last_key_value()?;
        Some((*epoch, *rev, root.clone()))
    }

    /// All revisions, newest first.
    pub fn block_places(&self) -> Vec<(i64, i64)> {
        self.blocks.keys().rev().copied().collect()
    }

    /// All players with transactions.
    pub fn players(&self) -> BTreeSet<String> {
        self.txs.values().map(|tx| tx.player.clone()).collect()
    }

    /// All nodes: registered, with a wallet, with a transaction; in byte order.
    pub fn node_ids(&self) -> BTreeSet<String> {
        let mut ids = self.players();
        ids.extend(self.wallets.keys().cloned());
        ids.extend(self.nodes.keys().cloned());
        ids
    }

    /// What a node is: `main`, `agent` or `unknown`.
    pub fn node_kind(&self, id: &str) -> String {
        self.nodes
            .get(id)
            .map_or("unknown".to_owned(), |(kind, _)| kind.clone())
    }

    /// Micro-dollars and APU of a wallet.
    pub fn wallet_of(&self, player: &str) -> Option<(i64, i64)> {
        let (_, wallet) = self.wallets.get(player)?;
        Some((micros(&wallet["balanceUsd"])?, wallet["powerUps"].as_i64()?))
    }

    /// Totals of a node.
    pub fn node(&self, player: &str) -> ModelNode {
        let mut node = ModelNode::default();
        for tx in self.txs.values().filter(|tx| tx.player == player) {
            node.txs += 1;
            let price = tx.price.unwrap_or(0);
            if GOODS.contains(&tx.kind.as_str()) || tx.kind == "talk_time" {
                node.usd.0 += price;
            }
            if tx.kind == "wallet_bundle" {
                node.usd.1 += price;
            }
            node.usd.2 += price;
            let delta = tx.delta.unwrap_or(0);
            node.apu.0 += delta.max(0);
            node.apu.1 += (-delta).max(0);
            node.last = node.last.max(Some(tx.at));
            *node.by_kind.entry(tx.kind.clone()).or_default() += 1;
            *node.by_space.entry(tx.space.clone()).or_default() += 1;
        }
        node
    }

    /// Real spaces, by volume descending, then id.
    pub fn spaces(&self) -> Vec<(String, i64)> {
        let mut volumes: BTreeMap<&str, i64> = BTreeMap::new();
        for tx in self.txs.values().filter(|tx| !tx.space.starts_with("__")) {
            let counts = GOODS.contains(&tx.kind.as_str()) || tx.kind == "talk_time";
            *volumes.entry(&tx.space).or_default() +=
                if counts { tx.price.unwrap_or(0) } else { 0 };
        }
        let mut spaces: Vec<(String, i64)> = volumes
            .into_iter()
            .map(|(space, volume)| (space.to_owned(), volume))
            .collect();
        spaces.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        spaces
    }

    /// Totals of a space.
    pub fn space(&self, space: &str, now: i64) -> ModelSpace {
        let (from, to) = window(now);
        let mut found = ModelSpace::default();
        for tx in self.txs.values().filter(|tx| tx.space == space) {
            found.txs += 1;
            let price = tx.price.unwrap_or(0);
            let is_goods = GOODS.contains(&tx.kind.as_str());
            if is_goods || tx.kind == "talk_time" {
                found.volume += price;
            }
            if is_goods {
                found.goods.0 += 1;
                found.goods.1 += price;
                if tx.at >= from && tx.at < to {
                    found.goods_in_window.0 += 1;
                    found.goods_in_window.1 += price;
                }
            }
        }
        found
    }

    /// Rounds, net, minted, burned of a game.
    pub fn game(&self, game: &str) -> (u64, i64, i64, i64) {
        let mut found = (0, 0, 0, 0);
        for tx in self
            .txs
            .values()
            .filter(|tx| tx.item_kind == "game" && tx.item_id == game)
        {
            let delta = tx.delta.unwrap_or(0);
            found.0 += 1;
            found.1 += delta;
            found.2 += delta.max(0);
            found.3 += (-delta).max(0);
        }
        found
    }

    /// Totals of talking.
    pub fn talk(&self) -> ModelTalk {
        let mut talk = ModelTalk::default();
        let mut sessions = BTreeSet::new();
        for tx in self.txs.values() {
            if tx.kind == "talk_time" {
                talk.ticks += 1;
                talk.charged += tx.price.unwrap_or(0);
                match &tx.session {
                    Some(session) => {
                        sessions.insert(session.clone());
                    }
                    None => talk.sessions += 1,
                }
            }
            if tx.kind == "talk_time" || tx.item_kind == "talk" {
                talk.earned += tx.delta.unwrap_or(0).max(0);
            }
        }
        talk.sessions += sessions.len() as u64;
        talk
    }

    /// Events within the window.
    pub fn events_in_window(&self, now: i64) -> u64 {
        let (from, to) = window(now);
        self.events
            .values()
            .filter(|(_, _, at)| *at >= from && *at < to)
            .count() as u64
    }

    /// Events by name, all-time.
    pub fn events_by_name(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (name, _, _) in self.events.values() {
            *counts.entry(name.clone()).or_default() += 1;
        }
        counts
    }

    /// Message ids of a person, newest first.
    pub fn events_of(&self, who: &str) -> Vec<String> {
        let mut found: Vec<(i64, &String)> = self
            .events
            .iter()
            .filter(|(_, (_, of, _))| of == who)
            .map(|(id, (_, _, at))| (*at, id))
            .collect();
        found.sort_by(|a, b| (b.0, b.1.as_bytes()).cmp(&(a.0, a.1.as_bytes())));
        found.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// The records that were taken, as they were told: what the application itself would keep.
    pub fn records(&self) -> Vec<&Value> {
        self.txs.values().map(|tx| &tx.body).collect()
    }

    /// The wallets as they were last told.
    pub fn wallet_bodies(&self) -> Vec<&Value> {
        self.wallets.values().map(|(_, wallet)| wallet).collect()
    }
}
