//! `/{chain}/mempool`: what waits, at which fee rates, what came last, and what the node expects fees to be.

use std::time::Duration;

use askama::Template;
use cairn_esplora::NodeCalls;
use cairn_utxo_index::MempoolEntry;
use cairn_utxo_index::mempool::HistogramBin;

use super::chain::Chain;
use super::{Answer, Scene};
use crate::error::PageError;
use crate::present::{Amount, Bars, Hash, Stamp, age, count, fee_rate, percent, virtual_bytes};
use crate::site::Shell;

/// Virtual bytes of a full block.
const BLOCK_VSIZE: u64 = 1_000_000;
/// Rows of the table of fee rates.
const BINS_MAX: usize = 20;
/// Newest transactions shown.
const RECENT_MAX: usize = 25;
/// Longest wait for the node's estimates: without them the page is shown all the same.
const ESTIMATES_WAIT: Duration = Duration::from_secs(2);
/// Targets shown, in blocks.
const TARGETS: [u16; 6] = [1, 3, 6, 12, 25, 144];

/// A rate in satoshi per 1000 virtual bytes for a target in blocks.
pub(super) type Estimates = Vec<(u16, u64)>;

/// What the node expects; nothing when there is none or it does not answer in time.
pub(super) async fn estimates(node: Option<&dyn NodeCalls>) -> Estimates {
    let Some(node) = node else {
        return Vec::new();
    };
    match tokio::time::timeout(ESTIMATES_WAIT, node.fee_estimates()).await {
        Ok(Ok(estimates)) => estimates,
        Ok(Err(error)) => {
            tracing::debug!(%error, "no fee estimates for the page");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

/// The lowest rate, satoshi per virtual byte, of what fills the next block; `None` when all that waits has room in it.
pub(super) fn next_block_rate(bins: &[HistogramBin]) -> Option<f64> {
    let mut room = BLOCK_VSIZE;
    for bin in bins {
        match room.checked_sub(bin.vsize) {
            Some(left) => room = left,
            None => return Some(bin.rate.sat_per_vb()),
        }
    }
    None
}

/// The page.
#[derive(Template)]
#[template(path = "utxo/mempool.html")]
pub(super) struct MempoolPage {
    shell: Shell,
    chain: Chain,
    loaded: bool,
    count: String,
    vsize: String,
    blocks: String,
    fees: Amount,
    next_block: String,
    chart: Bars,
    bins: Vec<BinRow>,
    bins_more: usize,
    estimates: Vec<(u16, String)>,
    recent: Vec<RecentRow>,
}

/// A range of fee rates.
struct BinRow {
    rate: String,
    vsize: String,
    share: String,
    width: u64,
    /// In which block from now it would be, if blocks took the highest rates.
    block: String,
}

/// An unconfirmed transaction.
struct RecentRow {
    href: String,
    txid: Hash,
    time: Stamp,
    age: String,
    value: Amount,
    fee: Amount,
    rate: String,
    vsize: String,
}

impl MempoolPage {
    /// Reads the page.
    pub(super) fn read(scene: &Scene<'_>, estimates: Estimates) -> Result<Answer<Self>, PageError> {
        let mempool = scene.view.mempool();
        let bins = mempool.histogram();
        let total = mempool.vsize();
        let frame = scene.frame("Mempool");
        let chain = frame.chain;
        let recent = mempool
            .recent(RECENT_MAX)
            .iter()
            .map(|entry| RecentRow::new(&chain, entry, scene.now))
            .collect();
        Ok(Answer::Page(MempoolPage {
            loaded: mempool.is_loaded(),
            count: count(mempool.len() as u64),
            vsize: virtual_bytes(total),
            blocks: count(total.div_ceil(BLOCK_VSIZE)),
            fees: Amount(mempool.total_fee()),
            next_block: next_block_rate(&bins)
                .map_or_else(|| "any".to_owned(), |rate| format!("{rate:.2}")),
            chart: chart(&bins),
            bins_more: bins.len().saturating_sub(BINS_MAX),
            bins: rows(&bins, total),
            estimates: shown(&estimates),
            recent,
            shell: frame.shell.at("mempool").live(),
            chain,
        }))
    }
}

/// The estimates of the targets that are shown.
fn shown(estimates: &Estimates) -> Vec<(u16, String)> {
    estimates
        .iter()
        .filter(|(target, _)| TARGETS.contains(target))
        .map(|(target, per_kvb)| {
            (
                *target,
                format!("{}.{:02}", per_kvb / 1_000, per_kvb % 1_000 / 10),
            )
        })
        .collect()
}

fn chart(bins: &[HistogramBin]) -> Bars {
    let bars = bins
        .iter()
        .rev()
        .map(|bin| {
            let name = format!(
                "from {:.2} sat/vB: {}",
                bin.rate.sat_per_vb(),
                virtual_bytes(bin.vsize)
            );
            (bin.vsize as f64, name)
        })
        .collect();
    Bars::new("Virtual bytes waiting by fee rate, lowest first", bars)
}

fn rows(bins: &[HistogramBin], total: u64) -> Vec<BinRow> {
    let largest = bins.iter().map(|bin| bin.vsize).max().unwrap_or(0).max(1);
    let mut before = 0_u64;
    bins.iter()
        .take(BINS_MAX)
        .map(|bin| {
            let block = before / BLOCK_VSIZE + 1;
            before = before.saturating_add(bin.vsize);
            BinRow {
                rate: format!("{:.2}", bin.rate.sat_per_vb()),
                vsize: virtual_bytes(bin.vsize),
                share: percent(bin.vsize, total),
                width: u64::try_from(u128::from(bin.vsize) * 100 / u128::from(largest))
                    .unwrap_or(100),
                block: match block {
                    1 => "next".to_owned(),
                    n => format!("{}. from now", count(n)),
                },
            }
        })
        .collect()
}

impl RecentRow {
    fn new(chain: &Chain, entry: &MempoolEntry, now: u64) -> Self {
        let seen = u32::try_from(entry.time).unwrap_or(u32::MAX);
        // What goes in is what comes out and the fee.
        let value = entry
            .input_value()
            .map_or(0, |spent| spent.saturating_sub(entry.fee));
        RecentRow {
            href: chain.tx_href(&entry.txid),
            txid: Hash::new(entry.txid),
            time: Stamp(seen),
            age: age(now, seen),
            value: Amount(value),
            fee: Amount(entry.fee),
            rate: fee_rate(entry.fee, entry.weight),
            vsize: count(entry.vsize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_utxo_index::FeeRate;

    use super::*;

    fn bin(fee: u64, vsize: u64) -> HistogramBin {
        HistogramBin {
            rate: FeeRate { fee, weight: 4 },
            vsize,
        }
    }

    #[test]
    fn the_next_block_takes_the_highest_rates() {
        assert_eq!(next_block_rate(&[]), None);
        assert_eq!(next_block_rate(&[bin(9, BLOCK_VSIZE)]), None);
        assert_eq!(
            next_block_rate(&[bin(9, 600_000), bin(5, 500_000), bin(1, 1)]),
            Some(5.0)
        );
    }

    #[test]
    fn rows_say_in_which_block() {
        let rows = rows(
            &[bin(9, 900_000), bin(5, 900_000), bin(1, 200_000)],
            2_000_000,
        );
        let told: Vec<(&str, &str, u64)> = rows
            .iter()
            .map(|row| (row.block.as_str(), row.share.as_str(), row.width))
            .collect();
        assert_eq!(
            told,
            [
                ("next", "45.0", 100),
                ("next", "45.0", 100),
                ("2. from now", "10.0", 22)
            ]
        );
    }

    #[test]
    fn estimates_are_printed_from_integers() {
        let shown = shown(&vec![(1, 12_345), (2, 9_000), (6, 1_000)]);
        assert_eq!(shown, [(1, "12.34".to_owned()), (6, "1.00".to_owned())]);
    }
}
