//! `/{chain}/event/{event id}`: one event.

use askama::Template;

use super::Pages;
use super::event::{EventBody, RowKey, StreamEvent, tone};
use super::list::look;
use super::paths::Paths;
use super::row::Change;
use crate::error::PageError;
use crate::present::{Copy, Hash, Json, Moment, count};
use crate::site::Shell;

/// The page.
#[derive(Template)]
#[template(path = "antelope/event.html")]
pub(super) struct EventPage {
    shell: Shell,
    events_href: String,
    kind: String,
    tone: &'static str,
    title: String,
    event_id: Hash,
    copy: Copy,
    undecoded: Option<String>,
    hex: Option<String>,
    facts: Vec<Fact>,
    content_name: &'static str,
    content: Json,
    return_value: Option<Json>,
    console: Option<String>,
    change: Option<Change>,
    row_href: Option<String>,
    raw: Json,
    published: Moment,
}

/// One line of the facts.
struct Fact {
    name: &'static str,
    text: String,
    href: Option<String>,
    /// A long identifier, shortened where the screen is narrow.
    is_hash: bool,
}

impl Fact {
    fn text(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            text: text.into(),
            href: None,
            is_hash: false,
        }
    }

    fn link(name: &'static str, text: impl Into<String>, href: String) -> Self {
        Self {
            href: Some(href),
            ..Self::text(name, text)
        }
    }

    fn hash(&self) -> Hash {
        Hash::new(&self.text)
    }
}

impl EventPage {
    /// Reads an event.
    pub(super) async fn read(pages: &Pages, event_id: &str) -> Result<Self, PageError> {
        let stored = pages.ledger.events.by_id(event_id).await?.ok_or_else(|| {
            PageError::not_found(format!(
                "The stream holds no event \u{201c}{event_id}\u{201d}: it never did, or it was removed with what is old."
            ))
        })?;
        let event = StreamEvent::new(stored);
        let body = match &event.body {
            Ok(body) => body.clone(),
            Err(why) => return Err(PageError::not_found(why.clone())),
        };
        let change = match body.row() {
            Some(row) => Some(Change::of(pages, &event, &body, &row).await?),
            None => None,
        };
        Ok(Self::new(pages, &event, body, change))
    }

    fn new(pages: &Pages, event: &StreamEvent, body: EventBody, change: Option<Change>) -> Self {
        let paths = pages.paths();
        let title = body.title();
        let shell = pages.frame(&format!("{}: {title}", body.kind), "events");
        EventPage {
            shell,
            events_href: paths.events(),
            tone: tone(&body.kind),
            title,
            event_id: Hash::new(&body.event_id),
            copy: Copy::new(&body.event_id),
            undecoded: body.decode_error.clone(),
            hex: body.hex.clone(),
            facts: facts(paths, &body),
            content_name: match body.kind.as_str() {
                "action" => "Data",
                "delta" => "Value",
                _ => "What it says",
            },
            content: Json::new(body.content()),
            return_value: body.return_value.as_deref().map(Json::raw),
            console: body.console.clone().filter(|text| !text.is_empty()),
            row_href: body.row().map(|row| paths.row(&row)),
            change,
            raw: Json::new(&event.text),
            published: Moment(i64::try_from(event.id.ms).unwrap_or(i64::MAX)),
            kind: body.kind,
        }
    }
}

fn facts(paths: &Paths, body: &EventBody) -> Vec<Fact> {
    let mut facts = Vec::new();
    let account = |facts: &mut Vec<Fact>, name: &'static str, value: &Option<String>| {
        if let Some(value) = value {
            facts.push(Fact::link(name, value.clone(), paths.account(value)));
        }
    };
    let text = |facts: &mut Vec<Fact>, name: &'static str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push(Fact::text(name, value));
        }
    };
    account(&mut facts, "Contract", &body.account);
    text(&mut facts, "Action", body.name.clone());
    account(&mut facts, "Told to", &body.receiver);
    for level in body.authorization.iter().flatten() {
        facts.push(Fact::link(
            "Authorised by",
            format!("{}@{}", level.actor, level.permission),
            paths.account(&level.actor),
        ));
    }
    account(&mut facts, "Contract", &body.code);
    text(&mut facts, "Scope", body.scope.clone());
    text(&mut facts, "Table", body.table.clone());
    text(&mut facts, "Key", body.row_key().map(str::to_owned));
    account(&mut facts, "Paid by", &body.payer);
    if let Some(present) = body.present {
        let word = if present {
            "the row is set"
        } else {
            "the row is removed"
        };
        facts.push(Fact::text("Change", word));
    }
    if let (Some(transaction), Some(num)) = (&body.transaction_id, body.block_num) {
        facts.push(Fact {
            is_hash: true,
            ..Fact::link(
                "Transaction",
                transaction.clone(),
                paths.transaction(num, transaction),
            )
        });
    }
    text(&mut facts, "Status", body.transaction_status.clone());
    text(
        &mut facts,
        "Place in the transaction",
        body.action_ordinal
            .map(|ordinal| match body.creator_action_ordinal {
                Some(creator) if creator > 0 => format!("{ordinal}, made by {creator}"),
                _ => ordinal.to_string(),
            }),
    );
    text(&mut facts, "Global sequence", body.global_sequence.clone());
    if body.context_free == Some(true) {
        facts.push(Fact::text("Context-free", "yes"));
    }
    text(
        &mut facts,
        "Goes on from block",
        body.forked_from_block.map(|num| count(num.into())),
    );
    text(
        &mut facts,
        "Blocks undone",
        body.undone_blocks.map(|blocks| count(blocks.into())),
    );
    text(
        &mut facts,
        "Left behind",
        body.old_head_block_num.map(|num| count(num.into())),
    );
    for (name, id) in [
        ("New branch", &body.new_head_block_id),
        ("Block id", &body.block_id),
    ] {
        if let Some(id) = id {
            facts.push(Fact {
                is_hash: true,
                ..Fact::text(name, id.clone())
            });
        }
    }
    if let Some(num) = body.block_num {
        facts.push(Fact::link("Block", count(num.into()), paths.block(num)));
    }
    if let Some(ms) = body.time_ms() {
        let at = jiff::Timestamp::from_millisecond(ms);
        text(
            &mut facts,
            "Block time",
            at.ok()
                .map(|at| at.strftime("%Y-%m-%d %H:%M:%S.%3f UTC").to_string()),
        );
    }
    if body.irreversible == Some(true) {
        facts.push(Fact::text("Irreversible", "yes"));
    }
    facts
}

/// The change of a row before a place, if the part of the stream that is looked at holds one.
pub(super) async fn change_before(
    pages: &Pages,
    event: &StreamEvent,
    row: &RowKey,
) -> Result<Option<StreamEvent>, PageError> {
    let found = look(pages, Some(event.id), 1, |event| {
        event.body.as_ref().is_ok_and(|body| body.is_same_row(row))
    })
    .await?;
    Ok(found.events.into_iter().next())
}
