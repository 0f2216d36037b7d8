//! Filters for the events of Antelope chains.

use std::borrow::Cow;

use serde::Deserialize;

use super::json::{Fields, Pattern, Subset};
use super::{EventView, FilterError};

/// `action`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActionFilter {
    account: Pattern,
    name: Pattern,
    receiver: Pattern,
    /// Any of those who authorised it.
    actor: Pattern,
    data: Subset,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    actor: Cow<'a, str>,
}

impl ActionFilter {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            account: fields.pattern("account")?,
            name: fields.pattern("name")?,
            receiver: fields.pattern("receiver")?,
            actor: fields.pattern("actor")?,
            data: fields.subset("data")?,
        })
    }

    pub(super) fn fits(&self, event: &EventView<'_>) -> bool {
        self.account.fits_field(event.account.as_deref())
            && self.name.fits_field(event.name.as_deref())
            && self.receiver.fits_field(event.receiver.as_deref())
            && self.fits_actor(event)
            && self.data.fits(event.data)
    }

    fn fits_actor(&self, event: &EventView<'_>) -> bool {
        if self.actor.is_any() {
            return true;
        }
        let levels = event
            .authorization
            .and_then(|text| serde_json::from_str::<Vec<Level<'_>>>(text.get()).ok());
        levels.is_some_and(|levels| levels.iter().any(|level| self.actor.fits(&level.actor)))
    }
}

/// `delta`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeltaFilter {
    code: Pattern,
    scope: Pattern,
    table: Pattern,
    primary_key: Pattern,
    present: Option<bool>,
    value: Subset,
}

impl DeltaFilter {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            code: fields.pattern("code")?,
            scope: fields.pattern("scope")?,
            table: fields.pattern("table")?,
            primary_key: fields.pattern("primary_key")?,
            present: fields.flag("present")?,
            value: fields.subset("value")?,
        })
    }

    pub(super) fn fits(&self, event: &EventView<'_>) -> bool {
        self.code.fits_field(event.code.as_deref())
            && self.scope.fits_field(event.scope.as_deref())
            && self.table.fits_field(event.table.as_deref())
            && self.primary_key.fits_field(event.primary_key.as_deref())
            && (self.present.is_none() || self.present == event.present)
            && self.value.fits(event.value)
    }
}

/// `native-delta`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NativeDeltaFilter {
    table: Pattern,
    lookup_key: Pattern,
    present: Option<bool>,
    data: Subset,
}

impl NativeDeltaFilter {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            table: fields.pattern("table")?,
            lookup_key: fields.pattern("lookup_key")?,
            present: fields.flag("present")?,
            data: fields.subset("data")?,
        })
    }

    pub(super) fn fits(&self, event: &EventView<'_>) -> bool {
        self.table.fits_field(event.table.as_deref())
            && self.lookup_key.fits_field(event.lookup_key.as_deref())
            && (self.present.is_none() || self.present == event.present)
            && self.data.fits(event.data)
    }
}
