//! What every answer must be: a chain in plain maps, written to be obviously right and in no way fast.
//!
//! The model follows one best chain, block by block forward ([`Model::connect`]) and back ([`Model::disconnect`]); blocks taken
//! back stay known as stale. It shares no code with the index.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{
    Address, Block, BlockHash, Network, OutPoint, Script, ScriptBuf, Transaction, TxOut, Txid,
};

pub use rows::{Database, RowOptions, Rows};

use crate::mine::COINBASE_MATURITY;

/// SHA-256 of an output script, in the order SHA-256 outputs it.
pub type ScriptHash = [u8; 32];

/// The scripthash of an output script.
pub fn script_hash(script: &Script) -> ScriptHash {
    sha256::Hash::hash(script.as_bytes()).to_byte_array()
}

/// Whether the node keeps an output of this script out of its UTXO set, as it can never be spent.
pub fn is_unspendable(script: &Script) -> bool {
    script.as_bytes().first() == Some(&0x6a) || script.len() > 10_000
}

/// A block with what follows from its place.
#[derive(Debug, Clone)]
pub struct ModelBlock {
    /// The block.
    pub block: Arc<Block>,
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Median of its time and those of its up to 10 predecessors.
    pub median_time: u32,
    /// The ids of its transactions.
    pub txids: Vec<Txid>,
    /// Serialized size, bytes.
    pub size: u32,
    /// Weight units.
    pub weight: u32,
}

/// Where a transaction is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Height of the block.
    pub height: u32,
    /// Position in the block.
    pub position: u32,
}

/// A confirmed transaction.
#[derive(Debug, Clone)]
pub struct ModelTx {
    /// The transaction.
    pub tx: Transaction,
    /// Where it is.
    pub place: Place,
    /// The block's hash.
    pub block: BlockHash,
    /// What each input spends; `None` for the coinbase's.
    pub prevouts: Vec<Option<TxOut>>,
    /// Inputs minus outputs, satoshi; 0 for the coinbase.
    pub fee: u64,
}

/// One event in a script's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Where it happened.
    pub place: Place,
    /// In which transaction.
    pub txid: Txid,
    /// What happened.
    pub kind: TouchKind,
    /// Satoshi of the output in question.
    pub value: u64,
}

/// What can happen to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchKind {
    /// An output pays it.
    Fund {
        /// The output's index.
        vout: u32,
    },
    /// An input takes an output from it.
    Spend {
        /// The input's index.
        vin: u32,
        /// The output taken.
        previous: OutPoint,
    },
}

/// Totals of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelStats {
    /// Transactions that fund or spend it.
    pub tx_count: u64,
    /// Outputs paid to it.
    pub funded_txo_count: u64,
    /// Their sum, satoshi.
    pub funded_txo_sum: u64,
    /// Outputs spent from it.
    pub spent_txo_count: u64,
    /// Their sum, satoshi.
    pub spent_txo_sum: u64,
}

/// An unspent output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUtxo {
    /// Where it is.
    pub outpoint: OutPoint,
    /// The output.
    pub output: TxOut,
    /// Where it was confirmed.
    pub place: Place,
    /// Whether a coinbase made it.
    pub coinbase: bool,
}

/// The chain and everything that follows from it.
#[derive(Debug, Clone)]
pub struct Model {
    network: Network,
    /// The best chain, by height.
    chain: Vec<ModelBlock>,
    /// Blocks that were on it once and are not now.
    stale: BTreeMap<BlockHash, ModelBlock>,
    places: BTreeMap<Txid, Place>,
    spends: BTreeMap<OutPoint, (Txid, u32)>,
    /// Per script, oldest first, unspendable scripts included.
    touches: BTreeMap<ScriptHash, Vec<Touch>>,
    scripts: BTreeMap<ScriptHash, ScriptBuf>,
    unspent: BTreeMap<OutPoint, ModelUtxo>,
}

