//! What all pages share: the frame around the content, and the way through the site.

use std::sync::Arc;

use crate::assets;
use crate::ledger::Ledger;

/// Longest search text that is looked at, characters. The longest meaningful one is an event's id (a chain's label of up
/// to 64 characters and what follows it) or an outpoint (75).
pub(crate) const QUERY_CHARS_MAX: usize = 200;

/// One page of a ledger that the navigation names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// What the pages of this section call themselves, see [`Shell::at`].
    pub(crate) key: &'static str,
    /// What the reader sees.
    pub(crate) title: &'static str,
    /// Path of the page.
    pub(crate) href: String,
}

impl Section {
    /// A section.
    pub(crate) fn new(key: &'static str, title: &'static str, href: String) -> Self {
        Self { key, title, href }
    }
}

/// One ledger in the navigation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerLink {
    /// Id of the ledger.
    pub(crate) id: String,
    /// Where its name leads.
    pub(crate) href: String,
    /// Its pages.
    pub(crate) sections: Vec<Section>,
}

/// What is the same on every page of one server.
#[derive(Debug)]
pub(crate) struct Site {
    /// The ledgers, in the order of the configuration.
    pub(crate) ledgers: Vec<LedgerLink>,
    /// Path of the style sheet.
    pub(crate) stylesheet: String,
    /// Path of the icon.
    pub(crate) icon: String,
    /// Path of the script that chooses the colours before anything is drawn.
    pub(crate) theme_script: String,
    /// Path of the module that makes pages live.
    pub(crate) page_script: String,
    /// Where whoever wants to live a page hears of changes.
    pub(crate) live: &'static str,
    /// The program's version.
    pub(crate) version: &'static str,
}

impl Site {
    /// A site over the given ledgers.
    pub(crate) fn new(ledgers: Vec<LedgerLink>) -> Arc<Self> {
        Arc::new(Site {
            ledgers,
            stylesheet: assets::STYLESHEET.path(),
            icon: assets::ICON.path(),
            theme_script: assets::THEME.path(),
            page_script: assets::page_script(),
            live: crate::live::PATH,
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    /// A site over ledgers that are open.
    pub(crate) fn of(ledgers: &[Arc<dyn Ledger>]) -> Arc<Self> {
        Self::new(ledgers.iter().map(|ledger| ledger.link()).collect())
    }

    /// The frame of a page that belongs to no ledger.
    pub(crate) fn shell(self: &Arc<Self>, title: impl Into<String>) -> Shell {
        Shell {
            site: Arc::clone(self),
            title: title.into(),
            ledger: None,
            section: "",
            query: String::new(),
            refresh_seconds: None,
            search_in_header: true,
            watches: None,
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
    /// Which of the ledger's sections.
    pub(crate) section: &'static str,
    /// Text in the search field.
    pub(crate) query: String,
    /// Seconds after which a browser without scripts loads the page again.
    pub(crate) refresh_seconds: Option<u32>,
    /// Whether the header has the search field; a page with one of its own has not.
    pub(crate) search_in_header: bool,
    /// Which ledgers' changes make the page's regions out of date: ids with commas between, or `*` for all.
    pub(crate) watches: Option<String>,
}

impl Shell {
    /// The same frame with a text in the search field, cut to its bound.
    pub(crate) fn with_query(mut self, query: &str) -> Self {
        self.query = query.chars().take(QUERY_CHARS_MAX).collect();
        self
    }

    /// The same frame in a section of its ledger.
    pub(crate) fn at(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// The same frame, kept up to date while the reader looks.
    pub(crate) fn live(mut self) -> Self {
        self.watches = self.ledger.clone();
        self
    }

    /// The sections of the page's ledger.
    pub(crate) fn sections(&self) -> &[Section] {
        self.link().map_or(&[], |link| &link.sections)
    }

    fn link(&self) -> Option<&LedgerLink> {
        let id = self.ledger.as_deref()?;
        self.site.ledgers.iter().find(|link| link.id == id)
    }

    /// Whether the page belongs to this ledger.
    pub(crate) fn is_current(&self, ledger: &str) -> bool {
        self.ledger.as_deref() == Some(ledger)
    }

    /// Whether the page belongs to any ledger.
    pub(crate) fn has_current(&self) -> bool {
        self.ledger.is_some()
    }

    /// Where "back" leads.
    pub(crate) fn home_href(&self) -> String {
        self.link()
            .map_or_else(|| "/".to_owned(), |link| link.href.clone())
    }

    /// [`QUERY_CHARS_MAX`] for the templates.
    pub(crate) fn query_chars_max(&self) -> usize {
        QUERY_CHARS_MAX
    }
}
