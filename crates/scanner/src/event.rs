//! Behavioural events: what may be told, what of it is public, and the event that every transaction makes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Faults};
use crate::fields::{Fields, Members, unquote};
use crate::ids::HostId;
use crate::json::{JsonObject, quote};
use crate::money::{Rounding, Usd};
use crate::record::{AmenityKind, ItemKind, Record};
use crate::time::AtMs;

/// Properties of an event at most.
const PROPERTIES_MAX: usize = 30;
/// Longest name of a property, bytes.
const PROPERTY_NAME_MAX: usize = 64;
/// Longest text of a property, bytes.
const PROPERTY_TEXT_MAX: usize = 1000;
/// Longest value of a breakdown; longer ones count under [`OTHER`].
const DIMENSION_TEXT_MAX: usize = 64;
/// What values beyond the bounds of a breakdown count under.
pub(crate) const OTHER: &str = "__other__";
/// Longest public text of an event that is not in the catalogue.
const PUBLIC_TEXT_MAX: usize = 200;
/// Properties of events outside the catalogue that are never public.
const PRIVATE: &[&str] = &[
    "sid",
    "email",
    "ip",
    "ipaddress",
    "deviceid",
    "name",
    "description",
    "summary",
    "text",
    "useragent",
    "password",
    "passwhash",
];
/// Beginnings of message ids that are the service's own.
const RESERVED: &[&str] = &[
    "purchase:",
    "block:",
    "wallet-seed:",
    "round:",
    "backfill:",
    "client-",
];

/// One event of the catalogue: its properties, and those a breakdown counts.
struct Planned {
    name: &'static str,
    dimensions: &'static [&'static str],
    others: &'static [&'static str],
}

pub(crate) const PURCHASE_COMPLETED: &str = "Purchase Completed";
pub(crate) const WALLET_SEEDED: &str = "Wallet Seeded";
pub(crate) const REVISION_PUBLISHED: &str = "Chain Revision Published";
const BUNDLE_REDEEMED: &str = "Wallet Bundle Redeemed";
const ROUND_COMPLETED: &str = "Game Round Completed";
const APU_CREDITED: &str = "APU Credited";
const APU_DEBITED: &str = "APU Debited";
const TALK_BILLED: &str = "Talk Session Billed";

/// What may be told.
const CATALOGUE: &[Planned] = &[
    Planned {
        name: PURCHASE_COMPLETED,
        dimensions: &[
            "spaceId",
            "amenityKind",
            "itemKind",
            "debitSource",
            "creditSource",
            "backfilled",
        ],
        others: &["itemId", "priceUsd", "powerUpsEarned"],
    },
    Planned {
        name: BUNDLE_REDEEMED,
        dimensions: &["bundleId", "spaceId", "backfilled"],
        others: &["powerUpsSpent", "creditUsd"],
    },
    Planned {
        name: ROUND_COMPLETED,
        dimensions: &[
            "gameId",
            "creditSource",
            "debitSource",
            "token",
            "backfilled",
        ],
        others: &["netPu"],
    },
    Planned {
        name: APU_CREDITED,
        dimensions: &["itemKind", "creditSource", "debitSource", "backfilled"],
        others: &["spaceId", "itemId", "delta"],
    },
    Planned {
        name: APU_DEBITED,
        dimensions: &["itemKind", "creditSource", "debitSource", "backfilled"],
        others: &["spaceId", "itemId", "delta"],
    },
    Planned {
        name: TALK_BILLED,
        dimensions: &["agentId", "backfilled"],
        others: &["chargedUsd", "apuEarned"],
    },
    Planned {
        name: "Talk Session Started",
        dimensions: &["agentId"],
        others: &[],
    },
    Planned {
        name: "Talk Session Ended",
        dimensions: &["agentId"],
        others: &[],
    },
    Planned {
        name: WALLET_SEEDED,
        dimensions: &[],
        others: &["balanceUsd", "powerUps"],
    },
    Planned {
        name: REVISION_PUBLISHED,
        dimensions: &[],
        others: &["rev", "merkleRootHex", "merkleLeafCount", "leafDeltaCount"],
    },
    Planned {
        name: "Space Entered",
        dimensions: &["spaceId", "structureId"],
        others: &[],
    },
    Planned {
        name: "Amenity Entered",
        dimensions: &["spaceId", "amenityKind"],
        others: &[],
    },
    Planned {
        name: "World Journey Recorded",
        dimensions: &[],
        others: &["stepCount"],
    },
    Planned {
        name: "World Interaction Recorded",
        dimensions: &["role"],
        others: &["textLength"],
    },
    Planned {
        name: "Player Added",
        dimensions: &["nodeKind"],
        others: &[],
    },
    Planned {
        name: "UI Presentation Action",
        dimensions: &["action"],
        others: &[],
    },
    Planned {
        name: "Game Stage Activated",
        dimensions: &["gameId"],
        others: &[],
    },
    Planned {
        name: "Scanner View Opened",
        dimensions: &["view"],
        others: &[],
    },
];

