//! Deriving rows anew from the source and comparing them with the stored ones, both ways.
//!
//! For each block of the range: every row it should have left is there with the right value (missing, different), and
//! around those rows there is nothing else (surplus): no further `C`, `O` or `S` row of its transactions, no further `H`
//! row at its height of a script it touches. When the range is the whole chain, every `H` row is looked at once more, so
//! that rows of scripts that no block touches are found too.

mod block;
mod scan;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use bitcoin::hex::DisplayHex;
use cairn_utxo_node::ChainSource;

use crate::index::{IndexConfig, IndexError};
use crate::rows::Db;
use crate::types::QueryError;
use crate::view::View;

/// Findings that are named one by one; beyond, they are only counted.
const FINDINGS_NAMED_MAX: usize = 1_000;

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It should be there and is not.
    Missing,
    /// It is there with another value.
    Different,
    /// It is there and should not be.
    Surplus,
}

/// A row that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Height of the block the row is about.
    pub height: u32,
    /// Its database.
    pub db: Db,
    /// What is wrong.
    pub fault: Fault,
    /// Its key, lower-case hex.
    pub key: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::Missing => "missing",
            Fault::Different => "different",
            Fault::Surplus => "surplus",
        };
        write!(
            f,
            "height {}: {fault} row in {}: {}",
            self.height, self.db, self.key
        )
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Blocks compared.
    pub blocks: u64,
    /// Rows compared.
    pub rows: u64,
    /// Wrong rows in all.
    pub faults: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Whether everything is as it should be.
    pub fn is_clean(&self) -> bool {
        self.faults == 0
    }

    fn note(&mut self, height: u32, db: Db, fault: Fault, key: &[u8]) {
        self.faults += 1;
        if self.findings.len() < FINDINGS_NAMED_MAX {
            self.findings.push(Finding {
                height,
                db,
                fault,
                key: key.to_lower_hex_string(),
            });
        }
    }
}

/// One comparison.
pub(crate) struct Verifier<'a> {
    view: &'a View,
    config: &'a IndexConfig,
    source: &'a dyn ChainSource,
    report: VerifyReport,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(
        view: &'a View,
        config: &'a IndexConfig,
        source: &'a dyn ChainSource,
    ) -> Self {
        Self {
            view,
            config,
            source,
            report: VerifyReport::default(),
        }
    }

    /// Compares the blocks at `heights`; those above the tip are left out.
    pub(crate) fn run(
        mut self,
        heights: RangeInclusive<u32>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u32),
    ) -> Result<VerifyReport, IndexError> {
        let tip = self.view.tip().height;
        let whole_chain = *heights.start() == 0 && *heights.end() >= tip;
        let check_stop = || {
            if stop.load(Ordering::Relaxed) {
                Err(IndexError::Stopped)
            } else {
                Ok(())
            }
        };
        for height in *heights.start()..=(*heights.end()).min(tip) {
            check_stop()?;
            self.block(height)?;
            self.report.blocks += 1;
            progress(height);
        }
        if whole_chain {
            self.scan_history(&check_stop)?;
        }
        Ok(self.report)
    }
}

/// Reading for a comparison fails as indexing does: with an [`IndexError`].
impl From<QueryError> for IndexError {
    fn from(error: QueryError) -> Self {
        Self::Store(error.to_string())
    }
}
