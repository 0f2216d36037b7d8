//! Every key of the contract. Nobody else spells one.
//!
//! | key | type | content |
//! | --- | --- | --- |
//! | `ce:parser2:{chainId}:events` | stream | entries with the one field `data`, an event as JSON |
//! | `ce:parser2:{chainId}:dead:{subId}` | stream | events that a subscription could not handle |
//! | `ce:parser2:{chainId}:reparse:{jobId}` | stream | events of a reparse job |
//! | `parser2:abi:{contract}` | sorted set | score: block number, member: base64 of the ABI's bytes |
//! | `parser2:abilog:{contract}` | sorted set | added: score: block number, member: `{block}:{global_sequence}:{abi_sequence}:{sha256}` |
//! | `parser2:abilog.open:{chainId}` | sorted set | added: ABI versions set in blocks that may still be undone |
//! | `parser2:sync:{chainId}` | hash | the checkpoint |
//! | `parser2:subs` | hash | field: subId, value: JSON |
//! | `parser2:sub:{subId}:failures` | hash | field: event id, value: count |
//! | `parser2:sub:{subId}:lock` | string | id of the active instance |
//! | `parser2:sub:{subId}:epoch` | string | added: counts the active instances, the fencing value |
//! | `parser2:sub:{subId}:replay` | stream | added: dead letters to be given to the subscription again |
//! | `parser2:reparse:{jobId}` | hash | a reparse job |
//! | `parser2:owner` | string | added: label of the one Antelope chain whose ABIs this database holds |

use crate::label::ChainLabel;

/// The one field of an entry of the event stream.
pub const DATA_FIELD: &str = "data";
/// Registry of subscriptions: a hash, field subId, value JSON.
pub const SUBSCRIPTIONS: &str = "parser2:subs";
/// Label of the Antelope chain to which the keys without a chain in their name belong.
pub const OWNER: &str = "parser2:owner";
/// What all keys of ABI histories begin with, for scanning.
pub const ABI_PREFIX: &str = "parser2:abi:";

/// The stream of a chain's events.
pub fn events(chain: &ChainLabel) -> String {
    format!("ce:parser2:{chain}:events")
}

/// The stream of events that a subscription could not handle.
pub fn dead_letters(chain: &ChainLabel, sub_id: &str) -> String {
    format!("ce:parser2:{chain}:dead:{sub_id}")
}

/// The stream of a reparse job's events.
pub fn reparse_events(chain: &ChainLabel, job_id: &str) -> String {
    format!("ce:parser2:{chain}:reparse:{job_id}")
}

/// The ABI versions of a contract: a sorted set, score block number, member base64 of the raw ABI.
pub fn abi(contract: &str) -> String {
    format!("{ABI_PREFIX}{contract}")
}

/// The exact order of a contract's ABI versions: a sorted set beside [`abi`], in which a version that comes back has an
/// entry of its own.
pub fn abi_log(contract: &str) -> String {
    format!("parser2:abilog:{contract}")
}

/// The ABI versions that were set in blocks which may still be undone: a sorted set, score block number.
pub fn abi_log_open(chain: &ChainLabel) -> String {
    format!("parser2:abilog.open:{chain}")
}

/// The checkpoint of a chain: a hash.
pub fn sync(chain: &ChainLabel) -> String {
    format!("parser2:sync:{chain}")
}

/// How often handling each event has failed in a subscription: a hash.
pub fn failures(sub_id: &str) -> String {
    format!("parser2:sub:{sub_id}:failures")
}

/// The lock of a subscription's active instance: a string.
pub fn lock(sub_id: &str) -> String {
    format!("parser2:sub:{sub_id}:lock")
}

/// The number of the newest active instance of a subscription: a string, counted up by each.
pub fn epoch(sub_id: &str) -> String {
    format!("parser2:sub:{sub_id}:epoch")
}

/// The dead letters that a subscription is to be given again: a stream, field `dead` the id of the dead letter.
pub fn replay(sub_id: &str) -> String {
    format!("parser2:sub:{sub_id}:replay")
}

/// A reparse job: a hash.
pub fn reparse_job(job_id: &str) -> String {
    format!("parser2:reparse:{job_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The catalogue of the key contract, letter for letter.
    #[test]
    fn keys_are_those_of_the_contract() {
        let chain = ChainLabel::new("eos-mainnet").expect("plain");
        for (key, expected) in [
            (events(&chain), "ce:parser2:eos-mainnet:events"),
            (dead_letters(&chain, "s"), "ce:parser2:eos-mainnet:dead:s"),
            (
                reparse_events(&chain, "j"),
                "ce:parser2:eos-mainnet:reparse:j",
            ),
            (abi("eosio.token"), "parser2:abi:eosio.token"),
            (sync(&chain), "parser2:sync:eos-mainnet"),
            (SUBSCRIPTIONS.to_owned(), "parser2:subs"),
            (failures("s"), "parser2:sub:s:failures"),
            (lock("s"), "parser2:sub:s:lock"),
            (reparse_job("j"), "parser2:reparse:j"),
        ] {
            assert_eq!(key, expected);
        }
    }
}
