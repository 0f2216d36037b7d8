//! `/{chain}/block/{number}[?tx=]`: the events of a block that the stream holds.

use askama::Template;
use cairn_stream::EntryId;

use super::Pages;
use super::event::{EventLine, StreamEvent};
use crate::error::PageError;
use crate::present::{Copy, Hash, Moment, count};
use crate::site::Shell;

/// Events on one page.
const EVENTS_PER_PAGE: usize = 200;
/// Events of a block that are looked at for those of one transaction.
const EVENTS_OF_TX_MAX: usize = 5_000;

/// The page.
#[derive(Template)]
#[template(path = "antelope/block.html")]
pub(super) struct BlockPage {
    shell: Shell,
    events_href: String,
    number: String,
    block_href: String,
    /// The block's id, when its events agree on one.
    id: Option<(Hash, Copy)>,
    /// Whether the stream holds blocks of several branches.
    is_forked: bool,
    time: Option<Moment>,
    transaction: Option<(Hash, Copy)>,
    previous: Option<(String, String)>,
    next: (String, String),
    lines: Vec<EventLine>,
    /// A block does not grow.
    tail: Option<String>,
    more: Option<String>,
}

impl BlockPage {
    /// Reads a page of a block, or the events of one of its transactions.
    pub(super) async fn read(
        pages: &Pages,
        number: &str,
        transaction: Option<&str>,
        after: Option<EntryId>,
    ) -> Result<Self, PageError> {
        let digits: String = number.chars().filter(|c| *c != ',').collect();
        let num: u32 = digits.parse().map_err(|_| {
            PageError::BadRequest(format!(
                "\u{201c}{}\u{201d} is not the number of a block.",
                number.chars().take(80).collect::<String>()
            ))
        })?;
        let limit = if transaction.is_some() {
            EVENTS_OF_TX_MAX
        } else {
            EVENTS_PER_PAGE
        };
        let (stored, more) = pages.ledger.events.of_block(num, after, limit).await?;
        let events: Vec<StreamEvent> = stored
            .into_iter()
            .map(StreamEvent::new)
            .filter(|event| is_of(event, transaction))
            .collect();
        if events.is_empty() && after.is_none() {
            return Err(PageError::not_found(match transaction {
                Some(_) => format!("The stream holds no such transaction of block {num}."),
                None => format!(
                    "The stream holds no events of block {}: it has none, it is not published yet, or it was removed with what is old.",
                    count(num.into())
                ),
            }));
        }
        Ok(Self::new(pages, num, transaction, &events, more))
    }

    fn new(
        pages: &Pages,
        num: u32,
        transaction: Option<&str>,
        events: &[StreamEvent],
        more: bool,
    ) -> Self {
        let paths = pages.paths();
        let bodies = || events.iter().filter_map(|event| event.body.as_ref().ok());
        let mut ids: Vec<&String> = bodies().filter_map(|body| body.block_id.as_ref()).collect();
        let last = ids.last().map(|id| (Hash::new(id), Copy::new(id)));
        ids.sort_unstable();
        ids.dedup();
        let link = |num: u32| (paths.block(num), count(num.into()));
        let place = events.last().map(|event| event.id);
        BlockPage {
            shell: pages.frame(&format!("Block {}", count(num.into())), "events"),
            events_href: paths.events(),
            number: count(num.into()),
            block_href: paths.block(num),
            is_forked: ids.len() > 1,
            id: last,
            time: bodies().find_map(|body| body.time_ms()).map(Moment),
            transaction: transaction.map(|id| (Hash::new(id), Copy::new(id))),
            previous: num.checked_sub(1).map(link),
            next: link(num.saturating_add(1)),
            lines: events
                .iter()
                .map(|event| EventLine::new(paths, event))
                .collect(),
            tail: None,
            more: place
                .filter(|_| more && transaction.is_none())
                .map(|place| format!("{}?after={place}", paths.block(num))),
        }
    }
}

fn is_of(event: &StreamEvent, transaction: Option<&str>) -> bool {
    let Some(transaction) = transaction else {
        return true;
    };
    event
        .body
        .as_ref()
        .is_ok_and(|body| body.transaction_id.as_deref() == Some(transaction))
}
