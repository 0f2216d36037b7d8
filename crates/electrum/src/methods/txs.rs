//! `blockchain.transaction.*`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::hex::DisplayHex;
use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, Txid};
use cairn_utxo_index::{QueryError, View};
use cairn_utxo_node::NodeError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Answer, Ask, Reply, value};
use crate::labels::{OutpointLabel, read_txid};
use crate::rpc::{Args, Json, RpcError, code};
use crate::session::Topic;

/// What a node says of a transaction it does not know; clients know the text.
const UNKNOWN_TX: &str =
    "No such mempool or blockchain transaction. Use gettransaction for wallet transactions.";
/// The text by which wallets notice that they must decode transactions themselves.
const NO_VERBOSE: &str = "verbose transactions are currently unsupported: this server has no node";
/// Transactions in one package: the node's own limit.
const PACKAGE_MAX: usize = 25;
/// What stands before a node's reason for refusing a transaction; wallets look for the reason behind it.
const REJECTED: &str = "the transaction was rejected by network rules.\n\n";
/// Bytes of a transaction that cost one unit when it is sent.
const SENT_BYTES_PER_UNIT: f64 = 2_500.0;
/// As much as there can be: a transaction that burns coins is the sender's affair.
const BURN_MAX: &str = "21000000";
/// Coins per 1000 virtual bytes beyond which a fee must be a mistake.
const FEE_RATE_MAX: &str = "0.10";

/// A transaction's bytes, and the block that confirms it.
type Found = (Vec<u8>, Option<BlockHash>);

/// A transaction, if it is on the chain or in the mempool.
fn find(view: &View, txid: &Txid) -> Result<Option<Found>, QueryError> {
    if let Some(entry) = view.mempool().entry(txid) {
        return Ok(Some((entry.raw().to_vec(), None)));
    }
    let Some(block) = view.confirming_block(txid)? else {
        return Ok(None);
    };
    Ok(view.tx_raw(txid)?.map(|raw| (raw, Some(block.hash))))
}

fn unknown() -> RpcError {
    RpcError::new(code::NODE, UNKNOWN_TX)
}

pub(super) async fn get(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["tx_hash", "verbose"], 1)?;
    let txid = read_txid(&args.text(0)?)?;
    let verbose = args.flag(1)?;
    let view = ask.server.view()?;
    let read_view = Arc::clone(&view);
    let (raw, block) = ask
        .server
        .quick(move || find(&read_view, &txid))
        .await??
        .ok_or_else(unknown)?;
    if verbose {
        return in_words(ask, &view, &txid, block).await;
    }
    let mut json = Json::with_capacity(raw.len() * 2 + 2);
    json.hex(&raw);
    Ok(json.into())
}

/// The node's own description, with the confirmations of our tip, so that it agrees with everything else we say.
async fn in_words(ask: &Ask<'_>, view: &View, txid: &Txid, block: Option<BlockHash>) -> Answer {
    let Some(node) = &ask.server.node else {
        return Err(RpcError::bad(NO_VERBOSE));
    };
    let mut params = vec![json!(txid), json!(true)];
    params.extend(block.map(|hash| json!(hash)));
    let answer = node
        .rpc()
        .call("getrawtransaction", &params)
        .await
        .map_err(node_error)?;
    let mut object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(answer.get())
        .map_err(|_| RpcError::new(code::NODE, "the node's answer is no transaction"))?;
    object.remove("in_active_chain");
    if let Some(block) = block.and_then(|hash| view.best_chain_block(&hash)) {
        let confirmations = view.tip().height - block.height + 1;
        if let Ok(number) = RawValue::from_string(confirmations.to_string()) {
            object.insert("confirmations".to_owned(), number);
        }
    }
    Ok(Reply {
        json: Json::of(&object),
        cost: 1.0,
    })
}

/// The height of a transaction: of its block, 0 or -1 in the mempool; `None` for an unknown one.
pub(crate) fn height_of(view: &View, txid: &Txid) -> Result<Option<i64>, QueryError> {
    let mempool = view.mempool();
    if let Some(entry) = mempool.entry(txid) {
        return Ok(Some(-i64::from(mempool.has_unconfirmed_parents(&entry))));
    }
    Ok(view
        .confirming_block(txid)?
        .map(|block| i64::from(block.height)))
}

