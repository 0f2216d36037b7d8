//! The forms of transactions that a generated chain is made of.

use bitcoin::{Amount, OutPoint, TxOut};

use super::{ChainGenerator, Draft, FIRST_MINER};
use crate::lock::{Coin, spend};
use crate::payee::Payee;

/// An amount that leaves less than this for each output (satoshi) is not split further.
const SMALLEST_SHARE: u64 = 20;
/// Fees are below this, satoshi.
const MAX_FEE: u64 = 5_000;

/// A transaction in the making: outputs with what is known of their scripts.
struct Outputs {
    payees: Vec<Payee>,
    /// Shares of the amount, one per payee; 0: the output has no amount.
    shares: Vec<u64>,
}

impl Outputs {
    fn new() -> Self {
        Outputs {
            payees: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn push(&mut self, payee: Payee, share: u64) {
        self.payees.push(payee);
        self.shares.push(share);
    }
}

impl ChainGenerator {
    pub(super) fn add_some(&mut self, draft: &mut Draft) {
        // With few coins at hand make more of them first, or a block of thousands would be one long chain.
        if self.spendable() < self.params.txs_per_block as usize {
            return self.add_fan_out(draft);
        }
        let shapes = self.params.shapes;
        let weights = [
            shapes.pay,
            shapes.batch,
            shapes.chain,
            shapes.consolidation,
            shapes.fan_out,
            shapes.data,
            shapes.exotic,
        ];
        let mut roll = self.rng.below(weights.iter().map(|w| u64::from(*w)).sum());
        let mut chosen = 0;
        for (i, weight) in weights.iter().enumerate() {
            chosen = i;
            if roll < u64::from(*weight) {
                break;
            }
            roll -= u64::from(*weight);
        }
        match chosen {
            0 => self.add_payment(draft),
            1 => self.add_batch(draft),
            2 => {
                let (low, high) = self.params.chain_length;
                let length = self.rng.between(low, high);
                self.add_chain(draft, length);
            }
            3 => self.add_consolidation(draft),
            4 => self.add_fan_out(draft),
            5 => self.add_data(draft),
            _ => self.add_exotic(draft),
        }
    }

    fn add_payment(&mut self, draft: &mut Draft) {
        let inputs = match self.rng.below(100) {
            0..=69 => 1,
            70..=91 => 2,
            _ => 3,
        };
        let coins = self.take_some(inputs);
        let mut outputs = Outputs::new();
        let share = self.rng.below(900) + 50;
        outputs.push(self.payee(), share);
        if self.rng.chance(900) {
            outputs.push(self.change(&coins), 1000 - share);
        }
        self.add(draft, coins, outputs);
    }

    fn add_batch(&mut self, draft: &mut Draft) {
        let mut coins = self.take_rich();
        let more = self.rng.between(0, 2);
        coins.extend(self.take_some(more));
        let mut outputs = Outputs::new();
        for _ in 0..self.rng.between(3, 12) {
            let share = self.rng.below(100) + 1;
            outputs.push(self.payee(), share);
        }
        outputs.push(self.change(&coins), 300);
        self.add(draft, coins, outputs);
    }

    fn add_consolidation(&mut self, draft: &mut Draft) {
        let (low, high) = self.params.consolidation_inputs;
        let most = (self.spendable() / 8).max(2) as u32;
        let count = self.rng.between(low, high).min(most);
        let coins = self.take_some(count);
        let mut outputs = Outputs::new();
        outputs.push(self.change(&coins), 1);
        self.add(draft, coins, outputs);
    }

    fn add_fan_out(&mut self, draft: &mut Draft) {
        let coins = self.take_rich();
        let (low, high) = self.params.fan_out_outputs;
        let mut outputs = Outputs::new();
        for _ in 0..self.rng.between(low, high) {
            let share = self.rng.below(50) + 50;
            outputs.push(self.payee(), share);
        }
        self.add(draft, coins, outputs);
    }

    fn add_data(&mut self, draft: &mut Draft) {
        let coins = self.take_some(1);
        let mut outputs = Outputs::new();
        outputs.push(Payee::data(&mut self.rng), 0);
        outputs.push(self.change(&coins), 1);
        self.add(draft, coins, outputs);
    }

    fn add_exotic(&mut self, draft: &mut Draft) {
        let count = self.rng.between(1, 3);
        let coins = self.take_some(count);
        let mut outputs = Outputs::new();
        for _ in 0..self.rng.between(1, 6) {
            let share = self.rng.below(10);
            outputs.push(Payee::exotic(&mut self.rng), share);
        }
        outputs.push(self.change(&coins), 500);
        self.add(draft, coins, outputs);
    }

    /// A run of transactions, each spending the last output of the one before.
    pub(super) fn add_chain(&mut self, draft: &mut Draft, length: u32) {
        let mut coins = self.take_some(1);
        for _ in 0..length {
            if !draft.has_room() {
                break;
            }
            let mut outputs = Outputs::new();
            if self.rng.chance(500) {
                outputs.push(self.payee(), 1);
            }
            let number = self.fresh_number();
            outputs.push(Payee::open(number), 99);
            self.add(draft, coins, outputs);
            // The last output is spendable, so it is the newest coin.
            match self.fresh.pop() {
                Some(coin) => coins = vec![coin],
                None => return,
            }
        }
        self.fresh.append(&mut coins);
    }

    fn fresh_number(&mut self) -> u32 {
        let number = self.scripts;
        self.scripts = (self.scripts + 1) % FIRST_MINER;
        number
    }

    fn payee(&mut self) -> Payee {
        let number = if self.rng.chance(self.params.popular) {
            0
        } else if self.scripts == 0 || self.rng.chance(self.params.fresh_scripts) {
            self.fresh_number()
        } else {
            self.rng.long_tail(u64::from(self.scripts)) as u32
        };
        Payee::ordinary(number, self.params.signed)
    }

    /// Where the rest goes: back to the first input's script, or to a new one that can be spent.
    fn change(&mut self, coins: &[Coin]) -> Payee {
        match coins.first() {
            Some(coin) if self.rng.chance(300) => Payee::of_lock(coin.lock),
            _ => {
                let number = self.fresh_number();
                Payee::open(number)
            }
        }
    }

    /// Finishes a transaction and puts it into the block; gives the coins back when it does not fit.
    fn add(&mut self, draft: &mut Draft, coins: Vec<Coin>, outputs: Outputs) {
        if coins.is_empty() {
            return;
        }
        let total: u64 = coins.iter().map(|coin| coin.value).sum();
        let outputs = if total < SMALLEST_SHARE * outputs.payees.len() as u64 {
            // Too poor to be split: all to one.
            match (
                outputs.payees.into_iter().next_back(),
                outputs.shares.into_iter().next_back(),
            ) {
                (Some(payee), Some(share)) => Outputs {
                    payees: vec![payee],
                    shares: vec![share.max(1)],
                },
                _ => return,
            }
        } else {
            outputs
        };
        // A few transactions pay nothing: miners may do as they like.
        let mut fee = if self.rng.chance(30) {
            0
        } else {
            self.rng.below(MAX_FEE.min(total / 10))
        };
        let all_shares: u64 = outputs.shares.iter().sum();
        let to_share = total - fee;
        let mut txouts = Vec::with_capacity(outputs.payees.len());
        let mut left = to_share;
        for (payee, share) in outputs.payees.iter().zip(&outputs.shares) {
            let value =
                (u128::from(to_share) * u128::from(*share) / u128::from(all_shares.max(1))) as u64;
            left -= value;
            txouts.push(TxOut {
                value: Amount::from_sat(value),
                script_pubkey: payee.script.clone(),
            });
        }
        // What the division left over.
        match (outputs.shares.last(), txouts.last_mut()) {
            (Some(share), Some(last)) if *share > 0 => last.value += Amount::from_sat(left),
            _ => fee += left,
        }

        let tx = spend(&coins, txouts);
        let weight = tx.weight().to_wu();
        let sigops =
            outputs.payees.iter().map(|payee| payee.sigops).sum::<u32>() + coins.len() as u32;
        if !draft.fits(weight, sigops) {
            self.young.extend(coins);
            draft.close();
            return;
        }
        let txid = tx.compute_txid();
        for (vout, (payee, txout)) in outputs.payees.iter().zip(&tx.output).enumerate() {
            self.remember(payee);
            if let Some(lock) = payee.lock {
                self.fresh.push(Coin {
                    outpoint: OutPoint::new(txid, vout as u32),
                    value: txout.value.to_sat(),
                    lock,
                });
            }
        }
        draft.push(tx, txid, fee, weight, sigops);
    }
}
