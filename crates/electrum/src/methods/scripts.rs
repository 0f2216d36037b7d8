//! `blockchain.scripthash.*`, `blockchain.scriptpubkey.*` and `blockchain.address.*`: the same questions about a script,
//! named in three ways.
//!
//! Most scripts are small and answered in place. A look at the first rows tells those that are not; they go to the pool
//! for long reads, where each session has few places.

use std::sync::Arc;
use std::time::Instant;

use bitcoin::hex::DisplayHex;
use cairn_utxo_index::{Family, Output, QueryError, ScriptHash, Utxo, View};

use super::{Answer, Ask, Reply, value};
use crate::labels::{ScriptLabel, ScriptStyle};
use crate::rpc::{Args, Json, RpcError};
use crate::session::Topic;
use crate::status::{
    self, Confirmed, FIRST_HEIGHT, HistoryError, Pace, Reached, Status, Unconfirmed,
};

/// Rows that are read in place: some hundred microseconds.
const QUICK_ROWS: usize = 400;
/// Entries of a history that cost one unit.
const ENTRIES_PER_UNIT: f64 = 100.0;
/// Bytes of one entry in an answer.
const ENTRY_BYTES: usize = 96;

/// The script a request is about.
struct Asked {
    script: ScriptHash,
    label: ScriptLabel,
}

fn read_script(ask: &Ask<'_>, style: ScriptStyle, text: &str) -> Result<Asked, RpcError> {
    Ok(Asked {
        script: style.read(text, ask.server.index.config().network)?,
        label: style.label(text),
    })
}

fn only_script(ask: &Ask<'_>, style: ScriptStyle) -> Result<Asked, RpcError> {
    let args = Args::bind(ask.params, [style.argument()], 1)?;
    read_script(ask, style, &args.text(0)?)
}

/// Whether a script has so many rows that questions about it leave the session's thread.
async fn is_large(ask: &Ask<'_>, view: &Arc<View>, script: ScriptHash) -> Result<bool, RpcError> {
    let view = Arc::clone(view);
    Ok(ask
        .server
        .quick(move || view.has_more_rows_than(&script, QUICK_ROWS))
        .await??)
}

/// Repeats a question that continues where it ran out of its budget.
fn until_done<T>(
    end: Instant,
    mut question: impl FnMut() -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    loop {
        match question() {
            Err(QueryError::TooManyRows | QueryError::Deadline) if Instant::now() < end => {}
            Err(QueryError::TooManyRows) => return Err(QueryError::Deadline),
            other => return other,
        }
    }
}

/// Runs a question in place or, for a large script, in the pool for long reads.
async fn read<T: Send + 'static>(
    ask: &Ask<'_>,
    view: &Arc<View>,
    script: ScriptHash,
    question: impl Fn(&View) -> Result<T, QueryError> + Send + 'static,
) -> Result<T, RpcError> {
    let is_large = is_large(ask, view, script).await?;
    let view = Arc::clone(view);
    if is_large {
        let answer = ask
            .server
            .heavy(ask.session, move |end| until_done(end, || question(&view)))
            .await?;
        Ok(answer?)
    } else {
        Ok(ask.server.quick(move || question(&view)).await??)
    }
}

pub(super) async fn balance(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    if ask.server.index.network().family() == Family::Elements {
        // Amounts are of any asset, and blinded: there is no such sum.
        return Err(RpcError::bad(
            "chains of Elements have no balances; ask for the unspent outputs",
        ));
    }
    let Asked { script, .. } = only_script(ask, style)?;
    let view = ask.server.view()?;
    let confirmed = read(ask, &view, script, move |view| view.stats(&script)).await?;
    let never_existed = ask.server.genesis.value_of(&script);
    let pending = view.mempool().stats_of(&script);
    // What the mempool would change; it may take away more than it adds.
    let unconfirmed = i128::from(pending.funded_txo_sum) - i128::from(pending.spent_txo_sum);
    let mut json = Json::new();
    json.raw("{\"confirmed\":")
        .integer(
            confirmed
                .funded_txo_sum
                .saturating_sub(confirmed.spent_txo_sum)
                .saturating_sub(never_existed),
        )
        .raw(",\"unconfirmed\":")
        .number(unconfirmed)
        .raw("}");
    Ok(json.into())
}

