//! What the application says happened: a purchase record, checked and normalised.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::check_tx_id;
use crate::money::{Rounding, Usd};
use crate::time::AtMs;

/// Longest `detail`, bytes.
const DETAIL_MAX: usize = 1000;
/// Longest `debitSource` and `creditSource`, bytes.
const SOURCE_MAX: usize = 300;
/// The token's name.
const TOKEN: &str = "APU";

/// A word list that is a type: reads from and prints as its words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The one with this word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// All words, for a message.
            pub fn list() -> &'static str {
                concat!($($word, " "),*)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What kind of service a record is about.
    AmenityKind {
        /// A shop of a space.
        Shop = "shop",
        /// A supermarket of a space.
        Supermarket = "supermarket",
        /// A car wash of a space.
        CarWash = "car_wash",
        /// Parking; no APU.
        Parking = "parking",
        /// A house; no APU.
        House = "house",
        /// Seconds of talking to an agent.
        TalkTime = "talk_time",
        /// APU exchanged for dollars: the player receives the price.
        WalletBundle = "wallet_bundle",
        /// APU created for the player.
        ApuCredit = "apu_credit",
        /// APU destroyed.
        ApuDebit = "apu_debit",
    }
}

words! {
    /// What kind of thing a record is about; independent of the amenity.
    ItemKind {
        /// An item of a shop.
        Shop = "shop",
        /// An item of a supermarket.
        Supermarket = "supermarket",
        /// A wash.
        Carwash = "carwash",
        /// A parking place.
        Parking = "parking",
        /// A house.
        House = "house",
        /// A game.
        Game = "game",
        /// APU themselves.
        Apu = "apu",
        /// Talk time.
        Talk = "talk",
        /// A bundle of APU.
        Bundle = "bundle",
    }
}

words! {
    /// The operation of the application that made a transaction.
    Operation {
        /// Something was bought.
        Purchase = "purchase",
        /// A bundle was redeemed.
        RedeemWalletBundle = "redeemWalletBundle",
        /// A game round ended.
        ApplyGameOutcome = "applyGameOutcome",
        /// Some seconds of a talk were billed.
        TalkTick = "talkTick",
        /// A talk ended.
        TalkStop = "talkStop",
        /// A talk began.
        TalkStart = "talkStart",
        /// A wallet got its first balance.
        WalletSeeded = "walletSeeded",
    }
}

impl AmenityKind {
    /// Whether the player spends the price.
    pub fn spends(self) -> bool {
        self.is_gmv() || self == Self::TalkTime
    }

    /// Whether the price counts as gross merchandise value.
    pub fn is_gmv(self) -> bool {
        matches!(
            self,
            Self::Shop | Self::Supermarket | Self::CarWash | Self::Parking | Self::House
        )
    }
}

/// A record. All texts are trimmed; the delta is the effective one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The idempotency key of the ledger.
    pub id: String,
    /// Whose line this is.
    pub player_id: String,
    /// A space, or a name that stands for none (`__parking__`).
    pub space_id: String,
    /// What kind of service.
    pub amenity: AmenityKind,
    /// What kind of thing.
    pub item_kind: ItemKind,
    /// Which thing.
    pub item_id: String,
    /// When it happened, milliseconds since 1970.
    pub at_ms: i64,
    /// Price in micro-dollars, above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_micros: Option<i64>,
    /// APU earned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earned: Option<i64>,
    /// APU spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<i64>,
    /// Net effect in APU: as given, else earned − spent; none when nothing is said about APU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<i64>,
    /// Where value left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debit_source: Option<String>,
    /// Where value arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_source: Option<String>,
    /// The other node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterparty: Option<String>,
    /// Whether the row is marked as moving APU.
    pub is_apu: bool,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The talk session a tick belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ref: Option<String>,
}