impl Model {
    /// A chain of the network's genesis block alone.
    pub fn new(network: Network) -> Self {
        let mut model = Model {
            network,
            chain: Vec::new(),
            stale: BTreeMap::new(),
            places: BTreeMap::new(),
            spends: BTreeMap::new(),
            touches: BTreeMap::new(),
            scripts: BTreeMap::new(),
            unspent: BTreeMap::new(),
        };
        model.connect(Arc::new(genesis_block(network)));
        model
    }

    /// A whole chain: `blocks` follow genesis.
    pub fn of_blocks(network: Network, blocks: impl IntoIterator<Item = Arc<Block>>) -> Self {
        let mut model = Model::new(network);
        blocks.into_iter().for_each(|block| model.connect(block));
        model
    }

    /// Puts a block on top.
    ///
    /// # Panics
    /// When it does not fit there: another parent, or an input that is not unspent. Whoever made the chain made a mistake.
    pub fn connect(&mut self, block: Arc<Block>) {
        let hash = block.block_hash();
        let height = self.chain.len() as u32;
        if let Some(tip) = self.chain.last() {
            assert_eq!(
                block.header.prev_blockhash, tip.hash,
                "block {hash} is not a child of the tip {}",
                tip.hash
            );
        }
        let txids: Vec<Txid> = block.txdata.iter().map(Transaction::compute_txid).collect();
        for (position, (tx, txid)) in block.txdata.iter().zip(&txids).enumerate() {
            let place = Place {
                height,
                position: position as u32,
            };
            assert!(
                self.places.insert(*txid, place).is_none(),
                "transaction {txid} is confirmed twice"
            );
            if position > 0 {
                self.spend_inputs(tx, *txid, place);
            }
            self.create_outputs(tx, *txid, place);
        }
        self.stale.remove(&hash);
        self.chain.push(ModelBlock {
            median_time: self.median_time_with(block.header.time),
            size: block.total_size() as u32,
            weight: block.weight().to_wu() as u32,
            block,
            hash,
            height,
            txids,
        });
    }

    fn spend_inputs(&mut self, tx: &Transaction, txid: Txid, place: Place) {
        for (vin, input) in tx.input.iter().enumerate() {
            let previous = input.previous_output;
            let Some(spent) = self.unspent.remove(&previous) else {
                panic!("input {vin} of {txid} spends {previous}, which is not an unspent output");
            };
            assert!(
                !spent.coinbase || place.height - spent.place.height >= COINBASE_MATURITY,
                "input {vin} of {txid} spends the coinbase {previous} too early"
            );
            self.spends.insert(previous, (txid, vin as u32));
            self.touches
                .entry(script_hash(&spent.output.script_pubkey))
                .or_default()
                .push(Touch {
                    place,
                    txid,
                    kind: TouchKind::Spend {
                        vin: vin as u32,
                        previous,
                    },
                    value: spent.output.value.to_sat(),
                });
        }
    }

    fn create_outputs(&mut self, tx: &Transaction, txid: Txid, place: Place) {
        for (vout, output) in tx.output.iter().enumerate() {
            let hash = script_hash(&output.script_pubkey);
            self.scripts
                .entry(hash)
                .or_insert_with(|| output.script_pubkey.clone());
            self.touches.entry(hash).or_default().push(Touch {
                place,
                txid,
                kind: TouchKind::Fund { vout: vout as u32 },
                value: output.value.to_sat(),
            });
            if !is_unspendable(&output.script_pubkey) {
                let outpoint = OutPoint::new(txid, vout as u32);
                let utxo = ModelUtxo {
                    outpoint,
                    output: output.clone(),
                    place,
                    coinbase: place.position == 0,
                };
                self.unspent.insert(outpoint, utxo);
            }
        }
    }

