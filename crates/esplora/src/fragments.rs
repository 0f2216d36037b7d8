//! Rendered transactions, kept.
//!
//! Everything about a confirmed transaction but its status is fixed, and the status is one block reference. So the
//! bytes of the rest are kept, bounded in size, and a page is put together from them. The key names the block as well:
//! the same transaction can be mined in another block with another witness.

use std::sync::Arc;

use bitcoin::{BlockHash, Txid};
use cairn_utxo_index::{BlockRef, QueryError, View};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::render::{self, Style};

/// Bytes that an entry costs beside its text: key, pointers, the cache's own bookkeeping.
const ENTRY_OVERHEAD: u64 = 160;
/// Bytes of an entry, about: for sizing the table only.
const TYPICAL_ENTRY: u64 = 2_000;
/// Entries the table is sized for at least.
const MIN_ENTRIES: usize = 64;

type Key = (Txid, BlockHash);

/// The body of a transaction, as [`render::tx_body`] writes it.
pub(crate) type Fragment = Arc<[u8]>;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Fragment> for ByBytes {
    fn weight(&self, _key: &Key, fragment: &Fragment) -> u64 {
        fragment.len() as u64 + ENTRY_OVERHEAD
    }
}

/// A bounded store of fragments.
pub(crate) struct Fragments {
    kept: Cache<Key, Fragment, ByBytes>,
    style: Style,
}

impl Fragments {
    /// With so many bytes at most.
    pub(crate) fn new(bytes: u64, style: Style) -> Self {
        let entries = usize::try_from(bytes / TYPICAL_ENTRY)
            .unwrap_or(usize::MAX)
            .max(MIN_ENTRIES);
        Self {
            kept: Cache::with_weighter(entries, bytes, ByBytes),
            style,
        }
    }

    /// One confirmed transaction.
    pub(crate) fn one(
        &self,
        view: &View,
        txid: &Txid,
        block: &BlockRef,
    ) -> Result<Fragment, QueryError> {
        let mut found = self.many(view, &[(*txid, *block)])?;
        found.pop().ok_or_else(|| missing(txid))
    }

    /// Confirmed transactions, in the order asked: what is not kept is read in one go.
    pub(crate) fn many(
        &self,
        view: &View,
        wanted: &[(Txid, BlockRef)],
    ) -> Result<Vec<Fragment>, QueryError> {
        let mut found: Vec<Option<Fragment>> = wanted
            .iter()
            .map(|(txid, block)| self.kept.get(&(*txid, block.hash)))
            .collect();
        let absent: Vec<usize> = found
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.is_none())
            .map(|(at, _)| at)
            .collect();
        if !absent.is_empty() {
            let asked: Vec<(Txid, Option<BlockRef>)> = absent
                .iter()
                .map(|&at| (wanted[at].0, Some(wanted[at].1)))
                .collect();
            for (at, record) in absent.into_iter().zip(view.txs(&asked)?) {
                let fragment: Fragment = render::tx_body(&record, self.style).into();
                self.kept
                    .insert((wanted[at].0, wanted[at].1.hash), fragment.clone());
                found[at] = Some(fragment);
            }
        }
        let complete = found.into_iter().zip(wanted);
        complete
            .map(|(entry, (txid, _))| entry.ok_or_else(|| missing(txid)))
            .collect()
    }

    /// How to write.
    pub(crate) fn style(&self) -> Style {
        self.style
    }
}

/// A listed transaction that the index cannot show: a shorter list would be a wrong balance.
fn missing(txid: &Txid) -> QueryError {
    QueryError::Store(format!("transaction {txid} is listed but was not read"))
}
