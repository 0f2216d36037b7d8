//! Every question of a view, compared with the model.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{OutPoint, TxMerkleNode, Txid};
use cairn_testkit::{Model, Place, TouchKind};
use cairn_utxo_index::{
    BlockRef, MerkleProof, Output, QueryError, ScriptHash, ScriptStats, Spend, View,
};

/// Transactions on one page of the walk over a history; small, so that pages end inside heights.
const PAGE: usize = 7;

/// Fails unless every question about the chain has the model's answer.
pub(crate) fn check_answers(
    view: &View,
    model: &Model,
    utxos_limit: usize,
    unspendables: bool,
) -> Result<()> {
    check_blocks(view, model)?;
    check_transactions(view, model)?;
    for (hash, _) in model.scripts() {
        let script = ScriptHash(*hash);
        check_script(view, model, &script, utxos_limit, unspendables)
            .with_context(|| format!("script {script}"))?;
    }
    let nobody = ScriptHash([0x5c; 32]);
    ensure!(view.history(&nobody, None, 10)?.is_empty());
    ensure!(view.stats(&nobody)? == ScriptStats::default());
    ensure!(view.utxos(&nobody)?.is_empty());
    Ok(())
}

fn block_ref(model: &Model, place: Place) -> Result<BlockRef> {
    let block = model
        .block_at(place.height)
        .context("the place is on the chain")?;
    Ok(BlockRef {
        hash: block.hash,
        height: block.height,
        time: block.block.header.time,
    })
}

fn check_blocks(view: &View, model: &Model) -> Result<()> {
    ensure!(view.tip().hash == model.tip().hash);
    ensure!(view.block_at(model.height() + 1).is_none());
    let stale = model.stale_blocks().map(|block| (block, false));
    for (block, best) in model.chain().iter().map(|block| (block, true)).chain(stale) {
        let summary = view.block(&block.hash)?.context("a stored block")?;
        ensure!(summary.hash == block.hash && summary.height == block.height);
        ensure!(summary.header == block.block.header);
        ensure!((summary.size, summary.weight) == (block.size, block.weight));
        ensure!(summary.tx_count as usize == block.txids.len());
        ensure!(summary.median_time == block.median_time);
        ensure!(summary.in_best_chain == best);
        ensure!(view.best_chain_block(&block.hash).is_some() == best);
        ensure!(
            view.header(&block.hash)?
                .is_some_and(|header| header == block.block.header)
        );
        let bytes = serialize(&block.block.header);
        ensure!(view.header_bytes(&block.hash)? == Some(bytes));
        ensure!(*view.block_txids(&block.hash)?.context("txids")? == block.txids);
        ensure!(view.block_raw(&block.hash)? == Some(serialize(&*block.block)));
        if best {
            let header = view.header_at(block.height);
            ensure!(header.is_some_and(|header| header == block.block.header));
            let bytes = serialize(&block.block.header);
            ensure!(view.header_bytes_at(block.height)? == Some(bytes));
            ensure!(view.block_at(block.height).map(|at| at.hash) == Some(block.hash));
        }
        let page = view.block_txs(&block.hash, 1, 3);
        match block.txids.len() {
            1 => ensure!(matches!(page, Err(QueryError::OutOfRange))),
            count => {
                let page = page?.context("a page of a stored block")?;
                let txids: Vec<Txid> = page.iter().map(|record| record.txid).collect();
                ensure!(txids == block.txids[1..count.min(4)]);
                ensure!(page.iter().all(|record| record.block.is_some() == best));
            }
        }
    }
    Ok(())
}

fn check_transactions(view: &View, model: &Model) -> Result<()> {
    for (txid, place) in model.transactions() {
        let wanted = model.tx(&txid).context("a transaction of the model")?;
        let found = view
            .tx(&txid)?
            .with_context(|| format!("transaction {txid}"))?;
        let block = block_ref(model, place)?;
        ensure!(found.tx == wanted.tx && found.txid == txid);
        ensure!(
            found.block == Some(block),
            "{txid}: {:?}, wanted {block:?}",
            found.block
        );
        let prevouts: Vec<Option<Output>> = wanted
            .prevouts
            .iter()
            .cloned()
            .map(|output| output.map(Output::from))
            .collect();
        ensure!(found.prevouts == prevouts && found.fee == wanted.fee);
        ensure!(found.size as usize == wanted.tx.total_size());
        ensure!(u64::from(found.weight) == wanted.tx.weight().to_wu());
        ensure!(view.confirming_block(&txid)? == Some(block));
        ensure!(view.tx_raw(&txid)? == Some(serialize(&wanted.tx)));
        check_spends(view, model, &txid)?;
        let proof = view.merkle_proof(&txid)?.context("a proof")?;
        ensure!(proof.pos == place.position && proof.block == block);
        ensure!(root(&txid, &proof) == view.header_at(place.height).context("header")?.merkle_root);
    }
    let nothing = Txid::from_byte_array([0x77; 32]);
    ensure!(view.tx(&nothing)?.is_none() && view.tx_raw(&nothing)?.is_none());
    ensure!(view.merkle_proof(&nothing)?.is_none() && view.spends_of(&nothing)?.is_none());
    ensure!(view.spend(&OutPoint::new(nothing, 0))?.is_none());
    ensure!(view.outputs(&[OutPoint::new(nothing, 3)])? == vec![None]);
    Ok(())
}

