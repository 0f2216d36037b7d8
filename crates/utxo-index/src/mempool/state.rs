//! One state of the mempool: the maps and the questions on them.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, TxOut, Txid};
use cairn_utxo_chain::{AssetId, Output};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};

use super::histogram::{self, HistogramBin};
use super::{FeeRate, MempoolEntry};
use crate::types::{ScriptHash, ScriptStats};

/// A transaction id in the order of its printed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Printed([u8; 32]);

impl Printed {
    fn of(txid: &Txid) -> Self {
        let mut bytes = txid.to_byte_array();
        bytes.reverse();
        Self(bytes)
    }
}

/// The unconfirmed transactions of one script or asset. Nearly all scripts have one.
#[derive(Debug, Clone)]
enum OfScript {
    One(Arc<MempoolEntry>),
    /// By arrival; at least two.
    Many(RedBlackTreeMapSync<u64, Arc<MempoolEntry>>),
}

impl OfScript {
    fn with(self, entry: &Arc<MempoolEntry>) -> Self {
        match self {
            Self::One(first) => {
                let mut many = RedBlackTreeMapSync::new_sync();
                many.insert_mut(first.arrival, first);
                many.insert_mut(entry.arrival, Arc::clone(entry));
                Self::Many(many)
            }
            Self::Many(mut many) => {
                many.insert_mut(entry.arrival, Arc::clone(entry));
                Self::Many(many)
            }
        }
    }

    fn without(self, arrival: u64) -> Option<Self> {
        match self {
            Self::One(first) if first.arrival == arrival => None,
            Self::One(first) => Some(Self::One(first)),
            Self::Many(mut many) => {
                many.remove_mut(&arrival);
                match many.size() {
                    0 => None,
                    1 => many.first().map(|(_, entry)| Self::One(Arc::clone(entry))),
                    _ => Some(Self::Many(many)),
                }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.size(),
        }
    }

    fn to_vec(&self) -> Vec<Arc<MempoolEntry>> {
        match self {
            Self::One(entry) => vec![Arc::clone(entry)],
            Self::Many(many) => many.values().cloned().collect(),
        }
    }
}

/// One immutable state of the mempool. Cloning shares everything.
///
/// Every transaction in it has all its inputs known: from the chain of the view it belongs to, or from another
/// transaction in it. No two spend the same output, and none is confirmed in that chain.
#[derive(Clone)]
pub struct MempoolView {
    loaded: bool,
    sequence: u64,
    next_arrival: u64,
    vsize: u64,
    fee: u64,
    txs: RedBlackTreeMapSync<Printed, Arc<MempoolEntry>>,
    arrivals: RedBlackTreeMapSync<u64, Arc<MempoolEntry>>,
    edges: HashTrieMapSync<OutPoint, (Txid, u32)>,
    scripts: HashTrieMapSync<ScriptHash, OfScript>,
    /// By asset (Elements): the transactions that openly touch it.
    assets: HashTrieMapSync<AssetId, OfScript>,
    rates: RedBlackTreeMapSync<FeeRate, u64>,
    histogram: Arc<OnceLock<Arc<[HistogramBin]>>>,
}

impl std::fmt::Debug for MempoolView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MempoolView")
            .field("loaded", &self.loaded)
            .field("sequence", &self.sequence)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl MempoolView {
    /// No transactions, not loaded.
    pub(crate) fn empty() -> Self {
        Self {
            loaded: false,
            sequence: 0,
            next_arrival: 0,
            vsize: 0,
            fee: 0,
            txs: RedBlackTreeMapSync::new_sync(),
            arrivals: RedBlackTreeMapSync::new_sync(),
            edges: HashTrieMapSync::new_sync(),
            scripts: HashTrieMapSync::new_sync(),
            assets: HashTrieMapSync::new_sync(),
            rates: RedBlackTreeMapSync::new_sync(),
            histogram: Arc::default(),
        }
    }

    /// Whether the node's whole mempool was read since the start. Until then the state is a part of it.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// Number of this published state; grows with each, be it the mempool or the chain that changed. Starts anew with the
    /// process.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.txs.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.txs.is_empty()
    }

    /// Virtual bytes of all transactions, each rounded up.
    pub fn vsize(&self) -> u64 {
        self.vsize
    }

    /// Fees of all transactions, satoshi.
    pub fn total_fee(&self) -> u64 {
        self.fee
    }

