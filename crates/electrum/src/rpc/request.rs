//! From the bytes of a message to calls.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::code::{LIMIT, PARSE};
use super::error::RpcError;

/// Characters of a method's name that are looked at; a longer one is no method.
const METHOD_CHARS_MAX: usize = 128;

/// What a message holds.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// One request.
    One(Item<'a>),
    /// Several; each has its own answer, and all come back in one array.
    Batch(Vec<Item<'a>>),
}

/// One request of a message.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// To be answered.
    Call(Call<'a>),
    /// A notification, or an answer to one of ours: never answered.
    Silent,
    /// Not a request; the answer has no id.
    Invalid(RpcError),
}

/// A call of a method.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The id as the client wrote it: a number or a string.
    pub(crate) id: &'a str,
    /// The method.
    pub(crate) method: Cow<'a, str>,
    /// The arguments, unread.
    pub(crate) params: Option<&'a RawValue>,
}

/// The members of a request object that count. `null` reads as absent.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads a message. `batch_max` is the largest number of requests in a batch.
pub(crate) fn parse(text: &[u8], batch_max: usize) -> Incoming<'_> {
    let text = text.trim_ascii();
    match text.first() {
        Some(b'{') => Incoming::One(object(text)),
        Some(b'[') => batch(text, batch_max),
        _ => Incoming::One(Item::Invalid(
            match serde_json::from_slice::<IgnoredAny>(text) {
                Ok(_) => RpcError::invalid("a request is an object"),
                Err(error) => not_json(&error),
            },
        )),
    }
}

fn not_json(error: &serde_json::Error) -> RpcError {
    RpcError::new(PARSE, format!("not JSON: {error}"))
}

fn object(text: &[u8]) -> Item<'_> {
    let envelope: Envelope<'_> = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => {
            return Item::Invalid(RpcError::invalid(format!("not a request: {error}")));
        }
        Err(error) => return Item::Invalid(not_json(&error)),
    };
    let id = match envelope.id.map(RawValue::get) {
        Some(id)
            if !id.starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) =>
        {
            return Item::Invalid(RpcError::invalid("an id is a number or a string"));
        }
        id => id,
    };
    let Some(method) = envelope.method else {
        if envelope.result.is_some() || envelope.error.is_some() {
            return Item::Silent;
        }
        return Item::Invalid(RpcError::invalid("a request names a method"));
    };
    let Some(method) = method_name(method.get()) else {
        return Item::Invalid(RpcError::invalid("a method's name is a string"));
    };
    match id {
        None => Item::Silent,
        Some(id) => Item::Call(Call {
            id,
            method,
            params: envelope.params,
        }),
    }
}

fn method_name(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(raw).ok().map(Cow::Owned);
    }
    // Only its being unknown matters then, not what it was.
    Some(Cow::Borrowed(
        match inner.char_indices().nth(METHOD_CHARS_MAX) {
            Some((end, _)) => &inner[..end],
            None => inner,
        },
    ))
}

fn batch(text: &[u8], most: usize) -> Incoming<'_> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let collected = Items { most }
        .deserialize(&mut reader)
        .and_then(|items| reader.end().map(|()| items));
    match collected {
        Err(error) => Incoming::One(Item::Invalid(not_json(&error))),
        Ok(None) => Incoming::One(Item::Invalid(RpcError::new(
            LIMIT,
            format!("a batch holds at most {most} requests"),
        ))),
        Ok(Some(items)) if items.is_empty() => Incoming::One(Item::Invalid(RpcError::invalid(
            "a batch holds at least one request",
        ))),
        Ok(Some(items)) => Incoming::Batch(
            items
                .into_iter()
                .map(|raw| match raw.get().as_bytes() {
                    text @ [b'{', ..] => object(text),
                    _ => Item::Invalid(RpcError::invalid("a request is an object")),
                })
                .collect(),
        ),
    }
}

/// Collects the items of an array; `None` when there are too many, without keeping them.
struct Items {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Option<Vec<&'de RawValue>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.most {
            match seq.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(Some(items)),
            }
        }
        if seq.next_element::<IgnoredAny>()?.is_none() {
            return Ok(Some(items));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::INVALID_REQUEST;
    use super::*;

    fn one(text: &str) -> Item<'_> {
        match parse(text.as_bytes(), 3) {
            Incoming::One(item) => item,
            Incoming::Batch(_) => panic!("{text} is a batch"),
        }
    }

    fn code(text: &str) -> i32 {
        match one(text) {
            Item::Invalid(error) => error.code,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn calls() {
        for (text, id, method, params) in [
            (r#"{"id":1,"method":"a"}"#, "1", "a", None),
            (
                r#" {"method":"a","id":"x","params":[1]} "#,
                r#""x""#,
                "a",
                Some("[1]"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":-12345678901234567890,"method":"a.b","params":{}}"#,
                "-12345678901234567890",
                "a.b",
                Some("{}"),
            ),
            (
                r#"{"id":1.5,"method":"\u0061","authorization":"x"}"#,
                "1.5",
                "a",
                None,
            ),
            (
                r#"{"id":"","method":"a","params":null}"#,
                r#""""#,
                "a",
                None,
            ),
            ("{\"id\":0,\"method\":\"a\"}\r", "0", "a", None),
        ] {
            match one(text) {
                Item::Call(call) => {
                    assert_eq!((call.id, &*call.method), (id, method), "{text}");
                    assert_eq!(call.params.map(RawValue::get), params, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_never_answered() {
        for text in [
            r#"{"method":"a"}"#,
            r#"{"id":null,"method":"a"}"#,
            r#"{"id":7,"result":null,"error":{"code":1}}"#,
            r#"{"id":7,"result":"x"}"#,
        ] {
            assert!(matches!(one(text), Item::Silent), "{text}");
        }
    }

    #[test]
    fn what_is_no_request() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "nonsense",
            "{\"id\":1,}",
            "[1,",
            "{\"id\":1,\"method\":\"a\"}x",
            &deep,
        ] {
            assert_eq!(code(text), PARSE, "{text:.40}");
        }
        assert_eq!(
            match &parse(b"{\"id\":1,\"method\":\"\xff\"}", 3) {
                Incoming::One(Item::Invalid(error)) => error.code,
                other => panic!("{other:?}"),
            },
            PARSE
        );
        for text in [
            "1",
            "\"x\"",
            "null",
            "[]",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":1,"method":5}"#,
            r#"{"id":[1],"method":"a"}"#,
            r#"{"id":{},"method":"a"}"#,
            r#"{"id":true,"method":"a"}"#,
            r#"{"id":1,"id":2,"method":"a"}"#,
        ] {
            assert_eq!(code(text), INVALID_REQUEST, "{text}");
        }
        assert_eq!(code("[1,2,3,4]"), LIMIT);
        assert_eq!(code("[1,2,3,4"), PARSE);
    }

    #[test]
    fn batches_keep_their_order() {
        let Incoming::Batch(items) = parse(br#"[{"id":1,"method":"a"}, 5, {"method":"b"}]"#, 3)
        else {
            panic!("a batch");
        };
        assert!(matches!(&items[0], Item::Call(call) if call.id == "1"));
        assert!(matches!(&items[1], Item::Invalid(error) if error.code == INVALID_REQUEST));
        assert!(matches!(&items[2], Item::Silent));
        let deep = format!(
            r#"{{"id":1,"method":"a","params":{}1{}}}"#,
            "[".repeat(50_000),
            "]".repeat(50_000)
        );
        // However deep, it is a request: whoever reads the arguments refuses them by their type.
        assert!(matches!(one(&deep), Item::Call(_) | Item::Invalid(_)));
    }
}
