//! Questions about assets, with the `z` rows of the cache. Elements only: on Bitcoin no asset is known.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::Txid;
use cairn_utxo_chain::walk::Coin;
use cairn_utxo_chain::{AssetId, ElementsChain};

use super::fold::{Budget, CACHE_ROWS_MIN, Fold, Outcome};
use super::{Result, View};
use crate::asset_events;
use crate::engine::{Durability, Family};
use crate::mempool::MempoolEntry;
use crate::rows::{self, AssetEvent, AssetKey, IssuedAsset, RowKind, SupplyKey};
use crate::types::{
    AssetIssue, AssetStats, BlockRef, IssuedStats, NativeStats, QueryError, Supply,
};

impl View {
    /// Where an asset was issued first, on the chain or in the mempool; `None` for an unknown asset, and for the native
    /// one, which nobody issues.
    pub fn asset(&self, asset: &AssetId) -> Result<Option<AssetIssue>> {
        let row = self
            .history
            .get(Family::Assets, &rows::issued_key(asset))?
            .map(|value| IssuedAsset::decode(&value))
            .transpose()?;
        // Of a transaction that is orphaned the asset is unknown again, until another one issues it.
        if let Some(issued) = row
            && let Some(block) = self.confirming_block(&issued.txid)?
        {
            return Ok(Some(issue(&issued, Some(block))));
        }
        let Some(chain) = self.shared.network.elements() else {
            return Ok(None);
        };
        for entry in self.mempool().of_asset(asset) {
            if let Some(issued) = issued_by(chain, &entry, asset) {
                return Ok(Some(issue(&issued, None)));
            }
        }
        Ok(None)
    }

    /// Totals of an asset over the chain. The first question visits all its rows; later ones go on from there.
    ///
    /// # Errors
    /// [`QueryError::TooManyRows`] if there are more than one request may visit; asking again continues.
    pub fn asset_stats(&self, asset: &AssetId) -> Result<AssetStats> {
        let key = (*asset, self.tip.hash);
        self.shared
            .asset_stats
            .get_or_insert_with(&key, || self.fold_asset(asset))
    }

    /// The same over the unconfirmed transactions alone.
    pub fn mempool_asset_stats(&self, asset: &AssetId) -> AssetStats {
        let mut stats = self.no_stats(asset);
        for entry in self.mempool().of_asset(asset) {
            stats.count_tx();
            for event in entry.events_of(asset) {
                // Sums of what is unconfirmed stay far below their range: a state never spends a coin twice.
                let _ = stats.add(event);
            }
        }
        if let (AssetStats::Issued(stats), Ok(Some(issue))) = (&mut stats, self.asset(asset)) {
            stats.burned_reissuance_tokens = self
                .mempool()
                .of_asset(&issue.token)
                .iter()
                .flat_map(|entry| entry.events_of(&issue.token))
                .map(burned)
                .fold(0, u64::saturating_add);
        }
        stats
    }

    /// How many transactions change an asset's supply: issue, burn, peg in or out.
    ///
    /// # Errors
    /// [`QueryError::TooManyRows`] if there are more than one request may visit.
    pub fn supply_tx_count(&self, asset: &AssetId) -> Result<u64> {
        struct Count(u64);
        impl Fold<SupplyKey> for Count {
            fn row(&mut self, _row: &SupplyKey) -> Result<ControlFlow<()>> {
                self.0 += 1;
                Ok(ControlFlow::Continue(()))
            }
            fn height_done(&mut self) {}
        }
        let mut count = Count(0);
        let mut budget = Budget::new(self.shared.fold_rows_max());
        let id = asset.as_byte_array();
        match self.fold(id, 0, self.tip.height, &mut budget, &mut count)? {
            (Outcome::Stopped { error, .. }, _) => Err(error),
            _ => Ok(count.0),
        }
    }

    /// How much there is of an asset, chain and mempool together.
    pub fn supply(&self, asset: &AssetId) -> Result<Supply> {
        let minus = |more: u64, less: u64| more.saturating_sub(less);
        Ok(
            match (self.asset_stats(asset)?, self.mempool_asset_stats(asset)) {
                (AssetStats::Issued(chain), AssetStats::Issued(mempool)) => {
                    if chain.has_blinded_issuances || mempool.has_blinded_issuances {
                        return Ok(Supply::Blinded);
                    }
                    let issued = sum(chain.issued_amount, mempool.issued_amount)?;
                    Supply::Known(minus(
                        issued,
                        sum(chain.burned_amount, mempool.burned_amount)?,
                    ))
                }
                (AssetStats::Native(chain), AssetStats::Native(mempool)) => {
                    let pegged_in = sum(chain.peg_in_amount, mempool.peg_in_amount)?;
                    let made = sum(self.free_coins()?, pegged_in)?;
                    let pegged_out = sum(chain.peg_out_amount, mempool.peg_out_amount)?;
                    let burned = sum(chain.burned_amount, mempool.burned_amount)?;
                    Supply::Known(minus(made, sum(pegged_out, burned)?))
                }
                // Both are made for the same asset of the same chain.
                _ => Supply::Blinded,
            },
        )
    }

