//! What stands in a stream that anybody may write to: data and ids of entries; and the URL that leads to it.
#![no_main]

use cairn_redis::Target;
use cairn_stream::{BlockId, ChainLabel, EntryId, EventHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(head) = EventHead::parse(data) {
        // What was read says what stood there.
        let event: serde_json::Value = serde_json::from_slice(data).expect("it was read as JSON");
        assert_eq!(event["kind"], &*head.kind);
        assert_eq!(event["event_id"], &*head.event_id);
        if let Some(block) = head.block {
            assert_eq!(event["block_num"], block.num);
        }
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(id) = text.parse::<EntryId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    if let Ok(id) = text.parse::<BlockId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    let _ = ChainLabel::new(text);
    if let Ok(target) = Target::parse(text) {
        let _ = target.to_string();
    }
});
