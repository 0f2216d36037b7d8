//! `/{chain}/address/{a}` and `/{chain}/scripthash/{h}`, each with a second page `.../utxo`: what one script received
//! and spent, its balance over time, its history page by page, what of it waits for a block, its unspent outputs.

use std::str::FromStr;

use askama::Template;
use bitcoin::hex::DisplayHex;
use bitcoin::{ScriptBuf, Txid};
use cairn_utxo_index::{
    BalancePoint, BlockRef, MempoolEntry, QueryError, ScriptHash, ScriptStats, TxRecord, Utxo, View,
};

use super::block::page_number;
use super::chain::{Address, Chain, parse_script_hash};
use super::{Answer, Frame, Scene};
use crate::error::PageError;
use crate::present::{
    Amount, Change, Clipped, Copy, Hash, ScriptKind, Sparkline, Stamp, age, count,
};
use crate::site::Shell;

/// Transactions on one page: the same number as in the Esplora API.
const TXS_PER_PAGE: usize = 25;
/// Unspent outputs on one page.
const UTXOS_PER_PAGE: usize = 100;

/// Said where the index refuses to visit all rows of a script within one request.
const TOO_LARGE: &str = "The history of this script is larger than one request may read, so its totals are not shown. \
     Its transactions are: page by page, newest first.";

/// What the path names.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    /// An address of this chain.
    Address(Address),
    /// A script known by its SHA-256 alone.
    Script(ScriptHash),
}

impl Subject {
    /// Reads an address.
    pub(super) fn address(chain: &Chain, text: &str) -> Result<Self, PageError> {
        chain.parse_address(text).map(Subject::Address)
    }

    /// Reads a script hash.
    pub(super) fn script(text: &str) -> Result<Self, PageError> {
        parse_script_hash(text).map(Subject::Script).ok_or_else(|| {
            PageError::BadRequest(
                "A script hash is 64 hex digits: the SHA-256 of the script.".into(),
            )
        })
    }

    fn hash(&self) -> ScriptHash {
        match self {
            Subject::Address(address) => ScriptHash::of(address.script_pubkey().as_bytes()),
            Subject::Script(hash) => *hash,
        }
    }

    fn href(&self, chain: &Chain) -> String {
        match self {
            Subject::Address(address) => chain.address_href(address),
            Subject::Script(hash) => chain.scripthash_href(hash),
        }
    }

    fn api_href(&self, chain: &Chain) -> String {
        match self {
            Subject::Address(address) => format!("{}/address/{address}", chain.api_base),
            Subject::Script(hash) => format!("{}/scripthash/{hash}", chain.api_base),
        }
    }
}

/// The part of the page above the tabs.
pub(super) struct Profile {
    is_address: bool,
    name: Hash,
    copy: Copy,
    href: String,
    api_href: String,
    /// The script's address, when the page is that of a script hash and the script is known.
    address: Option<(String, Hash)>,
    kind: Option<ScriptKind>,
    asm: Option<Clipped>,
    script_hash: Hash,
    script_hash_reversed: Hash,
    totals: Option<Totals>,
    /// What transactions that wait would change, if there are any: how many, and by how much.
    unconfirmed: Option<(String, Change)>,
    notice: Option<&'static str>,
}

/// The balance over time.
pub(super) struct BalanceChart {
    line: Sparkline,
    highest: Amount,
    first: Stamp,
    last: Stamp,
}

impl BalanceChart {
    /// Draws a series whose points are in blocks of the view; `None` when there is nothing to see.
    fn new(view: &View, points: &[BalancePoint]) -> Option<Self> {
        let points: Vec<(BlockRef, u64)> = points
            .iter()
            .filter_map(|point| Some((view.block_at(point.height)?, point.balance)))
            .collect();
        let (first, last) = (points.first()?.0, view.tip());
        let highest = points.iter().map(|(_, balance)| *balance).max()?;
        // Before the first payment there was nothing; the last balance holds until the tip.
        let mut line = vec![(f64::from(first.time), 0.0)];
        line.extend(
            points
                .iter()
                .map(|(block, balance)| (f64::from(block.time), *balance as f64)),
        );
        line.push((
            f64::from(last.time.max(first.time)),
            points.last()?.1 as f64,
        ));
        Some(BalanceChart {
            line: Sparkline::steps(
                "Balance over time; its figures are in the table below",
                line,
            ),
            highest: Amount(highest),
            first: Stamp(first.time),
            last: Stamp(last.time),
        })
    }
}

