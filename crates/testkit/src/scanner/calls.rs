//! Calls of an application, made from a seed: purchases, rounds, talk, bundles, wallets, revisions, events, accounts, with
//! everything in them that goes wrong in real life: repetitions, late delivery, bursts in one millisecond.

use serde_json::{Value, json};

use crate::rng::Rng;

/// One call: the hook's name and its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `executePurchase`, ….
    pub hook: &'static str,
    /// The body.
    pub body: Value,
}

/// How large the world is.
#[derive(Debug, Clone, Copy)]
pub struct CallMix {
    /// Players.
    pub players: u64,
    /// Spaces.
    pub spaces: u64,
    /// Calls happen within so many milliseconds before `now`.
    pub span_ms: u64,
    /// Per mille of calls that repeat an earlier one.
    pub repeated: u32,
    /// Nothing but transactions.
    pub only_txs: bool,
}

impl Default for CallMix {
    fn default() -> Self {
        Self {
            players: 12,
            spaces: 7,
            span_ms: 60 * 3_600_000,
            repeated: 120,
            only_txs: false,
        }
    }
}

/// Makes calls one after the other.
#[derive(Debug)]
pub struct CallGenerator {
    rng: Rng,
    mix: CallMix,
    now_ms: i64,
    made: u64,
    rev: u64,
    epoch: u64,
    wallet_clock: i64,
    earlier: Vec<Call>,
}

const GAMES: [&str; 4] = ["map-recall", "hidden-gems", "price-check", "lease-locker"];
const EARLIER_MAX: usize = 2_000;

impl CallGenerator {
    /// Calls of a seed, the latest of which happen at `now_ms`.
    pub fn new(seed: u64, now_ms: i64, mix: CallMix) -> Self {
        Self {
            rng: Rng::new(seed),
            mix,
            now_ms,
            made: 0,
            rev: 0,
            epoch: 0,
            wallet_clock: 0,
            earlier: Vec::new(),
        }
    }

    /// So many calls.
    pub fn take(&mut self, count: usize) -> Vec<Call> {
        (0..count).map(|_| self.next_call()).collect()
    }

    /// The next call.
    pub fn next_call(&mut self) -> Call {
        if !self.earlier.is_empty() && self.rng.chance(self.mix.repeated) {
            let at = self.rng.index(self.earlier.len());
            return self.earlier[at].clone();
        }
        self.made += 1;
        let call = match if self.mix.only_txs {
            0
        } else {
            self.rng.below(100)
        } {
            0..55 => self.purchase(),
            55..67 => self.round(),
            67..75 => self.wallet_call(),
            75..83 => self.block(),
            83..93 => self.event(),
            _ => self.node(),
        };
        if self.earlier.len() < EARLIER_MAX {
            self.earlier.push(call.clone());
        }
        call
    }

    fn player(&mut self) -> String {
        format!("nm-{}", self.rng.long_tail(self.mix.players))
    }

    /// Instants cluster at the edges of hours and in single milliseconds.
    fn at(&mut self) -> i64 {
        let back = self.rng.below(self.mix.span_ms.max(1)) as i64;
        let at = self.now_ms - back;
        match self.rng.below(10) {
            0 => at - at.rem_euclid(3_600_000),
            1 => at - at.rem_euclid(3_600_000) + 3_599_999,
            2 => at - at.rem_euclid(600_000),
            _ => at,
        }
        .min(self.now_ms)
    }

    /// No two wallets are of the same millisecond: which of two equals wins is the order of arrival.
    fn wallet(&mut self, player: &str) -> Value {
        self.wallet_clock += 1;
        let jitter = self.rng.below(1000) as i64 * 10_000;
        let at = self.now_ms - 20_000_000 + jitter + self.wallet_clock % 10_000;
        let micros = self.rng.below(50_000_000) as i64;
        json!({
            "playerId": player, "balanceUsd": decimal(micros), "powerUps": self.rng.below(900), "currency": "USD",
            "updatedAt": instant(at),
        })
    }