/// What a browser may tell.
const FROM_BROWSERS: &[&str] = &[
    "UI Presentation Action",
    "Game Stage Activated",
    "Scanner View Opened",
];

fn planned(name: &str) -> Option<&'static Planned> {
    CATALOGUE.iter().find(|planned| planned.name == name)
}

/// Whether an event is in the catalogue.
pub fn is_planned(name: &str) -> bool {
    planned(name).is_some()
}

/// Whether a breakdown of an event counts a property.
pub fn is_dimension(event: &str, property: &str) -> bool {
    planned(event).is_some_and(|planned| planned.dimensions.contains(&property))
}

/// The properties of an event that breakdowns count.
pub(crate) fn dimensions_of(event: &str) -> &'static [&'static str] {
    planned(event).map_or(&[], |planned| planned.dimensions)
}

/// A value of a property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Property {
    /// A text.
    Text(String),
    /// A number, as the sender wrote it.
    Number(String),
    /// True or false.
    Flag(bool),
    /// Nothing.
    Null,
}

impl Property {
    fn to_json(&self) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Number(text) => text.clone(),
            Self::Flag(flag) => flag.to_string(),
            Self::Null => "null".to_owned(),
        }
    }

    /// The value a breakdown counts; none for nothing.
    fn dimension(&self) -> Option<Cow<'_, str>> {
        let text: Cow<'_, str> = match self {
            Self::Text(text) => text.into(),
            Self::Number(text) => text.into(),
            Self::Flag(flag) => flag.to_string().into(),
            Self::Null => return None,
        };
        Some(if text.len() > DIMENSION_TEXT_MAX {
            OTHER.into()
        } else {
            text
        })
    }

    fn read(raw: &str) -> Option<Self> {
        let raw = raw.trim();
        match raw.as_bytes().first()? {
            b'"' => unquote(raw).map(|text| Self::Text(text.into_owned())),
            b't' => Some(Self::Flag(true)),
            b'f' => Some(Self::Flag(false)),
            b'n' => Some(Self::Null),
            b'{' | b'[' => None,
            _ => Some(Self::Number(raw.to_owned())),
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The dedup key.
    pub message_id: String,
    /// Its name.
    pub event: String,
    /// Whose: a main node, or `system`.
    pub distinct_id: String,
    /// When it happened, milliseconds since 1970.
    pub at_ms: i64,
    /// Its properties, in the order told.
    pub properties: Vec<(String, Property)>,
    /// Who told it: `agent-play-server` is trusted.
    pub library: Option<String>,
    /// The revision it refers to.
    pub snapshot_rev: Option<i64>,
}

/// Who tells an event, and what that allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Teller {
    /// The application's server. Names outside the catalogue only when allowed.
    Server { custom: bool },
    /// The store: what was once accepted.
    Store,
}

