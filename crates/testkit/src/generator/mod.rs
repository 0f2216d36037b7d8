//! Valid regtest chains of any length from a seed, block by block.
//!
//! The generator keeps the coins it can still spend and nothing else, so a chain of gigabytes can be streamed to files. What is in a
//! block follows the habits of a real chain: most coins are spent young, few scripts are used very often and many once, some
//! transactions gather many inputs and some pay many outputs, chains of transactions live within one block, and all kinds of
//! output scripts occur. Nothing in it depends on time, machine or floating point: one seed, one chain.

mod params;
mod shapes;

use std::collections::{HashMap, HashSet, VecDeque};

use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{Block, BlockHash, Network, OutPoint, ScriptBuf, Transaction, Txid};

pub use params::{BlockPlan, Params, Shapes};

use crate::lock::{Coin, Lock};
use crate::mine::{BlockRecipe, COINBASE_MATURITY};
use crate::payee::Payee;
use crate::rng::Rng;

/// Weight of a block that is left for header and coinbase.
const RESERVED_WEIGHT: u64 = 4_000;
/// Weight limit of a block.
const MAX_BLOCK_WEIGHT: u64 = 4_000_000;
/// Signature operations spent on one block; the limit is 80,000.
const SIGOPS_BUDGET: u32 = 70_000;
/// Coins beyond this count as old: they are spent, but more rarely.
const YOUNG_COINS: usize = 20_000;
/// Script numbers of miners begin here, out of the way of all others.
const FIRST_MINER: u32 = 0xff00_0000;
/// Miners in all.
const MINERS: u32 = 7;

/// An orphaned transaction that may be confirmed again.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) tx: Transaction,
    pub(crate) fee: u64,
    /// No block below this height may hold it (coinbase maturity).
    pub(crate) min_height: u32,
}

/// Makes the blocks of one chain, each on top of the last.
#[derive(Debug, Clone)]
pub struct ChainGenerator {
    params: Params,
    rng: Rng,
    tip: BlockHash,
    height: u32,
    extra_nonce: u64,
    /// Script numbers given out so far.
    scripts: u32,
    /// Outputs of the block in the making.
    fresh: Vec<Coin>,
    young: Vec<Coin>,
    old: Vec<Coin>,
    /// Coinbases by the height from which they can be spent, ascending.
    immature: VecDeque<(u32, Coin)>,
    pending: VecDeque<Pending>,
    /// Outputs that pending transactions spend: not for anybody else.
    reserved: HashSet<OutPoint>,
    /// Which lock a script has; kept only for chains that may be forked.
    locks: Option<HashMap<ScriptBuf, Lock>>,
}

/// A block in the making.
struct Draft {
    height: u32,
    txs: Vec<Transaction>,
    ids: Vec<Txid>,
    fees: u64,
    weight: u64,
    sigops: u32,
}

impl ChainGenerator {
    /// A generator that stands on the genesis block of regtest.
    pub fn new(params: Params) -> Self {
        let genesis = genesis_block(Network::Regtest);
        ChainGenerator {
            rng: Rng::new(params.seed),
            params,
            tip: genesis.block_hash(),
            height: 0,
            extra_nonce: 0,
            scripts: 0,
            fresh: Vec::new(),
            young: Vec::new(),
            old: Vec::new(),
            immature: VecDeque::new(),
            pending: VecDeque::new(),
            reserved: HashSet::new(),
            locks: None,
        }
    }

    /// Height of the last block made; 0 before the first.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Hash of the last block made.
    pub fn tip(&self) -> BlockHash {
        self.tip
    }

    /// The next block. The first hundred hold only a coinbase, as no coin is mature.
    pub fn next_block(&mut self) -> Block {
        self.next_block_with(&BlockPlan::default())
    }

