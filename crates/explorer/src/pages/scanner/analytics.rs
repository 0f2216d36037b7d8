//! `/scanner?view=analytics`: behaviour. How often each event was told, one broken down by a property, a funnel, the newest events.

use askama::Template;
use cairn_http::QueryParams;
use cairn_scanner::{EventRow, Scanner};

use super::{Pages, ROWS_PER_PAGE, paths};
use crate::error::PageError;
use crate::present::{Moment, compact, count, percent};
use crate::site::Shell;

/// Steps of a funnel at most.
const STEPS_MAX: usize = 8;
/// Values of a breakdown that are shown.
const VALUES_MAX: usize = 50;

/// One event in a list.
pub(super) struct EventLine {
    pub(super) event: String,
    pub(super) who: Option<(String, String)>,
    pub(super) time: Moment,
    pub(super) properties: String,
    pub(super) is_expired: bool,
}

impl EventLine {
    /// Puts an event into a line: what is public of it.
    pub(super) fn new(scanner: &Scanner, row: &EventRow) -> Self {
        let public = row
            .body
            .as_ref()
            .map(|body| body.to_public_json(&scanner.options().host, true));
        let read: serde_json::Value = public
            .as_deref()
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or(serde_json::Value::Null);
        let text = |name: &str| read[name].as_str().map(str::to_owned);
        let who = text("distinctId").or_else(|| row.distinct_id.clone());
        EventLine {
            event: text("event")
                .or_else(|| row.event.clone())
                .unwrap_or_else(|| row.message_id.clone()),
            who: who.map(|id| (paths::node(&id), id)),
            time: Moment(row.at.ms()),
            properties: match &read["properties"] {
                serde_json::Value::Object(fields) if fields.is_empty() => String::new(),
                serde_json::Value::Null => String::new(),
                properties => compact(&properties.to_string()),
            },
            is_expired: row.body.is_none(),
        }
    }
}

/// A count with the share of the greatest.
struct CountLine {
    name: String,
    href: Option<String>,
    count: String,
    share: String,
    width: u64,
}

/// Counts as lines with bars.
fn count_lines(counts: &[(String, u64)], href: impl Fn(&str) -> Option<String>) -> Vec<CountLine> {
    let top = counts.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
    counts
        .iter()
        .map(|(name, n)| CountLine {
            href: href(name),
            name: name.clone(),
            count: count(*n),
            share: percent(*n, top),
            width: u64::try_from(u128::from(*n) * 100 / u128::from(top)).unwrap_or(100),
        })
        .collect()
}

/// The page.
#[derive(Template)]
#[template(path = "scanner/analytics.html")]
pub(super) struct AnalyticsPage {
    shell: Shell,
    root: &'static str,
    in_window: String,
    window: String,
    state: &'static str,
    top: Vec<CountLine>,
    top_in_window: Vec<CountLine>,
    names: Vec<String>,
    event: String,
    property: String,
    breakdown: Option<Vec<CountLine>>,
    steps: String,
    ordered: bool,
    funnel: Option<Vec<CountLine>>,
    events: Vec<EventLine>,
    newest: Option<String>,
    older: Option<String>,
}

impl AnalyticsPage {
    /// Reads the page with what the query asks for.
    pub(super) async fn read(pages: &Pages, query: &QueryParams) -> Result<Self, PageError> {
        let scanner = pages.scanner();
        let text = |name: &str| query.get(name).unwrap_or_default().trim().to_owned();
        let overview = scanner.overview(Scanner::OVERVIEW_TOP).await?;
        let (event, property) = (text("event"), text("property"));
        let breakdown = if event.is_empty() || property.is_empty() {
            None
        } else {
            let mut counts = scanner.breakdown(&event, &property).await?;
            counts.truncate(VALUES_MAX);
            Some(count_lines(&counts, |_| None))
        };
        let steps = text("steps");
        let ordered = query.get("mode") != Some("totals");
        let funnel = funnel(scanner, &steps, ordered).await?;
        let cursor = query.get("cursor").filter(|cursor| !cursor.is_empty());
        let page = if event.is_empty() {
            scanner.event_stream(cursor, ROWS_PER_PAGE).await?
        } else {
            scanner.events_named(&event, cursor, ROWS_PER_PAGE).await?
        };
        let base = paths::with_query(
            &paths::view("analytics"),
            &[
                ("event", &event),
                ("property", &property),
                ("steps", &steps),
            ],
        );
        let link = |name: &str| {
            Some(paths::with_query(
                &paths::view("analytics"),
                &[("event", name)],
            ))
        };
        Ok(AnalyticsPage {
            shell: pages.frame("Analytics", "analytics").live(),
            root: paths::ROOT,
            in_window: count(overview.events),
            window: format!(
                "from {} to {}",
                overview.window.from(),
                overview.window.to()
            ),
            state: overview.migration.as_str(),
            names: overview.top.iter().map(|(name, _)| name.clone()).collect(),
            top: count_lines(&overview.top, link),
            top_in_window: count_lines(&overview.top_in_window, link),
            events: page
                .events
                .iter()
                .map(|row| EventLine::new(scanner, row))
                .collect(),
            newest: cursor.map(|_| base.clone()),
            older: page
                .next
                .map(|next| paths::with_query(&base, &[("cursor", &next)])),
            event,
            property,
            breakdown,
            steps,
            ordered,
            funnel,
        })
    }
}

async fn funnel(
    scanner: &Scanner,
    steps: &str,
    ordered: bool,
) -> Result<Option<Vec<CountLine>>, PageError> {
    let steps: Vec<String> = steps
        .split(',')
        .map(|step| step.trim().to_owned())
        .filter(|step| !step.is_empty())
        .take(STEPS_MAX)
        .collect();
    if steps.is_empty() {
        return Ok(None);
    }
    let counts = if ordered {
        scanner.funnel_ordered(&steps, None, None).await?
    } else {
        scanner.funnel_totals(&steps, None, None).await?
    };
    Ok(Some(count_lines(&counts, |_| None)))
}
