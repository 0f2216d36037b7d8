//! A ledger's card on the home page: state, gauges with small charts, and what is newest.

use askama::Template;
use cairn_telemetry::{PartStatus, State};

use crate::error::PageError;
use crate::ledger::Card;
use crate::present::{Bars, Sparkline};

/// A drawing beside a gauge.
#[derive(Debug)]
pub(crate) enum Chart {
    /// None; its room stays free.
    None,
    /// A line over the last minutes.
    Line(Sparkline),
    /// Bars.
    Bars(Bars),
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Gauge {
    name: &'static str,
    value: String,
    note: String,
    href: Option<String>,
    chart: Chart,
}

impl Gauge {
    /// A figure with what stands below it.
    pub(crate) fn new(
        name: &'static str,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            name,
            value: value.into(),
            note: note.into(),
            href: None,
            chart: Chart::None,
        }
    }

    /// The figure leads to a page.
    pub(crate) fn link(mut self, href: impl Into<String>) -> Self {
        self.href = Some(href.into());
        self
    }

    /// The figure with a line of its last minutes.
    pub(crate) fn line(mut self, label: impl Into<String>, values: Vec<f64>) -> Self {
        self.chart = Chart::Line(Sparkline::new(label, values));
        self
    }

    /// The figure with bars.
    pub(crate) fn bars(mut self, label: impl Into<String>, bars: Vec<(f64, String)>) -> Self {
        self.chart = Chart::Bars(Bars::new(label, bars));
        self
    }
}

/// The card.
#[derive(Debug, Template)]
#[template(path = "card.html")]
pub(crate) struct CardView {
    /// Id of the ledger.
    pub(crate) id: String,
    /// Where its name leads.
    pub(crate) href: String,
    /// What kind of ledger.
    pub(crate) what: String,
    /// Its state in a word or two.
    pub(crate) state: String,
    /// How the state is coloured: `good`, `warn`, `bad`.
    pub(crate) tone: &'static str,
    /// Why it is not well, or what is wrong although it is.
    pub(crate) reason: Option<String>,
    /// Where raw data are: path and name.
    pub(crate) raw: Option<(String, &'static str)>,
    /// How far it is, as markup of a template.
    pub(crate) progress: Option<String>,
    /// Its figures.
    pub(crate) gauges: Vec<Gauge>,
    /// What is newest, as markup of a template.
    pub(crate) body: String,
}

impl CardView {
    /// The card as the home page takes it.
    pub(crate) fn finish(self, busy: bool) -> Result<Card, PageError> {
        Ok(Card {
            html: self.render()?,
            busy,
        })
    }
}

/// How a part's state looks: word and colour.
pub(crate) fn state_of(status: Option<&PartStatus>) -> (&'static str, &'static str) {
    match status.map(|status| status.state) {
        None | Some(State::Starting) => ("starting", "warn"),
        Some(State::Indexing) => ("catching up", "warn"),
        Some(State::Synced) => ("up to date", "good"),
        Some(State::Stalled) => ("stalled", "bad"),
        Some(State::Failed) => ("stopped", "bad"),
    }
}
