//! One unconfirmed transaction.

use std::cmp::Ordering;

use bitcoin::{OutPoint, Txid, Wtxid};
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_chain::walk::OutputRef;
use cairn_utxo_chain::{AssetId, Network, Output, Tx};

use crate::asset_events::{self, OfAsset};
use crate::rows::{self, AssetEvent};
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
    /// The spent output of each input, in input order; `None` for a peg-in.
    pub prevouts: Box<[Option<Output>]>,
    /// What it pays, base units.
    pub fee: u64,
    /// Weight units.
    pub weight: u32,
    /// When it was first seen here, Unix seconds.
    pub time: u64,
    /// Its number in the order of arrival; greater is later.
    pub arrival: u64,
    raw: Box<[u8]>,
    scripts: Box<[ScriptHash]>,
    /// On Elements: what it does with assets.
    events: Box<[OfAsset]>,
    network: Network,
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
    /// From a transaction of a network and the outputs it spends. `unspendables` tells whether scripts that nobody can ever
    /// spend have a history of their own.
    pub(crate) fn new(
        network: Network,
        whole: &WholeTx,
        prevouts: Box<[Option<Output>]>,
        time: u64,
        arrival: u64,
        unspendables: bool,
    ) -> Result<Self, EntryError> {
        let (tx, txid) = (&whole.tx, whole.txid);
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
        let fee = match network {
            Network::Bitcoin(_) => fee_paid(tx, prevouts.iter().flatten()),
            Network::Elements(chain) => tx.fee_outputs(chain.native_asset),
        };
        let fee = fee.ok_or(EntryError::NegativeFee(txid))?;
        let spent = prevouts.iter().flatten();
        let spent = spent.map(|output| output.script_pubkey.as_bytes());
        let paid = tx
            .outputs()
            .filter(|output| !output.coin.is_fee(output.script));
        let mut scripts: Vec<ScriptHash> = spent
            .chain(paid.map(|output| output.script))
            .filter(|script| unspendables || !rows::is_unspendable(network.family(), script))
            .map(ScriptHash::of)
            .collect();
        scripts.sort_unstable();
        scripts.dedup();
        let events = match network {
            Network::Bitcoin(_) => Vec::new(),
            Network::Elements(chain) => {
                let spent = |vin: u32, _: &OutPoint| {
                    let output = prevouts.get(vin as usize).and_then(Option::as_ref);
                    output.map(output_ref).ok_or(EntryError::Prevouts {
                        txid,
                        inputs: tx.input.len(),
                        prevouts: prevouts.len(),
                    })
                };
                asset_events::of_tx(chain, tx, txid, tx.spends(), spent)?.0
            }
        };
        Ok(Self {
            txid,
            wtxid: whole.wtxid(),
            prevouts,
            fee,
            weight: whole.weight,
            time,
            arrival,
            raw: whole.raw.clone().into_boxed_slice(),
            scripts: scripts.into_boxed_slice(),
            events: events.into_boxed_slice(),
            network,
        })
    }

    /// The transaction, decoded anew at each call: serialized it takes half the memory.
    pub fn tx(&self) -> Tx {
        let decoded = Tx::decode_all(self.network.family(), &self.raw);
        decoded.expect("these bytes were decoded before").tx
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

    /// Sum of the spent outputs, satoshi; `None` on Elements, where they may be blinded.
    pub fn input_value(&self) -> Option<u64> {
        self.network.bitcoin()?;
        // Checked when the entry was made.
        let spent = self.prevouts.iter().flatten();
        Some(
            spent
                .map(|output| output.value.to_sat())
                .fold(0, u64::saturating_add),
        )
    }

    /// What it does with an asset (Elements).
    pub(crate) fn events_of(&self, asset: &AssetId) -> impl Iterator<Item = &AssetEvent> {
        self.events
            .iter()
            .filter(move |(of, _)| of == asset)
            .map(|(_, event)| event)
    }

    /// The assets that it openly touches, each once, ascending (Elements).
    pub fn assets(&self) -> Vec<AssetId> {
        let mut assets: Vec<AssetId> = self.events.iter().map(|(asset, _)| *asset).collect();
        assets.sort_unstable();
        assets.dedup();
        assets
    }

    /// The virtual bytes by which Liquid's nodes price it, rounded up; on Bitcoin the same as [`MempoolEntry::vsize`].
    pub fn discount_vsize(&self) -> u64 {
        match self.network {
            Network::Bitcoin(_) => self.vsize(),
            Network::Elements(_) => {
                (self.tx().discount_weight(self.weight as usize) as u64).div_ceil(4)
            }
        }
    }

    /// The scripts it funds or spends, each once, ascending.
    pub fn scripts(&self) -> &[ScriptHash] {
        &self.scripts
    }

    /// What its inputs spend, with the index of the input, in input order.
    pub fn spends(&self) -> Vec<(u32, OutPoint)> {
        self.tx().spends().collect()
    }
}

fn output_ref(output: &Output) -> OutputRef<'_> {
    OutputRef {
        script: output.script_pubkey.as_bytes(),
        coin: output.coin(),
    }
}

/// What inputs are worth more than outputs, on Bitcoin; `None` if it is less.
pub(crate) fn fee_paid<'a>(tx: &Tx, spent: impl Iterator<Item = &'a Output>) -> Option<u64> {
    let mut amounts = spent.map(|output| output.value.to_sat());
    let spent = amounts.try_fold(0u64, u64::checked_add)?;
    let mut amounts = tx.output.iter().map(|output| output.value.to_sat());
    let paid = amounts.try_fold(0u64, u64::checked_add)?;
    spent.checked_sub(paid)
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
