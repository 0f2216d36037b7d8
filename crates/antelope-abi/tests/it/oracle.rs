//! Damaged and invented values against a decoder that shares no code with ours.

use cairn_antelope_abi::{Abi, Encoder, Name, Profile};
use cairn_testkit::antelope::Recording;
use proptest::prelude::*;
use rs_abieos::AbiHandle;

fn typebook() -> Vec<u8> {
    Recording::Main.abi("typebook", 1)
}

type State = (Vec<(String, Vec<u8>)>, Abi, std::cell::RefCell<AbiHandle>);

/// Values that use every built-in type, from the recording.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut samples = Vec::new();
    for raw in Recording::Main.action_lines() {
        let line: serde_json::Value = serde_json::from_str(&raw).expect("a line of the fixture");
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        if text("account") == "typebook" && !text("type").is_empty() && !text("hex").is_empty() {
            let bytes: Vec<u8> =
                bitcoin::hex::FromHex::from_hex(&text("hex")).expect("hex digits in the fixture");
            if bytes.len() < 2_000 {
                samples.push((text("type"), bytes));
            }
        }
    }
    assert!(samples.len() > 20);
    samples
}

/// Equal, but for times before 1970, which the oracle takes for very late ones.
fn alike(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((x, a), (y, b))| x == y && alike(a, b))
        }
        (Value::String(a), Value::String(b))
            if b.len() > 23 && b.contains('T') && a.contains('T') =>
        {
            a.starts_with('-') || a.starts_with("1") || a == b
        }
        _ => ours == theirs,
    }
}

fn parsed(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("not JSON ({e}): {json}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_values_are_read_alike_or_refused(
        pick: prop::sample::Index,
        cut: Option<prop::sample::Index>,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        thread_local! {
            static STATE: State = (
                samples(),
                Abi::from_bytes(&typebook()).expect("an ABI"),
                std::cell::RefCell::new(AbiHandle::from_bin(&typebook()).expect("an ABI")),
            );
        }
        STATE.with(|(samples, abi, oracle)| {
            let (ty, bytes) = &samples[pick.index(samples.len())];
            let mut bytes = bytes.clone();
            for (at, mask) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let id = abi.type_id(ty).expect("the ABI has the type");
            for profile in [Profile::Wharfkit, Profile::Nodeos, Profile::Abieos] {
                let mut out = b"x".to_vec();
                match abi.decode(id, &bytes, profile, &mut out) {
                    // Whatever the bytes: valid JSON, and nothing before it touched.
                    Ok(_) => { parsed(std::str::from_utf8(&out[1..]).expect("UTF-8")); }
                    Err(_) => prop_assert_eq!(&out[..], b"x"),
                }
            }
            let mut ours = Vec::new();
            let ours = abi.decode(id, &bytes, Profile::Abieos, &mut ours).map(|_| String::from_utf8(ours).expect("UTF-8"));
            let theirs = oracle.borrow_mut().bin_to_json(ty, &bytes);
            // Where both read a value, they read the same. The oracle prints text that is not JSON for some damaged symbols
            // and refuses some values that nodes accept, so that refusing is compared in one direction only.
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs)
                && let Ok(theirs) = serde_json::from_str::<serde_json::Value>(theirs)
            {
                prop_assert!(alike(&parsed(ours), &theirs), "ours:   {ours}\ntheirs: {theirs}");
            }
            if let (Err(error), Ok(theirs)) = (&ours, &theirs) {
                panic!("we refuse ({error}) what the oracle reads as {theirs}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_is_encoded_is_decoded(id: u64, tag in "\\PC{0,40}", who in "[a-z1-5]{1,12}", list in prop::collection::vec("[a-z1-5]{1,12}", 0..5)) {
        let mut encoder = Encoder::from_bytes(&typebook()).expect("an ABI");
        let value = serde_json::json!({ "id": id.to_string(), "tag": tag, "who": who, "list": list });
        let bytes = encoder.encode("derived", &value.to_string()).expect("a value of the type");
        let abi = Abi::from_bytes(&typebook()).expect("an ABI");
        let mut out = Vec::new();
        let ty = abi.action_type(Name::parse("inherit").expect("a name")).expect("declared");
        let decoded = abi.decode(ty, &bytes, Profile::Abieos, &mut out).expect("what was just encoded");
        prop_assert_eq!(decoded.trailing, 0);
        prop_assert_eq!(parsed(std::str::from_utf8(&out).expect("UTF-8")), value);
    }
}

#[test]
fn the_encoder_refuses_what_it_cannot_use() {
    assert!(Encoder::from_bytes(b"no ABI").is_err());
    assert!(Encoder::from_json("{}").is_err());
    let mut encoder = Encoder::from_bytes(&typebook()).expect("an ABI");
    assert!(encoder.encode("derived", "{}").is_err());
    assert!(encoder.encode("nothing like it", "{}").is_err());
}
