//! A generated chain together with its model, for tests: grows, forks, and takes blocks of the test's own making.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bitcoin::{Block, Network, OutPoint, Transaction};

use crate::generator::{BlockPlan, ChainGenerator, Params, Pending};
use crate::lock::Coin;
use crate::mine::COINBASE_MATURITY;
use crate::model::Model;

/// Of 1000 orphaned transactions, how many are confirmed again on the new branch (as far as their inputs are).
const CONFIRMED_AGAIN: u32 = 950;

/// Numbers of [`crate::Lock`] from here on are never given out by the generator: a test's own scripts are alone there.
pub const OWN_NUMBERS: u32 = 0x8000_0000;

/// What a reorganisation did.
#[derive(Debug, Clone)]
pub struct Fork {
    /// Blocks that left the best chain, oldest first.
    pub orphaned: Vec<Arc<Block>>,
    /// Blocks that came instead, oldest first.
    pub added: Vec<Arc<Block>>,
}

/// A generated chain and what every answer about it must be.
#[derive(Debug, Clone)]
pub struct TestChain {
    generator: ChainGenerator,
    model: Model,
}

impl TestChain {
    /// A chain of genesis alone.
    pub fn new(params: Params) -> Self {
        let mut generator = ChainGenerator::new(params);
        generator.keep_locks();
        TestChain {
            generator,
            model: Model::new(Network::Regtest),
        }
    }

    /// A chain of [`Params::small`] with `height` blocks after genesis. Transactions begin at height 101.
    pub fn small(seed: u64, height: u32) -> Self {
        let mut chain = TestChain::new(Params::small(seed));
        chain.grow(height);
        chain
    }

    /// The model of the best chain.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Height of the best block.
    pub fn height(&self) -> u32 {
        self.model.height()
    }

    /// The best chain after genesis.
    pub fn blocks(&self) -> Vec<Arc<Block>> {
        self.model
            .chain()
            .iter()
            .skip(1)
            .map(|block| block.block.clone())
            .collect()
    }

    /// Adds `count` blocks.
    pub fn grow(&mut self, count: u32) -> Vec<Arc<Block>> {
        (0..count)
            .map(|_| self.grow_with(&BlockPlan::default()))
            .collect()
    }

    /// Adds one block, with wishes.
    pub fn grow_with(&mut self, plan: &BlockPlan) -> Arc<Block> {
        let block = Arc::new(self.generator.next_block_with(plan));
        self.model.connect(block.clone());
        block
    }

    /// Replaces the last `depth` blocks by `new_len` others. Many of the orphaned transactions are confirmed again, at the
    /// same or another height; some are not, and what they spent is spent otherwise.
    pub fn fork(&mut self, depth: u32, new_len: u32) -> Fork {
        let orphaned = self.rewind(depth);
        Fork {
            orphaned,
            added: self.grow(new_len),
        }
    }

    /// Takes the last `depth` blocks off, never genesis; gives them back, oldest first. The next blocks form another branch.
    pub fn rewind(&mut self, depth: u32) -> Vec<Arc<Block>> {
        let mut orphaned: Vec<Arc<Block>> =
            (0..depth).map_while(|_| self.model.disconnect()).collect();
        orphaned.reverse();
        let pending = self.choose_pending(&orphaned);
        self.restart_generator(pending);
        orphaned
    }

    /// Puts blocks made before on top again, for example those of [`Self::rewind`], as `reconsiderblock` does.
    pub fn connect(&mut self, blocks: &[Arc<Block>]) {
        blocks
            .iter()
            .for_each(|block| self.model.connect(block.clone()));
        self.restart_generator(VecDeque::new());
    }

    /// Takes `count` spendable coins, the richest first, out of the generator's reach (until the next fork, unless they are
    /// spent by then). Fewer if there are not so many.
    pub fn coins(&mut self, count: usize) -> Vec<Coin> {
        self.generator.take_coins(count)
    }

    /// Adds a block of exactly these transactions, parents before children.
    ///
    /// # Panics
    /// When they are not valid on this chain (the model says why).
    pub fn mine(&mut self, txs: Vec<Transaction>) -> Arc<Block> {
        let fees = self.fees(&txs);
        let block = Arc::new(self.generator.block_of(txs, fees));
        self.model.connect(block.clone());
        block
    }

    fn fees(&self, txs: &[Transaction]) -> u64 {
        let mut inputs = 0;
        let mut outputs = 0;
        for (i, tx) in txs.iter().enumerate() {
            for input in &tx.input {
                let previous = input.previous_output;
                let in_block = || {
                    let parent = txs[..i]
                        .iter()
                        .find(|parent| parent.compute_txid() == previous.txid)?;
                    parent.output.get(previous.vout as usize).cloned()
                };
                let Some(output) = self.model.output(&previous).or_else(in_block) else {
                    panic!(
                        "transaction {} spends {previous}, which does not exist",
                        tx.compute_txid()
                    );
                };
                inputs += output.value.to_sat();
            }
            outputs += tx
                .output
                .iter()
                .map(|output| output.value.to_sat())
                .sum::<u64>();
        }
        assert!(
            inputs >= outputs,
            "the transactions pay out {outputs} satoshi and take in only {inputs}"
        );
        inputs - outputs
    }

    fn choose_pending(&mut self, orphaned: &[Arc<Block>]) -> VecDeque<Pending> {
        // Outputs of the transactions chosen so far, with their amounts.
        let mut available: HashMap<OutPoint, u64> = HashMap::new();
        let mut pending = VecDeque::new();
        for tx in orphaned
            .iter()
            .flat_map(|block| block.txdata.iter().skip(1))
        {
            if !self.generator.chance(CONFIRMED_AGAIN) {
                continue;
            }
            let mut min_height = 0;
            let spent: Option<Vec<u64>> = tx
                .input
                .iter()
                .map(|input| {
                    if let Some(value) = available.get(&input.previous_output) {
                        return Some(*value);
                    }
                    let utxo = self.model.utxo(&input.previous_output)?;
                    if utxo.coinbase {
                        min_height = min_height.max(utxo.place.height + COINBASE_MATURITY);
                    }
                    Some(utxo.output.value.to_sat())
                })
                .collect();
            // Without all of its inputs it cannot be confirmed on this branch.
            let Some(spent) = spent else { continue };
            let txid = tx.compute_txid();
            let mut fee: u64 = spent.iter().sum();
            for (vout, output) in tx.output.iter().enumerate() {
                fee -= output.value.to_sat();
                available.insert(OutPoint::new(txid, vout as u32), output.value.to_sat());
            }
            pending.push_back(Pending {
                tx: tx.clone(),
                fee,
                min_height,
            });
        }
        pending
    }

    fn restart_generator(&mut self, pending: VecDeque<Pending>) {
        let unspent: Vec<(u32, Coin)> = self
            .model
            .utxo_set()
            .filter_map(|utxo| {
                let lock = self.generator.lock_of(&utxo.output.script_pubkey)?;
                let from = if utxo.coinbase {
                    utxo.place.height + COINBASE_MATURITY
                } else {
                    0
                };
                Some((
                    from,
                    Coin {
                        outpoint: utxo.outpoint,
                        value: utxo.output.value.to_sat(),
                        lock,
                    },
                ))
            })
            .collect();
        let tip = self.model.tip();
        self.generator
            .stand_on(tip.hash, tip.height, unspent, pending);
    }
}
