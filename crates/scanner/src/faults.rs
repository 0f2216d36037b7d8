//! What is wrong with a request: every fault with the path of the field it is about, all at once.

use serde::{Deserialize, Serialize};

/// Faults reported for one request at most: a bound on the answer, not on what is refused.
const FAULTS_MAX: usize = 50;

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The field, as in `record.priceUsd` or `wallets[1].updatedAt`.
    pub path: String,
    /// A stable word for programs: `missing`, `wrong_type`, `usd_precision`, …
    pub code: String,
    /// A sentence for people: what is wrong and what would be right.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.code)
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Notes a fault.
    pub(crate) fn add(&mut self, path: &str, code: &'static str, message: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault {
                path: path.to_owned(),
                code: code.to_owned(),
                message: message.into(),
            });
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults, in the order found.
    pub(crate) fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}
