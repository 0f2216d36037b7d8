//! The window hour by hour, the leaves in pages, and the rows of the event stream: what pages draw.

use crate::block::{Height, Leaf};
use crate::error::ScannerError;
use crate::live::FeedEntry;
use crate::merkle;
use crate::scanner::Scanner;
use crate::store::Batch;
use crate::time::{AtMs, Window};
use crate::tx::Tx;

use super::QueryError;
use super::head::{add_buckets, bucket_values};

/// The figures of one hour (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourFigures {
    /// When the hour begins.
    pub start: AtMs,
    /// Transactions in it.
    pub txs: u64,
    /// APU minted in it.
    pub minted: u64,
    /// APU burned in it.
    pub burned: u64,
}

/// Some leaves of the newest revision that came with leaves, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafPage {
    /// The revision.
    pub at: Height,
    /// The root over all its leaves.
    pub root: String,
    /// How many there are.
    pub total: usize,
    /// Stable keys and digests.
    pub leaves: Vec<Leaf>,
}

impl Scanner {
    /// The hours of the window, oldest first, from the materialised buckets: one round trip. After the caches were lost, hours are
    /// zero until they are made again.
    pub async fn hours(&self) -> Result<Vec<HourFigures>, QueryError> {
        let keys = self.keys();
        let window = Window::at(self.clock().now());
        let mut batch = Batch::new();
        let txs = add_buckets(self, &mut batch, window, |hour| keys.hour_txs(hour));
        let minted = add_buckets(self, &mut batch, window, |hour| keys.hour_mint(hour));
        let burned = add_buckets(self, &mut batch, window, |hour| keys.hour_burn(hour));
        let mut answers = self.store().send(batch).await?;
        let txs = bucket_values(&mut answers, txs)?;
        let minted = bucket_values(&mut answers, minted)?;
        let burned = bucket_values(&mut answers, burned)?;
        let at = |values: &[u64], index: usize| values.get(index).copied().unwrap_or(0);
        Ok(window
            .hours()
            .enumerate()
            .map(|(index, hour)| HourFigures {
                start: hour.start(),
                txs: at(&txs, index),
                minted: at(&minted, index),
                burned: at(&burned, index),
            })
            .collect())
    }

    /// Up to `count` leaves from the one at `start` on; `None` before any revision came with leaves.
    pub async fn leaves(&self, start: usize, count: usize) -> Result<Option<LeafPage>, QueryError> {
        let Some(kept) = self.kept_leaves().await? else {
            return Ok(None);
        };
        let digests: Vec<&str> = kept
            .leaves
            .iter()
            .map(|(_, digest)| digest.as_str())
            .collect();
        Ok(Some(LeafPage {
            at: kept.at,
            root: merkle::root(&digests),
            total: kept.leaves.len(),
            leaves: kept
                .leaves
                .iter()
                .skip(start)
                .take(count)
                .cloned()
                .collect(),
        }))
    }

    /// The transaction of an entry of the event stream; `None` for any other entry.
    pub fn tx_of_feed(&self, entry: &FeedEntry) -> Option<Tx> {
        if entry.kind != crate::feed::TX_EVENT {
            return None;
        }
        Tx::from_json(&entry.json, self.keys().host()).ok()
    }

    /// The newest place of the event stream.
    pub async fn newest_place(&self) -> Result<super::events::StreamId, ScannerError> {
        let newest: Vec<(String, Vec<String>)> = self
            .store()
            .one("XREVRANGE", self.stream_key().to_owned(), |command| {
                command.arg("+").arg("-").arg("COUNT").arg(1);
            })
            .await?;
        Ok(newest
            .first()
            .and_then(|(id, _)| super::events::StreamId::parse(id))
            .unwrap_or_default())
    }
}
