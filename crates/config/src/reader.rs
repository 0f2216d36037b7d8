//! Typed reading of raw entries, collecting problems instead of stopping.

use std::collections::BTreeSet;

use toml::de::DeValue;

use crate::keys::{self, Key, Kind, Section};
use crate::layers::{RawEntry, RawSection, RawValue};
use crate::load::{Environment, Setting};
use crate::problem::{Place, Problem, ProblemKind};
use crate::redact::{self, REDACTED};
use crate::substitute::{has_literal, substitute};

/// Reads values by key and remembers what was wrong.
pub(crate) struct Reader<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) allow_inline_secrets: bool,
    pub(crate) problems: Vec<Problem>,
    pub(crate) settings: Vec<Setting>,
    /// Variables named by `${NAME}`.
    pub(crate) referenced: BTreeSet<String>,
}

/// A section with its path, for messages.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) section: Section,
    pub(crate) raw: &'a RawSection,
    pub(crate) path: &'a str,
}

impl At<'_> {
    pub(crate) fn path_of(&self, name: &str) -> String {
        match self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// Where the key was given; that of the section when it was not.
    pub(crate) fn place_of(&self, name: &str) -> Place {
        self.raw
            .entries
            .get(name)
            .map_or_else(|| self.raw.place.clone(), |entry| entry.place.clone())
    }
}

impl Reader<'_> {
    /// Reports a problem with a key, or with the section when the name is empty.
    pub(crate) fn problem(
        &mut self,
        at: &At<'_>,
        name: &str,
        kind: ProblemKind,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem {
            kind,
            place: at.place_of(name),
            path: match name {
                "" => at.path.to_owned(),
                name => at.path_of(name),
            },
            message: message.into(),
        });
    }

    /// Whether a key was not given, or given as the empty string.
    pub(crate) fn is_blank(&self, at: &At<'_>, name: &str) -> bool {
        at.raw
            .entries
            .get(name)
            .is_none_or(|entry| entry.value == RawValue::Text(String::new()))
    }

    /// A string; the default (or "") when there is none or it cannot be read.
    pub(crate) fn text(&mut self, at: &At<'_>, name: &'static str) -> String {
        match self.value(at, name) {
            RawValue::Text(text) => text,
            _ => String::new(),
        }
    }

    /// A boolean.
    pub(crate) fn bool(&mut self, at: &At<'_>, name: &'static str) -> bool {
        matches!(self.value(at, name), RawValue::Bool(true))
    }

    /// A whole number within the key's bounds, which are never negative.
    pub(crate) fn integer(&mut self, at: &At<'_>, name: &'static str) -> u64 {
        match self.value(at, name) {
            RawValue::Integer(value) => u64::try_from(value).unwrap_or_default(),
            _ => 0,
        }
    }

    /// A whole number within the key's bounds, which may be negative.
    pub(crate) fn signed(&mut self, at: &At<'_>, name: &'static str) -> i64 {
        match self.value(at, name) {
            RawValue::Integer(value) => value,
            _ => 0,
        }
    }

    /// A list of strings.
    pub(crate) fn list(&mut self, at: &At<'_>, name: &'static str) -> Vec<String> {
        let RawValue::List(values) = self.value(at, name) else {
            return Vec::new();
        };
        values
            .into_iter()
            .filter_map(|value| match value {
                RawValue::Text(text) => Some(text),
                _ => None,
            })
            .collect()
    }

    fn value(&mut self, at: &At<'_>, name: &'static str) -> RawValue {
        let key = keys::find(at.section, name).expect("only keys of the table are read");
        let given = match at.raw.entries.get(name) {
            Some(entry) => self.checked(at, key, entry),
            None => None,
        };
        let place = match given {
            Some(_) => at.place_of(name),
            None => Place::Default,
        };
        let value = given.or_else(|| default_value(key));
        if value.is_none() && !at.raw.entries.contains_key(name) {
            self.problem(
                at,
                name,
                ProblemKind::Missing,
                format!("{name} must be given: {}", key.doc),
            );
        }
        let value = value.unwrap_or_else(|| RawValue::Text(String::new()));
        self.settings.push(Setting {
            path: at.path_of(name),
            value: shown(key.kind, &value),
            place,
        });
        value
    }

    /// The value given, if it is of the key's type and may be used.
    fn checked(&mut self, at: &At<'_>, key: &'static Key, entry: &RawEntry) -> Option<RawValue> {
        let in_file = matches!(entry.place, Place::Line { .. });
        match (key.kind, &entry.value) {
            (Kind::Text | Kind::Secret | Kind::Url, RawValue::Text(text)) => {
                self.string(at, key, text, in_file).map(RawValue::Text)
            }
            (Kind::Bool, RawValue::Bool(_)) => Some(entry.value.clone()),
            (Kind::Integer { min, max }, RawValue::Integer(value)) => {
                if (min..=max).contains(value) {
                    return Some(entry.value.clone());
                }
                let message = format!("{value} is out of range; expected {}", key.kind.describe());
                self.problem(at, key.name, ProblemKind::InvalidValue, message);
                None
            }
            (Kind::TextList, RawValue::List(items))
                if items.iter().all(|item| matches!(item, RawValue::Text(_))) =>
            {
                let texts: Option<Vec<RawValue>> = items
                    .iter()
                    .map(|item| match item {
                        RawValue::Text(text) => {
                            self.string(at, key, text, in_file).map(RawValue::Text)
                        }
                        _ => None,
                    })
                    .collect();
                texts.map(RawValue::List)
            }
            (kind, value) => {
                let got = match value {
                    // The text itself stays out of the message: the key may be a secret's neighbour by mistake.
                    RawValue::Text(_) => "a string",
                    RawValue::Bool(_) => "true or false",
                    RawValue::Integer(_) => "a whole number",
                    RawValue::List(items)
                        if items.iter().all(|item| matches!(item, RawValue::Text(_))) =>
                    {
                        "a list of strings"
                    }
                    RawValue::List(_) => "a list that holds other things than strings",
                    RawValue::Other(what) => what,
                };
                let message = format!("expected {}, got {got}", kind.describe());
                self.problem(at, key.name, ProblemKind::WrongType, message);
                None
            }
        }
    }

    fn string(
        &mut self,
        at: &At<'_>,
        key: &'static Key,
        text: &str,
        in_file: bool,
    ) -> Option<String> {
        let from_environment = matches!(at.place_of(key.name), Place::Variable(_));
        if !from_environment
            && !self.allow_inline_secrets
            && self.is_literal_secret(key.kind, text, in_file)
        {
            let message = match key.kind {
                Kind::Url => {
                    "the password in this URL is written out; use \"${NAME}\" for it, or rpc_user with rpc_password_file, or set allow_inline_secrets = true"
                }
                _ => {
                    "the secret is written out; use \"${NAME}\" with an environment variable, or the key with _file at its end, or set allow_inline_secrets = true"
                }
            };
            self.problem(at, key.name, ProblemKind::LiteralSecret, message);
            return None;
        }
        if !in_file {
            return Some(text.to_owned());
        }
        match substitute(text, self.environment, &mut self.referenced) {
            Ok(substituted) => Some(substituted),
            Err((kind, message)) => {
                self.problem(at, key.name, kind, message);
                None
            }
        }
    }

    fn is_literal_secret(&self, kind: Kind, text: &str, in_file: bool) -> bool {
        let secret = match kind {
            Kind::Secret => Some(text),
            Kind::Url => redact::user_info(text)
                .and_then(|range| text[range].split_once(':'))
                .map(|(_, password)| password),
            _ => None,
        };
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            return false;
        };
        // Outside the file nothing is substituted, so all of it is literal.
        !in_file || has_literal(secret)
    }
}

