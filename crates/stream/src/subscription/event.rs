//! An event as a consumer gets it. Its text is looked at once; what it says is decoded when somebody asks.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

use crate::entry::EntryId;
use crate::filter::EventView;

/// Where an event came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The stream: the id of its entry.
    Stream(EntryId),
    /// The dead letters, by a replay.
    DeadLetter {
        /// The id of the dead letter.
        letter: EntryId,
        /// The id of the request to replay it.
        request: EntryId,
    },
}

/// An event that was given out.
#[derive(Debug)]
pub struct Received {
    origin: Origin,
    text: String,
    kind: Cow<'static, str>,
    id: IdText,
    block_num: Option<u64>,
    epoch: u64,
    /// It was given out before without being acknowledged, more than once: the process may have ended in its handler.
    pub(super) is_suspect: bool,
}

/// Where the event's id stands.
#[derive(Debug)]
enum IdText {
    Inside(Range<usize>),
    Own(Box<str>),
}

/// The kinds that Cairn publishes, so that most events need no text of their own.
const KINDS: [&str; 7] = [
    "action",
    "delta",
    "native-delta",
    "fork",
    "block",
    "tx",
    "transaction",
];

impl Received {
    /// Reads an entry. `wants` says whether it passes the filters; `Ok(None)` is one that does not.
    pub(super) fn read(
        origin: Origin,
        epoch: u64,
        data: Vec<u8>,
        wants: impl FnOnce(&EventView<'_>) -> bool,
    ) -> Result<Option<Self>, (String, Vec<u8>)> {
        let text = String::from_utf8(data)
            .map_err(|error| ("not UTF-8".to_owned(), error.into_bytes()))?;
        let view = match EventView::parse_text(&text) {
            Ok(view) => view,
            Err(error) => return Err((error, text.into_bytes())),
        };
        if !wants(&view) {
            return Ok(None);
        }
        let kind = match KINDS.into_iter().find(|known| *known == view.kind) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(view.kind.into_owned()),
        };
        let id = match view.event_id {
            Cow::Borrowed(id) => {
                // It was borrowed from the text.
                let at = (id.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
                IdText::Inside(at..at + id.len())
            }
            Cow::Owned(id) => IdText::Own(id.into()),
        };
        let block_num = view.block_num;
        Ok(Some(Self {
            origin,
            kind,
            id,
            block_num,
            epoch,
            text,
            is_suspect: false,
        }))
    }

    /// Where it came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The fencing value: higher for each active instance after another. A store that refuses lower ones than it has seen
    /// cannot be written by an instance that was replaced while it slept.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The event's id: the same for the same event for ever.
    pub fn id(&self) -> &str {
        match &self.id {
            IdText::Inside(range) => self.text.get(range.clone()).unwrap_or_default(),
            IdText::Own(id) => id,
        }
    }

    /// `action`, `delta`, `native-delta`, `fork`, or a kind of another ledger.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether it says that blocks are undone.
    pub fn is_fork(&self) -> bool {
        self.kind == "fork"
    }

    /// The number of its block; of a fork that of the first replaced one; `None` for ledgers without blocks.
    pub fn block_num(&self) -> Option<u64> {
        self.block_num
    }

    /// The whole event as JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The event decoded.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &str) -> Result<Option<Received>, (String, Vec<u8>)> {
        Received::read(
            Origin::Stream(EntryId::at(1)),
            7,
            data.as_bytes().to_vec(),
            |_| true,
        )
    }

    #[test]
    fn an_event_tells_what_it_is() {
        let data = r#" {"a":1,"kind":"action","event_id":"x:a:5:7","block_num":5}"#;
        let event = read(data).expect("valid").expect("wanted");
        assert_eq!(
            (event.kind(), event.id(), event.block_num()),
            ("action", "x:a:5:7", Some(5))
        );
        assert_eq!(event.text(), data);
        let escaped = read(r#"{"kind":"odd\n","event_id":"x\"y"}"#)
            .expect("valid")
            .expect("wanted");
        assert_eq!(
            (escaped.kind(), escaped.id(), escaped.block_num()),
            ("odd\n", "x\"y", None)
        );
        let decoded: serde_json::Value = escaped.decode().expect("JSON");
        assert_eq!(decoded["event_id"], "x\"y");
    }

    #[test]
    fn what_is_none_keeps_its_bytes() {
        for data in [&b"{"[..], b"\xff{}", b"[1]", b""] {
            let read = Received::read(Origin::Stream(EntryId::ZERO), 7, data.to_vec(), |_| true);
            let (_, bytes) = read.expect_err("no event");
            assert_eq!(bytes, data);
        }
    }
}
