//! A JSON object as the application sent it: read field by field, numbers kept as text, every fault noted with its
//! path and none of them ending the reading.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::faults::Faults;
use crate::ids::{IdError, check_id};
use crate::money::{Rounding, Usd, UsdError, parse_integer};
use crate::time::AtMs;

/// The members of one object, in the order sent. Of a name that comes twice the last one counts, as in JavaScript.
#[derive(Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A name borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(v.to_owned())))
            }
        }
        deserializer.deserialize_str(Names)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some((Name(name), value)) =
                    map.next_entry::<Name<'de>, &'de RawValue>()?
                {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'a> Members<'a> {
    /// Reads an object; the reason when it is none.
    pub(crate) fn parse(json: &'a str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().rev().find(|(key, _)| key == name)?;
        let text = value.get().trim();
        (text != "null").then_some(text)
    }

    /// The members, in the order sent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_ref(), value.get()))
    }
}

/// One object being read: where it stands in the request, and how strictly.
pub(crate) struct Fields<'a, 'f> {
    members: Members<'a>,
    path: String,
    rounding: Rounding,
    faults: &'f mut Faults,
}

impl<'a, 'f> Fields<'a, 'f> {
    /// Begins with the text of an object. What is no object is a fault, and reads as an object without fields.
    pub(crate) fn parse(
        json: &'a str,
        path: &str,
        rounding: Rounding,
        faults: &'f mut Faults,
    ) -> Self {
        let members = Members::parse(json).unwrap_or_else(|_| {
            faults.add(path, "wrong_type", "is not a JSON object");
            Members::default()
        });
        Self {
            members,
            path: path.to_owned(),
            rounding,
            faults,
        }
    }

    /// The path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Notes a fault of a field.
    pub(crate) fn fault(&mut self, name: &str, code: &'static str, message: impl Into<String>) {
        let path = self.path(name);
        self.faults.add(&path, code, message);
    }

    /// Where faults go.
    pub(crate) fn faults(&mut self) -> &mut Faults {
        self.faults
    }

    /// How amounts of dollars are read.
    pub(crate) fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// The JSON text of a field; a field that is `null` is absent.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.get(name)
    }

    /// As [`Fields::raw`], and a fault when there is none.
    pub(crate) fn required(&mut self, name: &str) -> Option<&'a str> {
        let raw = self.raw(name);
        if raw.is_none() {
            self.fault(name, "missing", "is required");
        }
        raw
    }

    /// A text.
    pub(crate) fn text(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.raw(name)?;
        let text = unquote(raw);
        if text.is_none() {
            self.fault(name, "wrong_type", "is not a text");
        }
        text
    }

    /// A text of at most so many bytes, without control characters; trimmed.
    pub(crate) fn short_text(&mut self, name: &str, bytes_max: usize) -> Option<String> {
        let text = self.text(name)?;
        let text = text.trim();
        if text.len() > bytes_max {
            self.fault(
                name,
                "too_long",
                format!("is longer than {bytes_max} bytes"),
            );
            return None;
        }
        if text.chars().any(char::is_control) {
            self.fault(name, IdError::Control.code(), IdError::Control.message());
            return None;
        }
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An id, if there is one.
    pub(crate) fn id(&mut self, name: &str) -> Option<String> {
        self.id_by(name, check_id)
    }

    /// An id, and a fault when there is none.
    pub(crate) fn required_id(&mut self, name: &str) -> Option<String> {
        self.required(name)?;
        self.id(name)
    }

    /// An id by a rule.
    pub(crate) fn id_by(
        &mut self,
        name: &str,
        rule: fn(&str) -> Result<&str, IdError>,
    ) -> Option<String> {
        let text = self.text(name)?;
        match rule(&text) {
            Ok(id) => Some(id.to_owned()),
            Err(error) => {
                self.fault(name, error.code(), error.message());
                None
            }
        }
    }

    /// A whole number of at least `min`.
    pub(crate) fn integer(&mut self, name: &str, min: i64) -> Option<i64> {
        let raw = self.raw(name)?;
        match parse_integer(raw) {
            None => {
                self.fault(
                    name,
                    "not_an_integer",
                    "is not a whole number within ±(2^53 − 1)",
                );
                None
            }
            Some(value) if value < min => {
                self.fault(name, "too_small", format!("is less than {min}"));
                None
            }
            Some(value) => Some(value),
        }
    }

    /// An amount of US dollars: a JSON number or the same as text.
    pub(crate) fn usd(&mut self, name: &str) -> Option<Usd> {
        let raw = self.raw(name)?;
        let text = unquote(raw).unwrap_or(Cow::Borrowed(raw));
        match Usd::parse(text.trim(), self.rounding) {
            Ok(usd) => Some(usd),
            Err(UsdError::Format) => {
                self.fault(name, "wrong_type", "is not a decimal number");
                None
            }
            Err(UsdError::Precision) => {
                self.fault(
                    name,
                    "usd_precision",
                    "has more than 6 decimal places; the smallest unit is a millionth of a dollar",
                );
                None
            }
            Err(UsdError::Range) => {
                self.fault(name, "too_large", "is beyond 9007199254.740991 USD");
                None
            }
        }
    }

    /// An instant.
    pub(crate) fn instant(&mut self, name: &str) -> Option<AtMs> {
        let text = self.text(name)?;
        let at = AtMs::parse(text.trim());
        if at.is_none() {
            self.fault(
                name,
                "invalid_timestamp",
                "is not an instant of RFC 3339 with zone, such as 2026-03-10T14:05:17.123Z",
            );
        }
        at
    }

    /// An instant, and a fault when there is none, or when it is later than `latest`.
    pub(crate) fn required_instant(&mut self, name: &str, latest: AtMs) -> Option<AtMs> {
        self.required(name)?;
        let at = self.instant(name)?;
        if at > latest {
            self.fault(
                name,
                "future_timestamp",
                "lies in the future; check the clock of the sender",
            );
            return None;
        }
        Some(at)
    }

    /// Hex digits, in lower case.
    pub(crate) fn hex(&mut self, name: &str, digits_max: usize) -> Option<String> {
        let text = self.text(name)?;
        let text = text.trim();
        let good = !text.is_empty()
            && text.len() <= digits_max
            && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if good {
            return Some(text.to_ascii_lowercase());
        }
        self.fault(
            name,
            "not_hex",
            format!("is not 1 to {digits_max} hex digits"),
        );
        None
    }
}

/// The text of a JSON string; `None` for other values.
pub(crate) fn unquote(raw: &str) -> Option<Cow<'_, str>> {
    let raw = raw.trim();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains(['\\', '"']) {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// The elements of a JSON array as texts; `None` for other values.
pub(crate) fn elements(raw: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw).ok()
}