impl Event {
    /// Reads and checks an event; `None` with faults noted.
    pub(crate) fn read(
        json: &str,
        path: &str,
        teller: Teller,
        earliest: AtMs,
        latest: AtMs,
        faults: &mut Faults,
    ) -> Option<Self> {
        let mut fields = Fields::parse(json, path, Rounding::Refuse, faults);
        let message_id = fields.required_id("messageId");
        if let (Some(id), Teller::Server { .. }) = (&message_id, teller)
            && RESERVED.iter().any(|reserved| id.starts_with(reserved))
        {
            fields.fault(
                "messageId",
                "reserved_message_id",
                "begins with a word that is the service's own",
            );
        }
        let event = fields.required_id("event");
        if let (Some(event), Teller::Server { custom: false }) = (&event, teller)
            && !is_planned(event)
        {
            fields.fault(
                "event",
                "unknown_event",
                "is not in the catalogue of events",
            );
        }
        let distinct_id = fields.required_id("distinctId");
        let at = fields.required_instant("timestamp", latest);
        if at.is_some_and(|at| at < earliest) {
            fields.fault(
                "timestamp",
                "too_old",
                "is older than events are kept, so counting it twice could not be prevented",
            );
        }
        let properties = read_properties(&mut fields);
        let (library, snapshot_rev) = read_context(&mut fields);
        if !fields.faults().is_empty() {
            return None;
        }
        Some(Self {
            message_id: message_id?,
            event: event?,
            distinct_id: distinct_id?,
            at_ms: at?.ms(),
            properties,
            library,
            snapshot_rev,
        })
    }

    /// Reads a stored event.
    pub(crate) fn from_json(json: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults::default();
        Self::read(
            json,
            "",
            Teller::Store,
            AtMs::clamped(0),
            AtMs::clamped(i64::MAX),
            &mut faults,
        )
        .ok_or(faults.into_vec())
    }

    /// The stored form: everything.
    pub(crate) fn to_json(&self, host: &HostId) -> String {
        let context = JsonObject::new()
            .text("hostId", host.as_str())
            .text_if("library", self.library.as_deref())
            .number_if("snapshotRev", self.snapshot_rev)
            .end();
        self.head()
            .raw("properties", &properties_json(self.properties.iter()))
            .raw("context", &context)
            .end()
    }

    /// The public form. `full` adds public properties and the context.
    pub fn to_public_json(&self, host: &HostId, full: bool) -> String {
        if !full {
            return self.head().raw("properties", "{}").end();
        }
        let public = self
            .properties
            .iter()
            .filter(|(name, value)| self.is_public(name, value));
        let context = JsonObject::new()
            .text("hostId", host.as_str())
            .text_if("library", self.library.as_deref())
            .number_if("snapshotRev", self.snapshot_rev)
            .end();
        self.head()
            .raw("properties", &properties_json(public))
            .raw("context", &context)
            .end()
    }

    fn head(&self) -> JsonObject {
        JsonObject::new()
            .text("messageId", &self.message_id)
            .text("event", &self.event)
            .text("distinctId", &self.distinct_id)
            .text("timestamp", &self.at().to_string())
    }

    fn is_public(&self, name: &str, value: &Property) -> bool {
        match planned(&self.event) {
            Some(planned) => planned.dimensions.contains(&name) || planned.others.contains(&name),
            None => {
                let long = matches!(value, Property::Text(text) if text.len() > PUBLIC_TEXT_MAX);
                !long && !PRIVATE.contains(&name.to_ascii_lowercase().as_str())
            }
        }
    }

    /// When it happened.
    pub fn at(&self) -> AtMs {
        AtMs::clamped(self.at_ms)
    }

    /// What breakdowns count of it: property and value.
    pub(crate) fn dimensions(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.properties
            .iter()
            .filter(|(name, _)| is_dimension(&self.event, name))
            .filter_map(|(name, value)| Some((name.as_str(), value.dimension()?)))
    }

