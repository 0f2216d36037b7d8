//! The seam between the site and its ledgers.
//!
//! The home page, the search across ledgers and the frame of every page know a ledger only through [`Ledger`]. A new
//! kind of ledger is a folder below `pages/` that implements it, plus one line where [`crate::router`] makes the list;
//! nothing else changes.

use std::sync::Arc;

use axum::Router;

use crate::error::PageError;

/// One ledger's part of the site.
///
/// `card` and `search` read the index and block the thread: the site calls them on the blocking pool.
pub(crate) trait Ledger: Send + Sync + 'static {
    /// The chain id: name in the navigation and first segment of all the ledger's paths.
    fn id(&self) -> &str;

    /// The ledger's card on the home page. `now` is Unix seconds.
    fn card(&self, now: u64) -> Result<Card, PageError>;

    /// What a search text names in this ledger.
    fn search(&self, query: &str) -> Result<Findings, PageError>;

    /// The ledger's own pages, with their whole paths (`/{id}/...`).
    fn pages(self: Arc<Self>) -> Router;
}

/// A card of the home page.
#[derive(Debug)]
pub(crate) struct Card {
    /// Markup from the ledger's own template: already escaped.
    pub(crate) html: String,
    /// Whether the card shows something in progress, so that the page should look again soon.
    pub(crate) busy: bool,
}

/// What one search text named.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Pages that the text leads to, best first.
    pub(crate) hits: Vec<Hit>,
    /// What the text was taken for without success, one line each: shown when nothing was found.
    pub(crate) tried: Vec<String>,
}

impl Findings {
    /// One page, found without doubt.
    pub(crate) fn exact(href: String, label: impl ToString, what: &'static str) -> Self {
        let hit = Hit {
            href,
            label: label.to_string(),
            what,
            exact: true,
        };
        Findings {
            hits: vec![hit],
            tried: Vec::new(),
        }
    }
}

/// One search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Path of the page.
    pub(crate) href: String,
    /// The thing's own name: a hash, an address.
    pub(crate) label: String,
    /// What it is: `transaction`.
    pub(crate) what: &'static str,
    /// Whether the text names this and nothing else; a prefix match does not.
    pub(crate) exact: bool,
}
