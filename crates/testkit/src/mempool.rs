//! A node's mempool in memory: a plain list with the rules that matter to an index, for tests that want no node.
//!
//! No maps that could go stale: after every change of the chain the list is gone through from the start, and what is not valid
//! any more is left out.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bitcoin::{BlockHash, OutPoint, Transaction, TxOut, Txid};
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_node::{MempoolListing, MempoolSource, MempoolStamp, SourceError};

use crate::mine::COINBASE_MATURITY;
use crate::model::{Model, ScriptHash, is_unspendable, script_hash};

/// Unconfirmed transactions, parents before children.
#[derive(Debug, Clone, Default)]
pub struct MempoolModel {
    txs: Vec<Transaction>,
}

impl MempoolModel {
    /// All transactions, parents before children.
    pub fn txs(&self) -> &[Transaction] {
        &self.txs
    }

    /// Their ids.
    pub fn txids(&self) -> Vec<Txid> {
        self.txs.iter().map(Transaction::compute_txid).collect()
    }

    /// A transaction.
    pub fn tx(&self, txid: &Txid) -> Option<&Transaction> {
        self.txs.iter().find(|tx| tx.compute_txid() == *txid)
    }

    /// Takes a transaction in, and what it contradicts out with its descendants. False if an input is not there to be spent on
    /// top of the chain; then nothing changes.
    pub fn add(&mut self, chain: &Model, tx: Transaction) -> bool {
        let txid = tx.compute_txid();
        if chain.place(&txid).is_some() || self.tx(&txid).is_some() {
            return false;
        }
        let rivals: Vec<Txid> = tx
            .input
            .iter()
            .filter_map(|input| self.spender(&input.previous_output))
            .map(|(rival, _)| rival)
            .collect();
        let mut without = self.clone();
        rivals.iter().for_each(|rival| without.evict(rival));
        if without.prevouts(chain, &tx).is_none() {
            return false;
        }
        *self = without;
        self.txs.push(tx);
        true
    }

    /// Takes a transaction out with its descendants.
    pub fn evict(&mut self, txid: &Txid) {
        let mut gone = HashSet::from([*txid]);
        self.txs.retain(|tx| {
            let id = tx.compute_txid();
            let goes = gone.contains(&id)
                || tx
                    .input
                    .iter()
                    .any(|input| gone.contains(&input.previous_output.txid));
            if goes {
                gone.insert(id);
            }
            !goes
        });
    }

    /// Leaves out what is not valid on top of the chain any more; `returning` are transactions of blocks that left it, in the
    /// order of the chain.
    pub fn follow(&mut self, chain: &Model, returning: Vec<Transaction>) {
        let before = std::mem::take(&mut self.txs);
        for tx in returning.into_iter().chain(before) {
            let taken = tx
                .input
                .iter()
                .any(|input| self.spender(&input.previous_output).is_some());
            if !taken {
                self.add(chain, tx);
            }
        }
    }

    /// What each input of a transaction spends; `None` if one of them cannot be spent in the next block.
    pub fn prevouts(&self, chain: &Model, tx: &Transaction) -> Option<Vec<TxOut>> {
        tx.input
            .iter()
            .map(|input| {
                let outpoint = &input.previous_output;
                if let Some(parent) = self.tx(&outpoint.txid) {
                    return parent.output.get(outpoint.vout as usize).cloned();
                }
                let utxo = chain.utxo(outpoint)?;
                let mature =
                    !utxo.coinbase || utxo.place.height + COINBASE_MATURITY <= chain.height() + 1;
                mature.then(|| utxo.output.clone())
            })
            .collect()
    }

    /// The transaction that spends an output, and with which input.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        self.txs.iter().find_map(|tx| {
            let vin = tx
                .input
                .iter()
                .position(|input| input.previous_output == *outpoint)?;
            Some((tx.compute_txid(), vin as u32))
        })
    }

    /// What each transaction funds and spends of each script that can be spent, in the order of the list.
    pub fn touches(&self, chain: &Model) -> HashMap<ScriptHash, Vec<MempoolTouch>> {
        let mut touches: HashMap<ScriptHash, Vec<MempoolTouch>> = HashMap::new();
        for tx in &self.txs {
            let txid = tx.compute_txid();
            let prevouts = self
                .prevouts(chain, tx)
                .expect("the list holds valid transactions only");
            for output in &prevouts {
                touches
                    .entry(script_hash(&output.script_pubkey))
                    .or_default()
                    .push(MempoolTouch {
                        txid,
                        value: output.value.to_sat(),
                        funds: None,
                    });
            }
            for (vout, output) in (0u32..).zip(&tx.output) {
                if is_unspendable(&output.script_pubkey) {
                    continue;
                }
                touches
                    .entry(script_hash(&output.script_pubkey))
                    .or_default()
                    .push(MempoolTouch {
                        txid,
                        value: output.value.to_sat(),
                        funds: Some(vout),
                    });
            }
        }
        touches
    }
}

/// One output that an unconfirmed transaction creates or spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolTouch {
    /// The transaction.
    pub txid: Txid,
    /// Satoshi.
    pub value: u64,
    /// Which of its outputs, if it funds; `None` if it spends.
    pub funds: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    tip: Option<BlockHash>,
    order: Vec<Txid>,
    txs: HashMap<Txid, Transaction>,
    fetched: u64,
}

/// A [`MempoolSource`] whose content the test sets.
#[derive(Debug, Default)]
pub struct MemoryMempool(Mutex<State>);

impl MemoryMempool {
    /// The content from now on, on a chain with this tip. The list gives the ids in the order of `txs`.
    pub fn set(&self, tip: BlockHash, txs: impl IntoIterator<Item = Transaction>) {
        let mut state = self.lock();
        state.tip = Some(tip);
        state.order.clear();
        state.txs.clear();
        for tx in txs {
            let txid = tx.compute_txid();
            state.order.push(txid);
            state.txs.insert(txid, tx);
        }
    }

    /// The list still names this transaction, but it cannot be fetched: it went in between.
    pub fn lose(&self, txid: &Txid) {
        self.lock().txs.remove(txid);
    }

    /// How many transactions were fetched so far.
    pub fn fetched(&self) -> u64 {
        self.lock().fetched
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock left nothing half-done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MempoolSource for MemoryMempool {
    fn list(&self) -> Result<MempoolListing, SourceError> {
        let state = self.lock();
        let tip = state
            .tip
            .ok_or_else(|| SourceError::Unavailable("the mempool in memory is not set".into()))?;
        Ok(MempoolListing {
            tip,
            txids: state.order.clone(),
        })
    }

    fn fetch(&self, txids: &[Txid]) -> Result<Vec<Option<WholeTx>>, SourceError> {
        let mut state = self.lock();
        state.fetched += txids.len() as u64;
        Ok(txids
            .iter()
            .map(|txid| state.txs.get(txid).cloned().map(WholeTx::from))
            .collect())
    }

    fn stamp(&self) -> Result<MempoolStamp, SourceError> {
        let listing = self.list()?;
        Ok(MempoolStamp {
            tip: listing.tip,
            count: listing.txids.len() as u64,
            bytes: 0,
            usage: 0,
        })
    }

    fn wait(&self, timeout: Duration) {
        std::thread::sleep(timeout);
    }
}
