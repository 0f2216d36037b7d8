//! One version of a contract's ABI.

use std::sync::{Arc, OnceLock};

use cairn_antelope_abi::{Abi, Checksum256, Name};
use sha2::{Digest, Sha256};

use crate::compiled::CompiledAbis;

/// A version of a contract's ABI and where it came into force.
#[derive(Debug)]
pub struct AbiVersion {
    /// The contract.
    pub contract: Name,
    /// The block.
    pub block_num: u32,
    /// The block's id; `None` for versions read back from Redis and those from the chain API.
    pub block_id: Option<Checksum256>,
    /// The place of the `setabi` in the order of all actions; 0 when it was seen as a state of the account only.
    pub global_sequence: u64,
    /// How many ABIs the contract has had with this one; 0 when not known.
    pub abi_sequence: u32,
    /// The ABI as the chain has it: any bytes. Empty when the contract took its ABI away.
    pub bytes: Arc<[u8]>,
    /// Digest of the bytes.
    pub sha256: Checksum256,
    compiled: OnceLock<Arc<Compiled>>,
}

/// A compiled ABI, or why there is none.
pub(crate) type Compiled = Result<Abi, String>;

impl AbiVersion {
    /// A version with these bytes.
    #[must_use]
    pub fn new(contract: Name, block_num: u32, global_sequence: u64, bytes: Arc<[u8]>) -> Self {
        Self {
            contract,
            block_num,
            block_id: None,
            global_sequence,
            abi_sequence: 0,
            sha256: Sha256::digest(&bytes).into(),
            bytes,
            compiled: OnceLock::new(),
        }
    }

    /// The same version in a certain block.
    #[must_use]
    pub(crate) fn in_block(mut self, id: Checksum256, abi_sequence: u32) -> Self {
        self.block_id = Some(id);
        self.abi_sequence = abi_sequence;
        self
    }

    /// The same bytes, taken for what was in force all along before.
    pub(crate) fn as_last_resort(&self) -> Self {
        Self::new(
            self.contract,
            self.block_num,
            self.global_sequence,
            Arc::clone(&self.bytes),
        )
    }

    /// Where it came into force, comparable among the versions of one contract.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.block_num, self.global_sequence)
    }

    /// The compiled ABI, or why it cannot be used.
    pub(crate) fn abi(&self, cache: &CompiledAbis) -> Result<&Abi, &str> {
        let compiled = self
            .compiled
            .get_or_init(|| cache.get(&self.sha256, &self.bytes));
        match &**compiled {
            Ok(abi) => Ok(abi),
            Err(why) => Err(why),
        }
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + self.bytes.len()
            + self
                .compiled
                .get()
                .map_or(0, |c| c.as_ref().as_ref().map_or(0, Abi::weight))
    }
}