    /// The event of a transaction.
    pub(crate) fn of_record(record: &Record, backfilled: bool) -> Self {
        let text = |value: &str| Property::Text(value.to_owned());
        let mut properties: Vec<(&str, Option<Property>)> = Vec::with_capacity(10);
        let price = record
            .price_micros
            .and_then(Usd::from_micros)
            .map(|usd| Property::Number(usd.to_string()));
        let number = |value: Option<i64>| value.map(|value| Property::Number(value.to_string()));
        let debit = record.debit_source.as_deref().map(text);
        let credit = record.credit_source.as_deref().map(text);
        let event = match record.amenity {
            AmenityKind::WalletBundle => {
                properties.extend([
                    ("bundleId", Some(text(&record.item_id))),
                    ("spaceId", Some(text(&record.space_id))),
                    ("powerUpsSpent", number(record.spent)),
                    ("creditUsd", price),
                ]);
                BUNDLE_REDEEMED
            }
            AmenityKind::TalkTime => {
                let agent = record.counterparty.as_deref().unwrap_or(&record.item_id);
                properties.extend([
                    ("agentId", Some(text(agent))),
                    ("chargedUsd", price),
                    ("apuEarned", number(record.earned)),
                ]);
                TALK_BILLED
            }
            AmenityKind::ApuCredit | AmenityKind::ApuDebit
                if record.item_kind == ItemKind::Game =>
            {
                properties.extend([
                    ("gameId", Some(text(&record.item_id))),
                    ("netPu", number(record.delta)),
                    ("creditSource", credit),
                    ("debitSource", debit),
                    ("token", record.is_apu.then(|| text("APU"))),
                ]);
                ROUND_COMPLETED
            }
            AmenityKind::ApuCredit | AmenityKind::ApuDebit => {
                properties.extend([
                    ("spaceId", Some(text(&record.space_id))),
                    ("itemKind", Some(text(record.item_kind.as_str()))),
                    ("itemId", Some(text(&record.item_id))),
                    ("delta", number(record.delta)),
                    ("creditSource", credit),
                    ("debitSource", debit),
                ]);
                if record.amenity == AmenityKind::ApuCredit {
                    APU_CREDITED
                } else {
                    APU_DEBITED
                }
            }
            _ => {
                properties.extend([
                    ("spaceId", Some(text(&record.space_id))),
                    ("amenityKind", Some(text(record.amenity.as_str()))),
                    ("itemId", Some(text(&record.item_id))),
                    ("itemKind", Some(text(record.item_kind.as_str()))),
                    ("priceUsd", price),
                    ("powerUpsEarned", number(record.earned)),
                    ("debitSource", debit),
                    ("creditSource", credit),
                ]);
                PURCHASE_COMPLETED
            }
        };
        properties.push(("backfilled", Some(Property::Flag(backfilled))));
        Self::ours(
            format!("purchase:{}", record.id),
            event,
            &record.player_id,
            record.at(),
            properties,
        )
    }

    /// The event of a game round that changed nothing.
    pub(crate) fn of_even_round(player: &str, game: &str, round: &str, at: AtMs) -> Self {
        let properties = [
            ("gameId", Some(Property::Text(game.to_owned()))),
            ("netPu", Some(Property::Number("0".to_owned()))),
            ("backfilled", Some(Property::Flag(false))),
        ];
        let id = format!("round:{player}:{round}");
        Self::ours(id, ROUND_COMPLETED, player, at, properties)
    }

    /// The event of a wallet's first balance.
    pub(crate) fn of_seed(wallet: &crate::wallet::Wallet) -> Self {
        let balance = Usd::from_micros(wallet.balance_micros).unwrap_or_default();
        let properties = [
            ("balanceUsd", Some(Property::Number(balance.to_string()))),
            (
                "powerUps",
                Some(Property::Number(wallet.power_ups.to_string())),
            ),
        ];
        Self::ours(
            format!("wallet-seed:{}", wallet.player_id),
            WALLET_SEEDED,
            &wallet.player_id,
            AtMs::clamped(wallet.updated_ms),
            properties,
        )
    }

    /// The event of a published revision.
    pub(crate) fn of_block(block: &crate::block::Block, epoch: i64) -> Self {
        let number = |value: i64| Some(Property::Number(value.to_string()));
        let properties = [
            ("rev", number(block.rev)),
            ("merkleRootHex", Some(Property::Text(block.root.clone()))),
            ("merkleLeafCount", number(block.leaf_count)),
            ("leafDeltaCount", block.leaf_delta.and_then(number)),
        ];
        Self::ours(
            format!("block:{epoch}:{}", block.rev),
            REVISION_PUBLISHED,
            "system",
            AtMs::clamped(block.at_ms),
            properties,
        )
    }

    fn ours<'a>(
        message_id: String,
        event: &str,
        distinct_id: &str,
        at: AtMs,
        properties: impl IntoIterator<Item = (&'a str, Option<Property>)>,
    ) -> Self {
        Self {
            message_id,
            event: event.to_owned(),
            distinct_id: distinct_id.to_owned(),
            at_ms: at.ms(),
            properties: properties
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            library: Some("agent-play-server".to_owned()),
            snapshot_rev: None,
        }
    }
}

