//! Events of an Antelope chain as pages see them: read from their JSON, and put into words.

use cairn_stream::{EntryId, StoredEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::paths::Paths;
use crate::present::{Moment, compact, count};

/// One authorisation.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Authorization {
    /// The account.
    pub(super) actor: String,
    /// Its permission.
    pub(super) permission: String,
}

/// What an event says. Every field but kind and id may be missing: other programs write to streams, too.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EventBody {
    pub(super) kind: String,
    pub(super) event_id: String,
    #[serde(default)]
    pub(super) block_num: Option<u32>,
    #[serde(default)]
    pub(super) block_time: Option<String>,
    #[serde(default)]
    pub(super) block_id: Option<String>,
    #[serde(default)]
    pub(super) irreversible: Option<bool>,
    #[serde(default)]
    pub(super) account: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) receiver: Option<String>,
    #[serde(default)]
    pub(super) authorization: Option<Vec<Authorization>>,
    #[serde(default)]
    pub(super) data: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) action_ordinal: Option<u32>,
    #[serde(default)]
    pub(super) creator_action_ordinal: Option<u32>,
    #[serde(default)]
    pub(super) global_sequence: Option<String>,
    #[serde(default)]
    pub(super) transaction_id: Option<String>,
    #[serde(default)]
    pub(super) transaction_status: Option<String>,
    #[serde(default)]
    pub(super) context_free: Option<bool>,
    #[serde(default)]
    pub(super) return_value: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) console: Option<String>,
    #[serde(default)]
    pub(super) hex: Option<String>,
    #[serde(default)]
    pub(super) decode_error: Option<String>,
    #[serde(default)]
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<String>,
    #[serde(default)]
    pub(super) table: Option<String>,
    #[serde(default)]
    pub(super) primary_key: Option<String>,
    #[serde(default)]
    pub(super) lookup_key: Option<String>,
    #[serde(default)]
    pub(super) value: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) present: Option<bool>,
    #[serde(default)]
    pub(super) payer: Option<String>,
    #[serde(default)]
    pub(super) forked_from_block: Option<u32>,
    #[serde(default)]
    pub(super) new_head_block_id: Option<String>,
    #[serde(default)]
    pub(super) old_head_block_num: Option<u32>,
    #[serde(default)]
    pub(super) undone_blocks: Option<u32>,
}

/// An entry of the stream with its event, or why it is none.
#[derive(Debug, Clone)]
pub(crate) struct StreamEvent {
    /// Its place.
    pub(super) id: EntryId,
    /// Its text.
    pub(super) text: String,
    /// What it says.
    pub(super) body: Result<EventBody, String>,
}

impl StreamEvent {
    /// Reads an entry.
    pub(super) fn new(stored: StoredEvent) -> Self {
        let text = String::from_utf8_lossy(&stored.data).into_owned();
        let body = serde_json::from_str(&text).map_err(|error| error.to_string());
        Self {
            id: stored.id,
            text,
            body,
        }
    }
}

impl EventBody {
    /// What decoded data or values it carries, as JSON text.
    pub(super) fn content(&self) -> &str {
        let raw = self.data.as_ref().or(self.value.as_ref());
        raw.map_or("{}", |raw| raw.get())
    }

    /// Its time in milliseconds, when it says one.
    pub(super) fn time_ms(&self) -> Option<i64> {
        let text = self.block_time.as_deref()?;
        // Block times are UTC and say no zone.
        let stamp: jiff::civil::DateTime = text.trim_end_matches('Z').parse().ok()?;
        let at = jiff::tz::Offset::UTC.to_timestamp(stamp).ok()?;
        Some(at.as_millisecond())
    }

    /// Whether an account has to do with it: contract, receiver, or one who authorised.
    pub(super) fn is_of(&self, account: &str) -> bool {
        let is = |field: &Option<String>| field.as_deref() == Some(account);
        is(&self.account)
            || is(&self.receiver)
            || is(&self.code)
            || is(&self.scope)
            || is(&self.payer)
            || self
                .authorization
                .iter()
                .flatten()
                .any(|level| level.actor == account)
    }

    /// What it is in a few words: contract and action, or table and key.
    pub(super) fn title(&self) -> String {
        let word = |field: &Option<String>| field.clone().unwrap_or_else(|| "?".to_owned());
        match self.kind.as_str() {
            "action" => format!("{} \u{2192} {}", word(&self.account), word(&self.name)),
            "delta" => format!(
                "{} {} in {}",
                word(&self.code),
                word(&self.table),
                word(&self.scope)
            ),
            "native-delta" => word(&self.table),
            "fork" => match self.forked_from_block {
                Some(block) => format!("the chain goes on from block {}", count(block.into())),
                None => "the chain switched".to_owned(),
            },
            _ => self.event_id.clone(),
        }
    }

    /// Which row it is about.
    pub(super) fn row_key(&self) -> Option<&str> {
        self.primary_key.as_deref().or(self.lookup_key.as_deref())
    }

    /// Whether two events are about the same row of a contract's table.
    pub(super) fn is_same_row(&self, other: &RowKey) -> bool {
        self.kind == "delta"
            && self.code.as_deref() == Some(other.code.as_str())
            && self.scope.as_deref() == Some(other.scope.as_str())
            && self.table.as_deref() == Some(other.table.as_str())
            && self.primary_key.as_deref() == Some(other.key.as_str())
    }

