//! Which events a subscription wants.
//!
//! As JSON, a list of objects; an event passes when any of them fits (OR), and one fits when all its fields do (AND). An empty
//! list lets everything pass. Each has a `kind`; `*`, or no kind, is any.
//!
//! | kind | fields |
//! | --- | --- |
//! | `action` | `account`, `name`, `receiver`, `actor`, `data` |
//! | `delta` | `code`, `scope`, `table`, `primary_key`, `present`, `value` |
//! | `native-delta` | `table`, `lookup_key`, `present`, `data` |
//! | `fork` | none |
//! | any other | `data` |
//!
//! A field that is absent, or `*`, fits anything; `eosio*` fits what begins so; else it must be equal. `data` and `value` are
//! objects: every member named must be in the event's, nested ones likewise; lists must be equal; a number and its decimal
//! text are the same (`1` and `"1"`).
//!
//! Forks are not this module's matter: a subscription gets them whatever it filters, unless it says that it wants none.

mod antelope;
mod json;
mod view;

use serde_json::Value;

use antelope::{ActionFilter, DeltaFilter, NativeDeltaFilter};
use json::{Fields, Pattern, Subset};
pub use view::EventView;

/// Most filters of one subscription: each event may be compared with all of them.
pub const FILTERS_MAX: usize = 1_000;
/// Longest text of a subscription's filters, bytes.
pub const FILTERS_BYTES_MAX: usize = 1 << 20;

/// What a subscription asked for makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("filters{place}: {what}")]
pub struct FilterError {
    /// Where: `[2].data`, say; empty for the whole.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

/// The filters of a subscription.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filters {
    any: Vec<Filter>,
    /// As they were given, for the registry.
    given: Vec<Value>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
enum Filter {
    Action(ActionFilter),
    Delta(DeltaFilter),
    NativeDelta(NativeDeltaFilter),
    /// Any kind of event that has no filter of its own, by its kind and what its `data` holds.
    Other {
        kind: Pattern,
        data: Subset,
    },
}

impl Filters {
    /// No filter: everything passes.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Reads the JSON text of a list of filters.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > FILTERS_BYTES_MAX {
            return Err(whole(format!(
                "the text has {} bytes; {FILTERS_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let value = serde_json::from_str(text).map_err(|error| whole(error.to_string()))?;
        Self::from_json(&value)
    }

    /// Reads a list of filters.
    pub fn from_json(value: &Value) -> Result<Self, FilterError> {
        let list = match value {
            Value::Null => &[],
            Value::Array(list) => list.as_slice(),
            _ => return Err(whole("a list of objects is expected".to_owned())),
        };
        if list.len() > FILTERS_MAX {
            return Err(whole(format!(
                "there are {}; {FILTERS_MAX} are allowed",
                list.len()
            )));
        }
        let mut any = Vec::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            any.push(Filter::read(Fields::new(at, item)?)?);
        }
        Ok(Self {
            any,
            given: list.to_vec(),
        })
    }

    /// As they were given.
    pub fn to_json(&self) -> Value {
        Value::Array(self.given.clone())
    }

    /// Whether everything passes.
    pub fn is_everything(&self) -> bool {
        self.any.is_empty()
    }

    /// Whether an event passes.
    pub fn passes(&self, event: &EventView<'_>) -> bool {
        self.any.is_empty() || self.any.iter().any(|filter| filter.fits(event))
    }
}

impl Filter {
    fn read(mut fields: Fields<'_>) -> Result<Self, FilterError> {
        let kind = fields.text("kind")?.unwrap_or("*").to_owned();
        let filter = match kind.as_str() {
            "action" => Self::Action(ActionFilter::read(&mut fields)?),
            "delta" => Self::Delta(DeltaFilter::read(&mut fields)?),
            "native-delta" => Self::NativeDelta(NativeDeltaFilter::read(&mut fields)?),
            "fork" => Self::Other {
                kind: Pattern::read("fork"),
                data: Subset::default(),
            },
            other => Self::Other {
                kind: Pattern::read(other),
                data: fields.subset("data")?,
            },
        };
        fields.end()?;
        Ok(filter)
    }

    fn fits(&self, event: &EventView<'_>) -> bool {
        match self {
            Self::Action(filter) => event.kind == "action" && filter.fits(event),
            Self::Delta(filter) => event.kind == "delta" && filter.fits(event),
            Self::NativeDelta(filter) => event.kind == "native-delta" && filter.fits(event),
            Self::Other { kind, data } => kind.fits(&event.kind) && data.fits(event.data),
        }
    }
}

fn whole(what: String) -> FilterError {
    FilterError {
        place: String::new(),
        what,
    }
}

#[cfg(test)]
mod tests;