/// Sums over the whole history.
pub(super) struct Totals {
    balance: Amount,
    received: Amount,
    received_count: String,
    sent: Amount,
    sent_count: String,
    txs: String,
    unspent: u64,
    unspent_text: String,
}

impl Totals {
    fn new(stats: &ScriptStats) -> Result<Self, PageError> {
        let less = |a: u64, b: u64| {
            a.checked_sub(b).ok_or_else(|| {
                PageError::Internal("a script has spent more than it received".into())
            })
        };
        let unspent = less(stats.funded_txo_count, stats.spent_txo_count)?;
        Ok(Totals {
            balance: Amount(less(stats.funded_txo_sum, stats.spent_txo_sum)?),
            received: Amount(stats.funded_txo_sum),
            received_count: count(stats.funded_txo_count),
            sent: Amount(stats.spent_txo_sum),
            sent_count: count(stats.spent_txo_count),
            txs: count(stats.tx_count),
            unspent,
            unspent_text: count(unspent),
        })
    }
}

impl Profile {
    /// `script` is the script itself, where known.
    fn new(
        chain: &Chain,
        subject: &Subject,
        script: Option<ScriptBuf>,
        stats: Result<ScriptStats, QueryError>,
        waiting: ScriptStats,
    ) -> Result<Self, PageError> {
        let hash = subject.hash();
        let (totals, notice) = match stats {
            Ok(stats) => (Some(Totals::new(&stats)?), None),
            Err(QueryError::TooManyRows) => (None, Some(TOO_LARGE)),
            Err(error) => return Err(error.into()),
        };
        let mut reversed = hash.0;
        reversed.reverse();
        let (is_address, name) = match subject {
            Subject::Address(address) => (true, address.to_string()),
            Subject::Script(_) => (false, hash.to_string()),
        };
        let change = i128::from(waiting.funded_txo_sum) - i128::from(waiting.spent_txo_sum);
        let address = script
            .as_ref()
            .filter(|_| !is_address)
            .and_then(|script| chain.address(script))
            .map(|address| (chain.address_href(&address), Hash::new(address)));
        Ok(Profile {
            is_address,
            copy: Copy::new(&name),
            name: Hash::new(name),
            href: subject.href(chain),
            api_href: subject.api_href(chain),
            address,
            kind: script.as_ref().map(|script| ScriptKind::of(script)),
            asm: script.as_ref().map(|script| Clipped::asm(script)),
            script_hash: Hash::new(hash),
            script_hash_reversed: Hash::new(reversed.to_lower_hex_string()),
            totals,
            unconfirmed: (waiting.tx_count > 0).then(|| (count(waiting.tx_count), Change(change))),
            notice,
        })
    }
}

/// The page with the history.
#[derive(Template)]
#[template(path = "utxo/address.html")]
pub(super) struct HistoryPage {
    shell: Shell,
    chain: Chain,
    profile: Profile,
    chart: Option<BalanceChart>,
    rows: Vec<HistoryRow>,
    newest: Option<String>,
    older: Option<String>,
}

/// The part of a history that a page shows.
struct Part<'a> {
    records: &'a [TxRecord],
    /// Whether there are newer transactions before it.
    continued: bool,
    /// Whether there are older transactions after it.
    more: bool,
    /// Transactions that wait, in the order of arrival.
    waiting: Vec<std::sync::Arc<MempoolEntry>>,
    /// What all that wait fund and spend.
    waiting_stats: ScriptStats,
    chart: Option<BalanceChart>,
}

/// One transaction of the script.
struct HistoryRow {
    href: String,
    txid: Hash,
    /// `None`: it waits for a block.
    block: Option<RowBlock>,
    change: Change,
}

/// The block of a transaction in a history.
struct RowBlock {
    href: String,
    height: String,
    time: Stamp,
    age: String,
}