/// The default of a key; the table's literals are TOML, which a test checks.
pub(crate) fn default_value(key: &Key) -> Option<RawValue> {
    let parsed = DeValue::parse(key.default?).ok()?;
    Some(match parsed.get_ref() {
        DeValue::String(text) => RawValue::Text(text.clone().into_owned()),
        DeValue::Boolean(value) => RawValue::Bool(*value),
        DeValue::Integer(integer) => RawValue::Integer(integer.as_str().parse().ok()?),
        DeValue::Array(_) => RawValue::List(Vec::new()),
        _ => return None,
    })
}

/// A value as it may be printed.
fn shown(kind: Kind, value: &RawValue) -> serde_json::Value {
    match (kind, value) {
        (Kind::Secret, RawValue::Text(text)) if !text.is_empty() => REDACTED.into(),
        (Kind::Url, RawValue::Text(text)) => redact::redact_url(text).into(),
        (_, RawValue::Text(text)) => text.as_str().into(),
        (_, RawValue::Bool(value)) => (*value).into(),
        (_, RawValue::Integer(value)) => (*value).into(),
        (_, RawValue::List(items)) => items
            .iter()
            .map(|item| shown(Kind::Text, item))
            .collect::<Vec<_>>()
            .into(),
        (_, RawValue::Other(what)) => (*what).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_of_its_type() {
        for key in keys::KEYS {
            let value = default_value(key);
            let fits = match (key.kind, &value) {
                (_, None) => key.default.is_none(),
                (Kind::Text | Kind::Secret | Kind::Url, Some(RawValue::Text(_))) => true,
                (Kind::Bool, Some(RawValue::Bool(_))) => true,
                (Kind::Integer { min, max }, Some(RawValue::Integer(value))) => {
                    (min..=max).contains(value)
                }
                (Kind::TextList, Some(RawValue::List(_))) => true,
                _ => false,
            };
            assert!(fits, "{}: {value:?}", key.path());
        }
    }
}
