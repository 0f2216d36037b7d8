//! A small town that trades: made-up calls of an application, for a demonstration. The same seed makes the same town.
//!
//! Everything in it says that it is sample data: ids begin with `sample-`, and every line for people says so.

use crate::json::{JsonObject, array, quote};
use crate::merkle;
use crate::money::Usd;
use crate::request::Hook;
use crate::time::AtMs;

/// What people read beside every transaction.
const DETAIL: &str = "sample data";
/// Micro-dollars a new person begins with.
const SEED_MICROS: i64 = 200_000_000;
/// Micro-dollars of a second of talking.
const TALK_MICROS: i64 = 25_000;
/// APU of the smallest bundle, and what it pays in micro-dollars.
const BUNDLE: (i64, i64) = (150, 10_000_000);

const PEOPLE: [&str; 8] = [
    "ada", "bela", "chidi", "dana", "emre", "freya", "goro", "hana",
];
const AGENTS: [&str; 3] = ["clerk", "guide", "bard"];
const SPACES: [(&str, &str, &str); 5] = [
    ("sample-market", "supermarket", "supermarket"),
    ("sample-bakery", "shop", "shop"),
    ("sample-books", "shop", "shop"),
    ("sample-garage", "car_wash", "carwash"),
    ("sample-garden", "shop", "shop"),
];
const GAMES: [&str; 3] = ["map-recall", "hidden-gems", "price-check"];

/// A call of the town: which, and its body.
pub type SampleCall = (Hook, String);

/// The town.
#[derive(Debug, Clone)]
pub struct SampleTown {
    random: u64,
    made: u64,
    rev: i64,
    /// Micro-dollars and APU by person.
    wallets: Vec<(i64, i64)>,
}

