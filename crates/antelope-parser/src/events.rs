//! Actions and rows as events: names, hex and JSON in reusable buffers.

use cairn_antelope_abi::{Abi, Name, Profile, TypeId, json};
use cairn_antelope_ship::{ActionTrace, ContractRow, Receipt};
use cairn_stream::{Action, BlockEvents, Delta, Event, Json, NativeDelta, PermissionLevel};

use crate::observer::Undecoded;

/// Texts of events of one block may have this many bytes. Beyond it values are published as raw bytes, so that a block made to
/// expand cannot fill the memory.
pub(crate) const BLOCK_EVENT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest reason that is written into an event, in bytes.
const REASON_BYTES_MAX: usize = 300;

/// A value decoded, or why not.
pub(crate) enum Value {
    Decoded { trailing: usize },
    Raw { why: Undecoded, text: String },
}

impl Value {
    pub(crate) fn raw(why: Undecoded, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > REASON_BYTES_MAX {
            let mut end = REASON_BYTES_MAX;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        Self::Raw { why, text }
    }
}

/// Buffers that live as long as the decoder.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) data: Vec<u8>,
    pub(crate) returned: Vec<u8>,
    hex: Vec<u8>,
    digest: Vec<u8>,
}

impl Buffers {
    /// Decodes into `data`.
    pub(crate) fn decode(
        &mut self,
        abi: &Abi,
        ty: TypeId,
        bytes: &[u8],
        profile: Profile,
    ) -> Value {
        self.data.clear();
        match abi.decode(ty, bytes, profile, &mut self.data) {
            Ok(decoded) => Value::Decoded {
                trailing: decoded.trailing,
            },
            Err(error) => Value::raw(Undecoded::DoesNotFit, error.to_string()),
        }
    }

    /// Decodes into `returned`; what an action returned is worth a try, not an error.
    pub(crate) fn decode_returned(
        &mut self,
        found: Option<(&Abi, TypeId)>,
        bytes: &[u8],
        profile: Profile,
    ) {
        self.returned.clear();
        if bytes.is_empty() {
            return;
        }
        let decoded = found
            .is_some_and(|(abi, ty)| abi.decode(ty, bytes, profile, &mut self.returned).is_ok());
        if !decoded {
            self.returned.push(b'"');
            json::hex(&mut self.returned, bytes);
            self.returned.push(b'"');
        }
    }
}

/// Everything written into the buffers is ASCII or was valid UTF-8 before.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn json_or_empty(bytes: &[u8], is_decoded: bool) -> Json<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_decoded && !text.is_empty() => Json::made(text),
        _ => Json::EMPTY,
    }
}

fn status_text(status: u8) -> &'static str {
    match status {
        0 => "executed",
        1 => "soft_fail",
        2 => "hard_fail",
        3 => "delayed",
        4 => "expired",
        _ => "unknown",
    }
}

/// The transaction of an action.
#[derive(Clone, Copy)]
pub(crate) struct TransactionOf<'a> {
    pub(crate) id_hex: &'a str,
    pub(crate) status: u8,
}

pub(crate) fn push_action(
    events: &mut BlockEvents,
    action: &ActionTrace<'_>,
    receipt: &Receipt<'_>,
    transaction: TransactionOf<'_>,
    value: &Value,
    buffers: &mut Buffers,
) {
    let names: Vec<_> = action
        .authorization
        .iter()
        .map(|level| (level.actor.text(), level.permission.text()))
        .collect();
    let authorization: Vec<_> = names
        .iter()
        .map(|(actor, permission)| PermissionLevel { actor, permission })
        .collect();
    buffers.digest.clear();
    json::hex(&mut buffers.digest, receipt.act_digest);
    let raw = raw_hex(&mut buffers.hex, value, action.data);
    let console = (!action.console.is_empty()).then(|| String::from_utf8_lossy(action.console));
    events.push(&Event::Action(Action {
        account: &action.account.text(),
        name: &action.name.text(),
        authorization: &authorization,
        data: json_or_empty(&buffers.data, raw.is_none()),
        action_ordinal: action.ordinal,
        global_sequence: receipt.global_sequence,
        receipt: Some(cairn_stream::Receipt {
            receiver: &receipt.receiver.text(),
            act_digest: text(&buffers.digest),
            global_sequence: receipt.global_sequence,
            recv_sequence: receipt.recv_sequence,
            code_sequence: receipt.code_sequence,
            abi_sequence: receipt.abi_sequence,
        }),
        receiver: &action.receiver.text(),
        transaction_id: transaction.id_hex,
        transaction_status: status_text(transaction.status),
        creator_action_ordinal: action.creator_ordinal,
        context_free: action.context_free,
        hex: raw.map(|(hex, _)| hex),
        decode_error: raw.map(|(_, why)| why),
        trailing_bytes: trailing(value),
        return_value: (!buffers.returned.is_empty()).then(|| Json::made(text(&buffers.returned))),
        console: console.as_deref(),
    }));
}

pub(crate) fn push_row(
    events: &mut BlockEvents,
    row: &ContractRow<'_>,
    is_present: bool,
    value: &Value,
    buffers: &mut Buffers,
) {
    let raw = raw_hex(&mut buffers.hex, value, row.value);
    events.push(&Event::Delta(Delta {
        code: &row.code.text(),
        scope: &row.scope.text(),
        table: &row.table.text(),
        primary_key: row.primary_key,
        value: json_or_empty(&buffers.data, raw.is_none()),
        present: is_present,
        payer: Some(&row.payer.text()),
        hex: raw.map(|(hex, _)| hex),
        decode_error: raw.map(|(_, why)| why),
        trailing_bytes: trailing(value),
    }));
}

pub(crate) fn push_native(
    events: &mut BlockEvents,
    table: &str,
    lookup_key: &str,
    is_present: bool,
    bytes: &[u8],
    value: &Value,
    buffers: &mut Buffers,
) {
    let raw = raw_hex(&mut buffers.hex, value, bytes);
    events.push(&Event::NativeDelta(NativeDelta {
        table,
        lookup_key,
        data: json_or_empty(&buffers.data, raw.is_none()),
        present: is_present,
        hex: raw.map(|(hex, _)| hex),
        decode_error: raw.map(|(_, why)| why),
    }));
}

fn raw_hex<'a>(hex: &'a mut Vec<u8>, value: &'a Value, bytes: &[u8]) -> Option<(&'a str, &'a str)> {
    let Value::Raw { text: why, .. } = value else {
        return None;
    };
    hex.clear();
    json::hex(hex, bytes);
    Some((text(hex), why))
}

fn trailing(value: &Value) -> Option<u32> {
    match value {
        Value::Decoded { trailing } if *trailing > 0 => {
            Some(u32::try_from(*trailing).unwrap_or(u32::MAX))
        }
        _ => None,
    }
}

/// Hex digits of an id.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(2 * bytes.len());
    json::hex(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}

/// The account of the chain itself.
pub(crate) fn system_account() -> Name {
    Name(0x5530_EA00_0000_0000)
}

/// The action that sets an ABI.
pub(crate) fn set_abi_action() -> Name {
    Name(0xC2B2_63B8_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_chain_itself_uses() {
        assert_eq!(system_account().to_string(), "eosio");
        assert_eq!(set_abi_action().to_string(), "setabi");
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let Value::Raw { text, .. } = Value::raw(Undecoded::DoesNotFit, "é".repeat(400)) else {
            panic!("raw")
        };
        assert_eq!(text.len(), REASON_BYTES_MAX);
    }
}
