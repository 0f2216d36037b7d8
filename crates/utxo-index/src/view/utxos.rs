//! Unspent outputs of a script, with the `U` rows of the cache.
//!
//! The fold inserts on funding rows and removes on spending rows. The set in between can be far larger than the final
//! one (a busy script that is empty most evenings), so it is bounded: when it grows over ten times the limit, outputs
//! that are known to be spent later are taken out by their spend edges. What remains are outputs that stay unspent, and
//! if those alone are too many, the answer is known. So a script with few coins left is always answered, whatever it
//! once held, and memory is bounded for every script.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::{Amount, BlockHash, OutPoint, Txid};

use super::fold::{Budget, CACHE_ROWS_MIN, Fold, Outcome};
use super::{Result, View};
use crate::engine::{Durability, Family};
use crate::rows::{self, HistKey, HistSide, RowKind};
use crate::types::{BlockRef, QueryError, ScriptHash, Utxo};

/// How much larger than the limit the set may be in between.
const INTERMEDIATE_FACTOR: usize = 10;
/// What one look at a spend edge costs of the budget, in rows.
const EDGE_ROWS: usize = 10;

/// Outputs by outpoint. Those that come from a `U` row have no height and value yet: they are looked up for the few that
/// are left at the end.
type Coins = HashMap<OutPoint, Option<Coin>>;

#[derive(Debug, Clone, Copy)]
struct Coin {
    /// `None`: blinded.
    value: Option<u64>,
    height: u32,
}

/// A fold that ran out of budget after outputs were taken out ahead of time. Such a state belongs to its target block
/// and not to the height it has reached, so it cannot be a `U` row; it is kept in memory.
pub(crate) struct Unfinished {
    target: BlockHash,
    next: u32,
    coins: Coins,
}

impl View {
    /// Unspent outputs of a script: by height, then position in the block, then vout.
    ///
    /// [`QueryError::TooManyUtxos`] when the final set is larger than the limit, [`QueryError::TooManyRows`] when the
    /// history is larger than one request may visit; then asking again continues.
    pub fn utxos(&self, script: &ScriptHash) -> Result<Vec<Utxo>> {
        let key = (*script, self.tip.hash);
        let utxos =
            self.shared
                .utxos
                .get_or_insert_with(&key, || match self.fold_utxos(script) {
                    Ok(utxos) => Ok(Some(Arc::new(utxos))),
                    // Known for this tip too, and not to be found out again by the next one who asks.
                    Err(QueryError::TooManyUtxos) => Ok(None),
                    Err(error) => Err(error),
                })?;
        utxos
            .map(|utxos| utxos.as_ref().clone())
            .ok_or(QueryError::TooManyUtxos)
    }

    fn fold_utxos(&self, script: &ScriptHash) -> Result<Vec<Utxo>> {
        if self.is_unspendable(script)? {
            return Ok(Vec::new());
        }
        let mut budget = Budget::new(self.shared.fold_rows_max());
        let (mut coins, mut from) = (Coins::new(), 0);
        if let Some(settled) = self.settled_height() {
            (coins, from) = self.settled_coins(script, settled, &mut budget)?;
        }
        let mut budget = Budget::new(usize::MAX);
        self.advance(script, &mut coins, from, self.tip.height, &mut budget)?;
        if coins.len() > self.shared.utxos_limit {
            return Err(QueryError::TooManyUtxos);
        }
        self.resolve(coins)
    }

    /// The set after the settled block, from the cache as far as possible, and the height from which to go on.
    fn settled_coins(
        &self,
        script: &ScriptHash,
        settled: u32,
        budget: &mut Budget,
    ) -> Result<(Coins, u32)> {
        if let Some((coins, from)) = self.continue_unfinished(script, budget)? {
            return self.finish_settled(script, coins, from, settled, budget, true);
        }
        match self.cached_utxos(script)? {
            Some((coins, height)) if height >= settled => Ok((coins, height + 1)),
            Some((coins, height)) => {
                self.finish_settled(script, coins, height + 1, settled, budget, true)
            }
            None => self.finish_settled(script, Coins::new(), 0, settled, budget, false),
        }
    }

    /// Goes on with a set that was put aside, up to its own target.
    fn continue_unfinished(
        &self,
        script: &ScriptHash,
        budget: &mut Budget,
    ) -> Result<Option<(Coins, u32)>> {
        let Some((_, unfinished)) = self.shared.unfinished.remove(script) else {
            return Ok(None);
        };
        let Some(target) = self.best_chain_block(&unfinished.target) else {
            return Ok(None);
        };
        let mut coins = unfinished.coins.clone();
        let advanced = self.advance(script, &mut coins, unfinished.next, target.height, budget)?;
        self.keep_or_fail(script, coins, advanced, target)
            .map(|coins| Some((coins, target.height + 1)))
    }

