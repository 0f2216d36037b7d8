//! The header list of a node's best chain, from what is known to its tip.
//!
//! Near the tip headers are walked back one by one; further away the end of what is known is found by halving, and headers are
//! read upwards in batches. The list that comes back links from end to end, whatever the node's chain did meanwhile.

use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use cairn_utxo_chain::Header;

use super::NodeSource;
use crate::node::REST_HEADERS_MAX;
use crate::rpc::BATCH_MAX;
use crate::source::{HeaderRun, SourceError, Tip};

/// Headers walked back one by one from the tip before the fork is looked for by height.
const WALK_MAX: u32 = 100;
/// Time between two log lines of a long read.
const LOG_EVERY: Duration = Duration::from_secs(5);

impl NodeSource {
    /// One try of [`ChainSource::headers`]; `None` if the node's chain moved meanwhile.
    pub(super) fn try_headers(
        &self,
        known: &dyn Fn(&BlockHash) -> Option<u32>,
        until: Option<u32>,
    ) -> Result<Option<HeaderRun>, SourceError> {
        let info = self.info()?;
        let height = until.map_or(info.blocks, |until| until.min(info.blocks));
        let hash = if height == info.blocks {
            info.best_block_hash
        } else {
            match self.wait_for(self.node.block_hash(height)) {
                Err(SourceError::Missing(_)) => return Ok(None),
                result => result?,
            }
        };
        let tip = Tip { hash, height };
        let run = |start_height, headers| HeaderRun {
            start_height,
            headers,
            tip: Some(tip),
        };

        // Near the tip: back, header by header, to one that is known.
        let mut back: Vec<Header> = Vec::new();
        let mut at = hash;
        while back.len() < WALK_MAX as usize {
            if known(&at).is_some() {
                back.reverse();
                return Ok(Some(run(height + 1 - back.len() as u32, back)));
            }
            if back.len() as u32 == height + 1 {
                back.reverse();
                return self.complete_run(run(0, back)).map(Some);
            }
            let header = match self.wait_for(self.node.header(&at)) {
                Err(SourceError::Missing(_)) => return Ok(None),
                result => result?,
            };
            at = header.prev_blockhash;
            back.push(header);
        }

        // Far away: on the best chain, what is known is a lower part of it, so its end is found by halving.
        let mut low = 0;
        let mut high = (height + 1).saturating_sub(WALK_MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            let hash = match self.wait_for(self.node.block_hash(middle)) {
                Err(SourceError::Missing(_)) => return Ok(None),
                result => result?,
            };
            if known(&hash).is_some() {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let mut headers = Vec::with_capacity((height + 1 - low) as usize);
        let mut previous = None;
        let mut logged = Instant::now();
        while headers.len() < (height + 1 - low) as usize {
            let next = low + headers.len() as u32;
            let Some(part) = self.header_range(next, height + 1)? else {
                return Ok(None);
            };
            for header in &part {
                if previous.is_some_and(|previous| header.prev_blockhash != previous) {
                    return Ok(None);
                }
                previous = Some(header.hash);
            }
            headers.extend(part);
            if logged.elapsed() >= LOG_EVERY {
                logged = Instant::now();
                tracing::info!(
                    headers = headers.len(),
                    of = height + 1 - low,
                    "reading headers"
                );
            }
        }
        // The chain may have turned below the part that was read first, or at its end.
        let first_fits = match (low, headers.first()) {
            (0, _) => true,
            (_, Some(first)) => known(&first.prev_blockhash).is_some(),
            (_, None) => false,
        };
        if previous != Some(hash) || !first_fits {
            return Ok(None);
        }
        let run = run(low, headers);
        if low == 0 {
            self.complete_run(run).map(Some)
        } else {
            Ok(Some(run))
        }
    }

    fn complete_run(&self, run: HeaderRun) -> Result<HeaderRun, SourceError> {
        let first = run.headers.first();
        if first.is_some_and(|header| {
            header.prev_blockhash == BlockHash::all_zeros()
                && header.hash == self.network.genesis_hash()
        }) {
            Ok(run)
        } else {
            Err(SourceError::Refused(format!(
                "the chain of node {} does not begin with the genesis block of {}",
                self.node.label(),
                self.network.name()
            )))
        }
    }

    /// Some headers of the best chain from a height on, at least one and none at or above `end`; `None` if the chain is no
    /// longer that high.
    fn header_range(&self, start: u32, end: u32) -> Result<Option<Vec<Header>>, SourceError> {
        let answer = self.wait_for(async {
            if self.has_rest() {
                let first = self.node.block_hash(start).await?;
                let headers = self
                    .node
                    .rest_headers(&first, REST_HEADERS_MAX.min(end - start))
                    .await?;
                if let Some(headers) = headers
                    .filter(|headers| headers.first().is_some_and(|header| header.hash == first))
                {
                    return Ok(headers);
                }
            }
            let end = end.min(start.saturating_add(BATCH_MAX as u32));
            let hashes = self.node.block_hashes(start..end).await?;
            self.node.block_headers(&hashes).await
        });
        match answer {
            Ok(headers) if headers.is_empty() => Ok(None),
            Ok(headers) => Ok(Some(headers)),
            Err(SourceError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