    /// The row of a contract's table that it is about.
    pub(super) fn row(&self) -> Option<RowKey> {
        if self.kind != "delta" {
            return None;
        }
        Some(RowKey {
            code: self.code.clone()?,
            scope: self.scope.clone()?,
            table: self.table.clone()?,
            key: self.primary_key.clone()?,
        })
    }
}

/// A row of a contract's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowKey {
    /// The contract.
    pub(super) code: String,
    /// Its scope.
    pub(super) scope: String,
    /// Its table.
    pub(super) table: String,
    /// Its primary key, decimal.
    pub(super) key: String,
}

/// Which events a reader wants to see. What is empty is not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The kind.
    pub(super) kind: String,
    /// An account that has to do with it.
    pub(super) account: String,
    /// Name of the action or the table.
    pub(super) name: String,
}

impl Wanted {
    /// Whether everything is wanted.
    pub(super) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an event is wanted. What is no event is shown when everything is.
    pub(super) fn takes(&self, event: &StreamEvent) -> bool {
        let Ok(body) = &event.body else {
            return self.is_all();
        };
        let name = body.name.as_deref().or(body.table.as_deref());
        (self.kind.is_empty() || body.kind == self.kind)
            && (self.account.is_empty() || body.is_of(&self.account))
            && (self.name.is_empty() || name == Some(self.name.as_str()))
    }
}

/// One line of a list of events.
pub(super) struct EventLine {
    pub(super) kind: String,
    /// How the kind is coloured.
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) href: Option<String>,
    /// Account whose code ran, where it is not the contract's own.
    pub(super) note: Option<String>,
    pub(super) block: Option<(String, String)>,
    pub(super) time: Option<Moment>,
    pub(super) content: String,
    pub(super) undecoded: bool,
}

impl EventLine {
    /// Puts an entry into a line.
    pub(super) fn new(paths: &Paths, event: &StreamEvent) -> Self {
        let body = match &event.body {
            Ok(body) => body,
            Err(why) => {
                return Self {
                    kind: "unreadable".to_owned(),
                    tone: "bad",
                    title: why.clone(),
                    href: None,
                    note: None,
                    block: None,
                    time: None,
                    content: compact(&event.text),
                    undecoded: false,
                };
            }
        };
        let note = match body.kind.as_str() {
            "action" => body
                .receiver
                .clone()
                .filter(|receiver| body.account.as_ref() != Some(receiver))
                .map(|receiver| format!("told to {receiver}")),
            "delta" | "native-delta" => {
                let verb = match body.present {
                    Some(false) => "removed",
                    _ => "set",
                };
                Some(match body.row_key() {
                    Some(key) => format!("row {key} {verb}"),
                    None => verb.to_owned(),
                })
            }
            _ => None,
        };
        Self {
            tone: tone(&body.kind),
            kind: body.kind.clone(),
            title: body.title(),
            href: Some(paths.event(&body.event_id)),
            note,
            block: body
                .block_num
                .map(|num| (count(num.into()), paths.block(num))),
            time: body.time_ms().map(Moment),
            content: compact(body.content()),
            undecoded: body.hex.is_some() || body.decode_error.is_some(),
        }
    }
}

/// The colour of a kind.
pub(super) fn tone(kind: &str) -> &'static str {
    match kind {
        "action" => "accent",
        "fork" => "bad",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> StreamEvent {
        StreamEvent::new(StoredEvent {
            id: EntryId::at(5),
            data: json.as_bytes().to_vec(),
        })
    }

    const ACTION: &str = r#"{"kind":"action","event_id":"eos:a:7:00000007aabbccdd:9","chain_id":"eos","block_num":7,
        "block_time":"2026-05-05T00:00:00.500","block_id":"00","account":"eosio.token","name":"transfer","receiver":"bob",
        "authorization":[{"actor":"alice","permission":"active"}],"data":{"quantity":"1.0000 SYS"},"global_sequence":"9"}"#;

    #[test]
    fn accounts_have_to_do_with_events() {
        let event = event(ACTION);
        for (account, takes) in [
            ("eosio.token", true),
            ("bob", true),
            ("alice", true),
            ("carol", false),
            ("", true),
        ] {
            let wanted = Wanted {
                account: account.to_owned(),
                ..Wanted::default()
            };
            assert_eq!(wanted.takes(&event), takes, "{account}");
        }
        let wanted = Wanted {
            kind: "action".to_owned(),
            name: "transfer".to_owned(),
            ..Wanted::default()
        };
        assert!(wanted.takes(&event));
    }

    #[test]
    fn lines_say_what_happened() {
        let paths = Paths::new("eos");
        let line = EventLine::new(&paths, &event(ACTION));
        assert_eq!(line.title, "eosio.token \u{2192} transfer");
        assert_eq!(line.note.as_deref(), Some("told to bob"));
        assert_eq!(line.time, Some(Moment(1_777_939_200_500)));
        assert_eq!(
            line.block,
            Some(("7".to_owned(), "/eos/block/7".to_owned()))
        );
    }

    #[test]
    fn what_is_no_event_is_shown_as_it_is() {
        let line = EventLine::new(&Paths::new("eos"), &event("{\"kind\":\"action\"}<script>"));
        assert_eq!(line.kind, "unreadable");
        assert!(line.content.contains("<script>"));
        assert!(Wanted::default().takes(&event("nonsense")));
    }
}
