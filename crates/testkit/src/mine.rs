//! Turning transactions into a valid block: coinbase, witness commitment, merkle root, proof of work.

use bitcoin::block::{Header, Version as BlockVersion};
use bitcoin::hashes::Hash;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::Builder;
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn,
    TxMerkleNode, TxOut, Txid, Witness, WitnessMerkleNode, absolute, merkle_tree,
};

/// The target of every regtest block.
const REGTEST_BITS: u32 = 0x207f_ffff;
/// Blocks between two halvings on regtest.
const HALVING_INTERVAL: u32 = 150;
/// Subsidy before the first halving, satoshi.
const FIRST_SUBSIDY: u64 = 50 * 100_000_000;
/// Confirmations (the spending block counts) that a coinbase needs before it can be spent.
pub const COINBASE_MATURITY: u32 = 100;
/// The only value in use for the coinbase witness, from which the commitment is computed (BIP141).
const WITNESS_RESERVED: [u8; 32] = [0; 32];
/// What begins the data of a witness commitment (BIP141).
const COMMITMENT_HEADER: [u8; 4] = [0xaa, 0x21, 0xa9, 0xed];

/// New coins of a regtest block, satoshi.
pub fn subsidy(height: u32) -> u64 {
    FIRST_SUBSIDY
        .checked_shr(height / HALVING_INTERVAL)
        .unwrap_or(0)
}

/// All that a block is made of, except what follows from it.
#[derive(Debug, Clone)]
pub struct BlockRecipe {
    /// Height of the block.
    pub height: u32,
    /// Its parent.
    pub prev: BlockHash,
    /// The header's time, Unix seconds. The node wants it above the median of the 11 blocks before.
    pub time: u32,
    /// Who gets subsidy and fees.
    pub payee: ScriptBuf,
    /// Sum of the fees of `txs`, satoshi.
    pub fees: u64,
    /// Goes into the coinbase: makes blocks of one height differ.
    pub extra_nonce: u64,
    /// Everything after the coinbase, parents before children.
    pub txs: Vec<Transaction>,
}

impl BlockRecipe {
    /// The finished block.
    pub fn mine(self) -> Block {
        let ids: Vec<Txid> = self.txs.iter().map(Transaction::compute_txid).collect();
        self.mine_with_ids(&ids)
    }

    /// The same, for a caller that has the ids of `txs` already.
    pub(crate) fn mine_with_ids(self, ids: &[Txid]) -> Block {
        let witness_root = merkle_tree::calculate_root(
            std::iter::once(Hash::all_zeros()).chain(
                self.txs
                    .iter()
                    .zip(ids)
                    .map(|(tx, txid)| witness_leaf(tx, txid)),
            ),
        )
        .expect("there is a coinbase");
        let coinbase = self.coinbase(witness_root);
        let merkle_root = merkle_tree::calculate_root(
            std::iter::once(TxMerkleNode::from_raw_hash(
                coinbase.compute_txid().to_raw_hash(),
            ))
            .chain(
                ids.iter()
                    .map(|txid| TxMerkleNode::from_raw_hash(txid.to_raw_hash())),
            ),
        )
        .expect("there is a coinbase");

        let mut header = Header {
            version: BlockVersion::from_consensus(0x2000_0000),
            prev_blockhash: self.prev,
            merkle_root,
            time: self.time,
            bits: CompactTarget::from_consensus(REGTEST_BITS),
            nonce: 0,
        };
        // Every second hash meets the target of regtest.
        let target = header.target();
        while header.validate_pow(target).is_err() {
            header.nonce += 1;
        }
        let mut txdata = Vec::with_capacity(self.txs.len() + 1);
        txdata.push(coinbase);
        txdata.extend(self.txs);
        Block { header, txdata }
    }

    fn coinbase(&self, witness_root: WitnessMerkleNode) -> Transaction {
        let commitment = Block::compute_witness_commitment(&witness_root, &WITNESS_RESERVED);
        let mut data = [0; 36];
        data[..4].copy_from_slice(&COMMITMENT_HEADER);
        data[4..].copy_from_slice(commitment.as_ref());
        Transaction {
            version: Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn {
                previous_output: OutPoint::null(),
                // The height comes first (BIP34).
                script_sig: Builder::new()
                    .push_int(i64::from(self.height))
                    .push_slice(self.extra_nonce.to_le_bytes())
                    .into_script(),
                sequence: Sequence::MAX,
                witness: Witness::from_slice(&[WITNESS_RESERVED]),
            }],
            output: vec![
                TxOut {
                    value: Amount::from_sat(subsidy(self.height) + self.fees),
                    script_pubkey: self.payee.clone(),
                },
                TxOut {
                    value: Amount::ZERO,
                    script_pubkey: Builder::new()
                        .push_opcode(OP_RETURN)
                        .push_slice(data)
                        .into_script(),
                },
            ],
        }
    }
}

/// The transaction's leaf in the witness tree; without a witness it is the txid.
fn witness_leaf(tx: &Transaction, txid: &Txid) -> WitnessMerkleNode {
    let has_witness = tx.input.iter().any(|input| !input.witness.is_empty());
    let hash = if has_witness {
        tx.compute_wtxid().to_raw_hash()
    } else {
        txid.to_raw_hash()
    };
    WitnessMerkleNode::from_raw_hash(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::Network;
    use bitcoin::blockdata::constants::genesis_block;

    #[test]
    fn a_block_is_complete() {
        let genesis = genesis_block(Network::Regtest);
        let block = BlockRecipe {
            // Below 17 the height is one opcode, which `bip34_block_height` does not read.
            height: 17,
            prev: genesis.block_hash(),
            time: genesis.header.time + 600,
            payee: ScriptBuf::new(),
            fees: 0,
            extra_nonce: 7,
            txs: Vec::new(),
        }
        .mine();
        assert!(block.check_merkle_root());
        assert!(block.check_witness_commitment());
        assert_eq!(block.bip34_block_height().ok(), Some(17));
        assert!(block.header.validate_pow(genesis.header.target()).is_ok());
    }

    #[test]
    fn subsidy_halves_and_ends() {
        assert_eq!(subsidy(149), 5_000_000_000);
        assert_eq!(subsidy(150), 2_500_000_000);
        assert_eq!(subsidy(150 * 33), 0);
        assert_eq!(subsidy(150 * 64), 0);
        assert_eq!(subsidy(u32::MAX), 0);
    }
}
