//! `/{chain}/row?code=&scope=&table=&key=`: the changes of one row, newest first, each against the one before.

use askama::Template;
use cairn_http::QueryParams;
use cairn_stream::EntryId;

use super::Pages;
use super::event::{EventBody, RowKey, StreamEvent};
use super::list::look;
use super::one::change_before;
use crate::error::PageError;
use crate::present::{Difference, Moment, count, differences};
use crate::site::Shell;

/// Changes on one page.
const CHANGES_PER_PAGE: usize = 20;
/// Longest part of a row's name.
const NAME_CHARS_MAX: usize = 64;

/// What a change made of a row.
pub(super) struct Change {
    /// Whether the change before it was found.
    pub(super) has_before: bool,
    /// Whether the row was removed.
    pub(super) is_removed: bool,
    /// What differs.
    pub(super) differences: Vec<Difference>,
}

impl Change {
    /// Compares with the change before, which is looked for in the stream.
    pub(super) async fn of(
        pages: &Pages,
        event: &StreamEvent,
        body: &EventBody,
        row: &RowKey,
    ) -> Result<Self, PageError> {
        let before = change_before(pages, event, row).await?;
        let before = before.and_then(|event| event.body.ok());
        Ok(Self::between(before.as_ref(), body))
    }

    fn between(before: Option<&EventBody>, after: &EventBody) -> Self {
        let is_removed = after.present == Some(false);
        // A row that was removed before is made anew.
        let old = before.filter(|before| before.present != Some(false));
        let old = old.map_or("{}", EventBody::content);
        let new = if is_removed { "{}" } else { after.content() };
        // What the event of a removal carries is what was removed: with nothing before, that is what goes.
        let old = match before {
            None if is_removed => after.content(),
            _ => old,
        };
        Self {
            has_before: before.is_some(),
            is_removed,
            differences: differences(old, new),
        }
    }
}

/// The page.
#[derive(Template)]
#[template(path = "antelope/row.html")]
pub(super) struct RowPage {
    shell: Shell,
    events_href: String,
    account_href: String,
    row: RowKey,
    changes: Vec<RowChange>,
    older: Option<String>,
    looked_at: String,
}

/// One change of the row.
struct RowChange {
    href: String,
    block: Option<(String, String)>,
    time: Option<Moment>,
    change: Change,
}

impl RowPage {
    /// Reads the changes before a place.
    pub(super) async fn read(
        pages: &Pages,
        query: &QueryParams,
        before: Option<EntryId>,
    ) -> Result<Self, PageError> {
        let part = |name: &str| {
            let text = query.get(name).unwrap_or_default();
            if text.is_empty() || text.chars().count() > NAME_CHARS_MAX {
                return Err(PageError::BadRequest(format!(
                    "A row is named by code, scope, table and key; {name} is missing or too long."
                )));
            }
            Ok(text.to_owned())
        };
        let row = RowKey {
            code: part("code")?,
            scope: part("scope")?,
            table: part("table")?,
            key: part("key")?,
        };
        let found = look(pages, before, CHANGES_PER_PAGE + 1, |event| {
            event.body.as_ref().is_ok_and(|body| body.is_same_row(&row))
        })
        .await?;
        let paths = pages.paths();
        let mut changes = Vec::new();
        let mut last_shown = None;
        let bodies: Vec<(EntryId, &EventBody)> = found
            .events
            .iter()
            .filter_map(|event| Some((event.id, event.body.as_ref().ok()?)))
            .collect();
        for (index, (id, body)) in bodies.iter().enumerate().take(CHANGES_PER_PAGE) {
            let older = bodies.get(index + 1).map(|(_, body)| *body);
            last_shown = Some(*id);
            changes.push(RowChange {
                href: paths.event(&body.event_id),
                block: body
                    .block_num
                    .map(|num| (count(num.into()), paths.block(num))),
                time: body.time_ms().map(Moment),
                change: Change::between(older, body),
            });
        }
        let next = if bodies.len() > CHANGES_PER_PAGE {
            last_shown
        } else {
            found.next
        };
        Ok(RowPage {
            shell: pages.frame(&format!("{} {}", row.code, row.table), "events"),
            events_href: paths.events(),
            account_href: paths.account(&row.code),
            older: next.map(|next| format!("{}&before={next}", paths.row(&row))),
            looked_at: count(found.looked_at as u64),
            row,
            changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: &str, present: bool) -> EventBody {
        let json = format!(
            r#"{{"kind":"delta","event_id":"e","code":"c","scope":"s","table":"t","primary_key":"1","value":{value},"present":{present}}}"#
        );
        serde_json::from_str(&json).expect("an event")
    }

    fn told(before: Option<&EventBody>, after: &EventBody) -> Vec<String> {
        Change::between(before, after)
            .differences
            .iter()
            .map(|d| format!("{}: {:?} {:?}", d.path, d.before, d.after))
            .collect()
    }

    #[test]
    fn changes_are_told_leaf_by_leaf() {
        let one = body(r#"{"balance":"1.0000 SYS"}"#, true);
        let two = body(r#"{"balance":"2.0000 SYS"}"#, true);
        let gone = body(r#"{"balance":"2.0000 SYS"}"#, false);
        assert_eq!(
            told(Some(&one), &two),
            ["balance: Some(\"1.0000 SYS\") Some(\"2.0000 SYS\")"]
        );
        assert_eq!(told(None, &one), ["balance: None Some(\"1.0000 SYS\")"]);
        assert_eq!(
            told(Some(&two), &gone),
            ["balance: Some(\"2.0000 SYS\") None"]
        );
        assert_eq!(told(None, &gone), ["balance: Some(\"2.0000 SYS\") None"]);
        assert_eq!(
            told(Some(&gone), &one),
            ["balance: None Some(\"1.0000 SYS\")"]
        );
    }
}
