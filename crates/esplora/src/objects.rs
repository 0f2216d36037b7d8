//! The JSON objects of the API, as documented in the OpenAPI description.
//!
//! These types are the reference for field names, order, and what is absent or null. The server writes the same bytes
//! directly (`render`); tests read them back through these types and compare byte for byte.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a transaction is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Base units; absent if it is blinded (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<u64>,
    /// Blinded value, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub valuecommitment: Option<String>,
    /// Asset id (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub asset: Option<String>,
    /// Blinded asset, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assetcommitment: Option<String>,
    /// Where it sends coins of the parent chain (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pegout: Option<Pegout>,
}

/// Coins on their way back to the parent chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pegout {
    /// The parent chain's genesis block.
    pub genesis_hash: String,
    /// The script there, hexadecimal.
    pub scriptpubkey: String,
    /// The script in assembler notation.
    pub scriptpubkey_asm: String,
    /// The script's address there, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scriptpubkey_address: Option<String>,
}

/// An issuance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuance {
    /// What is issued.
    pub asset_id: String,
    /// Whether more of a known asset is issued.
    pub is_reissuance: bool,
    /// Reissuance: blinding factor of the token that is spent, printed order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub asset_blinding_nonce: Option<String>,
    /// New asset: hash of its contract, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub contract_hash: Option<String>,
    /// What asset and token ids follow from.
    pub asset_entropy: String,
    /// Base units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assetamount: Option<u64>,
    /// Blinded amount, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assetamountcommitment: Option<String>,
    /// Reissuance tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tokenamount: Option<u64>,
    /// Blinded tokens, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tokenamountcommitment: Option<String>,
}

/// A transaction input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Whether it claims coins of the parent chain (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub is_pegin: Option<bool>,
    /// What it issues (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub issuance: Option<Issuance>,
}

/// A transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Base units; 0 for a coinbase.
    pub fee: u64,
    /// Virtual bytes by which Liquid's nodes price it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub discount_vsize: Option<u64>,
    /// The same as weight units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub discount_weight: Option<u64>,
    /// Where it is.
    pub status: Status,
}

/// A block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// The nonce; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub nonce: Option<u32>,
    /// The target in its compact form; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bits: Option<u32>,
    /// How many times harder than the easiest target of the main network; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub difficulty: Option<f64>,
    /// Elements, in the answer about one block: `challenge` and `solution`, or the parameters of the dynamic federation and
    /// the signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext: Option<serde_json::Value>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Utxo {
    /// The transaction.
    pub txid: String,
    /// Which of its outputs.
    pub vout: u32,
    /// Where the transaction is.
    pub status: Status,
    /// Base units; absent if it is blinded (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<u64>,
    /// Blinded value, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub valuecommitment: Option<String>,
    /// Asset id (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub asset: Option<String>,
    /// Blinded asset, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assetcommitment: Option<String>,
    /// Plain nonce, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub nonce: Option<String>,
    /// What the receiver unblinds with, hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub noncecommitment: Option<String>,
    /// Hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub surjection_proof: Option<String>,
    /// Hexadecimal (Elements).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub range_proof: Option<String>,
}

/// Totals of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// Outputs paid to it.
    pub funded_txo_count: u64,
    /// Their sum, satoshi; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub funded_txo_sum: Option<u64>,
    /// Outputs spent from it.
    pub spent_txo_count: u64,
    /// Their sum, satoshi; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spent_txo_sum: Option<u64>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MempoolRecent {
    /// The transaction.
    pub txid: String,
    /// Satoshi.
    pub fee: u64,
    /// Virtual bytes.
    pub vsize: u64,
    /// What its inputs are worth, satoshi; not on Elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<u64>,
    /// Virtual bytes by which Liquid's nodes price it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub discount_vsize: Option<u64>,
}

/// An asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Asset {
    /// Its id.
    pub asset_id: String,
    /// The issuing input; not of the native asset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub issuance_txin: Option<AssetInput>,
    /// What that input spends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub issuance_prevout: Option<AssetPrevout>,
    /// The token that allows to issue more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reissuance_token: Option<String>,
    /// Hash of the contract, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub contract_hash: Option<String>,
    /// Where the issuance is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<Status>,
    /// Confirmed.
    pub chain_stats: AssetTotals,
    /// Unconfirmed.
    pub mempool_stats: AssetTotals,
    /// The contract, as the registry has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<serde_json::Value>,
    /// Who vouches for it, as the registry has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<serde_json::Value>,
    /// Digits after the point, as the registry has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub precision: Option<u8>,
    /// Name, as the registry has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Ticker, as the registry has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ticker: Option<String>,
}

/// An input that issues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AssetInput {
    /// Its transaction.
    pub txid: String,
    /// Which of its inputs.
    pub vin: u32,
}

/// An output that an issuance spends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AssetPrevout {
    /// Its transaction.
    pub txid: String,
    /// Which of its outputs.
    pub vout: u32,
}

/// Totals of an asset, base units: of an issued one, or of the native one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AssetTotals {
    /// Of an issued asset.
    Issued(IssuedTotals),
    /// Of the native asset.
    Native(NativeTotals),
}

/// Totals of an issued asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuedTotals {
    /// Transactions that issue, burn or openly transfer it.
    pub tx_count: u64,
    /// Issuances.
    pub issuance_count: u64,
    /// Their sum.
    pub issued_amount: u64,
    /// Sum of what can never be spent.
    pub burned_amount: u64,
    /// Whether an issued amount is blinded.
    pub has_blinded_issuances: bool,
    /// Reissuance tokens; null if blinded.
    pub reissuance_tokens: Option<u64>,
    /// Of those, what can never be spent.
    pub burned_reissuance_tokens: u64,
    /// Transactions that change its supply.
    pub supply_tx_count: u64,
}

/// Totals of the native asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeTotals {
    /// Transactions that peg in, peg out or burn.
    pub tx_count: u64,
    /// Peg-ins.
    pub peg_in_count: u64,
    /// Their sum.
    pub peg_in_amount: u64,
    /// Peg-outs.
    pub peg_out_count: u64,
    /// Their sum.
    pub peg_out_amount: u64,
    /// Outputs that can never be spent.
    pub burn_count: u64,
    /// Their sum.
    pub burned_amount: u64,
    /// Transactions that change the supply.
    pub supply_tx_count: u64,
}
