//! Taking transactions in: inputs first found, then all added in one step.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::{OutPoint, Txid};
use cairn_utxo_chain::tx::WholeTx;
use cairn_utxo_chain::{Network, Output, Tx};

use super::changes::Journal;
use super::{MempoolEntry, MempoolView};
use crate::types::QueryError;
use crate::view::View;

/// A transaction that the node has taken.
pub(crate) type Candidate = WholeTx;

/// Outputs of the chain that candidates spend.
pub(crate) type ChainOutputs = HashMap<OutPoint, Output>;

/// Who stays when a candidate spends what another unconfirmed transaction spends already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The candidate: it is newer.
    Replace,
    /// Those that arrived at this number or later; they are newer than the list the candidate is from.
    KeepFrom(u64),
}

/// What transactions are taken in by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// What they spend of the chain.
    pub(crate) outputs: &'a ChainOutputs,
    /// Who stays when two spend the same.
    pub(crate) conflict: Conflict,
    /// Whether scripts that nobody can ever spend have a history.
    pub(crate) unspendables: bool,
    /// The chain they are of.
    pub(crate) network: Network,
}

/// Reads from the chain what candidates spend of it, but for what is in `known` already. Needs no lock.
pub(crate) fn chain_outputs(
    view: &View,
    candidates: &[Candidate],
    known: &mut ChainOutputs,
) -> Result<(), QueryError> {
    let siblings: HashSet<Txid> = candidates.iter().map(|candidate| candidate.txid).collect();
    let wanted: Vec<OutPoint> = candidates
        .iter()
        .flat_map(|candidate| candidate.tx.spends())
        .map(|(_, outpoint)| outpoint)
        .filter(|outpoint| {
            !siblings.contains(&outpoint.txid)
                && !known.contains_key(outpoint)
                && !view.mempool().contains(&outpoint.txid)
        })
        .collect();
    for (outpoint, output) in wanted.iter().zip(view.confirmed_outputs(&wanted)?) {
        if let Some(output) = output {
            known.insert(*outpoint, output);
        }
    }
    Ok(())
}

/// Whether the chain of a view has room for a transaction: it is not confirmed there, and none of the outputs it spends
/// there is spent.
pub(crate) fn is_open(view: &View, candidate: &Candidate) -> Result<bool, QueryError> {
    if view.confirming_block(&candidate.txid)?.is_some() {
        return Ok(false);
    }
    for (_, outpoint) in candidate.tx.spends() {
        if view.spend(&outpoint)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl MempoolView {
    /// Adds the candidates whose inputs are all known, parents before children in whatever order they come. Returns those
    /// of which an input is not known (yet): they and what spends them stay out.
    pub(crate) fn admit(
        &mut self,
        candidates: Vec<Candidate>,
        terms: Terms<'_>,
        journal: &mut Journal,
    ) -> Vec<Candidate> {
        let mut waiting = candidates;
        loop {
            let before = waiting.len();
            let mut left = Vec::new();
            for candidate in waiting {
                if self.contains(&candidate.txid) {
                    continue;
                }
                match self.prevouts(&candidate.tx, terms.outputs) {
                    Some(prevouts) => self.admit_one(&candidate, prevouts, terms, journal),
                    None => left.push(candidate),
                }
            }
            if left.is_empty() || left.len() == before {
                return left;
            }
            waiting = left;
        }
    }

    fn prevouts(&self, tx: &Tx, outputs: &ChainOutputs) -> Option<Box<[Option<Output>]>> {
        let mut prevouts = vec![None; tx.input.len()];
        for (vin, outpoint) in tx.spends() {
            let known = outputs.get(&outpoint).cloned();
            prevouts[vin as usize] = Some(known.or_else(|| self.output(&outpoint))?);
        }
        Some(prevouts.into_boxed_slice())
    }

    fn admit_one(
        &mut self,
        candidate: &Candidate,
        prevouts: Box<[Option<Output>]>,
        terms: Terms<'_>,
        journal: &mut Journal,
    ) {
        let mut rivals = Vec::new();
        for (_, outpoint) in candidate.tx.spends() {
            if let Some((rival, _)) = self.spender(&outpoint) {
                rivals.push(rival);
            }
        }
        if let Conflict::KeepFrom(arrival) = terms.conflict
            && rivals
                .iter()
                .filter_map(|rival| self.entry(rival))
                .any(|entry| entry.arrival >= arrival)
        {
            return;
        }
        let arrival = self.next_arrival();
        let entry = match MempoolEntry::new(
            terms.network,
            candidate,
            prevouts,
            now(),
            arrival,
            terms.unspendables,
        ) {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!(%error, "the node's mempool has an impossible transaction; it is left out");
                return;
            }
        };
        let had_rivals = !rivals.is_empty();
        for rival in rivals {
            for gone in self.remove_with_descendants(&rival) {
                journal.remove(&gone);
            }
        }
        if had_rivals && self.prevouts(&candidate.tx, terms.outputs).is_none() {
            // It spends what it replaces, which no node would have taken.
            return;
        }
        self.count_arrival();
        journal.add(&entry);
        self.insert(entry);
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