impl HistoryPage {
    /// Reads a page of the history: the transactions after `after`, which is a txid, or the newest.
    pub(super) fn read(
        scene: &Scene<'_>,
        subject: &Subject,
        after: Option<&str>,
    ) -> Result<Answer<Self>, PageError> {
        let after = after.map(Txid::from_str).transpose().map_err(|_| {
            PageError::BadRequest(
                "The transaction to continue after is not a transaction id.".into(),
            )
        })?;
        let hash = subject.hash();
        let stats = scene.view.stats(&hash);
        // One more than is shown tells whether there is a next page.
        let mut entries = scene
            .view
            .history(&hash, after.as_ref(), TXS_PER_PAGE + 1)?;
        let more = entries.len() > TXS_PER_PAGE;
        entries.truncate(TXS_PER_PAGE);
        let wanted: Vec<_> = entries
            .iter()
            .map(|&(txid, block)| (txid, Some(block)))
            .collect();
        let records = scene.view.txs(&wanted)?;
        let mut frame = scene.frame(&title(subject));
        frame.shell = frame.shell.live();
        let mempool = scene.view.mempool();
        let is_first = after.is_none();
        let mut waiting = if is_first {
            mempool.of_script(&hash)
        } else {
            Vec::new()
        };
        let left_out = waiting.len().saturating_sub(TXS_PER_PAGE);
        waiting.drain(..left_out);
        let part = Part {
            records: &records,
            continued: !is_first,
            more,
            waiting,
            waiting_stats: mempool.stats_of(&hash),
            chart: match scene.view.balance_points(&hash) {
                Ok(points) => BalanceChart::new(scene.view, &points),
                // As for the totals: the page goes without.
                Err(QueryError::TooManyRows | QueryError::Deadline) => None,
                Err(error) => return Err(error.into()),
            },
        };
        Self::new(frame, subject, stats, part).map(Answer::Page)
    }

    fn new(
        frame: Frame,
        subject: &Subject,
        stats: Result<ScriptStats, QueryError>,
        part: Part<'_>,
    ) -> Result<Self, PageError> {
        let chain = &frame.chain;
        let records = part.records;
        let hash = subject.hash();
        let script = match subject {
            Subject::Address(address) => Some(address.script_pubkey()),
            Subject::Script(hash) => records.iter().find_map(|record| find_script(record, hash)),
        };
        let profile = Profile::new(chain, subject, script.clone(), stats, part.waiting_stats)?;
        let row =
            |record: &TxRecord| HistoryRow::new(chain, &hash, script.as_ref(), record, frame.now);
        let waiting = part.waiting.iter().rev();
        let rows = waiting
            .map(|entry| row(&entry.record()))
            .chain(records.iter().map(row))
            .collect();
        let older = records
            .last()
            .filter(|_| part.more)
            .map(|record| format!("{}?after={}", profile.href, record.txid));
        Ok(HistoryPage {
            newest: part.continued.then(|| profile.href.clone()),
            older,
            rows,
            profile,
            chart: part.chart,
            shell: frame.shell,
            chain: frame.chain,
        })
    }
}

impl HistoryRow {
    fn new(
        chain: &Chain,
        hash: &ScriptHash,
        script: Option<&ScriptBuf>,
        record: &TxRecord,
        now: u64,
    ) -> Self {
        let txid = record.txid;
        let is_own = |candidate: &ScriptBuf| match script {
            Some(script) => candidate == script,
            None => ScriptHash::of(candidate.as_bytes()) == *hash,
        };
        let gained = record
            .tx
            .output
            .iter()
            .filter(|output| is_own(&output.script_pubkey));
        let lost = record
            .prevouts
            .iter()
            .flatten()
            .map(|output| &**output)
            .filter(|output| is_own(&output.script_pubkey));
        let sum = |total: i128, output: &bitcoin::TxOut| total + i128::from(output.value.to_sat());
        HistoryRow {
            href: chain.tx_href(&txid),
            txid: Hash::new(txid),
            block: record.block.map(|block| RowBlock {
                href: chain.block_href(&block.hash),
                height: count(block.height.into()),
                time: Stamp(block.time),
                age: age(now, block.time),
            }),
            change: Change(gained.fold(0, sum) - lost.fold(0, sum)),
        }
    }
}

