//! `/{chain}/blocks[/{start}]`: the best chain, newest first.

use askama::Template;
use cairn_utxo_index::{BlockSummary, View};

use super::chain::Chain;
use super::{Answer, Scene};
use crate::error::PageError;
use crate::present::{Hash, Stamp, age, bytes, count, percent};
use crate::site::Shell;

/// Blocks on one page.
pub(super) const BLOCKS_PER_PAGE: u32 = 25;

/// The page.
#[derive(Template)]
#[template(path = "utxo/blocks.html")]
pub(super) struct BlocksPage {
    shell: Shell,
    chain: Chain,
    tip: u32,
    first: u32,
    last: u32,
    rows: Vec<BlockRow>,
    newest: Option<String>,
    newer: Option<String>,
    older: Option<String>,
}

/// One line of a list of blocks.
pub(super) struct BlockRow {
    pub(super) href: String,
    pub(super) height: String,
    pub(super) hash: Hash,
    pub(super) time: Stamp,
    pub(super) age: String,
    pub(super) txs: String,
    pub(super) size: String,
    /// Weight in percent of the largest allowed, with one decimal.
    pub(super) fill: String,
    /// The same, whole percent, as width of a bar.
    pub(super) fill_width: u64,
}

impl BlockRow {
    /// Puts a stored block into words.
    pub(super) fn new(chain: &Chain, block: &BlockSummary, now: u64) -> Self {
        let weight = u64::from(block.weight);
        let full = bitcoin::Weight::MAX_BLOCK.to_wu();
        BlockRow {
            href: chain.block_href(&block.hash),
            height: count(block.height.into()),
            hash: Hash::new(block.hash),
            time: Stamp(block.header.time),
            age: age(now, block.header.time),
            txs: count(block.tx_count.into()),
            size: bytes(block.size.into()),
            fill: percent(weight, full),
            fill_width: weight.min(full) * 100 / full,
        }
    }
}

/// Up to `limit` rows from a height downward.
pub(super) fn rows(
    chain: &Chain,
    view: &View,
    start: u32,
    limit: u32,
    now: u64,
) -> Result<Vec<BlockRow>, PageError> {
    let end = start.saturating_sub(limit.saturating_sub(1));
    (end..=start)
        .rev()
        .map(|height| {
            let missing =
                || PageError::Internal(format!("block {height} of the best chain is not stored"));
            let hash = view.block_at(height).ok_or_else(missing)?.hash;
            let block = view.block(&hash)?.ok_or_else(missing)?;
            Ok(BlockRow::new(chain, &block, now))
        })
        .collect()
}

impl BlocksPage {
    /// Reads the page that starts at `start`, or at the tip.
    pub(super) fn read(scene: &Scene<'_>, start: Option<&str>) -> Result<Answer<Self>, PageError> {
        let chain = scene.chain();
        let tip = scene.view.tip().height;
        let start = match start {
            None => tip,
            Some(text) => text.parse::<u32>().map_err(|_| {
                PageError::BadRequest(format!("\u{201c}{text}\u{201d} is not a block height."))
            })?,
        };
        if start > tip {
            return Err(PageError::not_found(format!(
                "There is no block {} yet: the newest one is {}.",
                count(start.into()),
                count(tip.into())
            )));
        }
        let frame = scene.frame("Blocks");
        let rows = rows(chain, scene.view, start, BLOCKS_PER_PAGE, scene.now)?;
        let newer = start.saturating_add(BLOCKS_PER_PAGE);
        Ok(Answer::Page(BlocksPage {
            tip,
            first: start,
            last: start.saturating_sub(BLOCKS_PER_PAGE - 1),
            rows,
            newest: (start < tip).then(|| chain.blocks_href()),
            newer: (start < tip).then(|| {
                if newer >= tip {
                    chain.blocks_href()
                } else {
                    chain.blocks_from_href(newer)
                }
            }),
            older: start
                .checked_sub(BLOCKS_PER_PAGE)
                .map(|height| chain.blocks_from_href(height)),
            shell: frame.shell.at("blocks").live(),
            chain: frame.chain,
        }))
    }
}
