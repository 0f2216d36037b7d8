//! ABIs and values made to hurt.

use cairn_antelope_abi::{ABI_BYTES_MAX, Abi, AbiError, Profile, Reader, Reason, native_abi};
use cairn_testkit::antelope::{Packer, Recording};
use proptest::prelude::*;

fn abi(body: &str) -> Abi {
    Abi::from_json(&format!(r#"{{"version":"eosio::abi/1.2",{body}}}"#)).expect("a well-formed ABI")
}

fn reason(abi: &Abi, ty: &str, bytes: &[u8]) -> Reason {
    let ty = abi.type_id(ty).expect("the ABI has the type");
    let mut out = Vec::new();
    let error = abi
        .decode(ty, bytes, Profile::Wharfkit, &mut out)
        .expect_err("must not decode");
    assert!(out.is_empty());
    error.reason().clone()
}

#[test]
fn four_billion_empty_items() {
    let abi = abi(
        r#""structs":[{"name":"empty","fields":[]},{"name":"s","fields":[{"name":"x","type":"empty[]"}]}]"#,
    );
    let bytes = Packer::new().varuint(u32::MAX as usize).done();
    assert!(matches!(reason(&abi, "s", &bytes), Reason::TooLarge(_)));
    // Passing over them takes no time either.
    let ty = abi.type_id("s").expect("defined");
    let mut reader = Reader::new(&bytes);
    abi.skip(ty, &mut reader).expect("nothing to read");
    assert!(reader.is_empty());
}

#[test]
fn structures_that_multiply() {
    // Thirty levels, each with two of the next: a thousand million empty objects out of no bytes.
    let mut structs: Vec<String> = (0..30)
        .map(|i| {
            let next = i + 1;
            format!(r#"{{"name":"s{i}","fields":[{{"name":"a","type":"s{next}"}},{{"name":"b","type":"s{next}"}}]}}"#)
        })
        .collect();
    structs.push(r#"{"name":"s30","fields":[]}"#.to_owned());
    let abi = abi(&format!(r#""structs":[{}]"#, structs.join(",")));
    assert!(matches!(reason(&abi, "s0", &[]), Reason::TooLarge(_)));
}

#[test]
fn structures_that_never_end() {
    let circles = abi(
        r#""structs":[{"name":"own","fields":[{"name":"x","type":"own"}]},
            {"name":"a","base":"b","fields":[]},{"name":"b","base":"a","fields":[]},
            {"name":"notbase","base":"uint8","fields":[]},
            {"name":"tree","fields":[{"name":"kids","type":"tree[]"}]},
            {"name":"alias","fields":[{"name":"x","type":"round"}]}],
            "types":[{"new_type_name":"round","type":"about"},{"new_type_name":"about","type":"round"}],
            "variants":[{"name":"v","types":["v"]},{"name":"none","types":[]}]"#,
    );
    assert!(matches!(reason(&circles, "own", &[]), Reason::TooDeep(_)));
    assert!(matches!(reason(&circles, "a", &[]), Reason::TooDeep(_)));
    assert!(matches!(reason(&circles, "notbase", &[]), Reason::Type(_)));
    assert!(matches!(reason(&circles, "alias", &[1]), Reason::Type(_)));
    assert!(matches!(
        reason(&circles, "v", &[0; 100]),
        Reason::TooDeep(_)
    ));
    assert_eq!(
        reason(&circles, "none", &[0]),
        Reason::VariantIndex { index: 0, count: 0 }
    );
    assert!(matches!(
        reason(&circles, "tree", &[1; 100]),
        Reason::TooDeep(_)
    ));
    let ty = circles.type_id("tree").expect("defined");
    assert!(circles.skip(ty, &mut Reader::new(&[1; 100])).is_err());
}

#[test]
fn lengths_and_texts_that_lie() {
    let abi = abi(r#""structs":[{"name":"s","fields":[{"name":"t","type":"string"}]}]"#);
    let lie = Packer::new().varuint(u32::MAX as usize).raw(b"ab").done();
    assert!(matches!(reason(&abi, "s", &lie), Reason::Truncated { .. }));
    let mut out = Vec::new();
    let ty = abi.type_id("s").expect("defined");
    let bad = Packer::new().bytes(b"f\xff\xfe\xc3(o").done();
    abi.decode(ty, &bad, Profile::Wharfkit, &mut out)
        .expect("text of any bytes");
    assert_eq!(
        String::from_utf8_lossy(&out),
        "{\"t\":\"f\u{fffd}\u{fffd}\u{fffd}(o\"}"
    );
}

#[test]
fn errors_say_where() {
    let abi = abi(
        r#""structs":[{"name":"outer","fields":[{"name":"in","type":"inner"}]},{"name":"inner","fields":[{"name":"n","type":"uint32"}]}]"#,
    );
    let ty = abi.type_id("outer").expect("defined");
    let error = abi
        .decode(ty, &[1, 2], Profile::Nodeos, &mut Vec::new())
        .expect_err("four bytes are needed");
    assert_eq!(
        error.to_string(),
        "outer.in.inner.n: byte 0: 2 more bytes needed, 2 left"
    );
}

#[test]
fn what_is_no_abi() {
    assert!(matches!(Abi::from_bytes(b""), Err(AbiError::Binary(_))));
    let other = Packer::new().bytes(b"sysio::abi/1.0").done();
    assert!(matches!(Abi::from_bytes(&other), Err(AbiError::Version(_))));
    assert!(matches!(
        Abi::from_bytes(&vec![0; ABI_BYTES_MAX + 1]),
        Err(AbiError::TooLarge(_))
    ));
    assert!(matches!(Abi::from_json("[]"), Err(AbiError::Json(_))));
    let bytes = Recording::Main.abi("eosio.token", 1);
    let lie = [&bytes[..bytes.len() / 3], &[0xff; 5]].concat();
    assert!(Abi::from_bytes(&lie).is_err());
}

#[test]
fn built_in_actions_read_what_the_node_recorded() {
    // The first actions of the chain come before any ABI; `onblock` is in no ABI at all.
    let mut seen = std::collections::BTreeSet::new();
    for raw in Recording::Main.action_lines() {
        let line: serde_json::Value = serde_json::from_str(&raw).expect("a line of the fixture");
        let (Some("eosio"), Some(name), Some(hex)) = (
            line["account"].as_str(),
            line["name"].as_str(),
            line["hex"].as_str(),
        ) else {
            continue;
        };
        let Some(ty) = native_abi().action_type(name.parse().expect("a name")) else {
            continue;
        };
        let bytes: Vec<u8> =
            bitcoin::hex::FromHex::from_hex(hex).expect("hex digits in the fixture");
        let mut out = Vec::new();
        let decoded = native_abi()
            .decode(ty, &bytes, Profile::Abieos, &mut out)
            .expect(name);
        assert_eq!(decoded.trailing, 0, "{name}");
        if !line["abieos"].is_null() {
            let ours: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(ours, line["abieos"], "{name}");
        }
        seen.insert(name.to_owned());
    }
    for name in [
        "newaccount",
        "setcode",
        "setabi",
        "updateauth",
        "deleteauth",
        "linkauth",
        "unlinkauth",
        "onblock",
    ] {
        assert!(seen.contains(name), "{name} is in the recording");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_the_loader(bytes: Vec<u8>, at: prop::sample::Index, mask: u8) {
        let _ = Abi::from_bytes(&bytes);
        let mut real = Recording::Main.abi("typebook", 1);
        let at = at.index(real.len());
        real[at] ^= mask;
        if let Ok(abi) = Abi::from_bytes(&real)
            && let Some(ty) = abi.type_id("everything")
        {
            let _ = abi.decode(ty, &bytes, Profile::Wharfkit, &mut Vec::new());
            let _ = abi.skip(ty, &mut Reader::new(&bytes));
        }
    }
}
