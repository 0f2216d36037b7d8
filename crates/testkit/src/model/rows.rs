//! The rows that an index of the model's chain must hold, spelled out from the layout tables of the index specification and from
//! nothing else: a second, independent writing-down of the same contract.

use std::collections::BTreeMap;

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{Address, BlockHash, Txid};

use super::{Model, ModelBlock, TouchKind, is_unspendable};

/// The two databases whose rows follow from the chain (the third is a cache).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    /// Blocks, transactions, outputs.
    Txstore,
    /// What happened to each script.
    History,
}

/// What decides which rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowOptions {
    /// Without `T`, `X`, `M`.
    pub light_mode: bool,
    /// With `a`.
    pub address_search: bool,
    /// With `H…F` rows of provably unspendable outputs.
    pub index_unspendables: bool,
    /// With the `txstore` rows of stale blocks: for an index that saw them on its best chain.
    pub stale_blocks: bool,
}

/// Rows by database and key. The bookkeeping rows `V` and `F` are not among them.
pub type Rows = BTreeMap<(Database, Vec<u8>), Vec<u8>>;

struct Writer {
    rows: Rows,
    options: RowOptions,
}

impl Model {
    /// All rows of an index of the best chain.
    ///
    /// `a` rows are those of the best chain: an index that followed a reorganisation keeps older ones as well.
    pub fn rows(&self, options: RowOptions) -> Rows {
        let mut writer = Writer {
            rows: Rows::new(),
            options,
        };
        for block in self.chain() {
            writer.stored_block(block);
            writer.history(&[b"D", hash(&block.hash)].concat(), &[]);
        }
        if options.stale_blocks {
            self.stale_blocks()
                .for_each(|block| writer.stored_block(block));
        }
        writer.txstore(b"t", hash(&self.tip().hash));
        self.script_rows(&mut writer);
        if options.address_search {
            for (_, script) in self.scripts() {
                if let Ok(address) = Address::from_script(script, self.network()) {
                    writer.history(format!("a{address}").as_bytes(), &[]);
                }
            }
        }
        writer.rows
    }

    fn script_rows(&self, writer: &mut Writer) {
        for (script_hash, script) in self.scripts() {
            if is_unspendable(script) && !writer.options.index_unspendables {
                continue;
            }
            for touch in self.touches(script_hash) {
                let mut key = [&b"H"[..], script_hash, &touch.place.height.to_be_bytes()].concat();
                match touch.kind {
                    TouchKind::Fund { vout } => {
                        key.extend_from_slice(b"F");
                        key.extend_from_slice(id(&touch.txid));
                        key.extend_from_slice(&vout.to_be_bytes());
                    }
                    TouchKind::Spend { vin, previous } => {
                        key.extend_from_slice(b"S");
                        key.extend_from_slice(id(&touch.txid));
                        key.extend_from_slice(&vin.to_be_bytes());
                        key.extend_from_slice(id(&previous.txid));
                        key.extend_from_slice(&previous.vout.to_be_bytes());
                        let edge = [
                            &b"S"[..],
                            id(&previous.txid),
                            &previous.vout.to_be_bytes(),
                            id(&touch.txid),
                            &vin.to_be_bytes(),
                        ];
                        writer.history(&edge.concat(), &[]);
                    }
                }
                key.extend_from_slice(&touch.value.to_be_bytes());
                writer.history(&key, &[]);
            }
        }
    }
}

impl Writer {
    fn txstore(&mut self, key: &[u8], value: &[u8]) {
        self.rows
            .insert((Database::Txstore, key.to_vec()), value.to_vec());
    }

    fn history(&mut self, key: &[u8], value: &[u8]) {
        self.rows
            .insert((Database::History, key.to_vec()), value.to_vec());
    }

    fn stored_block(&mut self, block: &ModelBlock) {
        let block_hash = hash(&block.hash);
        self.txstore(
            &[b"B", block_hash].concat(),
            &serialize(&block.block.header),
        );
        self.txstore(&[b"D", block_hash].concat(), &[]);
        if !self.options.light_mode {
            let ids: Vec<u8> = block
                .txids
                .iter()
                .flat_map(|txid| id(txid).to_vec())
                .collect();
            self.txstore(&[b"X", block_hash].concat(), &ids);
            let count = block.txids.len() as u32;
            let metadata = [
                block.weight.to_be_bytes(),
                block.size.to_be_bytes(),
                count.to_be_bytes(),
            ]
            .concat();
            self.txstore(&[b"M", block_hash].concat(), &metadata);
        }
        for (tx, txid) in block.block.txdata.iter().zip(&block.txids) {
            if !self.options.light_mode {
                self.txstore(&[b"T", id(txid)].concat(), &serialize(tx));
            }
            self.txstore(&[b"C", id(txid), block_hash].concat(), &[]);
            for (vout, output) in tx.output.iter().enumerate() {
                let value = [
                    output.script_pubkey.as_bytes(),
                    &output.value.to_sat().to_be_bytes(),
                ]
                .concat();
                self.txstore(
                    &[b"O", id(txid), &(vout as u32).to_be_bytes()[..]].concat(),
                    &value,
                );
            }
        }
    }
}

fn hash(block: &BlockHash) -> &[u8] {
    block.as_byte_array()
}

fn id(txid: &Txid) -> &[u8] {
    txid.as_byte_array()
}
