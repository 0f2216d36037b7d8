//! Compiled ABIs by the digest of their bytes: thousands of contracts share one ABI, and a contract returns to an earlier one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_antelope_abi::{Abi, Checksum256};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::version::Compiled;

/// Memory for compiled ABIs, in bytes.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;
const ENTRIES_EXPECTED: usize = 4096;

/// How often an ABI was found compiled, and how often it had to be compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbiCounts {
    /// Found.
    pub hits: u64,
    /// Compiled.
    pub misses: u64,
}

#[derive(Clone, Copy)]
struct ByWeight;

impl Weighter<Checksum256, Arc<Compiled>> for ByWeight {
    fn weight(&self, _: &Checksum256, compiled: &Arc<Compiled>) -> u64 {
        let bytes = match &**compiled {
            Ok(abi) => abi.weight(),
            Err(why) => why.len(),
        };
        bytes as u64 + 64
    }
}

pub(crate) struct CompiledAbis {
    cache: Cache<Checksum256, Arc<Compiled>, ByWeight>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CompiledAbis {
    pub(crate) fn new() -> Self {
        Self {
            cache: Cache::with_weighter(ENTRIES_EXPECTED, CACHE_BYTES, ByWeight),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    pub(crate) fn get(&self, digest: &Checksum256, bytes: &[u8]) -> Arc<Compiled> {
        if let Some(found) = self.cache.get(digest) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let compiled = Arc::new(if bytes.is_empty() {
            Err("the contract has no ABI any more".to_owned())
        } else {
            Abi::from_bytes(bytes).map_err(|e| format!("the contract's ABI cannot be used: {e}"))
        });
        self.cache.insert(*digest, Arc::clone(&compiled));
        compiled
    }

    pub(crate) fn counts(&self) -> AbiCounts {
        AbiCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}