    /// The next block, with wishes.
    pub fn next_block_with(&mut self, plan: &BlockPlan) -> Block {
        let height = self.height + 1;
        while self
            .immature
            .front()
            .is_some_and(|(from, _)| *from <= height)
        {
            if let Some((_, coin)) = self.immature.pop_front() {
                self.young.push(coin);
            }
        }
        let wanted = plan.txs.unwrap_or_else(|| {
            let about = self.params.txs_per_block;
            self.rng.between(about - about / 2, about + about / 2)
        });
        let mut draft = Draft {
            height,
            txs: Vec::new(),
            ids: Vec::new(),
            fees: 0,
            weight: 0,
            sigops: 0,
        };
        self.confirm_pending(&mut draft);
        if plan.chain > 0 {
            self.add_chain(&mut draft, plan.chain);
        }
        while draft.txs.len() < wanted as usize && self.has_coins() && draft.has_room() {
            self.add_some(&mut draft);
        }
        self.finish(draft)
    }

    /// A block with exactly these transactions. Neither their outputs nor their inputs are known to the generator: take the
    /// inputs from [`Self::take_coins`].
    pub(crate) fn block_of(&mut self, txs: Vec<Transaction>, fees: u64) -> Block {
        let ids = txs.iter().map(Transaction::compute_txid).collect();
        self.finish(Draft {
            height: self.height + 1,
            txs,
            ids,
            fees,
            weight: 0,
            sigops: 0,
        })
    }

    fn finish(&mut self, draft: Draft) -> Block {
        self.height = draft.height;
        self.extra_nonce += 1;
        let miner = Payee::open(FIRST_MINER + self.rng.long_tail(u64::from(MINERS)) as u32);
        self.remember(&miner);
        // Sometimes earlier than the block before, as on a real chain, but by less than an interval: above the median of the
        // last 11 in any case.
        let interval = self.params.interval;
        let drift = self.rng.between(0, 2 * interval);
        let time = self.params.start_time + (self.height - 1) * interval + drift;
        let block = BlockRecipe {
            height: self.height,
            prev: self.tip,
            time,
            payee: miner.script,
            fees: draft.fees,
            extra_nonce: self.extra_nonce ^ self.params.seed,
            txs: draft.txs,
        }
        .mine_with_ids(&draft.ids);
        self.tip = block.block_hash();
        if let Some(lock) = miner.lock {
            let coinbase = &block.txdata[0];
            let outpoint = OutPoint::new(coinbase.compute_txid(), 0);
            let value = coinbase.output[0].value.to_sat();
            self.immature.push_back((
                self.height + COINBASE_MATURITY,
                Coin {
                    outpoint,
                    value,
                    lock,
                },
            ));
        }
        self.young.append(&mut self.fresh);
        if self.young.len() > 2 * YOUNG_COINS {
            let aged = self.young.len() - YOUNG_COINS;
            self.old.extend(self.young.drain(..aged));
        }
        block
    }

    fn has_coins(&self) -> bool {
        self.spendable() > 0
    }

    /// Coins that the next block may spend.
    pub fn spendable(&self) -> usize {
        self.fresh.len() + self.young.len() + self.old.len()
    }

    /// Takes a coin: from this block, from the last ones, or an old one.
    fn take(&mut self) -> Option<Coin> {
        let roll = self.rng.below(1000);
        if roll < 120 && !self.fresh.is_empty() {
            let i = self.rng.index(self.fresh.len());
            return Some(self.fresh.swap_remove(i));
        }
        if (roll < 750 || self.old.is_empty()) && !self.young.is_empty() {
            let i = self.rng.index(self.young.len());
            return Some(self.young.swap_remove(i));
        }
        if !self.old.is_empty() {
            let i = self.rng.index(self.old.len());
            return Some(self.old.swap_remove(i));
        }
        if self.fresh.is_empty() {
            return None;
        }
        let i = self.rng.index(self.fresh.len());
        Some(self.fresh.swap_remove(i))
    }

    /// Takes up to `count` coins out of the generator's hands, for transactions of the caller's own.
    pub(crate) fn take_coins(&mut self, count: usize) -> Vec<Coin> {
        // The richest first: tests want to split them.
        self.young.append(&mut self.old);
        self.young.sort_by_key(|coin| (coin.value, coin.outpoint));
        let kept = self.young.len().saturating_sub(count);
        let mut taken = self.young.split_off(kept);
        taken.reverse();
        taken
    }

    fn take_some(&mut self, count: u32) -> Vec<Coin> {
        (0..count).map_while(|_| self.take()).collect()
    }

