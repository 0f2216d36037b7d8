//! Histories in the order of the protocol, and the hash over them that tells a client whether anything changed.
//!
//! The hash runs over all confirmed transactions of a script and then the unconfirmed ones. The state of SHA-256 after
//! the confirmed ones up to a settled height is kept for scripts with many, so that a new block costs what it adds.
//!
//! The functions here block their thread for as long as they are told to: [`Pace`].

use std::sync::Arc;
use std::time::Instant;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use cairn_utxo_index::{MempoolEntry, QueryError, ScriptHash, View};
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::rpc::Json;

/// A status: the hash of a history, or none for an empty one.
pub(crate) type Status = Option<[u8; 32]>;

/// Blocks below the tip from which on the state is kept: few reorganisations reach deeper.
const SETTLED_DEPTH: u32 = 6;
/// Scripts with at least so many confirmed transactions have their state kept.
const KEPT_ENTRIES_MIN: u64 = 64;
/// States kept.
const KEPT_STATES: usize = 16_384;
/// Rows of one slice of a long history; between two slices the clock is looked at.
const SLICE_ROWS: usize = 20_000;

/// Histories begin here: the coins of the genesis block never existed for the node.
pub(crate) const FIRST_HEIGHT: u32 = 1;

/// How far one call may go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// About so many rows; beyond them the answer is [`Reached::More`].
    Rows(usize),
    /// Until this moment; beyond it the answer is [`QueryError::Deadline`].
    Until(Instant),
}

/// Whether a call got to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reached<T, P> {
    /// The answer.
    End(T),
    /// There is more to read than the pace allows; goes on from here.
    More(P),
}

/// Why there is no history.
#[derive(Debug)]
pub(crate) enum HistoryError {
    /// It has more entries than allowed.
    TooLarge,
    /// The index could not be read.
    Query(QueryError),
}

impl From<QueryError> for HistoryError {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

/// The unconfirmed part of a history: height 0 or -1, and the transaction.
pub(crate) type Unconfirmed = Vec<(i32, Arc<MempoolEntry>)>;

/// Unconfirmed transactions of a script: those whose inputs are all confirmed first, each group by txid as printed.
pub(crate) fn unconfirmed(view: &View, script: &ScriptHash) -> Unconfirmed {
    let mempool = view.mempool();
    let mut entries: Unconfirmed = mempool
        .of_script(script)
        .into_iter()
        .map(|entry| (-i32::from(mempool.has_unconfirmed_parents(&entry)), entry))
        .collect();
    entries.sort_unstable_by(|(a_height, a), (b_height, b)| {
        b_height
            .cmp(a_height)
            .then_with(|| printed(&a.txid).cmp(&printed(&b.txid)))
    });
    entries
}

/// A hash in the order in which it is printed.
fn printed(txid: &Txid) -> [u8; 32] {
    let mut bytes = txid.to_byte_array();
    bytes.reverse();
    bytes
}

/// Confirmed transactions with their heights, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub(crate) txs: Vec<(Txid, u32)>,
    next: u32,
}

impl Confirmed {
    /// Begins at a height.
    pub(crate) fn from_height(height: u32) -> Self {
        Self {
            txs: Vec::new(),
            next: height.max(FIRST_HEIGHT),
        }
    }

    /// Reads on, up to a height. `most` entries are allowed; 0 = any number.
    pub(crate) fn read(
        mut self,
        view: &View,
        script: &ScriptHash,
        to: u32,
        most: usize,
        pace: Pace,
    ) -> Result<Reached<Self, Self>, HistoryError> {
        loop {
            let rows = match pace {
                Pace::Rows(rows) => rows,
                Pace::Until(_) => SLICE_ROWS,
            };
            let mut run = view.history_run(script, self.next, to, rows)?;
            self.txs.append(&mut run.txs);
            if most > 0 && self.txs.len() > most {
                return Err(HistoryError::TooLarge);
            }
            let Some(next) = run.next else {
                return Ok(Reached::End(self));
            };
            self.next = next;
            match pace {
                Pace::Rows(_) => return Ok(Reached::More(self)),
                Pace::Until(end) if Instant::now() > end => return Err(QueryError::Deadline.into()),
                Pace::Until(_) => {}
            }
        }
    }
}

/// The state of the hash after the confirmed transactions below a height.
#[derive(Clone)]
pub(crate) struct Midstate {
    hash: Sha256,
    entries: u64,
    next: u32,
}

impl Midstate {
    /// The state before any transaction.
    fn empty() -> Self {
        Self {
            hash: Sha256::new(),
            entries: 0,
            next: FIRST_HEIGHT,
        }
    }

    fn feed(&mut self, txs: &[(Txid, u32)]) {
        let mut text = Vec::with_capacity(txs.len().min(256) * 76);
        for chunk in txs.chunks(256) {
            text.clear();
            for (txid, height) in chunk {
                write_entry(&mut text, txid, i64::from(*height));
            }
            self.hash.update(&text);
        }
        self.entries += txs.len() as u64;
    }

    fn finish(mut self, unconfirmed: &Unconfirmed) -> Status {
        if self.entries == 0 && unconfirmed.is_empty() {
            return None;
        }
        let mut text = Vec::new();
        for (height, entry) in unconfirmed {
            write_entry(&mut text, &entry.txid, i64::from(*height));
        }
        self.hash.update(&text);
        Some(self.hash.finalize().into())
    }
}

