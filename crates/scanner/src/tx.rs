//! A transaction of the ledger: the row that is made from a record, and its JSON form in the store and in answers.

use crate::block::Stamp;
use crate::faults::{Fault, Faults};
use crate::fields::Fields;
use crate::ids::HostId;
use crate::json::JsonObject;
use crate::money::{Rounding, Usd};
use crate::record::{Operation, Record};
use crate::time::AtMs;

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    /// What happened.
    pub record: Record,
    /// The tenant.
    pub host: HostId,
    /// The operation of the application.
    pub op: Operation,
    /// When the row was made.
    pub indexed_at: AtMs,
    /// The newest published revision when the row was made; none for rows from an archive.
    pub stamp: Option<Stamp>,
}

impl Tx {
    /// The JSON of the row, as stored and as served. `with_detail` false leaves the free text out.
    pub fn to_json(&self, with_detail: bool) -> String {
        let stamp = self.stamp.as_ref();
        row_json(
            &self.record,
            &self.host,
            self.op,
            self.indexed_at,
            stamp,
            with_detail,
        )
    }

    /// Reads a stored row, also one that an older program wrote: amounts are rounded, a missing operation is derived.
    pub(crate) fn from_json(json: &str, host: &HostId) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults::default();
        let mut fields = Fields::parse(json, "", Rounding::HalfEven, &mut faults);
        let record = Record::read(&mut fields, AtMs::clamped(i64::MAX));
        let op = fields
            .text("op")
            .and_then(|op| Operation::parse(op.trim()))
            .or_else(|| record.as_ref().map(Record::default_op));
        let indexed_at = fields.instant("indexedAt");
        let rev = fields.integer("blockRev", 0);
        let root = fields.hex("merkleRootHex", crate::block::ROOT_DIGITS_MAX);
        match (record, op) {
            (Some(record), Some(op)) if faults.is_empty() => Ok(Self {
                indexed_at: indexed_at.unwrap_or(record.at()),
                host: host.clone(),
                op,
                stamp: rev.zip(root).map(|(rev, root)| Stamp { rev, root }),
                record,
            }),
            _ => Err(faults.into_vec()),
        }
    }
}

