//! The calls an application makes: from the body of a hook to a checked operation.

use serde::{Deserialize, Serialize};

use crate::block::{Block, Leaf, read_leaves};
use crate::event::{Event, Teller};
use crate::faults::{Fault, Faults};
use crate::fields::{Fields, elements};
use crate::ids::check_id;
use crate::money::Rounding;
use crate::node::Node;
use crate::record::{ItemKind, Operation, Record, words};
use crate::time::AtMs;
use crate::wallet::Wallet;

/// Wallets of one call at most: buyer, owner, and room.
const WALLETS_MAX: usize = 10;

words! {
    /// The calls.
    Hook {
        /// A line was appended to a player's purchases.
        AppendPurchaseRecord = "appendPurchaseRecord",
        /// Something was bought.
        ExecutePurchase = "executePurchase",
        /// APU were exchanged for dollars.
        RedeemWalletBundle = "redeemWalletBundle",
        /// A game round ended.
        ApplyGameOutcome = "applyGameOutcome",
        /// A wallet was made (its first balance).
        GetPlayerWallet = "getPlayerWallet",
        /// A revision of the world was published.
        PersistSnapshotReturningRev = "persistSnapshotReturningRev",
        /// Something happened that is no money.
        TrackEvent = "trackEvent",
        /// A wallet changed for another reason.
        IndexWalletBalance = "indexWalletBalance",
        /// An account was made or changed.
        UpsertNode = "upsertNode",
    }
}

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// It just happened: the row gets the stamp of the newest revision.
    Live,
    /// From an archive: no stamp, and its event says so.
    Archive,
}

/// A checked operation, ready to be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A transaction and the wallets it changed.
    Tx {
        /// The record.
        record: Record,
        /// The operation of the application.
        op: Operation,
        /// Wallets after it.
        wallets: Vec<Wallet>,
        /// Live or from an archive.
        origin: Origin,
    },
    /// A game round that changed nothing: wallet and event, no transaction.
    EvenRound {
        /// The wallet.
        wallet: Wallet,
        /// The event.
        event: Event,
    },
    /// A wallet's first balance.
    Seed {
        /// The wallet.
        wallet: Wallet,
    },
    /// Another change of a wallet.
    Wallet {
        /// The wallet.
        wallet: Wallet,
    },
    /// A revision.
    Block {
        /// The revision.
        block: Block,
        /// Its leaves in order, if given.
        leaves: Option<Vec<Leaf>>,
    },
    /// An event.
    Event {
        /// The event.
        event: Event,
    },
    /// A registration.
    Node {
        /// The account.
        node: Node,
    },
}

impl Command {
    /// What the operation is about, for answers and logs.
    pub fn id(&self) -> String {
        match self {
            Self::Tx { record, .. } => record.id.clone(),
            Self::EvenRound { event, .. } | Self::Event { event } => event.message_id.clone(),
            Self::Seed { wallet } | Self::Wallet { wallet } => wallet.player_id.clone(),
            Self::Block { block, .. } => block.rev.to_string(),
            Self::Node { node } => node.node_id.clone(),
        }
    }
}

/// How requests are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    /// Now.
    pub(crate) now: AtMs,
    /// How far ahead of our clock an instant may be, milliseconds.
    pub(crate) skew_ms: i64,
    /// How long events are kept, milliseconds.
    pub(crate) index_ms: i64,
    /// Events outside the catalogue are taken.
    pub(crate) custom_events: bool,
}

impl Reader {
    pub(crate) fn latest(&self) -> AtMs {
        AtMs::clamped(self.now.ms().saturating_add(self.skew_ms))
    }

    pub(crate) fn earliest_event(&self) -> AtMs {
        AtMs::clamped(self.now.ms().saturating_sub(self.index_ms))
    }

    /// Reads the body of a call. All faults at once.
    pub(crate) fn read(&self, hook: Hook, body: &str) -> Result<Command, Vec<Fault>> {
        let mut faults = Faults::default();
        let command = self.read_into(hook, body, &mut faults);
        match command {
            Some(command) if faults.is_empty() => Ok(command),
            _ => {
                if faults.is_empty() {
                    faults.add("", "invalid", "the body cannot be used");
                }
                Err(faults.into_vec())
            }
        }
    }