    /// Newest first: up to `limit` transactions of an asset after `after` (exclusive): those that change its supply, or with
    /// `transfers` all that openly touch it. Costs O(limit), whatever the asset.
    pub fn asset_history(
        &self,
        asset: &AssetId,
        transfers: bool,
        after: Option<&Txid>,
        limit: usize,
    ) -> Result<Vec<(Txid, BlockRef)>> {
        let id = asset.as_byte_array();
        match transfers {
            true => self.newest_first::<AssetKey>(id, after, limit),
            false => self.newest_first::<SupplyKey>(id, after, limit),
        }
    }

    /// Unconfirmed transactions of an asset, chosen as in [`View::asset_history`]; the last to arrive first.
    pub fn unconfirmed_of_asset(&self, asset: &AssetId, transfers: bool) -> Vec<Arc<MempoolEntry>> {
        let mut entries = self.mempool().of_asset(asset);
        entries.retain(|entry| transfers || entry.events_of(asset).any(AssetEvent::is_supply));
        entries.reverse();
        entries
    }

    /// What the genesis block puts into the world, base units of the native asset.
    fn free_coins(&self) -> Result<u64> {
        let Some(chain) = self.shared.network.elements() else {
            return Ok(0);
        };
        let Some(records) = self.block_txs(&chain.genesis, 0, usize::MAX)? else {
            return Ok(0);
        };
        let mut free = 0;
        for output in records.iter().flat_map(|record| record.tx.outputs()) {
            let Coin::Confidential(coin) = output.coin else {
                continue;
            };
            let is_native = coin.explicit_asset() == Some(chain.native_asset);
            if is_native && !rows::is_unspendable(self.family(), output.script) {
                free = sum(free, coin.explicit_value().unwrap_or(0))?;
            }
        }
        Ok(free)
    }

    fn no_stats(&self, asset: &AssetId) -> AssetStats {
        match self.shared.network.elements() {
            Some(chain) if chain.native_asset == *asset => {
                AssetStats::Native(NativeStats::default())
            }
            _ => AssetStats::Issued(IssuedStats::default()),
        }
    }

    fn fold_asset(&self, asset: &AssetId) -> Result<AssetStats> {
        let cached = self.cached_asset(asset)?;
        let mut from = cached.map_or(0, |(_, height)| height + 1);
        let mut fold = AssetFold {
            stats: cached.map_or_else(|| self.no_stats(asset), |(stats, _)| stats),
            txids: Vec::new(),
        };
        let mut budget = Budget::new(self.shared.fold_rows_max());
        let id = asset.as_byte_array();
        if let Some(settled) = self.settled_height().filter(|settled| *settled >= from) {
            let (outcome, visited) = self.fold(id, from, settled, &mut budget, &mut fold)?;
            let worth = visited > CACHE_ROWS_MIN || (cached.is_some() && visited > 0);
            match outcome {
                Outcome::Stopped { next, error } => {
                    self.store_asset(asset, &fold.stats, next - 1)?;
                    return Err(error);
                }
                _ if worth => self.store_asset(asset, &fold.stats, settled)?,
                _ => {}
            }
            from = settled + 1;
        }
        let mut budget = Budget::new(usize::MAX);
        if let (Outcome::Stopped { error, .. }, _) =
            self.fold(id, from, self.tip.height, &mut budget, &mut fold)?
        {
            return Err(error);
        }
        if let AssetStats::Issued(stats) = &mut fold.stats {
            // Of the tokens only burns matter, and those are few.
            let row = self
                .history
                .get(Family::Assets, &rows::issued_key(asset))?
                .map(|value| IssuedAsset::decode(&value))
                .transpose()?;
            stats.burned_reissuance_tokens = match row {
                Some(issued) => self.burned_amount(&issued.token)?,
                None => 0,
            };
        }
        Ok(fold.stats)
    }

    /// What was burned of an asset: found through its supply rows, of which there are few even where transfers abound.
    fn burned_amount(&self, asset: &AssetId) -> Result<u64> {
        let id = asset.as_byte_array();
        let prefix = rows::id_prefix(RowKind::Supply, id);
        let mut cursor = self.history.prefix_cursor(Family::Assets, &prefix);
        cursor.seek(&prefix);
        let mut burned_sum = 0;
        let mut visited = 0;
        while let Some(key) = cursor.key()? {
            visited += 1;
            if visited > self.shared.scan_rows_max {
                return Err(QueryError::TooManyRows);
            }
            let row = SupplyKey::decode(key)?;
            if self.row_counts(&row.txid, row.height)? {
                burned_sum = sum(burned_sum, self.burned_by(&row)?)?;
            }
            cursor.next();
        }
        Ok(burned_sum)
    }

