//! The seam between the site and its ledgers.
//!
//! The home page, the search across ledgers, the navigation and the live signals know a ledger only through [`Ledger`].
//! A new kind of ledger is a folder below `pages/` that implements it, plus the lines where [`crate::Explorer::new`]
//! makes the list; nothing else changes.

use std::pin::Pin;

use crate::error::PageError;
use crate::pulse::Reading;
use crate::site::LedgerLink;

/// What the calls of [`Ledger`] return.
pub(crate) type LedgerFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, PageError>> + Send + 'a>>;

/// One ledger's part of the site, beside its own pages.
pub(crate) trait Ledger: Send + Sync + 'static {
    /// Its id: first segment of all its paths.
    fn id(&self) -> &str;

    /// Its place in the navigation.
    fn link(&self) -> LedgerLink;

    /// The ledger's card on the home page. `now` is Unix seconds.
    fn card(&self, now: u64) -> LedgerFuture<'_, Card>;

    /// What a search text names in this ledger. `quick`: for suggestions while the reader types, so nothing that costs
    /// more than a few point reads.
    fn search<'a>(&'a self, query: &'a str, quick: bool) -> LedgerFuture<'a, Findings>;

    /// What is measured every few seconds for the charts of the home page; also what tells whether pages of the ledger are
    /// out of date.
    fn read_pulse(&self) -> Pin<Box<dyn Future<Output = Reading> + Send + '_>>;
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
        Findings {
            hits: vec![Hit::exact(href, label, what)],
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

impl Hit {
    /// A page that the text names.
    pub(crate) fn exact(href: String, label: impl ToString, what: &'static str) -> Self {
        Hit {
            href,
            label: label.to_string(),
            what,
            exact: true,
        }
    }

    /// A page whose name begins like the text, or that may be meant.
    pub(crate) fn near(href: String, label: impl ToString, what: &'static str) -> Self {
        Hit {
            exact: false,
            ..Hit::exact(href, label, what)
        }
    }
}