/// `txid:height:`
fn write_entry(text: &mut Vec<u8>, txid: &Txid, height: i64) {
    let mut json = Json::with_capacity(80);
    json.hex_digits(txid.to_byte_array().iter().rev())
        .raw(":")
        .number(height)
        .raw(":");
    text.extend_from_slice(json.as_bytes());
}

/// A kept state: what comes after the block of this hash at this height.
#[derive(Clone)]
struct Kept {
    block: BlockHash,
    height: u32,
    midstate: Midstate,
}

/// Computes statuses and keeps what makes the next one cheap.
pub(crate) struct Statuses {
    kept: Cache<ScriptHash, Kept>,
}

impl Statuses {
    pub(crate) fn new() -> Self {
        Self {
            kept: Cache::new(KEPT_STATES),
        }
    }

    /// Where to begin for a view.
    pub(crate) fn begin(&self, view: &View, script: &ScriptHash) -> Midstate {
        match self.kept.get(script) {
            Some(kept)
                if view
                    .block_at(kept.height)
                    .is_some_and(|block| block.hash == kept.block) =>
            {
                kept.midstate
            }
            _ => Midstate::empty(),
        }
    }

    /// The status of a script in a view, going on from a state. `most` entries are allowed; 0 = any number.
    pub(crate) fn status(
        &self,
        view: &View,
        script: &ScriptHash,
        mut from: Midstate,
        most: usize,
        pace: Pace,
    ) -> Result<Reached<Status, Midstate>, HistoryError> {
        let tip = view.tip().height;
        let mut left = match pace {
            Pace::Rows(rows) => rows,
            Pace::Until(_) => SLICE_ROWS,
        };
        // The settled part first, so that its state can be kept.
        for (end, is_settled) in [(tip.saturating_sub(SETTLED_DEPTH), true), (tip, false)] {
            while from.next <= end {
                let run = view.history_run(script, from.next, end, left)?;
                from.feed(&run.txs);
                if most > 0 && from.entries > most as u64 {
                    self.keep(view, script, &from);
                    return Err(HistoryError::TooLarge);
                }
                from.next = run.next.unwrap_or(end + 1);
                match (run.next, pace) {
                    (None, Pace::Rows(_)) => left = left.saturating_sub(run.txs.len()).max(1),
                    (Some(_), Pace::Rows(_)) => return Ok(Reached::More(from)),
                    (Some(_), Pace::Until(deadline)) if Instant::now() > deadline => {
                        self.keep(view, script, &from);
                        return Err(QueryError::Deadline.into());
                    }
                    (_, Pace::Until(_)) => {}
                }
            }
            if is_settled {
                self.keep(view, script, &from);
            }
        }
        Ok(Reached::End(from.finish(&unconfirmed(view, script))))
    }

    /// Keeps a state that stands at the end of a block, if it took work to get there.
    fn keep(&self, view: &View, script: &ScriptHash, midstate: &Midstate) {
        if midstate.entries < KEPT_ENTRIES_MIN {
            return;
        }
        let Some(block) = midstate
            .next
            .checked_sub(1)
            .and_then(|height| view.block_at(height))
        else {
            return;
        };
        self.kept.insert(
            *script,
            Kept {
                block: block.hash,
                height: block.height,
                midstate: midstate.clone(),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hex::DisplayHex;

    fn txid(digits: &str) -> Txid {
        digits.repeat(32).parse().expect("64 digits")
    }

    fn status(entries: &[(i64, &str)]) -> String {
        let mut hash = Sha256::new();
        for (height, digits) in entries {
            let mut text = Vec::new();
            write_entry(&mut text, &txid(digits), *height);
            hash.update(&text);
        }
        hash.finalize().to_lower_hex_string()
    }

    #[test]
    fn published_vectors() {
        for (entries, expected) in [
            (
                &[(100, "0b")][..],
                "8225725a28e24e55bd2b3e44fd3204ff018978e31a4ad9ebbf3aee8b21edaab2",
            ),
            (
                &[(100, "c0"), (100, "aa"), (101, "0b")],
                "ac7fab52a7dbff51d7d26033f7fd0e872c491db188c451d4336850edbd25e225",
            ),
            (
                &[(100, "aa"), (0, "0b"), (0, "c0"), (-1, "0d")],
                "d9703a64ea747da905d1968e2b653b144ced9a610fce0f4d6e516b0372f7b574",
            ),
        ] {
            assert_eq!(status(entries), expected);
        }
    }

    #[test]
    fn a_midstate_goes_on_as_if_fed_at_once() {
        let txs: Vec<(Txid, u32)> = (0..600u32)
            .map(|n| (Txid::from_byte_array([n as u8; 32]), n))
            .collect();
        let mut whole = Midstate::empty();
        whole.feed(&txs);
        let mut parts = Midstate::empty();
        for part in txs.chunks(77) {
            parts = parts.clone();
            parts.feed(part);
        }
        assert_eq!(whole.finish(&Vec::new()), parts.finish(&Vec::new()));
        assert_eq!(Midstate::empty().finish(&Vec::new()), None);
    }
}
