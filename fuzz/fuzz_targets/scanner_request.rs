//! Bodies of the calls of an application: no text breaks a reader, what is accepted keeps its bounds, and a row made of it
//! reads back as it was written.
#![no_main]

use cairn_scanner::{
    AMOUNT_MAX, AtMs, Command, Hook, HostId, Rounding, StreamId, Tx, Usd, check_request,
};
use libfuzzer_sys::fuzz_target;

/// `2026-03-10T14:05:17.123Z`.
const NOW: i64 = 1_773_151_517_123;

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let hook = Hook::ALL[usize::from(first) % Hook::ALL.len()];
    let now = AtMs::clamped(NOW);
    if let Ok(Command::Tx { record, op, .. }) = check_request(hook, text, now) {
        assert!(
            record
                .price_micros
                .is_none_or(|micros| (1..=AMOUNT_MAX).contains(&micros))
        );
        assert!(!record.id.is_empty() && record.id.len() <= 200);
        let tx = Tx {
            record,
            host: HostId::new("h").expect("a host"),
            op,
            indexed_at: now,
            stamp: None,
        };
        let json = tx.to_json(true);
        let value: serde_json::Value = serde_json::from_str(&json).expect("rows are JSON");
        assert_eq!(value["id"], tx.record.id.as_str());
    }
    if let Ok(usd) = Usd::parse(text, Rounding::HalfEven) {
        assert_eq!(Usd::parse(&usd.to_string(), Rounding::Refuse), Ok(usd));
    }
    if let Some(at) = AtMs::parse(text) {
        assert_eq!(AtMs::parse(&at.to_string()), Some(at));
    }
    if let Some(id) = StreamId::parse(text) {
        assert_eq!(StreamId::parse(&id.to_string()), Some(id));
    }
});
