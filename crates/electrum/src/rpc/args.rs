//! Arguments: by position or by name, into places; then each with its type.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::RpcError;

/// The arguments of a call, each in the place that its method gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a RawValue>; N],
}

impl<'a, const N: usize> Args<'a, N> {
    /// Puts arguments into the places `names`, of which the first `required` must be there. Further ones are refused.
    pub(crate) fn bind(
        params: Option<&'a RawValue>,
        names: [&'static str; N],
        required: usize,
    ) -> Result<Self, RpcError> {
        let bound = Self::collect(params, names)?;
        if bound.extra {
            return Err(RpcError::params(match (bound.by_name, N) {
                (true, 0) => Cow::Borrowed("the method takes no arguments"),
                (true, _) => Cow::Owned(format!("the arguments are named {}", names.join(", "))),
                (false, _) => Cow::Owned(format!("the method takes at most {N} arguments")),
            }));
        }
        if let Some(at) = (0..required).find(|at| bound.values[*at].is_none()) {
            return Err(RpcError::params(format!(
                "the argument {} is missing",
                names[at]
            )));
        }
        Ok(Self {
            names,
            values: bound.values,
        })
    }

    /// The same, but further arguments are ignored and none is required.
    pub(crate) fn bind_lenient(
        params: Option<&'a RawValue>,
        names: [&'static str; N],
    ) -> Result<Self, RpcError> {
        Ok(Self {
            names,
            values: Self::collect(params, names)?.values,
        })
    }

    fn collect(
        params: Option<&'a RawValue>,
        names: [&'static str; N],
    ) -> Result<Bound<'a, N>, RpcError> {
        let Some(params) = params else {
            return Ok(Bound::default());
        };
        let mut reader = serde_json::Deserializer::from_str(params.get());
        Places { names }
            .deserialize(&mut reader)
            .map_err(|_| RpcError::params("params is an array or an object"))
    }

    /// The raw value of a place; `None` when it is absent or null.
    pub(crate) fn raw(&self, at: usize) -> Option<&'a RawValue> {
        self.values[at].filter(|value| value.get() != "null")
    }

    fn wrong(&self, at: usize, what: &str) -> RpcError {
        RpcError::bad(format!("{} must be {what}", self.names[at]))
    }

    /// A string.
    pub(crate) fn text(&self, at: usize) -> Result<Cow<'a, str>, RpcError> {
        self.raw(at)
            .and_then(|value| string(value.get()))
            .ok_or_else(|| self.wrong(at, "a string"))
    }

    /// A string, if it is there.
    pub(crate) fn text_opt(&self, at: usize) -> Result<Option<Cow<'a, str>>, RpcError> {
        match self.raw(at) {
            None => Ok(None),
            Some(_) => self.text(at).map(Some),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn number(&self, at: usize) -> Result<u64, RpcError> {
        self.raw(at)
            .and_then(|value| value.get().parse().ok())
            .ok_or_else(|| self.wrong(at, "a non-negative integer"))
    }

    /// The same, with a default.
    pub(crate) fn number_or(&self, at: usize, default: u64) -> Result<u64, RpcError> {
        match self.raw(at) {
            None => Ok(default),
            Some(_) => self.number(at),
        }
    }

    /// A whole number of either sign, with a default.
    pub(crate) fn signed_or(&self, at: usize, default: i64) -> Result<i64, RpcError> {
        match self.raw(at) {
            None => Ok(default),
            Some(value) => value
                .get()
                .parse()
                .map_err(|_| self.wrong(at, "an integer")),
        }
    }

    /// A boolean; 0 and 1 count as such.
    pub(crate) fn flag(&self, at: usize) -> Result<bool, RpcError> {
        match self.raw(at).map(RawValue::get) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(self.wrong(at, "a boolean")),
        }
    }

    /// A list of strings, at most `most`.
    pub(crate) fn texts(&self, at: usize, most: usize) -> Result<Vec<String>, RpcError> {
        let raw = self
            .raw(at)
            .ok_or_else(|| self.wrong(at, "a list of strings"))?;
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        let texts = Texts { most }
            .deserialize(&mut reader)
            .map_err(|_| self.wrong(at, "a list of strings"))?;
        texts.ok_or_else(|| self.wrong(at, &format!("a list of at most {most} strings")))
    }
}

