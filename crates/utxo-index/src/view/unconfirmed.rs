//! Answers about chain and mempool together.

use std::collections::HashSet;

use bitcoin::{OutPoint, Txid};

use super::{Result, View};
use crate::mempool::MempoolEntry;
use crate::types::{QueryError, ScriptHash, Spending, TxRecord, Unspent};

impl View {
    /// Who spends an output, on the chain or in the mempool.
    pub fn spending(&self, outpoint: &OutPoint) -> Result<Option<Spending>> {
        if let Some(spend) = self.spend(outpoint)? {
            return Ok(Some(Spending {
                txid: spend.txid,
                vin: spend.vin,
                block: Some(spend.block),
            }));
        }
        Ok(self.unconfirmed_spending(outpoint))
    }

    fn unconfirmed_spending(&self, outpoint: &OutPoint) -> Option<Spending> {
        let (txid, vin) = self.mempool().spender(outpoint)?;
        Some(Spending {
            txid,
            vin,
            block: None,
        })
    }

    /// Who spends each output of a transaction, which may itself be unconfirmed; `None` for an unknown one.
    pub fn spendings(&self, txid: &Txid) -> Result<Option<Vec<Option<Spending>>>> {
        let mut spendings: Vec<Option<Spending>> = match self.mempool().entry(txid) {
            Some(entry) => vec![None; entry.tx().output.len()],
            None => {
                let Some(spends) = self.spends_of(txid)? else {
                    return Ok(None);
                };
                let spending = |spend: crate::types::Spend| Spending {
                    txid: spend.txid,
                    vin: spend.vin,
                    block: Some(spend.block),
                };
                spends
                    .into_iter()
                    .map(|spend| spend.map(spending))
                    .collect()
            }
        };
        for (vout, slot) in (0u32..).zip(&mut spendings) {
            if slot.is_none() {
                *slot = self.unconfirmed_spending(&OutPoint::new(*txid, vout));
            }
        }
        Ok(Some(spendings))
    }

    /// Outputs of a script that neither chain nor mempool spends: those of the chain as [`View::utxos`] orders them, then
    /// those of the mempool by arrival.
    ///
    /// # Errors
    /// As [`View::utxos`]; [`QueryError::TooManyUtxos`] also when both together are more than the limit.
    pub fn unspent(&self, script: &ScriptHash) -> Result<Vec<Unspent>> {
        let mempool = self.mempool();
        let mut unspent: Vec<Unspent> = self
            .utxos(script)?
            .into_iter()
            .filter(|utxo| mempool.spender(&utxo.outpoint).is_none())
            .map(|utxo| Unspent {
                outpoint: utxo.outpoint,
                value: utxo.value,
                block: Some(utxo.block),
            })
            .collect();
        unspent.extend(
            mempool
                .unspent_of(script)
                .into_iter()
                .map(|(outpoint, value)| Unspent {
                    outpoint,
                    value,
                    block: None,
                }),
        );
        if unspent.len() > self.shared.utxos_limit {
            return Err(QueryError::TooManyUtxos);
        }
        Ok(unspent)
    }

    /// The unconfirmed transactions that fund or spend any of the scripts, each once, the last to arrive first.
    pub fn unconfirmed_of(&self, scripts: &[ScriptHash]) -> Vec<std::sync::Arc<MempoolEntry>> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        for script in scripts {
            for entry in self.mempool().of_script(script) {
                if scripts.len() == 1 || seen.insert(entry.txid) {
                    entries.push(entry);
                }
            }
        }
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.arrival));
        entries
    }
}

impl MempoolEntry {
    /// The transaction in the form in which confirmed ones are answered.
    pub fn record(&self) -> TxRecord {
        TxRecord {
            txid: self.txid,
            tx: self.tx(),
            size: self.size(),
            weight: self.weight,
            block: None,
            prevouts: self.prevouts.to_vec(),
            fee: self.fee,
        }
    }
}