pub(super) async fn merkle(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["tx_hash", "height"], 1)?;
    let txid = read_txid(&args.text(0)?)?;
    let height = match args.raw(1) {
        None => None,
        Some(_) => Some(args.number(1)?),
    };
    let view = ask.server.view()?;
    let proof = ask.server.quick(move || view.merkle_proof(&txid)).await??;
    let proof = proof
        .filter(|proof| height.is_none_or(|height| height == u64::from(proof.block.height)))
        .ok_or_else(|| match height {
            Some(height) => RpcError::bad(format!("tx {txid} not in block at height {height}")),
            None => RpcError::bad(format!("tx {txid} is not confirmed")),
        })?;
    let mut json = Json::new();
    json.raw("{\"block_height\":")
        .integer(u64::from(proof.block.height))
        .raw(",\"merkle\":")
        .hashes(&proof.branch)
        .raw(",\"pos\":")
        .integer(u64::from(proof.pos))
        .raw("}");
    Ok(json.into())
}

pub(super) async fn id_from_pos(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["height", "tx_pos", "merkle"], 2)?;
    let (height, position, with_proof) = (args.number(0)?, args.number(1)?, args.flag(2)?);
    let view = ask.server.view()?;
    let block = u32::try_from(height)
        .ok()
        .and_then(|height| view.block_at(height))
        .ok_or_else(|| RpcError::bad(format!("there is no block at height {height}")))?;
    let found = ask
        .server
        .quick(move || {
            let txids = view.block_txids(&block.hash)?;
            let txid = txids.and_then(|txids| txids.get(usize::try_from(position).ok()?).copied());
            Ok::<_, QueryError>(match txid {
                Some(txid) if with_proof => Some((txid, view.merkle_proof(&txid)?)),
                Some(txid) => Some((txid, None)),
                None => None,
            })
        })
        .await??;
    let (txid, proof) = found.ok_or_else(|| {
        RpcError::bad(format!(
            "no tx at position {position} in block at height {height}"
        ))
    })?;
    let mut json = Json::new();
    if with_proof {
        let proof = proof
            .ok_or_else(|| RpcError::bad(format!("tx {txid} has no proof at height {height}")))?;
        json.raw("{\"tx_hash\":")
            .hash(txid)
            .raw(",\"merkle\":")
            .hashes(&proof.branch)
            .raw("}");
    } else {
        json.hash(txid);
    }
    Ok(json.into())
}

/// A failed call to the node: its own text if it has one.
fn node_error(error: NodeError) -> RpcError {
    match error.rejection() {
        Some(failure) => RpcError::new(code::NODE, failure.message.clone()),
        None => RpcError::new(code::NODE, "the node of this server cannot be reached"),
    }
}

/// A refused transaction: what the node says of it must reach the wallet.
fn rejected(error: &NodeError) -> RpcError {
    match error.rejection() {
        Some(failure) if !error.is_transient() => {
            RpcError::bad(format!("{REJECTED}{}", failure.message))
        }
        Some(failure) => RpcError::new(code::NODE, failure.message.clone()),
        None => RpcError::new(code::NODE, "the node of this server cannot be reached"),
    }
}

fn check_hex(hex: &str) -> Result<(), RpcError> {
    Vec::<u8>::from_hex(hex)
        .map(drop)
        .map_err(|_| RpcError::bad("a raw transaction is written in hex digits"))
}

pub(super) async fn broadcast(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["raw_tx"], 1)?;
    let hex = args.text(0)?;
    check_hex(&hex)?;
    let txid = ask
        .server
        .send(&hex)
        .await
        .map_err(|error| rejected(&error))?;
    tracing::info!(chain = ask.server.chain, %txid, "transaction sent");
    let mut json = Json::new();
    json.hash(txid);
    Ok(Reply {
        json,
        cost: hex.len() as f64 / 2.0 / SENT_BYTES_PER_UNIT,
    })
}

/// What `submitpackage` answers, as far as it is needed.
#[derive(Deserialize)]
struct PackageAnswer {
    package_msg: String,
    #[serde(rename = "tx-results", default)]
    results: BTreeMap<String, PackageResult>,
}

#[derive(Deserialize)]
struct PackageResult {
    txid: String,
    #[serde(default)]
    error: Option<String>,
}

