//! What all pages share: the frame around the content.

use std::sync::Arc;

use crate::assets;

/// Longest search text that is looked at, characters. The longest meaningful one is an outpoint: 64 hex digits, a
/// colon and an index of up to 10 digits; addresses have at most 90.
pub(crate) const QUERY_CHARS_MAX: usize = 128;

/// What is the same on every page of one server.
#[derive(Debug)]
pub(crate) struct Site {
    /// Ids of the ledgers, in the order of the configuration.
    pub(crate) ledgers: Vec<String>,
    /// Path of the style sheet.
    pub(crate) stylesheet: String,
    /// Path of the icon.
    pub(crate) icon: String,
    /// The program's version.
    pub(crate) version: &'static str,
}

impl Site {
    /// A site over the given ledgers.
    pub(crate) fn new(ledgers: Vec<String>) -> Arc<Self> {
        Arc::new(Site {
            ledgers,
            stylesheet: assets::STYLESHEET.path(),
            icon: assets::ICON.path(),
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    /// The frame of a page that belongs to no ledger.
    pub(crate) fn shell(self: &Arc<Self>, title: impl Into<String>) -> Shell {
        Shell {
            site: Arc::clone(self),
            title: title.into(),
            ledger: None,
            query: String::new(),
            refresh_seconds: None,
            search_in_header: true,
        }
    }

    /// The frame of a page of one ledger.
    pub(crate) fn ledger_shell(self: &Arc<Self>, ledger: &str, title: &str) -> Shell {
        Shell {
            ledger: Some(ledger.to_owned()),
            ..self.shell(format!("{title} · {ledger}"))
        }
    }
}

/// The frame of one page.
#[derive(Debug)]
pub(crate) struct Shell {
    /// The site.
    pub(crate) site: Arc<Site>,
    /// Title of the page, without the program's name.
    pub(crate) title: String,
    /// The ledger that the page belongs to.
    pub(crate) ledger: Option<String>,
    /// Text in the search field.
    pub(crate) query: String,
    /// Seconds after which the browser loads the page again.
    pub(crate) refresh_seconds: Option<u32>,
    /// Whether the header has the search field; a page with one of its own has not.
    pub(crate) search_in_header: bool,
}

impl Shell {
    /// The same frame with a text in the search field, cut to its bound.
    pub(crate) fn with_query(mut self, query: &str) -> Self {
        self.query = query.chars().take(QUERY_CHARS_MAX).collect();
        self
    }

    /// Whether the page belongs to this ledger.
    pub(crate) fn is_current(&self, ledger: &str) -> bool {
        self.ledger.as_deref() == Some(ledger)
    }

    /// Whether the page belongs to any ledger.
    pub(crate) fn has_current(&self) -> bool {
        self.ledger.is_some()
    }

    /// Where the search field of the header leads: the page's own ledger, else all.
    pub(crate) fn search_action(&self) -> String {
        match &self.ledger {
            Some(id) => format!("/{id}/search"),
            None => "/search".to_owned(),
        }
    }

    /// Where "back" leads.
    pub(crate) fn home_href(&self) -> String {
        match &self.ledger {
            Some(id) => format!("/{id}/blocks"),
            None => "/".to_owned(),
        }
    }

    /// [`QUERY_CHARS_MAX`] for the templates.
    pub(crate) fn query_chars_max(&self) -> usize {
        QUERY_CHARS_MAX
    }
}
