//! `/{chain}/block/{hash-or-height}`: one block and its transactions.

use std::str::FromStr;

use askama::Template;
use bitcoin::BlockHash;
use cairn_utxo_index::{BlockRef, BlockSummary, TxRecord};

use super::chain::Chain;
use super::{Answer, Frame, Scene};
use crate::error::PageError;
use crate::present::{
    Amount, Copy, Hash, Stamp, age, bytes, coinbase_text, count, difficulty, fee_rate, percent,
};
use crate::site::Shell;

/// Transactions on one page: the same number as in the Esplora API.
const TXS_PER_PAGE: usize = 25;

/// The page.
#[derive(Template)]
#[template(path = "utxo/block.html")]
pub(super) struct BlockPage {
    shell: Shell,
    chain: Chain,
    height: String,
    hash: Hash,
    copy: Copy,
    api_href: String,
    previous: Option<Link>,
    next: Option<Link>,
    in_best_chain: bool,
    confirmations: String,
    time: Stamp,
    age: String,
    median_time: Stamp,
    tx_count: String,
    size: String,
    weight: String,
    fill: String,
    version: String,
    bits: String,
    nonce: String,
    difficulty: String,
    merkle_root: Hash,
    coinbase: Option<Coinbase>,
    rows: Vec<TxRow>,
    first: String,
    last: String,
    pages: Pages,
}

/// A neighbour of the block.
struct Link {
    href: String,
    label: String,
}

/// What the block's first transaction says.
struct Coinbase {
    reward: Amount,
    text: Option<String>,
}

/// Links to the other pages of a block's transactions.
struct Pages {
    first: Option<String>,
    previous: Option<String>,
    next: Option<String>,
    last: Option<String>,
}

/// One transaction in the block's table.
struct TxRow {
    index: String,
    href: String,
    txid: Hash,
    inputs: String,
    outputs: String,
    value: Amount,
    /// `None`: the coinbase.
    fee: Option<Amount>,
    rate: String,
    vsize: String,
}

/// Which block a path names.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Hash(BlockHash),
    Height(u32),
}

impl Name {
    fn parse(text: &str) -> Result<Self, PageError> {
        if let Ok(hash) = BlockHash::from_str(text) {
            return Ok(Name::Hash(hash));
        }
        text.parse().map(Name::Height).map_err(|_| {
            PageError::BadRequest(format!(
                "\u{201c}{text}\u{201d} is neither a block hash nor a height."
            ))
        })
    }
}

impl BlockPage {
    /// Reads a page of a block; a height redirects to the block's own, lasting address.
    pub(super) fn read(
        scene: &Scene<'_>,
        name: &str,
        page: Option<&str>,
    ) -> Result<Answer<Self>, PageError> {
        let chain = scene.chain();
        let view = scene.view;
        let hash = match Name::parse(name)? {
            Name::Hash(hash) => hash,
            Name::Height(height) => {
                let block = view.block_at(height).ok_or_else(|| {
                    let tip = count(view.tip().height.into());
                    let height = count(height.into());
                    PageError::not_found(format!(
                        "There is no block {height} yet: the newest one is {tip}."
                    ))
                })?;
                return Ok(Answer::Redirect(chain.block_href(&block.hash)));
            }
        };
        let missing = || PageError::not_found(format!("This index has no block {hash}."));
        let block = view.block(&hash)?.ok_or_else(missing)?;
        let page = page_number(page)?;
        let start = (page - 1).saturating_mul(TXS_PER_PAGE);
        let txs = view
            .block_txs(&hash, start, TXS_PER_PAGE)?
            .ok_or_else(missing)?;
        let next = if block.in_best_chain {
            block
                .height
                .checked_add(1)
                .and_then(|height| view.block_at(height))
        } else {
            None
        };
        let frame = scene.frame(&format!("Block {}", count(block.height.into())));
        Ok(Answer::Page(Self::new(frame, &block, next, &txs, page)))
    }

