//! What filters look at in an event: one pass over its text, which borrows from it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// An event as filters see it. Fields that an event of its kind does not have are `None`.
#[derive(Debug, Clone)]
pub struct EventView<'a> {
    /// `action`, `delta`, `native-delta`, `fork`, or a kind of another ledger.
    pub kind: Cow<'a, str>,
    /// The event's id.
    pub event_id: Cow<'a, str>,
    /// The number of its block; of a fork that of the first replaced block.
    pub block_num: Option<u64>,
    /// The whole text: one JSON object.
    pub text: &'a str,
    /// What the event says, of most kinds.
    pub data: Option<&'a RawValue>,
    pub(super) account: Option<Cow<'a, str>>,
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) receiver: Option<Cow<'a, str>>,
    pub(super) authorization: Option<&'a RawValue>,
    pub(super) code: Option<Cow<'a, str>>,
    pub(super) scope: Option<Cow<'a, str>>,
    pub(super) table: Option<Cow<'a, str>>,
    pub(super) primary_key: Option<Cow<'a, str>>,
    pub(super) lookup_key: Option<Cow<'a, str>>,
    pub(super) present: Option<bool>,
    pub(super) value: Option<&'a RawValue>,
}

/// Fields of other ledgers may have these names and other types: those are read leniently, as raw text.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    event_id: Cow<'a, str>,
    block_num: Option<u64>,
    forked_from_block: Option<u64>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    account: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    receiver: Option<&'a RawValue>,
    #[serde(borrow)]
    authorization: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow)]
    table: Option<&'a RawValue>,
    #[serde(borrow)]
    primary_key: Option<&'a RawValue>,
    #[serde(borrow)]
    lookup_key: Option<&'a RawValue>,
    #[serde(borrow)]
    present: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// A text, or a number as its decimal text; anything else is as good as absent.
fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    match raw.as_bytes().first()? {
        b'"' => {
            let inner = raw.get(1..raw.len().checked_sub(1)?)?;
            if inner.contains('\\') {
                serde_json::from_str(raw).ok().map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(inner))
            }
        }
        b'0'..=b'9' | b'-' => Some(Cow::Borrowed(raw)),
        _ => None,
    }
}

fn flag(raw: Option<&RawValue>) -> Option<bool> {
    match raw?.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

impl<'a> EventView<'a> {
    /// Reads an entry's `data`. The error says what is wrong with it.
    pub fn parse(data: &'a [u8]) -> Result<Self, String> {
        match std::str::from_utf8(data) {
            Ok(text) => Self::parse_text(text),
            Err(_) => Err("not UTF-8".to_owned()),
        }
    }

    /// The same of a text.
    pub fn parse_text(all: &'a str) -> Result<Self, String> {
        // A list would be taken for the fields in their order.
        if !all.trim_ascii_start().starts_with('{') {
            return Err("not a JSON object".to_owned());
        }
        let wire: Wire<'a> = serde_json::from_str(all).map_err(|error| error.to_string())?;
        Ok(Self {
            kind: wire.kind,
            event_id: wire.event_id,
            block_num: wire
                .block_num
                .or(wire.forked_from_block.and_then(|num| num.checked_add(1))),
            text: all,
            data: wire.data,
            account: text(wire.account),
            name: text(wire.name),
            receiver: text(wire.receiver),
            authorization: wire.authorization,
            code: text(wire.code),
            scope: text(wire.scope),
            table: text(wire.table),
            primary_key: text(wire.primary_key),
            lookup_key: text(wire.lookup_key),
            present: flag(wire.present),
            value: wire.value,
        })
    }
}
