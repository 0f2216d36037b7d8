//! The events of one block, as the JSON texts that enter the stream.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::event::{
    Action, BlockTime, Delta, Event, Fork, Json, NativeDelta, PermissionLevel, Receipt, Record,
};
use crate::ids;
use crate::label::ChainLabel;
use crate::position::{BlockId, Position};

/// All events of one block in their order, ready to be published. One buffer holds all their texts.
#[derive(Debug, Clone)]
pub struct BlockEvents {
    position: Position,
    previous: Option<BlockId>,
    lib: Option<Position>,
    time: BlockTime,
    fork: Option<Fork>,
    chain: ChainLabel,
    /// `"chain_id":…,"block_num":…,"block_time":…,"block_id":…`, the same in all events.
    common: String,
    b16: String,
    is_irreversible: bool,
    texts: Vec<u8>,
    /// Where each text ends.
    ends: Vec<usize>,
    kinds: BTreeMap<&'static str, u64>,
    /// The id being made.
    id: String,
}

impl BlockEvents {
    /// A block without events. `previous` is the block before it, which must be the one published last.
    pub fn new(
        chain: &ChainLabel,
        position: Position,
        previous: Option<BlockId>,
        time: BlockTime,
    ) -> Self {
        let common = format!(
            "\"chain_id\":\"{chain}\",\"block_num\":{},\"block_time\":\"{time}\",\"block_id\":\"{}\"",
            position.num, position.id
        );
        Self {
            position,
            previous,
            lib: None,
            time,
            fork: None,
            chain: chain.clone(),
            common,
            b16: position.id.short(),
            is_irreversible: false,
            texts: Vec::new(),
            ends: Vec::new(),
            kinds: BTreeMap::new(),
            id: String::new(),
        }
    }

    /// The last irreversible block as it was when this block was read. Positions below it are forgotten.
    pub fn set_lib(&mut self, lib: Position) {
        self.lib = Some(lib);
    }

    /// Marks all events that follow as irreversible.
    pub fn set_irreversible(&mut self) {
        self.is_irreversible = true;
    }

    /// The chain left a branch before this block. Must come before all other events of the block.
    ///
    /// # Panics
    ///
    /// When the block already has an event: the order is part of the contract.
    pub fn fork(&mut self, old_head: Position) {
        assert!(
            self.ends.is_empty(),
            "a fork is the first event of its block"
        );
        let fork = Fork {
            forked_from_block: self.position.num.saturating_sub(1),
            new_head_block_id: self.position.id,
            old_head,
        };
        self.fork = Some(fork);
        let id = ids::fork_id(&self.chain, fork.forked_from_block, &fork.new_head_block_id);
        // A fork event has no block: readers tell it by its numbers.
        let text = format!(
            "{{\"kind\":\"fork\",\"event_id\":\"{id}\",\"chain_id\":\"{}\",\"forked_from_block\":{},\
             \"new_head_block_id\":\"{}\",\"block_num\":{},\"old_head_block_num\":{},\"old_head_block_id\":\"{}\",\
             \"undone_blocks\":{}}}",
            self.chain,
            fork.forked_from_block,
            fork.new_head_block_id,
            self.position.num,
            old_head.num,
            old_head.id,
            old_head.num.saturating_sub(fork.forked_from_block),
        );
        self.texts.extend_from_slice(text.as_bytes());
        self.finish("fork");
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event<'_>) {
        match event {
            Event::Action(action) => self.action(action),
            Event::Delta(delta) => self.delta(delta),
            Event::NativeDelta(delta) => self.native_delta(delta),
            Event::Record(record) => self.record(record),
        }
    }