    fn read_into(&self, hook: Hook, body: &str, faults: &mut Faults) -> Option<Command> {
        let latest = self.latest();
        let mut fields = Fields::parse(body, "", Rounding::Refuse, faults);
        match hook {
            Hook::AppendPurchaseRecord => {
                let wallets = self.wallets(&mut fields);
                let given = fields
                    .text("op")
                    .map(|op| (Operation::parse(op.trim()), op));
                if let Some((None, op)) = &given {
                    let message = format!("{op:?} is not one of: {}", Operation::list().trim_end());
                    fields.fault("op", "unknown_value", message);
                }
                let record = self.record(&mut fields)?;
                let op = given
                    .and_then(|(op, _)| op)
                    .unwrap_or_else(|| record.default_op());
                Some(tx(record, op, wallets))
            }
            Hook::ExecutePurchase | Hook::RedeemWalletBundle => {
                let op = if hook == Hook::ExecutePurchase {
                    Operation::Purchase
                } else {
                    Operation::RedeemWalletBundle
                };
                let wallets = self.wallets(&mut fields);
                Some(tx(self.record(&mut fields)?, op, wallets))
            }
            Hook::ApplyGameOutcome => self.outcome(&mut fields),
            Hook::GetPlayerWallet | Hook::IndexWalletBalance => {
                let raw = fields.required("wallet")?;
                let wallet = Wallet::read(raw, "wallet", latest, fields.faults())?;
                Some(if hook == Hook::GetPlayerWallet {
                    Command::Seed { wallet }
                } else {
                    Command::Wallet { wallet }
                })
            }
            Hook::PersistSnapshotReturningRev => {
                let raw = fields.required("block")?;
                let leaves = fields.raw("leaves");
                let block = Block::read(raw, "block", latest, fields.faults());
                let leaves = leaves.map(|raw| read_leaves(raw, block.as_ref(), fields.faults()));
                Some(Command::Block {
                    block: block?,
                    leaves: match leaves {
                        None => None,
                        Some(leaves) => Some(leaves?),
                    },
                })
            }
            Hook::TrackEvent => {
                let raw = fields.required("event")?;
                let teller = Teller::Server {
                    custom: self.custom_events,
                };
                let event = Event::read(
                    raw,
                    "event",
                    teller,
                    self.earliest_event(),
                    latest,
                    fields.faults(),
                )?;
                Some(Command::Event { event })
            }
            Hook::UpsertNode => {
                let raw = fields.required("node")?;
                let node = Node::read(raw, "node", fields.faults())?;
                Some(Command::Node { node })
            }
        }
    }

    fn record(&self, fields: &mut Fields<'_, '_>) -> Option<Record> {
        let raw = fields.required("record")?;
        let latest = self.latest();
        let mut record = Fields::parse(raw, "record", Rounding::Refuse, fields.faults());
        Record::read(&mut record, latest)
    }

    /// `wallets`, or a single `wallet`.
    fn wallets(&self, fields: &mut Fields<'_, '_>) -> Vec<Wallet> {
        let latest = self.latest();
        let mut wallets = Vec::new();
        if let Some(raw) = fields.raw("wallet") {
            wallets.extend(Wallet::read(raw, "wallet", latest, fields.faults()));
        }
        let Some(raw) = fields.raw("wallets") else {
            return wallets;
        };
        let Some(items) = elements(raw) else {
            fields.fault("wallets", "wrong_type", "is not a list");
            return wallets;
        };
        if items.len() > WALLETS_MAX {
            fields.fault(
                "wallets",
                "too_many",
                format!("has more than {WALLETS_MAX} entries"),
            );
            return wallets;
        }
        for (index, item) in items.iter().enumerate() {
            let path = format!("wallets[{index}]");
            wallets.extend(Wallet::read(item.get(), &path, latest, fields.faults()));
        }
        wallets
    }

    fn outcome(&self, fields: &mut Fields<'_, '_>) -> Option<Command> {
        let game = fields.required_id("gameId");
        let round = fields.required_id("roundId");
        fields.required("netPu");
        let net = fields.integer("netPu", i64::MIN);
        let latest = self.latest();
        let wallet = fields
            .required("wallet")
            .and_then(|raw| Wallet::read(raw, "wallet", latest, fields.faults()));
        let has_record = fields.raw("record").is_some();
        match net {
            Some(0) if has_record => {
                fields.fault(
                    "record",
                    "unexpected",
                    "a round that changes nothing has no record",
                );
                None
            }
            Some(0) => {
                let (wallet, game, round) = (wallet?, game?, round?);
                let id = format!("round:{}:{round}", wallet.player_id);
                if check_id(&id).is_err() {
                    fields.fault(
                        "roundId",
                        "too_long",
                        "is too long together with the player's id",
                    );
                    return None;
                }
                let at = AtMs::clamped(wallet.updated_ms);
                let event = Event::of_even_round(&wallet.player_id, &game, &round, at);
                Some(Command::EvenRound { wallet, event })
            }
            Some(net) => {
                let record = self.record(fields)?;
                if record.delta != Some(net) {
                    fields.fault(
                        "record.powerUpsDelta",
                        "apu_mismatch",
                        format!("is not netPu, which is {net}"),
                    );
                }
                if record.item_kind != ItemKind::Game || Some(&record.item_id) != game.as_ref() {
                    fields.fault(
                        "record.itemRef",
                        "item_mismatch",
                        "is not the game of the round",
                    );
                }
                Some(tx(
                    record,
                    Operation::ApplyGameOutcome,
                    wallet.into_iter().collect(),
                ))
            }
            None => None,
        }
    }
}

