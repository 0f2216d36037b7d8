//! The paths of an Antelope chain's pages: the only place that spells them.

use std::sync::Arc;

use super::event::{RowKey, Wanted};
use crate::present::{path_segment, query_value};

/// Paths of one chain.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    id: Arc<str>,
}

impl Paths {
    /// Of a chain.
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.into() }
    }

    /// The chain's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The newest events.
    pub(super) fn events(&self) -> String {
        format!("/{}/events", self.id)
    }

    /// Events that a reader wants to see, before a place.
    pub(super) fn wanted(&self, wanted: &Wanted, before: Option<&str>) -> String {
        self.with_query(&self.events(), wanted, "before", before)
    }

    /// The stream of new rows after a place.
    pub(super) fn tail(&self, wanted: &Wanted, after: Option<&str>) -> String {
        self.with_query(&format!("/{}/events/live", self.id), wanted, "after", after)
    }

    fn with_query(
        &self,
        path: &str,
        wanted: &Wanted,
        place_name: &str,
        place: Option<&str>,
    ) -> String {
        let pairs = [
            ("kind", wanted.kind.as_str()),
            ("account", wanted.account.as_str()),
            ("name", wanted.name.as_str()),
            (place_name, place.unwrap_or_default()),
        ];
        let query: Vec<String> = pairs
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", query_value(value)))
            .collect();
        if query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", query.join("&"))
        }
    }

    /// One event.
    pub(super) fn event(&self, event_id: &str) -> String {
        format!("/{}/event/{}", self.id, path_segment(event_id))
    }

    /// One block.
    pub(super) fn block(&self, num: u32) -> String {
        format!("/{}/block/{num}", self.id)
    }

    /// A transaction of a block.
    pub(super) fn transaction(&self, num: u32, transaction: &str) -> String {
        format!("/{}/block/{num}?tx={}", self.id, query_value(transaction))
    }

    /// One account.
    pub(super) fn account(&self, name: &str) -> String {
        format!("/{}/account/{}", self.id, path_segment(name))
    }

    /// The ABI versions of a contract.
    pub(super) fn abi(&self, contract: &str) -> String {
        format!("/{}/abi/{}", self.id, path_segment(contract))
    }

    /// The changes of a row.
    pub(super) fn row(&self, row: &RowKey) -> String {
        format!(
            "/{}/row?code={}&scope={}&table={}&key={}",
            self.id,
            query_value(&row.code),
            query_value(&row.scope),
            query_value(&row.table),
            query_value(&row.key)
        )
    }

    /// The subscriptions.
    pub(super) fn subscriptions(&self) -> String {
        format!("/{}/subscriptions", self.id)
    }

    /// What a subscription could not handle.
    pub(super) fn dead_letters(&self, subscription: &str) -> String {
        format!("/{}/dead-letters/{}", self.id, path_segment(subscription))
    }
}
