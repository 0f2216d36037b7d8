//! What clients of subscriptions send, and the entries that are compared with their filters: no text breaks a reader, and
//! bounds hold.
#![no_main]

use cairn_stream::subscription::StartFrom;
use cairn_stream::{EventView, FILTERS_MAX, Filters};
use cairn_stream_api::message::{Answers, IDS_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first line is a message or filters, the rest an event.
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (first, rest) = data.split_at(at);
    let Ok(text) = std::str::from_utf8(first) else {
        return;
    };
    for answers in [Answers::parse_body(text), Answers::parse_message(text)].into_iter().flatten() {
        assert!(answers.ids.len() + answers.failed.len() <= IDS_MAX);
    }
    if let Ok(start) = text.parse::<StartFrom>() {
        assert_eq!(start.to_string().parse(), Ok(start));
    }
    if let Ok(filters) = Filters::parse(text) {
        let json = filters.to_json();
        assert!(json.as_array().is_some_and(|list| list.len() <= FILTERS_MAX));
        assert_eq!(Filters::from_json(&json), Ok(filters.clone()));
        if let Ok(event) = EventView::parse(rest) {
            let passes = filters.passes(&event);
            assert!(passes || !filters.is_everything());
        }
    }
});
