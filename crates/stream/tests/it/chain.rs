//! A chain that is made up: every block follows from its number and branch, and so do its events.

use cairn_stream::{
    Action, BlockEvents, BlockId, BlockTime, ChainLabel, Event, Json, PermissionLevel, Position,
};

/// A block of a branch. Branch 0 is the first chain; each higher one leaves the one below at some number.
pub(crate) fn position(num: u32, branch: u8) -> Position {
    let mut id = [branch; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    Position {
        num,
        id: BlockId(id),
    }
}

/// A block with `count` events on top of `previous`.
pub(crate) fn block(
    chain: &ChainLabel,
    this: Position,
    previous: Option<Position>,
    count: u64,
) -> BlockEvents {
    let time =
        BlockTime::from_unix_ms(1_777_939_200_000 + i64::from(this.num) * 500).expect("a time");
    let mut block = BlockEvents::new(chain, this, previous.map(|previous| previous.id), time);
    push(&mut block, this, count);
    block
}

/// The first block of a new branch, with the fork event.
pub(crate) fn fork_block(
    chain: &ChainLabel,
    this: Position,
    previous: Option<Position>,
    old_head: Position,
    count: u64,
) -> BlockEvents {
    let mut block = self::block(chain, this, previous, 0);
    block.fork(old_head);
    push(&mut block, this, count);
    block
}

fn push(block: &mut BlockEvents, this: Position, count: u64) {
    for at in 0..count {
        let action = Action {
            account: "eosio.token",
            name: "transfer",
            authorization: &[PermissionLevel {
                actor: "alice",
                permission: "active",
            }],
            data: Json::made("{\"memo\":\"x\"}"),
            action_ordinal: 1,
            global_sequence: u64::from(this.num) * 1_000 + at,
            receipt: None,
            receiver: "eosio.token",
            transaction_id: "00",
            transaction_status: "executed",
            creator_action_ordinal: 0,
            context_free: false,
            hex: None,
            decode_error: None,
            trailing_bytes: None,
            return_value: None,
            console: None,
        };
        block.push(&Event::Action(action));
    }
}

/// How many events a block of the plain chain has: some have none.
pub(crate) fn count_of(num: u32) -> u64 {
    u64::from(num % 4)
}

/// Blocks `from..=to` of the plain chain.
pub(crate) fn plain(chain: &ChainLabel, from: u32, to: u32) -> Vec<BlockEvents> {
    (from..=to)
        .map(|num| {
            let previous = num.checked_sub(1).filter(|num| *num > 0);
            block(
                chain,
                position(num, 0),
                previous.map(|num| position(num, 0)),
                count_of(num),
            )
        })
        .collect()
}

/// The event ids of these blocks, by the published formula.
pub(crate) fn ids(chain: &ChainLabel, num: u32, branch: u8, count: u64) -> Vec<String> {
    let this = position(num, branch);
    (0..count)
        .map(|at| {
            let b16 = &this.id.to_string()[..16];
            format!("{chain}:a:{num}:{b16}:{}", u64::from(num) * 1_000 + at)
        })
        .collect()
}

/// The event ids of blocks `from..=to` of the plain chain.
pub(crate) fn plain_ids(chain: &ChainLabel, from: u32, to: u32) -> Vec<String> {
    (from..=to)
        .flat_map(|num| ids(chain, num, 0, count_of(num)))
        .collect()
}