/// The script with this hash among the outputs that a transaction makes or spends.
fn find_script(record: &TxRecord, hash: &ScriptHash) -> Option<ScriptBuf> {
    let spent = record.prevouts.iter().flatten();
    spent
        .map(|output| &output.script_pubkey)
        .chain(record.tx.output.iter().map(|output| &output.script_pubkey))
        .find(|script| ScriptHash::of(script.as_bytes()) == *hash)
        .cloned()
}

/// The page with the unspent outputs.
#[derive(Template)]
#[template(path = "utxo/unspent.html")]
pub(super) struct UnspentPage {
    shell: Shell,
    chain: Chain,
    profile: Profile,
    rows: Vec<UnspentRow>,
    too_many: bool,
    total: String,
    first: String,
    last: String,
    previous: Option<String>,
    next: Option<String>,
}

/// One unspent output.
struct UnspentRow {
    href: String,
    txid: Hash,
    vout: u32,
    block_href: String,
    height: String,
    time: Stamp,
    age: String,
    value: Amount,
}

impl UnspentPage {
    /// Reads a page of the unspent outputs, newest first.
    pub(super) fn read(
        scene: &Scene<'_>,
        subject: &Subject,
        page: Option<&str>,
    ) -> Result<Answer<Self>, PageError> {
        let page = page_number(page)?;
        let hash = subject.hash();
        let stats = scene.view.stats(&hash);
        let utxos = match scene.view.utxos(&hash) {
            Ok(utxos) => Some(utxos),
            Err(QueryError::TooManyUtxos | QueryError::TooManyRows) => None,
            Err(error) => return Err(error.into()),
        };
        // The script of a bare hash is in any output that pays it.
        let script = match (subject, utxos.as_ref().and_then(|utxos| utxos.first())) {
            (Subject::Address(address), _) => Some(address.script_pubkey()),
            (Subject::Script(_), Some(utxo)) => scene
                .view
                .outputs(&[utxo.outpoint])?
                .into_iter()
                .flatten()
                .next()
                .map(|output| output.script_pubkey.clone()),
            (Subject::Script(_), None) => None,
        };
        let chain = scene.chain();
        let waiting = scene.view.mempool().stats_of(&hash);
        let profile = Profile::new(chain, subject, script, stats, waiting)?;
        let mut frame = scene.frame(&title(subject));
        frame.shell = frame.shell.live();
        Self::new(frame, profile, utxos.as_deref(), page).map(Answer::Page)
    }

    fn new(
        frame: Frame,
        profile: Profile,
        utxos: Option<&[Utxo]>,
        page: usize,
    ) -> Result<Self, PageError> {
        let chain = &frame.chain;
        let all = utxos.unwrap_or_default();
        let start = (page - 1).saturating_mul(UTXOS_PER_PAGE);
        if page > 1 && start >= all.len() {
            return Err(PageError::not_found(format!(
                "There is no page {page} of these unspent outputs."
            )));
        }
        let rows: Vec<_> = all
            .iter()
            .rev()
            .skip(start)
            .take(UTXOS_PER_PAGE)
            .map(|utxo| UnspentRow {
                href: chain.output_href(&utxo.outpoint),
                txid: Hash::new(utxo.outpoint.txid),
                vout: utxo.outpoint.vout,
                block_href: chain.block_href(&utxo.block.hash),
                height: count(utxo.block.height.into()),
                time: Stamp(utxo.block.time),
                age: age(frame.now, utxo.block.time),
                value: Amount(utxo.value.map_or(0, |value| value.to_sat())),
            })
            .collect();
        let end = start + rows.len();
        let base = format!("{}/utxo", profile.href);
        let href = |n: usize| {
            if n == 1 {
                base.clone()
            } else {
                format!("{base}?page={n}")
            }
        };
        Ok(UnspentPage {
            too_many: utxos.is_none(),
            total: count(all.len() as u64),
            first: count(start as u64 + 1),
            last: count(end as u64),
            previous: (page > 1).then(|| href(page - 1)),
            next: (end < all.len()).then(|| href(page + 1)),
            rows,
            profile,
            shell: frame.shell,
            chain: frame.chain,
        })
    }
}

/// Title of both pages.
fn title(subject: &Subject) -> String {
    match subject {
        Subject::Address(address) => format!("Address {address}"),
        Subject::Script(_) => "Script".to_owned(),
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