/// Reads what a browser tells. Its id gets a mark, so that no browser can take an id before the server does; its clock
/// counts only within a day before ours; a session id never becomes the name of a person.
pub(crate) fn read_from_browser(
    json: &str,
    sid: Option<&str>,
    now: AtMs,
    fresh_id: &str,
    anonymous: &str,
    faults: &mut Faults,
) -> Option<Event> {
    const DAY_MS: i64 = 86_400_000;
    let mut fields = Fields::parse(json, "", Rounding::Refuse, faults);
    let given_id = fields.id("messageId");
    let event = fields.required_id("event");
    if let Some(event) = &event
        && !FROM_BROWSERS.contains(&event.as_str())
    {
        fields.fault(
            "event",
            "unknown_event",
            "is not an event that a browser may tell",
        );
    }
    let distinct_id = fields.id("distinctId");
    let given_at = fields.instant("timestamp");
    let properties = read_properties(&mut fields);
    if !fields.faults().is_empty() {
        return None;
    }
    let message_id = format!("client-{}", given_id.as_deref().unwrap_or(fresh_id));
    if message_id.len() > crate::ids::ID_MAX {
        fields.fault("messageId", "too_long", "is longer than 193 bytes");
        return None;
    }
    let distinct_id = match distinct_id {
        Some(id) if Some(id.as_str()) != sid => id,
        _ => anonymous.to_owned(),
    };
    let at = given_at
        .filter(|at| *at <= now && now.ms() - at.ms() <= DAY_MS)
        .unwrap_or(now);
    Some(Event {
        message_id,
        event: event?,
        distinct_id,
        at_ms: at.ms(),
        properties,
        library: Some("agent-play-client".to_owned()),
        snapshot_rev: None,
    })
}

fn properties_json<'a>(properties: impl Iterator<Item = &'a (String, Property)>) -> String {
    let mut text = String::from("{");
    for (name, value) in properties {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&quote(name));
        text.push(':');
        text.push_str(&value.to_json());
    }
    text.push('}');
    text
}