/// The JSON of a row.
pub(crate) fn row_json(
    record: &Record,
    host: &HostId,
    op: Operation,
    indexed_at: AtMs,
    stamp: Option<&Stamp>,
    with_detail: bool,
) -> String {
    let item = JsonObject::new()
        .text("kind", record.item_kind.as_str())
        .text("id", &record.item_id)
        .end();
    let mut json = JsonObject::new()
        .text("id", &record.id)
        .text("hostId", host.as_str())
        .text("playerId", &record.player_id)
        .text("spaceId", &record.space_id)
        .text("amenityKind", record.amenity.as_str())
        .raw("itemRef", &item)
        .text("op", op.as_str())
        .text("at", &record.at().to_string());
    if let Some(price) = record.price_micros.and_then(Usd::from_micros) {
        json = json.usd("priceUsd", price);
    }
    json = json
        .number_if("powerUpsEarned", record.earned)
        .number_if("powerUpsSpent", record.spent)
        .number_if("powerUpsDelta", record.delta)
        .text_if("debitSource", record.debit_source.as_deref())
        .text_if("creditSource", record.credit_source.as_deref())
        .text_if("counterpartyNodeId", record.counterparty.as_deref())
        .text_if("token", record.is_apu.then_some("APU"));
    if with_detail {
        json = json.text_if("detail", record.detail.as_deref());
    }
    json.text_if("sessionRef", record.session_ref.as_deref())
        .number_or_null("blockRev", stamp.map(|stamp| stamp.rev))
        .text_or_null("merkleRootHex", stamp.map(|stamp| stamp.root.as_str()))
        .text("indexedAt", &indexed_at.to_string())
        .end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AmenityKind, ItemKind};
    use proptest::prelude::*;

    fn read(json: &str, rounding: Rounding) -> Result<Record, Vec<Fault>> {
        let mut faults = Faults::default();
        let mut fields = Fields::parse(json, "record", rounding, &mut faults);
        let record = Record::read(&mut fields, AtMs::clamped(2_000_000_000_000));
        record.ok_or(faults.into_vec())
    }

    const GOOD: &str = r#"{"id": " pur-1 ", "playerId": "nm-1", "spaceId": "space-9", "amenityKind": "shop",
        "itemRef": {"kind": "shop", "id": "item-3"}, "priceUsd": 3.50, "at": "2026-03-10T14:05:17.123Z",
        "powerUpsEarned": 9, "token": "APU", "unknown": {"x": [1]}, "detail": null}"#;

    #[test]
    fn a_record_is_normalised() {
        let record = read(GOOD, Rounding::Refuse).expect("good");
        assert_eq!(
            (record.id.as_str(), record.price_micros, record.delta),
            ("pur-1", Some(3_500_000), Some(9))
        );
        assert_eq!(
            (record.amenity, record.item_kind, record.default_op()),
            (AmenityKind::Shop, ItemKind::Shop, Operation::Purchase)
        );
        assert_eq!((record.mint(), record.burn()), (9, 0));
        assert!(record.in_apu_list() && record.in_usd_list());
    }

    #[test]
    fn every_fault_is_named_with_its_path() {
        let faults = read(
            r#"{"id": "by-player:x", "playerId": "", "amenityKind": "bank", "itemRef": {"kind": 4},
                "at": "2099-01-01T00:00:00Z", "priceUsd": -0.0000001, "powerUpsEarned": -1, "powerUpsSpent": 1.5,
                "token": "USD", "detail": 7}"#,
            Rounding::Refuse,
        )
        .expect_err("bad");
        let found: Vec<(&str, &str)> = faults
            .iter()
            .map(|fault| (fault.path.as_str(), fault.code.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("record.id", "reserved_id"),
                ("record.playerId", "empty"),
                ("record.spaceId", "missing"),
                ("record.amenityKind", "unknown_value"),
                ("record.itemRef.kind", "wrong_type"),
                ("record.itemRef.id", "missing"),
                ("record.at", "future_timestamp"),
                ("record.priceUsd", "usd_precision"),
                ("record.powerUpsEarned", "too_small"),
                ("record.powerUpsSpent", "not_an_integer"),
                ("record.token", "unknown_value"),
                ("record.detail", "wrong_type"),
            ]
        );
    }

    #[test]
    fn a_delta_that_disagrees_is_refused_live_and_wins_in_an_archive() {
        let json = GOOD.replace("\"token\"", "\"powerUpsDelta\": 4, \"token\"");
        let faults = read(&json, Rounding::Refuse).expect_err("disagrees");
        assert_eq!(faults[0].code, "apu_mismatch");
        assert_eq!(
            read(&json, Rounding::HalfEven).expect("lenient").delta,
            Some(4)
        );
    }

    #[test]
    fn zero_earned_is_legal_and_legacy_rows_get_their_delta() {
        let free = GOOD.replace("\"powerUpsEarned\": 9", "\"powerUpsEarned\": 0");
        assert_eq!(read(&free, Rounding::Refuse).expect("good").delta, Some(0));
        let bundle = r#"{"id":"b","playerId":"p","spaceId":"__wallet__","amenityKind":"wallet_bundle","itemRef":{"kind":"bundle",
            "id":"b150"},"at":"2026-03-10T14:05:17Z","priceUsd":"10","powerUpsSpent":150}"#;
        let bundle = read(bundle, Rounding::Refuse).expect("good");
        assert_eq!(
            (bundle.burn(), bundle.usd_credited(), bundle.usd_spent()),
            (150, 10_000_000, 0)
        );
    }

    #[test]
    fn a_row_reads_back_as_it_was_written() {
        let host = HostId::new("default").expect("a host");
        for stamp in [
            None,
            Some(Stamp {
                rev: 57,
                root: "ab".to_owned(),
            }),
        ] {
            let tx = Tx {
                record: read(GOOD, Rounding::Refuse).expect("good"),
                host: host.clone(),
                op: Operation::TalkStop,
                indexed_at: AtMs::clamped(1_773_151_517_999),
                stamp,
            };
            let json = tx.to_json(true);
            assert_eq!(Tx::from_json(&json, &host).expect("ours"), tx, "{json}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".{0,200}") {
            let host = HostId::new("h").expect("a host");
            let _ = Tx::from_json(&text, &host);
        }

        #[test]
        fn no_object_breaks_the_reader(fields in proptest::collection::btree_map(
            prop_oneof!["id|playerId|spaceId|amenityKind|itemRef|at|priceUsd|powerUpsDelta|token"],
            prop_oneof!["null", "-?[0-9]{1,40}(\\.[0-9]{1,40})?", "\"[a-z0-9:_-]{0,20}\"", "\\[\\]", "\\{\"kind\":\"shop\",\"id\":\"x\"\\}"],
            0..9,
        )) {
            let text = format!("{{{}}}", fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect::<Vec<_>>().join(","));
            let host = HostId::new("h").expect("a host");
            if let Ok(tx) = Tx::from_json(&text, &host) {
                prop_assert_eq!(Tx::from_json(&tx.to_json(true), &host).expect("ours"), tx);
            }
        }
    }
}
