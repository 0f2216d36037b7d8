//! Reading the history of one script or of several, newest first.

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{BlockHash, Txid};
use cairn_http::Answer;
use cairn_utxo_index::{BlockRef, QueryError, ScriptHash, TxRecord};

use crate::error::Failure;
use crate::json::JsonBuf;
use crate::scripts::page::{Page, unknown_cursor};
use crate::state::Reading;

/// Entries read at once while walking towards a cursor that is not of the script's own history.
const WALK_PAGE: usize = 1_000;
/// Entries walked for one request in all.
const WALK_MAX: usize = 100_000;
/// Transactions decoded at once for a summary: bounds the memory of a request.
const SUMMARY_CHUNK: usize = 250;

type Entry = (Txid, BlockRef);

/// A page of the union of the scripts' histories: newest first, each transaction once.
pub(crate) fn history(
    reading: &Reading,
    scripts: &[ScriptHash],
    page: &Page,
) -> Result<Vec<Entry>, Failure> {
    if let [script] = scripts {
        let entries = reading
            .view
            .history(script, page.after.as_ref(), page.limit)?;
        if let Some(after) = &page.after
            && page.after_must_exist
            && page.limit > 0
            && entries.is_empty()
            && Cursor::find(reading, after, scripts)?.is_none()
        {
            return Err(unknown_cursor().into());
        }
        return Ok(entries);
    }
    let cursor = match &page.after {
        None => None,
        Some(after) => match Cursor::find(reading, after, scripts)? {
            Some(cursor) => Some(cursor),
            None if page.after_must_exist => return Err(unknown_cursor().into()),
            None => return Ok(Vec::new()),
        },
    };
    let mut budget = WALK_MAX;
    let mut parts = Vec::with_capacity(scripts.len());
    for script in scripts {
        parts.push(match &cursor {
            None => reading.view.history(script, None, page.limit)?,
            Some(cursor) if cursor.touches.contains(script) => {
                reading
                    .view
                    .history(script, Some(&cursor.txid), page.limit)?
            }
            Some(cursor) => cursor.older(reading, script, page.limit, &mut budget)?,
        });
    }
    merge(reading, parts, page.limit)
}

/// A transaction that a page begins after, with its place in the order.
struct Cursor {
    txid: Txid,
    block: BlockRef,
    position: usize,
    /// Those of the scripts that it funds or spends.
    touches: HashSet<ScriptHash>,
}

impl Cursor {
    /// `None` if the transaction is not of the history of any of the scripts.
    fn find(
        reading: &Reading,
        txid: &Txid,
        scripts: &[ScriptHash],
    ) -> Result<Option<Self>, Failure> {
        let Some(record) = reading.view.tx(txid)? else {
            return Ok(None);
        };
        let Some(block) = record.block else {
            return Ok(None);
        };
        let wanted: HashSet<&ScriptHash> = scripts.iter().collect();
        let touches: HashSet<ScriptHash> = touched(&record)
            .map(|(script, _)| script)
            .filter(|script| wanted.contains(script))
            .collect();
        if touches.is_empty() {
            return Ok(None);
        }
        let position = Positions::default().of(reading, &block, txid)?;
        Ok(Some(Self {
            txid: *txid,
            block,
            position,
            touches,
        }))
    }

    /// Entries of a script older than the cursor, which is not of its history: walked from the newest.
    fn older(
        &self,
        reading: &Reading,
        script: &ScriptHash,
        limit: usize,
        budget: &mut usize,
    ) -> Result<Vec<Entry>, Failure> {
        let mut positions = Positions::default();
        let mut older = Vec::new();
        let mut last: Option<Txid> = None;
        loop {
            let entries = reading.view.history(script, last.as_ref(), WALK_PAGE)?;
            *budget = budget
                .checked_sub(entries.len())
                .ok_or(QueryError::TooManyRows)?;
            let complete = entries.len() < WALK_PAGE;
            last = entries.last().map(|(txid, _)| *txid);
            for (txid, block) in entries {
                let is_older = block.height < self.block.height
                    || (block.height == self.block.height
                        && positions.of(reading, &block, &txid)? < self.position);
                if is_older {
                    older.push((txid, block));
                }
                if older.len() == limit {
                    return Ok(older);
                }
            }
            if complete {
                return Ok(older);
            }
        }
    }
}