    fn action(&mut self, action: &Action<'_>) {
        self.begin("action", 'a');
        let _ = write!(self.id, "{}", action.global_sequence);
        self.put_id_and_common();
        let out = &mut self.texts;
        text(out, "account", action.account);
        text(out, "name", action.name);
        key(out, "authorization");
        list(
            out,
            action.authorization,
            |out, level: &PermissionLevel<'_>| {
                out.extend_from_slice(b"{\"actor\":");
                string(out, level.actor);
                text(out, "permission", level.permission);
                out.push(b'}');
            },
        );
        json(out, "data", action.data);
        number(out, "action_ordinal", action.action_ordinal.into());
        decimal(out, "global_sequence", action.global_sequence);
        match &action.receipt {
            None => json(out, "receipt", Json::made("null")),
            Some(found) => receipt(out, found),
        }
        text(out, "receiver", action.receiver);
        text(out, "transaction_id", action.transaction_id);
        text(out, "transaction_status", action.transaction_status);
        number(
            out,
            "creator_action_ordinal",
            action.creator_action_ordinal.into(),
        );
        boolean(out, "context_free", action.context_free);
        if let Some(value) = action.return_value {
            json(out, "return_value", value);
        }
        optional(out, "console", action.console);
        optional(out, "hex", action.hex);
        optional(out, "decode_error", action.decode_error);
        if let Some(bytes) = action.trailing_bytes {
            number(out, "trailing_bytes", bytes.into());
        }
        self.close("action");
    }

    fn delta(&mut self, delta: &Delta<'_>) {
        self.begin("delta", 'd');
        let _ = write!(
            self.id,
            "{}:{}:{}:{}",
            delta.code, delta.scope, delta.table, delta.primary_key
        );
        self.put_id_and_common();
        let out = &mut self.texts;
        text(out, "code", delta.code);
        text(out, "scope", delta.scope);
        text(out, "table", delta.table);
        decimal(out, "primary_key", delta.primary_key);
        json(out, "value", delta.value);
        boolean(out, "present", delta.present);
        optional(out, "payer", delta.payer);
        optional(out, "hex", delta.hex);
        optional(out, "decode_error", delta.decode_error);
        if let Some(bytes) = delta.trailing_bytes {
            number(out, "trailing_bytes", bytes.into());
        }
        self.close("delta");
    }

    fn native_delta(&mut self, delta: &NativeDelta<'_>) {
        self.begin("native-delta", 'n');
        let _ = write!(self.id, "{}:{}", delta.table, delta.lookup_key);
        self.put_id_and_common();
        let out = &mut self.texts;
        text(out, "table", delta.table);
        text(out, "lookup_key", delta.lookup_key);
        json(out, "data", delta.data);
        boolean(out, "present", delta.present);
        optional(out, "hex", delta.hex);
        optional(out, "decode_error", delta.decode_error);
        self.close("native-delta");
    }

    fn record(&mut self, record: &Record<'_>) {
        self.begin(record.kind, record.letter);
        self.id.push_str(record.key);
        self.put_id_and_common();
        json(&mut self.texts, "data", record.data);
        self.close(record.kind);
    }

    fn begin(&mut self, kind: &'static str, letter: char) {
        self.texts.extend_from_slice(b"{\"kind\":");
        string(&mut self.texts, kind);
        self.id.clear();
        let _ = write!(
            self.id,
            "{}:{letter}:{}:{}:",
            self.chain, self.position.num, self.b16
        );
    }

    fn put_id_and_common(&mut self) {
        text(&mut self.texts, "event_id", &self.id);
        self.texts.push(b',');
        self.texts.extend_from_slice(self.common.as_bytes());
    }

    fn close(&mut self, kind: &'static str) {
        if self.is_irreversible {
            boolean(&mut self.texts, "irreversible", true);
        }
        self.texts.push(b'}');
        self.finish(kind);
    }

    fn finish(&mut self, kind: &'static str) {
        self.ends.push(self.texts.len());
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// The block.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The block before it.
    pub fn previous(&self) -> Option<BlockId> {
        self.previous
    }

    /// The last irreversible block, if it was told.
    pub fn lib(&self) -> Option<Position> {
        self.lib
    }

    /// Its time.
    pub fn time(&self) -> BlockTime {
        self.time
    }

    /// The fork before it, if there was one.
    pub fn forked(&self) -> Option<&Fork> {
        self.fork.as_ref()
    }

    /// How many events it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// The JSON text of each event, in their order.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = &self.texts[start..end];
            start = end;
            text
        })
    }

    /// How many events of each kind it has.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.kinds.iter().map(|(kind, count)| (*kind, *count))
    }
}

fn receipt(out: &mut Vec<u8>, receipt: &Receipt<'_>) {
    key(out, "receipt");
    out.extend_from_slice(b"{\"receiver\":");
    string(out, receipt.receiver);
    text(out, "actDigest", receipt.act_digest);
    decimal(out, "globalSequence", receipt.global_sequence);
    decimal(out, "recvSequence", receipt.recv_sequence);
    number(out, "codeSequence", receipt.code_sequence.into());
    number(out, "abiSequence", receipt.abi_sequence.into());
    out.push(b'}');
}

fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(crate) fn string(out: &mut Vec<u8>, value: &str) {
    // Names and hexadecimal digits, which nearly all strings here are, need no escape.
    if value
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(out, value).expect("a string into memory cannot fail");
    }
}

pub(crate) fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    string(out, value);
}

fn optional(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, name, value);
    }
}

fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    serde_json::to_writer(out, &value).expect("a number into memory cannot fail");
}

/// A number of 64 bits, as the string that every JSON reader keeps exact.
fn decimal(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    out.push(b'"');
    serde_json::to_writer(&mut *out, &value).expect("a number into memory cannot fail");
    out.push(b'"');
}

fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    key(out, name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(crate) fn json(out: &mut Vec<u8>, name: &str, value: Json<'_>) {
    key(out, name);
    out.extend_from_slice(value.as_str().as_bytes());
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