/// The text of a JSON string.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

struct Bound<'a, const N: usize> {
    values: [Option<&'a RawValue>; N],
    extra: bool,
    by_name: bool,
}

impl<const N: usize> Default for Bound<'_, N> {
    fn default() -> Self {
        Self {
            values: [None; N],
            extra: false,
            by_name: false,
        }
    }
}

struct Places<const N: usize> {
    names: [&'static str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Places<N> {
    type Value = Bound<'de, N>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Places<N> {
    type Value = Bound<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut bound = Bound::default();
        for place in &mut bound.values {
            match seq.next_element()? {
                Some(value) => *place = Some(value),
                None => return Ok(bound),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            bound.extra = true;
        }
        Ok(bound)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut bound = Bound {
            by_name: true,
            ..Bound::default()
        };
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.names.iter().position(|known| *known == name) {
                Some(at) => bound.values[at] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                    bound.extra = true;
                }
            }
        }
        Ok(bound)
    }
}

/// Collects strings; `None` when there are too many, without keeping them.
struct Texts {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Texts {
    type Value = Option<Vec<String>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = Option<Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = seq.next_element()? {
            if texts.len() == self.most {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            texts.push(text);
        }
        Ok(Some(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::{BAD_REQUEST, INVALID_PARAMS};
    use super::*;

    fn raw(text: &str) -> Option<&RawValue> {
        Some(serde_json::from_str(text).expect("JSON"))
    }

    const NAMES: [&str; 3] = ["height", "flag", "name"];

    #[test]
    fn by_position_and_by_name() {
        for text in [r#"[5, true, "x"]"#, r#"{"name":"x","height":5,"flag":1}"#] {
            let args = Args::bind(raw(text), NAMES, 3).expect("fits");
            assert_eq!(args.number(0), Ok(5));
            assert_eq!(args.flag(1), Ok(true));
            assert_eq!(args.text(2).as_deref(), Ok("x"));
        }
        let args = Args::bind(raw("[5, null]"), NAMES, 1).expect("fits");
        assert_eq!((args.flag(1), args.text_opt(2)), (Ok(false), Ok(None)));
        assert_eq!(Args::bind(None, [], 0).map(|_: Args<'_, 0>| ()), Ok(()));
    }

    #[test]
    fn what_does_not_fit() {
        for (text, required) in [
            ("[]", 1),
            ("[1,2,3,4]", 1),
            (r#"{"height":1,"other":2}"#, 1),
            (r#"{"flag":true}"#, 1),
            ("5", 0),
            (r#""x""#, 0),
            ("true", 0),
        ] {
            let error = Args::bind(raw(text), NAMES, required).expect_err(text);
            assert_eq!(error.code, INVALID_PARAMS, "{text}");
        }
        Args::bind_lenient(raw("[1,2,3,4]"), NAMES).expect("further ones are ignored");
    }

    #[test]
    fn types_are_checked() {
        for text in [
            "[-1]",
            "[1.5]",
            r#"["1"]"#,
            "[true]",
            "[[]]",
            "[{}]",
            "[99999999999999999999]",
            "[1e3]",
        ] {
            let args = Args::bind(raw(text), NAMES, 1).expect("fits");
            assert_eq!(args.number(0).expect_err(text).code, BAD_REQUEST);
        }
        for text in [r#"[0,"true"]"#, "[0,2]", "[0,[]]"] {
            let args = Args::bind(raw(text), NAMES, 1).expect("fits");
            assert_eq!(args.flag(1).expect_err(text).code, BAD_REQUEST);
        }
        let args = Args::bind(raw(r#"[["a","b"],"\u0061\n", -7]"#), NAMES, 1).expect("fits");
        assert_eq!(args.texts(0, 2), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(args.texts(0, 1).is_err());
        assert!(args.texts(1, 1).is_err());
        assert_eq!(args.text(1).as_deref(), Ok("a\n"));
        assert_eq!(args.signed_or(2, 0), Ok(-7));
    }
}