/// The confirmed part of a history up to a height.
async fn confirmed(
    ask: &Ask<'_>,
    view: &Arc<View>,
    script: ScriptHash,
    from: u32,
    to: u32,
) -> Result<Confirmed, RpcError> {
    let most = ask.server.options.limits.history;
    let quick_view = Arc::clone(view);
    let begun = ask
        .server
        .quick(move || {
            Confirmed::from_height(from).read(
                &quick_view,
                &script,
                to,
                most,
                Pace::Rows(QUICK_ROWS),
            )
        })
        .await??;
    match begun {
        Reached::End(confirmed) => Ok(confirmed),
        Reached::More(begun) => {
            let view = Arc::clone(view);
            let read = ask
                .server
                .heavy(ask.session, move |end| {
                    begun.read(&view, &script, to, most, Pace::Until(end))
                })
                .await??;
            match read {
                Reached::End(confirmed) | Reached::More(confirmed) => Ok(confirmed),
            }
        }
    }
}

fn write_confirmed(json: &mut Json, confirmed: &Confirmed) {
    for (at, (txid, height)) in confirmed.txs.iter().enumerate() {
        json.raw(if at == 0 {
            "{\"tx_hash\":"
        } else {
            ",{\"tx_hash\":"
        })
        .hash(txid)
        .raw(",\"height\":")
        .integer(u64::from(*height))
        .raw("}");
    }
}

fn write_unconfirmed(json: &mut Json, unconfirmed: &Unconfirmed, mut is_first: bool) {
    for (height, entry) in unconfirmed {
        json.raw(if is_first {
            "{\"tx_hash\":"
        } else {
            ",{\"tx_hash\":"
        })
        .hash(entry.txid)
        .raw(if *height < 0 {
            ",\"height\":-1"
        } else {
            ",\"height\":0"
        })
        .raw(",\"fee\":")
        .integer(entry.fee)
        .raw("}");
        is_first = false;
    }
}

/// From 1.7 on a history is in an object.
fn wrap(style: ScriptStyle, name: &str, json: Json) -> Json {
    if style != ScriptStyle::Script {
        return json;
    }
    let mut wrapped = Json::with_capacity(json.len() + 16);
    wrapped
        .raw("{\"")
        .raw(name)
        .raw("\":")
        .append(&json)
        .raw("}");
    wrapped
}

/// The whole history, or with `from_height` and `to_height` a part of it; the upper bound is exclusive and leaves the
/// mempool out, -1 stands for the end.
pub(super) async fn history(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let args = Args::bind(
        ask.params,
        [style.argument(), "from_height", "to_height"],
        1,
    )?;
    let Asked { script, .. } = read_script(ask, style, &args.text(0)?)?;
    let from = args.number_or(1, 0)?;
    let to = args.signed_or(2, -1)?;
    if to < -1 || to >= 0 && u64::try_from(to).is_ok_and(|to| to < from) {
        return Err(RpcError::bad(
            "to_height must be -1 or not below from_height",
        ));
    }
    let view = ask.server.view()?;
    let last = if to < 0 {
        Some(view.tip().height)
    } else {
        u32::try_from(to).unwrap_or(u32::MAX).checked_sub(1)
    };
    let confirmed = match (u32::try_from(from), last) {
        (Ok(from), Some(last)) if from <= last => confirmed(ask, &view, script, from, last).await?,
        _ => Confirmed::default(),
    };
    let unconfirmed = if to < 0 {
        status::unconfirmed(&view, &script)
    } else {
        Unconfirmed::new()
    };
    let count = confirmed.txs.len() + unconfirmed.len();
    check_length(ask, count)?;
    let mut json = Json::with_capacity(count * ENTRY_BYTES + 2);
    json.raw("[");
    write_confirmed(&mut json, &confirmed);
    write_unconfirmed(&mut json, &unconfirmed, confirmed.txs.is_empty());
    json.raw("]");
    Ok(Reply {
        json: wrap(style, "history", json),
        cost: count as f64 / ENTRIES_PER_UNIT,
    })
}