impl SampleTown {
    /// The town of a seed, before anything has happened.
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            made: 0,
            rev: 0,
            wallets: vec![(SEED_MICROS, 0); PEOPLE.len()],
        }
    }

    /// A number below `n`, which is above 0: SplitMix64.
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % n.max(1)
    }

    fn pick(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Who lives there.
    pub fn founding(&self, at: AtMs) -> Vec<SampleCall> {
        let node = |id: &str, kind: &str, owner: Option<&str>| {
            let node = JsonObject::new()
                .text("nodeId", id)
                .text("kind", kind)
                .text_if("ownerNodeId", owner)
                .end();
            (Hook::UpsertNode, JsonObject::new().raw("node", &node).end())
        };
        let mut calls = Vec::new();
        for (index, name) in PEOPLE.iter().enumerate() {
            calls.push(node(&person(name), "main", None));
            let body = JsonObject::new()
                .raw("wallet", &self.wallet(index, at))
                .end();
            calls.push((Hook::GetPlayerWallet, body));
        }
        for (index, name) in AGENTS.iter().enumerate() {
            let owner = person(PEOPLE[index % PEOPLE.len()]);
            calls.push(node(&format!("sample-agent-{name}"), "agent", Some(&owner)));
        }
        calls
    }

    /// So many moments, evenly spread over a time.
    pub fn history(&mut self, from: AtMs, to: AtMs, moments: u32) -> Vec<SampleCall> {
        let mut calls = self.founding(from);
        let span = to.ms().saturating_sub(from.ms()).max(1);
        for moment in 0..i64::from(moments) {
            let offset = span / i64::from(moments.max(1)) * moment;
            calls.extend(self.moment(AtMs::clamped(from.ms() + 1 + offset)));
        }
        calls
    }

    /// What happens at one moment.
    pub fn moment(&mut self, at: AtMs) -> Vec<SampleCall> {
        self.made += 1;
        let who = self.pick(PEOPLE.len());
        match self.below(20) {
            0 => self.bundle(who, at),
            1..=3 => self.round(who, at),
            4..=5 => self.talk(who, at),
            6..=8 => vec![self.visit(who, at)],
            9..=10 => vec![self.revision(at)],
            11 => vec![self.parking(who, at)],
            _ => vec![self.shop(who, at)],
        }
    }

    fn wallet(&self, who: usize, at: AtMs) -> String {
        let (micros, apu) = self.wallets[who];
        JsonObject::new()
            .text("playerId", &person(PEOPLE[who]))
            .usd("balanceUsd", Usd::from_micros(micros).unwrap_or_default())
            .number("powerUps", apu)
            .text("currency", "USD")
            .text("updatedAt", &at.to_string())
            .end()
    }

    fn record(
        &self,
        who: usize,
        at: AtMs,
        space: &str,
        amenity: &str,
        item: (&str, &str),
    ) -> JsonObject {
        let item = JsonObject::new()
            .text("kind", item.0)
            .text("id", item.1)
            .end();
        JsonObject::new()
            .text("id", &format!("sample-{}-{}", at.ms(), self.made))
            .text("playerId", &person(PEOPLE[who]))
            .text("spaceId", space)
            .text("amenityKind", amenity)
            .raw("itemRef", &item)
            .text("at", &at.to_string())
            .text("detail", DETAIL)
    }

    fn told(&self, hook: Hook, who: usize, at: AtMs, record: JsonObject) -> SampleCall {
        let body = JsonObject::new()
            .raw("record", &record.end())
            .raw("wallets", &array([self.wallet(who, at)]))
            .end();
        (hook, body)
    }

    /// Spends, and is given money when there is none left: an owner's credit, which has no transaction.
    fn pay(&mut self, who: usize, micros: i64) {
        let (have, _) = &mut self.wallets[who];
        if *have < micros {
            *have = SEED_MICROS;
        }
        *have -= micros;
    }

    fn shop(&mut self, who: usize, at: AtMs) -> SampleCall {
        let index = self.pick(SPACES.len());
        let (space, amenity, item) = SPACES[index];
        let cents = 25 + i64::try_from(self.below(2_000)).unwrap_or(0);
        let micros = cents * 10_000;
        let earned = cents / 100 * 3;
        self.pay(who, micros);
        self.wallets[who].1 += earned;
        let number = self.below(20);
        let record = self
            .record(
                who,
                at,
                space,
                amenity,
                (item, &format!("sample-item-{number}")),
            )
            .usd("priceUsd", Usd::from_micros(micros).unwrap_or_default())
            .number("powerUpsEarned", earned)
            .text("token", "APU")
            .text("debitSource", "wallet:usd")
            .text("creditSource", &format!("amenity:{amenity}:{space}"));
        self.told(Hook::ExecutePurchase, who, at, record)
    }

    fn parking(&mut self, who: usize, at: AtMs) -> SampleCall {
        let micros = 1_500_000;
        self.pay(who, micros);
        let record = self
            .record(who, at, "__parking__", "parking", ("parking", "sample-lot"))
            .usd("priceUsd", Usd::from_micros(micros).unwrap_or_default())
            .text("debitSource", "wallet:usd");
        self.told(Hook::AppendPurchaseRecord, who, at, record)
    }

    fn bundle(&mut self, who: usize, at: AtMs) -> Vec<SampleCall> {
        let (apu, micros) = BUNDLE;
        if self.wallets[who].1 < apu {
            return vec![self.visit(who, at)];
        }
        self.wallets[who].1 -= apu;
        self.wallets[who].0 += micros;
        let record = self
            .record(
                who,
                at,
                "__wallet__",
                "wallet_bundle",
                ("bundle", "sample-bundle-150"),
            )
            .usd("priceUsd", Usd::from_micros(micros).unwrap_or_default())
            .number("powerUpsSpent", apu)
            .text("token", "APU")
            .text("debitSource", "wallet:apu")
            .text("creditSource", "wallet:usd:bundle:sample-bundle-150");
        vec![self.told(Hook::RedeemWalletBundle, who, at, record)]
    }

    fn round(&mut self, who: usize, at: AtMs) -> Vec<SampleCall> {
        let index = self.pick(GAMES.len());
        let game = GAMES[index];
        let lost = self.wallets[who].1.min(10);
        let net = i64::try_from(self.below(25)).unwrap_or(0) - lost;
        self.wallets[who].1 += net;
        let body = JsonObject::new()
            .text("gameId", game)
            .text("roundId", &format!("sample-round-{}", self.made))
            .number("netPu", net)
            .raw("wallet", &self.wallet(who, at));
        if net == 0 {
            return vec![(Hook::ApplyGameOutcome, body.end())];
        }
        let amenity = if net > 0 { "apu_credit" } else { "apu_debit" };
        let record = self
            .record(who, at, "__arcade__", amenity, ("game", game))
            .number("powerUpsDelta", net)
            .text("token", "APU")
            .text("creditSource", &format!("game:{game}"));
        vec![(
            Hook::ApplyGameOutcome,
            body.raw("record", &record.end()).end(),
        )]
    }

    fn talk(&mut self, who: usize, at: AtMs) -> Vec<SampleCall> {
        let seconds = 10 + i64::try_from(self.below(50)).unwrap_or(0);
        let micros = seconds * TALK_MICROS;
        self.pay(who, micros);
        let index = self.pick(AGENTS.len());
        let record = self
            .record(who, at, "__talk__", "talk_time", ("talk", "sample-seconds"))
            .usd("priceUsd", Usd::from_micros(micros).unwrap_or_default())
            .text(
                "counterpartyNodeId",
                &format!("sample-agent-{}", AGENTS[index]),
            )
            .text("sessionRef", &format!("sample-talk-{}", self.made / 4))
            .text("debitSource", "wallet:usd")
            .text(
                "creditSource",
                &format!("talk:agent:sample-agent-{}", AGENTS[index]),
            );
        vec![self.told(Hook::AppendPurchaseRecord, who, at, record)]
    }

    fn visit(&mut self, who: usize, at: AtMs) -> SampleCall {
        let index = self.pick(SPACES.len());
        let properties = JsonObject::new().text("spaceId", SPACES[index].0).end();
        let event = JsonObject::new()
            .text(
                "messageId",
                &format!("sample-visit-{}-{}", at.ms(), self.made),
            )
            .text("event", "Space Entered")
            .text("distinctId", &person(PEOPLE[who]))
            .text("timestamp", &at.to_string())
            .raw("properties", &properties)
            .end();
        (
            Hook::TrackEvent,
            JsonObject::new().raw("event", &event).end(),
        )
    }

    fn revision(&mut self, at: AtMs) -> SampleCall {
        self.rev += 1;
        let mut keys = vec!["__genesis__".to_owned(), "__header__".to_owned()];
        keys.extend(PEOPLE.iter().map(|name| format!("human:{}", person(name))));
        keys.extend(
            AGENTS
                .iter()
                .map(|name| format!("agent:sample-agent-{name}:1")),
        );
        keys.extend(SPACES.iter().map(|(space, _, _)| format!("space:{space}")));
        let moved = self.pick(PEOPLE.len()) + 2;
        let leaves: Vec<(String, String)> = keys
            .into_iter()
            .enumerate()
            .map(|(index, key)| {
                let turn = if index == moved { self.rev } else { 0 };
                let digest = merkle::leaf_digest(&format!("{DETAIL} {key} {turn}"));
                (key, digest)
            })
            .collect();
        let digests: Vec<&str> = leaves.iter().map(|(_, digest)| digest.as_str()).collect();
        let block = JsonObject::new()
            .number("rev", self.rev)
            .number("epoch", 0)
            .text("merkleRootHex", &merkle::root(&digests))
            .number("merkleLeafCount", leaves.len() as u64)
            .text("at", &at.to_string())
            .number("occupantCount", (PEOPLE.len() + AGENTS.len()) as u64)
            .number("leafDeltaCount", 1)
            .text("label", DETAIL)
            .end();
        let leaves = leaves
            .iter()
            .map(|(key, digest)| format!("[{},{}]", quote(key), quote(digest)));
        let body = JsonObject::new()
            .raw("block", &block)
            .raw("leaves", &array(leaves))
            .end();
        (Hook::PersistSnapshotReturningRev, body)
    }
}

fn person(name: &str) -> String {
    format!("sample-main-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Reader;

    #[test]
    fn every_call_of_the_town_is_good_and_says_what_it_is() {
        let (from, to) = (
            AtMs::clamped(1_773_000_000_000),
            AtMs::clamped(1_773_151_517_123),
        );
        let reader = Reader {
            now: to,
            skew_ms: 0,
            index_ms: 400 * 86_400_000,
            custom_events: false,
        };
        let calls = SampleTown::new(1).history(from, to, 600);
        assert_eq!(calls, SampleTown::new(1).history(from, to, 600));
        let mut hooks = std::collections::BTreeSet::new();
        for (hook, body) in &calls {
            let command = reader
                .read(*hook, body)
                .unwrap_or_else(|faults| panic!("{body}: {faults:?}"));
            hooks.insert(hook.as_str());
            assert!(body.contains("sample"), "{command:?}");
        }
        assert_eq!(hooks.len(), 8, "{hooks:?}");
    }
}
