//! What an event says. Fields are borrowed from whoever decoded them; [`crate::BlockEvents`] writes their JSON.

use crate::position::{BlockId, Position};

/// JSON text that was made by a program: one value, valid and complete. It is written into events as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// The empty object, which stands where something could not be decoded.
    pub const EMPTY: Self = Self("{}");

    /// Takes text that the caller has just written with a JSON writer. It is not looked at again, so it must be valid: wrong
    /// text makes the whole entry unreadable.
    pub fn made(text: &'a str) -> Self {
        Self(text)
    }

    /// Takes text from anywhere, if it is one JSON value.
    pub fn checked(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        Ok(Self(text.trim()))
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// The time of a block, in milliseconds, as its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockTime(jiff::Timestamp);

impl BlockTime {
    /// From milliseconds since 1970. `None` beyond the year 9999.
    pub fn from_unix_ms(ms: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(ms).ok().map(Self)
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        self.0.as_millisecond()
    }
}

impl std::fmt::Display for BlockTime {
    /// `2026-05-05T00:00:00.500`, in UTC.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S.%3f"))
    }
}

/// One event of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// An action of an Antelope chain was executed.
    Action(Action<'a>),
    /// A row of a contract's table changed.
    Delta(Delta<'a>),
    /// A row of the chain's own tables changed.
    NativeDelta(NativeDelta<'a>),
    /// An event of another kind of chain.
    Record(Record<'a>),
}

/// Who authorised an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionLevel<'a> {
    /// The account.
    pub actor: &'a str,
    /// Its permission.
    pub permission: &'a str,
}

/// The receipt of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt<'a> {
    /// The account whose code ran.
    pub receiver: &'a str,
    /// Digest of the action, 64 hexadecimal digits.
    pub act_digest: &'a str,
    /// Place in the order of all actions of the chain.
    pub global_sequence: u64,
    /// Place among the receiver's actions.
    pub recv_sequence: u64,
    /// How often the contract's code had been set.
    pub code_sequence: u32,
    /// How often the contract's ABI had been set.
    pub abi_sequence: u32,
}

/// An action of an Antelope chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action<'a> {
    /// The contract.
    pub account: &'a str,
    /// The action's name.
    pub name: &'a str,
    /// Who authorised it.
    pub authorization: &'a [PermissionLevel<'a>],
    /// Its data; [`Json::EMPTY`] when it could not be decoded.
    pub data: Json<'a>,
    /// Its place in the transaction, from 1.
    pub action_ordinal: u32,
    /// Its place in the order of all actions of the chain.
    pub global_sequence: u64,
    /// Its receipt.
    pub receipt: Option<Receipt<'a>>,
    /// The account whose code ran: not `account` in a notification.
    pub receiver: &'a str,
    /// Id of its transaction, 64 hexadecimal digits.
    pub transaction_id: &'a str,
    /// `executed`, `soft_fail`, `hard_fail`, `delayed` or `expired`.
    pub transaction_status: &'a str,
    /// The action that made this one; 0 for one of the transaction itself.
    pub creator_action_ordinal: u32,
    /// Whether it is context-free.
    pub context_free: bool,
    /// The raw data, hexadecimal, when `data` could not be decoded.
    pub hex: Option<&'a str>,
    /// Why it could not.
    pub decode_error: Option<&'a str>,
    /// Bytes that followed the decoded data.
    pub trailing_bytes: Option<u32>,
    /// What it returned.
    pub return_value: Option<Json<'a>>,
    /// What it printed.
    pub console: Option<&'a str>,
}

/// A changed row of a contract's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta<'a> {
    /// The contract.
    pub code: &'a str,
    /// The scope.
    pub scope: &'a str,
    /// The table.
    pub table: &'a str,
    /// The primary key.
    pub primary_key: u64,
    /// The row; [`Json::EMPTY`] when it could not be decoded.
    pub value: Json<'a>,
    /// Whether the row is there after the change.
    pub present: bool,
    /// Who pays for it.
    pub payer: Option<&'a str>,
    /// The raw row, hexadecimal, when `value` could not be decoded.
    pub hex: Option<&'a str>,
    /// Why it could not.
    pub decode_error: Option<&'a str>,
    /// Bytes that followed the decoded row.
    pub trailing_bytes: Option<u32>,
}

/// A changed row of the chain's own tables (accounts, permissions, limits …).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NativeDelta<'a> {
    /// The table.
    pub table: &'a str,
    /// The row's natural key as text.
    pub lookup_key: &'a str,
    /// The row.
    pub data: Json<'a>,
    /// Whether the row is there after the change.
    pub present: bool,
    /// The raw row, hexadecimal, when `data` could not be decoded.
    pub hex: Option<&'a str>,
    /// Why it could not.
    pub decode_error: Option<&'a str>,
}

/// An event of another kind of chain, in a block. Its id is `{chain}:{letter}:{block_num}:{b16}:{key}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    /// Its kind, as it stands in the event.
    pub kind: &'static str,
    /// What stands for the kind in the id; `a`, `d`, `n` and `f` are taken.
    pub letter: char,
    /// What tells it apart from the block's other events of this kind.
    pub key: &'a str,
    /// What it says.
    pub data: Json<'a>,
}

/// The chain went back and on another way. Published before the events of the new branch's first block, with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The last block that stays valid.
    pub forked_from_block: u32,
    /// The first block of the new branch.
    pub new_head_block_id: BlockId,
    /// The last block of the branch that was left.
    pub old_head: Position,
}
