//! Texts from chains and applications on their way into a page: whatever they hold, no markup of theirs comes out.
//!
//! The modules are taken as source files: the crate they belong to stands on the store, whose C++ would have to be built with
//! instrumentation as well.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/explorer/src/present/escape.rs"]
mod escape;
#[path = "../../crates/explorer/src/present/json.rs"]
mod json;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let escaped = escape::escaped(&text);
    assert!(!escaped.contains(['<', '>', '"', '\'']));
    // Of the markup that is laid out around values only these remain.
    let html = json::Json::new(&text).to_string();
    let rest = ["<span class=\"k\">", "<span class=\"s\">", "<span class=\"n\">", "</span>", "<em>", "</em>"]
        .iter()
        .fold(html, |html, own| html.replace(own, ""));
    assert!(!rest.contains(['<', '>']));
    if let Ok(raw) = serde_json::from_str::<Box<serde_json::value::RawValue>>(&text) {
        let _ = json::Json::raw(&raw).to_string();
    }
    assert!(json::compact(&text).chars().count() <= text.chars().count());
    let (before, after) = text.split_at(text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at));
    for difference in json::differences(before, after) {
        assert!(!difference.is_change() || difference.before != difference.after);
    }
});
