//! The parts that all filters are made of: patterns of text, partial objects, and the reading of them.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::FilterError;

/// What a text must be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Pattern {
    /// Anything, also nothing.
    #[default]
    Any,
    Exact(Box<str>),
    Prefix(Box<str>),
}

impl Pattern {
    pub(super) fn read(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some("") => Self::Any,
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Exact(text.into()),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        *self == Self::Any
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => **exact == *text,
            Self::Prefix(prefix) => text.starts_with(&**prefix),
        }
    }

    /// A field that the event does not have fits only what fits anything.
    pub(super) fn fits_field(&self, text: Option<&str>) -> bool {
        match text {
            Some(text) => self.fits(text),
            None => self.is_any(),
        }
    }
}

/// What an object must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Subset(Map<String, Value>);

impl Subset {
    /// Whether the event's object holds all of it. The text is read only when something is asked of it.
    pub(super) fn fits(&self, text: Option<&RawValue>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let found = text.map(|text| serde_json::from_str::<Value>(text.get()));
        match found {
            Some(Ok(Value::Object(found))) => holds(&found, &self.0),
            _ => false,
        }
    }
}

fn holds(found: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted
        .iter()
        .all(|(name, wanted)| found.get(name).is_some_and(|found| agrees(found, wanted)))
}

/// The same value; an object may hold more; a number and its decimal text are the same.
fn agrees(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => holds(found, wanted),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| agrees(found, wanted))
        }
        (Value::Number(number), Value::String(text))
        | (Value::String(text), Value::Number(number)) => number.to_string() == *text,
        (found, wanted) => found == wanted,
    }
}

/// The fields of one filter as they are read, so that one that nobody knows is an error.
pub(super) struct Fields<'a> {
    at: usize,
    left: Vec<(&'a str, &'a Value)>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(at: usize, value: &'a Value) -> Result<Self, FilterError> {
        match value {
            Value::Object(fields) => Ok(Self {
                at,
                left: fields
                    .iter()
                    .map(|(name, value)| (name.as_str(), value))
                    .collect(),
            }),
            _ => Err(FilterError {
                place: format!("[{at}]"),
                what: "an object is expected".to_owned(),
            }),
        }
    }

    pub(super) fn wrong(&self, name: &str, what: impl Into<String>) -> FilterError {
        FilterError {
            place: format!("[{}].{name}", self.at),
            what: what.into(),
        }
    }

    /// Takes a field. `null` is as good as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Value> {
        let at = self.left.iter().position(|(left, _)| *left == name)?;
        let (_, value) = self.left.swap_remove(at);
        Some(value).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<&'a str>, FilterError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a text is expected")),
        }
    }

    /// A pattern; a number stands for its decimal text.
    pub(super) fn pattern(&mut self, name: &str) -> Result<Pattern, FilterError> {
        match self.take(name) {
            None => Ok(Pattern::Any),
            Some(Value::String(text)) => Ok(Pattern::read(text)),
            Some(Value::Number(number)) => Ok(Pattern::Exact(number.to_string().into())),
            Some(_) => Err(self.wrong(name, "a text or a number is expected")),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, FilterError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) if text == "*" => Ok(None),
            Some(_) => Err(self.wrong(name, "true or false is expected")),
        }
    }

    pub(super) fn subset(&mut self, name: &str) -> Result<Subset, FilterError> {
        match self.take(name) {
            None => Ok(Subset::default()),
            Some(Value::Object(fields)) => Ok(Subset(fields.clone())),
            Some(Value::String(text)) if text == "*" => Ok(Subset::default()),
            Some(_) => Err(self.wrong(name, "an object is expected")),
        }
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), FilterError> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(self.wrong(name, "filters of this kind have no such field")),
        }
    }
}