    /// Takes the richest of a few coins, for a transaction that splits it many ways.
    fn take_rich(&mut self) -> Vec<Coin> {
        let mut drawn = self.take_some(4);
        drawn.sort_by_key(|coin| coin.value);
        let richest = drawn.pop();
        self.young.append(&mut drawn);
        richest.into_iter().collect()
    }

    fn remember(&mut self, payee: &Payee) {
        if let (Some(locks), Some(lock)) = (self.locks.as_mut(), payee.lock) {
            locks.insert(payee.script.clone(), lock);
        }
    }

    /// Confirms some of the transactions that wait since a fork, oldest first.
    fn confirm_pending(&mut self, draft: &mut Draft) {
        while let Some(next) = self.pending.front() {
            if next.min_height > draft.height || self.rng.chance(50) {
                break;
            }
            let weight = next.tx.weight().to_wu();
            let outputs = next
                .tx
                .output
                .iter()
                .map(|output| 4 * output.script_pubkey.count_sigops_legacy() as u32);
            let sigops = outputs.sum::<u32>() + next.tx.input.len() as u32;
            if !draft.fits(weight, sigops) {
                break;
            }
            let Some(Pending { tx, fee, .. }) = self.pending.pop_front() else {
                break;
            };
            let txid = tx.compute_txid();
            for input in &tx.input {
                self.reserved.remove(&input.previous_output);
            }
            for (vout, output) in tx.output.iter().enumerate() {
                let outpoint = OutPoint::new(txid, vout as u32);
                let lock = self
                    .locks
                    .as_ref()
                    .and_then(|locks| locks.get(&output.script_pubkey))
                    .copied();
                if let (Some(lock), false) = (lock, self.reserved.contains(&outpoint)) {
                    self.fresh.push(Coin {
                        outpoint,
                        value: output.value.to_sat(),
                        lock,
                    });
                }
            }
            draft.push(tx, txid, fee, weight, sigops);
        }
    }

    /// A random decision of the chain's own sequence.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.chance(per_mille)
    }

    /// From now on keeps what [`Self::stand_on`] needs.
    pub(crate) fn keep_locks(&mut self) {
        self.locks.get_or_insert_default();
    }

    /// How a script of this chain is spent, if the generator made it so.
    pub(crate) fn lock_of(&self, script: &ScriptBuf) -> Option<Lock> {
        self.locks
            .as_ref()
            .and_then(|locks| locks.get(script))
            .copied()
    }

    /// Moves to another tip. `unspent` are all unspent outputs there with the height from which they can be spent;
    /// `pending` wait to be confirmed again, parents before children.
    pub(crate) fn stand_on(
        &mut self,
        tip: BlockHash,
        height: u32,
        unspent: impl IntoIterator<Item = (u32, Coin)>,
        pending: VecDeque<Pending>,
    ) {
        self.tip = tip;
        self.height = height;
        self.reserved = pending
            .iter()
            .flat_map(|p| p.tx.input.iter().map(|i| i.previous_output))
            .collect();
        self.pending = pending;
        self.fresh.clear();
        self.young.clear();
        self.old.clear();
        let mut immature = Vec::new();
        for (from, coin) in unspent {
            if self.reserved.contains(&coin.outpoint) {
                continue;
            }
            if from <= height + 1 {
                self.young.push(coin);
            } else {
                immature.push((from, coin));
            }
        }
        immature.sort_by_key(|(from, coin)| (*from, coin.outpoint));
        self.immature = immature.into();
    }
}

impl Draft {
    fn has_room(&self) -> bool {
        self.fits(2_000, 100)
    }

    fn fits(&self, weight: u64, sigops: u32) -> bool {
        self.weight + weight <= MAX_BLOCK_WEIGHT - RESERVED_WEIGHT
            && self.sigops + sigops <= SIGOPS_BUDGET
    }

    /// No more transactions.
    fn close(&mut self) {
        self.weight = MAX_BLOCK_WEIGHT;
    }

    fn push(&mut self, tx: Transaction, txid: Txid, fee: u64, weight: u64, sigops: u32) {
        self.txs.push(tx);
        self.ids.push(txid);
        self.fees += fee;
        self.weight += weight;
        self.sigops += sigops;
    }
}