fn check_length(ask: &Ask<'_>, entries: usize) -> Result<(), RpcError> {
    let most = ask.server.options.limits.history;
    if most > 0 && entries > most {
        return Err(HistoryError::TooLarge.into());
    }
    Ok(())
}

pub(super) fn mempool(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, .. } = only_script(ask, style)?;
    let view = ask.server.view()?;
    let unconfirmed = status::unconfirmed(&view, &script);
    check_length(ask, unconfirmed.len())?;
    let mut json = Json::with_capacity(unconfirmed.len() * ENTRY_BYTES + 2);
    json.raw("[");
    write_unconfirmed(&mut json, &unconfirmed, true);
    json.raw("]");
    Ok(Reply {
        json: wrap(style, "history", json),
        cost: unconfirmed.len() as f64 / ENTRIES_PER_UNIT,
    })
}

/// The outputs themselves. Of Bitcoin's only the amount is told, which is known already.
async fn outputs_of(
    ask: &Ask<'_>,
    view: &Arc<View>,
    utxos: &[Utxo],
) -> Result<Vec<Output>, RpcError> {
    if view.family() == Family::Bitcoin {
        let amount_only = |utxo: &Utxo| {
            Output::from(bitcoin::TxOut {
                value: utxo.value.unwrap_or_default(),
                script_pubkey: bitcoin::ScriptBuf::new(),
            })
        };
        return Ok(utxos.iter().map(amount_only).collect());
    }
    let outpoints: Vec<bitcoin::OutPoint> = utxos.iter().map(|utxo| utxo.outpoint).collect();
    let view = Arc::clone(view);
    let found = ask.server.quick(move || view.outputs(&outpoints)).await??;
    let lost = || RpcError::from(QueryError::Store("an unspent output has no row O".into()));
    found
        .into_iter()
        .map(|output| output.ok_or_else(lost))
        .collect()
}

/// What an output is worth: on Elements value, asset and nonce, each plain or as a commitment.
pub(super) fn write_worth(json: &mut Json, output: &Output) {
    let Some(elements) = output.elements() else {
        json.raw(",\"value\":").integer(output.value.to_sat());
        return;
    };
    if let Some(amount) = elements.value.explicit_value() {
        json.raw(",\"value\":").integer(amount);
    }
    if let Some(asset) = elements.asset.explicit_asset() {
        json.raw(",\"asset\":").hash(asset.to_byte_array());
    }
    if let Some(nonce) = elements.nonce.explicit_bytes() {
        json.raw(",\"nonce\":").hex(nonce);
    }
    for (name, field) in [
        ("valuecommitment", &elements.value),
        ("assetcommitment", &elements.asset),
        ("noncecommitment", &elements.nonce),
    ] {
        if let Some(commitment) = field.commitment() {
            json.raw(",\"").raw(name).raw("\":").hex(commitment);
        }
    }
}

pub(super) async fn unspent(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, .. } = only_script(ask, style)?;
    let view = ask.server.view()?;
    let confirmed = read(ask, &view, script, move |view| view.utxos(&script)).await?;
    let mempool = view.mempool();
    let mut json = Json::with_capacity(confirmed.len() * 128 + 2);
    let mut count = 0u64;
    json.raw("[");
    let mut write = |outpoint: bitcoin::OutPoint, height: u32, output: &Output| {
        json.raw(if count == 0 {
            "{\"tx_hash\":"
        } else {
            ",{\"tx_hash\":"
        })
        .hash(outpoint.txid)
        .raw(",\"tx_pos\":")
        .integer(u64::from(outpoint.vout))
        .raw(",\"height\":")
        .integer(u64::from(height));
        write_worth(&mut json, output);
        json.raw("}");
        count += 1;
    };
    // On Elements the coins of the genesis block, if there are any, can be spent.
    let first = match view.family() {
        Family::Bitcoin => FIRST_HEIGHT,
        Family::Elements => 0,
    };
    let confirmed: Vec<Utxo> = confirmed
        .into_iter()
        .filter(|utxo| utxo.block.height >= first && mempool.spender(&utxo.outpoint).is_none())
        .collect();
    let outputs = outputs_of(ask, &view, &confirmed).await?;
    for (utxo, output) in confirmed.iter().zip(&outputs) {
        write(utxo.outpoint, utxo.block.height, output);
    }
    for (outpoint, _) in mempool.unspent_of(&script) {
        if let Some(output) = mempool.output(&outpoint) {
            write(outpoint, 0, &output);
        }
    }
    json.raw("]");
    Ok(Reply {
        json: wrap(style, "utxos", json),
        cost: count as f64 / ENTRIES_PER_UNIT,
    })
}

