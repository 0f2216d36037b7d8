//! What a client says about events: the body of an acknowledgement, and the messages of a WebSocket.

use serde::Deserialize;

/// Longest text of one message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most ids in one message.
pub const IDS_MAX: usize = 10_000;

/// Which events were handled, and which were not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Handled: these.
    pub ids: Vec<String>,
    /// Handled: this one, and all that were given out before it.
    pub up_to: Option<String>,
    /// Not handled: each with the reason.
    pub failed: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireBody {
    #[serde(default)]
    ids: Vec<String>,
    up_to: Option<String>,
    #[serde(default)]
    failed: Vec<WireFailed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFailed {
    id: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum WireMessage {
    Ack {
        #[serde(default)]
        ids: Vec<String>,
        #[serde(default, rename = "upTo")]
        up_to: Option<String>,
    },
    Nack {
        id: String,
        #[serde(default)]
        error: String,
    },
}

impl Answers {
    /// Reads the body of `POST …/acks`: `{"ids":[…],"upTo":"…","failed":[{"id","error"}]}`. The error says what is wrong.
    pub fn parse_body(text: &str) -> Result<Self, String> {
        bounded(text)?;
        let body: WireBody = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self {
            ids: body.ids,
            up_to: body.up_to,
            failed: body
                .failed
                .into_iter()
                .map(|failed| (failed.id, failed.error))
                .collect(),
        }
        .checked()
    }

    /// Reads a message of a WebSocket: `{"type":"ack","ids":[…]}`, `{"type":"ack","upTo":"…"}`,
    /// `{"type":"nack","id":"…","error":"…"}`. The error says what is wrong.
    pub fn parse_message(text: &str) -> Result<Self, String> {
        bounded(text)?;
        let message: WireMessage = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match message {
            WireMessage::Ack { ids, up_to } => Self {
                ids,
                up_to,
                failed: Vec::new(),
            },
            WireMessage::Nack { id, error } => Self {
                failed: vec![(id, error)],
                ..Self::default()
            },
        }
        .checked()
    }

    fn checked(self) -> Result<Self, String> {
        if self.ids.len() + self.failed.len() > IDS_MAX {
            return Err(format!("more than {IDS_MAX} ids; send several messages"));
        }
        if self.ids.is_empty() && self.up_to.is_none() && self.failed.is_empty() {
            return Err("neither ids nor upTo nor failed".to_owned());
        }
        Ok(self)
    }
}

fn bounded(text: &str) -> Result<(), String> {
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(format!("longer than {MESSAGE_BYTES_MAX} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_and_messages() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            Answers::parse_body(r#"{"ids":["1-0"],"failed":[{"id":"2-0","error":"no"}]}"#),
            Ok(Answers {
                ids: ids(&["1-0"]),
                up_to: None,
                failed: vec![("2-0".to_owned(), "no".to_owned())],
            })
        );
        assert_eq!(
            Answers::parse_message(r#"{"type":"ack","upTo":"3-1"}"#).map(|answers| answers.up_to),
            Ok(Some("3-1".to_owned()))
        );
        assert_eq!(
            Answers::parse_message(r#"{"type":"nack","id":"3-1"}"#).map(|answers| answers.failed),
            Ok(vec![("3-1".to_owned(), String::new())])
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"ids":[]}"#,
            r#"{"ids":["1-0"],"more":1}"#,
            r#"{"ids":"1-0"}"#,
            r#"{"failed":[{"error":"no id"}]}"#,
        ] {
            assert!(Answers::parse_body(text).is_err(), "{text}");
        }
        for text in [
            r#"{"type":"ack"}"#,
            r#"{"type":"sleep"}"#,
            r#"{"ids":["1-0"]}"#,
        ] {
            assert!(Answers::parse_message(text).is_err(), "{text}");
        }
        let many = format!("{{\"ids\":[{}\"x\"]}}", "\"x\",".repeat(IDS_MAX));
        assert!(Answers::parse_body(&many).is_err());
    }
}