    /// Takes the top block off; it stays known as stale. Genesis stays: `None`.
    pub fn disconnect(&mut self) -> Option<Arc<Block>> {
        if self.chain.len() <= 1 {
            return None;
        }
        let top = self.chain.pop()?;
        for (tx, txid) in top.block.txdata.iter().zip(&top.txids).rev() {
            for vout in 0..tx.output.len() {
                self.unspent.remove(&OutPoint::new(*txid, vout as u32));
            }
            for input in tx
                .input
                .iter()
                .filter(|input| !input.previous_output.is_null())
            {
                self.spends.remove(&input.previous_output);
            }
            self.places.remove(txid);
        }
        // Give back what the block spent, unless the block itself made it.
        for input in top.block.txdata.iter().skip(1).flat_map(|tx| &tx.input) {
            let outpoint = input.previous_output;
            let Some(place) = self.places.get(&outpoint.txid).copied() else {
                continue;
            };
            let output = self.tx_at(place).output[outpoint.vout as usize].clone();
            self.unspent.insert(
                outpoint,
                ModelUtxo {
                    outpoint,
                    output,
                    place,
                    coinbase: place.position == 0,
                },
            );
        }
        for touches in self.touches.values_mut() {
            touches.retain(|touch| touch.place.height < top.height);
        }
        self.touches.retain(|_, touches| !touches.is_empty());
        let block = top.block.clone();
        self.stale.insert(top.hash, top);
        Some(block)
    }

    fn median_time_with(&self, time: u32) -> u32 {
        let mut times: Vec<u32> = self
            .chain
            .iter()
            .rev()
            .take(10)
            .map(|b| b.block.header.time)
            .collect();
        times.push(time);
        times.sort_unstable();
        times[times.len() / 2]
    }

    fn tx_at(&self, place: Place) -> &Transaction {
        &self.chain[place.height as usize].block.txdata[place.position as usize]
    }

    /// Which chain.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The best block.
    pub fn tip(&self) -> &ModelBlock {
        self.chain.last().expect("genesis is never disconnected")
    }

    /// Height of the best block.
    pub fn height(&self) -> u32 {
        self.tip().height
    }

    /// The best chain from genesis.
    pub fn chain(&self) -> &[ModelBlock] {
        &self.chain
    }

    /// The best-chain block at a height.
    pub fn block_at(&self, height: u32) -> Option<&ModelBlock> {
        self.chain.get(height as usize)
    }

    /// A block, stale ones included, and whether it is on the best chain.
    pub fn block(&self, hash: &BlockHash) -> Option<(&ModelBlock, bool)> {
        let on_chain = self
            .chain
            .iter()
            .find(|block| block.hash == *hash)
            .map(|block| (block, true));
        on_chain.or_else(|| self.stale.get(hash).map(|block| (block, false)))
    }

    /// Blocks that were on the best chain once and are not now.
    pub fn stale_blocks(&self) -> impl Iterator<Item = &ModelBlock> {
        self.stale.values()
    }

