//! A UTXO chain's card on the home page.

use askama::Template;
use cairn_utxo_index::{Index, Phase, View};

use super::blocks::{self, BlockRow};
use super::chain::Chain;
use super::mempool::next_block_rate;
use super::progress::ProgressView;
use crate::error::PageError;
use crate::ledger::Card;
use crate::pages::card::{CardView, Gauge};
use crate::present::{age, count, throughput, virtual_bytes};
use crate::pulse::Pulse;

/// Newest blocks on the card.
const CARD_BLOCKS: u32 = 6;
/// Blocks in the chart.
const CHART_BLOCKS: u32 = 36;

/// The newest blocks.
#[derive(Template)]
#[template(path = "utxo/card_body.html")]
struct CardBody<'a> {
    chain: &'a Chain,
    rows: Vec<BlockRow>,
}

/// Makes the card.
pub(super) fn make(
    chain: &Chain,
    index: &Index,
    pulse: &Pulse,
    now: u64,
) -> Result<Card, PageError> {
    let progress = index.progress();
    let words = ProgressView::new(&progress);
    let status = pulse.health().status(&chain.id);
    let busy = words.busy;
    let mut gauges = Vec::new();
    let mut body = String::new();
    if let Some(view) = index.view() {
        let tip = view.tip();
        gauges.push(
            Gauge::new("Height", count(tip.height.into()), age(now, tip.time))
                .link(chain.block_href(&tip.hash))
                .bars("Transactions in the newest blocks", block_bars(&view)?),
        );
        gauges.push(mempool_gauge(chain, pulse, &view));
        gauges.push(fee_gauge(chain, &view));
        let rows = blocks::rows(chain, &view, tip.height, CARD_BLOCKS, now)?;
        body = CardBody { chain, rows }.render()?;
    }
    if matches!(progress.phase, Phase::Adding | Phase::Indexing) {
        let rate = throughput(progress.rate).unwrap_or_else(|| "0 B/s".to_owned());
        gauges.push(
            Gauge::new("Load", rate, words.stage.clone())
                .line("Bytes a second of the load", pulse.line(&chain.id, "rate")),
        );
    }
    let tone = match status.as_ref().map(|status| status.state) {
        Some(cairn_telemetry::State::Stalled | cairn_telemetry::State::Failed) => "bad",
        _ if busy => "warn",
        _ => "good",
    };
    CardView {
        id: chain.id.clone(),
        href: chain.blocks_href(),
        what: format!("Bitcoin {}", chain.network_name()),
        state: words.stage.clone(),
        tone,
        reason: status.and_then(|status| status.reason),
        raw: Some((
            format!("{}/blocks/tip/height", chain.api_base),
            "Esplora API",
        )),
        progress: if busy { Some(words.render()?) } else { None },
        gauges,
        body,
    }
    .finish(busy)
}

/// Transactions of the newest blocks, oldest first.
fn block_bars(view: &View) -> Result<Vec<(f64, String)>, PageError> {
    let tip = view.tip().height;
    let first = tip.saturating_sub(CHART_BLOCKS - 1);
    let mut bars = Vec::new();
    for height in first..=tip {
        let Some(block) = view.block_at(height) else {
            continue;
        };
        if let Some(block) = view.block(&block.hash)? {
            let name = format!(
                "Block {}: {} transactions",
                count(height.into()),
                count(block.tx_count.into())
            );
            bars.push((f64::from(block.tx_count), name));
        }
    }
    Ok(bars)
}

fn mempool_gauge(chain: &Chain, pulse: &Pulse, view: &View) -> Gauge {
    let mempool = view.mempool();
    let note = match (mempool.is_loaded(), mempool.len()) {
        (false, 0) => "not followed".to_owned(),
        (false, _) => "being read".to_owned(),
        (true, _) => format!("{} waiting", virtual_bytes(mempool.vsize())),
    };
    Gauge::new("Mempool", count(mempool.len() as u64), note)
        .link(chain.mempool_href())
        .line(
            "Virtual bytes waiting, last ten minutes",
            pulse.line(&chain.id, "mempool"),
        )
}

fn fee_gauge(chain: &Chain, view: &View) -> Gauge {
    let bins = view.mempool().histogram();
    let (value, note) = match next_block_rate(&bins) {
        Some(rate) => (format!("{rate:.1} sat/vB"), "to be in the next block"),
        None => ("any".to_owned(), "the next block has room"),
    };
    let bars = bins
        .iter()
        .rev()
        .map(|bin| {
            let name = format!(
                "{} at {:.1} sat/vB or a little more",
                virtual_bytes(bin.vsize),
                bin.rate.sat_per_vb()
            );
            (bin.vsize as f64, name)
        })
        .collect();
    Gauge::new("Fee", value, note)
        .link(chain.mempool_href())
        .bars("Virtual bytes waiting by fee rate, lowest first", bars)
}