    /// Folds up to the settled block and stores the result.
    fn finish_settled(
        &self,
        script: &ScriptHash,
        mut coins: Coins,
        from: u32,
        settled: u32,
        budget: &mut Budget,
        was_stored: bool,
    ) -> Result<(Coins, u32)> {
        if from > settled {
            return Ok((coins, from));
        }
        let target = self.expect_block_at(settled)?;
        let advanced = self.advance(script, &mut coins, from, settled, budget)?;
        let visited = advanced.visited;
        let coins = self.keep_or_fail(script, coins, advanced, target)?;
        if visited > CACHE_ROWS_MIN || (was_stored && visited > 0) {
            self.store_utxos(script, &coins, target)?;
        }
        Ok((coins, settled + 1))
    }

    /// Passes a complete set on; keeps an incomplete one for the next request and fails with the reason.
    fn keep_or_fail(
        &self,
        script: &ScriptHash,
        coins: Coins,
        advanced: Advanced,
        target: BlockRef,
    ) -> Result<Coins> {
        let Some((next, error)) = advanced.stopped else {
            return Ok(coins);
        };
        if advanced.thinned {
            let unfinished = Unfinished {
                target: target.hash,
                next,
                coins,
            };
            self.shared.unfinished.insert(*script, Arc::new(unfinished));
        } else {
            self.store_utxos(script, &coins, self.expect_block_at(next - 1)?)?;
        }
        Err(error)
    }

    /// Folds the heights `from..=to` into the set. Fails with `TooManyUtxos` as soon as more outputs than fit are known
    /// to be unspent after `to`.
    fn advance(
        &self,
        script: &ScriptHash,
        coins: &mut Coins,
        from: u32,
        to: u32,
        budget: &mut Budget,
    ) -> Result<Advanced> {
        let intermediate_max = self.shared.utxos_limit.saturating_mul(INTERMEDIATE_FACTOR);
        let mut advanced = Advanced {
            visited: 0,
            thinned: false,
            stopped: None,
        };
        let mut fold = CoinsFold {
            coins: std::mem::take(coins),
            most: intermediate_max,
            full: false,
            height: from,
        };
        let mut next = from;
        loop {
            let (outcome, visited) = self.fold(&script.0, next, to, budget, &mut fold)?;
            advanced.visited += visited;
            if let Outcome::Stopped { next, error } = outcome {
                advanced.stopped = Some((next, error));
                break;
            }
            if !fold.full {
                break;
            }
            // The fold stopped at the end of a height because the set was full.
            next = fold.height + 1;
            budget.spend(fold.coins.len() * EDGE_ROWS);
            self.take_out_spent(&mut fold.coins, to)?;
            advanced.thinned = true;
            if fold.coins.len() > intermediate_max {
                return Err(QueryError::TooManyUtxos);
            }
            // Twice what is left, so that the next time comes only after as much work as this was.
            fold.most = intermediate_max.max(fold.coins.len() * 2);
            fold.full = false;
        }
        *coins = fold.coins;
        Ok(advanced)
    }

    /// Removes outputs that are spent at or below a height.
    fn take_out_spent(&self, coins: &mut Coins, height: u32) -> Result<()> {
        let mut spent = Vec::new();
        for outpoint in coins.keys() {
            if self
                .spend(outpoint)?
                .is_some_and(|spend| spend.block.height <= height)
            {
                spent.push(*outpoint);
            }
        }
        for outpoint in spent {
            coins.remove(&outpoint);
        }
        Ok(())
    }

    /// The stored set and its height, if its block is on the chain.
    fn cached_utxos(&self, script: &ScriptHash) -> Result<Option<(Coins, u32)>> {
        let Some(value) = self
            .shared
            .stores
            .cache
            .get(Family::Cache, &rows::utxo_key(script))?
        else {
            return Ok(None);
        };
        let (outpoints, hash) = rows::decode_utxo_value(&value)?;
        let Some(block) = self.best_chain_block(&hash) else {
            return Ok(None);
        };
        Ok(Some((
            outpoints
                .into_iter()
                .map(|outpoint| (outpoint, None))
                .collect(),
            block.height,
        )))
    }

    fn store_utxos(&self, script: &ScriptHash, coins: &Coins, block: BlockRef) -> Result<()> {
        let mut outpoints: Vec<&OutPoint> = coins.keys().collect();
        outpoints.sort_unstable_by_key(|outpoint| rows::out_key(&outpoint.txid, outpoint.vout));
        let mut value = Vec::new();
        rows::write_utxo_value(outpoints.into_iter(), &block.hash, &mut value);
        let cache = &self.shared.stores.cache;
        let mut batch = cache.batch();
        batch.put(Family::Cache, &rows::utxo_key(script), &value);
        Ok(cache.write(batch, Durability::Logged)?)
    }

