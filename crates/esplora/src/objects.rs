//! The JSON objects of the API, as documented in the OpenAPI description.
//!
//! These types are the reference for field names, order, and what is absent or null. The server writes the same bytes
//! directly (`render`); tests read them back through these types and compare byte for byte.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Whether it is in a block of the best chain.
    pub confirmed: bool,
    /// The block's height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub block_height: Option<u32>,
    /// The block's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub block_hash: Option<String>,
    /// The time in the block's header, Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub block_time: Option<u32>,
}

/// A transaction output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The script, hexadecimal.
    pub scriptpubkey: String,
    /// The script in assembler notation.
    pub scriptpubkey_asm: String,
    /// `empty`, `op_return`, `p2pk`, `p2pkh`, `p2sh`, `v0_p2wpkh`, `v0_p2wsh`, `v1_p2tr`, `provably_unspendable`,
    /// `multisig` (only if configured) or `unknown`.
    pub scriptpubkey_type: String,
    /// The script's address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scriptpubkey_address: Option<String>,
    /// Satoshi.
    pub value: u64,
}

/// A transaction input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The transaction whose output is spent; zeros for a coinbase.
    pub txid: String,
    /// Which of its outputs; 4294967295 for a coinbase.
    pub vout: u32,
    /// The output that is spent; null for a coinbase.
    pub prevout: Option<Output>,
    /// The scriptSig, hexadecimal.
    pub scriptsig: String,
    /// The scriptSig in assembler notation.
    pub scriptsig_asm: String,
    /// The witness items, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub witness: Option<Vec<String>>,
    /// Whether this is the input of a coinbase.
    pub is_coinbase: bool,
    /// The sequence number.
    pub sequence: u32,
    /// P2SH: the redeem script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub inner_redeemscript_asm: Option<String>,
    /// P2WSH: the witness script; Taproot script path: the leaf script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub inner_witnessscript_asm: Option<String>,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Its id.
    pub txid: String,
    /// The version, its 32 bits read as an unsigned number.
    pub version: u32,
    /// The lock time.
    pub locktime: u32,
    /// The inputs.
    pub vin: Vec<Input>,
    /// The outputs.
    pub vout: Vec<Output>,
    /// Bytes, witness included.
    pub size: u32,
    /// Weight units.
    pub weight: u32,
    /// Signature operation cost (only if configured).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sigops: Option<u64>,
    /// Satoshi; 0 for a coinbase.
    pub fee: u64,
    /// Where it is.
    pub status: Status,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its hash.
    pub id: String,
    /// Its height.
    pub height: u32,
    /// The version, its 32 bits read as an unsigned number.
    pub version: u32,
    /// The header's time, Unix seconds.
    pub timestamp: u32,
    /// Number of transactions.
    pub tx_count: u32,
    /// Bytes.
    pub size: u32,
    /// Weight units.
    pub weight: u32,
    /// The merkle root.
    pub merkle_root: String,
    /// The parent's hash; null for genesis.
    pub previousblockhash: Option<String>,
    /// Median time of the block and its up to ten predecessors, Unix seconds.
    pub mediantime: u32,
    /// The nonce.
    pub nonce: u32,
    /// The target in its compact form.
    pub bits: u32,
    /// How many times harder than the easiest target of the main network.
    pub difficulty: f64,
}

/// Whether a block is on the best chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockStatus {
    /// Whether it is.
    pub in_best_chain: bool,
    /// Its height; null if it is not.
    pub height: Option<u32>,
    /// The hash of its successor; null at the tip.
    pub next_best: Option<String>,
}

/// The proof that a transaction is in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MerkleProof {
    /// The block's height.
    pub block_height: u32,
    /// Sibling hashes from the leaves up.
    pub merkle: Vec<String>,
    /// Index of the transaction in the block.
    pub pos: u32,
}

/// Whether and by whom an output is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Spend {
    /// Whether it is spent.
    pub spent: bool,
    /// The spending transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub txid: Option<String>,
    /// Which of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub vin: Option<u32>,
    /// Where the spending transaction is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<Status>,
}

/// An unspent output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Utxo {
    /// The transaction.
    pub txid: String,
    /// Which of its outputs.
    pub vout: u32,
    /// Where the transaction is.
    pub status: Status,
    /// Satoshi.
    pub value: u64,
}

/// Totals of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// Outputs paid to it.
    pub funded_txo_count: u64,
    /// Their sum, satoshi.
    pub funded_txo_sum: u64,
    /// Outputs spent from it.
    pub spent_txo_count: u64,
    /// Their sum, satoshi.
    pub spent_txo_sum: u64,
    /// Transactions that do either.
    pub tx_count: u64,
}

/// An address with its totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressStats {
    /// The address as asked for.
    pub address: String,
    /// Confirmed.
    pub chain_stats: Stats,
    /// Unconfirmed.
    pub mempool_stats: Stats,
}

/// A scripthash with its totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptHashStats {
    /// The scripthash as asked for.
    pub scripthash: String,
    /// Confirmed.
    pub chain_stats: Stats,
    /// Unconfirmed.
    pub mempool_stats: Stats,
}

/// What a transaction did to a script's balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TxSummary {
    /// The transaction.
    pub txid: String,
    /// The height of its block.
    pub height: u32,
    /// Net change, satoshi.
    pub value: i64,
    /// The time of its block, Unix seconds.
    pub time: u32,
    /// Its index in the block.
    pub tx_position: u32,
}

/// How much is waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mempool {
    /// Unconfirmed transactions.
    pub count: u64,
    /// Their virtual bytes, each transaction rounded up.
    pub vsize: u64,
    /// Their fees, satoshi.
    pub total_fee: u64,
    /// Pairs of the lowest fee rate of a bin, satoshi per virtual byte, and the virtual bytes in it; from the highest rate down. A
    /// bin holds more than 50,000, but for the last.
    #[schema(value_type = Vec<Vec<f64>>)]
    pub fee_histogram: Vec<(f64, u64)>,
}

/// An unconfirmed transaction in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MempoolRecent {
    /// The transaction.
    pub txid: String,
    /// Satoshi.
    pub fee: u64,
    /// Virtual bytes.
    pub vsize: u64,
    /// What its inputs are worth, satoshi.
    pub value: u64,
}