fn check_spends(view: &View, model: &Model, txid: &Txid) -> Result<()> {
    let wanted: Vec<Option<Spend>> = model
        .spends_of(txid)
        .context("a transaction of the model")?
        .into_iter()
        .map(|spend| {
            spend
                .map(|(txid, vin, place)| {
                    Ok(Spend {
                        txid,
                        vin,
                        block: block_ref(model, place)?,
                    })
                })
                .transpose()
        })
        .collect::<Result<_>>()?;
    ensure!(view.spends_of(txid)? == Some(wanted.clone()));
    for (vout, wanted) in (0u32..).zip(wanted) {
        let outpoint = OutPoint::new(*txid, vout);
        ensure!(view.spend(&outpoint)? == wanted);
        ensure!(view.outputs(&[outpoint])? == vec![model.output(&outpoint).map(Output::from)]);
    }
    Ok(())
}

fn root(txid: &Txid, proof: &MerkleProof) -> TxMerkleNode {
    let mut node = txid.to_byte_array();
    let mut at = proof.pos;
    for sibling in &proof.branch {
        let sibling = sibling.to_byte_array();
        let pair = if at.is_multiple_of(2) {
            [node, sibling]
        } else {
            [sibling, node]
        };
        node = sha256d::Hash::hash(&pair.concat()).to_byte_array();
        at /= 2;
    }
    TxMerkleNode::from_byte_array(node)
}

/// Fails unless the balance over time is the model's.
fn check_balances(view: &View, model: &Model, script: &ScriptHash, indexed: bool) -> Result<()> {
    let mut wanted: BTreeMap<u32, i128> = BTreeMap::new();
    let mut balance = 0;
    for touch in model.touches(&script.0).iter().filter(|_| indexed) {
        let value = i128::from(touch.value);
        balance += match touch.kind {
            TouchKind::Fund { .. } => value,
            TouchKind::Spend { .. } => -value,
        };
        wanted.insert(touch.place.height, balance);
    }
    let found = view.balance_points(script)?;
    for point in &found {
        ensure!(
            wanted.get(&point.height) == Some(&i128::from(point.balance)),
            "balance {point:?} instead of {wanted:?}"
        );
    }
    // All of them, or chosen ones with the last.
    let last = wanted.last_key_value().map(|(height, _)| *height);
    ensure!(found.last().map(|point| point.height) == last);
    ensure!(found.len() == wanted.len() || found.len() > 100);
    Ok(())
}

/// Fails unless history, statistics and unspent outputs of a script are the model's.
pub(crate) fn check_script(
    view: &View,
    model: &Model,
    script: &ScriptHash,
    utxos_limit: usize,
    unspendables: bool,
) -> Result<()> {
    let indexed = model.is_indexed(&script.0, unspendables);
    let wanted = if indexed {
        model.history_newest_first(&script.0)
    } else {
        Vec::new()
    };
    let mut found = Vec::new();
    let mut after: Option<Txid> = None;
    loop {
        let page = view.history(script, after.as_ref(), PAGE)?;
        after = page.last().map(|(txid, _)| *txid);
        found.extend_from_slice(&page);
        ensure!(
            found.len() <= wanted.len(),
            "a page repeats or invents transactions"
        );
        if page.len() < PAGE {
            break;
        }
    }
    let wanted: Vec<(Txid, BlockRef)> = wanted
        .into_iter()
        .map(|(txid, place)| Ok((txid, block_ref(model, place)?)))
        .collect::<Result<_>>()?;
    ensure!(found == wanted, "history {found:?} instead of {wanted:?}");
    let everything = view.history(script, None, wanted.len() + 1)?;
    ensure!(everything == wanted);
    let stranger = Txid::from_byte_array([0x77; 32]);
    ensure!(view.history(script, Some(&stranger), PAGE)?.is_empty());

    let stats = view.stats(script)?;
    let expected = if indexed {
        model.stats(&script.0)
    } else {
        Default::default()
    };
    ensure!(
        stats
            == ScriptStats {
                tx_count: expected.tx_count,
                funded_txo_count: expected.funded_txo_count,
                funded_txo_sum: expected.funded_txo_sum,
                spent_txo_count: expected.spent_txo_count,
                spent_txo_sum: expected.spent_txo_sum,
            },
        "statistics {stats:?} instead of {expected:?}"
    );
    check_balances(view, model, script, indexed)?;

    let wanted = model.utxos(&script.0);
    if wanted.len() > utxos_limit {
        ensure!(matches!(view.utxos(script), Err(QueryError::TooManyUtxos)));
        return Ok(());
    }
    let found = view.utxos(script)?;
    ensure!(
        found.len() == wanted.len(),
        "{} unspent outputs instead of {}",
        found.len(),
        wanted.len()
    );
    for (found, wanted) in found.iter().zip(wanted) {
        ensure!(found.outpoint == wanted.outpoint);
        ensure!(found.value == Some(wanted.output.value));
        ensure!(found.block == block_ref(model, wanted.place)?);
    }
    Ok(())
}
