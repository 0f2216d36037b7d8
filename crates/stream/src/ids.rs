//! Ids of events: the same chain data gives the same id on every run, so that a consumer can drop what it has seen.
//!
//! `b16` is the beginning of the block's id. Its first half is the block's number, so only 32 bits tell two blocks of one
//! number apart: where that matters, the full `block_id` of the event is compared.

use std::fmt::Write as _;

use crate::label::ChainLabel;
use crate::position::{BlockId, Position};

/// `{chain}:a:{block_num}:{b16}:{global_sequence}`.
pub fn action_id(chain: &ChainLabel, block: Position, global_sequence: u64) -> String {
    let mut id = in_block(chain, 'a', block);
    let _ = write!(id, "{global_sequence}");
    id
}

/// `{chain}:d:{block_num}:{b16}:{code}:{scope}:{table}:{primary_key}`.
pub fn delta_id(
    chain: &ChainLabel,
    block: Position,
    code: &str,
    scope: &str,
    table: &str,
    primary_key: u64,
) -> String {
    let mut id = in_block(chain, 'd', block);
    let _ = write!(id, "{code}:{scope}:{table}:{primary_key}");
    id
}

/// `{chain}:n:{block_num}:{b16}:{table}:{lookup_key}`.
pub fn native_delta_id(
    chain: &ChainLabel,
    block: Position,
    table: &str,
    lookup_key: &str,
) -> String {
    let mut id = in_block(chain, 'n', block);
    let _ = write!(id, "{table}:{lookup_key}");
    id
}

/// `{chain}:f:{forked_from_block}:{b16 of the new branch's first block}`.
pub fn fork_id(chain: &ChainLabel, forked_from_block: u32, new_head: &BlockId) -> String {
    format!("{chain}:f:{forked_from_block}:{}", new_head.short())
}

/// What all ids of one kind in one block begin with.
pub(crate) fn in_block(chain: &ChainLabel, letter: char, block: Position) -> String {
    format!("{chain}:{letter}:{}:{}:", block.num, block.id.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_the_contract() {
        let chain = ChainLabel::new("telos").expect("plain");
        let block = Position {
            num: 125,
            id: "0000007d4b8a31b1d90c2ff2c1c16ef9a9b1ee8e24e1b4fd8c0e3a40a1b2c3d4"
                .parse()
                .expect("64 digits"),
        };
        assert_eq!(
            action_id(&chain, block, u64::MAX),
            "telos:a:125:0000007d4b8a31b1:18446744073709551615"
        );
        assert_eq!(
            delta_id(&chain, block, "eosio.token", "", "accounts", 0),
            "telos:d:125:0000007d4b8a31b1:eosio.token::accounts:0"
        );
        assert_eq!(
            native_delta_id(&chain, block, "permission", "alice:active"),
            "telos:n:125:0000007d4b8a31b1:permission:alice:active"
        );
        assert_eq!(
            fork_id(&chain, 92, &block.id),
            "telos:f:92:0000007d4b8a31b1"
        );
    }
}