fn read_properties(fields: &mut Fields<'_, '_>) -> Vec<(String, Property)> {
    let Some(raw) = fields.raw("properties") else {
        return Vec::new();
    };
    let Ok(members) = Members::parse(raw) else {
        fields.fault("properties", "wrong_type", "is not a JSON object");
        return Vec::new();
    };
    let mut found: Vec<(String, Result<Property, &'static str>)> = Vec::new();
    for (name, value) in members.iter() {
        // A session id is a credential: taken off, not refused, since old clients send it.
        if name == "sid" {
            continue;
        }
        let read = match Property::read(value) {
            _ if name.is_empty() || name.len() > PROPERTY_NAME_MAX => {
                Err("has a name that is empty or longer than 64 bytes")
            }
            None => Err("is a list or an object; properties are flat"),
            Some(Property::Text(text)) if text.len() > PROPERTY_TEXT_MAX => {
                Err("is longer than 1000 bytes")
            }
            Some(value) => Ok(value),
        };
        found.retain(|(known, _)| known != name);
        found.push((name.to_owned(), read));
        if found.len() > PROPERTIES_MAX {
            fields.fault("properties", "too_many", "has more than 30 entries");
            return Vec::new();
        }
    }
    let mut properties = Vec::with_capacity(found.len());
    for (name, read) in found {
        match read {
            Ok(value) => properties.push((name, value)),
            Err(message) => {
                let name: String = name.chars().take(PROPERTY_NAME_MAX).collect();
                fields.fault(&format!("properties.{name}"), "invalid_property", message);
            }
        }
    }
    properties
}

fn read_context(fields: &mut Fields<'_, '_>) -> (Option<String>, Option<i64>) {
    let Some(raw) = fields.raw("context") else {
        return (None, None);
    };
    let path = fields.path("context");
    let mut context = Fields::parse(raw, &path, Rounding::Refuse, fields.faults());
    let library = context.text("library").map(|text| text.into_owned());
    if library
        .as_deref()
        .is_some_and(|name| name != "agent-play-server" && name != "agent-play-client")
    {
        context.fault(
            "library",
            "unknown_value",
            "is neither agent-play-server nor agent-play-client",
        );
    }
    let snapshot_rev = context.integer("snapshotRev", 0);
    (library, snapshot_rev)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, custom: bool) -> Result<Event, Vec<String>> {
        let mut faults = Faults::default();
        let (earliest, latest) = (
            AtMs::clamped(1_700_000_000_000),
            AtMs::clamped(1_800_000_000_000),
        );
        Event::read(
            json,
            "event",
            Teller::Server { custom },
            earliest,
            latest,
            &mut faults,
        )
        .ok_or(
            faults
                .into_vec()
                .into_iter()
                .map(|fault| fault.code)
                .collect(),
        )
    }

    #[test]
    fn planned_events_and_their_public_form() {
        let event = read(
            r#"{"messageId":"m1","event":"Space Entered","distinctId":"nm-1","timestamp":"2026-03-10T14:05:17Z",
                "properties":{"spaceId":"s","sid":"secret","email":"a@b","n":1.50},
                "context":{"sid":"secret","library":"agent-play-client","snapshotRev":3}}"#,
            false,
        )
        .expect("good");
        let host = HostId::new("default").expect("a host");
        let stored = event.to_json(&host);
        assert!(!stored.contains("secret"), "{stored}");
        assert_eq!(Event::from_json(&stored), Ok(event.clone()));
        let public = event.to_public_json(&host, true);
        assert!(
            public.contains("\"spaceId\":\"s\"") && !public.contains("a@b"),
            "{public}"
        );
        assert!(
            event
                .to_public_json(&host, false)
                .ends_with("\"properties\":{}}")
        );
        let dimensions: Vec<_> = event.dimensions().collect();
        assert_eq!(dimensions, [("spaceId", "s".into())]);
    }

    #[test]
    fn what_is_refused() {
        let base = r#"{"messageId":"ID","event":"NAME","distinctId":"d","timestamp":"2026-03-10T14:05:17Z","properties":P}"#;
        let make = |id: &str, name: &str, p: &str| {
            base.replace("ID", id).replace("NAME", name).replace('P', p)
        };
        for (json, codes) in [
            (
                make("purchase:x", "Space Entered", "{}"),
                vec!["reserved_message_id"],
            ),
            (make("m", "Anything", "{}"), vec!["unknown_event"]),
            (
                make("m", "Space Entered", "{\"a\":{}}"),
                vec!["invalid_property"],
            ),
            (make("m", "Space Entered", "[]"), vec!["wrong_type"]),
        ] {
            assert_eq!(
                read(&json, false),
                Err(codes.iter().map(|c| c.to_string()).collect()),
                "{json}"
            );
        }
        assert!(read(&make("m", "Anything", "{}"), true).is_ok());
        let many: Vec<String> = (0..31).map(|i| format!("\"k{i}\":1")).collect();
        let json = make("m", "Space Entered", &format!("{{{}}}", many.join(",")));
        assert_eq!(read(&json, false), Err(vec!["too_many".to_owned()]));
        assert_eq!(
            read(
                &make("m", "Space Entered", "{}").replace("2026", "2020"),
                false
            ),
            Err(vec!["too_old".to_owned()])
        );
    }

    #[test]
    fn a_browser_gets_its_own_ids_and_no_session_becomes_a_person() {
        let now = AtMs::clamped(1_773_151_517_123);
        let mut faults = Faults::default();
        let event = read_from_browser(
            r#"{"messageId":"purchase:1","event":"Scanner View Opened","distinctId":"sid-1","timestamp":"2020-01-01T00:00:00Z"}"#,
            Some("sid-1"),
            now,
            "fresh",
            "anon:0123",
            &mut faults,
        )
        .expect("good");
        assert_eq!(
            (
                event.message_id.as_str(),
                event.distinct_id.as_str(),
                event.at_ms
            ),
            ("client-purchase:1", "anon:0123", now.ms())
        );
        let refused = r#"{"event":"Purchase Completed"}"#;
        assert!(read_from_browser(refused, None, now, "f", "a", &mut faults).is_none());
    }
}
