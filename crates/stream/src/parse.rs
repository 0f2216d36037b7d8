//! What Cairn reads of an entry again: which event it is and which block it belongs to.

use std::borrow::Cow;

use serde::Deserialize;

use crate::position::{BlockId, Position};

/// The beginning of every event, and the fields of a fork. Everything else is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventHead<'a> {
    /// `action`, `delta`, `native-delta`, `fork`, or a kind of another ledger.
    pub kind: Cow<'a, str>,
    /// The event's id.
    pub event_id: Cow<'a, str>,
    /// The block it belongs to; `None` for a fork and for ledgers without blocks.
    pub block: Option<Position>,
    /// Of a fork: the last block that stays valid, and the first of the new branch.
    pub fork: Option<(u32, BlockId)>,
    /// Of a fork: the head that was left. Streams of other writers do not say.
    pub old_head: Option<Position>,
    /// The block's number, of a fork that of the first replaced block.
    pub block_num: Option<u32>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    event_id: Cow<'a, str>,
    block_num: Option<u32>,
    #[serde(borrow)]
    block_id: Option<Cow<'a, str>>,
    forked_from_block: Option<u32>,
    #[serde(borrow)]
    new_head_block_id: Option<Cow<'a, str>>,
    old_head_block_num: Option<u32>,
    #[serde(borrow)]
    old_head_block_id: Option<Cow<'a, str>>,
}

impl<'a> EventHead<'a> {
    /// Reads an entry's `data`. The error says what is missing.
    pub fn parse(data: &'a [u8]) -> Result<Self, String> {
        // A list would be taken for the fields in their order.
        if !data.trim_ascii_start().starts_with(b"{") {
            return Err("not a JSON object".to_owned());
        }
        let wire: Wire<'a> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        let id = |text: &str| text.parse::<BlockId>().map_err(|error| error.to_string());
        let mut head = Self {
            kind: wire.kind,
            event_id: wire.event_id,
            block: None,
            fork: None,
            old_head: None,
            block_num: wire.block_num,
        };
        if head.kind == "fork" {
            let (Some(from), Some(new_head)) = (wire.forked_from_block, wire.new_head_block_id)
            else {
                return Err("a fork without forked_from_block and new_head_block_id".to_owned());
            };
            head.fork = Some((from, id(&new_head)?));
            if let (Some(num), Some(old_head)) = (wire.old_head_block_num, wire.old_head_block_id) {
                head.old_head = Some(Position {
                    num,
                    id: id(&old_head)?,
                });
            }
            // Streams of other writers leave the number out.
            head.block_num = head.block_num.or(from.checked_add(1));
        } else if let (Some(num), Some(block_id)) = (wire.block_num, wire.block_id) {
            head.block = Some(Position {
                num,
                id: id(&block_id)?,
            });
        }
        Ok(head)
    }
}
