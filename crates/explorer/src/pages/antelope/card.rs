//! An Antelope chain's card on the home page.

use askama::Template;
use serde_json::Value;

use super::AntelopeLedger;
use super::event::{EventLine, StreamEvent};
use crate::error::PageError;
use crate::ledger::Card;
use crate::pages::card::{CardView, Gauge, state_of};
use crate::present::{age_ms, count, duration};

/// Newest events on the card.
const CARD_EVENTS: usize = 6;

/// The newest events.
#[derive(Template)]
#[template(path = "antelope/card_body.html")]
struct CardBody {
    id: String,
    lines: Vec<EventLine>,
    /// The card is replaced as a whole.
    tail: Option<String>,
    events_href: String,
}

/// Makes the card.
pub(super) async fn make(ledger: &AntelopeLedger, now: u64) -> Result<Card, PageError> {
    let id = ledger.chain.as_str();
    let health = ledger.pulse.health();
    let status = health.status(id);
    let (_, details) = health.part_ready_json(id);
    let (state, tone) = state_of(status.as_ref());
    let progress = status.as_ref().map(|status| &status.progress);
    let mut gauges = Vec::new();
    let height = progress.and_then(|progress| progress.height);
    let irreversible = details["irreversible_height"].as_u64();
    gauges.push({
        let note = irreversible.map_or_else(
            || "published".to_owned(),
            |height| format!("irreversible to {}", count(height)),
        );
        let value = height.map_or_else(|| "none yet".to_owned(), |height| count(height.into()));
        let gauge = Gauge::new("Block", value, note);
        match height {
            Some(height) => gauge.link(ledger.paths.block(height)),
            None => gauge,
        }
    });
    gauges.push(lag(
        height,
        progress.and_then(|progress| progress.node_height),
        &details,
    ));
    let events = ledger.pulse.line(id, "events");
    gauges.push(
        Gauge::new(
            "Events",
            events
                .last()
                .map_or_else(|| "0 /s".to_owned(), |rate| format!("{rate:.1} /s")),
            format!("{} in all", count(details["events"].as_u64().unwrap_or(0))),
        )
        .link(ledger.paths.events())
        .line("Events a second, last ten minutes", events),
    );
    let stream = ledger.events.state().await?;
    let oldest = stream.as_ref().and_then(|state| state.first).map_or_else(
        || "empty".to_owned(),
        |first| {
            let at = i64::try_from(first.ms).unwrap_or(i64::MAX);
            format!("oldest {}", age_ms(now, at))
        },
    );
    gauges.push(
        Gauge::new(
            "Stream",
            count(stream.as_ref().map_or(0, |state| state.length)),
            oldest,
        )
        .link(ledger.paths.events())
        .line(
            "Length of the stream, last ten minutes",
            ledger.pulse.line(id, "length"),
        ),
    );
    gauges.push(subscriptions(ledger, &details));
    let newest = ledger.events.before(None, CARD_EVENTS).await?;
    let body = CardBody {
        id: id.to_owned(),
        lines: newest
            .into_iter()
            .map(|stored| EventLine::new(&ledger.paths, &StreamEvent::new(stored)))
            .collect(),
        tail: None,
        events_href: ledger.paths.events(),
    };
    CardView {
        id: id.to_owned(),
        href: ledger.paths.events(),
        what: "Antelope".to_owned(),
        state: state.to_owned(),
        tone,
        reason: status.and_then(|status| status.reason),
        raw: None,
        progress: None,
        gauges,
        body: body.render()?,
    }
    .finish(tone == "warn")
}

/// How far behind the node.
fn lag(height: Option<u32>, node: Option<u32>, details: &Value) -> Gauge {
    let behind = height
        .zip(node)
        .map(|(own, node)| u64::from(node.saturating_sub(own)));
    let value = match behind {
        None => "not known".to_owned(),
        Some(1) => "1 block".to_owned(),
        Some(blocks) => format!("{} blocks", count(blocks)),
    };
    let note = match details["lag_seconds"].as_f64() {
        Some(seconds) if seconds >= 0.0 => format!("{} behind the clock", duration(seconds as u64)),
        _ => "behind the node".to_owned(),
    };
    Gauge::new("Lag", value, note)
}

/// Who reads the stream, and how far the slowest is.
fn subscriptions(ledger: &AntelopeLedger, details: &Value) -> Gauge {
    let groups = details["subscriptions"].as_array();
    let slowest = groups
        .into_iter()
        .flatten()
        .filter_map(|group| group["lag"].as_u64())
        .max();
    let note = match slowest {
        None => "nobody reads".to_owned(),
        Some(0) => "all up to date".to_owned(),
        Some(lag) => format!("slowest {} behind", count(lag)),
    };
    Gauge::new(
        "Subscriptions",
        count(groups.map_or(0, Vec::len) as u64),
        note,
    )
    .link(ledger.paths.subscriptions())
}
