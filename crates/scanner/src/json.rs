//! Writing JSON objects field by field: amounts go in as exact decimals, which no number type of the usual writers
//! keeps.

use serde::Serialize;

use crate::money::{Usd, decimal_of_micros};

/// An object being written.
#[derive(Debug)]
pub struct JsonObject(String);

impl Default for JsonObject {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonObject {
    /// An object without fields.
    pub fn new() -> Self {
        let mut text = String::with_capacity(512);
        text.push('{');
        Self(text)
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    /// A field whose value is JSON already. The name is one of ours: it needs no escapes.
    pub fn raw(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.0.push_str(json);
        self
    }

    /// A text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        push_quoted(&mut self.0, value);
        self
    }

    /// A text, left out when there is none.
    pub fn text_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// A text or `null`.
    pub fn text_or_null(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// A whole number.
    pub fn number(self, name: &str, value: impl Into<i128>) -> Self {
        let value: i128 = value.into();
        self.raw(name, &value.to_string())
    }

    /// A whole number, left out when there is none.
    pub fn number_if(self, name: &str, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    /// A whole number or `null`.
    pub fn number_or_null(self, name: &str, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// True or false.
    pub fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    /// An amount twice: `name` as the shortest exact decimal, `name` + `Micros` as a text of digits.
    pub fn usd(self, name: &str, value: Usd) -> Self {
        self.usd_sum(name, i128::from(value.micros()))
    }

    /// A sum of amounts in micro-dollars, in the two forms of [`JsonObject::usd`].
    pub fn usd_sum(self, name: &str, micros: i128) -> Self {
        self.raw(name, &decimal_of_micros(micros))
            .raw(&format!("{name}Micros"), &format!("\"{micros}\""))
    }

    /// The finished object.
    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A text as a JSON string.
pub fn quote(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    push_quoted(&mut text, value);
    text
}

fn push_quoted(text: &mut String, value: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if value.bytes().all(is_plain) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&to_json(value));
    }
}

/// A JSON array of finished values.
pub fn array<I: IntoIterator<Item = S>, S: AsRef<str>>(items: I) -> String {
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(item.as_ref());
    }
    text.push(']');
    text
}

/// The JSON form of a value whose writing cannot fail: maps with text keys, texts, whole numbers.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a value has no JSON form");
        "null".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_valid_json_and_amounts_agree() {
        let usd = Usd::from_micros(25_000).expect("in range");
        let text = JsonObject::new()
            .text("a", "q\"\n\u{1F600}")
            .text_if("none", None)
            .text_or_null("null", None)
            .number("n", -5)
            .flag("f", true)
            .usd("priceUsd", usd)
            .raw("list", &array(["1", "2"]))
            .end();
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        for text in ["", "plain ä", "\"", "\\", "\u{0}\u{1f}\u{7f}\u{2028}"] {
            assert_eq!(
                serde_json::from_str::<String>(&quote(text)).expect("a text"),
                text
            );
        }
        assert_eq!(value["a"], "q\"\n\u{1F600}");
        assert_eq!(value["priceUsdMicros"], "25000");
        assert!(text.contains("\"priceUsd\":0.025,"), "{text}");
        assert_eq!(value["list"], serde_json::json!([1, 2]));
        assert!(value.get("none").is_none() && value["null"].is_null());
        assert_eq!(JsonObject::new().end(), "{}");
    }
}
