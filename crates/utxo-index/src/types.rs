//! What the index answers with. No type here has a serde representation: that belongs to the HTTP crates.

use std::fmt;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, BlockHash, OutPoint, TxMerkleNode, Txid};
pub use cairn_utxo_chain::{
    AssetId, ElementsChain, Family, Field, Header, Network, Output, Proof, Tx, tx::WholeTx,
};

/// SHA-256 of a scriptPubKey, in the order SHA-256 outputs it (the order of the HTTP path and of the rows; the
/// Electrum protocol uses the reverse).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptHash(pub [u8; 32]);

impl ScriptHash {
    /// The scripthash of a scriptPubKey.
    #[inline]
    pub fn of(script: &[u8]) -> Self {
        Self(sha256::Hash::hash(script).to_byte_array())
    }
}

impl fmt::Display for ScriptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0.as_hex())
    }
}

impl fmt::Debug for ScriptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A block of the best chain of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Block hash.
    pub hash: BlockHash,
    /// Height; genesis is 0.
    pub height: u32,
    /// The header's time, Unix seconds.
    pub time: u32,
}

/// A block as stored: also for stale blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSummary {
    /// Block hash.
    pub hash: BlockHash,
    /// Height (a stale block has one too).
    pub height: u32,
    /// The header.
    pub header: Header,
    /// Weight of the whole serialized block, weight units.
    pub weight: u32,
    /// Size of the whole serialized block, bytes.
    pub size: u32,
    /// Number of transactions.
    pub tx_count: u32,
    /// Median time of the block and its up to 10 predecessors.
    pub median_time: u32,
    /// Whether the block is on the best chain of the view.
    pub in_best_chain: bool,
}

/// A transaction with what is needed to show it.
#[derive(Debug, Clone)]
pub struct TxRecord {
    /// Its id.
    pub txid: Txid,
    /// The decoded transaction.
    pub tx: Tx,
    /// Serialized size in bytes, witness included.
    pub size: u32,
    /// Weight units.
    pub weight: u32,
    /// The confirming block; `None`: not on the best chain.
    pub block: Option<BlockRef>,
    /// The spent output of each input, in input order; `None` for what spends none: a coinbase, a peg-in.
    pub prevouts: Vec<Option<Output>>,
    /// Fee in base units; 0 for the coinbase.
    pub fee: u64,
}

/// Who spends an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spend {
    /// Spending transaction.
    pub txid: Txid,
    /// Which of its inputs.
    pub vin: u32,
    /// The block that confirms it.
    pub block: BlockRef,
}

/// Who spends an output, confirmed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    /// Spending transaction.
    pub txid: Txid,
    /// Which of its inputs.
    pub vin: u32,
    /// The block that confirms it; `None`: unconfirmed.
    pub block: Option<BlockRef>,
}

/// An unspent output, confirmed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspent {
    /// Where.
    pub outpoint: OutPoint,
    /// How much; `None`: blinded.
    pub value: Option<Amount>,
    /// The block that confirms it; `None`: unconfirmed.
    pub block: Option<BlockRef>,
}

/// An unspent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utxo {
    /// Where.
    pub outpoint: OutPoint,
    /// How much; `None`: blinded.
    pub value: Option<Amount>,
    /// The block that confirms it.
    pub block: BlockRef,
}

/// Totals of one script over the best chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptStats {
    /// Transactions that fund or spend the script.
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

/// Where an asset was issued first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssetIssue {
    /// The issuing transaction.
    pub txid: Txid,
    /// Which of its inputs.
    pub vin: u32,
    /// What that input spends; the asset's id follows from it and the contract.
    pub spent: OutPoint,
    /// The token that allows to issue more.
    pub token: AssetId,
    /// Hash of the contract, internal byte order; `None`: there is none.
    pub contract_hash: Option<[u8; 32]>,
    /// The block that confirms it; `None`: unconfirmed.
    pub block: Option<BlockRef>,
}

/// How much there is of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Base units.
    Known(u64),
    /// An issued amount is blinded.
    Blinded,
}

/// Totals of an asset over the best chain, or of its unconfirmed transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssetStats {
    /// Of an issued asset.
    Issued(IssuedStats),
    /// Of the chain's native asset.
    Native(NativeStats),
}

/// Totals of an issued asset. Amounts are base units; those that are blinded are not in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IssuedStats {
    /// Transactions that issue, burn or openly transfer it.
    pub tx_count: u64,
    /// Issuances, the first one and those of more.
    pub issuance_count: u64,
    /// Sum of the issued amounts.
    pub issued_amount: u64,
    /// Sum of what can never be spent.
    pub burned_amount: u64,
    /// Whether an issued amount is blinded: then the supply is unknown.
    pub has_blinded_issuances: bool,
    /// Reissuance tokens of the first issuance; `None`: blinded, or issued elsewhere.
    pub reissuance_tokens: Option<u64>,
    /// Of those, what can never be spent.
    pub burned_reissuance_tokens: u64,
}

/// Totals of the native asset. Amounts are base units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NativeStats {
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
}

/// What a script held after a block that changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalancePoint {
    /// Height of the block.
    pub height: u32,
    /// Satoshi.
    pub balance: u64,
}

/// Position of a transaction in its block, with the sibling hashes that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerkleProof {
    /// The block.
    pub block: BlockRef,
    /// Sibling hashes from the leaves up.
    pub branch: Vec<TxMerkleNode>,
    /// Index of the transaction in the block.
    pub pos: u32,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The script's final set of unspent outputs is larger than the configured limit.
    #[error("Too many unspent outputs")]
    TooManyUtxos,
    /// The request visited more rows than one request may; the work done is kept, asking again continues.
    #[error("Scripthash history too large to scan")]
    TooManyRows,
    /// Address search is not enabled in this index.
    #[error("address search disabled")]
    AddressSearchDisabled,
    /// A start index beyond the end of the block.
    #[error("start index out of range")]
    OutOfRange,
    /// The node is needed for the answer (light mode) and did not give it.
    #[error("{0}")]
    Node(String),
    /// The time of one request is over.
    #[error("deadline exceeded")]
    Deadline,
    /// The store failed or a row is damaged. Says where.
    #[error("{0}")]
    Store(String),
}