    /// What one transaction burned: its `B` rows.
    fn burned_by(&self, supply: &SupplyKey) -> Result<u64> {
        let first = AssetKey {
            asset: supply.asset,
            height: supply.height,
            txid: supply.txid,
            event: AssetEvent::Burn { vout: 0, amount: 0 },
        }
        .encode();
        let id = supply.asset.as_byte_array();
        let prefix = rows::id_prefix(RowKind::Asset, id);
        let mut cursor = self.history.prefix_cursor(Family::Assets, &prefix);
        cursor.seek(&first);
        let mut burned_sum = 0;
        while let Some(key) = cursor.key()? {
            let row = AssetKey::decode(key)?;
            let is_burn = matches!(row.event, AssetEvent::Burn { .. });
            if !is_burn || row.txid != supply.txid || row.height != supply.height {
                break;
            }
            burned_sum = sum(burned_sum, burned(&row.event))?;
            cursor.next();
        }
        Ok(burned_sum)
    }

    /// The stored statistics and their height, if their block is on the chain.
    fn cached_asset(&self, asset: &AssetId) -> Result<Option<(AssetStats, u32)>> {
        let key = rows::asset_stats_key(asset);
        let Some(value) = self.shared.stores.cache.get(Family::Cache, &key)? else {
            return Ok(None);
        };
        let (stats, hash) = rows::decode_asset_stats_value(&value)?;
        Ok(self
            .best_chain_block(&hash)
            .map(|block| (stats, block.height)))
    }

    fn store_asset(&self, asset: &AssetId, stats: &AssetStats, height: u32) -> Result<()> {
        let block = self.expect_block_at(height)?;
        let cache = &self.shared.stores.cache;
        let mut batch = cache.batch();
        let value = rows::asset_stats_value(stats, &block.hash);
        batch.put(Family::Cache, &rows::asset_stats_key(asset), &value);
        Ok(cache.write(batch, Durability::Logged)?)
    }
}

fn sum(a: u64, b: u64) -> Result<u64> {
    a.checked_add(b).ok_or_else(|| {
        QueryError::Store("amounts of an asset add up to more than 2^64; run `cairn verify`".into())
    })
}

fn burned(event: &AssetEvent) -> u64 {
    match event {
        AssetEvent::Burn { amount, .. } => *amount,
        _ => 0,
    }
}

fn issue(issued: &IssuedAsset, block: Option<BlockRef>) -> AssetIssue {
    AssetIssue {
        txid: issued.txid,
        vin: issued.vin,
        spent: issued.spent,
        token: issued.token,
        contract_hash: issued.issuance.contract_hash(),
        block,
    }
}

/// The first issuance of an asset in an unconfirmed transaction.
fn issued_by(chain: &ElementsChain, entry: &MempoolEntry, asset: &AssetId) -> Option<IssuedAsset> {
    let tx = entry.tx();
    (0u32..).zip(&tx.input).find_map(|(vin, input)| {
        let issuance = tx.elements_input(vin as usize)?.issuance?;
        let spent = input.previous_output;
        let ((of, _), first) = asset_events::of_issuance(chain, entry.txid, vin, spent, &issuance)?;
        first.filter(|_| of == *asset)
    })
}

impl AssetStats {
    fn count_tx(&mut self) {
        match self {
            Self::Issued(stats) => stats.tx_count += 1,
            Self::Native(stats) => stats.tx_count += 1,
        }
    }

    fn add(&mut self, event: &AssetEvent) -> Result<()> {
        match (self, event) {
            (
                Self::Issued(stats),
                AssetEvent::Issuance {
                    is_reissuance,
                    amount,
                    tokens,
                    ..
                },
            ) => {
                stats.issuance_count += 1;
                stats.has_blinded_issuances |= amount.is_none();
                stats.issued_amount = sum(stats.issued_amount, amount.unwrap_or(0))?;
                if !is_reissuance {
                    stats.reissuance_tokens = *tokens;
                }
            }
            (Self::Issued(stats), AssetEvent::Burn { amount, .. }) => {
                stats.burned_amount = sum(stats.burned_amount, *amount)?;
            }
            (Self::Native(stats), AssetEvent::Burn { amount, .. }) => {
                stats.burn_count += 1;
                stats.burned_amount = sum(stats.burned_amount, *amount)?;
            }
            (Self::Native(stats), AssetEvent::Pegin { amount, .. }) => {
                stats.peg_in_count += 1;
                stats.peg_in_amount = sum(stats.peg_in_amount, *amount)?;
            }
            (Self::Native(stats), AssetEvent::Pegout { amount, .. }) => {
                stats.peg_out_count += 1;
                stats.peg_out_amount = sum(stats.peg_out_amount, *amount)?;
            }
            _ => {}
        }
        Ok(())
    }
}

struct AssetFold {
    stats: AssetStats,
    /// Transactions of the height at hand, each as often as its rows were not neighbours.
    txids: Vec<Txid>,
}

impl Fold<AssetKey> for AssetFold {
    fn row(&mut self, row: &AssetKey) -> Result<ControlFlow<()>> {
        self.stats.add(&row.event)?;
        if self.txids.last() != Some(&row.txid) {
            self.txids.push(row.txid);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn height_done(&mut self) {
        self.txids.sort_unstable();
        self.txids.dedup();
        for _ in self.txids.drain(..) {
            self.stats.count_tx();
        }
    }
}