    /// How much waits at which rate, highest rate first. Each bin holds more than 50,000 virtual bytes, but for the last.
    /// Computed once for a state, by the first who asks.
    pub fn histogram(&self) -> Arc<[HistogramBin]> {
        Arc::clone(
            self.histogram
                .get_or_init(|| histogram::bins(&self.rates).into()),
        )
    }

    /// The last `limit` transactions to arrive that are still there, newest first.
    pub fn recent(&self, limit: usize) -> Vec<Arc<MempoolEntry>> {
        self.arrivals.values().rev().take(limit).cloned().collect()
    }

    /// A transaction.
    pub fn entry(&self, txid: &Txid) -> Option<Arc<MempoolEntry>> {
        self.txs.get(&Printed::of(txid)).cloned()
    }

    /// Whether a transaction is there.
    pub fn contains(&self, txid: &Txid) -> bool {
        self.txs.contains_key(&Printed::of(txid))
    }

    /// All transactions, by their ids as printed, ascending.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<MempoolEntry>> {
        self.txs.values()
    }

    /// Up to `limit` transactions whose ids, as printed, come after `after`; ascending. `after` itself need not be there.
    pub fn entries_after(&self, after: Option<&Txid>, limit: usize) -> Vec<Arc<MempoolEntry>> {
        let from = match after {
            Some(txid) => Bound::Excluded(Printed::of(txid)),
            None => Bound::Unbounded,
        };
        self.txs
            .range((from, Bound::Unbounded))
            .take(limit)
            .map(|(_, entry)| Arc::clone(entry))
            .collect()
    }

    /// Every transaction that funds or spends a script, once each, in the order of arrival.
    pub fn of_script(&self, script: &ScriptHash) -> Vec<Arc<MempoolEntry>> {
        self.scripts
            .get(script)
            .map(OfScript::to_vec)
            .unwrap_or_default()
    }

    /// Every transaction that openly touches an asset, once each, in the order of arrival (Elements).
    pub fn of_asset(&self, asset: &AssetId) -> Vec<Arc<MempoolEntry>> {
        self.assets
            .get(asset)
            .map(OfScript::to_vec)
            .unwrap_or_default()
    }

    /// How many transactions fund or spend a script.
    pub fn count_of_script(&self, script: &ScriptHash) -> usize {
        self.scripts.get(script).map_or(0, OfScript::len)
    }

    /// Outputs paid to a script that no transaction here spends, in the order of arrival, then of their index.
    pub fn unspent_of(&self, script: &ScriptHash) -> Vec<(OutPoint, Option<Amount>)> {
        let mut unspent = Vec::new();
        for entry in self.of_script(script) {
            for (vout, output) in (0u32..).zip(entry.tx().outputs()) {
                let outpoint = OutPoint::new(entry.txid, vout);
                if ScriptHash::of(output.script) == *script && !self.edges.contains_key(&outpoint) {
                    let amount = output.coin.explicit_value().map(Amount::from_sat);
                    unspent.push((outpoint, amount));
                }
            }
        }
        unspent
    }

    /// What the transactions here fund and spend of a script. Sums stay far below their range: all coins there can be are
    /// 2^51 satoshi, and a state never spends one twice.
    pub fn stats_of(&self, script: &ScriptHash) -> ScriptStats {
        let mut stats = ScriptStats::default();
        for entry in self.of_script(script) {
            stats.tx_count += 1;
            let ours = |output: &TxOut| ScriptHash::of(output.script_pubkey.as_bytes()) == *script;
            for output in entry.tx().output.iter().filter(|output| ours(output)) {
                stats.funded_txo_count += 1;
                stats.funded_txo_sum = stats.funded_txo_sum.saturating_add(output.value.to_sat());
            }
            let spent = entry.prevouts.iter().flatten();
            for output in spent.filter(|output| ours(output)) {
                stats.spent_txo_count += 1;
                stats.spent_txo_sum = stats.spent_txo_sum.saturating_add(output.value.to_sat());
            }
        }
        stats
    }

    /// The transaction here that spends an output, and with which input.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        self.edges.get(outpoint).copied()
    }

    /// An output of a transaction here, spent or not.
    pub fn output(&self, outpoint: &OutPoint) -> Option<Output> {
        let entry = self.txs.get(&Printed::of(&outpoint.txid))?;
        entry.tx().output(outpoint.vout as usize)
    }

    /// Whether a transaction spends an output of another one here.
    pub fn has_unconfirmed_parents(&self, entry: &MempoolEntry) -> bool {
        entry
            .tx()
            .spends()
            .any(|(_, outpoint)| self.contains(&outpoint.txid))
    }

    /// Uses up the number of the next transaction to arrive.
    pub(crate) fn count_arrival(&mut self) {
        self.next_arrival += 1;
    }

    /// The number of the next transaction to arrive.
    pub(crate) fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    pub(crate) fn set_loaded(&mut self, loaded: bool) {
        self.loaded = loaded;
    }

    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Forgets all transactions.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            sequence: self.sequence,
            next_arrival: self.next_arrival,
            ..Self::empty()
        };
    }

    /// Adds a transaction whose inputs are known and not spent by another one here.
    pub(crate) fn insert(&mut self, entry: MempoolEntry) {
        let entry = Arc::new(entry);
        debug_assert!(!self.contains(&entry.txid), "added twice");
        for (vin, outpoint) in entry.spends() {
            debug_assert!(!self.edges.contains_key(&outpoint), "spent twice");
            self.edges.insert_mut(outpoint, (entry.txid, vin));
        }
        for script in entry.scripts() {
            let of_script = match self.scripts.get(script) {
                Some(others) => others.clone().with(&entry),
                None => OfScript::One(Arc::clone(&entry)),
            };
            self.scripts.insert_mut(*script, of_script);
        }
        for asset in entry.assets() {
            let of_asset = match self.assets.get(&asset) {
                Some(others) => others.clone().with(&entry),
                None => OfScript::One(Arc::clone(&entry)),
            };
            self.assets.insert_mut(asset, of_asset);
        }
        let rate = entry.fee_rate();
        let at_rate = self.rates.get(&rate).copied().unwrap_or(0);
        self.rates.insert_mut(rate, at_rate + entry.vsize());
        self.vsize += entry.vsize();
        self.fee = self.fee.saturating_add(entry.fee);
        self.arrivals.insert_mut(entry.arrival, Arc::clone(&entry));
        self.txs.insert_mut(Printed::of(&entry.txid), entry);
        self.histogram = Arc::default();
    }

    /// Takes one transaction out, and leaves those that spend it.
    pub(crate) fn remove(&mut self, txid: &Txid) -> Option<Arc<MempoolEntry>> {
        let entry = self.entry(txid)?;
        self.txs.remove_mut(&Printed::of(txid));
        self.arrivals.remove_mut(&entry.arrival);
        for (_, outpoint) in entry.spends() {
            self.edges.remove_mut(&outpoint);
        }
        for script in entry.scripts() {
            let left = self
                .scripts
                .get(script)
                .and_then(|of_script| of_script.clone().without(entry.arrival));
            match left {
                Some(left) => self.scripts.insert_mut(*script, left),
                None => {
                    self.scripts.remove_mut(script);
                }
            }
        }
        for asset in entry.assets() {
            let left = self
                .assets
                .get(&asset)
                .and_then(|of_asset| of_asset.clone().without(entry.arrival));
            match left {
                Some(left) => self.assets.insert_mut(asset, left),
                None => {
                    self.assets.remove_mut(&asset);
                }
            }
        }
        let rate = entry.fee_rate();
        let at_rate = self.rates.get(&rate).copied().unwrap_or(0);
        match at_rate.saturating_sub(entry.vsize()) {
            0 => {
                self.rates.remove_mut(&rate);
            }
            left => self.rates.insert_mut(rate, left),
        }
        self.vsize = self.vsize.saturating_sub(entry.vsize());
        self.fee = self.fee.saturating_sub(entry.fee);
        self.histogram = Arc::default();
        Some(entry)
    }

    /// Takes a transaction out with all that spend it, directly or not. The first of the list is the transaction itself.
    pub(crate) fn remove_with_descendants(&mut self, txid: &Txid) -> Vec<Arc<MempoolEntry>> {
        let mut removed = Vec::new();
        let mut waiting = vec![*txid];
        while let Some(txid) = waiting.pop() {
            let Some(entry) = self.remove(&txid) else {
                continue;
            };
            let outputs = u32::try_from(entry.tx().output.len()).unwrap_or(u32::MAX);
            waiting.extend(self.spenders(&entry.txid, outputs).map(|(txid, _)| txid));
            removed.push(entry);
        }
        removed
    }

    /// Who spends the first `outputs` outputs of a transaction, be it here or not.
    pub(crate) fn spenders(&self, txid: &Txid, outputs: u32) -> impl Iterator<Item = (Txid, u32)> {
        (0..outputs).filter_map(|vout| self.spender(&OutPoint::new(*txid, vout)))
    }
}
