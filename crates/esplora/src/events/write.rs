//! The JSON of events.

use bitcoin::Txid;
use cairn_utxo_index::{BlockRef, ScriptHash, View};

use super::hub::Told;
use crate::json::JsonBuf;
use crate::render;

/// Ids in one list of an event; if there are more, the event says so.
const LIST_MAX: usize = 1_000;

/// An event on its way to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its kind.
    pub(super) name: &'static str,
    /// JSON, one line.
    pub(super) data: Vec<u8>,
    /// What the client has seen when it has seen this; `None` within a change of several events.
    pub(super) id: Option<String>,
}

impl Event {
    fn new(name: &'static str, out: JsonBuf) -> Self {
        Self {
            name,
            data: out.into_bytes(),
            id: None,
        }
    }
}

fn block_object(out: &mut JsonBuf, block: &BlockRef) {
    out.raw("{\"height\":").number(block.height);
    out.raw(",\"hash\":").hash(block.hash);
    out.raw(",\"time\":").number(block.time).raw("}");
}

/// Where everything stands; `name` is `state` at the beginning and `resync` after a gap.
pub(super) fn state(name: &'static str, view: &View) -> Event {
    let mempool = view.mempool();
    let mut out = JsonBuf::with_capacity(256);
    out.raw("{\"tip\":");
    block_object(&mut out, &view.tip());
    out.raw(",\"mempool\":{\"count\":")
        .number(mempool.len() as u64);
    out.raw(",\"vsize\":").number(mempool.vsize());
    out.raw(",\"loaded\":")
        .boolean(mempool.is_loaded())
        .raw("}}");
    Event::new(name, out)
}

/// A block came.
pub(super) fn block(block: &BlockRef) -> Event {
    let mut out = JsonBuf::with_capacity(128);
    block_object(&mut out, block);
    Event::new("block", out)
}

/// Blocks left, from the old tip down; the new ones follow as events of their own.
pub(super) fn reorg(left: &[BlockRef]) -> Option<Event> {
    let (old_tip, lowest) = (left.first()?, left.last()?);
    let mut out = JsonBuf::with_capacity(256);
    out.raw("{\"fork_height\":")
        .number(lowest.height.saturating_sub(1));
    out.raw(",\"depth\":").number(left.len() as u64);
    out.raw(",\"old_tip\":");
    block_object(&mut out, old_tip);
    out.raw(",\"disconnected\":")
        .array(left.iter().take(LIST_MAX), block_object);
    out.raw("}");
    Some(Event::new("reorg", out))
}

/// Transactions that came and went; `None` if there are none.
pub(super) fn mempool(told: &Told) -> Option<Event> {
    let lists = [
        ("added", &told.added),
        ("confirmed", &told.confirmed),
        ("removed", &told.removed),
    ];
    if lists.iter().all(|(_, list)| list.is_empty()) {
        return None;
    }
    let mut out = JsonBuf::with_capacity(512);
    out.raw("{\"count\":").number(told.count as u64);
    out.raw(",\"vsize\":").number(told.vsize);
    for (name, list) in lists {
        out.raw(",\"").raw(name).raw("\":");
        out.array(list.iter().take(LIST_MAX), |out, txid| {
            out.hash(*txid);
        });
    }
    let is_cut = lists.iter().any(|(_, list)| list.len() > LIST_MAX);
    out.raw(",\"truncated\":").boolean(is_cut).raw("}");
    Some(Event::new("mempool", out))
}

/// The history of a watched script may be different.
pub(super) fn script(script: &ScriptHash, address: Option<&str>) -> Event {
    let mut out = JsonBuf::with_capacity(192);
    out.raw("{\"scripthash\":\"").hex(&script.0).raw("\"");
    if let Some(address) = address {
        // An address that was understood has nothing that JSON escapes.
        out.raw(",\"address\":\"").raw(address).raw("\"");
    }
    out.raw("}");
    Event::new("script", out)
}

/// Where a watched transaction is; `known` is false if it is nowhere.
pub(super) fn tx(txid: &Txid, known: bool, block: Option<&BlockRef>) -> Event {
    let mut out = JsonBuf::with_capacity(256);
    out.raw("{\"txid\":").hash(*txid);
    out.raw(",\"known\":").boolean(known);
    out.raw(",\"status\":");
    render::status(&mut out, block);
    out.raw("}");
    Event::new("tx", out)
}