impl Record {
    /// Reads and checks a record. Notes every fault; `None` if there is any.
    ///
    /// Amounts that are to be rounded say that the record is from an archive: then a delta that disagrees with earned
    /// − spent wins as well.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, latest: AtMs) -> Option<Self> {
        fields.required("id");
        let id = fields.id_by("id", check_tx_id);
        let player_id = fields.required_id("playerId");
        let space_id = fields.required_id("spaceId");
        let amenity = word(
            fields,
            "amenityKind",
            AmenityKind::parse,
            AmenityKind::list(),
        );
        let item = read_item(fields);
        let at = fields.required_instant("at", latest);
        let price = fields.usd("priceUsd");
        if price.is_some_and(|price| price.micros() <= 0) {
            fields.fault("priceUsd", "not_positive", "is not above zero");
        }
        let earned = fields.integer("powerUpsEarned", 0);
        let spent = fields.integer("powerUpsSpent", 0);
        let given = fields.integer("powerUpsDelta", i64::MIN);
        let net =
            (earned.is_some() || spent.is_some()).then(|| earned.unwrap_or(0) - spent.unwrap_or(0));
        if let (Some(given), Some(net)) = (given, net)
            && given != net
            && fields.rounding() == Rounding::Refuse
        {
            fields.fault(
                "powerUpsDelta",
                "apu_mismatch",
                format!("is {given}, but earned − spent is {net}"),
            );
        }
        let token = fields.text("token");
        if token.as_ref().is_some_and(|token| token != TOKEN) {
            fields.fault("token", "unknown_value", "is not APU");
        }
        let debit_source = fields.short_text("debitSource", SOURCE_MAX);
        let credit_source = fields.short_text("creditSource", SOURCE_MAX);
        let counterparty = fields.id("counterpartyNodeId");
        let detail = fields.short_text("detail", DETAIL_MAX);
        let session_ref = fields.id("sessionRef");
        if !fields.faults().is_empty() {
            return None;
        }
        let (item_kind, item_id) = item?;
        Some(Self {
            id: id?,
            player_id: player_id?,
            space_id: space_id?,
            amenity: amenity?,
            item_kind,
            item_id,
            at_ms: at?.ms(),
            price_micros: price.map(Usd::micros),
            earned,
            spent,
            delta: given.or(net),
            debit_source,
            credit_source,
            counterparty,
            is_apu: token.is_some(),
            detail,
            session_ref,
        })
    }

    /// When it happened.
    pub fn at(&self) -> AtMs {
        AtMs::clamped(self.at_ms)
    }

    /// APU created.
    pub fn mint(&self) -> i64 {
        self.delta.unwrap_or(0).max(0)
    }

    /// APU destroyed, as a positive number.
    pub fn burn(&self) -> i64 {
        (-self.delta.unwrap_or(0)).max(0)
    }

    /// Micro-dollars the player spent.
    pub fn usd_spent(&self) -> i64 {
        self.price_if(self.amenity.spends())
    }

    /// Micro-dollars the player received.
    pub fn usd_credited(&self) -> i64 {
        self.price_if(self.amenity == AmenityKind::WalletBundle)
    }

    fn price_if(&self, counts: bool) -> i64 {
        self.price_micros.filter(|_| counts).unwrap_or(0)
    }

    /// Whether the list of APU rows has it.
    pub fn in_apu_list(&self) -> bool {
        self.is_apu || self.delta.is_some()
    }

    /// Whether the list of dollar rows has it.
    pub fn in_usd_list(&self) -> bool {
        self.price_micros.is_some()
    }

    /// The operation, when no hook says it.
    pub fn default_op(&self) -> Operation {
        match self.amenity {
            AmenityKind::WalletBundle => Operation::RedeemWalletBundle,
            AmenityKind::TalkTime => Operation::TalkTick,
            AmenityKind::ApuCredit | AmenityKind::ApuDebit if self.item_kind == ItemKind::Talk => {
                Operation::TalkTick
            }
            AmenityKind::ApuCredit | AmenityKind::ApuDebit => Operation::ApplyGameOutcome,
            _ => Operation::Purchase,
        }
    }
}

fn read_item(fields: &mut Fields<'_, '_>) -> Option<(ItemKind, String)> {
    let raw = fields.required("itemRef")?;
    let path = fields.path("itemRef");
    let rounding = fields.rounding();
    let mut item = Fields::parse(raw, &path, rounding, fields.faults());
    let kind = word(&mut item, "kind", ItemKind::parse, ItemKind::list());
    let id = item.required_id("id");
    Some((kind?, id?))
}

/// A field that is one of a list of words.
pub(crate) fn word<T>(
    fields: &mut Fields<'_, '_>,
    name: &str,
    parse: fn(&str) -> Option<T>,
    list: &str,
) -> Option<T> {
    fields.required(name)?;
    let text = fields.text(name)?;
    let value = parse(text.trim());
    if value.is_none() {
        fields.fault(
            name,
            "unknown_value",
            format!("is not one of: {}", list.trim_end()),
        );
    }
    value
}
