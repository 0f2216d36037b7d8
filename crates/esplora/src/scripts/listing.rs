//! Lists that go on from the mempool into the chain without a gap.

use std::sync::Arc;

use bitcoin::Txid;
use cairn_http::Answer;
use cairn_utxo_index::{BlockRef, MempoolEntry, ScriptHash};

use crate::error::Failure;
use crate::json::JsonBuf;
use crate::render;
use crate::scripts::page::{Page, unknown_cursor};
use crate::scripts::shared::history;
use crate::state::Reading;

/// Unconfirmed transactions of a first page, unless the client says how long its page is.
pub(crate) const MEMPOOL_TXS: usize = 50;

/// A page: unconfirmed transactions, the last to arrive first, then confirmed ones, newest first.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) unconfirmed: Vec<Arc<MempoolEntry>>,
    pub(crate) confirmed: Vec<(Txid, BlockRef)>,
}

/// A page of what the scripts' transactions are, unconfirmed and confirmed, each once.
///
/// A first page of no given length has up to 50 unconfirmed transactions and the usual number of confirmed ones: that is what
/// clients know that go on with the confirmed list alone. With a length or a cursor it is one list.
pub(crate) fn page(
    reading: &Reading,
    scripts: &[ScriptHash],
    page: &Page,
) -> Result<Listed, Failure> {
    let after_unconfirmed = match &page.after {
        None => None,
        Some(after) if reading.mempool().contains(after) => Some(*after),
        Some(_) => {
            return Ok(Listed {
                unconfirmed: Vec::new(),
                confirmed: history(reading, scripts, page)?,
            });
        }
    };
    reading.mempool();
    let mut unconfirmed = reading.view.unconfirmed_of(scripts);
    if let Some(after) = after_unconfirmed {
        let at = unconfirmed
            .iter()
            .position(|entry| entry.txid == after)
            .ok_or_else(unknown_cursor)?;
        unconfirmed.drain(..=at);
    }
    let is_one_list = page.is_length_given || after_unconfirmed.is_some();
    let confirmed_limit = if is_one_list {
        unconfirmed.truncate(page.limit);
        page.limit - unconfirmed.len()
    } else {
        unconfirmed.truncate(MEMPOOL_TXS);
        page.limit
    };
    let rest = Page {
        after: None,
        limit: confirmed_limit,
        ..*page
    };
    let confirmed = if confirmed_limit == 0 {
        Vec::new()
    } else {
        history(reading, scripts, &rest)?
    };
    Ok(Listed {
        unconfirmed,
        confirmed,
    })
}

/// The unconfirmed transactions of a script, the last to arrive first.
pub(crate) fn unconfirmed(reading: &Reading, script: ScriptHash, limit: usize) -> Listed {
    reading.mempool();
    let mut unconfirmed = reading.view.unconfirmed_of(&[script]);
    unconfirmed.truncate(limit);
    Listed {
        unconfirmed,
        confirmed: Vec::new(),
    }
}

impl Listed {
    /// As a JSON array.
    pub(crate) fn answer(&self, reading: &Reading) -> Result<Answer, Failure> {
        let fragments = &reading.app.fragments;
        let bodies = fragments.many(&reading.view, &self.confirmed)?;
        let mut out = JsonBuf::with_capacity(bodies.iter().map(|body| body.len() + 200).sum());
        out.raw("[");
        out.list(&self.unconfirmed, |out, entry| {
            render::unconfirmed_tx(out, entry, fragments.style());
        });
        if !self.unconfirmed.is_empty() && !bodies.is_empty() {
            out.raw(",");
        }
        out.list(
            bodies.iter().zip(&self.confirmed),
            |out, (body, (_, block))| render::tx(out, body, Some(block)),
        );
        out.raw("]");
        Ok(Answer::json(out.into_bytes()))
    }
}