    fn record(&mut self) -> Value {
        let player = self.player();
        let space = format!("space-{}", self.rng.long_tail(self.mix.spaces));
        let at = instant(self.at());
        let id = format!("pur-{:x}-{}", self.rng.below(1 << 20), self.made);
        let price = decimal(1 + self.rng.below(40_000_000) as i64);
        let earned = self.rng.below(60);
        let shop = |kind: &str, item: &str| {
            json!({
                "id": id, "playerId": player, "spaceId": space, "amenityKind": kind,
                "itemRef": {"kind": item, "id": "item-3"}, "priceUsd": price, "at": at, "powerUpsEarned": earned,
                "powerUpsDelta": earned, "token": "APU", "debitSource": "wallet:usd",
                "creditSource": format!("amenity:{kind}:{space}"),
            })
        };
        match self.rng.below(10) {
            0..=3 => shop("shop", "shop"),
            4 => shop("supermarket", "supermarket"),
            5 => shop("car_wash", "carwash"),
            6 => json!({
                "id": id, "playerId": player, "spaceId": "__parking__", "amenityKind": "parking",
                "itemRef": {"kind": "parking", "id": "lot"}, "priceUsd": price, "at": at,
            }),
            7 => {
                let mut record = json!({
                    "id": id, "playerId": player, "spaceId": "__talk__", "amenityKind": "talk_time",
                    "itemRef": {"kind": "talk", "id": "seconds"}, "priceUsd": "0.025", "at": at,
                    "counterpartyNodeId": "na-1",
                });
                if self.rng.chance(700) {
                    record["sessionRef"] = json!(format!("talk-{}", self.rng.below(5)));
                }
                record
            }
            8 => json!({
                "id": id, "playerId": player, "spaceId": "__wallet__", "amenityKind": "wallet_bundle",
                "itemRef": {"kind": "bundle", "id": "b150"}, "priceUsd": 10, "at": at, "powerUpsSpent": 150,
            }),
            _ => json!({
                "id": id, "playerId": player, "spaceId": "__talk__", "amenityKind": "apu_credit",
                "itemRef": {"kind": "talk", "id": "reward"}, "at": at, "powerUpsEarned": 4, "token": "APU",
            }),
        }
    }

    fn purchase(&mut self) -> Call {
        let record = self.record();
        let hook = match record["amenityKind"].as_str() {
            Some("wallet_bundle") => "redeemWalletBundle",
            Some("shop" | "supermarket" | "car_wash") => "executePurchase",
            _ => "appendPurchaseRecord",
        };
        let mut body = json!({ "record": record });
        if !self.mix.only_txs && self.rng.chance(600) {
            let player = record["playerId"].as_str().unwrap_or_default().to_owned();
            body["wallets"] = json!([self.wallet(&player)]);
        }
        Call { hook, body }
    }

    fn round(&mut self) -> Call {
        let player = self.player();
        let game = GAMES[self.rng.index(GAMES.len())];
        let net = self.rng.below(41) as i64 - 20;
        let wallet = self.wallet(&player);
        let mut body = json!({ "gameId": game, "roundId": format!("r{}", self.made), "netPu": net, "wallet": wallet });
        if net != 0 {
            let at = instant(self.at());
            body["record"] = json!({
                "id": format!("round-{}", self.made), "playerId": player, "spaceId": "__arcade__",
                "amenityKind": if net > 0 { "apu_credit" } else { "apu_debit" },
                "itemRef": {"kind": "game", "id": game}, "at": at, "powerUpsDelta": net, "token": "APU",
                "creditSource": format!("game:{game}"),
            });
        }
        Call {
            hook: "applyGameOutcome",
            body,
        }
    }

    fn wallet_call(&mut self) -> Call {
        let player = self.player();
        let hook = if self.rng.chance(300) {
            "getPlayerWallet"
        } else {
            "indexWalletBalance"
        };
        Call {
            hook,
            body: json!({ "wallet": self.wallet(&player) }),
        }
    }

    fn block(&mut self) -> Call {
        if self.rev > 3 && self.rng.chance(60) {
            self.epoch += 1;
            self.rev = 0;
        }
        self.rev += 1 + self.rng.below(2);
        let root: String = (0..8)
            .map(|_| format!("{:08x}", self.rng.below(1 << 32)))
            .collect();
        let mut block = json!({
            "rev": self.rev, "epoch": self.epoch, "merkleRootHex": root, "merkleLeafCount": self.rng.below(40),
            "at": instant(self.at()),
        });
        if self.rng.chance(300) {
            block["leafDeltaCount"] = json!(self.rng.below(3));
        }
        Call {
            hook: "persistSnapshotReturningRev",
            body: json!({ "block": block }),
        }
    }

    fn event(&mut self) -> Call {
        let player = self.player();
        let (name, property) = [
            ("Space Entered", "spaceId"),
            ("Player Added", "nodeKind"),
            ("Amenity Entered", "amenityKind"),
        ][self.rng.index(3)];
        let value = format!("v{}", self.rng.below(4));
        let at = instant(self.at());
        Call {
            hook: "trackEvent",
            body: json!({ "event": {
                "messageId": format!("m-{}", self.made), "event": name, "distinctId": player, "timestamp": at,
                "properties": { property: value },
            } }),
        }
    }

    fn node(&mut self) -> Call {
        let id = self.rng.below(self.mix.players);
        let node = if self.rng.chance(500) {
            json!({ "nodeId": format!("nm-{id}"), "kind": "main" })
        } else {
            json!({ "nodeId": format!("na-{id}"), "kind": "agent", "ownerNodeId": format!("nm-{id}") })
        };
        Call {
            hook: "upsertNode",
            body: json!({ "node": node }),
        }
    }
}

/// Micro-dollars as decimal text.
pub(super) fn decimal(micros: i64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Milliseconds since 1970 as RFC 3339.
pub(super) fn instant(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Days since 1970 to a date: the usual count from the first of March of a year divisible by 400.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_773_151_517_123, "2026-03-10T14:05:17.123Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        ] {
            assert_eq!(instant(ms), text);
        }
    }
}
