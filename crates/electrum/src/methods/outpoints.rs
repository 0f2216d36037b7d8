//! `blockchain.outpoint.*` and `blockchain.utxo.get_info`: whether an output exists, and who spends it.

use std::sync::Arc;

use bitcoin::hex::FromHex;
use bitcoin::{OutPoint, Txid};
use cairn_utxo_index::{QueryError, ScriptHash, View};

use super::scripts::write_worth;
use super::{Answer, Ask, value};
use crate::labels::{OutpointLabel, read_txid};
use crate::rpc::{Args, Json, RpcError};
use crate::session::Topic;
use crate::status::FIRST_HEIGHT;

/// What is known of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutpointStatus {
    /// There is no such output, confirmed or not.
    Unknown,
    /// It exists; heights are 0 or -1 for unconfirmed transactions.
    Known {
        /// Height of the transaction that made it.
        funder: i64,
        /// Who spends it, and at which height.
        spender: Option<(Txid, i64)>,
    },
}

/// The height of an unconfirmed transaction; `None` for one that is not there.
fn unconfirmed_height(view: &View, txid: &Txid) -> Option<i64> {
    let mempool = view.mempool();
    let entry = mempool.entry(txid)?;
    Some(-i64::from(mempool.has_unconfirmed_parents(&entry)))
}

/// Looks an output up.
pub(crate) fn find(view: &View, outpoint: &OutPoint) -> Result<OutpointStatus, QueryError> {
    let funder = match view.confirming_block(&outpoint.txid)? {
        // Nobody can spend what the genesis block pays.
        Some(block) if block.height < FIRST_HEIGHT => None,
        Some(block) => {
            let exists = view
                .outputs(&[*outpoint])?
                .first()
                .is_some_and(Option::is_some);
            exists.then_some(i64::from(block.height))
        }
        None => match view.mempool().output(outpoint) {
            Some(_) => unconfirmed_height(view, &outpoint.txid),
            None => None,
        },
    };
    let Some(funder) = funder else {
        return Ok(OutpointStatus::Unknown);
    };
    let spender = match view.spend(outpoint)? {
        Some(spend) => Some((spend.txid, i64::from(spend.block.height))),
        None => view
            .mempool()
            .spender(outpoint)
            .and_then(|(txid, _)| Some((txid, unconfirmed_height(view, &txid)?))),
    };
    Ok(OutpointStatus::Known { funder, spender })
}

/// Writes what is known of an output.
pub(crate) fn write_status(json: &mut Json, status: &OutpointStatus) {
    match status {
        OutpointStatus::Unknown => json.raw("{}"),
        OutpointStatus::Known { funder, spender } => {
            json.raw("{\"funder_height\":").number(funder);
            if let Some((txid, height)) = spender {
                json.raw(",\"spender_txhash\":")
                    .hash(txid)
                    .raw(",\"spender_height\":")
                    .number(height);
            }
            json.raw("}")
        }
    };
}

struct Asked {
    outpoint: OutPoint,
    label: OutpointLabel,
}

/// `tx_hash`, `txout_idx` and, where it is taken, `spk_hint`, which this server does not need and only checks.
fn read_outpoint(ask: &Ask<'_>, with_hint: bool) -> Result<Asked, RpcError> {
    let (hash, index) = if with_hint {
        let args = Args::bind(ask.params, ["tx_hash", "txout_idx", "spk_hint"], 2)?;
        if let Some(hint) = args.text_opt(2)? {
            Vec::<u8>::from_hex(&hint)
                .map_err(|_| RpcError::bad("spk_hint is written in hex digits"))?;
        }
        (args.text(0)?, args.number(1)?)
    } else {
        let args = Args::bind(ask.params, ["tx_hash", "txout_idx"], 2)?;
        (args.text(0)?, args.number(1)?)
    };
    let txid = read_txid(&hash)?;
    let index = u32::try_from(index).map_err(|_| RpcError::bad("txout_idx has at most 32 bits"))?;
    Ok(Asked {
        outpoint: OutPoint::new(txid, index),
        label: OutpointLabel::new(&hash, &txid),
    })
}

async fn look(ask: &Ask<'_>, outpoint: OutPoint) -> Result<(u64, OutpointStatus), RpcError> {
    let view = ask.server.view()?;
    let sequence = view.sequence();
    let status = ask.server.quick(move || find(&view, &outpoint)).await??;
    Ok((sequence, status))
}

fn answer(status: &OutpointStatus) -> Answer {
    let mut json = Json::new();
    write_status(&mut json, status);
    Ok(json.into())
}

pub(super) async fn get_status(ask: &Ask<'_>) -> Answer {
    let Asked { outpoint, .. } = read_outpoint(ask, true)?;
    answer(&look(ask, outpoint).await?.1)
}

pub(super) async fn subscribe(ask: &Ask<'_>) -> Answer {
    let Asked { outpoint, label } = read_outpoint(ask, true)?;
    let topic = Topic::Outpoint(outpoint);
    ask.server.view()?;
    ask.server.begin_watching(ask.session, topic)?;
    let is_new = ask
        .server
        .outpoints
        .watch(&outpoint, &ask.session.wake, label);
    match look(ask, outpoint).await {
        Ok((view, status)) => {
            ask.server
                .outpoints
                .answered(&outpoint, &ask.session.wake, view, status);
            answer(&status)
        }
        Err(error) => {
            if is_new {
                ask.server.stop_watching(ask.session, &topic);
            }
            Err(error)
        }
    }
}

pub(super) fn unsubscribe(ask: &Ask<'_>) -> Answer {
    let Asked { outpoint, .. } = read_outpoint(ask, false)?;
    value(
        ask.server
            .stop_watching(ask.session, &Topic::Outpoint(outpoint)),
    )
}

/// Value, script and height of an output that nobody spends; null for any other.
pub(super) async fn utxo_info(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["tx_hash", "out_n"], 2)?;
    let txid = read_txid(&args.text(0)?)?;
    let index =
        u32::try_from(args.number(1)?).map_err(|_| RpcError::bad("out_n has at most 32 bits"))?;
    let outpoint = OutPoint::new(txid, index);
    let view = ask.server.view()?;
    let read_view = Arc::clone(&view);
    let (status, stored) = ask
        .server
        .quick(move || {
            let output = read_view.outputs(&[outpoint])?.pop().flatten();
            Ok::<_, QueryError>((find(&read_view, &outpoint)?, output))
        })
        .await??;
    let (funder, output) = match status {
        OutpointStatus::Known {
            funder,
            spender: None,
        } if funder > 0 => (funder, stored),
        OutpointStatus::Known {
            funder,
            spender: None,
        } => (funder, view.mempool().output(&outpoint)),
        _ => return value(()),
    };
    let Some(output) = output else {
        return value(());
    };
    let mut json = Json::new();
    json.raw("{\"scripthash\":")
        .hash(ScriptHash::of(output.script_pubkey.as_bytes()).0);
    write_worth(&mut json, &output);
    if funder > 0 {
        json.raw(",\"confirmed_height\":").number(funder);
    }
    json.raw("}");
    Ok(json.into())
}