/// Brings the pages of several scripts together. Inside one height the order is the block's.
fn merge(reading: &Reading, parts: Vec<Vec<Entry>>, limit: usize) -> Result<Vec<Entry>, Failure> {
    let mut all: Vec<Entry> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(_, block)| std::cmp::Reverse(block.height));
    let mut positions = Positions::default();
    let mut merged = Vec::with_capacity(limit.min(all.len()));
    for same_height in all.chunk_by(|(_, a), (_, b)| a.height == b.height) {
        let mut placed = Vec::with_capacity(same_height.len());
        for (txid, block) in same_height {
            let position = if same_height.len() == 1 {
                0
            } else {
                positions.of(reading, block, txid)?
            };
            placed.push((position, (*txid, *block)));
        }
        placed.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
        placed.dedup_by_key(|(position, _)| *position);
        for (_, entry) in placed {
            if merged.len() == limit {
                return Ok(merged);
            }
            merged.push(entry);
        }
    }
    Ok(merged)
}

/// Positions in blocks, keeping the transactions of the block asked for last: histories ask block by block.
#[derive(Default)]
struct Positions(Option<(BlockHash, Arc<Vec<Txid>>)>);

impl Positions {
    fn of(
        &mut self,
        reading: &Reading,
        block: &BlockRef,
        txid: &Txid,
    ) -> Result<usize, QueryError> {
        let txids = match &self.0 {
            Some((hash, txids)) if *hash == block.hash => txids.clone(),
            _ => reading.view.block_txids(&block.hash)?.ok_or_else(|| {
                QueryError::Store(format!(
                    "block {} is on the best chain but has no rows",
                    block.hash
                ))
            })?,
        };
        let position = txids.iter().position(|other| other == txid);
        self.0 = Some((block.hash, txids));
        position.ok_or_else(|| {
            QueryError::Store(format!(
                "transaction {txid} is not in its block {}",
                block.hash
            ))
        })
    }
}

/// Every script that a transaction funds (+) or spends (−), with the amount; a script may come several times.
fn touched(record: &TxRecord) -> impl Iterator<Item = (ScriptHash, i128)> {
    let spent = record.prevouts.iter().flatten();
    let spent = spent.map(|output| (&**output, -1));
    let funded = record.tx.output.iter().map(|output| (output, 1));
    spent.chain(funded).map(|(output, sign)| {
        let script = ScriptHash::of(output.script_pubkey.as_bytes());
        (script, sign * i128::from(output.value.to_sat()))
    })
}

/// What each transaction of a page did to the scripts' common balance.
pub(crate) fn summary(
    reading: &Reading,
    scripts: &[ScriptHash],
    page: &Page,
) -> Result<Answer, Failure> {
    let entries = history(reading, scripts, page)?;
    let wanted: HashSet<&ScriptHash> = scripts.iter().collect();
    let mut positions = Positions::default();
    let mut lines = Vec::with_capacity(entries.len());
    for chunk in entries.chunks(SUMMARY_CHUNK) {
        let asked: Vec<_> = chunk
            .iter()
            .map(|(txid, block)| (*txid, Some(*block)))
            .collect();
        for ((txid, block), record) in chunk.iter().zip(reading.view.txs(&asked)?) {
            let change: i128 = touched(&record)
                .filter(|(script, _)| wanted.contains(script))
                .map(|(_, amount)| amount)
                .sum();
            let change = i64::try_from(change).map_err(|_| {
                QueryError::Store(format!("transaction {txid} moves more than there can be"))
            })?;
            lines.push((
                txid,
                block,
                change,
                positions.of(reading, block, txid)? as u64,
            ));
        }
    }
    let mut out = JsonBuf::with_capacity(lines.len() * 160 + 2);
    out.array(lines, |out, (txid, block, change, position)| {
        out.raw("{\"txid\":").hash(*txid);
        out.raw(",\"height\":").number(block.height);
        out.raw(",\"value\":").signed(change);
        out.raw(",\"time\":").number(block.time);
        out.raw(",\"tx_position\":").number(position).raw("}");
    });
    Ok(Answer::json(out.into_bytes()))
}