    /// All confirmed transactions with their places, in the order of their ids.
    pub fn transactions(&self) -> impl Iterator<Item = (Txid, Place)> + '_ {
        self.places.iter().map(|(txid, place)| (*txid, *place))
    }

    /// Where a transaction is confirmed.
    pub fn place(&self, txid: &Txid) -> Option<Place> {
        self.places.get(txid).copied()
    }

    /// A confirmed transaction.
    pub fn tx(&self, txid: &Txid) -> Option<ModelTx> {
        let place = self.place(txid)?;
        let tx = self.tx_at(place).clone();
        let prevouts: Vec<Option<TxOut>> = tx
            .input
            .iter()
            .map(|input| self.output(&input.previous_output))
            .collect();
        let fee = if place.position == 0 {
            0
        } else {
            let paid: u64 = prevouts
                .iter()
                .flatten()
                .map(|output| output.value.to_sat())
                .sum();
            paid - tx
                .output
                .iter()
                .map(|output| output.value.to_sat())
                .sum::<u64>()
        };
        Some(ModelTx {
            block: self.chain[place.height as usize].hash,
            tx,
            place,
            prevouts,
            fee,
        })
    }

    /// A confirmed output, spent or not.
    pub fn output(&self, outpoint: &OutPoint) -> Option<TxOut> {
        self.tx_at(self.place(&outpoint.txid)?)
            .output
            .get(outpoint.vout as usize)
            .cloned()
    }

    /// Who spends an output: transaction, input, where.
    pub fn spend(&self, outpoint: &OutPoint) -> Option<(Txid, u32, Place)> {
        let (txid, vin) = self.spends.get(outpoint)?;
        Some((*txid, *vin, self.place(txid)?))
    }

    /// One entry per output of a confirmed transaction.
    pub fn spends_of(&self, txid: &Txid) -> Option<Vec<Option<(Txid, u32, Place)>>> {
        let outputs = self.tx_at(self.place(txid)?).output.len() as u32;
        Some(
            (0..outputs)
                .map(|vout| self.spend(&OutPoint::new(*txid, vout)))
                .collect(),
        )
    }

    /// All scripts that the best chain touches, unspendable ones included.
    pub fn scripts(&self) -> impl Iterator<Item = (&ScriptHash, &ScriptBuf)> {
        self.touches
            .keys()
            .filter_map(|hash| self.scripts.get_key_value(hash))
    }

    /// Everything that happened to a script, oldest first: by height, position, and within a transaction spends first.
    pub fn touches(&self, script: &ScriptHash) -> &[Touch] {
        self.touches.get(script).map_or(&[], Vec::as_slice)
    }

    /// Whether the index keeps history of this script when it leaves provably unspendable outputs out.
    pub fn is_indexed(&self, script: &ScriptHash, unspendables_too: bool) -> bool {
        unspendables_too
            || self
                .scripts
                .get(script)
                .is_some_and(|script| !is_unspendable(script))
    }

    /// Transactions of a script, oldest first, each once.
    pub fn history(&self, script: &ScriptHash) -> Vec<(Txid, Place)> {
        let mut history: Vec<(Txid, Place)> = Vec::new();
        for touch in self.touches(script) {
            if history.last().is_none_or(|(txid, _)| *txid != touch.txid) {
                history.push((touch.txid, touch.place));
            }
        }
        history
    }

    /// The same, newest first: the order of history pages.
    pub fn history_newest_first(&self, script: &ScriptHash) -> Vec<(Txid, Place)> {
        let mut history = self.history(script);
        history.reverse();
        history
    }

    /// Totals of a script.
    pub fn stats(&self, script: &ScriptHash) -> ModelStats {
        let mut stats = ModelStats {
            tx_count: self.history(script).len() as u64,
            ..ModelStats::default()
        };
        for touch in self.touches(script) {
            match touch.kind {
                TouchKind::Fund { .. } => {
                    stats.funded_txo_count += 1;
                    stats.funded_txo_sum += touch.value;
                }
                TouchKind::Spend { .. } => {
                    stats.spent_txo_count += 1;
                    stats.spent_txo_sum += touch.value;
                }
            }
        }
        stats
    }

    /// Funded minus spent, satoshi.
    pub fn balance(&self, script: &ScriptHash) -> u64 {
        let stats = self.stats(script);
        stats.funded_txo_sum - stats.spent_txo_sum
    }

    /// Unspent outputs of a script, by height, position, output index. Never provably unspendable ones.
    pub fn utxos(&self, script: &ScriptHash) -> Vec<&ModelUtxo> {
        let mut utxos: Vec<&ModelUtxo> = self
            .touches(script)
            .iter()
            .filter_map(|touch| match touch.kind {
                TouchKind::Fund { vout } => self.unspent.get(&OutPoint::new(touch.txid, vout)),
                TouchKind::Spend { .. } => None,
            })
            .collect();
        utxos.sort_by_key(|utxo| (utxo.place, utxo.outpoint.vout));
        utxos
    }

    /// The UTXO set as the node keeps it: without provably unspendable outputs and without the genesis coinbase (which is in
    /// [`Self::utxos`] of its script, since it was paid and never spent).
    pub fn utxo_set(&self) -> impl Iterator<Item = &ModelUtxo> {
        self.unspent.values().filter(|utxo| utxo.place.height > 0)
    }

    /// An unspent output.
    pub fn utxo(&self, outpoint: &OutPoint) -> Option<&ModelUtxo> {
        self.unspent.get(outpoint)
    }

    /// Addresses paid on the best chain, in alphabetical order.
    pub fn addresses(&self) -> BTreeSet<String> {
        self.scripts()
            .filter_map(|(_, script)| Address::from_script(script, self.network).ok())
            .map(|address| address.to_string())
            .collect()
    }
}