/// Checks the body of a call without a ledger, with the usual bounds: what a test of a client, or a fuzzer, asks for.
pub fn check_request(hook: Hook, body: &str, now: AtMs) -> Result<Command, Vec<Fault>> {
    const MINUTE_MS: i64 = 60_000;
    let reader = Reader {
        now,
        skew_ms: 5 * MINUTE_MS,
        index_ms: 400 * 24 * 60 * MINUTE_MS,
        custom_events: true,
    };
    reader.read(hook, body)
}

fn tx(record: Record, op: Operation, wallets: Vec<Wallet>) -> Command {
    Command::Tx {
        record,
        op,
        wallets,
        origin: Origin::Live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader() -> Reader {
        Reader {
            now: AtMs::parse("2026-03-10T15:00:00Z").expect("an instant"),
            skew_ms: 300_000,
            index_ms: 400 * 86_400_000,
            custom_events: false,
        }
    }

    fn codes(hook: Hook, body: &str) -> Vec<String> {
        match reader().read(hook, body) {
            Ok(_) => Vec::new(),
            Err(faults) => faults
                .into_iter()
                .map(|fault| format!("{}:{}", fault.path, fault.code))
                .collect(),
        }
    }

    const WALLET: &str = r#"{"playerId":"nm-1","balanceUsd":6.5,"powerUps":9,"updatedAt":"2026-03-10T14:05:17.123Z"}"#;
    const RECORD: &str = r#"{"id":"r1","playerId":"nm-1","spaceId":"__arcade__","amenityKind":"apu_credit",
        "itemRef":{"kind":"game","id":"map-recall"},"at":"2026-03-10T14:05:17Z","powerUpsDelta":5}"#;

    #[test]
    fn rounds_have_a_record_exactly_when_something_changed() {
        let body = |net: &str, record: &str| {
            format!(
                r#"{{"gameId":"map-recall","roundId":"x","netPu":{net},"wallet":{WALLET}{record}}}"#
            )
        };
        let with = format!(",\"record\":{RECORD}");
        assert!(codes(Hook::ApplyGameOutcome, &body("0", "")).is_empty());
        assert!(codes(Hook::ApplyGameOutcome, &body("5", &with)).is_empty());
        assert_eq!(
            codes(Hook::ApplyGameOutcome, &body("0", &with)),
            ["record:unexpected"]
        );
        assert_eq!(
            codes(Hook::ApplyGameOutcome, &body("5", "")),
            ["record:missing"]
        );
        assert_eq!(
            codes(Hook::ApplyGameOutcome, &body("4", &with)),
            ["record.powerUpsDelta:apu_mismatch"]
        );
    }

    #[test]
    fn leaves_must_make_the_root() {
        let a = crate::merkle::leaf_digest("cairn-example-genesis");
        let body = |root: &str, count: i32, leaves: &str| {
            format!(
                r#"{{"block":{{"rev":1,"merkleRootHex":"{root}","merkleLeafCount":{count},"at":"2026-03-10T14:05:17Z"}},
                    "leaves":{leaves}}}"#
            )
        };
        let hook = Hook::PersistSnapshotReturningRev;
        let one = format!(r#"[["__genesis__","{a}"]]"#);
        assert!(codes(hook, &body(&a.to_uppercase(), 1, &one)).is_empty());
        assert_eq!(
            codes(hook, &body("ab", 1, &one)),
            ["block.merkleRootHex:merkle_mismatch"]
        );
        assert_eq!(
            codes(hook, &body(&a, 2, &one)),
            ["block.merkleLeafCount:merkle_mismatch"]
        );
        let twice = format!(r#"[["k","{a}"],{{"stableKey":"k","leafDigestHex":"{a}"}}]"#);
        assert_eq!(codes(hook, &body(&a, 2, &twice)), ["leaves:duplicate_key"]);
        assert_eq!(
            codes(hook, &body(&a, 1, r#"[["k"]]"#)),
            ["leaves[0]:wrong_type"]
        );
        assert_eq!(
            codes(hook, &body(&a, 1, r#"[["k","xyz"]]"#)),
            ["leaves[0]:not_hex"]
        );
        assert!(!codes(hook, &body(&a, 1, "[[1,2]]")).is_empty());
    }

    proptest! {
        #[test]
        fn no_body_breaks_a_reader(text in "[\\[\\]{}\":,a-zA-Z0-9.-]{0,120}") {
            for &hook in Hook::ALL {
                let _ = reader().read(hook, &text);
            }
        }
    }
}
