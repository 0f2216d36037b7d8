//! Which scripts a block touches, read off the rows that are written for it anyway.

use crate::engine::Family;
use crate::mempool::ChainDelta;
use crate::rows;
use crate::types::ScriptHash;

/// Scripts of the rows of some blocks, with repetitions.
#[derive(Debug, Default)]
pub(super) struct TouchedScripts(Vec<ScriptHash>);

impl TouchedScripts {
    /// Looks at a row of `history`.
    pub(super) fn push(&mut self, family: Family, key: &[u8]) {
        if family == Family::Hist
            && let Some(script) = rows::hist_script(key)
            && self.0.last() != Some(&script)
        {
            self.0.push(script);
        }
    }

    /// Hands the scripts on.
    pub(super) fn tell(self, delta: &mut ChainDelta) {
        for script in self.0 {
            delta.touch_script(script);
        }
    }
}