    /// Whether nobody can ever spend outputs of this script. Only `index-unspendables` makes rows for such scripts; they
    /// count in statistics, but they are not unspent outputs.
    fn is_unspendable(&self, script: &ScriptHash) -> Result<bool> {
        if !self.shared.features.index_unspendables {
            return Ok(false);
        }
        let prefix = rows::id_prefix(RowKind::History, &script.0);
        let mut cursor = self.history.prefix_cursor(Family::Hist, &prefix);
        cursor.seek(&prefix);
        while let Some(key) = cursor.key()? {
            let row = HistKey::decode(key)?;
            if let HistSide::Funding { vout } = row.side {
                let output = self
                    .outputs(&[OutPoint::new(row.txid, vout)])?
                    .pop()
                    .flatten();
                return Ok(output.is_some_and(|output| {
                    rows::is_unspendable(
                        self.shared.network.family(),
                        output.script_pubkey.as_bytes(),
                    )
                }));
            }
            cursor.next();
        }
        Ok(false)
    }

    /// Completes the outputs and puts them in order.
    fn resolve(&self, coins: Coins) -> Result<Vec<Utxo>> {
        let unknown: Vec<OutPoint> = coins
            .iter()
            .filter(|(_, coin)| coin.is_none())
            .map(|(outpoint, _)| *outpoint)
            .collect();
        let blocks = self.confirming_blocks(unknown.iter().map(|outpoint| outpoint.txid))?;
        let damaged = |outpoint: &OutPoint| {
            QueryError::Store(format!(
                "output {outpoint} is in a cached set, but not in the index; delete the cache"
            ))
        };
        let mut utxos = Vec::with_capacity(coins.len());
        for (outpoint, output) in unknown.iter().zip(self.outputs(&unknown)?) {
            let output = output.ok_or_else(|| damaged(outpoint))?;
            let block = blocks
                .get(&outpoint.txid)
                .copied()
                .flatten()
                .ok_or_else(|| damaged(outpoint))?;
            utxos.push(Utxo {
                outpoint: *outpoint,
                value: output.amount().map(Amount::from_sat),
                block,
            });
        }
        for (outpoint, coin) in coins {
            if let Some(Coin { value, height }) = coin {
                let block = self.expect_block_at(height)?;
                utxos.push(Utxo {
                    outpoint,
                    value: value.map(Amount::from_sat),
                    block,
                });
            }
        }
        self.order_utxos(&mut utxos)?;
        Ok(utxos)
    }

    /// By height, then position in the block, then vout.
    fn order_utxos(&self, utxos: &mut [Utxo]) -> Result<()> {
        utxos.sort_unstable_by_key(|utxo| (utxo.block.height, utxo.outpoint));
        for same_block in utxos.chunk_by_mut(|a, b| a.block.height == b.block.height) {
            let block = same_block[0].block;
            let mut txids: Vec<Txid> = same_block.iter().map(|utxo| utxo.outpoint.txid).collect();
            txids.dedup();
            if txids.len() > 1 {
                let positions = self.positions(&block, &txids)?;
                same_block.sort_unstable_by_key(|utxo| {
                    (
                        positions.get(&utxo.outpoint.txid).copied(),
                        utxo.outpoint.vout,
                    )
                });
            }
        }
        Ok(())
    }
}

/// How far a set was brought.
struct Advanced {
    visited: usize,
    /// Whether outputs were taken out ahead of their spending row.
    thinned: bool,
    /// Next height and reason, when the budget ended the fold.
    stopped: Option<(u32, QueryError)>,
}

struct CoinsFold {
    coins: Coins,
    /// Size at which the fold stops, at the end of a height.
    most: usize,
    full: bool,
    height: u32,
}

impl Fold<HistKey> for CoinsFold {
    fn row(&mut self, row: &HistKey) -> Result<ControlFlow<()>> {
        // Full at the end of the height before: this row belongs to the next one and is left for later.
        if row.height != self.height && self.coins.len() > self.most {
            self.full = true;
            return Ok(ControlFlow::Break(()));
        }
        self.height = row.height;
        match row.side {
            HistSide::Funding { vout } => {
                let coin = Coin {
                    value: row.value.explicit(),
                    height: row.height,
                };
                self.coins.insert(OutPoint::new(row.txid, vout), Some(coin));
            }
            HistSide::Spending { funding, .. } => {
                self.coins.remove(&funding);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn height_done(&mut self) {}
}