    fn new(
        frame: Frame,
        block: &BlockSummary,
        next: Option<BlockRef>,
        txs: &[TxRecord],
        page: usize,
    ) -> Self {
        let chain = &frame.chain;
        let start = (page - 1) * TXS_PER_PAGE;
        let coinbase = txs.first().filter(|_| page == 1).map(|record| Coinbase {
            reward: Amount(total_out(record)),
            text: record
                .tx
                .input
                .first()
                .and_then(|input| coinbase_text(&input.script_sig)),
        });
        let weight = u64::from(block.weight);
        // Blocks of Elements are signed and have none of the three.
        let work = block.header.to_bitcoin();
        let none = || "none".to_owned();
        BlockPage {
            height: count(block.height.into()),
            hash: Hash::new(block.hash),
            copy: Copy::new(block.hash),
            api_href: format!("{}/block/{}", chain.api_base, block.hash),
            previous: block.height.checked_sub(1).map(|height| Link {
                href: chain.block_href(&block.header.prev_blockhash),
                label: count(height.into()),
            }),
            next: next.map(|n| Link {
                href: chain.block_href(&n.hash),
                label: count(n.height.into()),
            }),
            in_best_chain: block.in_best_chain,
            confirmations: frame.confirmations(block.height),
            time: Stamp(block.header.time),
            age: age(frame.now, block.header.time),
            median_time: Stamp(block.median_time),
            tx_count: count(block.tx_count.into()),
            size: bytes(block.size.into()),
            weight: count(weight),
            fill: percent(weight, bitcoin::Weight::MAX_BLOCK.to_wu()),
            version: format!("0x{:08x}", block.header.version.to_consensus()),
            bits: work.map_or_else(none, |work| format!("0x{:08x}", work.bits.to_consensus())),
            nonce: work.map_or_else(none, |work| count(work.nonce.into())),
            difficulty: work.map_or_else(none, |work| difficulty(work.difficulty_float())),
            merkle_root: Hash::new(block.header.merkle_root),
            coinbase,
            first: count(start as u64 + 1),
            last: count((start + txs.len()) as u64),
            rows: txs
                .iter()
                .enumerate()
                .map(|(i, tx)| TxRow::new(chain, start + i, tx))
                .collect(),
            pages: Pages::new(
                &chain.block_href(&block.hash),
                page,
                block.tx_count as usize,
            ),
            shell: frame.shell.at("blocks").live(),
            chain: frame.chain,
        }
    }
}

impl Pages {
    fn new(block: &str, page: usize, txs: usize) -> Self {
        let last = txs.div_ceil(TXS_PER_PAGE).max(1);
        let href = |n: usize| {
            if n == 1 {
                block.to_owned()
            } else {
                format!("{block}?page={n}")
            }
        };
        Pages {
            first: (page > 1).then(|| href(1)),
            previous: (page > 1).then(|| href(page - 1)),
            next: (page < last).then(|| href(page + 1)),
            last: (page < last).then(|| href(last)),
        }
    }

    /// Whether there is any other page.
    fn any(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

impl TxRow {
    fn new(chain: &Chain, index: usize, record: &TxRecord) -> Self {
        let coinbase = record.tx.is_coinbase();
        TxRow {
            index: count(index as u64),
            href: chain.tx_href(&record.txid),
            txid: Hash::new(record.txid),
            inputs: count(record.tx.input.len() as u64),
            outputs: count(record.tx.output.len() as u64),
            value: Amount(total_out(record)),
            fee: (!coinbase).then_some(Amount(record.fee)),
            rate: fee_rate(record.fee, record.weight),
            vsize: count(u64::from(record.weight).div_ceil(4)),
        }
    }
}

/// Sum of a transaction's outputs in satoshi. Saturates, because a stored transaction that paid more than there can
/// be would be damaged, and a page is no place to stop for it.
pub(super) fn total_out(record: &TxRecord) -> u64 {
    record
        .tx
        .output
        .iter()
        .fold(0, |sum, output| output.value.to_sat().saturating_add(sum))
}

/// Reads a page number: absent is 1.
pub(super) fn page_number(text: Option<&str>) -> Result<usize, PageError> {
    match text.unwrap_or("1").parse::<u32>() {
        Ok(n) if n >= 1 => Ok(n as usize),
        _ => Err(PageError::BadRequest(
            "A page number is a whole number from 1 on.".into(),
        )),
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