pub(super) async fn broadcast_package(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["raw_txs", "verbose"], 1)?;
    let (txs, verbose) = (args.texts(0, PACKAGE_MAX)?, args.flag(1)?);
    txs.iter().try_for_each(|hex| check_hex(hex))?;
    let node = ask.server.node()?;
    let answer = node
        .submit_package(&txs, Some(FEE_RATE_MAX), Some(BURN_MAX))
        .await
        .map_err(|error| match error.rejection() {
            Some(failure) => RpcError::bad(failure.message.clone()),
            None => node_error(error),
        })?;
    ask.server.sent(&txs).await;
    let cost = txs.iter().map(String::len).sum::<usize>() as f64 / 2.0 / SENT_BYTES_PER_UNIT;
    if verbose {
        return Ok(Reply {
            json: Json::of(&answer),
            cost,
        });
    }
    let read: PackageAnswer = serde_json::from_str(answer.get()).map_err(|_| {
        RpcError::new(
            code::NODE,
            "the node's answer about the package cannot be read",
        )
    })?;
    let errors: Vec<Value> = read
        .results
        .values()
        .filter_map(|result| {
            let error = result.error.as_ref()?;
            Some(json!({"txid": result.txid, "error": error}))
        })
        .collect();
    let mut result = json!({"success": read.package_msg == "success"});
    if !errors.is_empty() {
        result["errors"] = Value::Array(errors);
    }
    Ok(Reply {
        json: Json::of(&result),
        cost,
    })
}

/// What `testmempoolaccept` answers for one transaction.
#[derive(Deserialize)]
struct Tested {
    txid: String,
    wtxid: String,
    #[serde(default)]
    allowed: Option<bool>,
    #[serde(rename = "reject-reason", default)]
    reason: Option<String>,
}

pub(super) async fn test_accept(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["raw_txs"], 1)?;
    let txs = args.texts(0, PACKAGE_MAX)?;
    txs.iter().try_for_each(|hex| check_hex(hex))?;
    let answer = ask
        .server
        .node()?
        .test_mempool_accept(&txs, Some(FEE_RATE_MAX))
        .await
        .map_err(|error| match error.rejection() {
            Some(failure) => RpcError::bad(failure.message.clone()),
            None => node_error(error),
        })?;
    let tested: Vec<Tested> = serde_json::from_str(answer.get())
        .map_err(|_| RpcError::new(code::NODE, "the node's answer cannot be read"))?;
    let results: Vec<Value> = tested
        .into_iter()
        .map(|tested| {
            let mut result = json!({"txid": tested.txid, "wtxid": tested.wtxid});
            if let Some(allowed) = tested.allowed {
                result["allowed"] = allowed.into();
            }
            if let Some(reason) = tested.reason {
                result["reason"] = reason.into();
            }
            result
        })
        .collect();
    value(results)
}

async fn look(ask: &Ask<'_>, txid: Txid) -> Result<(u64, Option<i64>), RpcError> {
    let view = ask.server.view()?;
    let sequence = view.sequence();
    let height = ask.server.quick(move || height_of(&view, &txid)).await??;
    Ok((sequence, height))
}

fn only_txid(ask: &Ask<'_>) -> Result<(Txid, OutpointLabel), RpcError> {
    let args = Args::bind(ask.params, ["tx_hash"], 1)?;
    let text = args.text(0)?;
    let txid = read_txid(&text)?;
    let label = OutpointLabel::new(&text, &txid);
    Ok((txid, label))
}

/// 0 for an unconfirmed transaction, whatever its parents.
pub(super) async fn height(ask: &Ask<'_>) -> Answer {
    let (txid, _) = only_txid(ask)?;
    let (_, height) = look(ask, txid).await?;
    value(height.ok_or_else(unknown)?.max(0))
}

pub(super) async fn confirmed_blockhash(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["tx_hash", "include_header"], 1)?;
    let txid = read_txid(&args.text(0)?)?;
    let with_header = args.flag(1)?;
    let view = ask.server.view()?;
    let read_view = Arc::clone(&view);
    let block = ask
        .server
        .quick(move || read_view.confirming_block(&txid))
        .await??
        .ok_or_else(|| RpcError::bad(format!("tx {txid} is not confirmed")))?;
    let mut answer = json!({"block_hash": block.hash, "block_height": block.height});
    if with_header && let Some(header) = view.header_bytes_at(block.height)? {
        answer["block_header"] = header.to_lower_hex_string().into();
    }
    value(answer)
}

pub(super) async fn subscribe(ask: &Ask<'_>) -> Answer {
    let (txid, label) = only_txid(ask)?;
    let topic = Topic::Transaction(txid);
    ask.server.view()?;
    ask.server.begin_watching(ask.session, topic)?;
    let is_new = ask
        .server
        .transactions
        .watch(&txid, &ask.session.wake, label);
    match look(ask, txid).await {
        Ok((view, height)) => {
            // The children of one that is unconfirmed do not matter here.
            let height = height.map(|height| height.max(0));
            ask.server
                .transactions
                .answered(&txid, &ask.session.wake, view, height);
            value(height)
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
    let (txid, _) = only_txid(ask)?;
    value(
        ask.server
            .stop_watching(ask.session, &Topic::Transaction(txid)),
    )
}
