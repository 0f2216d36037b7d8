//! One unconfirmed transaction.

use std::cmp::Ordering;

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{OutPoint, Transaction, TxOut, Txid, Wtxid};

use crate::rows;
use crate::types::ScriptHash;

/// A fee for a weight; compared exactly, without rounding.
#[derive(Debug, Clone, Copy)]
pub struct FeeRate {
    /// Satoshi.
    pub fee: u64,
    /// Weight units; never 0.
    pub weight: u32,
}

impl FeeRate {
    /// Satoshi per virtual byte, for showing.
    pub fn sat_per_vb(&self) -> f64 {
        self.fee as f64 * 4.0 / f64::from(self.weight)
    }
}

impl PartialEq for FeeRate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FeeRate {}

impl PartialOrd for FeeRate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FeeRate {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.fee) * u128::from(other.weight);
        let right = u128::from(other.fee) * u128::from(self.weight);
        left.cmp(&right)
    }
}

/// An unconfirmed transaction with all that is needed to show it. Never changes; states share it.
#[derive(Debug, PartialEq, Eq)]
pub struct MempoolEntry {
    /// Its id.
    pub txid: Txid,
    /// Its id with the witness.
    pub wtxid: Wtxid,
    /// The spent output of each input, in input order.
    pub prevouts: Box<[TxOut]>,
    /// What the inputs are worth more than the outputs, satoshi.
    pub fee: u64,
    /// Weight units.
    pub weight: u32,
    /// When it was first seen here, Unix seconds.
    pub time: u64,
    /// Its number in the order of arrival; greater is later.
    pub arrival: u64,
    raw: Box<[u8]>,
    scripts: Box<[ScriptHash]>,
}

/// Why a transaction is not one that can be unconfirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("{0} is a coinbase")]
    Coinbase(Txid),
    #[error("{0} pays out more than its inputs are worth")]
    NegativeFee(Txid),
    #[error("{txid} has {inputs} inputs, but {prevouts} previous outputs were found")]
    Prevouts {
        txid: Txid,
        inputs: usize,
        prevouts: usize,
    },
}

impl MempoolEntry {
    /// From a transaction and the outputs it spends. `unspendables` tells whether scripts that nobody can ever spend have
    /// a history of their own.
    pub(crate) fn new(
        tx: &Transaction,
        prevouts: Box<[TxOut]>,
        time: u64,
        arrival: u64,
        unspendables: bool,
    ) -> Result<Self, EntryError> {
        let txid = tx.compute_txid();
        if tx.is_coinbase() || tx.input.is_empty() {
            return Err(EntryError::Coinbase(txid));
        }
        if prevouts.len() != tx.input.len() {
            return Err(EntryError::Prevouts {
                txid,
                inputs: tx.input.len(),
                prevouts: prevouts.len(),
            });
        }
        fn sum<'a>(mut outputs: impl Iterator<Item = &'a TxOut>) -> Option<u64> {
            outputs.try_fold(0u64, |sum, output| sum.checked_add(output.value.to_sat()))
        }
        let fee = sum(prevouts.iter())
            .zip(sum(tx.output.iter()))
            .and_then(|(spent, paid)| spent.checked_sub(paid))
            .ok_or(EntryError::NegativeFee(txid))?;
        let mut scripts: Vec<ScriptHash> = prevouts
            .iter()
            .chain(&tx.output)
            .map(|output| output.script_pubkey.as_bytes())
            .filter(|script| unspendables || !rows::is_provably_unspendable(script))
            .map(ScriptHash::of)
            .collect();
        scripts.sort_unstable();
        scripts.dedup();
        Ok(Self {
            txid,
            wtxid: tx.compute_wtxid(),
            prevouts,
            fee,
            weight: u32::try_from(tx.weight().to_wu()).unwrap_or(u32::MAX),
            time,
            arrival,
            raw: serialize(tx).into_boxed_slice(),
            scripts: scripts.into_boxed_slice(),
        })
    }

    /// The transaction, decoded anew at each call: serialized it takes half the memory.
    pub fn tx(&self) -> Transaction {
        deserialize(&self.raw).expect("these bytes were made by serializing a transaction")
    }

    /// The serialized transaction, with witness.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Serialized size in bytes, witness included.
    pub fn size(&self) -> u32 {
        u32::try_from(self.raw.len()).unwrap_or(u32::MAX)
    }

    /// Virtual bytes: weight / 4, rounded up.
    pub fn vsize(&self) -> u64 {
        u64::from(self.weight).div_ceil(4)
    }

    /// Its fee rate.
    pub fn fee_rate(&self) -> FeeRate {
        FeeRate {
            fee: self.fee,
            weight: self.weight.max(1),
        }
    }

    /// Sum of the spent outputs, satoshi.
    pub fn input_value(&self) -> u64 {
        // Checked when the entry was made.
        self.prevouts
            .iter()
            .map(|output| output.value.to_sat())
            .fold(0, u64::saturating_add)
    }

    /// The scripts it funds or spends, each once, ascending.
    pub fn scripts(&self) -> &[ScriptHash] {
        &self.scripts
    }

    /// What its inputs spend, in input order.
    pub fn spends(&self) -> Vec<OutPoint> {
        self.tx()
            .input
            .iter()
            .map(|input| input.previous_output)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_without_rounding() {
        let rate = |fee, weight| FeeRate { fee, weight };
        assert_eq!(rate(1000, 400), rate(2000, 800));
        assert!(rate(1000, 399) > rate(1000, 400));
        assert!(rate(u64::MAX, u32::MAX) < rate(u64::MAX, u32::MAX - 1));
        assert!(rate(1_000_000_000_000_001, 4) > rate(1_000_000_000_000_000, 4));
        assert_eq!(rate(100, 400).sat_per_vb(), 1.0);
    }
}