/// The status of a script in a view.
async fn status_of(
    ask: &Ask<'_>,
    view: &Arc<View>,
    script: ScriptHash,
) -> Result<Status, RpcError> {
    let most = ask.server.options.limits.history;
    let (server, quick_view) = (Arc::clone(ask.server), Arc::clone(view));
    let begun = ask
        .server
        .quick(move || {
            let from = server.statuses.begin(&quick_view, &script);
            server
                .statuses
                .status(&quick_view, &script, from, most, Pace::Rows(QUICK_ROWS))
        })
        .await??;
    match begun {
        Reached::End(status) => Ok(status),
        Reached::More(from) => {
            let (server, view) = (Arc::clone(ask.server), Arc::clone(view));
            let reached = ask
                .server
                .heavy(ask.session, move |end| {
                    server
                        .statuses
                        .status(&view, &script, from, most, Pace::Until(end))
                })
                .await??;
            match reached {
                Reached::End(status) => Ok(status),
                Reached::More(_) => Err(QueryError::Deadline.into()),
            }
        }
    }
}

/// Writes a status: hex digits or null.
pub(crate) fn write_status(json: &mut Json, status: &Status) {
    match status {
        Some(hash) => json.hex(hash),
        None => json.raw("null"),
    };
}

pub(super) async fn subscribe(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, label } = only_script(ask, style)?;
    let topic = Topic::Script(script);
    ask.server.view()?;
    ask.server.begin_watching(ask.session, topic)?;
    // First the registration, then the look: what changes in between is told afterwards.
    let is_new = ask.server.scripts.watch(&script, &ask.session.wake, label);
    let looked = async {
        let view = ask.server.view()?;
        let status = status_of(ask, &view, script).await?;
        Ok::<_, RpcError>((view.sequence(), status))
    };
    match looked.await {
        Ok((view, status)) => {
            let mut json = Json::new();
            write_status(&mut json, &status);
            ask.server
                .scripts
                .answered(&script, &ask.session.wake, view, status);
            Ok(json.into())
        }
        Err(error) => {
            if is_new {
                ask.server.stop_watching(ask.session, &topic);
            }
            Err(error)
        }
    }
}

pub(super) fn unsubscribe(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, .. } = only_script(ask, style)?;
    value(
        ask.server
            .stop_watching(ask.session, &Topic::Script(script)),
    )
}

/// The status without a subscription.
pub(super) async fn status(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, .. } = only_script(ask, style)?;
    let view = ask.server.view()?;
    let status = status_of(ask, &view, script).await?;
    let mut json = Json::new();
    write_status(&mut json, &status);
    Ok(json.into())
}

/// The first transaction of a script: its block and id, the id alone while it is unconfirmed, null without one.
pub(super) async fn first_use(ask: &Ask<'_>, style: ScriptStyle) -> Answer {
    let Asked { script, .. } = only_script(ask, style)?;
    let view = ask.server.view()?;
    let (tip, read_view) = (view.tip().height, Arc::clone(&view));
    let run = ask
        .server
        .quick(move || read_view.history_run(&script, FIRST_HEIGHT, tip, 1))
        .await??;
    if let Some((txid, height)) = run.txs.first() {
        let hash = view.block_at(*height).map(|block| block.hash.to_string());
        return value(serde_json::json!({
            "block_hash": hash, "block_height": height, "tx_hash": txid.to_string()
        }));
    }
    match view.mempool().of_script(&script).first() {
        Some(entry) => value(serde_json::json!({
            "block_hash": "", "block_height": 0, "tx_hash": entry.txid.to_string()
        })),
        None => value(()),
    }
}

/// The script hash of an address.
pub(super) fn address_script_hash(ask: &Ask<'_>) -> Answer {
    let Asked { script, .. } = only_script(ask, ScriptStyle::Address)?;
    let mut hash = script.0;
    hash.reverse();
    value(hash.to_lower_hex_string())
}
